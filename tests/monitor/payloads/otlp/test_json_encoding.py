"""OTLP/JSON as senders write it, within the specification and beside it."""

import json
import math
from collections.abc import Mapping
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.errors import MalformedPayload
from monitor.model.spans import AttributeValue, Span
from monitor.payloads.otlp.fragments import Split, decode_otlp, split_otlp

NOW = datetime(2026, 5, 4, 10, 0, tzinfo=UTC)
GOOD = {
    "traceId": "5b8efff798038103d269b633813fc60c",
    "spanId": "eee19b7ec3c1b173",
    "name": "chat",
    "startTimeUnixNano": "1777888800000000000",
    "endTimeUnixNano": "1777888801000000000",
}


def split(body: object) -> Split:
    """Split a request, given as bytes, as text or as what JSON text stands for."""
    text = body if isinstance(body, str | bytes) else json.dumps(body)
    raw = text if isinstance(text, bytes) else text.encode()
    return split_otlp(raw, "traces", received_at=NOW, encoding="json")


def request(*spans: object) -> Mapping[str, object]:
    """Return a request of spans."""
    return {"resourceSpans": [{"scopeSpans": [{"spans": list(spans)}]}]}


def read(**fields: object) -> Span:
    """Return the good span with other fields, read."""
    (fragment,) = split(request(GOOD | fields)).fragments
    (span,) = decode_otlp(fragment).spans
    return span


def attribute(value: object) -> AttributeValue:
    """Return an attribute value, read."""
    return read(attributes=[{"key": "k", "value": value}]).attributes["k"]


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ({"stringValue": "a"}, "a"),
        ({"string_value": "a"}, "a"),
        ({"stringValue": ""}, ""),
        ({"stringValue": 5}, "5"),
        ({"intValue": "812"}, 812),
        ({"intValue": 31}, 31),
        ({"intValue": 31.0}, 31),
        ({"intValue": "-9223372036854775808"}, -(2**63)),
        ({"intValue": "9223372036854775808"}, 2.0**63),
        ({"intValue": "many"}, "many"),
        ({"doubleValue": 0.5}, 0.5),
        ({"doubleValue": "0.5"}, 0.5),
        ({"doubleValue": 1}, 1.0),
        ({"doubleValue": "Infinity"}, math.inf),
        ({"doubleValue": "-Infinity"}, -math.inf),
        ({"boolValue": True}, True),
        ({"boolValue": "true"}, True),
        ({"boolValue": False}, False),
        ({"bytesValue": "AAEC/w=="}, b"\x00\x01\x02\xff"),
        ({"bytesValue": "AAEC_w"}, b"\x00\x01\x02\xff"),
        ({"arrayValue": {}}, ()),
        ({"arrayValue": {"values": [{"intValue": 1}, {}, None]}}, (1, None, None)),
        ({"kvlistValue": {}}, {}),
        (
            {"kvlistValue": {"values": [{"key": "a", "value": {"boolValue": True}}, {"key": "b"}]}},
            {"a": True, "b": None},
        ),
        ({"stringValue": None, "intValue": 5}, 5),
        ({"newValue": 5}, None),
        ({}, None),
        (None, None),
        ("bare", "bare"),
        (5, 5),
        (True, True),
        ([1, "a"], (1, "a")),
    ],
)
def test_attribute_value(written: object, expected: AttributeValue) -> None:
    """Each form of a value reads as the one Python value it means, of the right type."""
    value = attribute(written)
    assert (type(expected), expected) == (type(value), value)


def test_not_a_number() -> None:
    """NaN is read as a string, as the specification writes it, and as the literal that some senders write."""
    for text in ('{"doubleValue": "NaN"}', '{"doubleValue": NaN}'):
        body = json.dumps(request(GOOD | {"attributes": [{"key": "k", "value": "HERE"}]})).replace('"HERE"', text)
        (span,) = decode_otlp(split(body).fragments[0]).spans
        value = span.attributes["k"]
        assert isinstance(value, float)
        assert math.isnan(value)


