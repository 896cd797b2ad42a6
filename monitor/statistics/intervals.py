"""Confidence limits of one proportion: Wilson, Clopper-Pearson's upper one, and the beta quantile beneath it.

Counts may be fractional, so effective counts of weighted turns are welcome. Impossible input raises ValueError; no
limit is ever NaN or outside [0, 1].
"""

import math
import sys
from itertools import count
from statistics import NormalDist

_STANDARD_NORMAL = NormalDist()
_TINY = sys.float_info.min
_PRECISION = 4 * sys.float_info.epsilon
_LOGIT_RANGE = 700.0
_LARGEST_SHAPE = 1e12
_MOST_STEPS = 100


def normal_quantile(probability: float) -> float:
    """Return the standard normal quantile.

    >>> round(normal_quantile(0.975), 6)
    1.959964
    """
    if not 0 < probability < 1:
        raise ValueError(f"normal quantile: probability is {probability}; allowed: above 0 and below 1")
    return _STANDARD_NORMAL.inv_cdf(probability)


def wilson(share: float, size: float, *, confidence: float = 0.95) -> tuple[float, float]:
    """Return the two-sided Wilson score limits of a share observed in `size` turns (Wilson 1927).

    `size` may be an effective size.

    >>> tuple(round(limit, 4) for limit in wilson(0.0, 80))
    (0.0, 0.0458)
    """
    if not 0 <= share <= 1:
        raise ValueError(f"Wilson limits: share is {share}; allowed: 0 to 1")
    if not size > 0:
        raise ValueError(f"Wilson limits: size is {size}; allowed: above 0")
    z = normal_quantile((1 + _checked(confidence)) / 2)
    doubt = z * z / size
    centre = (share + doubt / 2) / (1 + doubt)
    half = z * math.sqrt(share * (1 - share) / size + doubt / (4 * size)) / (1 + doubt)
    lower = 0.0 if share == 0 else max(0.0, min(share, centre - half))
    upper = 1.0 if share == 1 else min(1.0, max(share, centre + half))
    return lower, upper


def clopper_pearson_upper(defects: float, scored: float, *, confidence: float) -> float:
    """Return the one-sided exact upper limit: the `confidence` quantile of Beta(defects + 1, scored - defects).

    Source: Clopper and Pearson 1934.

    >>> round(clopper_pearson_upper(0, 5000, confidence=0.90), 10)
    0.000460411
    """
    _check_counts(defects, scored)
    if scored - defects < _TINY:
        return 1.0
    if defects == 0:
        return -math.expm1(math.log1p(-_checked(confidence)) / scored)
    return beta_quantile(confidence, defects + 1, b=scored - defects)


def beta_quantile(probability: float, a: float, *, b: float) -> float:
    """Return x with I_x(a, b) = probability, by Newton steps in logit x kept inside a bisection bracket.

    Accurate to about 1e-12 for shapes up to 1e8; the time grows with the square root of the larger shape.

    >>> round(beta_quantile(0.90, 101, b=4900), 10)
    0.0227826724
    """
    if not 0 < probability < 1:
        raise ValueError(f"beta quantile: probability is {probability}; allowed: above 0 and below 1")
    if not (_TINY <= a <= _LARGEST_SHAPE and _TINY <= b <= _LARGEST_SHAPE):
        raise ValueError(f"beta quantile: shapes are {a} and {b}; allowed: {_TINY:g} to {_LARGEST_SHAPE:g}")
    log_beta = math.lgamma(a) + math.lgamma(b) - math.lgamma(a + b)
    low, high = -_LOGIT_RANGE, _LOGIT_RANGE
    logit = math.log(a) - math.log(b) + normal_quantile(probability) * math.sqrt(1 / a + 1 / b)
    for _ in range(_MOST_STEPS):
        if not low < logit < high:
            logit = (low + high) / 2
        excess = _beta_cdf(logit, a, b, log_beta) - probability
        if excess > 0:
            high = logit
        else:
            low = logit
        log_slope = a * _log_sigmoid(logit) + b * _log_sigmoid(-logit) - log_beta
        step = excess / max(math.exp(log_slope), _TINY)
        logit -= step
        if abs(step) <= _PRECISION * max(1.0, abs(logit)) or high - low <= _PRECISION * max(1.0, abs(low)):
            break
    return math.exp(_log_sigmoid(min(max(logit, low), high)))


def _beta_cdf(logit: float, a: float, b: float, log_beta: float) -> float:
    """Return I_x(a, b) at x = sigmoid(logit), from whichever tail converges fast."""
    log_x, log_y = _log_sigmoid(logit), _log_sigmoid(-logit)
    weight = math.exp(a * log_x + b * log_y - log_beta)
    if math.exp(log_x) < (a + 1) / (a + b + 2):
        return weight / (a * _continued_fraction(math.exp(log_x), a, b))
    return 1 - weight / (b * _continued_fraction(math.exp(log_y), b, a))


def _continued_fraction(x: float, a: float, b: float) -> float:
    """Return the denominator of DLMF 8.17.22 by the modified Lentz method."""
    value = upper = 1.0
    lower = 0.0
    for m in count():
        for term in (
            -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1)),
            (m + 1) * (b - m - 1) * x / ((a + 2 * m + 1) * (a + 2 * m + 2)),
        ):
            lower = 1 / ((1 + term * lower) or _TINY)
            upper = (1 + term / upper) or _TINY
            value *= upper * lower
        if abs(upper * lower - 1) < _PRECISION:
            break
    return value


def _log_sigmoid(logit: float) -> float:
    """Return ln(1 / (1 + exp(-logit))) without overflow or cancellation."""
    return -math.log1p(math.exp(-logit)) if logit > 0 else logit - math.log1p(math.exp(logit))


def _checked(confidence: float) -> float:
    if not 0 < confidence < 1:
        raise ValueError(f"confidence limits: confidence is {confidence}; allowed: above 0 and below 1")
    return confidence


def _check_counts(defects: float, scored: float) -> None:
    if not 0 < scored < _LARGEST_SHAPE:
        raise ValueError(f"exact limits: scored is {scored}; allowed: above 0 and below {_LARGEST_SHAPE:g}")
    if not 0 <= defects <= scored:
        raise ValueError(f"exact limits: defects is {defects}; allowed: 0 to scored, {scored}")
