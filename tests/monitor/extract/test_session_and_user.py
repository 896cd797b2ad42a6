"""Whose conversation a span belongs to."""

import pytest

from monitor.extract.session_and_user import session, session_given, user, user_given
from monitor.model.spans import Attributes


@pytest.mark.parametrize(
    "attributes",
    [
        {"session.id": "s"},
        {"gen_ai.conversation.id": "s"},
        {"traceloop.association.properties.session_id": "s"},
        {"ai.telemetry.metadata.sessionId": "s"},
        {"ai.settings.context.conversationId": "s"},
        {"gen_ai.thread.id": "s"},
        {"langsmith.metadata.thread_id": "s"},
        {"metadata": '{"thread_id": "s", "tenant": "emea"}'},
    ],
)
def test_session_keys(attributes: Attributes) -> None:
    """Every SDK's key is known."""
    assert "s" == session(attributes)


def test_a_project_is_no_session() -> None:
    """LangSmith's session name is the project."""
    assert session({"langsmith.trace.session_name": "support", "http.request.method": "POST"}) is None


def test_user_in_metadata() -> None:
    """LangGraph apps give the user in the run's metadata; numbers are ids too."""
    assert ("42", "7") == (user({"metadata": '{"user_id": 42}'}), user({"enduser.id": 7}))


CALL = "019a0000-1000-7000-8000-000000000001"


@pytest.mark.parametrize(
    ("conversation", "expected"),
    [
        ("019a0000-1001-7abc-8000-000000000002", None),
        ("019a0000-0001-7abc-8000-000000000002", "019a0000-0001-7abc-8000-000000000002"),
        ("ticket-12", "ticket-12"),
    ],
)
def test_a_conversation_made_up_for_one_call(conversation: str, expected: str | None) -> None:
    """An id of the same instant as the call's was not given by the app; an older one goes on with a conversation."""
    assert expected == session({"gen_ai.conversation.id": conversation, "gen_ai.agent.call.id": CALL})


def test_langfuse_metadata() -> None:
    """Langfuse's callback keeps the ids in metadata, as JSON; its own names come before a graph's thread."""
    bag = "langfuse.observation.metadata."
    given: Attributes = {bag + "thread_id": '"t"', bag + "langfuse_session_id": '"s"', bag + "langfuse_user_id": '"u"'}
    assert ("s", "u") == (session(given), user(given))


def test_ids_among_arguments() -> None:
    """A function is given the ids beside the question, a chain in its settings; a sentence is no id."""
    assert ("s", None) == (session_given({"args": ["Why?"], "kwargs": {"session_id": "s"}}), user_given("Why?"))
    assert "u" == user_given({"inputs": {"question": "Why?"}, "metadata": {"user_id": "u"}})
    assert "t" == session_given({"config": {"configurable": {"thread_id": "t"}}})
    assert session_given({"thread_id": "the one about mills"}) is None


def test_plain_keys() -> None:
    """Apps name their attributes themselves; a thread is the operating system's, and what was scrubbed is none."""
    assert ("s", "u") == (session({"session_id": "s"}), user({"user_id": "u"}))
    assert session({"thread.id": 7, "thread_id": 7, "session.id": "[Scrubbed due to 'session']"}) is None
