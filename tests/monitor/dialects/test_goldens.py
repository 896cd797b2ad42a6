"""One small recording per dialect, written by hand after its documentation, and the turns that come of it.

A golden's `{"$json": ...}` stands for the compact JSON text that the emitter writes; of a turn only the fields that are
named are compared. `told_by` is the dialect that speaks for the turn where that is another one.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, TypeAlias

import pytest

from monitor.model.spans import AttributeValue, Span
from monitor.model.turns import Turn

if TYPE_CHECKING:
    from tests.monitor.conftest import Assemble, Make

FOLDER = Path(__file__).parents[2] / "golden" / "dialects"
GOLDENS = sorted(path.stem for path in FOLDER.glob("*.json"))

Json: TypeAlias = "str | bool | int | float | list[Json] | dict[str, Json] | None"


def value(held: Json) -> AttributeValue:
    """An attribute value as the emitter writes it."""
    if isinstance(held, dict):
        if "$json" in held:
            return json.dumps(written(held["$json"]), ensure_ascii=False, separators=(",", ":"))
        return {key: value(inner) for key, inner in held.items()}
    return [value(inner) for inner in held] if isinstance(held, list) else held


def written(held: Json) -> AttributeValue:
    """What stands inside JSON text, which may be JSON text again."""
    if isinstance(held, dict):
        return value(held) if "$json" in held else {key: written(inner) for key, inner in held.items()}
    return [written(inner) for inner in held] if isinstance(held, list) else held


def span(make: Make, told: Mapping[str, Json]) -> Span:
    """A span of a golden; `at` and `lasts` are seconds."""
    number, parent, at, lasts = told["id"], told.get("parent"), told.get("at", 0), told.get("lasts", 0.1)
    assert isinstance(number, int)
    assert parent is None or isinstance(parent, int)
    assert isinstance(at, int | float)
    assert isinstance(lasts, int | float)
    attributes, events = told.get("attributes", {}), told.get("events", [])
    assert isinstance(attributes, dict)
    assert isinstance(events, list)
    made = []
    for event in events:
        assert isinstance(event, dict)
        fields = event.get("attributes", {})
        assert isinstance(fields, dict)
        made.append(
            make.event(
                str(event["name"]),
                {key: value(held) for key, held in fields.items()},
                at=at,
                body=value(event.get("body")),
                log=event.get("log") is True,
            )
        )
    return make.span(
        number,
        {key: value(held) for key, held in attributes.items()},
        parent=parent,
        name=str(told.get("name", "step")),
        scope=str(told.get("scope", "app")),
        at=at,
        lasts=lasts,
        status=2 if told.get("failed") else 0,
        events=made,
    )


def plain(turn: Turn) -> dict[str, Json]:
    """A turn as JSON says it."""
    fields = {key: held for key, held in asdict(turn).items() if key not in {"started_at", "ended_at"}}
    fields["flags"] = sorted(turn.flags)
    read: dict[str, Json] = json.loads(json.dumps(fields, default=dict))
    citations = read["citations"]
    if isinstance(citations, list):
        read["citations"] = [
            {key: held for key, held in one.items() if key in {"id", "content", "score"} and held is not None}
            for one in citations
            if isinstance(one, dict)
        ]
    return read


@pytest.mark.parametrize("golden", GOLDENS)
def test_a_golden(make: Make, assemble: Assemble, golden: str) -> None:
    """The turns of a recording are those that were written beside it, told by the dialect it is named after."""
    told = json.loads((FOLDER / f"{golden}.json").read_text())
    turns = [plain(turn) for turn in assemble([span(make, one) for one in told["spans"]]).turns]
    wanted: list[dict[str, Json]] = told["turns"]
    assert wanted == [
        {key: turn[key] for key in want} for want, turn in zip(wanted, turns, strict=len(wanted) == len(turns))
    ]
    assert len(wanted) == len(turns)
    assert {told.get("told_by", golden)} == {turn["dialect"] for turn in turns}
