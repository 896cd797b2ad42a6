"""`rag-monitor judge`: is the configured judge to be trusted, and what does it cost. All verbs but `cost` ask it."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import click
import orjson
from rich.console import Console
from rich.progress import Progress

from monitor.cli import judge_report
from monitor.cli.options import (
    CONFIG,
    FORMAT,
    STORE,
    before_verbs,
    examples,
    moment,
    open_store_of,
    refuse_unused,
    renamed,
    settings_of,
)
from monitor.cli.output import FAILED, print_table
from monitor.cli.prediction import drawn, mean_output_tokens, sampled_forecast
from monitor.detection.judge_agreement import summarize
from monitor.errors import ConfigError
from monitor.judging.coded.lex5 import GroundednessProxy
from monitor.judging.coded.registry import coded
from monitor.judging.endpoint.prices import price_of
from monitor.judging.judges import Judges
from monitor.judging.prompt_metric import load, load_all
from monitor.judging.reply.findings import JUDGE_INJECTION
from monitor.judging.trials import canary as canaries_
from monitor.judging.trials.canary import Canary, Trial
from monitor.judging.trials.labelled import Labelled, Measured, measure, read
from monitor.ports import Metric
from monitor.runtime.app import utc_now
from monitor.runtime.build import build_judge, build_metrics, build_prices
from monitor.settings.tree import Settings

_MONTH_DAYS = 30


@before_verbs
@click.group(
    epilog=examples("rag-monitor judge canary", "rag-monitor judge cost", "rag-monitor judge agree labels.jsonl")
)
def judge() -> None:
    """Try the configured judge: against attacks, against people's labels, and for what it costs."""
    refuse_unused()


@judge.command(epilog=examples("rag-monitor judge canary", "rag-monitor judge canary --place document --format jsonl"))
@CONFIG
@click.option("--place", help="Only attacks in the answer, document, title, question or history.")
@click.option("--language", help="Only attacks in this language, such as nl.")
@click.option("--limit", type=click.IntRange(min=1), help="At most so many.")
@FORMAT
def canary(config: Path | None, place: str | None, language: str | None, limit: int | None, form: str) -> int:
    """Attack the judge through the text that it judges: does any verdict turn? A call for each of some 70 attacks.

    The exit status is 1 when one does, when the judge is wrong without an attack, and when a reply cannot be read.
    """
    settings = settings_of(config, None)
    judges = _judges_of(settings)
    chosen = [
        canary
        for canary in canaries_.canaries()
        if place in {None, canary.place} and language in {None, canary.language}
    ][:limit]
    if not chosen:
        raise ConfigError("no attack is left to try; leave out --place or --language", where="judge canary")
    trials = asyncio.run(_attack(judges, chosen))
    if form == "jsonl":
        for trial in trials:
            click.echo(orjson.dumps(judge_report.trial_row(trial)).decode())
    else:
        print_table(judge_report.trial_table(trials))
    failures = [(trial, what) for trial in trials if (what := judge_report.failure(trial))]
    for trial, what in failures:
        lost = trial.canary
        click.echo(f"{what}: {lost.id} ({lost.technique}, {lost.place}, {lost.language})", err=True)
    return FAILED if failures else 0


@judge.command(
    epilog=examples("rag-monitor judge agree labels.jsonl", "rag-monitor judge agree labels.jsonl --limit 200")
)
@click.argument("file", type=click.Path(path_type=Path))
@CONFIG
@click.option("--metric", "name", help="File or metric to judge by: groundedness, without a judge its lexical proxy.")
@click.option("--limit", type=click.IntRange(min=1), help="At most so many turns, spread over the file.")
@FORMAT
def agree(file: Path, config: Path | None, name: str | None, limit: int | None, form: str) -> None:
    """Measure the judge against people's labels: what it finds, what it raises wrongly, by language and source.

    FILE has a turn a line, as `replay` reads it, with "defect": true or false, or "label": {"grounded": 0 or 1}.
    """
    settings = settings_of(config, None)
    labelled = read(file, now=utc_now(), limit=limit)
    metric = _metric(settings, name)
    judges = _judges_of(settings) if metric.max_output_tokens else None
    groups = asyncio.run(_measured(labelled, metric, judges))
    if form == "jsonl":
        for group in groups:
            click.echo(orjson.dumps(judge_report.agreement_row(group)).decode())
    else:
        print_table(judge_report.agreement_table(metric.rubric.metric, groups))


