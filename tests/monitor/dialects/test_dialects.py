"""What holds for every dialect that is shipped."""

from __future__ import annotations

import ast
import re
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from monitor import plugins
from monitor.model.spans import AttributeValue, Role
from monitor.ports import Dialect

if TYPE_CHECKING:
    from tests.monitor.conftest import Make, Turns

KINDS = plugins.kinds("dialects")
_KEY = re.compile(r"[A-Za-z_][\w.]{2,79}\.?")


def _constants() -> list[str]:
    """Every word in the dialects' sources that may be an attribute, a value, an event or a scope."""
    files = (Path(str(plugins.load("dialects", kind, "test").__file__)) for kind in KINDS)
    nodes = (node for file in files for node in ast.walk(ast.parse(file.read_text())))
    words = {node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)}
    return sorted(word + "0.content" if word.endswith(".") else word for word in words if _KEY.fullmatch(word))


WORDS = st.sampled_from(_constants())
KEYS = WORDS | st.sampled_from(
    [
        "llm.input_messages.0.message.role", "llm.input_messages.0.message.content", "llm.prompts", "metadata",
        "llm.input_messages.1.message.contents.0.message_content.text", "llm.output_messages.0.message.content",
        "retrieval.documents.0.document.content", "retrieval.documents.0.document.metadata", "session.id",
        "retrieval.documents.0.document.score", "reranker.output_documents.0.document.id", "error.type",
        "embedding.embeddings.0.embedding.text", "http.response.status_code", "app.documents.3.text", "app.question",
    ]
)  # fmt: skip
TEXTS = st.text(max_size=20) | WORDS | st.sampled_from(
    [
        "LLM", "CHAIN", "RETRIEVER", "TOOL", "chat", "retrieval", "invoke_agent", "execute_tool", "__REDACTED__",
        '{"messages": [{"role": 5, "content": {"a": []}}]}', '[{"lc": 1, "kwargs": {}, "id": 3}]', '{"question": [',
        '{"documents": [{"metadata": "{", "id": {}, "score": "x"}]}', "[[[[[]]]]]", "ChatMessage(text='", "NaN",
    ]
)  # fmt: skip
VALUES: st.SearchStrategy[AttributeValue] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | TEXTS | st.binary(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(TEXTS, inner, max_size=3),
    max_leaves=6,
)


@pytest.mark.parametrize("kind", KINDS)
def test_a_dialect_is_named_like_its_file(kind: str) -> None:
    """The name in settings, in turns and of the file is the same."""
    assert kind == plugins.load("dialects", kind, "test").DIALECT.name


def test_priorities_differ(dialects: tuple[Dialect, ...]) -> None:
    """Which of two dialects reads a span is never left to chance."""
    assert len(dialects) == len({dialect.priority for dialect in dialects})


@given(attributes=st.dictionaries(KEYS, VALUES, max_size=8), body=VALUES, words=st.tuples(WORDS, WORDS, WORDS))
@settings(max_examples=300, deadline=None)
def test_whatever_a_span_holds(
    make: Make,
    dialects: tuple[Dialect, ...],
    attributes: dict[str, AttributeValue],
    body: AttributeValue,
    words: tuple[str, str, str],
) -> None:
    """No value makes a dialect raise, and what it says of a span's role it keeps to unless the span is noise."""
    name, scope, event = words
    span = make.span(1, attributes, name=name, scope=scope, events=[make.event(event, attributes, body=body)])
    for dialect in dialects:
        if dialect.claims(span):
            assert dialect.read(span).role in {dialect.role(span), Role.NOISE}


@pytest.mark.parametrize(
    "attributes",
    [
        {"traceloop.association.properties.session_id": "s", "traceloop.association.properties.user_id": "u"},
        {"ai.telemetry.metadata.sessionId": "s", "ai.telemetry.metadata.userId": "u"},
        {"ai.settings.context.conversationId": "s", "ai.settings.context.userId": "u"},
        {"langsmith.metadata.conversation_id": "s", "langsmith.metadata.user_id": "u"},
        {"langfuse.session.id": "s", "langfuse.user.id": "u"},
        {"langfuse.trace.metadata.thread_id": '"s"', "langfuse.trace.metadata.langfuse_user_id": '"u"'},
        {
            "langfuse.observation.metadata.thread_id": '"t"',
            "langfuse.observation.metadata.langfuse_session_id": '"s"',
            "langfuse.observation.metadata.langfuse_user_id": '"u"',
        },
        {"mastra.metadata.sessionId": "s", "mastra.metadata.userId": "u"},
        {"spring.ai.chat.client.conversation.id": "s", "user.id": "u"},
        {"confident.trace.thread_id": "s", "confident.trace.user_id": "u"},
        {"mlflow.trace.session": '"s"', "mlflow.trace.user": '"u"'},
        {"ai.observability.conversation_id": "s", "enduser.id": "u"},
        {"gen_ai.thread.id": "s", "user_id": "u"},
        {"metadata.session_id": "s", "llm.user": "u"},
    ],
)
def test_session_and_user_keys(make: Make, turns: Turns, attributes: dict[str, AttributeValue]) -> None:
    """What an SDK writes on every span of a turn counts on the spans of other conventions."""
    root = make.chain(1, "Why?", "So.")
    (turn,) = turns([replace(root, attributes={**root.attributes, **attributes})])
    assert ("s", "user:u") == (turn.session_id, turn.user_id)


def test_a_request(make: Make) -> None:
    """A request carries route, session and failure, and no content."""
    dialect = plugins.load("dialects", "transport", "test").DIALECT
    span = make.span(1, {"http.route": "/chat", "http.response.status_code": 500, "session.id": "s"})
    read = dialect.read(span)
    assert (True, Role.TRANSPORT, {"route": "/chat"}, "500", "s") == (
        dialect.claims(span),
        read.role,
        read.facets,
        read.error,
        read.session_id,
    )
