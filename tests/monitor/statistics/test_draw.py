"""Where a trace lies between 0 and 1."""

from hypothesis import given
from hypothesis import strategies as st

from monitor.statistics.draw import unit


@given(st.text(max_size=40), st.text(max_size=100))
def test_unit(trace_id: str, salt: str) -> None:
    """A trace's place is in [0, 1) and always the same."""
    place = unit(trace_id, salt)
    assert 0 <= place < 1
    assert place == unit(trace_id, salt)
