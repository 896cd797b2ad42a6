"""What dialects declare together."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import TYPE_CHECKING

from monitor.assembly.join import join
from monitor.assembly.rules import reading_rules
from monitor.assembly.trace_turns import read_trace
from monitor.dialects.openinference import DIALECT as OPENINFERENCE
from monitor.extract.convention import Convention, FacetKeys, PromptWording
from monitor.model.spans import Decoded, Role, Step
from monitor.model.turns import Turn

if TYPE_CHECKING:
    from tests.monitor.conftest import Make

ACME = Convention(
    name="acme",
    priority=500,
    url="https://acme.example/telemetry",
    versions="1",
    facet_keys=FacetKeys(
        arguments=("acme.call",),
        component=("acme.class",),
        reranker=("acme.ranker",),
        prompt_template=("acme.template",),
        index_embedding=("acme_vectors",),
    ),
    prompt_wording=PromptWording(
        question_fields=(re.compile(r"\{\{query\}\}(.*?)(?=\n\{\{|\Z)", re.DOTALL),),
        field_marks=("{{",),
        instructions=("Obey:",),
    ),
    claims=lambda _: False,
    role=lambda _: Role.NOISE,
    read=lambda span: Step(span=span, role=Role.NOISE, dialect="acme"),
)


def turn_of(make: Make, *dialects: Convention) -> Turn:
    """The turn of a search and a call whose spans carry attributes of Acme."""
    search = make.retrieval(2, "Why?", {"d": "x"}, parent=1)
    own = {"acme.call": '{"top_k": 7}', "acme.class": "HybridFinder", "acme.more.acme_vectors": "e-3"}
    ranked = make.span(3, {"openinference.span.kind": "RERANKER", "acme.ranker": "r-1"}, parent=1, at=0.1)
    call = make.call(4, [("user", "{{query}} Why?\nObey: be brief.")], "So.", parent=1, at=0.2)
    spans = (
        make.span(1, {"http.route": "/chat"}),
        replace(search, attributes={**search.attributes, **own}),
        ranked,
        replace(call, attributes={**call.attributes, "acme.template": "short"}),
    )
    trace = join(make.trace_id, [Decoded(spans=spans)])
    (turn,) = read_trace(trace, reading_rules(dialects, hash_user=str)).assembly.turns
    return turn


def test_a_dialect_that_declares(make: Make) -> None:
    """Keys and wordings of one dialect are read on spans and in prompts that another one reads."""
    turn = turn_of(make, OPENINFERENCE, ACME)
    facets = ("search_type", "top_k", "index_embedding_model", "reranker", "prompt_template")
    assert ("hybrid", "7", "e-3", "r-1", "short") == tuple(turn.facets.get(facet) for facet in facets)
    assert "Why?" == turn.query


def test_a_dialect_that_is_not_loaded(make: Make) -> None:
    """Its keys and wordings are unknown."""
    turn = turn_of(make, OPENINFERENCE)
    assert {"search_type", "top_k", "index_embedding_model", "prompt_template"}.isdisjoint(turn.facets)
    assert "{{query}} Why?\nObey: be brief." == turn.query


def test_order_of_dialects() -> None:
    """The lowest priority comes first, however they are listed."""
    rules = reading_rules([ACME, OPENINFERENCE], hash_user=str)
    assert ["openinference", "acme"] == [dialect.name for dialect in rules.dialects]
