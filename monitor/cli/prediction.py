"""What `judge cost` and `score` predict from: some stored turns, and how long replies have been."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from monitor.judging.endpoint.prices import Price
from monitor.judging.needs import unmet
from monitor.judging.trials.cost_forecast import Forecast, forecast
from monitor.model.turns import Turn
from monitor.ports import Metric
from monitor.settings.tree import SampleSettings
from monitor.store.sql_store import SqlStore

_LOOKED_AT = 200
_WEEK = timedelta(days=7)


def drawn(turns: Iterable[Turn]) -> tuple[int, Sequence[Turn]]:
    """Return how many turns there are, and some of them, drawn evenly: traffic by day differs from traffic by night."""
    chance = random.Random(0)  # noqa: S311 -- the same turns each time one asks
    chosen: list[Turn] = []
    count = 0
    for count, turn in enumerate(turns, start=1):
        if len(chosen) < _LOOKED_AT:
            chosen.append(turn)
        elif (place := chance.randrange(count)) < _LOOKED_AT:
            chosen[place] = turn
    return count, chosen


def mean_output_tokens(store: SqlStore, metrics: Sequence[Metric], now: datetime) -> dict[str, float]:
    """Return the mean output tokens of verdicts by these rubrics in the last week."""
    rubrics = {metric.rubric.rubric_id for metric in metrics}
    tokens: Counter[str] = Counter()
    verdicts: Counter[str] = Counter()
    for rollup in store.rollups(since=now - _WEEK):
        if rollup.series.rubric_id in rubrics and not rollup.series.slice:
            tokens[rollup.series.metric] += rollup.sums.output_tokens
            verdicts[rollup.series.metric] += rollup.sums.n
    return {metric: tokens[metric] / count for metric, count in verdicts.items() if count and tokens[metric]}


def sampled_forecast(
    metrics: Sequence[Metric],
    turns: Sequence[Turn],
    settings: SampleSettings,
    *,
    price: Price,
    seen: Mapping[str, float],
) -> tuple[float, tuple[Forecast, ...]]:
    """Return the share of such turns that is sampled for any metric, and what each call costs per sampled turn."""
    met = [
        {m.rubric.metric: settings.rate_of(turn.app, turn.environment, m.rubric.metric) for m in metrics_met}
        for turn in turns
        for metrics_met in [[m for m in metrics if unmet(turn, m.rubric) is None]]
    ]
    rates = sorted({rate for of_turn in met for rate in of_turn.values() if rate})
    at_rate = [
        forecast(
            metrics,
            [
                (turn, frozenset(metric for metric, of_metric in of_turn.items() if of_metric == rate))
                for turn, of_turn in zip(turns, met, strict=True)
            ],
            price=price,
            seen=seen,
        )
        for rate in rates
    ]
    share = sum(max(of_turn.values(), default=settings.rate) for of_turn in met) / len(met) if met else settings.rate
    weights = [rate / share for rate in rates]
    return share, tuple(_weighted(parts, weights) for parts in zip(*at_rate, strict=True))


def _weighted(parts: Sequence[Forecast], weights: Sequence[float]) -> Forecast:
    """Return what one call costs over turns that are sampled at several rates."""
    pairs = [*zip(parts, weights, strict=True)]
    return replace(
        parts[0],
        turns=max(part.turns for part in parts),
        calls=sum(part.calls * weight for part, weight in pairs),
        input_tokens=sum(part.input_tokens * weight for part, weight in pairs),
        output_tokens=sum(part.output_tokens * weight for part, weight in pairs),
        usd=sum(part.usd * weight for part, weight in pairs),
    )
