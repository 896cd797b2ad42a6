"""The section of a `kafka` collector: which topics of which cluster, how they are read, and with what patience."""

from __future__ import annotations

import re
from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Literal, TypeAlias

from pydantic import BeforeValidator, Field, SecretStr, model_validator

from monitor.settings.section import Duration, Section, duration

Encoding: TypeAlias = Literal["auto", "otlp_proto", "otlp_json", "turns"]
Signal: TypeAlias = Literal["auto", "traces", "logs"]

_MEBIBYTE = 1024 * 1024
_TOPIC_NAME = re.compile(r"[A-Za-z0-9._-]{1,249}")


def _servers(value: object) -> object:
    """Kafka's own `host:port,host:port` and a list are the same."""
    return tuple(part.strip() for part in value.split(",")) if isinstance(value, str) else value


def _topics(value: object) -> object:
    """A list of names is a mapping in which no name has options."""
    if isinstance(value, list | tuple):
        if len(set(map(str, value))) < len(value):
            raise ValueError("a topic is named twice")
        return {str(name): {} for name in value}
    if isinstance(value, Mapping):
        return {name: {} if options is None else options for name, options in value.items()}
    raise ValueError("expected a list of names, or a mapping of names to their options")


def _start(value: object) -> object:
    if value in {"earliest", "latest"}:
        return None if value == "earliest" else timedelta(0)
    if value is None:
        return value
    try:
        return duration(value)
    except ValueError:
        raise ValueError('expected "earliest", "latest", or an age with a unit such as "2h"') from None


class Topic(Section):
    """How the records of one topic are read."""

    encoding: Encoding = "auto"
    """`auto` goes by the record's `content-type` header, else by its first bytes."""
    signal: Signal = "auto"
    """What OTLP records hold; `auto` finds out record by record."""
    app: str | None = None
    """The app of turns that name none; null for the topic's name."""

    @model_validator(mode="after")
    def _signal_of_otlp(self) -> Topic:
        if self.encoding == "turns" and self.signal != "auto":
            raise ValueError(f"signal: {self.signal!r} is of OTLP, and encoding is 'turns'; leave it out")
        return self


class Tls(Section):
    """Encryption; `{}` trusts the system's certificate authorities."""

    ca_file: Path | None = None
    """PEM file of the authorities to trust instead."""
    cert_file: Path | None = None
    """PEM file of the client's certificate, with its chain."""
    key_file: Path | None = None
    """PEM file of its key; null when `cert_file` holds it too."""
    check_hostname: bool = True
    """Whether the certificate must be of the broker's name."""

    @model_validator(mode="after")
    def _certificate_of_key(self) -> Tls:
        if self.key_file is not None and self.cert_file is None:
            raise ValueError("key_file: a key needs cert_file, the certificate it belongs to")
        return self


class Sasl(Section):
    """A user name and a password."""

    mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] = "SCRAM-SHA-512"
    """As the brokers are set up."""
    username: str
    """Who we are."""
    password: SecretStr | None = None
    """Needed here or as `password_file`."""
    password_file: Path | None = None
    """A file that holds it."""


class Config(Section):
    """The section of a `kafka` collector."""

    bootstrap_servers: Annotated[tuple[str, ...], BeforeValidator(_servers), Field(min_length=1)] = ("127.0.0.1:9092",)
    """`host:port` of some brokers; the others are learnt from them."""
    topics: Annotated[Mapping[str, Topic], BeforeValidator(_topics), Field(min_length=1)] = Field(
        default_factory=lambda: {"otlp_spans": Topic()}
    )
    """Names, or names with options."""
    group_id: str = Field(default="rag-monitor", min_length=1)
    """Monitors with the same group share the partitions, and go on where the group stopped."""
    client_id: str = Field(default="rag-monitor", min_length=1)
    """Names this client in the brokers' logs and quotas."""
    start_from: Annotated[timedelta | None, BeforeValidator(_start)] = None
    """Where a partition begins that the group has never read: `earliest` (null), `latest` for what is written from the
    monitor's start on, or what is of up to this age then."""
    dead_letter: str | None = None
    """Topic that records which cannot be read are copied to; null to count them only."""
    max_record: int = Field(default=20 * _MEBIBYTE, gt=0)
    """Bytes of one record's value; a longer one counts as unreadable."""
    max_records: int = Field(default=500, gt=0)
    """Records taken from the client at once."""
    max_batch: int = Field(default=4 * _MEBIBYTE, gt=0)
    """Bytes of records that are made durable at once, if more than one."""
    session_timeout: Duration = timedelta(seconds=45)
    """A monitor that the group has not heard of for this long loses its partitions to the others."""
    max_poll_interval: Duration = timedelta(minutes=5)
    """The longest that a rebalance waits for one of its members."""
    request_timeout: Duration = timedelta(seconds=15)
    """After this long without an answer, a request is given up and its connection closed."""
    check_every: Duration = timedelta(seconds=10)
    """How often lag, membership and topics are looked up, which is how a silent broker is noticed."""
    reopen_after: Duration = timedelta(seconds=60)
    """After this long without an answer from the cluster, another consumer is opened through `bootstrap_servers`."""
    tls: Tls | None = None
    """Null for no encryption."""
    sasl: Sasl | None = None
    """Null for no authentication but the TLS certificate's."""

    @model_validator(mode="after")
    def _names(self) -> Config:
        for name in (*self.topics, *([self.dead_letter] if self.dead_letter is not None else [])):
            if not _TOPIC_NAME.fullmatch(name) or name in {".", ".."}:
                raise ValueError(f"topic {name!r}: expected up to 249 letters, digits, '.', '_' and '-'")
        if self.dead_letter in self.topics:
            raise ValueError(
                f"dead_letter: {self.dead_letter!r} is one of the topics; unreadable records would be copied for ever"
            )
        return self

    @model_validator(mode="after")
    def _times(self) -> Config:
        if not timedelta(seconds=1) <= self.request_timeout < timedelta(minutes=9):
            raise ValueError(f"request_timeout ({self.request_timeout}) must be at least 1s and less than 9m")
        if self.session_timeout > self.max_poll_interval:
            raise ValueError(
                f"session_timeout ({self.session_timeout}) is longer than max_poll_interval ({self.max_poll_interval})"
            )
        if self.check_every > self.reopen_after:
            raise ValueError(f"check_every ({self.check_every}) is longer than reopen_after ({self.reopen_after})")
        return self
