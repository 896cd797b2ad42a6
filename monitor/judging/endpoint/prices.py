"""What a reply cost: list prices by model, and the settings' own above them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from monitor.judging.endpoint.usage import Usage

_MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars a million tokens."""

    input: float
    output: float
    cached: float | None = None
    """Of input tokens that the endpoint had cached; None for no discount."""
    cache_write: float | None = None
    """Of input tokens that it wrote to its cache; None for no surcharge."""

    def cost_usd(self, usage: Usage) -> float:
        """Return the price of one reply.

        >>> Price(2.5, 10.0, cached=1.25).cost_usd(Usage(input=2000, output=100, cached=1000))
        0.00475
        >>> Price(3.0, 15.0, cached=0.3, cache_write=3.75).cost_usd(Usage(input=3000, output=0, cache_written=2000))
        0.0105
        """
        discount = (self.input - self.cached) * usage.cached if self.cached is not None else 0.0
        surcharge = (self.cache_write - self.input) * usage.cache_written if self.cache_write is not None else 0.0
        return (self.input * usage.input - discount + surcharge + self.output * usage.output) / _MILLION


KNOWN: Mapping[str, Price] = MappingProxyType(
    {
        "gpt-4o": Price(2.5, 10.0, cached=1.25),
        "gpt-4o-mini": Price(0.15, 0.60, cached=0.075),
        "gpt-4.1": Price(2.0, 8.0, cached=0.5),
        "gpt-4.1-mini": Price(0.40, 1.60, cached=0.10),
        "gpt-4.1-nano": Price(0.10, 0.40, cached=0.025),
        "o4-mini": Price(1.10, 4.40, cached=0.275),
    }
)
"""OpenAI's list prices of 2025. Prices change and contracts differ: `judge.prices` of the settings wins."""


def price_of(prices: Mapping[str, Price], *models: str) -> Price | None:
    """Return the price of the first of `models` that has one; None when none has.

    An entry is for the model it names, and for that model's snapshots: `gpt-4o` for `gpt-4o-2024-08-06`, but neither
    for `gpt-4o-mini` nor for `gpt-4o-audio`.

    >>> price_of({"m": Price(1, 2), "m-mini": Price(3, 4)}, "m-mini-2025-01-01")
    Price(input=3, output=4, cached=None, cache_write=None)
    >>> price_of({"m": Price(1, 2)}, "m-large", "n") is None
    True
    """
    for model in models:
        for name in (model, _without_snapshot(model)):
            if name in prices:
                return prices[name]
    return None


def _without_snapshot(model: str) -> str:
    """Return the name without a date at its end: `-2024-08-06`, `-20240806` or `-0613`."""
    parts = model.split("-")
    while len(parts) > 1 and parts[-1].isdigit() and len(parts[-1]) in {2, 4, 8}:
        parts.pop()
    return "-".join(parts)
