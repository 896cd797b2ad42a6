"""Settings become judges."""

import pytest

from monitor.errors import ConfigError
from monitor.judging.endpoint.prices import Price
from monitor.runtime.build import build_judge, build_metrics, build_prices
from monitor.settings.tree import JudgeSettings, Settings, validate


def _settings(**tree: object) -> JudgeSettings:
    return validate(JudgeSettings, {"kind": "openai", "base_url": "http://127.0.0.1:1/v1", **tree}, where="judge")


def test_no_judge() -> None:
    """Without a judge model there is nobody to ask."""
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


def test_version_without_an_address() -> None:
    """A version is Azure's, and Azure has no address that everybody shares."""
    with pytest.raises(ConfigError, match=r"judge\.api_version: needs judge\.base_url"):
        build_judge(_settings(base_url=None, api_key="k", api_version="2024-10-21"))


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


def _measured(*names: str, judged: bool = True) -> list[str]:
    judge = build_judge(_settings(model="m")) if judged else None
    settings = validate(Settings, {"metrics": list(names)}, where="settings")
    return [metric.rubric.metric for metric in build_metrics(settings, judge, fence_key=b"k")]


def test_metrics() -> None:
    """Prompt files bring all their metrics, metrics of files can be named alone, and code has its own."""
    expected = ["hate_unfairness", "sexual", "violence", "self_harm", "jailbreak", "coherence", "f1", "recall_at_7"]
    assert expected == _measured("safety", "coherence", "f1", "recall_at_7")


def test_metrics_without_a_judge() -> None:
    """Without a judge model the lexical proxy and what is computed in code are measured."""
    assert ["groundedness_proxy", "f1"] == _measured("groundedness", "f1", judged=False)


@pytest.mark.parametrize("names", [("groundedness", "documents"), ("f1", "f1"), ("answer", "fluency")])
def test_metric_measured_twice(names: tuple[str, str]) -> None:
    """A metric that two entries measure is refused with both of their names."""
    with pytest.raises(ConfigError, match=rf"metrics\[1\]: \w+ is measured by '{names[0]}' already; keep one"):
        _measured(*names)


@pytest.mark.parametrize("judged", [True, False])
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("groundednes", r"no metric or prompt file 'groundednes'; did you mean 'groundedness'\?"),
        ("cohernce", r"no metric or prompt file 'cohernce'; did you mean 'coherence'\?"),
        ("precision_at_k", r"no metric or prompt file 'precision_at_k'; did you mean 'precision_at_K'\?"),
        ("seed_fluency", r"no metric or prompt file 'seed_fluency'; it is called 'published_fluency' now"),
        ("zzz", r"no metric or prompt file 'zzz'; known: .*safety, .*f1, .*coherence"),
        ("./nofile.md", r"nofile\.md: cannot read the prompt: No such file"),
    ],
)
def test_no_such_metric(name: str, message: str, *, judged: bool) -> None:
    """What does not exist is refused with a judge and without, and the nearest or all that exist are named."""
    with pytest.raises(ConfigError, match=rf"^metrics\[1\]: {message}"):
        _measured("f1", name, judged=judged)


@pytest.mark.parametrize("judged", [True, False])
def test_proxy_named(*, judged: bool) -> None:
    """The proxy can be named like anything computed in code, and is then measured once, beside a judge too."""
    assert ["f1", "groundedness_proxy"] == _measured("f1", "groundedness_proxy", judged=judged)


@pytest.mark.parametrize("where", ["judge", "judge.fallback"])
@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("http://u:PW@127.0.0.1/v1", "an address with a user or password in it; give the key as api_key or "),
        ("u:PW@127.0.0.1/v1", "an address with a user or password in it; "),
        ("127.0.0.1:1955", "expected http:// or https://, a host and a path, such as http://"),
        ("localhost/v1", "expected http:// or https://"),
        ("ftp://PW/v1", "expected http:// or https://"),
        ("http://[PW/v1", "expected http:// or https://"),
        ("http://h:PW/v1", "expected http:// or https://"),
    ],
)
def test_wrong_address(where: str, url: str, message: str) -> None:
    """An address that no judge can be asked at is refused with its key and what is allowed, and is not repeated."""
    tree: dict[str, object] = {"base_url": url} if where == "judge" else {"fallback": {"base_url": url}}
    with pytest.raises(ConfigError) as caught:
        validate(Settings, {"judge": {"kind": "openai", **tree}}, where="shop.yaml")
    assert str(caught.value).startswith(f"shop.yaml: {where}.base_url: {message}")
    assert "PW" not in str(caught.value)


def test_a_rule_about_no_metric() -> None:
    """A rate for a metric that nobody measures is refused with the name that was meant."""
    tree = {"metrics": ["groundedness"], "sample": {"rules": [{"metric": "groundednes", "rate": 0}]}}
    settings = validate(Settings, tree, where="settings")
    with pytest.raises(ConfigError, match=r"^sample\.rules\[0\]\.metric: .* did you mean 'groundedness'\?"):
        build_metrics(settings, None, fence_key=b"k")
