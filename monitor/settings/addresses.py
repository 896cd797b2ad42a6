"""Addresses that people set, looked at when the settings are read; no message repeats anything of them."""

from __future__ import annotations

from typing import Annotated, TypeAlias
from urllib.parse import urlsplit

from pydantic import AfterValidator


def endpoint_address(value: str | None) -> str | None:
    """Return an address that a judge can be asked at, as it is; None for no text.

    Raises:
        ValueError: it is none, or holds what belongs elsewhere; the message repeats nothing of it.
    """
    if not value:
        return None
    allowed = "expected http:// or https://, a host and a path, such as http://127.0.0.1:11434/v1"
    try:
        parts = urlsplit(value)
        whole = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        raise ValueError(allowed) from None
    # A password that is not encoded may have a `/` in it, and would else be taken for a path.
    if "@" in value:
        raise ValueError("an address with a user or password in it; give the key as api_key or api_key_file")
    if not whole or parts.fragment:
        raise ValueError(allowed)
    return value


def grafana_address(value: str | None) -> str | None:
    """Return the address of Grafana, as it is; None for no text.

    Raises:
        ValueError: it is none, or its user or password is not encoded; the message repeats nothing of it.
    """
    if not value:
        return None
    allowed = "expected http(s)://host[:port][/path] without a query"
    try:
        parts = urlsplit(value)
        whole = parts.scheme in {"http", "https"} and bool(parts.hostname) and parts.port != 0
    except ValueError:
        raise ValueError(allowed) from None
    if value.count("@") != parts.netloc.count("@") or value.count("@") > 1:
        raise ValueError("holds an `@` that does not end user and password; in them write @ / ? # as %40 %2F %3F %23")
    if not whole or parts.query or parts.fragment:
        raise ValueError(allowed)
    return value


EndpointAddress: TypeAlias = Annotated[str | None, AfterValidator(endpoint_address)]
GrafanaAddress: TypeAlias = Annotated[str | None, AfterValidator(grafana_address)]
