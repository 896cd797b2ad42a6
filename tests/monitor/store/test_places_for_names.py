"""Names of a store that was made before there were places for them."""

from __future__ import annotations

from contextlib import closing
from datetime import UTC, datetime, timedelta

from old_schema import migrate_to
from sqlalchemy import create_engine, text

from monitor.store.columns import microseconds
from monitor.store.migration import migrate
from monitor.store.sql_store import open_store

COUNTS = ("turns", "sampled", "pending", "n", "k", "proxied", "input_tokens", "output_tokens")
SUMS = (
    "sw", "sw2", "swx", "sw2x", "sws", "sws2", "f", "f2", "swf", "swf2", "swxf", "sw2f", "sw2f2", "sw2xf", "cost_usd",
)  # fmt: skip
OLD_WINDOW = f"""
    INSERT INTO rollups (app, environment, slice, metric, rubric_id, release, window_start, length, unscored, histogram,
        weighted_histogram, {", ".join((*COUNTS, *SUMS))})
    VALUES (:app, :environment, '', :metric, 'r', :release, :start, 3600000000, '{{}}', '{{}}', '{{}}',
        {", ".join("0" for _ in (*COUNTS, *SUMS))})
"""  # noqa: S608 -- names of ours


def test_names_of_an_older_version(url: str) -> None:
    """Those of the last month's windows have a place, as many as there are; those of long ago have none."""
    now = datetime.now(UTC)
    engine = create_engine(url)
    with engine.begin() as connection:
        migrate_to("0016", connection)
        for metric in ("relevance", "safety"):
            for app, environment, release, age in (
                ("shop", "production", "1", 20), ("shop", "production", "2", 10), ("bot", "", "", 1),
                ("old", "", "", 40),
            ):  # fmt: skip
                start = microseconds(now - timedelta(days=age))
                values = {"app": app, "environment": environment, "metric": metric, "release": release, "start": start}
                connection.execute(text(OLD_WINDOW), values)
    engine.dispose()
    migrate(url)
    with closing(open_store(url, migrate=False)) as store:
        uses = {use.kind: (use.count, use.refused_at) for use in store.names.in_use(now=now)}
    assert {"app": (2, None), "environment": (1, None), "release": (2, None)} == uses
