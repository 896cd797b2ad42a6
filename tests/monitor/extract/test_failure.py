"""How spans failed."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from monitor.extract.failure import failure, server_fault

if TYPE_CHECKING:
    from tests.monitor.conftest import Make


@pytest.mark.parametrize(
    ("error_type", "expected"),
    [
        ("InternalServerError", "InternalServerError"),
        ("openai.InternalServerError", "InternalServerError"),
        ("<class 'openai.RateLimitError'>", "RateLimitError"),
        ("500", "500"),
        ("the customer said no", "error"),
    ],
)
def test_error_types(make: Make, error_type: str, expected: str) -> None:
    """The class is the last name of a path; anything that could be text of a user becomes `error`."""
    assert expected == failure(make.span(1, {"error.type": error_type}, status=2))


def test_the_class_in_a_status_message(make: Make) -> None:
    """Only a leading class name of a message is taken, never the message."""
    span = make.span(1, {}, status=2, message="TimeoutError: no answer to 'where is my order?'")
    assert "TimeoutError" == failure(span)


def test_the_class_of_an_exception_event(make: Make) -> None:
    """The exception event names the class best."""
    event = make.event("exception", {"exception.type": "openai.APIConnectionError", "exception.message": "x"})
    assert "APIConnectionError" == failure(make.span(1, {"error.type": "_OTHER"}, status=2, events=[event]))


def test_a_handled_exception(make: Make) -> None:
    """An exception event alone is no failure: the app may have handled it."""
    assert failure(make.span(1, {}, events=[make.event("exception", {"exception.type": "KeyError"})])) is None


@pytest.mark.parametrize(("status", "expected"), [(500, "500"), ("503", "503"), (404, None)])
def test_http_status(make: Make, status: int | str, expected: str | None) -> None:
    """A request failed when its status is 500 or above."""
    assert expected == server_fault(make.span(1, {"http.response.status_code": status}))