@pytest.mark.parametrize(
    ("written", "expected"),
    [(None, 0), (3, 3), ("3", 3), ("SPAN_KIND_SERVER", 2), ("SPAN_KIND_NEW", 0), ({}, 0), (-1, 0), (10**30, 0)],
)
def test_kind(written: object, expected: int) -> None:
    """The kind is a number, a name, or nothing, which means unspecified."""
    assert expected == read(kind=written).kind


def test_status_by_name() -> None:
    """A status code may be given by name."""
    assert 2 == read(status={"code": "STATUS_CODE_ERROR"}).status


@pytest.mark.parametrize("missing", ["name", "kind", "attributes", "events", "status", "parentSpanId", "links"])
def test_null_fields(missing: str) -> None:
    """A field that is null reads as one that is not there."""
    assert read() == read(**({} if missing == "name" else {missing: None}))


def test_snake_case_names() -> None:
    """Field names in protobuf's own spelling are read as well."""
    span = {
        "trace_id": GOOD["traceId"],
        "span_id": GOOD["spanId"],
        "name": "chat",
        "start_time_unix_nano": 1777888800000000000,
        "end_time_unix_nano": 1777888801000000000,
    }
    (fragment,) = split({"resource_spans": [{"scope_spans": [{"spans": [span]}]}]}).fragments
    assert (read(),) == decode_otlp(fragment).spans


@pytest.mark.parametrize("value", [None, 7, "", "zz" * 16, "ab" * 15, "abc", {}, "AbX//u/iXmgF5wr0f8cOrg=="])
def test_trace_id_that_is_not_one(value: object) -> None:
    """A trace id that is not 32 hexadecimal digits costs its span, and no other."""
    content = split(request(GOOD | {"traceId": value}, GOOD))
    assert (1, {"trace_id": 1}) == (content.accepted, content.reasons)


def test_things_that_are_not_spans() -> None:
    """What is not an object cannot be a span, and is counted."""
    content = split(request(None, 5, "span", [], GOOD))
    assert (1, {"unreadable": 4}) == (content.accepted, content.reasons)


WRONG_ATTRIBUTES = (
    ({"input.value": {"stringValue": "secret"}}, ": found an object; allowed: an array of objects"),
    ("secret", ": found a string; allowed: an array of objects"),
    (["secret"], "[0]: found a string; allowed: an object"),
    ([{"key": "a", "value": {"stringValue": "secret"}}, 5], "[1]: found a number; allowed: an object"),
    ([{"input.value": "secret"}], ": found an object without 'key'; allowed: objects with 'key'"),
    ([{"value": {"stringValue": "secret"}}], ": found an object without 'key'; allowed: objects with 'key'"),
    ([{"key": ["secret"]}], ": found an object without 'key'; allowed: objects with 'key'"),
)


@pytest.mark.parametrize(("attributes", "complaint"), WRONG_ATTRIBUTES)
@pytest.mark.parametrize("owner", ["", "events", "links"])
def test_attributes_that_are_none(owner: str, attributes: object, complaint: str) -> None:
    """A span whose attributes, or those of an event or a link, cannot be read is rejected, with the place."""
    part = {"attributes": attributes}
    content = split(request(GOOD, GOOD | ({owner: [{}, part]} if owner else part)))
    assert (1, {"unreadable": 1}) == (content.accepted, content.reasons)
    around = f"{owner}[1]." if owner else ""
    assert f"resourceSpans[0].scopeSpans[0].spans[1]: {around}attributes{complaint}" == content.complaint


