"""What judging will cost: the prompts of real turns counted, replies as long as they have been, or as prompts imply."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from monitor.judging.claim_metric import ClaimMetric
from monitor.judging.endpoint.capabilities import schema_in_words
from monitor.judging.endpoint.prices import Price
from monitor.judging.endpoint.usage import Usage
from monitor.judging.prompt.quoting import tokens
from monitor.model.turns import Turn
from monitor.ports import Metric

_REPLY_SHARE = 0.35
"""Of the room for a reply, what one takes, where none has been seen yet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Forecast:
    """What one call costs on the turns it is made about."""

    metrics: tuple[str, ...]
    turns: int
    """Turns that carry what at least one of the metrics needs."""
    calls: float
    """Per turn of all that were looked at, whether they are asked about or not."""
    input_tokens: float
    output_tokens: float
    usd: float


def forecast(
    metrics: Sequence[Metric],
    turns: Sequence[tuple[Turn, frozenset[str]]],
    *,
    price: Price,
    seen: Mapping[str, float],
) -> tuple[Forecast, ...]:
    """Return for each call what it costs per turn, over all `turns`.

    Args:
        metrics: what is measured; those computed in code cost nothing and are left out.
        turns: a sample of turns, each with the metrics whose needs it meets.
        price: of the judge.
        seen: mean output tokens of a metric's verdicts, as far as there are any; several of one call add up.
    """
    calls: dict[str, list[Metric]] = {}
    for metric in metrics:
        if metric.max_output_tokens:
            calls.setdefault(metric.call or metric.rubric.rubric_id, []).append(metric)
    return tuple(_of_call(group, turns, price, seen) for group in calls.values()) if turns else ()


def _of_call(
    group: Sequence[Metric], turns: Sequence[tuple[Turn, frozenset[str]]], price: Price, seen: Mapping[str, float]
) -> Forecast:
    lead = group[0]
    names = tuple(metric.rubric.metric for metric in group)
    schema = tokens(schema_in_words(lead.schema)) if lead.schema else 0
    turns_asked = calls = input_tokens = output_tokens = 0.0
    for turn, met in turns:
        if not met & set(names):
            continue
        prompts = _prompts(lead, turn)
        turns_asked += bool(prompts)
        calls += len(prompts)
        input_tokens += sum(prompt + schema for prompt in prompts)
        measured = sum(seen[name] for name in names if name in seen)
        output_tokens += measured or len(prompts) * lead.max_output_tokens * _REPLY_SHARE
    of = len(turns)
    usd = price.cost_usd(Usage(input=round(input_tokens), output=round(output_tokens))) / of
    return Forecast(
        metrics=names,
        turns=round(turns_asked),
        calls=calls / of,
        input_tokens=input_tokens / of,
        output_tokens=output_tokens / of,
        usd=usd,
    )


def _prompts(metric: Metric, turn: Turn) -> list[int]:
    """Return the tokens of each prompt that the metric would ask about the turn."""
    if isinstance(metric, ClaimMetric):
        return [sum(tokens(m.content) for m in question.messages) for question in metric.questions(turn)]
    messages = metric.messages(turn)
    return [sum(tokens(message.content) for message in messages)] if messages else []
