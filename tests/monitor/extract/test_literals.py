"""Values as Python prints them."""

from __future__ import annotations

import pprint
import warnings
from typing import TYPE_CHECKING

import pytest

from monitor.extract import reprs
from monitor.extract.literals import unquoted, value

if TYPE_CHECKING:
    from monitor.model.spans import AttributeValue

TEXTS = ("", "plain", "it's", 'a "b"', "'\"", "a\\d", "tab\t\n\r\0\x7f\x85", "é\u2028\ud800", "\U0001f600", "\\")


@pytest.mark.parametrize(
    "printed",
    [
        pytest.param([], id="list"),
        pytest.param([[], [[]], {}], id="empty"),
        pytest.param({"a": {"b": [1, 2]}, "c": "d"}, id="dict"),
        pytest.param([0, -1, 2**70, 0.5, -1e-9, 1e22, True, False, None], id="scalars"),
        pytest.param(list(TEXTS), id="texts"),
    ],
)
def test_what_python_prints(printed: AttributeValue) -> None:
    """What `repr` prints is read back, on one line or on many."""
    assert value(repr(printed)) == printed
    assert value(ascii(printed)) == printed
    assert value(pprint.pformat(printed, width=8)) == printed


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("(1, 2)", [1, 2]),
        ("(1,)", [1]),
        ("[(1)]", [1]),
        ("()", []),
        ("{3, 1}", [3, 1]),
        ("{3}", [3]),
        ("{1: 'a', None: 'b', (1, 2): 'c'}", {"1": "a", "None": "b", "[1, 2]": "c"}),
        ("[u'old', b'raw']", ["old", None]),
        ("[1, 2,]", [1, 2]),
        (" [1] ", [1]),
    ],
)
def test_what_json_lacks(text: str, expected: AttributeValue) -> None:
    """Tuples and sets are lists, keys are text, and bytes are nothing."""
    assert value(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        *("", "[", "[1", "['a", "{'a'", "{'a':", "{'a': 1", "[1]]", "[1] x", "[,]", "{,}", "[1,,2]", "[1 2]"),
        *("{1: 2, 3}", "{1, 2: 3}", "[Document(id='a')]", "[True1]", "[1a]", "[1e]", "[nan]", "['a\nb']"),
        *(r"['\x4']", r"['\u12']", r"['\U00110000']", "[01x]"),
        pytest.param("[" * 100_000, id="lists"),
        pytest.param("{'a': " * 100_000, id="dicts"),
        pytest.param(f"[{'9' * 5000}]", id="digits"),
    ],
)
def test_what_is_no_printed_value(text: str) -> None:
    """A text that breaks off, names what is not known or is nested without end is no value, and no error."""
    assert value(text) is None


def test_unhashable_key() -> None:
    """A dict with a list as its key, which Python itself refuses with `TypeError`, is read."""
    assert reprs.literal("{[1]: 2}") == {"[1]": 2}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (r"['a\d\.']", ["a\\d\\."]),
        (r"[u'\777']", ["\u01ff"]),
        ("[1or 2]", None),
        ("[0x1for x in y]", None),
    ],
)
def test_what_python_warns_of(text: str, expected: AttributeValue) -> None:
    """What Python's own parser warns of is read, or not, without a warning, for a sender wrote it and not the user."""
    with warnings.catch_warnings(record=True) as seen:
        warnings.simplefilter("always")
        assert reprs.literal(text) == expected
        assert reprs.messages(r"HumanMessage(content='a\d')") == (("Human", "a\\d"),)
    assert seen == []


def test_escapes() -> None:
    """An escape is what Python takes it for; one that breaks off is an error."""
    assert unquoted(r"'\\ \' \a\b\f\n\r\t\v \101 \x41 \u0041 \U00000041 \q'") == "\\ ' \a\b\f\n\r\t\v A A A A \\q"
    with pytest.raises(ValueError, match="without its digits"):
        unquoted(r"'\u00'")


def test_long_text() -> None:
    """A megabyte takes time in proportion to its length."""
    long = 'it\'s "x" \\ \n' * 100_000
    assert value(repr([long, {"a": long}])) == [long, {"a": long}]
