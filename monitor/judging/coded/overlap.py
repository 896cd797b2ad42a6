"""Word overlap of an answer with a reference: F1 as SQuAD's evaluation script computes it, CJK text by character.

Source: Rajpurkar et al., EMNLP 2016, section 6.1, and their `evaluate-v1.1.py`: lower case, no punctuation, no a, an or
the. Chinese, Japanese and Korean write few spaces, so that whole words would make F1 there 0 or 1.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter

_ARTICLES = frozenset(("a", "an", "the"))
_CJK = re.compile("[\u3005-\u3007\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af\uf900-\ufaff]")


def f1(answer: str, reference: str) -> float:
    """Return the harmonic mean of the shares of words that answer and reference have in common, in [0, 1].

    >>> f1("The Alpine Explorer tent.", "the alpine explorer")
    0.8
    """
    ours, theirs = words(answer), words(reference)
    if not ours or not theirs:
        return float(ours == theirs)
    shared = sum((Counter(ours) & Counter(theirs)).values())
    return 2 * shared / (len(ours) + len(theirs))


def words(text: str) -> list[str]:
    """Return the normalised words, and single characters of CJK text.

    >>> words("The price: 3.50, for a 返金!")
    ['price', '350', 'for', '返', '金']
    """
    plain = "".join(c for c in unicodedata.normalize("NFKC", text).lower() if not _punctuation(c))
    split = _CJK.sub(lambda match: f" {match[0]} ", plain).split()
    return [word for word in split if word not in _ARTICLES]


def _punctuation(character: str) -> bool:
    # ASCII's symbols, such as $ and +, count as punctuation in the script.
    return unicodedata.category(character).startswith("P") or (
        character.isascii() and not character.isalnum() and not character.isspace()
    )
