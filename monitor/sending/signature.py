"""Signatures of what is posted, by which a receiver knows the sender and that nothing is replayed or changed.

Source: Standard Webhooks 1.0.0 (github.com/standard-webhooks/standard-webhooks, spec), symmetric scheme `v1`.
"""

from __future__ import annotations

import binascii
import hashlib
import hmac
from base64 import b64decode, b64encode
from collections.abc import Mapping
from datetime import datetime

from monitor.errors import ConfigError

_PREFIX = "whsec_"
_SHORTEST, _LONGEST = 24, 64


def signing_key(secret: str, where: str) -> bytes:
    """Return the key in a secret as the standard writes it: `whsec_` and 24 to 64 bytes in base64.

    Raises:
        ConfigError: it is written otherwise; the message does not repeat it.
    """
    try:
        key = b64decode(secret.removeprefix(_PREFIX), validate=True)
    except binascii.Error:
        key = b""
    if not secret.startswith(_PREFIX) or not _SHORTEST <= len(key) <= _LONGEST:
        raise ConfigError(
            "expected whsec_ and 24 to 64 bytes in base64, as `echo whsec_$(openssl rand -base64 32)` prints",
            where=where,
        )
    return key


def signature_headers(key: bytes, message_id: str, body: bytes, *, now: datetime) -> Mapping[str, str]:
    """Return the headers that go with a body; `message_id` is the same in each attempt, the time is not.

    >>> key = signing_key("whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw", "")
    >>> at = datetime.fromtimestamp(1614265330).astimezone()
    >>> signature_headers(key, "msg_p5jXN8AQM9LWM0D4loKWxJek", b'{"test": 2432232314}', now=at)["webhook-signature"]
    'v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE='
    """
    timestamp = str(int(now.timestamp()))
    signed = b".".join((message_id.encode(), timestamp.encode(), body))
    signature = b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    return {"webhook-id": message_id, "webhook-timestamp": timestamp, "webhook-signature": f"v1,{signature}"}