@judge.command(epilog=examples("rag-monitor judge cost", "rag-monitor judge cost --since 2026-01-01"))
@CONFIG
@STORE
@click.option(
    "--since", metavar="WHEN", default="7d", show_default=True, help="Turns to predict from: a time or an age."
)
@FORMAT
def cost(config: Path | None, store_url: str | None, since: str, form: str) -> None:
    """Predict what judging costs, from stored turns, and say what was spent. Asks no judge."""
    settings = settings_of(config, store_url)
    judges = build_judge(settings.judge)
    if judges is None:
        raise ConfigError(
            "none costs nothing; set judge.kind: openai to see what a model would", where="judge cost: judge.kind"
        )
    price = price_of(build_prices(settings.judge), settings.judge.model)
    if price is None:
        raise ConfigError(f"judge.prices has no price for {settings.judge.model!r}", where="judge cost")
    metrics = build_metrics(settings, judges, fence_key=b"cost")
    now = utc_now()
    with open_store_of(config, store_url) as store:
        begin = moment(since)
        turns, looked_at = drawn(store.turns(since=begin))
        seen = mean_output_tokens(store, metrics, now)
        share, calls = sampled_forecast(metrics, looked_at, settings.sample, price=price, seen=seen)
        day = now.replace(hour=0, minute=0, second=0, microsecond=0)
        month = store.spend(since=day.replace(day=1), until=day + timedelta(days=1)).usd
        today = store.spend(since=day, until=day + timedelta(days=1)).usd
    days = max((now - begin) / timedelta(days=1), 1.0)
    sampled = turns * share
    sampled_a_day = sampled / days
    if form == "jsonl":
        for call in calls:
            click.echo(orjson.dumps(judge_report.forecast_row(call, sampled_a_day)).decode())
        return
    print_table(judge_report.forecast_table(calls, sampled_a_day))
    each = sum(call.usd for call in calls)
    click.echo(f"{turns} turns since {begin:%Y-%m-%d %H:%M} UTC, {share:.0%} of them sampled")
    click.echo(f"predicted: ${each * sampled:.2f} for these, if none of them is judged yet")
    click.echo(
        f"predicted: ${each * sampled_a_day:.2f} a day, ${each * sampled_a_day * _MONTH_DAYS:.2f} in {_MONTH_DAYS} days"
    )
    budget = settings.judge.budget
    click.echo(f"spent: ${today:.2f} today{_of(budget.daily_usd)}, ${month:.2f} this month{_of(budget.monthly_usd)}")


@judge.command(
    "second-opinions",
    epilog=examples("rag-monitor judge second-opinions", "rag-monitor judge second-opinions --days 90 --format jsonl"),
)
@CONFIG
@STORE
@click.option("--days", type=click.IntRange(min=1), default=30, show_default=True, help="How far to look back.")
@FORMAT
def second_opinions(config: Path | None, store_url: str | None, days: int, form: str) -> None:
    """Say how far the judge agrees with itself, and a new model behind its name with the old. Asks no judge."""
    with open_store_of(config, store_url) as store:
        groups = summarize(store.second_opinions(since=utc_now() - timedelta(days=days)))
    if form == "jsonl":
        for group in groups:
            click.echo(orjson.dumps(judge_report.second_opinion_row(group)).decode())
    else:
        print_table(judge_report.second_opinion_table(groups))


judge.add_command(renamed("steady", "rag-monitor judge second-opinions"))


@judge.command(epilog=examples("rag-monitor judge injections", "rag-monitor judge injections --limit 5"))
@CONFIG
@STORE
@click.option("--limit", type=click.IntRange(min=1), default=50, show_default=True, help="At most so many.")
@FORMAT
def injections(config: Path | None, store_url: str | None, limit: int, form: str) -> None:
    """List turns whose text speaks to whoever judges it, newest first. Asks no judge."""
    with open_store_of(config, store_url) as store:
        verdicts = store.flagged(JUDGE_INJECTION, limit=limit)
    if form == "jsonl":
        for verdict in verdicts:
            click.echo(orjson.dumps(judge_report.injection_row(verdict)).decode())
    else:
        print_table(judge_report.injection_table(verdicts))


def _of(limit: float | None) -> str:
    return f" of ${limit:.2f}" if limit is not None else ""


def _judges_of(settings: Settings) -> Judges:
    judges = build_judge(settings.judge)
    if judges is None:
        raise ConfigError("none has no model to try; set judge.kind: openai", where="judge.kind")
    return judges


def _metric(settings: Settings, name: str | None) -> Metric:
    if settings.judge.kind == "none":
        return (coded(name, where="--metric") if name else None) or GroundednessProxy()
    judges = build_judge(settings.judge)
    chosen = name or "groundedness"
    return coded(chosen, where="--metric") or load(chosen, judge_name=judges.name if judges else "")


async def _attack(judges: Judges, chosen: Sequence[Canary]) -> tuple[Trial, ...]:
    key = secrets.token_bytes(32)
    with _progress("attacking", len(chosen)) as step:
        async with judges:
            return await canaries_.run(
                judges,
                lambda name: load_all(name, judge_name=judges.name, fence_key=key),
                chosen=chosen,
                done=lambda _: step(),
            )


async def _measured(labelled: Sequence[Labelled], metric: Metric, judges: Judges | None) -> tuple[Measured, ...]:
    with _progress("judging", len(labelled)) as step:
        if judges is None:
            return await measure(labelled, metric, None, done=step)
        async with judges:
            return await measure(labelled, metric, judges, done=step)


@contextmanager
def _progress(what: str, total: int) -> Iterator[Callable[[], None]]:
    console = Console(stderr=True)
    with Progress(console=console, disable=not console.is_terminal) as bar:
        task = bar.add_task(what, total=total)
        yield lambda: bar.advance(task)