@pytest.mark.parametrize(("attributes", "complaint"), WRONG_ATTRIBUTES)
def test_attributes_of_a_log_record_that_are_none(attributes: object, complaint: str) -> None:
    """Log records are read as strictly as spans."""
    records = [{"traceId": GOOD["traceId"]}, {"traceId": GOOD["traceId"], "attributes": attributes}]
    body = json.dumps({"resourceLogs": [{"scopeLogs": [{"logRecords": records}]}]}).encode()
    content = split_otlp(body, "logs", received_at=NOW, encoding="json")
    assert (1, {"unreadable": 1}) == (content.accepted, content.reasons)
    assert f"resourceLogs[0].scopeLogs[0].logRecords[1]: attributes{complaint}" == content.complaint


@pytest.mark.parametrize("name", ["events", "links"])
@pytest.mark.parametrize("written", ["none", {"a": 1}, ["none"]])
def test_events_and_links_that_are_none(name: str, written: object) -> None:
    """A span whose events or links are of the wrong type is rejected, with the place."""
    content = split(request(GOOD | {name: written}, GOOD))
    assert (1, {"unreadable": 1}) == (content.accepted, content.reasons)
    assert content.complaint.startswith(f"resourceSpans[0].scopeSpans[0].spans[0]: {name}")


@pytest.mark.parametrize(
    ("value", "complaint"),
    [
        ({"stringValue": {"secret": 1}}, "found an object; allowed: a scalar of the type that it says"),
        ({"stringValue": ["secret"]}, "found an array; allowed: a scalar of the type that it says"),
        ({"intValue": ["secret"]}, "found an array; allowed: a scalar of the type that it says"),
        ({"doubleValue": {}}, "found an object; allowed: a scalar of the type that it says"),
        ({"boolValue": ["secret"]}, "found an array; allowed: a scalar of the type that it says"),
        ({"bytesValue": ["secret"]}, "found an array; allowed: a scalar of the type that it says"),
        ({"bytesValue": "not base64!"}, "found a string that is not base64; allowed: bytes in base64"),
        ({"arrayValue": "secret"}, "found a string; allowed: an array in 'values'"),
        ({"arrayValue": {"values": {"stringValue": "secret"}}}, "found an object; allowed: an array in 'values'"),
        ({"kvlistValue": "secret"}, "found a string; allowed: an array in 'values'"),
        ({"kvlistValue": {"values": ["secret"]}}, "values: found a string; allowed: objects with 'key'"),
        ({"kvlistValue": {"values": [{"secret": 1}]}}, "values: found an object; allowed: objects with 'key'"),
        ({"arrayValue": {"values": [{"stringValue": ["secret"]}]}}, "found an array; allowed: a scalar"),
    ],
)
@pytest.mark.parametrize("owner", ["", "events"])
def test_values_that_are_not_what_they_say(owner: str, value: object, complaint: str) -> None:
    """A value of another type than its name says would be stored as nothing: its span is rejected, with the place."""
    part = {"attributes": [{"key": "a"}, {"key": "b", "value": value}]}
    content = split(request(GOOD, GOOD | ({owner: [part]} if owner else part)))
    assert (1, {"unreadable": 1}) == (content.accepted, content.reasons)
    around = f"{owner}[0]." if owner else ""
    place = f"resourceSpans[0].scopeSpans[0].spans[1]: {around}attributes[1].value: {complaint}"
    assert content.complaint.startswith(place)


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        ({"boolValue": "TRUE"}, "TRUE"),
        ({"boolValue": "false"}, False),
        ({"arrayValue": {}}, ()),
        ({"arrayValue": ["a"]}, ("a",)),
        ({"arrayValue": {"values": None}}, ()),
        ({"kvlistValue": {}}, {}),
        ({"kvlistValue": {"values": [None, {"key": "k", "value": 1}]}}, {"k": 1}),
        ({"bytesValue": ""}, b""),
        ({"aTypeOfNextYear": 1}, None),
    ],
)
def test_values_that_say_little(value: object, expected: AttributeValue) -> None:
    """What holds nothing, or is of a type nobody knows yet, costs nothing else; a word is not taken for false."""
    assert expected == attribute(value)


