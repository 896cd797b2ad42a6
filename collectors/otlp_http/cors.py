"""Cross-origin requests: which web pages may send; by default none (https://fetch.spec.whatwg.org/#http-cors-protocol)."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

_MAX_AGE_SECONDS = b"7200"
"""How long a browser may remember the answer; it is the longest that Chromium accepts."""

Headers = tuple[tuple[bytes, bytes], ...]


class Origins:
    """Answers browsers. An entry is an origin such as `https://chat.example.org`; a `*` in it stands for any text."""

    def __init__(self, allowed: Sequence[str]) -> None:
        self._patterns = tuple(map(_pattern, allowed))

    def preflight(self, method: str, fields: Mapping[bytes, bytes]) -> Headers | None:
        """Return the headers of the answer to a preflight request from an allowed page; None for any other request."""
        wanted = fields.get(b"access-control-request-method")
        if method != "OPTIONS" or wanted is None or not (shared := self.shared(fields)):
            return None
        return (
            *shared,
            (b"access-control-allow-methods", b"POST"),
            # Whichever a page wants to send does no harm: nothing but Authorization is looked at.
            (b"access-control-allow-headers", fields.get(b"access-control-request-headers", b"content-type")),
            (b"access-control-max-age", _MAX_AGE_SECONDS),
        )

    def shared(self, fields: Mapping[bytes, bytes]) -> Headers:
        """Return the headers that let an allowed page read our answer; none for other senders."""
        origin = fields.get(b"origin")
        if origin is None or not any(pattern.fullmatch(origin) for pattern in self._patterns):
            return ()
        # Browsers' sendBeacon, with which OpenTelemetry for JavaScript may send, always sends with credentials.
        return (
            (b"access-control-allow-origin", origin),
            (b"access-control-allow-credentials", b"true"),
            (b"vary", b"Origin"),
        )


def _pattern(origin: str) -> re.Pattern[bytes]:
    """What stands between two `*` is taken where it first comes, which is as good as anywhere: headers may be long."""
    first, *others = map(re.escape, origin.split("*"))
    between = "".join(f"(?>.*?{part})" for part in others[:-1])
    end = f".*{others[-1]}" if others else ""
    return re.compile(f"{first}{between}{end}".encode(), re.IGNORECASE)
