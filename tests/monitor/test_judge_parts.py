"""Settings become judges."""

import pytest

from monitor.errors import ConfigError
from monitor.judging.prices import Price
from monitor.parts import build_judge, build_prices
from monitor.settings import JudgeSettings, validate


def _settings(**tree: object) -> JudgeSettings:
    return validate(JudgeSettings, {"kind": "openai", "base_url": "http://127.0.0.1:1/v1", **tree}, where="judge")


def test_offline() -> None:
    """The offline judge is no model."""
    assert build_judge(JudgeSettings()) is None


def test_fallback() -> None:
    """A fallback of another model is part of the judge's name."""
    judge = build_judge(_settings(model="a", fallback={"base_url": "http://127.0.0.1:2/v1", "model": "b"}))
    assert judge is not None
    assert "openai:a, else openai:b" == judge.name


@pytest.mark.parametrize("where", ["judge", "judge.fallback"])
def test_no_key(where: str) -> None:
    """OpenAI's own endpoint needs a key, and the message says whose is missing."""
    tree: dict[str, object] = {"base_url": None} if where == "judge" else {"fallback": {"model": "b"}}
    with pytest.raises(ConfigError, match=f"^{where}: kind openai needs api_key"):
        build_judge(_settings(**tree))


def test_budget_without_a_price() -> None:
    """A budget for a model whose price nobody knows would never be spent, so it is refused."""
    with pytest.raises(ConfigError, match=r"judge\.prices: a budget needs the price of 'llama'"):
        build_judge(_settings(model="llama", budget={"daily_usd": 1}))
    assert build_judge(_settings(model="llama")) is not None
    free = {"llama": {"input": 0, "output": 0}}
    assert build_judge(_settings(model="llama", budget={"daily_usd": 1}, prices=free)) is not None


def test_prices() -> None:
    """The settings' prices win over the known ones and leave the others."""
    prices = build_prices(_settings(prices={"gpt-4o": {"input": 1, "output": 2, "cached": 0.5}}))
    assert (Price(1, 2, cached=0.5), Price(0.15, 0.60, cached=0.075)) == (prices["gpt-4o"], prices["gpt-4o-mini"])
