"""Replies in plain text, for published forms that ask for a bare number or for YES or NO: read whole or not at all."""

from __future__ import annotations

import re

from monitor.errors import UnreadableReply
from monitor.judging.reply.findings import Defect, Scale, scored
from monitor.model.judgements import Finding

_WORDS = {"one": 1, "two": 2, "three": 3, "four": 4, "five": 5}
_UNIT = r"(?:\s*(?:stars?|points?|(?:/|out of)\s*(?P<best>\d{1,4}|five)))?"
_NUMBER = re.compile(rf"(?P<number>-?\d{{1,4}}(?:\.\d{{1,4}})?|{'|'.join(_WORDS)}){_UNIT}", re.IGNORECASE)
_RESULT = re.compile(r"(?m)^[ \t]*#+[ \t]*result\b[ \t]*:?", re.IGNORECASE)
# A stop in front is a decimal point, behind it ends the sentence.
_BEFORE = " \t\r\n*_`\"':#"
_BEHIND = f"{_BEFORE}."
_FIRST_WORD = re.compile(r"\W*(\w+)")


def read_number(text: str, scale: Scale, defect: Defect) -> Finding:
    """Return the number that `text` is, in digits or as a word, alone but for markup and "stars".

    Raises:
        UnreadableReply: there is anything else, or the number is outside the scale.
    """
    match = _NUMBER.fullmatch(text.lstrip(_BEFORE).rstrip(_BEHIND))
    if match is None or (match["best"] and _value(match["best"]) != scale.high):
        raise UnreadableReply(f"expected nothing but {scale}", reason="invalid")
    return scored(_value(match["number"]), scale, defect)


def _value(written: str) -> float:
    return float(_WORDS.get(written.lower()) or written)


def read_result(text: str, scale: Scale, defect: Defect) -> Finding:
    """Return the number below the only line "# Result"; what comes before is its reason.

    Raises:
        UnreadableReply: there is no such line or several, or below it anything but a number of the scale.
    """
    headings = list(_RESULT.finditer(text))
    if len(headings) != 1:
        raise UnreadableReply(f'expected one line "# Result", found {len(headings)}', reason="ambiguous")
    finding = read_number(text[headings[0].end() :], scale, defect)
    return scored(finding.score or 0.0, scale, defect, reason=text[: headings[0].start()].strip())


def read_yes_no(text: str, defect: Defect) -> Finding:
    """Return 1 for a text whose first word is yes, 0 for no, whatever their case and marks.

    Raises:
        UnreadableReply: the first word is another; that is no "no".
    """
    match = _FIRST_WORD.match(text)
    word = match[1].casefold() if match else ""
    if word not in {"yes", "no"}:
        raise UnreadableReply("expected yes or no as the first word", reason="invalid")
    score = float(word == "yes")
    return Finding(score=score, defect=defect(score), label=word)
