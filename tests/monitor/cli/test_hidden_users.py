"""User ids in what `explain` shows of spans."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

from monitor.cli.hidden_users import without_users
from monitor.model.spans import Attributes

if TYPE_CHECKING:
    from tests.monitor.conftest import Make


def _hidden(make: Make, attributes: Attributes, user_id: str | None = None) -> Attributes:
    span = make.span(1, attributes, events=[make.event("asked", attributes)])
    (hidden,) = without_users([span], pseudonym=lambda user: f"hash({user})", user_id=user_id)
    assert hidden.attributes == hidden.events[0].attributes
    return hidden.attributes


@pytest.mark.parametrize("key", ["user.id", "enduser.id", "langfuse_user_id", "metadata.user_id"])
def test_known_keys(make: Make, key: str) -> None:
    """The id under a key of a convention gives way to the pseudonym; other attributes stay."""
    assert {key: "user:hash(ann)", "input.value": "Why?"} == _hidden(make, {key: "ann", "input.value": "Why?"})


def test_a_key_of_the_app(make: Make) -> None:
    """An id that only the settings name is known by its pseudonym, whatever the key."""
    hidden = _hidden(make, {"shop.customer": "ann", "shop.clerk": "bob"}, user_id="hash(ann)")
    assert {"shop.customer": "user:hash(ann)", "shop.clerk": "bob"} == hidden


def test_inside_other_texts(make: Make) -> None:
    """The id gives way inside JSON and, where it is long enough to be no accident, inside any text."""
    attributes = {"user.id": "ann", "metadata": json.dumps({"customer": "ann"}), "input.value": "Does ann annoy?"}
    assert {"customer": "user:hash(ann)"} == json.loads(str(_hidden(make, attributes)["metadata"]))
    assert "Does ann annoy?" == _hidden(make, attributes)["input.value"]
    address = "ann@example.org"
    shown = _hidden(make, {"user.id": address, "input.value": f"I am {address}."})["input.value"]
    assert f"I am user:hash({address})." == shown


def test_numbers(make: Make) -> None:
    """A number is an id under a user's key, and something else under others."""
    assert {"user.id": "user:hash(42)", "tokens": 42} == _hidden(make, {"user.id": 42, "tokens": 42})
