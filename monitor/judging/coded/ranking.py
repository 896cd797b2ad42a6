"""How good a ranked list of documents is, from which of them are relevant. Lists are in rank order.

Binary measures as in Manning, Raghavan, Schütze, Introduction to Information Retrieval (2008), sections 8.3 and 8.4;
nDCG after Järvelin, Kekäläinen, ACM TOIS 20(4), 2002, with gain / log2(rank + 1).
"""

from __future__ import annotations

import math
from collections.abc import Sequence


def precision(relevant: Sequence[bool], k: int) -> float:
    """Return the share of the first `k` places that hold a relevant document; an empty place holds none.

    >>> precision([True, False, True], 3), precision([True], 5)
    (0.6666666666666666, 0.2)
    """
    return sum(relevant[:k]) / k


def recall(relevant: Sequence[bool], k: int, *, known: int) -> float | None:
    """Return the share of the `known` relevant documents found in the first `k` places; None when there are none.

    >>> recall([True, False, True], 3, known=4)
    0.5
    """
    return sum(relevant[:k]) / known if known else None


def reciprocal_rank(relevant: Sequence[bool]) -> float:
    """Return 1 / the rank of the first relevant document; 0 when none is.

    >>> reciprocal_rank([False, False, True]), reciprocal_rank([False])
    (0.3333333333333333, 0.0)
    """
    return next((1 / rank for rank, hit in enumerate(relevant, start=1) if hit), 0.0)


def ndcg(gains: Sequence[float], k: int, *, ideal: Sequence[float]) -> float:
    """Return the discounted gain of the first `k` places over that of the best order of `ideal`; 0 for no gain at all.

    >>> round(ndcg([3, 2, 3, 0, 1, 2], 6, ideal=[3, 2, 3, 0, 1, 2]), 3)
    0.961
    """
    best = _discounted(sorted(ideal, reverse=True)[:k])
    return _discounted(gains[:k]) / best if best else 0.0


def _discounted(gains: Sequence[float]) -> float:
    return sum(gain / math.log2(rank + 1) for rank, gain in enumerate(gains, start=1))
