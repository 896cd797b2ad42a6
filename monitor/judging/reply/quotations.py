"""Does a document hold what a judge quotes from it? A judge that makes up its evidence is not to be believed."""

from __future__ import annotations

import re
from collections.abc import Iterable

EVIDENCE_NOT_FOUND = "evidence_not_found"
"""Flag: the judge quotes a passage that no document holds."""

EVIDENCE_MISSING = "evidence_missing"
"""Flag: the judge calls a sentence supported and quotes nothing that supports it, though it was asked to."""

_WORD = re.compile(r"\w+")
_LEFT_OUT = re.compile(r"\[?(?:…|\.{3,})\]?")


def plain(texts: Iterable[str]) -> str:
    """Return the words of `texts`, in lower case and one space apart."""
    return " ".join(word for text in texts for word in _WORD.findall(text.casefold()))


def holds(documents: str, quote: str) -> bool:
    r"""Return whether `documents`, made by `plain`, hold each part of `quote`, whatever its case, marks and spaces.

    >>> holds(plain(["Refunds are paid\nwithin 14 days."]), '"refunds are … 14 days"')
    True
    """
    parts = [plain([part]) for part in _LEFT_OUT.split(quote)]
    return all(part in documents for part in parts)
