"""Whose conversation a span belongs to."""

import pytest

from monitor.reading.identity import session, user
from monitor.spans import Attributes


@pytest.mark.parametrize(
    "attributes",
    [
        {"session.id": "s"},
        {"gen_ai.conversation.id": "s"},
        {"traceloop.association.properties.session_id": "s"},
        {"ai.telemetry.metadata.sessionId": "s"},
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