@pytest.mark.parametrize("written", ["STATUS_CODE_ERROR", 2, ["ERROR"]])
def test_status_that_is_none(written: object) -> None:
    """A span whose status is no object is rejected, with the place: as without one it would pass for a success."""
    content = split(request(GOOD | {"status": written}, GOOD))
    assert (1, {"unreadable": 1}) == (content.accepted, content.reasons)
    assert content.complaint.startswith("resourceSpans[0].scopeSpans[0].spans[0]: status: found a")


@pytest.mark.parametrize("name", ["attributes", "events", "links"])
@pytest.mark.parametrize("nothing", [None, {}, "", [], [None]])
def test_arrays_that_hold_nothing(name: str, nothing: object) -> None:
    """Nothing in the place of an array loses nothing, whatever its type."""
    assert read() == read(**{name: nothing})


def test_first_complaint() -> None:
    """The first place is named; one above the records goes before all of theirs."""
    spans = {"scopeSpans": [{"spans": [GOOD, 1, "a"]}]}
    assert "resourceSpans[0].scopeSpans[0].spans[1]: found a number; allowed: an object" == (
        split({"resourceSpans": [spans]}).complaint
    )
    assert "resourceSpans[1]: found a string; allowed: an object" == split({"resourceSpans": [spans, "a"]}).complaint
    assert "" == split(request(GOOD, GOOD | {"traceId": ""})).complaint


def test_nesting_without_end() -> None:
    """A value nested deeper than can be stored costs its span, and no other."""
    value: object = {"stringValue": "deep"}
    for _ in range(100):
        value = {"arrayValue": {"values": [value]}}
    content = split(request(GOOD | {"attributes": [{"key": "k", "value": value}]}, GOOD))
    assert (1, {"unreadable": 1}) == (content.accepted, content.reasons)

    with pytest.raises(MalformedPayload):
        split("[" * 100_000)


def test_resource_nested_without_end() -> None:
    """A resource whose attributes are nested too deep costs its own records, which belong to nobody, and no others."""
    value: object = {"stringValue": "deep"}
    for _ in range(50):
        value = {"arrayValue": {"values": [value]}}
    good, deep = request(GOOD)["resourceSpans"][0], request(GOOD, GOOD)["resourceSpans"][0]
    deep["resource"] = {"attributes": [{"key": "service.name", "value": value}]}
    content = split({"resourceSpans": [deep, good]})
    assert (1, {"unreadable": 2}) == (content.accepted, content.reasons)


def test_maps_in_maps() -> None:
    """Thirty maps in each other are read, or left out; never accepted and then unreadable."""
    value: object = {"stringValue": "deep"}
    for depth in range(1, 40):
        value = {"kvlistValue": {"values": [{"key": "k", "value": value}]}}
        content = split(request(GOOD | {"attributes": [{"key": "k", "value": value}]}, GOOD))
        assert 2 == content.accepted + content.rejected
        assert content.accepted == len(decode_otlp(content.fragments[0]).spans)
        assert depth > 20 or content.rejected == 0


def test_half_a_surrogate_pair() -> None:
    """An emoji that a sender cut in two reads as U+FFFD, flagged."""
    body = json.dumps(request(GOOD | {"name": "HERE"})).replace("HERE", "12 \\ud83d")
    (span,) = decode_otlp(split(body).fragments[0]).spans
    assert ("12 \ufffd", {"text_repaired"}) == (span.name, span.flags)


@pytest.mark.parametrize("raw", [b"caf\xe9", b"caf\xe2\x82", b"caf\xe2\x82 \\ud83d"])
def test_text_that_is_not_utf8(raw: bytes) -> None:
    """Bytes that are not UTF-8 read and are flagged as they are in protobuf; the other spans stay as they are."""
    body = json.dumps(request(GOOD | {"name": "HERE"}, GOOD)).encode().replace(b"HERE", raw, 1)
    odd, sound = decode_otlp(split(body).fragments[0]).spans
    assert (raw.replace(b"\\ud83d", b"\xff").decode(errors="replace"), {"text_repaired"}) == (odd.name, odd.flags)
    assert not sound.flags


