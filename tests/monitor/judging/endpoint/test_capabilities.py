"""What an endpoint takes."""

import pytest

from monitor.judging.endpoint.capabilities import Capabilities

_ALL = Capabilities()


@pytest.mark.parametrize(
    ("parameter", "message", "left"),
    [
        ("max_tokens", "Unsupported parameter", Capabilities(tokens="max_completion_tokens")),
        (
            None,
            "'max_tokens' is not supported. Use 'max_completion_tokens'.",
            Capabilities(tokens="max_completion_tokens"),
        ),
        ("temperature", "Unsupported value", Capabilities(temperature=False)),
        (None, "Unsupported value: 'temperature' does not support 0", Capabilities(temperature=False)),
        (None, "[{'loc': ['body', 'seed'], 'msg': 'extra'}]", Capabilities(seed=False)),
        ("response_format.json_schema", "", Capabilities(format="json_object")),
        (None, "This model does not support response format `json_schema`", Capabilities(format="json_object")),
        (None, "structured outputs are not available", Capabilities(format="json_object")),
        ("max_tokens", "max_tokens is too large: 900", None),
        ("max_completion_tokens", "unknown", None),
        ("model", "no such model; check temperature", None),
        (None, "invalid request", None),
        (None, "x" * 400 + " temperature", None),
        (None, "the seedling document", None),
    ],
)
def test_refusal(parameter: str | None, message: str, left: Capabilities | None) -> None:
    """What a refusal names is given up, and only when it is something that was sent."""
    assert left == _ALL.without(parameter, message)


def test_everything_is_given_up_once() -> None:
    """Refusals end: what was given up is not given up again."""
    left: Capabilities | None = _ALL
    for name in ("max_tokens", "max_completion_tokens", "temperature", "seed", "response_format", "response_format"):
        assert left is not None
        left = left.without(name, "unsupported")
    assert Capabilities(format="text", tokens=None, temperature=False, seed=False) == left
    assert [None] * 4 == [left.without(n, "") for n in ("max_tokens", "temperature", "seed", "response_format")]
