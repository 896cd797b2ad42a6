"""How fast an endpoint may be asked: requests and tokens a minute, spread evenly, with ten seconds' worth at once.

Two leaky buckets that go into debt: a call is booked when it comes, and waits until it is paid for.
Instants are seconds of any one monotonic clock.
"""

from __future__ import annotations

_BURST_SECONDS = 10.0
_MINUTE = 60.0


class Limiter:
    """One endpoint's limits; None is no limit."""

    def __init__(self, *, requests_per_minute: int | None = None, tokens_per_minute: int | None = None) -> None:
        self._requests = _Bucket(requests_per_minute)
        self._tokens = _Bucket(tokens_per_minute)

    def wait(self, tokens: int, now: float) -> float:
        """Return how many seconds a call of about `tokens` tokens would have to wait if it was booked now."""
        return max(self._requests.wait(1, now), self._tokens.wait(tokens, now))

    def book(self, tokens: int, now: float) -> None:
        """Book a call: later ones wait for it."""
        self._requests.take(1, now)
        self._tokens.take(tokens, now)

    def adjust(self, expected: int, used: int, now: float) -> None:
        """Adjust a booking of `expected` tokens to how many were `used`, once that is known."""
        self._tokens.take(used - expected, now)


class _Bucket:
    def __init__(self, per_minute: int | None) -> None:
        self._rate = per_minute / _MINUTE if per_minute else None
        self._size = max((self._rate or 0) * _BURST_SECONDS, 1.0)
        self._level = self._size
        self._at = 0.0

    def wait(self, amount: float, now: float) -> float:
        if self._rate is None:
            return 0.0
        # A call larger than the bucket waits for a full one; its debt is paid by those after it.
        short = min(amount, self._size) - self._filled(now)
        return max(short / self._rate, 0.0)

    def take(self, amount: float, now: float) -> None:
        if self._rate is not None:
            self._level = min(self._filled(now) - amount, self._size)
            self._at = now

    def _filled(self, now: float) -> float:
        return min(self._level + max(now - self._at, 0.0) * (self._rate or 0.0), self._size)