def test_nul_escape() -> None:
    """A NUL written as an escape becomes U+FFFD, flagged."""
    span = read(name="a\0b")
    assert ("a\ufffdb", {"text_repaired"}) == (span.name, span.flags)


def test_lists_of_resources() -> None:
    """A bare array of resources, or of requests, is read like the request it stands for."""
    whole = request(GOOD)
    assert split(whole) == split(whole["resourceSpans"]) == split([whole])


@pytest.mark.parametrize(
    "body", ["{}", "[]", "", '{"resourceSpans": null}', '{"resourceSpans": [{"resource": null, "scopeSpans": [{}]}]}']
)
def test_empty_request(body: str) -> None:
    """A request without spans is fine and holds nothing."""
    assert (0, 0) == (split(body).accepted, split(body).rejected)


@pytest.mark.parametrize("body", ['{"batches": []}', '{"resourceLogs": []}', "[1]", "5", '"x"', "null", "{", "[NaN"])
def test_foreign_json(body: str) -> None:
    """JSON without the signal's field, and text that is no JSON, is malformed; the error quotes none of it."""
    with pytest.raises(MalformedPayload) as caught:
        split(body)
    assert "batches" not in str(caught.value)


SOUND = {"scopeSpans": [{"spans": [GOOD]}]}


@pytest.mark.parametrize(
    ("body", "complaint"),
    [
        ({"resourceSpans": "x"}, "resourceSpans: found a string; allowed: an array of objects"),
        ({"resource_spans": 5}, "resource_spans: found a number; allowed: an array of objects"),
        ({"resourceSpans": ["junk", {}]}, "resourceSpans[0]: found a string; allowed: an object"),
        ({"resourceSpans": [{}, None]}, "resourceSpans[1]: found null; allowed: an object"),
        ({"resourceSpans": [{"scopeSpans": {}}]}, "resourceSpans[0].scopeSpans: found an object; allowed: an array of"),
        ({"resourceSpans": [{"scopeSpans": [[]]}]}, "resourceSpans[0].scopeSpans[0]: found an array; allowed: an obj"),
        ({"resourceSpans": [{"scopeSpans": [{"spans": True}]}]}, "resourceSpans[0].scopeSpans[0].spans: found a bool"),
        ({"resourceSpans": [SOUND | {"resource": "shop"}]}, "resourceSpans[0]: resource: found a string; allowed: an"),
        (
            {"resourceSpans": [SOUND | {"resource": {"attributes": {"service.name": "shop"}}}]},
            "resourceSpans[0]: resource.attributes: found an object; allowed: an array of objects",
        ),
        (
            {"resourceSpans": [SOUND | {"resource": {"attributes": ["a"]}}]},
            "resourceSpans[0]: resource.attributes[0]: found a string; allowed: an object",
        ),
        (
            {"resourceSpans": [{"scopeSpans": [{"scope": [], "spans": [GOOD]}]}]},
            "resourceSpans[0].scopeSpans[0]: scope: found an array; allowed: an object",
        ),
        (
            {"resourceSpans": [{"scopeSpans": [{"scope": {"attributes": {"a": "b"}}, "spans": [GOOD]}]}]},
            "resourceSpans[0].scopeSpans[0]: scope.attributes: found an object; allowed: an array of objects",
        ),
        ([SOUND | {"scopeSpans": 1.5}], "[0].scopeSpans: found a number; allowed: an array of objects"),
        ([{"resourceLogs": [{}]}], "[0]: found an object; allowed: an object with 'resourceSpans' or 'scopeSpans'"),
    ],
)
def test_wrong_type_above_the_records(body: dict[str, object] | list[object], complaint: str) -> None:
    """A wrong type above the records refuses a request without sound records, and is counted beside some."""
    with pytest.raises(MalformedPayload) as caught:
        split(body)
    assert ("not_otlp", complaint) == (caught.value.reason, str(caught.value)[: len(complaint)])

    key = next(iter(body)) if isinstance(body, dict) else ""
    rows = body[key] if isinstance(body, dict) else body
    if isinstance(rows, list):
        content = split({key: [*rows, SOUND]} if key else [*rows, SOUND])
        assert (1, {"unreadable": 1}) == (content.accepted, content.reasons)


