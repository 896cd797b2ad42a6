"""The sums of a window of judged turns, as each of them adds to them."""

from dataclasses import replace

from monitor.model.trends import Sums


def sums_of(n: int, k: int, *, weight: float = 1, **changed: object) -> Sums:
    """Return a window in which `k` of `n` judged turns were defects, each standing for `weight` turns.

    `changed` are other fields, or other values of those that the judged turns have no say in.
    """
    sums = Sums(
        turns=round(n * weight),
        sampled=n,
        n=n,
        k=k,
        sw=n * weight,
        sw2=n * weight**2,
        swx=k * weight,
        sw2x=k * weight**2,
    )
    return replace(sums, **changed)  # type: ignore[arg-type]
