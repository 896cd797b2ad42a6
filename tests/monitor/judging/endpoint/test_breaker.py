"""When an endpoint is worth asking."""

from monitor.errors import Rejected, Retryable, Unusable
from monitor.judging.endpoint.breaker import Breaker

_FAILED = Retryable("asking openai:m: HTTP 503")
_REJECTED = Rejected("asking openai:m: HTTP 400", reason="rejected")


def test_failures_in_a_row() -> None:
    """Four failures in a row are the calls' own; the fifth is the endpoint's, and nobody asks for five seconds."""
    breaker = Breaker()
    assert [False, False, False, False, True] == [breaker.failed(_FAILED, 100.0) for _ in range(5)]
    assert ("asking openai:m: HTTP 503", 5.0, 2.0) == (breaker.trouble, breaker.rests(100.0), breaker.rests(103.0))


def test_an_answer_in_between() -> None:
    """Failures that answers come between never add up."""
    breaker = Breaker()
    for _ in range(20):
        assert not any(breaker.failed(_FAILED, 100.0) for _ in range(4))
        breaker.worked()
    assert (None, 0.0) == (breaker.trouble, breaker.rests(100.0))


def test_failed_tries() -> None:
    """Each try that fails doubles the rest, up to five minutes; an answer ends the trouble and forgets all that."""
    breaker, now, rests = Breaker(), 0.0, []
    for _ in range(5):
        breaker.failed(_FAILED, now)
    for _ in range(8):
        rests.append(breaker.rests(now))
        now += rests[-1]
        assert breaker.failed(_FAILED, now)
    assert [5.0, 10.0, 20.0, 40.0, 80.0, 160.0, 300.0, 300.0] == rests
    breaker.worked()
    assert not breaker.failed(_FAILED, now)
    assert breaker.trouble is None


def test_failures_side_by_side() -> None:
    """Calls that were under way when the rest began do not lengthen it."""
    breaker = Breaker()
    for _ in range(64):
        breaker.failed(_FAILED, 100.0)
    assert 5.0 == breaker.rests(100.0)


def test_unusable_at_once() -> None:
    """An endpoint that refuses everybody is in trouble from the first call on."""
    breaker = Breaker()
    assert breaker.failed(Unusable("asking openai:m: HTTP 401"), 100.0)
    assert ("asking openai:m: HTTP 401", 30.0) == (breaker.trouble, breaker.rests(100.0))


def test_everything_is_rejected() -> None:
    """Four rejections in a row are the requests' own; the fifth says that the endpoint takes nothing of ours."""
    breaker = Breaker()
    assert [False] * 4 + [True] == [breaker.rejected(_REJECTED, 100.0) for _ in range(5)]
    breaker.worked()
    assert not breaker.rejected(_REJECTED, 200.0)


def test_rejection_ends_an_outage() -> None:
    """An endpoint that rejects one request again answers; it is not down any more."""
    breaker = Breaker()
    for _ in range(5):
        breaker.failed(_FAILED, 0.0)
    assert not breaker.rejected(_REJECTED, 5.0)
    assert breaker.trouble is None
