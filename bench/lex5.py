"""Fit and measure `lex5`: coefficients, AUC against human labels source by source, threshold, turns per second.

Reads `data/core.jsonl` under RAG_MONITOR_SHARED (default: `../shared` beside the repository); without it there is
nothing to measure. Coefficients: ridge logistic regression by Newton's method, every (source, label) of equal weight.
AUC: each source scored by coefficients fitted on all the others; 95 % intervals by 1,000 bootstrap samples.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeAlias

import numpy as np

from monitor.judging.coded.coverage import Coverage, cover
from monitor.judging.coded.lex5 import COEFFICIENTS, INTERCEPT, THRESHOLD, GroundednessProxy
from monitor.model.judgements import Finding
from monitor.model.turns import Citation, Turn

Array: TypeAlias = "np.ndarray[tuple[int, ...], np.dtype[np.float64]]"

RIDGE = 1e-3
SEED = 7
_WHEN = datetime(2026, 1, 1, tzinfo=UTC)


def main() -> None:
    """Print everything the module's docstring names, and fail when the shipped coefficients are not the fitted ones."""
    root = Path(os.environ.get("RAG_MONITOR_SHARED", Path(__file__).parents[1].parent / "shared"))
    path = root / "data" / "core.jsonl"
    if not path.is_file():
        print(f"skipped: no {path}; set RAG_MONITOR_SHARED")
        return
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    turns = [as_turn(row) for row in rows]
    coverages = [cover(turn) for turn in turns]
    used = [i for i, c in enumerate(coverages) if isinstance(c, Coverage) and rows[i]["label"]["grounded"] is not None]
    left_out = Counter(str(c) for c in coverages if not isinstance(c, Coverage))
    print(f"{len(rows)} turns; {len(used)} labelled and scored; not scored: {dict(left_out)}")

    features = np.array([c.features() for i in used if isinstance(c := coverages[i], Coverage)])
    labels = np.array([float(rows[i]["label"]["grounded"]) for i in used])
    sources = np.array([rows[i]["source"] for i in used])
    weights = equal_weights(sources, labels)

    fitted = fit(features, labels, weights)
    print(f"COEFFICIENTS = {tuple(round(float(b), 4) for b in fitted[:-1])}\nINTERCEPT = {fitted[-1]:.4f}")
    scores = out_of_fold(features, labels, weights, sources)
    means = []
    for source in dict.fromkeys(sources):
        mine = sources == source
        low, high = interval(labels[mine], scores[mine])
        means.append(auc(labels[mine], scores[mine]))
        caught = float(np.mean(scores[mine & (labels == 0)] < THRESHOLD))
        false = float(np.mean(scores[mine & (labels == 1)] < THRESHOLD))
        print(
            f"{source:16} AUC {means[-1]:.3f} [{low:.2f}-{high:.2f}]  "
            f"below {THRESHOLD}: {caught:.0%} of not grounded, {false:.0%} of grounded"
        )
    print(f"{'mean':16} AUC {np.mean(means):.3f}")
    print_subtle_edits(path.with_name("summedits.jsonl"))
    multi_turn = [turn for turn, row in zip(turns, rows, strict=True) if row["source"] == "mtrag"]
    print(f"{speed(multi_turn):.0f} MT-RAG turns/s/core")
    if not np.allclose(fitted, (*COEFFICIENTS, INTERCEPT), atol=1e-3):
        sys.exit("monitor/judging/coded/lex5.py does not hold the coefficients printed above")


def print_subtle_edits(path: Path) -> None:
    """Print the AUC of the shipped coefficients where a summary differs from a true one by an edit; none was fitted."""
    if not path.is_file():
        print(f"skipped: no {path}")
        return
    rows = [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]
    pairs = [(row, GroundednessProxy().read(as_turn(row), None)) for row in rows]
    scored = [(row["label"]["grounded"], finding.score) for row, finding in pairs if isinstance(finding, Finding)]
    labels, scores = (np.array([float(value) for value in column]) for column in zip(*scored, strict=True))
    low, high = interval(labels, scores)
    print(f"{'summedits':16} AUC {auc(labels, scores):.3f} [{low:.2f}-{high:.2f}]  {len(scored)} of {len(rows)} scored")


def as_turn(row: dict[str, object]) -> Turn:
    """Return a labelled line as a turn."""
    messages = row["messages"]
    assert isinstance(messages, list)
    citations = messages[-1]["context"]["citations"]
    return Turn(
        turn_id=str(row["id"]),
        trace_id="",
        span_id="",
        app="bench",
        query=str(row["question"]) or None,
        response=str(row["answer"]),
        citations=tuple(Citation(id=c["id"], title=c.get("title"), content=c["content"]) for c in citations),
        started_at=_WHEN,
        ended_at=_WHEN,
    )


def equal_weights(sources: Array, labels: Array) -> Array:
    """Return weights that give every (source, label) the same say, 1 on average."""
    counts = Counter(zip(sources, labels, strict=True))
    weights = np.array([1 / counts[key] for key in zip(sources, labels, strict=True)])
    return weights * len(weights) / weights.sum()


def fit(features: Array, labels: Array, weights: Array) -> Array:
    """Return ridge logistic coefficients, the intercept last and unpenalised."""
    design = np.c_[features, np.ones(len(features))]
    penalty = RIDGE * weights.sum() * np.diag([1.0] * features.shape[1] + [0.0])
    beta = np.zeros(design.shape[1])
    for _ in range(50):
        p = 1 / (1 + np.exp(-design @ beta))
        curvature = (design * (weights * p * (1 - p))[:, None]).T @ design + penalty
        beta = beta + np.linalg.solve(curvature, design.T @ (weights * (labels - p)) - penalty @ beta)
    return beta


def out_of_fold(features: Array, labels: Array, weights: Array, sources: Array) -> Array:
    """Return every turn's score by coefficients that never saw its source."""
    scores = np.zeros(len(labels))
    for source in dict.fromkeys(sources):
        left_out = sources == source
        beta = fit(features[~left_out], labels[~left_out], weights[~left_out])
        scores[left_out] = 1 / (1 + np.exp(-(features[left_out] @ beta[:-1] + beta[-1])))
    return scores


def auc(labels: Array, scores: Array) -> float:
    """Return the chance that a grounded answer scores above one that is not; ties count half."""
    _, place, count = np.unique(scores, return_inverse=True, return_counts=True)
    ranks = (np.cumsum(count) - (count - 1) / 2)[place]
    positive = labels.sum()
    return float((ranks[labels == 1].sum() - positive * (positive + 1) / 2) / (positive * (len(labels) - positive)))


def interval(labels: Array, scores: Array) -> tuple[float, float]:
    """Return the 95 % bootstrap interval of the AUC, resampling within each label."""
    generator = np.random.default_rng(SEED)
    groups = [np.flatnonzero(labels == value) for value in (0, 1)]
    draws = []
    for _ in range(1000):
        chosen = np.concatenate([generator.choice(group, len(group)) for group in groups])
        draws.append(auc(labels[chosen], scores[chosen]))
    return float(np.quantile(draws, 0.025)), float(np.quantile(draws, 0.975))


def speed(turns: list[Turn]) -> float:
    """Return turns per CPU second of one core for a whole verdict with its details."""
    metric = GroundednessProxy()
    started = time.process_time()
    for turn in turns:
        metric.read(turn, None)
    return len(turns) / (time.process_time() - started)


if __name__ == "__main__":
    main()
