"""Measures of a ranked list, against examples worked out by hand."""

import math

import pytest

from monitor.judging.coded.ranking import ndcg, precision, recall, reciprocal_rank

_HITS = [True, False, True, False, False]


@pytest.mark.parametrize(("k", "expected"), [(1, 1.0), (2, 1 / 2), (3, 2 / 3), (5, 2 / 5), (10, 2 / 10)])
def test_precision(k: int, expected: float) -> None:
    """Precision is over k places, filled or not."""
    assert expected == precision(_HITS, k)


@pytest.mark.parametrize(("k", "known", "expected"), [(1, 4, 1 / 4), (3, 4, 1 / 2), (5, 2, 1.0), (5, 0, None)])
def test_recall(k: int, known: int, expected: float | None) -> None:
    """Recall is over all that is known to be relevant; when nothing is, there is none."""
    assert expected == recall(_HITS, k, known=known)


@pytest.mark.parametrize(
    ("hits", "expected"), [([True], 1.0), ([False, True], 1 / 2), ([False] * 3 + [True, True], 1 / 4), ([], 0.0)]
)
def test_reciprocal_rank(hits: list[bool], expected: float) -> None:
    """Only the first relevant document counts."""
    assert expected == reciprocal_rank(hits)


def test_ndcg() -> None:
    """The example of Järvelin and Kekäläinen's measure that textbooks compute: 6.861 of 7.141."""
    gains = [3.0, 2.0, 3.0, 0.0, 1.0, 2.0]
    discounted = sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, start=1))
    assert pytest.approx(6.861, abs=0.001) == discounted
    assert pytest.approx(6.861 / 7.141, abs=0.001) == ndcg(gains, 6, ideal=gains)


@pytest.mark.parametrize(
    ("gains", "k", "ideal", "expected"),
    [
        ([1, 0], 2, [1], 1.0),
        ([0, 1], 2, [1], 1 / math.log2(3)),
        ([0, 0], 2, [1], 0.0),
        ([0, 0], 2, [0, 0], 0.0),
        ([0, 0, 1], 2, [1], 0.0),
        ([1], 5, [1, 1], 1 / (1 + 1 / math.log2(3))),
    ],
)
def test_binary_ndcg(gains: list[float], k: int, ideal: list[float], expected: float) -> None:
    """Documents below rank k count for nothing, and missing ones lower the score."""
    assert pytest.approx(expected) == ndcg(gains, k, ideal=ideal)
