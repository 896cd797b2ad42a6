"""LangSmith runs, one at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from monitor.dialects.langsmith import DIALECT, ROLES
from monitor.model.spans import Attributes, Role, Step

if TYPE_CHECKING:
    from tests.monitor.conftest import Make


def step(make: Make, kind: str, attributes: Attributes) -> Step:
    """A run of a kind."""
    return DIALECT.read(make.span(1, {"langsmith.span.kind": kind, **attributes}))


@pytest.mark.parametrize(("kind", "role"), [*ROLES.items(), ("something_new", Role.CHAIN)])
def test_kinds(make: Make, kind: str, role: Role) -> None:
    """The kind of run counts, not the operation's name, which is wrong for retrievers."""
    span = make.span(1, {"langsmith.span.kind": kind, "gen_ai.operation.name": "embeddings"})
    assert (True, role, role) == (DIALECT.claims(span), DIALECT.role(span), DIALECT.read(span).role)


def test_a_failed_run(make: Make) -> None:
    """A run that failed has status OK, an exception event and an output of null."""
    raised = [make.event("exception", {"exception.type": "ValueError"})]
    attributes = {
        "langsmith.span.kind": "chain",
        "gen_ai.prompt": '{"q": "Why?"}',
        "gen_ai.completion": '{"output":null}',
    }
    failed = DIALECT.read(make.span(1, attributes, status=1, events=raised))
    handled = DIALECT.read(
        make.span(1, {**attributes, "gen_ai.completion": '{"output":"So."}'}, status=1, events=raised)
    )
    assert ("ValueError", None, None, "So.") == (failed.error, failed.response, handled.error, handled.response)


def test_a_function_that_returned_documents(make: Make) -> None:
    """A decorated retriever's list stands in `output`."""
    made = '{"output":[{"id":"a","content":"Text.","score":0.5}]}'
    read = step(make, "retriever", {"gen_ai.prompt": '{"query":"Why?"}', "gen_ai.completion": made})
    assert ("Why?", "a") == (read.retrieval_query, read.documents[0].id if read.documents else None)


def test_nothing_found(make: Make) -> None:
    """An empty list is a retrieval that found nothing."""
    assert () == step(make, "retriever", {"gen_ai.completion": '{"documents":[]}'}).documents


def test_a_session_is_not_the_project(make: Make) -> None:
    """`langsmith.trace.session_name` names the project."""
    assert None is step(make, "chain", {"langsmith.trace.session_name": "northwind"}).session_id


def test_tokens_in_metadata(make: Make) -> None:
    """Usage that stands only in the run's metadata counts too."""
    usage = '{"input_tokens": 7, "output_tokens": 3}'
    read = step(make, "llm", {"langsmith.metadata.usage_metadata": usage})
    assert (7, 3) == (read.input_tokens, read.output_tokens)


def test_a_streamed_reply(make: Make) -> None:
    """Chunks that were put together are one message."""
    made = '{"output":{"role":"assistant","content":"So.","tool_calls":null}}'
    read = step(make, "llm", {"gen_ai.completion": made, "langsmith.request.streaming": True})
    assert ("So.", True) == (read.output, read.streaming)


def test_a_function_that_searches(make: Make) -> None:
    """Decorated functions are chains unless told otherwise; below another its name may tell that one retrieves."""
    made = {"langsmith.span.kind": "chain", "gen_ai.completion": '{"output":["Text."]}'}
    read = DIALECT.read(make.span(2, made, parent=1, name="search_kb"))
    assert (Role.RETRIEVAL, ["Text."]) == (read.role, [found.content for found in read.documents or ()])


def test_a_tool_of_the_vercel_ai_sdk(make: Make) -> None:
    """Its name stands beside what LangSmith's exporter adds; by any other it is the span's."""
    tool = {"langsmith.span.kind": "tool", "gen_ai.completion": "[]"}
    read = DIALECT.read(make.span(1, {**tool, "ai.toolCall.name": "searchDocs"}, name="ai.toolCall"))
    assert ("searchDocs", ()) == (read.tool, read.documents)
    assert "find" == DIALECT.read(make.span(1, tool, name="find")).tool
