"""Requests and tokens a minute."""

import pytest

from monitor.judging.endpoint.limiter import Limiter


def test_no_limit() -> None:
    """Without limits nobody waits."""
    limiter = Limiter()
    for _ in range(1000):
        assert 0.0 == limiter.wait(10**6, 5.0)
        limiter.book(10**6, 5.0)


def test_requests() -> None:
    """Ten seconds' worth of requests go at once, later ones evenly, each after those booked before it."""
    limiter = Limiter(requests_per_minute=60)
    waits = []
    for _ in range(13):
        waits.append(limiter.wait(1, 100.0))
        limiter.book(1, 100.0)
    assert [0.0] * 10 + [1.0, 2.0, 3.0] == pytest.approx(waits)
    assert 1.0 == pytest.approx(limiter.wait(1, 103.0))


def test_any_minute() -> None:
    """Over any minute at full load there are no more calls than allowed, plus the ten seconds' worth at its start."""
    limiter, now, sent = Limiter(requests_per_minute=90), 0.0, []
    while now < 300:
        wait = limiter.wait(1, now)
        limiter.book(1, now)
        sent.append(now + wait)
        now += wait + 0.01
    assert all(len([at for at in sent if start <= at < start + 60]) <= 90 + 15 for start in sent)
    assert 90 * 5 <= len(sent) <= 90 * 5 + 16


def test_tokens() -> None:
    """A booking of tokens is corrected by what was used: too much is given back, too little is owed."""
    limiter = Limiter(tokens_per_minute=6000)
    limiter.book(1000, 0.0)
    assert 5.0 == pytest.approx(limiter.wait(500, 0.0))
    limiter.adjust(1000, 400, 0.0)
    assert 0.0 == limiter.wait(500, 0.0)
    limiter.adjust(400, 900, 0.0)
    assert 4.0 == pytest.approx(limiter.wait(500, 0.0))


def test_call_larger_than_the_burst() -> None:
    """A call of more tokens than ten seconds' worth goes when those are free, and later ones wait until it is paid."""
    limiter = Limiter(tokens_per_minute=600)
    assert 0.0 == limiter.wait(1000, 0.0)
    limiter.book(1000, 0.0)
    assert 100.0 == pytest.approx(limiter.wait(100, 0.0))
