"""JSON inside attributes, whole and broken."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.extract.json_text import Parsed, parse, unwrap

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)
DOCUMENTS = st.lists(VALUES, max_size=4) | st.dictionaries(st.text(), VALUES, max_size=4)


@given(DOCUMENTS)
def test_a_whole_document(value: object) -> None:
    """A complete object or array reads as itself, uncut."""
    assert Parsed(value) == parse(json.dumps(value))


@given(st.dictionaries(st.text(), VALUES, min_size=1, max_size=4), st.data())
def test_a_document_cut_anywhere(value: dict[str, object], data: st.DataObject) -> None:
    """However an object is cut, what is read holds no key that the whole one has not, and never raises."""
    text = json.dumps(value, ensure_ascii=data.draw(st.booleans()))
    parsed = parse(text[: data.draw(st.integers(0, len(text)))])

    assert parsed is None or set(parsed.value) <= set(value)


@given(st.text())
def test_any_text(text: str) -> None:
    """No text makes the reader raise."""
    parse(text)


def test_the_text_that_was_cut() -> None:
    """The value in which a document breaks off is named, so that it can be told from whole ones."""
    assert Parsed({"question": "Why?", "note": "because of"}, "because of") == parse(
        '{"question": "Why?", "note": "because of'
    )


@pytest.mark.parametrize("tail", ["\\", "\\u", "\\u00e", "\\ud83d"])
def test_a_cut_inside_an_escape(tail: str) -> None:
    """Half an escape sequence is left out."""
    assert Parsed({"a": "x"}, "x") == parse('{"a": "x' + tail)


def test_control_characters_and_nan() -> None:
    """Raw line breaks in texts are read; NaN and infinity are no numbers and read as null."""
    assert Parsed({"a": "x\ny", "b": None, "c": None}) == parse('{"a": "x\ny", "b": NaN, "c": -Infinity}')


@pytest.mark.parametrize("text", ["[kb-1] see page 2", "{not json}", '"Yes" is a word', "plain", "", "12", '[1] and "'])
def test_text_that_only_looks_like_json(text: str) -> None:
    """What a person wrote is left alone even when it begins with a bracket or a quotation mark."""
    assert parse(text) is None


def test_json_in_json() -> None:
    """A text that is a document is unwrapped, other values stay."""
    assert ({"a": 1}, "plain", 5) == (unwrap('{"a": 1}'), unwrap("plain"), unwrap(5))
