"""Straight into the database of a monitor, which then needs to be reachable only through it."""

from __future__ import annotations

import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

from sqlalchemy import make_url
from sqlalchemy.exc import ArgumentError

from monitor.errors import ConfigError, StoreUnavailable
from monitor.payloads.otlp.fragments import OtlpSignal, split_otlp
from monitor.store.sql_store import SqlStore, open_store

_QUIET_WITHIN = 1.0
"""Seconds that a fork may have to wait for a write under way."""


class StoreSender:
    """Appends what requests hold to the store, as the monitor's own intake would."""

    def __init__(self, url: str, signal: OtlpSignal, *, patience: timedelta) -> None:
        """Check the address; nothing is opened yet.

        Raises:
            ConfigError: it is no URL of a store.
        """
        try:
            parsed = make_url(url)
        except ArgumentError:
            parsed = None
        if parsed is None or parsed.get_backend_name() not in {"sqlite", "postgresql", "postgres"}:
            raise ConfigError(
                "expected a URL such as sqlite:////var/lib/rag-monitor/rag-monitor.db "
                "or postgresql+psycopg://user:password@host/database",
                where="exporter store",
            )
        self._sqlite = Path(parsed.database or "") if parsed.get_backend_name() == "sqlite" else None
        self._url, self._signal, self._patience = url, signal, patience
        self.place = str(self._sqlite) if self._sqlite else f"{parsed.host or 'local'}/{parsed.database}"
        self._writing = threading.Lock()
        self._quiet = False
        self._forbidden = False
        self._store: SqlStore | None = None

    def send(self, body: bytes, *, timeout: float) -> int:  # noqa: ARG002 -- `patience` bounds each wait for a lock
        """As `Sender.send`."""
        split = split_otlp(body, self._signal, received_at=datetime.now(UTC), encoding="protobuf")
        with self._writing:
            self._opened().append(split.fragments)
        return split.rejected

    def close(self) -> None:
        """As `Sender.close`."""
        store, self._store = self._store, None
        if store is not None:
            store.close()

    def before_fork(self) -> None:
        """As `Forking`: neither SQLite's files nor PostgreSQL's connections survive in a copy.

        https://sqlite.org/howtocorrupt.html, section 2.6.
        """
        self._quiet = self._writing.acquire(timeout=_QUIET_WITHIN)
        if self._quiet:
            self.close()

    def after_fork_in_parent(self) -> None:
        """As `Forking`."""
        if self._quiet:
            self._writing.release()

    def after_fork_in_child(self) -> None:
        """As `Forking`: where a write could not be waited for, the child must never open the store."""
        self._forbidden = self._forbidden or not self._quiet
        self._writing = threading.Lock()

    def _opened(self) -> SqlStore:
        if self._forbidden:
            raise ConfigError("forked while the store was being written; make the exporter in the child instead")
        if self._store is None:
            # SQLite would make an empty file of a database that the monitor has yet to make.
            if self._sqlite is not None and not self._sqlite.exists():
                raise StoreUnavailable(f"{self._sqlite}: no such database yet", reason="unreachable")
            store = open_store(self._url, migrate=False, patience=self._patience)
            try:
                store.check()
            except BaseException:
                store.close()
                raise
            self._store = store
        return self._store
