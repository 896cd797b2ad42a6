"""What the settings leave out."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

import pytest
from judged_turn import judged_turn

from monitor.assembly.exclusions import Exclusions
from monitor.assembly.join import join
from monitor.assembly.rules import ReadingRules
from monitor.assembly.trace_turns import read_trace
from monitor.model.spans import Assembly, Decoded

if TYPE_CHECKING:
    from tests.monitor.conftest import Make


def _read(make: Make, rules: ReadingRules, exclusions: Exclusions) -> Assembly:
    """A request at /internal/eval with a chain of the scope `app` around a call of the scope `client`."""
    call = replace(make.call(3, [("user", "Why?")], "So.", parent=2, lasts=0.5), scope="client")
    spans = (make.span(1, {"http.route": "/internal/eval"}, lasts=3), make.chain(2, "Why?", "So.", parent=1), call)
    decoded = Decoded(spans=spans, turns=(judged_turn(),))
    return read_trace(join(make.trace_id, [decoded]), replace(rules, exclusions=exclusions)).assembly


@pytest.mark.parametrize(
    ("exclusions", "queries", "counts"),
    [
        (Exclusions(), ["Why?", "When is a refund paid?"], {}),
        (Exclusions(apps=("sh*",)), [], {"excluded_app": 3}),
        (Exclusions(apps=("Shop", "sho")), ["Why?", "When is a refund paid?"], {}),
        (Exclusions(models=("m",)), ["When is a refund paid?"], {"excluded_model": 2}),
        (Exclusions(routes=("/internal/*",)), ["When is a refund paid?"], {"excluded_route": 2}),
        (Exclusions(scopes=("client",)), ["Why?", "When is a refund paid?"], {"excluded_scope": 1}),
        (Exclusions(scopes=("app", "client")), ["When is a refund paid?"], {"excluded_scope": 3}),
    ],
)
def test_exclusions(
    make: Make, rules: ReadingRules, exclusions: Exclusions, queries: list[str], counts: Mapping[str, int]
) -> None:
    """Spans and turns that the settings leave out make no turns, and each is counted under its own reason."""
    assembly = _read(make, rules, exclusions)
    counted = {reason: count for reason, count in assembly.unread.items() if reason != "transport"}
    assert (sorted(queries), counts) == (sorted(turn.query or "" for turn in assembly.turns), counted)


def test_a_model_of_an_excluded_scope(make: Make, rules: ReadingRules) -> None:
    """Of a span that is left out nothing is read, neither its model nor what it cost."""
    (turn, _) = _read(make, rules, Exclusions(scopes=("client",))).turns
    assert (None, "Why?") == (turn.model, turn.query)
