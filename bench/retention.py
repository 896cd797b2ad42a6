"""Rows per second that retention deletes while fragments arrive at a steady rate, and what that does to their commits.

python bench/retention.py
python bench/retention.py --store postgresql+psycopg://user:password@host/empty_database
"""

import argparse
import hashlib
import itertools
import secrets
import tempfile
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from statistics import quantiles

from monitor.model.spans import Assembly, Fragment
from monitor.store.sql_store import SqlStore, open_store

SPANS_PER_FRAGMENT, BYTES_PER_SPAN, AT_ONCE = 3, 3500, 100
OLD = datetime(2026, 3, 1, tzinfo=UTC)
YOUNG = OLD + timedelta(days=1)


def fragments(at: datetime) -> Iterator[Fragment]:
    """Fragments of a trace each, that do not compress."""
    body = secrets.token_bytes(SPANS_PER_FRAGMENT * BYTES_PER_SPAN)
    while True:
        payload = secrets.token_bytes(16) + body
        digest = hashlib.blake2b(payload, digest_size=16)
        yield Fragment(
            trace_id=digest.hexdigest(),
            signal="traces",
            payload=payload,
            count=SPANS_PER_FRAGMENT,
            received_at=at,
            digest=digest.digest(),
        )


def fill(store: SqlStore, count: int) -> None:
    """Store assembled fragments that are too old."""
    source = fragments(OLD)
    for _ in range(count // AT_ONCE):
        batch = tuple(itertools.islice(source, AT_ONCE))
        store.append(batch)
        store.replace_turns([Assembly(trace_id=f.trace_id, through=2**60, turns=()) for f in batch], now=OLD)


def arrive(store: SqlStore, spans_per_second: float, stop: threading.Event, seconds: list[float]) -> None:
    """Store fragments at a steady rate, and note how long each commit took."""
    source, every = fragments(YOUNG), AT_ONCE * SPANS_PER_FRAGMENT / spans_per_second
    due = time.monotonic()
    while not stop.is_set():
        began = time.monotonic()
        store.append(tuple(itertools.islice(source, AT_ONCE)))
        seconds.append(time.monotonic() - began)
        due += every
        stop.wait(max(0.0, due - time.monotonic()))


def measure(store: SqlStore, *, count: int, spans_per_second: float) -> None:
    """Print how fast the old fragments go while young ones come."""
    fill(store, count)
    stop, seconds = threading.Event(), list[float]()
    writer = threading.Thread(target=arrive, args=(store, spans_per_second, stop, seconds))
    writer.start()
    began, deleted = time.monotonic(), 0
    while rows := store.kept_text.prune(text_before=YOUNG, fragments_before=YOUNG, limit=1000):
        deleted += rows
    took = time.monotonic() - began
    stop.set()
    writer.join()
    arriving = spans_per_second / SPANS_PER_FRAGMENT
    slowest = quantiles(seconds, n=20)[-1] if len(seconds) > 1 else seconds[0]
    print(f"{deleted:,} rows in {took:.1f} s: {deleted / took:,.0f} rows/s deleted, {arriving:,.0f} rows/s arriving")
    print(
        f"of each minute {60 * arriving * took / deleted:.1f} s; commits meanwhile: 95 % within {slowest * 1000:.0f} ms"
    )


def main() -> None:
    """Measure on the given database, else on a SQLite file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--store", help="URL of an empty database; default: a SQLite file")
    parser.add_argument("--rows", type=int, default=30_000, help="old fragments")
    parser.add_argument("--spans-per-second", type=float, default=2000.0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(given.store or f"sqlite:///{Path(folder) / 'bench.db'}")
        measure(store, count=given.rows, spans_per_second=given.spans_per_second)
        store.close()


if __name__ == "__main__":
    main()
