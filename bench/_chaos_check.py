"""What bench/chaos.py holds the monitor to, looked at from outside: by SQL, by its commands, by what the stubs saw."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import psycopg
from _chaos_senders import Turn
from _chaos_stubs import Delivery
from _chaos_system import ROOT
from json_schema import faults as schema_faults

_WAITING = {
    "fragments": "SELECT count(*) FROM unassembled",
    "undecided turns": "SELECT count(*) FROM turns WHERE decided_at IS NULL",
    "jobs": "SELECT count(*) FROM jobs",
    "changed windows": "SELECT count(*) FROM changed_windows",
    "unsent messages": "SELECT count(*) FROM notifications WHERE sent_at IS NULL",
    "work under way": "SELECT count(*) FROM under_way",
}
_PER_TURN = """
SELECT count(*) FROM turns LEFT JOIN
  (SELECT turn_id, count(*) FILTER (WHERE metric = 'relevance') AS whole, count(*) - count(DISTINCT metric) AS more
   FROM outcomes GROUP BY turn_id) AS o
USING (turn_id) WHERE coalesce(whole, 0) <> 1 OR coalesce(more, 0) <> 0
"""
"""Turns without one outcome of the metric that all are sampled for, or with two of one metric."""
_ALERTS = "SELECT alert_id, firing_at IS NOT NULL, resolved_at IS NOT NULL FROM alerts"
_TOO_MANY = 8
"""Faults of one kind that are named; the rest are counted."""


def waiting(connection: psycopg.Connection[tuple[object, ...]]) -> dict[str, int]:
    """Return how many rows wait for a stage, those of none left out."""
    counts = {name: int(str(connection.execute(sql).fetchone()[0])) for name, sql in _WAITING.items()}  # type: ignore[index]
    return {name: count for name, count in counts.items() if count}


def stuck(connection: psycopg.Connection[tuple[object, ...]]) -> list[str]:
    """Return a line for each job, lease or message that still waits, with its times."""
    later = "({} - extract(epoch FROM now()) * 1e6) / 1e6"
    claimable, leased, expires, due, received = (
        later.format(column) for column in ("claimable_at", "leased_until", "expires_at", "not_before", "received_at")
    )
    queries = (
        f"SELECT 'job', turn_id, metric, attempt, failures, {claimable}, {leased} FROM jobs LIMIT 8",  # noqa: S608
        f"SELECT 'lease', name, holder, {expires} FROM leases",  # noqa: S608 -- as above: names of columns
        f"SELECT 'message', alert_id, transition, attempt, {due} FROM notifications WHERE sent_at IS NULL",  # noqa: S608
        "SELECT 'under way', * FROM under_way LIMIT 8",
        f"SELECT 'fragment', trace_id, position, {received} FROM unassembled LIMIT 8",  # noqa: S608
    )
    return [" ".join(map(str, row)) for query in queries for row in connection.execute(query)]


def command(url: str, *arguments: str) -> list[dict[str, Any]]:
    """Return what `rag-monitor` prints as JSON lines."""
    program = Path(sys.executable).with_name("rag-monitor")
    ended = subprocess.run(
        [program, *arguments, "--store", url, "--format", "jsonl"], check=False, capture_output=True, text=True
    )
    assert ended.returncode == 0, f"rag-monitor {arguments} ended with {ended.returncode}:\n{ended.stderr}"
    return [json.loads(line) for line in ended.stdout.splitlines()]


def turn_faults(
    sent: Mapping[int, Turn], acknowledged: set[int], uncertain: set[int], lines: Sequence[dict[str, Any]]
) -> Iterator[str]:
    """Yield what is lost, doubled or false among turns, as `rag-monitor turns` shows them."""
    known = {turn.canary: turn for turn in sent.values()}
    seen = Counter(re.sub(r"\D*(\d+)\D*", r"canary-\1", line["query"] or "") for line in lines)
    for number in sorted(acknowledged):
        turn = sent[number]
        if (count := seen[turn.canary]) != 1 and not (count and number in uncertain):
            yield f"{turn.canary} ({turn.way}) was acknowledged and is there {count} times"
    for line in lines:
        turn = known.get(re.sub(r"\D*(\d+)\D*", r"canary-\1", line["query"] or ""))  # type: ignore[assignment]
        if turn is None:
            yield f"turn {line['turn_id']} is of no question that was sent"
            continue
        citations = 1 if turn.way == "turns" else 2
        found = (line["query"], line["response"], line["app"], len(line["citations"] or ()))
        if found != (turn.question, turn.answer, turn.app, citations):
            yield f"{turn.canary} ({turn.way}) is not whole: {found}"
        for metric, outcome in line["outcomes"].items():
            if outcome["reason"] is None and outcome["defect"] is not turn.bad:
                yield f"{turn.canary} has the verdict {outcome} of {metric}, which is another turn's"


def identity_faults(stored: Sequence[dict[str, Any]], lines: Sequence[dict[str, Any]], turns: int) -> Iterator[str]:
    """Yield where `rag-monitor trends` does not account for each turn."""
    totals: Counter[tuple[str, str]] = Counter()
    for line in lines:
        parts = line["scored"] + line["pending"] + line["not_sampled"] + line["not_asked"]
        parts += sum(line["unscored"].values())
        name = f"{line['app']} {line['metric']} from {line['start']}"
        if line["turns"] != parts:
            yield f"{name}: {line['turns']} turns, {parts} accounted for"
        if line["pending"]:
            yield f"{name}: {line['pending']} pending"
        totals[line["app"], line["metric"]] += line["turns"]
    by_app = Counter(line["app"] for line in stored)
    for (app, metric), count in totals.items():
        if count != by_app[app]:
            yield f"{app} {metric}: {count} turns in trends, {by_app[app]} stored"
    if turns != len(stored):
        yield f"{turns} turns stored, {len(stored)} printed"


def alert_faults(
    alerts: Sequence[tuple[object, ...]], shown: Sequence[dict[str, Any]], deliveries: Sequence[Delivery]
) -> Iterator[str]:
    """Yield what was not told, not marked, or told in the wrong order."""
    taken = [delivery.key for delivery in deliveries if delivery.taken]
    ids = {line["alert_id"] for line in shown}
    for alert_id, fired, resolved in alerts:
        if alert_id not in ids:
            yield f"alert {alert_id} is not among what `rag-monitor alerts` prints"
        for transition, happened in (("firing", fired), ("resolved", resolved and fired)):
            if happened and f"{alert_id}:{transition}" not in taken:
                yield f"alert {alert_id}: {transition} was never delivered"
        both = [key for key in taken if key in {f"{alert_id}:firing", f"{alert_id}:resolved"}]
        if both and both[0].endswith(":resolved"):
            yield f"alert {alert_id}: resolved was delivered before firing"
    known = {alert_id for alert_id, _, _ in alerts}
    schema = json.loads((ROOT / "docs" / "alert.schema.json").read_text())
    for delivery in deliveries:
        document = delivery.document
        if delivery.key != f"{document['alert_id']}:{document['state']}":
            yield f"a message about {document['alert_id']} ({document['state']}) is marked {delivery.key!r}"
        if document["alert_id"] not in known:
            yield f"a message is about {document['alert_id']}, which is not stored"
        yield from schema_faults(document, schema, schema)


def log_faults(logs: Sequence[Path]) -> Iterator[str]:
    """Yield users' text, tracebacks and errors in logs."""
    for log in logs:
        for line in log.read_text(errors="replace").splitlines():
            if "canary" in line:
                yield f"{log.name} holds a user's text: {line[:200]}"
            if "Traceback" in line or " ERROR " in line:
                yield f"{log.name}: {line[:200]}"


