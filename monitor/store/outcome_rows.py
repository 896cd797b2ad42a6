"""Jobs and outcomes as rows of `jobs`, `outcomes` and `exchanges`, and back."""

from __future__ import annotations

import math
from datetime import datetime
from typing import TypeAlias

import orjson
from sqlalchemy import Row

from monitor.model.judgements import Detail, Exchange, Finding, Job, Outcome, Reason, Unscored, Verdict
from monitor.store.columns import json_text
from monitor.store.turn_rows import Cell

Stored: TypeAlias = Row[tuple[object, ...]]

_NOTHING = Finding(score=None, defect=False)


def job_row(job: Job, *, created_at: datetime) -> dict[str, Cell]:
    """Return the row of `jobs` of a job that nobody has claimed yet."""
    return {
        "turn_id": job.turn_id,
        "metric": job.metric,
        "rubric_id": job.rubric_id,
        "content_hash": job.content_hash,
        "probability": job.probability,
        "stratum": job.stratum,
        "attempt": job.attempt,
        "failures": job.failures,
        "created_at": created_at,
        "not_before": job.not_before,
        "leased_until": None,
        "claimable_at": job.not_before or created_at,
        "requested_at": job.requested_at,
    }


def job_from(row: Stored) -> Job:
    """Return the job of a row of `jobs`."""
    return Job(
        turn_id=row.turn_id,
        content_hash=row.content_hash,
        metric=row.metric,
        rubric_id=row.rubric_id,
        probability=row.probability,
        stratum=row.stratum,
        attempt=row.attempt,
        failures=row.failures,
        not_before=row.not_before,
        leased_until=row.leased_until,
        requested_at=row.requested_at,
    )


def outcome_row(outcome: Outcome, *, sampled: bool) -> dict[str, Cell]:
    """Return the row of `outcomes`, which holds no user text."""
    job, exchange = outcome.job, outcome.exchange
    finding = outcome.finding if isinstance(outcome, Verdict) else _NOTHING
    return {
        "turn_id": job.turn_id,
        "metric": job.metric,
        "rubric_id": job.rubric_id,
        "content_hash": job.content_hash,
        "probability": job.probability,
        "stratum": job.stratum,
        "attempt": job.attempt,
        "sampled": sampled,
        "reason": None if isinstance(outcome, Verdict) else outcome.reason.value,
        "reason_detail": "" if isinstance(outcome, Verdict) else outcome.detail,
        "score": finding.score,
        "label": finding.label,
        "defect": finding.defect,
        "severity": finding.severity if isinstance(outcome, Verdict) else outcome.severity,
        "details": json_text([[d.index, d.verdict] for d in finding.details]),
        "flags": json_text(sorted(finding.flags)),
        "judge_model": exchange.judge_model,
        "calls": exchange.calls,
        "input_tokens": exchange.input_tokens,
        "output_tokens": exchange.output_tokens,
        "cost_usd": exchange.cost_usd if math.isfinite(exchange.cost_usd) else 0.0,
        "latency": exchange.latency,
        "fingerprint": exchange.fingerprint,
        "judged_at": outcome.judged_at,
    }


def exchange_row(outcome: Outcome, *, started_at: datetime) -> dict[str, Cell]:
    """Return the row of `exchanges`: the outcome's user text, to be pruned with that of the turn begun `started_at`."""
    finding = outcome.finding if isinstance(outcome, Verdict) else _NOTHING
    return {
        "turn_id": outcome.job.turn_id,
        "metric": outcome.job.metric,
        "rubric_id": outcome.job.rubric_id,
        "started_at": started_at,
        "prompt": outcome.exchange.prompt,
        "reply": outcome.exchange.reply,
        "reason_text": finding.reason,
        "detail_texts": json_text([[d.reason, d.evidence, d.citation] for d in finding.details]),
    }


def outcome_from(row: Stored) -> Outcome:
    """Return the outcome of a row of `outcomes` joined to `exchanges`, whose columns are all NULL once pruned."""
    job = Job(
        turn_id=row.turn_id,
        content_hash=row.content_hash,
        metric=row.metric,
        rubric_id=row.rubric_id,
        probability=row.probability,
        stratum=row.stratum,
        attempt=row.attempt,
    )
    exchange = Exchange(
        judge_model=row.judge_model,
        prompt=row.prompt or "",
        reply=row.reply or "",
        calls=row.calls,
        input_tokens=row.input_tokens,
        output_tokens=row.output_tokens,
        cost_usd=row.cost_usd,
        latency=row.latency,
        fingerprint=row.fingerprint,
    )
    if row.reason is not None:
        return Unscored(
            job=job,
            reason=Reason(row.reason),
            detail=row.reason_detail,
            severity=row.severity,
            exchange=exchange,
            judged_at=row.judged_at,
        )
    finding = Finding(
        score=row.score,
        defect=row.defect,
        label=row.label,
        severity=row.severity,
        reason=row.reason_text or "",
        details=_details(row),
        flags=frozenset(orjson.loads(row.flags)),
    )
    return Verdict(job=job, finding=finding, exchange=exchange, judged_at=row.judged_at)


def _details(row: Stored) -> tuple[Detail, ...]:
    numbered: list[tuple[int, str]] = orjson.loads(row.details)
    texts: list[tuple[str, str, str]] = (
        orjson.loads(row.detail_texts) if row.detail_texts else [("", "", "")] * len(numbered)
    )
    return tuple(
        Detail(index=index, verdict=verdict, reason=reason, evidence=evidence, citation=citation)
        for (index, verdict), (reason, evidence, citation) in zip(numbered, texts, strict=True)
    )
