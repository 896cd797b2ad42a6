"""Consumers and producers, opened so that a failure leaves nothing behind and no topic is created by asking for it."""

from __future__ import annotations

import ssl
import threading
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Literal, TypeAlias, cast

from kafka import KafkaConsumer, KafkaProducer
from kafka.coordinator.assignors.cooperative_sticky import (
    CooperativeStickyAssignor,
)

from collectors.kafka.client_types import (
    Answer,
    AsyncConsumerRebalanceListener,
    Client,
    Consumer,
    MemberState,
    Producer,
    errors,
)
from collectors.kafka.settings import Config, Sasl, Tls
from monitor.errors import ConfigError
from monitor.settings.renewed_files import renewed
from monitor.settings.section import secret

Protocol: TypeAlias = Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]

_BOOTSTRAP = timedelta(seconds=5)
_CLOSE = timedelta(seconds=2)
_RECONNECT_AT_MOST = timedelta(seconds=5)
_HEARTBEAT_AT_MOST = timedelta(seconds=3)
_FRAME_OVERHEAD = 64 * 1024
_FETCH_WAIT = timedelta(milliseconds=250)
"""For records; the broker answers nothing else on the connection meanwhile, such as how far its partitions reach."""
_FETCH_BYTES = 16 * 1024 * 1024
"""Of compressed records that one broker sends at once; kafka-python's own 50 MB may unpack to ten times that."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Security:
    """What it takes to be let in, read and checked."""

    protocol: Protocol
    context: ssl.SSLContext | None = None
    mechanism: str | None = None
    username: str | None = None
    password: str | None = field(default=None, repr=False)


def security(config: Config) -> Security:
    """Return what `tls` and `sasl` say, with their files read.

    Raises:
        ConfigError: a file cannot be read or used, or the password is missing.
    """
    context = None if config.tls is None else _context(config.tls)
    if config.sasl is None:
        return Security(protocol="PLAINTEXT" if context is None else "SSL", context=context)
    return Security(
        protocol="SASL_PLAINTEXT" if context is None else "SASL_SSL",
        context=context,
        mechanism=config.sasl.mechanism,
        username=config.sasl.username,
        password=_password(config.sasl),
    )


def renewed_security(config: Config) -> Callable[[], Security]:
    """Return what gives what `tls` and `sasl` say now: their files are read again when they change.

    Raises:
        ConfigError: as `security`.
    """
    tls = () if config.tls is None else (config.tls.ca_file, config.tls.cert_file, config.tls.key_file)
    sasl = () if config.sasl is None else (config.sasl.password_file,)
    return renewed((*tls, *sasl), partial(security, config), "kafka")


@dataclass(frozen=True, slots=True)
class Connection:
    """A consumer, and the client below it."""

    consumer: Consumer
    client: Client

    def topics(self, timeout: timedelta) -> Collection[str]:
        """Return the names of all topics that we may know of.

        Raises:
            KafkaTimeoutError: no broker answered within `timeout`.
        """
        # KafkaConsumer.topics() asks the same, but for ever while no broker can be reached.
        cluster = self.client.cluster
        cluster.need_all_topic_metadata = True
        try:
            # Twice, for the first answer may be to a question that was under way.
            for _ in range(2):
                if not _succeeds(cluster.request_update(), timeout):
                    raise errors.KafkaTimeoutError("looking up the topics")
        finally:
            cluster.need_all_topic_metadata = False
        return cluster.topics()

    def subscribe(self, topics: Sequence[str], listener: AsyncConsumerRebalanceListener, *, timeout: timedelta) -> None:
        """Subscribe, and have the topics looked up before the group is joined.

        A leader that hears of partitions only then joins twice; and if that is when a `poll` times out, kafka-python
        3.0.12 forgets about the second time. See `rebalancing`.

        Raises:
            KafkaTimeoutError: no broker answered within `timeout`.
        """
        self.consumer.subscribe(topics, listener=listener)
        if not _succeeds(self.client.cluster.request_update(), timeout):
            raise errors.KafkaTimeoutError("looking up the topics")

    def rebalancing(self) -> bool:
        """Return whether a rebalance is under way, or was forgotten; `poll` returns no records but in the latter case.

        Then kafka-python reads on, at full speed even when there is nothing to read, without heartbeats, and unable to
        commit, while the partitions go to others.
        """
        return self.consumer.group_metadata().state == MemberState.REBALANCING


@contextmanager
def consumer(config: Config, security: Security) -> Iterator[Connection]:
    """Yield a consumer that has found the cluster and joined no group yet.

    Raises:
        KafkaError: no broker answers, or none lets us in.
    """
    with _closing_clients() as clients:
        session_ms = _ms(config.session_timeout)
        opened = cast(
            "Consumer",
            KafkaConsumer(
                kafka_client=clients,
                group_id=config.group_id,
                enable_auto_commit=False,
                # What retention deleted before it was read cannot be had; `start_from` is for new partitions.
                auto_offset_reset="earliest",
                # A sender's aborted transactions are not telemetry.
                isolation_level="read_committed",
                partition_assignment_strategy=[CooperativeStickyAssignor],
                session_timeout_ms=session_ms,
                heartbeat_interval_ms=min(_ms(_HEARTBEAT_AT_MOST), session_ms // 3),
                max_poll_interval_ms=_ms(config.max_poll_interval),
                max_poll_records=config.max_records,
                fetch_max_bytes=_FETCH_BYTES,
                fetch_max_wait_ms=_ms(_FETCH_WAIT),
                metadata_max_age_ms=_ms(config.reopen_after),
                metrics_enabled=False,
                **_shared(config, security),
            ),
        )
        try:
            yield Connection(opened, clients.opened[-1])
        finally:
            with suppress(errors.KafkaError):
                opened.close(autocommit=False, timeout_ms=_ms(_CLOSE))


@contextmanager
def producer(config: Config, security: Security) -> Iterator[Producer]:
    """Yield a producer whose records are acknowledged by all replicas in sync.

    Raises:
        KafkaError: as `consumer`.
    """
    with _closing_clients() as clients:
        opened = cast(
            "Producer",
            KafkaProducer(
                kafka_client=clients,
                acks="all",
                # Needs no permission beyond writing; a copy may come twice.
                enable_idempotence=False,
                max_block_ms=_ms(min(_BOOTSTRAP, config.request_timeout)),
                delivery_timeout_ms=_ms(config.request_timeout) + 1000,
                max_request_size=config.max_record + _FRAME_OVERHEAD,
                metrics_enabled=False,
                **_shared(config, security),
            ),
        )
        try:
            yield opened
        finally:
            with suppress(errors.KafkaError):
                opened.close(timeout=_CLOSE.total_seconds())


class _Clients:
    """Makes the client for one consumer or producer, and keeps hold of it.

    The constructors raise without closing the client they made, whose thread would go on trying for ever; and they
    pass no `allow_auto_create_topics` on to it, so that asking for a topic creates it (kafka-python 3.0.12).
    """

    def __init__(self) -> None:
        self.opened: list[Client] = []

    def __call__(self, **options: object) -> Client:
        make = cast("Callable[..., Client]", KafkaConsumer.DEFAULT_CONFIG["kafka_client"])
        client = make(**options)
        client.cluster.config["allow_auto_create_topics"] = False
        self.opened.append(client)
        return client


@contextmanager
def _closing_clients() -> Iterator[_Clients]:
    clients = _Clients()
    try:
        yield clients
    finally:
        for client in clients.opened:
            client.close()


def _succeeds(answer: Answer, timeout: timedelta) -> bool:
    arrived = threading.Event()
    answer.add_both(lambda _: arrived.set())
    return arrived.wait(timeout.total_seconds()) and answer.succeeded()


def _shared(config: Config, security: Security) -> dict[str, object]:
    return {
        "bootstrap_servers": list(config.bootstrap_servers),
        "bootstrap_timeout_ms": _ms(min(_BOOTSTRAP, config.request_timeout)),
        "client_id": config.client_id,
        "request_timeout_ms": _ms(config.request_timeout),
        "reconnect_backoff_max_ms": _ms(_RECONNECT_AT_MOST),
        "security_protocol": security.protocol,
        "ssl_context": security.context,
        "sasl_mechanism": security.mechanism,
        "sasl_plain_username": security.username,
        "sasl_plain_password": security.password,
    }


def _context(tls: Tls) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=tls.ca_file)
    except OSError as error:
        raise ConfigError(f"cannot use {str(tls.ca_file)!r}: {_why(error)}", where="kafka.tls.ca_file") from None
    context.check_hostname = tls.check_hostname
    if tls.cert_file is not None:
        try:
            # Without a password, OpenSSL would ask the terminal for that of an encrypted key.
            context.load_cert_chain(tls.cert_file, tls.key_file, password="")
        except OSError as error:
            files = " and ".join(repr(str(file)) for file in (tls.cert_file, tls.key_file) if file is not None)
            raise ConfigError(f"cannot use {files}: {_why(error)}", where="kafka.tls.cert_file") from None
    return context


def _why(error: OSError) -> str:
    return "not the PEM that is expected" if isinstance(error, ssl.SSLError) else error.strerror or "unreadable"


def _password(sasl: Sasl) -> str:
    password = secret(sasl.password, sasl.password_file, None, "kafka.sasl.password")
    if password is None:
        raise ConfigError("missing; give it, or password_file", where="kafka.sasl.password")
    return password


def _ms(duration: timedelta) -> int:
    return duration // timedelta(milliseconds=1)
