"""What somebody who wrote an unknown name probably meant."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

_ALIKE = 0.7
"""Of `difflib`'s ratio; below it names differ by more than a slip."""


def suggestion(name: str, known: Sequence[str]) -> str:
    """Return "; did you mean 'x'?" or "; known: x, y" when nothing is near, to end a message about `name` with.

    >>> suggestion("groundednes", ["groundedness", "safety"])
    "; did you mean 'groundedness'?"
    """
    near = difflib.get_close_matches(name.lower(), known, n=1, cutoff=_ALIKE)
    return f"; did you mean {near[0]!r}?" if near else f"; known: {', '.join(known) or 'none'}"
