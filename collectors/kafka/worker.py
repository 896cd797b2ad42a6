"""The thread that owns the Kafka client: opens a consumer, reads, and opens another one whatever happened."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import timedelta

from collectors.kafka import client
from collectors.kafka.client import Connection, Security
from collectors.kafka.client_types import errors
from collectors.kafka.dead_letters import DeadLetters
from collectors.kafka.failures import (
    Failure,
    ReopenError,
    absence_reason,
    failure_of,
    missing_codecs,
    unreachable_reason,
)
from collectors.kafka.liveness import PATIENCE
from collectors.kafka.session import Put, Session
from collectors.kafka.settings import Config
from collectors.kafka.shutdown import Shutdown
from collectors.kafka.status import Status
from monitor.ports import Clock
from monitor.retry import backoff

_log = logging.getLogger(__name__)

_AT_ONCE, _SHORTEST_PAUSE = timedelta(0), timedelta(seconds=1)


class Worker:
    """Reads until the shutdown is requested; `status` says what goes wrong meanwhile."""

    def __init__(
        self,
        config: Config,
        security: Callable[[], Security],
        *,
        put: Put,
        status: Status,
        shutdown: Shutdown,
        clock: Clock,
    ) -> None:
        self._config, self._security, self._put = config, security, put
        self._status, self._shutdown, self._clock = status, shutdown, clock
        self._servers = ", ".join(config.bootstrap_servers)
        self._failures = 0
        # From here on, and not from when a partition is met: what a new one holds by then is read.
        self._since = None if config.start_from is None else clock() - config.start_from
        self._dead_letters = (
            None
            if config.dead_letter is None
            else DeadLetters(
                config.dead_letter,
                lambda: client.producer(config, security()),
                status,
                timeout=config.request_timeout + PATIENCE,
            )
        )

    def run(self) -> None:
        """Return when the shutdown is requested."""
        if missing := missing_codecs():
            _log.info(
                "kafka: records compressed with %s cannot be read; install rag-monitor[kafka]", ", ".join(missing)
            )
        while not self._shutdown.requested.is_set():
            self._status.note_alive()
            self._shutdown.requested.wait(self._once().total_seconds())
        if self._dead_letters is not None:
            self._dead_letters.close()
        self._status.note_end()

    def _once(self) -> timedelta:
        """Open a consumer and read until something is wrong; return how long to wait before the next time."""
        security = self._security()
        try:
            # kafka-python would try for as long as it may, and then not say what went wrong.
            if reason := unreachable_reason(self._config.bootstrap_servers, security.context):
                return self._silent(reason)
            with client.consumer(self._config, security) as connection:
                self._status.count_opening()
                return self._read(connection)
        except ReopenError as reason:
            _log.info("kafka: opening another consumer: %s", reason)
            return _AT_ONCE
        except errors.KafkaError as error:
            failure = failure_of(error)
            if failure is None:
                # kafka-python 3.0.12 does not read the refusal, since the broker hangs up behind it.
                doubt = "; the user name or the password may be wrong" if security.mechanism else ""
                return self._silent(f"brokers accept connections but do not answer{doubt}")
        except Exception as error:  # noqa: BLE001 -- the thread must outlive a fault of kafka-python's or ours
            # Without its text, which may quote a record.
            _log.error("kafka: an internal error, reading goes on: %s", type(error).__name__)
            failure = Failure(problem="client", reason=type(error).__name__, retry_after=timedelta(seconds=1))
        return self._failed(failure)

    def _read(self, connection: Connection) -> timedelta:
        names = connection.topics(PATIENCE)
        self._status.note_answer()
        present = tuple(topic for topic in self._config.topics if topic in names)
        absent = [topic for topic in self._config.topics if topic not in names]
        self._report_absent(absent)
        if self._dead_letters is not None:
            self._dead_letters.check_topic(names)
            absent += [self._dead_letters.topic] if self._dead_letters.missing else []
        if not present:
            return self._config.check_every
        session = Session(
            connection,
            self._config,
            topics=present,
            absent=absent,
            put=self._put,
            dead_letters=self._dead_letters,
            status=self._status,
            shutdown=self._shutdown,
            clock=self._clock,
            since=self._since,
        )
        try:
            session.run()
        finally:
            if session.liveness.answered:
                self._failures = 0
        return _AT_ONCE

    def _report_absent(self, absent: list[str]) -> None:
        if absent:
            self._status.report("topics", absence_reason(absent))
        else:
            self._status.clear("topics")

    def _failed(self, failure: Failure) -> timedelta:
        self._status.count_failure(failure.problem)
        self._status.report(failure.problem, failure.reason)
        return max(failure.retry_after, self._pause())

    def _silent(self, reason: str) -> timedelta:
        self._status.count_failure("broker")
        self._status.note_silence(self._servers, reason)
        return self._pause()

    def _pause(self) -> timedelta:
        self._failures += 1
        return backoff(self._failures, first=_SHORTEST_PAUSE, longest=self._config.check_every)