def test_wrong_type_above_log_records() -> None:
    """Logs are read as strictly as spans."""
    record = {"traceId": GOOD["traceId"]}
    bad = {"resourceLogs": [{"scopeLogs": [{"logRecords": "x"}]}]}
    with pytest.raises(MalformedPayload, match=r"^resourceLogs\[0\]\.scopeLogs\[0\]\.logRecords: found a string; "):
        split_otlp(json.dumps(bad).encode(), "logs", received_at=NOW, encoding="json")
    bad["resourceLogs"].append({"scopeLogs": [{"logRecords": [record]}]})  # type: ignore[dict-item]
    content = split_otlp(json.dumps(bad).encode(), "logs", received_at=NOW, encoding="json")
    assert (1, {"unreadable": 1}) == (content.accepted, content.reasons)


def test_records_of_a_resource_that_is_none() -> None:
    """Records whose resource or scope is of the wrong type are counted one by one: whose they are cannot be told."""
    resource = {"resource": 1, "scopeSpans": [{"spans": [GOOD, GOOD]}, {"spans": [5]}]}
    scope = {"scopeSpans": [{"scope": "x", "spans": [GOOD, GOOD]}, {"spans": [GOOD]}]}
    content = split({"resourceSpans": [resource, scope]})
    assert (1, {"unreadable": 5}) == (content.accepted, content.reasons)


def test_both_spellings() -> None:
    """What is sent under either spelling of a name counts."""
    assert 2 == split({"resourceSpans": [SOUND], "resource_spans": [SOUND]}).accepted


JUNK = st.one_of(st.none(), st.booleans(), st.integers(), st.text(max_size=3), st.just([]), st.just({}))


def array(of: st.SearchStrategy[object]) -> st.SearchStrategy[object]:
    """Lists of sound things and junk, or junk instead of the list."""
    return st.one_of(st.lists(st.one_of(of, JUNK), max_size=3), JUNK)


def holder(name: str, of: st.SearchStrategy[object], around: str) -> st.SearchStrategy[object]:
    """Objects that hold such an array under either spelling, and perhaps something under `around`."""
    snake = {"resourceSpans": "resource_spans", "scopeSpans": "scope_spans"}.get(name, name)
    return st.builds(
        lambda key, array, more: {key: array, **more},
        st.sampled_from([name, snake]),
        array(of),
        st.one_of(st.just({}), st.fixed_dictionaries({around: JUNK})),
    )


SPANS = st.builds(lambda number: GOOD | {"spanId": f"{number:016x}"}, st.integers(1, 2**60))
RESOURCES = holder("scopeSpans", holder("spans", SPANS, "scope"), "resource")


def entries(tree: object, *names: tuple[str, ...]) -> int:
    """Spans, and what stands in the place of resources, scopes and spans and is none."""
    if not names or not isinstance(tree, dict):
        return 1
    below = [entry for key in dict.fromkeys(names[0]) if isinstance(tree.get(key), list) for entry in tree[key]]
    return sum(entries(entry, *names[1:]) for entry in below)


@given(holder("resourceSpans", RESOURCES, "extra"))
def test_every_entry_is_kept_or_counted(tree: object) -> None:
    """A request is refused, or every entry of its arrays is accepted or counted as rejected, and decodes."""
    try:
        content = split(tree)
    except MalformedPayload:
        return
    names = (("resourceSpans", "resource_spans"), ("scopeSpans", "scope_spans"), ("spans",))
    assert entries(tree, *names) <= content.accepted + content.rejected
    assert content.accepted == sum(len(decode_otlp(fragment).spans) for fragment in content.fragments)
