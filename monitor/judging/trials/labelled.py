"""Turns with people's labels, and how well a judge agrees with them: `rag-monitor judge agree`.

A line is one turn in any form that `replay` reads, or a statement that nobody asked for, with a label: `"defect": true`
or `"label": {"grounded": 0}`, where 0 is a defect, 1 is none, and null stands between the two and is left out. `lang`
and `source`, if there, split the result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import orjson

from monitor.errors import ConfigError, MalformedPayload
from monitor.judging.concurrently import concurrently
from monitor.judging.judges import Judges
from monitor.judging.needs import unmet
from monitor.model.judgements import Finding, Reason
from monitor.model.turns import Turn
from monitor.payloads.turn_records.fragments import decode_turns, turn_fragment
from monitor.ports import Metric
from monitor.statistics.agreement import Agreement, agreement, area

_AT_ONCE = 16


@dataclass(frozen=True, slots=True, kw_only=True)
class Labelled:
    """A turn that people have judged."""

    turn: Turn
    defect: bool
    groups: Mapping[str, str] = field(default_factory=dict)
    """Such as `lang` -> `en`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """A judge against labels, over one group of turns."""

    group: str
    """`all`, or such as `lang=en`."""
    agreement: Agreement
    """Over the turns that the judge scored."""
    area: float | None
    """Chance that a true defect scores below a turn without one."""
    unscored: Mapping[str, int]
    """Turns without a verdict, by reason."""


def read(path: Path, *, now: datetime, limit: int | None = None) -> tuple[Labelled, ...]:
    """Return the labelled turns of a JSONL file, in order; lines whose label is null are left out.

    With `limit` so many, spread evenly over the file.

    Raises:
        ConfigError: the file cannot be read, or a line is no labelled turn; the message has the line's number.
    """
    try:
        lines = path.read_bytes().splitlines()
    except OSError as error:
        raise ConfigError(f"cannot read it: {error.strerror}", where=str(path)) from None
    labelled = [item for number, line in enumerate(lines, start=1) if (item := _labelled(line, path, number, now))]
    if limit is None or len(labelled) <= limit:
        return tuple(labelled)
    return tuple(labelled[round(i * len(labelled) / limit)] for i in range(limit))


async def measure(
    labelled: Sequence[Labelled], metric: Metric, judges: Judges | None, *, done: Callable[[], None]
) -> tuple[Measured, ...]:
    """Return how the judge agrees with the labels: over all turns, then group by group.

    Args:
        labelled: the turns.
        metric: by which they are judged.
        judges: entered; None for a metric computed in code.
        done: called after each turn.

    Raises:
        Retryable: the judge cannot be asked now.
    """

    async def judge_one(item: Labelled) -> tuple[Labelled, Finding | Reason]:
        finding = await _judge(metric, item.turn, judges)
        done()
        return item, finding

    judged = await concurrently(map(judge_one, labelled), at_once=_AT_ONCE)
    names = sorted({(kind, name) for item in labelled for kind, name in item.groups.items()})
    parts = [_measured("all", judged)]
    for kind, name in names:
        parts.append(_measured(f"{kind}={name}", [pair for pair in judged if pair[0].groups.get(kind) == name]))
    return tuple(parts)


async def _judge(metric: Metric, turn: Turn, judges: Judges | None) -> Finding | Reason:
    if reason := unmet(turn, metric.rubric):
        return reason
    if judges is None or not metric.max_output_tokens:
        return metric.read(turn, None)
    (answer,) = await judges.judge([metric], turn)
    return answer.result


def _measured(group: str, judged: Sequence[tuple[Labelled, Finding | Reason]]) -> Measured:
    scored = [(item, finding) for item, finding in judged if isinstance(finding, Finding)]
    reasons = Counter(finding.value for _, finding in judged if isinstance(finding, Reason))
    return Measured(
        group=group,
        agreement=agreement([(finding.defect, item.defect) for item, finding in scored]),
        area=area([(finding.score, item.defect) for item, finding in scored if finding.score is not None]),
        unscored=dict(sorted(reasons.items())),
    )


def _labelled(line: bytes, path: Path, number: int, now: datetime) -> Labelled | None:
    where = f"{path}:{number}"
    try:
        record = orjson.loads(line)
        defect = _defect(record, where)
        stored = turn_fragment(_answered(record, line), origin=where, app="labelled", received_at=now)
    except orjson.JSONDecodeError:
        raise ConfigError("not JSON", where=where) from None
    except MalformedPayload as error:
        raise ConfigError(str(error), where=where) from None
    if defect is None:
        return None
    groups = {key: str(record[key]) for key in ("lang", "source") if isinstance(record.get(key), str)}
    return Labelled(turn=decode_turns(stored).turns[-1], defect=defect, groups=groups)


def _answered(record: object, line: bytes) -> bytes:
    """Return the line; before messages that nobody asked for, such as one claim about documents, an empty question."""
    if not isinstance(record, dict) or not isinstance(messages := record.get("messages"), list):
        return line
    if any(isinstance(message, dict) and message.get("role") == "user" for message in messages):
        return line
    return orjson.dumps({**record, "messages": [{"role": "user", "content": ""}, *messages]})


def _defect(record: object, where: str) -> bool | None:
    if isinstance(record, dict):
        if isinstance(record.get("defect"), bool):
            return bool(record["defect"])
        label = record.get("label")
        if isinstance(label, dict) and "grounded" in label:
            grounded = label["grounded"]
            return None if grounded is None else not grounded
    raise ConfigError('no label: expected "defect": true or false, or "label": {"grounded": 0, 1 or null}', where=where)
