"""`rag-monitor prompts`: what can be measured, how a judge is asked for it, and whether a file of yours is sound."""

from __future__ import annotations

from pathlib import Path

import click
import orjson
from rich.table import Table

from monitor.cli.explanation import explanation_of
from monitor.cli.options import CONFIG, FORMAT, STORE, before_verbs, examples, open_store_of, refuse_unused, settings_of
from monitor.cli.output import FAILED, print_table
from monitor.display.tables import add_row
from monitor.errors import ConfigError
from monitor.judging.claim_metric import ClaimMetric
from monitor.judging.prompt.file import PromptFile, locate, read, schema_path, shipped
from monitor.judging.prompt.front_matter import FrontMatter, MetricSettings
from monitor.judging.prompt_metric import load_all
from monitor.model.turns import Turn
from monitor.ports import Metric
from monitor.runtime.build import build_judge, build_metrics


@before_verbs
@click.group(epilog=examples("rag-monitor prompts list", "rag-monitor prompts check ./tone.md"))
def prompts() -> None:
    """Show, check and render the prompt files that metrics are."""
    refuse_unused()


@prompts.command("list", epilog=examples("rag-monitor prompts list", "rag-monitor prompts list --format jsonl"))
@FORMAT
def list_(form: str) -> None:
    """List the shipped prompt files and their metrics."""
    if form == "table":
        print_table(shipped_table())
        return
    for file in shipped():
        front = read(locate(file)).front
        for name, metric in front.metrics.items():
            more = {"title": metric.title, "source": front.source}
            click.echo(orjson.dumps({**_row(file, name, front), **more}).decode())


def shipped_table() -> Table:
    """Return the metrics of the shipped prompt files, one row each."""
    table = Table(title="Shipped prompt files", title_justify="left")
    for column in ("file", "metric", "scale", "defect", "needs", "what it is"):
        table.add_column(column, no_wrap=column != "what it is")
    for file in shipped():
        front = read(locate(file)).front
        for name, metric in front.metrics.items():
            row = _row(file, name, front)
            add_row(
                table, file, name, str(row["scale"]), metric.defect.words, ", ".join(_needs(front, name)), metric.title
            )
    return table


def _row(file: str, name: str, front: FrontMatter) -> dict[str, object]:
    metric = front.metrics[name]
    return {
        "file": file,
        "metric": name,
        "scale": _scale(metric),
        "defect": metric.defect.words,
        "needs": _needs(front, name),
    }


def _scale(metric: MetricSettings) -> str:
    return "label" if metric.reply == "label" else f"{metric.scale.min:g} to {metric.scale.max:g}"


def _needs(front: FrontMatter, name: str) -> list[str]:
    needs = front.metrics[name].needs
    return sorted(front.needs if needs is None else needs)


@prompts.command(
    epilog=examples("rag-monitor prompts show groundedness > mine.md", "rag-monitor prompts show groundedness --schema")
)
@click.argument("name")
@click.option("--schema", "wants_schema", is_flag=True, help="Print the schema of its reply instead.")
def show(name: str, *, wants_schema: bool) -> None:
    """Print a prompt file, NAME or path, as it is; a copy of it is sound wherever it is kept.

    Its schema is found beside it, or else among those that are shipped.
    """
    path = locate(name)
    if wants_schema:
        schema = read(path).front.schema_file
        if schema is None:
            raise ConfigError("the reply is plain text and has no schema", where=name)
        path = schema_path(path, schema)
    click.echo(path.read_text(encoding="utf-8"), nl=False)


@prompts.command(epilog=examples("rag-monitor prompts check", "rag-monitor prompts check ./tone.md"))
@click.argument("names", nargs=-1)
def check(names: tuple[str, ...]) -> int:
    """Check prompt files, NAMES or paths; without any, all that are shipped. Asks no judge."""
    failed = False
    for name in names or shipped():
        try:
            prompt = read(locate(name))
        except ConfigError as error:
            failed = True
            click.echo(f"FAILED  {error}", err=True)
        else:
            click.echo(f"ok      {name}: {_summary(prompt)}")
    return FAILED if failed else 0


@prompts.command(
    epilog=examples("rag-monitor prompts render 3f9c", "rag-monitor prompts render 3f9c --prompt groundedness")
)
@click.argument("turn_id")
@click.option("--prompt", "names", multiple=True, help="File or metric to render; those of the settings without it.")
@CONFIG
@STORE
def render(turn_id: str, names: tuple[str, ...], config: Path | None, store_url: str | None) -> None:
    """Print what a judge is asked about a stored turn. It is what users wrote: mind where you send it.

    TURN_ID may be cut to its first characters.
    """
    settings = settings_of(config, store_url)
    with open_store_of(config, store_url) as store:
        turn = explanation_of(turn_id, store).turn
        key = store.key("fence")
    metrics: tuple[Metric, ...]
    if names:
        metrics = tuple(metric for name in names for metric in load_all(name, judge_name="", fence_key=key))
    else:
        metrics = build_metrics(settings, build_judge(settings.judge), fence_key=key)
    calls: dict[str, list[Metric]] = {}
    for metric in metrics:
        if metric.max_output_tokens:
            calls.setdefault(metric.call, []).append(metric)
    if not calls:
        raise ConfigError(
            "none of those configured asks a judge model; name one, such as --prompt groundedness", where="metrics"
        )
    for group in calls.values():
        _print_call(", ".join(metric.rubric.metric for metric in group), group[0], turn)


def _print_call(title: str, metric: Metric, turn: Turn) -> None:
    questions = [question.messages for question in metric.questions(turn)] if isinstance(metric, ClaimMetric) else []
    for messages in questions or [metric.messages(turn)]:
        click.echo(f"=== {title}" if messages else f"=== {title}: nothing to ask")
        for message in messages:
            click.echo(f"[{message.role}]\n{message.content}")


def _summary(prompt: PromptFile) -> str:
    front = prompt.front
    reply = "plain text" if prompt.schema is None else f"JSON by {front.schema_file}"
    return f"{', '.join(front.metrics)}; reply is {reply}"
