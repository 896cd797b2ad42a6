"""Whose conversation a span belongs to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from monitor.extract.session_and_user import (
    SessionAndUserKeys,
    merged,
    session,
    session_in_input,
    user,
    user_in_input,
    with_standard_keys,
)

if TYPE_CHECKING:
    from monitor.model.spans import Attributes
    from tests.monitor.conftest import Make


@pytest.mark.parametrize(
    "attributes",
    [
        {"session.id": "s"},
        {"gen_ai.conversation.id": "s"},
        {"metadata.thread_id": "s"},
        {"conversationId": "s"},
        {"metadata": '{"thread_id": "s", "tenant": "emea"}'},
    ],
)
def test_session_keys(attributes: Attributes) -> None:
    """The keys that several conventions share are known."""
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


ACME = merged(
    (
        SessionAndUserKeys(session_id=("acme.chat",), user_id=("acme.person",)),
        SessionAndUserKeys(metadata_prefixes=("acme.metadata.",)),
    )
)


@pytest.mark.parametrize(
    ("attributes", "expected"),
    [
        ({"acme.chat": "s", "acme.person": "u"}, ("s", "u")),
        ({"acme.metadata.threadId": "s", "acme.metadata.user_id": 7}, ("s", "7")),
        ({"acme.metadata.thread_id": '"s"', "acme.metadata.langfuse_session_id": '"f"'}, ("f", None)),
        ({"acme.chat": "a", "acme.metadata.session_id": "b"}, ("a", None)),
        ({"acme.chat": "a", "gen_ai.conversation.id": "b", "acme.person": "u", "enduser.id": "w"}, ("b", "w")),
        ({"acme.chat": "a", "session.id": "[Scrubbed due to 'session']"}, ("a", None)),
        ({"acme.metadata.tenant": "emea"}, (None, None)),
    ],
)
def test_keys_of_an_sdk(make: Make, attributes: Attributes, expected: tuple[str | None, str | None]) -> None:
    """What only an SDK's keys say stands under the standard ones afterwards; shared keys come first."""
    standard = with_standard_keys(make.span(1, attributes), ACME).attributes
    assert expected == (session(standard), user(standard))


def test_ids_among_arguments() -> None:
    """A function is given the ids beside the question, a chain in its settings; a sentence is no id."""
    assert ("s", None) == (session_in_input({"args": ["Why?"], "kwargs": {"session_id": "s"}}), user_in_input("Why?"))
    assert "u" == user_in_input({"inputs": {"question": "Why?"}, "metadata": {"user_id": "u"}})
    assert "t" == session_in_input({"config": {"configurable": {"thread_id": "t"}}})
    assert session_in_input({"thread_id": "the one about mills"}) is None


def test_plain_keys() -> None:
    """Apps name their attributes themselves; a thread is the operating system's, and what was scrubbed is none."""
    assert ("s", "u") == (session({"session_id": "s"}), user({"user_id": "u"}))
    assert session({"thread.id": 7, "thread_id": 7, "session.id": "[Scrubbed due to 'session']"}) is None
