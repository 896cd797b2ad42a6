"""Logfire's spans that are no golden's subject."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from monitor.dialects.logfire import DIALECT
from monitor.model.spans import AttributeValue, Role

if TYPE_CHECKING:
    from tests.monitor.conftest import Assemble, Make

OWN = {"logfire.span_type": "span", "logfire.msg": "turn", "code.filepath": "app.py", "code.lineno": 9}
CALL = {"logfire.span_type": "span", "request_data": '{"model":"m","messages":[{"role":"user","content":"Why?"}]}'}


def test_a_span_for_the_session(make: Make, assemble: Assemble) -> None:
    """A span of an app's own around a turn gives its session and stays unread by nobody."""
    assembly = assemble([make.span(1, {**OWN, "session.id": "s"}), make.span(2, CALL, parent=1)])
    assert (["s"], {"noise": 1}) == ([turn.session_id for turn in assembly.turns], assembly.unread)


@pytest.mark.parametrize(
    ("attributes", "claimed"), [(OWN, True), (CALL, True), ({**OWN, "question": "Why?"}, False), ({}, False)]
)
def test_what_is_not_of_logfire(make: Make, attributes: dict[str, AttributeValue], claimed: bool) -> None:  # noqa: FBT001 -- a parameter of the table
    """What an app records itself is left to those that read it."""
    span = make.span(1, attributes)
    assert claimed == DIALECT.claims(span)
    assert not claimed or DIALECT.role(span) == (Role.LLM if "request_data" in attributes else Role.NOISE)
