"""Sections that channels over HTTP share, and how one becomes an endpoint."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from types import MappingProxyType
from urllib.parse import urlsplit

from pydantic import SecretStr

from monitor.errors import ConfigError
from monitor.header_fields import problem_of_fields
from monitor.sending.endpoint import Endpoint
from monitor.settings.section import Duration, Section, authorities, needed_secret


class Destination(Section):
    """Where alerts are sent over HTTP, whatever its address is."""

    timeout: Duration = timedelta(seconds=10)
    """For one attempt, from connecting to the last byte."""
    ca_file: Path | None = None
    """PEM file of the authorities to trust instead of the system's."""
    link: str | None = None
    """Where people look at alerts, such as `https://monitor.example.org/alerts/{alert_id}`."""


class SecretAddress(Destination):
    """A destination whose address may itself be a secret, so it can come from a file and is never logged."""

    url: SecretStr | None = None
    """`https://host/path`."""
    url_file: Path | None = None
    """A file that holds it, for addresses that are secret."""


def secret_endpoint(config: SecretAddress, name: str, *, headers: Mapping[str, str] = MappingProxyType({})) -> Endpoint:
    """Return the endpoint of the channel called `name`.

    Raises:
        ConfigError: there is no usable URL, or a file cannot be read.
    """
    url = needed_secret(config.url, config.url_file, "url", place(name))
    return endpoint(config, name, url=url, headers=headers)


def endpoint(config: Destination, name: str, *, url: str, headers: Mapping[str, str]) -> Endpoint:
    """Return the endpoint at `url` of the channel called `name`.

    Raises:
        ConfigError: the URL is not one, a header cannot be sent, or `ca_file` cannot be read.
    """
    where = place(name)
    if urlsplit(url).scheme not in {"http", "https"} or not urlsplit(url).hostname:
        raise ConfigError("not an http:// or https:// address", where=f"{where}: url")
    if any(character.isspace() for character in url):
        raise ConfigError("has white space within; give one address", where=f"{where}: url")
    if problem := problem_of_fields(headers):
        raise ConfigError(problem[1], where=": ".join(filter(None, (f"{where}: headers", problem[0]))))
    trust = authorities(config.ca_file, f"{where}: ca_file")
    return Endpoint(where=where, url=url, headers=headers, timeout=config.timeout, trust=trust)


def place(name: str) -> str:
    """Return how errors name a channel."""
    return f"channel {name!r}"


def alert_link(template: str | None, alert_id: str) -> str:
    """Return the web page about an alert, "" without a template.

    >>> alert_link("https://monitor.example.org/alerts/{alert_id}", "a1")
    'https://monitor.example.org/alerts/a1'
    """
    return (template or "").replace("{alert_id}", alert_id)
