"""Which names and values can be sent as header fields of HTTP: RFC 9110 section 5, its values in US-ASCII.

A key that was copied out of a document has a curly quote, one out of a file a line break; clients of HTTP refuse both
late, and some repeat the value. What is said here repeats at most one character of it.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Mapping

_NAME = re.compile(r"[A-Za-z0-9!#$%&'*+.^_`|~-]+")
_ASCII = 0x7F


def problem_of_value(value: str) -> str:
    r"""Return why a value cannot be sent; "" when it can.

    >>> problem_of_value("Bearer key\n")
    'cannot be sent in a header: character 11 of 11 is a line break'
    """
    for place, character in enumerate(value, 1):
        if " " <= character < chr(_ASCII) or character == "\t":
            continue
        if character in "\r\n":
            what = "a line break"
        elif ord(character) >= _ASCII and character.isprintable():
            what = f"{unicodedata.name(character, 'no character')} (U+{ord(character):04X}), which is not ASCII"
        else:
            what = f"a control character (U+{ord(character):04X})"
        return f"cannot be sent in a header: character {place} of {len(value)} is {what}"
    return ""


def problem_of_fields(fields: Mapping[str, str]) -> tuple[str, str] | None:
    """Return the first name that cannot be sent or has a value that cannot, and why; None when all can.

    The name is "" when the fault is its own: then it may be a value that stands in the wrong place.
    """
    for name, value in fields.items():
        if not _NAME.fullmatch(name):
            return "", "a name is empty or holds what no name of a header may: letters, digits and - are safe"
        if problem := problem_of_value(value):
            return name, problem
    return None
