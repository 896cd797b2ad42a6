"""`rag-monitor score`: stored turns are judged by a metric that was added later."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

import click

from monitor.cli.known_names import check_names
from monitor.cli.options import CONFIG, STORE, examples, moment, open_store_of, settings_of
from monitor.cli.prediction import drawn, mean_output_tokens
from monitor.errors import ConfigError
from monitor.judging.endpoint.prices import price_of
from monitor.judging.trials.cost_forecast import forecast
from monitor.model.judgements import Sampling
from monitor.model.turns import Turn
from monitor.ports import Metric
from monitor.runtime.app import utc_now
from monitor.runtime.build import build_judge, build_metrics, build_prices
from monitor.settings.nearest import suggestion
from monitor.settings.tree import Settings
from monitor.stages.sample import missing, queue


@click.command(
    epilog=examples(
        "rag-monitor score --metric safety --since 7d", "rag-monitor score --metric safety --since 7d --app shop --yes"
    )
)
@CONFIG
@STORE
@click.option("--metric", "names", multiple=True, required=True, help="One of the settings' metrics; may be repeated.")
@click.option(
    "--since", metavar="WHEN", required=True, help='Turns begun since: a time ("2026-03-01T00:00Z") or an age ("7d").'
)
@click.option("--app", help="Only turns of this app.")
@click.option("--yes", "is_agreed", is_flag=True, help="Queue them; without it only what it would cost is printed.")
def score(
    config: Path | None, store_url: str | None, names: tuple[str, ...], since: str, app: str | None, *, is_agreed: bool
) -> None:
    """Have stored turns judged by a metric that was not measured when they came, or that nobody could be asked about.

    Turns are drawn at the rates of the settings; `rag-monitor run` judges them at its next ticks, within its budgets.
    """
    settings = settings_of(config, store_url)
    now, begin = utc_now(), moment(since)
    kept_since = now - settings.retention.text
    if begin < kept_since:
        click.echo(f"only from {kept_since:%Y-%m-%d %H:%M} UTC: older text is not kept (retention.text)", err=True)
        begin = kept_since
    samplings: list[Sampling] = []
    with open_store_of(config, store_url) as store:
        check_names(store, app=app, metrics=())
        metrics = _chosen(settings, names, store.key("fence"))
        rubrics = [metric.rubric for metric in metrics]

        def to_judge() -> Iterator[Turn]:
            for turn, sampling in missing(store, settings.sample, rubrics, app=app, since=begin, now=now):
                samplings.append(sampling)
                if sampling.jobs:
                    yield turn

        count, some = drawn(to_judge())
        jobs = sum(len(sampling.jobs) for sampling in samplings)
        began = f"{begin:%Y-%m-%d %H:%M} UTC"
        click.echo(f"{len(samplings)} turns since {began}; {count} of them to judge, {jobs} verdicts")
        seen = mean_output_tokens(store, metrics, now)
        click.echo(_predicted(settings, metrics, _asked(some, samplings), count, seen))
        if not is_agreed:
            click.echo("nothing was queued; --yes does it")
            return
        new = queue(store, settings.sample, samplings)
    click.echo(f"{new} jobs are queued; `rag-monitor run` judges them within its budgets")


def _chosen(settings: Settings, names: Sequence[str], fence_key: bytes) -> tuple[Metric, ...]:
    """Return the metrics of these names."""
    measured = build_metrics(settings, build_judge(settings.judge), fence_key=fence_key)
    metrics = {metric.rubric.metric: metric for metric in measured}
    for name in names:
        if name not in metrics:
            raise ConfigError(
                f"{name!r} is not measured by these settings{suggestion(name, tuple(metrics))}", where="--metric"
            )
    return tuple(metrics[name] for name in dict.fromkeys(names))


def _asked(turns: Sequence[Turn], samplings: Sequence[Sampling]) -> list[tuple[Turn, frozenset[str]]]:
    """Return turns with the metrics that they are to be judged by."""
    metrics = {sampling.turn_id: frozenset(job.metric for job in sampling.jobs) for sampling in samplings}
    return [(turn, metrics[turn.turn_id]) for turn in turns]


def _predicted(
    settings: Settings,
    metrics: Sequence[Metric],
    turns: Sequence[tuple[Turn, frozenset[str]]],
    count: int,
    seen: Mapping[str, float],
) -> str:
    """Return what judging `count` turns such as these costs, in words."""
    if not any(metric.max_output_tokens for metric in metrics):
        return "predicted: $0.00, they are computed in code"
    price = price_of(build_prices(settings.judge), settings.judge.model)
    if price is None:
        return f"predicted: unknown, judge.prices has no price for {settings.judge.model!r}"
    usd = sum(call.usd for call in forecast(metrics, turns, price=price, seen=seen)) * count
    budgets = (("day", settings.judge.budget.daily_usd), ("month", settings.judge.budget.monthly_usd))
    limits = [f"${limit:.2f} a {period}" for period, limit in budgets if limit is not None]
    return f"predicted: ${usd:.2f}; budget: {', '.join(limits) or 'none'}"
