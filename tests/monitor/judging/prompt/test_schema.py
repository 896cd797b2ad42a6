"""Schemas of replies."""

import pytest

from monitor.errors import ConfigError, UnreadableReply
from monitor.judging.prompt.schema import Json, Schema


def _object(**properties: Json) -> dict[str, Json]:
    return {
        "type": "object",
        "additionalProperties": False,
        "required": list(properties),
        "properties": dict(properties),
    }


def _schema(body: Json) -> Schema:
    return Schema({"name": "x", "strict": True, "schema": body}, where="x.json")


_NESTED = _schema(
    {
        **_object(
            grade={"$ref": "#/$defs/grade"},
            parts={"type": "array", "items": _object(n={"type": "integer", "minimum": 1, "maximum": 9})},
            share={"type": "number"},
            note={"type": "string", "enum": ["a", "b"]},
            sure={"type": "boolean"},
        ),
        "$defs": {"grade": {"type": "integer", "enum": [1, 2, 3]}},
    }
)
_GOOD: dict[str, Json] = {"grade": 2, "parts": [{"n": 1}, {"n": 9}], "share": 0.5, "note": "a", "sure": True}


def test_fitting_reply() -> None:
    """A reply that fits comes back with whole floats as integers, in the schema's order of fields."""
    reversed_keys = dict(reversed(list(_GOOD.items())))
    assert list(_GOOD.items()) == list(_NESTED.read({**reversed_keys, "grade": 2.0}).items())


@pytest.mark.parametrize("numeral", ["2", "2.0"])
def test_numeral(numeral: str) -> None:
    """A text that is a number is one where the schema has a number, and only there."""
    assert 2 == _NESTED.read({**_GOOD, "grade": numeral})["grade"]
    assert 0.25 == _NESTED.read({**_GOOD, "share": "0.25"})["share"]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"grade": 90}, "grade: expected one of 1, 2, 3, found 90"),
        ({"grade": 999999999999}, "grade: expected one of 1, 2, 3, found a larger number"),
        ({"grade": "two"}, "grade: expected an integer, found a string"),
        ({"grade": "2/3"}, "grade: expected an integer, found a string"),
        ({"grade": "2.5"}, "grade: expected an integer, found 2.5"),
        ({"grade": "90"}, "grade: expected one of 1, 2, 3, found 90"),
        ({"grade": ""}, "grade: expected an integer, found a string"),
        ({"grade": "٢"}, "grade: expected an integer, found a string"),
        ({"grade": True}, "grade: expected an integer, found a boolean"),
        ({"grade": 2.5}, "grade: expected an integer, found 2.5"),
        ({"grade": None}, "grade: expected an integer, found null"),
        ({"parts": [{"n": 0}]}, "parts[0].n: expected a number from 1 to 9, found 0"),
        ({"parts": [{"n": 1}, {}]}, "parts[1]: n missing"),
        ({"parts": [{"n": 1, "score": 5}]}, "parts[0]: holds fields beside n"),
        ({"parts": {"n": 1}}, "parts: expected an array, found an object"),
        ({"share": "secret"}, "share: expected a number, found a string"),
        ({"note": "secret"}, "note: expected one of a, b, found a string"),
        ({"sure": 1}, "sure: expected a boolean, found 1"),
    ],
)
def test_misfit(change: dict[str, Json], message: str) -> None:
    """A reply that does not fit is refused with its path, and no string of it is quoted."""
    with pytest.raises(UnreadableReply) as caught:
        _NESTED.read({**_GOOD, **change})
    assert (message, "invalid") == (str(caught.value), caught.value.reason)


@pytest.mark.parametrize(
    ("tree", "message"),
    [
        ({}, 'expected {"name"'),
        ({"name": "x", "strict": False, "schema": _object()}, 'expected {"name"'),
        ({"name": "x", "strict": True, "schema": {"type": "array"}}, "schema: expected an object"),
        ({"name": "x", "strict": True, "schema": {**_object(), "additionalProperties": True}}, "additionalProperties"),
        (
            {"name": "x", "strict": True, "schema": {**_object(a={"type": "string"}), "required": []}},
            "required: strict mode wants every property named: a",
        ),
        ({"name": "x", "strict": True, "schema": _object(a={"type": "text"})}, "schema.a: type: expected one of"),
        (
            {"name": "x", "strict": True, "schema": _object(a={"type": "string", "pattern": "x"})},
            "schema.a: keyword 'pattern' is not supported",
        ),
        ({"name": "x", "strict": True, "schema": _object(a={"$ref": "#/$defs/b"})}, "schema.a: $ref: expected"),
        ({"name": "x", "strict": True, "schema": _object(a={"type": "array"})}, "schema.a.items: expected a mapping"),
        ({"name": "x", "strict": True, "schema": _object(a={"type": ["string"]})}, "schema.a: type: expected one of"),
        (
            {"name": "x", "strict": True, "schema": _object(a={"type": "integer", "enum": 5})},
            "schema.a: enum: expected",
        ),
        (
            {"name": "x", "strict": True, "schema": _object(a={"type": "integer", "minimum": "1"})},
            "a: minimum: expected",
        ),
        (
            {
                "name": "x",
                "strict": True,
                "schema": {
                    **_object(a={"$ref": "#/$defs/b"}),
                    "$defs": {"b": {"$ref": "#/$defs/c"}, "c": {"$ref": "#/$defs/b"}},
                },
            },
            "schema.a: $ref: #/$defs/b leads back to itself",
        ),
    ],
)
def test_bad_schema(tree: dict[str, Json], message: str) -> None:
    """A schema that strict mode would refuse is refused at start, with its file and path."""
    with pytest.raises(ConfigError) as caught:
        Schema(tree, where="x.json")
    assert message in str(caught.value)
    assert str(caught.value).startswith("x.json: ")


def test_allowed_values() -> None:
    """The listed values of a field are known, through references too."""
    assert ((1, 2, 3), ("a", "b"), (), ()) == tuple(
        _NESTED.allowed(path) for path in (("grade",), ("note",), ("share",), ("gone", "below"))
    )
