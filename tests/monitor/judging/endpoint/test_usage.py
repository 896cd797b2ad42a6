"""What tokens tell of a prompt."""

import pytest

from monitor.judging.endpoint.usage import is_cut
from monitor.model.judgements import ChatMessage


@pytest.mark.parametrize(
    ("text", "counted", "cut"),
    [
        ("The garden centre opens at nine. " * 1500, 4096, True),
        ("The garden centre opens at nine. " * 1500, 10_500, False),
        ("The garden centre opens at nine. " * 1500, 0, False),
        ("The garden centre opens at nine. " * 1500, 100, False),
        ("退款在14天内完成。" * 3000, 4096, False),
        ("x" * 100_000, 2000, False),
        ("word", 1, False),
    ],
)
def test_cut(text: str, counted: int, *, cut: bool) -> None:
    """A prompt of which fewer tokens were read than it has words was cut; a count that cannot be a window's is none."""
    assert cut is is_cut([ChatMessage(role="user", content=text)], counted)
