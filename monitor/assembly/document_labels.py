"""Where a prompt introduces a document by its id, as against text that only happens to hold the same characters."""

from __future__ import annotations

import re

NEARBY = 100
"""Characters before an id that are looked at."""
_SHORT_NUMBER = re.compile(r"\d{1,4}")
"""As likely a place in a list, a quantity or a year."""
_DISTINCTIVE = re.compile(r"(?=.*[A-Za-z])(?=.*[\d._/:#]).{4,}", re.DOTALL)
"""No word of a language."""
_PREFIX = r"(?:\w*_|[A-Za-z]+(?=[A-Z]))?"
_KINDS = rf"{_PREFIX}(?i:id_?|source|document|doc|chunk|passage|file|url|uri|ref|reference|article|name)"
_KIND = re.compile(_KINDS)
_BESIDE = re.compile(rf"[ \t>#*|\[(<-]*+{_KINDS}[ \t]+['\"\[(<*]*$")
_ID = re.compile(rf"{_PREFIX}(?i:id_?)")
_HEAD = re.compile(r"[ \t>#*|•\[(<-]*(?:\d{1,3}[.)][ \t]*[*\[(<]*)?$")
_CLOSED = re.compile(r"[\])>*]*[ \t]*(?:[:|)\]\u2013\u2014]|-[ \t]|\n|$)")
_BRACKETS = {"[": "]", "(": ")", "<": ">", "{": "}", "'": "'", '"': '"', "【": "】"}


def introduced_at(identity: str, text: str) -> re.Match[str] | None:
    """Return the first place where an id introduces what follows it; None when it stands in running text only.

    It does in brackets or quotation marks, behind a word such as `Source:`, and at the head of a line. A short number
    must be called an id.
    """
    mentions = re.compile(rf"(?<![\w-]){re.escape(identity)}(?![\w-])")
    return next((match for match in mentions.finditer(text) if _introduces(match)), None)


def _introduces(match: re.Match[str]) -> bool:
    identity, text = match[0], match.string
    before = text[max(0, match.start() - NEARBY) : match.start()].rpartition("\n")[2]
    if _SHORT_NUMBER.fullmatch(identity):
        return _ID.fullmatch(_labelling(before, marks=":=", opening="\\'\"")) is not None
    if before[-1:] and _BRACKETS.get(before[-1:]) == text[match.end() : match.end() + 1]:
        return True
    if _KIND.fullmatch(_labelling(before, marks=":=#", opening="\\'\"[(<*")):
        return True
    is_name = _DISTINCTIVE.fullmatch(identity) is not None
    if is_name and _BESIDE.fullmatch(before):
        return True
    return _HEAD.fullmatch(before) is not None and (is_name or _CLOSED.match(text, match.end()) is not None)


def _labelling(before: str, *, marks: str, opening: str) -> str:
    """Return the word that one of `marks` makes a label of what follows it and `opening`; "" when there is none.

    Read from the end: a search tries each character before as the beginning of a label, at each mention of an id.
    """
    marked = before.rstrip(opening).rstrip(" \t")
    if marked[-1:] not in tuple(marks):
        return ""
    label = marked[:-1].rstrip(" \t").rstrip("\\'\"")
    start = len(label)
    while start and (label[start - 1].isalnum() or label[start - 1] == "_"):
        start -= 1
    return label[start:]
