"""Reading the bodies of chat completions."""

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from monitor.judging.endpoint.completion import read


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html>",
        b"{",
        b"[]",
        b"1",
        b"{}",
        b'{"choices": []}',
        b'{"choices": [{}]}',
        b'{"choices": [{"message": null}]}',
    ],
)
def test_no_completion(body: bytes) -> None:
    """A body without a message is none."""
    assert read(body) is None


def test_missing_fields() -> None:
    """What a small server leaves out is empty, zero or `stop`."""
    completion = read(b'{"choices": [{"message": {"content": "hi"}}]}')
    assert completion is not None
    assert ("hi", "stop", None, {}, "") == (
        completion.text,
        completion.finish_reason,
        completion.refusal,
        completion.usage,
        completion.model,
    )


def test_content_in_parts() -> None:
    """Content in parts is put together."""
    parts = '{"type": "text", "text": "a"}, {"text": "b"}, 7, {"type": {}, "text": "c"}'
    completion = read(f'{{"choices": [{{"message": {{"content": [{parts}]}}}}]}}'.encode())
    assert completion is not None
    assert "ab" == completion.text


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content"])
def test_reasoning(field: str) -> None:
    """Reasoning beside the content is noted and not read."""
    completion = read(json.dumps({"choices": [{"message": {"content": None, field: "the score is 4"}}]}).encode())
    assert completion is not None
    assert ("", True) == (completion.text, completion.reasoned)


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda below: (
        st.lists(below, max_size=2)
        | st.dictionaries(
            st.sampled_from(["choices", "message", "content", "usage", "prompt_tokens", "refusal"]), below
        )
    ),
    max_leaves=12,
)


@given(_JSON)
def test_any_json(tree: object) -> None:
    """No JSON whatever makes reading fail."""
    read(json.dumps(tree).encode())
