"""Looking up what a model costs."""

import pytest

from monitor.judging.endpoint.prices import KNOWN, Price, price_of
from monitor.judging.endpoint.usage import Usage


@pytest.mark.parametrize(
    ("model", "name"),
    [
        ("gpt-4o-mini", "gpt-4o-mini"),
        ("gpt-4o-mini-2024-07-18", "gpt-4o-mini"),
        ("gpt-4o-2024-08-06", "gpt-4o"),
        ("gpt-4.1-nano-2025-04-14", "gpt-4.1-nano"),
        ("gpt-4o-audio", None),
        ("gpt-4", None),
        ("", None),
    ],
)
def test_known(model: str, name: str | None) -> None:
    """A snapshot has its model's price, and a model that is not in the list has none."""
    assert price_of(KNOWN, model) == (KNOWN[name] if name else None)


def test_exact_name_wins() -> None:
    """A snapshot's own price wins over its model's, and the first model that has one over the next."""
    prices = {"m": Price(1, 1), "m-2025-01-01": Price(2, 2)}
    assert Price(2, 2) == price_of(prices, "m-2025-01-01")
    assert Price(1, 1) == price_of(prices, "unknown", "m")


def test_cost() -> None:
    """A thousand tokens each way at a dollar and four dollars a million cost half a cent; cached ones cost less."""
    assert 0.005 == pytest.approx(Price(1, 4).cost_usd(Usage(input=1000, output=1000)))
    cached = Price(1, 4, cached=0.5).cost_usd(Usage(input=1000, output=1000, cached=1000))
    assert 0.0045 == pytest.approx(cached)
    assert 0.005 == pytest.approx(Price(1, 4).cost_usd(Usage(input=1000, output=1000, cached=900)))