def outcomes(connection: psycopg.Connection[tuple[object, ...]]) -> list[str]:
    """Return a line for each metric and what came of turns."""
    query = (
        "SELECT metric, CASE WHEN NOT sampled THEN 'not sampled' WHEN reason IS NULL THEN 'scored' "
        "ELSE reason || ' ' || reason_detail END, count(*) FROM outcomes GROUP BY 1, 2 ORDER BY 1, 3 DESC"
    )
    return [f"{metric:10} {count:7,} {what}" for metric, what, count in connection.execute(query)]


def findings(
    connection: psycopg.Connection[tuple[object, ...]],
    url: str,
    sent: Mapping[int, Turn],
    *,
    acknowledged: set[int],
    uncertain: set[int],
    deliveries: Sequence[Delivery],
) -> list[str]:
    """Return a line for each thing that is not as promised."""
    (turns,) = connection.execute("SELECT count(*) FROM turns").fetchone()  # type: ignore[misc]
    (without,) = connection.execute(_PER_TURN).fetchone()  # type: ignore[misc]
    stored = command(url, "turns")
    kinds = (
        [f"{len(sent) - len(acknowledged)} turns were never acknowledged"] if len(sent) > len(acknowledged) else [],
        [f"{without} turns have no outcome of relevance, or two of one metric"] if without else [],
        turn_faults(sent, acknowledged, uncertain, stored),
        identity_faults(stored, command(url, "trends", "--by", "day"), int(str(turns))),
        alert_faults(connection.execute(_ALERTS).fetchall(), command(url, "alerts"), deliveries),
    )
    return [line for kind in kinds for line in shortened(list(kind))]


def shortened(lines: list[str]) -> list[str]:
    """Return the first lines, and how many there are more."""
    rest = len(lines) - _TOO_MANY
    return lines if rest <= 1 else [*lines[:_TOO_MANY], f"... and {rest:,} more like these"]
