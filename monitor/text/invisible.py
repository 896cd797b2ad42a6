"""Characters that nobody sees, or that turn others round: which they are, for names, for screens and for prompts.

What Unicode calls default ignorable (https://www.unicode.org/reports/tr44/#Default_Ignorable_Code_Point), controls, and
ends of lines.
"""

from __future__ import annotations

import re

# Soft hyphen and grapheme joiner; zero-width and bidirectional marks; invisible operators and fillers; variation
# selectors and tag characters, which carry hidden text; halves of surrogate pairs.
_MARKS = (
    "\u00ad\u034f\u061c\u115f\u1160\u17b4\u17b5\u180b-\u180f\u200b\u200e\u200f"
    "\u202a-\u202e\u2060-\u206f\u3164\ufe00-\ufe0d\ufeff\uffa0\ufff9-\ufffb\U0001bca0-\U0001bca3\U0001d173-\U0001d17a"
    "\U000e0000-\U000e0fff\ud800-\udfff"
)
_SELECTORS = "\ufe0e\ufe0f"
UNSEEN = _MARKS + _SELECTORS
"""A class of a pattern; without controls, ends of lines, and the joiners U+200C and U+200D."""

# Between letters of Arabic, Indic and other scripts that join them these two are spelling; elsewhere they only hide.
_JOINING = "\u0600-\u0dff\u1000-\u109f\u1780-\u17ff"
JOINERS = re.compile(f"(?<![{_JOINING}])[\u200c\u200d]|[\u200c\u200d](?![{_JOINING}])")
"""Joiners between which nothing joins."""

_PICTURES = (
    "\u203c\u2049\u2122\u2139\u2190-\u21ff\u2300-\u23ff\u24c2\u25a0-\u27bf\u2934\u2935\u2b00-\u2bff\u3030\u303d"
    "\u3297\u3299\U0001f000-\U0001faff"
)
_HIDDEN = re.compile(
    f"[\x00-\x1f\x7f-\x9f\u2028\u2029{_MARKS}]"
    f"|(?<![{_PICTURES}])[{_SELECTORS}]"
    f"|(?<![{_JOINING}])\u200c|\u200c(?![{_JOINING}])"
    f"|(?<![{_JOINING}{_PICTURES}{_SELECTORS}])\u200d|\u200d(?![{_JOINING}{_PICTURES}])"
)
"""What has no place on a line: as above, with controls and ends of lines, but for what pictures are put together of."""


def visible(name: str) -> str:
    r"""Return a name with U+FFFD for what nobody sees in it: two names that look alike are alike.

    >>> visible("shop\u200b\u202ebot\n"), visible("می\u200cخواهم")
    ('shop\ufffd\ufffdbot\ufffd', 'می\u200cخواهم')
    """
    return name if name.isascii() and name.isprintable() else _HIDDEN.sub("\ufffd", name)


def escaped(text: str) -> str:
    r"""Return text for one line, with escapes for what ends it, is not seen or is obeyed by a terminal.

    >>> escaped("\x1b[31mred\n\u200eleft")
    '\\x1b[31mred\\n\\u200eleft'
    """
    if text.isascii() and text.isprintable():
        return text
    return _HIDDEN.sub(lambda match: match[0].encode("unicode_escape").decode(), text)
