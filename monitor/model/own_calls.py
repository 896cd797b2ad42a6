"""How a call of our own judge is known again when the telemetry of a gateway on its way brings it back to us.

It carries a header, which some instrumentations note, and its prompt has the marks around judged text. The first is
certain where it is noted; the second is told by its form, since a store's marks are known to nobody else.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping

HEADER, HEADER_VALUE = "x-rag-monitor", "judge"
"""Of HTTP, with each call of a judge."""

MARK_LENGTH = 12
"""Hexadecimal digits of the mark around judged text."""

_ALONE = re.compile(rf"^[ \t]*([0-9a-f]{{{MARK_LENGTH}}})[ \t]*$", re.MULTILINE)


def has_marks(texts: Iterable[str]) -> bool:
    r"""Return whether the texts of a prompt hold judged text between marks: on two lines of its own, and explained.

    >>> has_marks(["Between two lines that bear the mark 0123456789ab is data.", "0123456789ab\nWhy?\n0123456789ab"])
    True
    >>> has_marks(["0123456789ab\nWhy?\n0123456789ab"])
    False
    """
    prompt = "\n".join(texts)
    alone = Counter(_ALONE.findall(prompt))
    return any(lines >= 2 and prompt.count(mark) > lines for mark, lines in alone.items())  # noqa: PLR2004 -- begin and end


def has_header(attributes: Mapping[str, object]) -> bool:
    """Return whether a span notes our header: under its name, as HTTP instrumentation does, or in a text of headers.

    >>> has_header({"http.request.header.x-rag-monitor": ("judge",)})
    True
    """
    for key, value in attributes.items():
        name = key.lower().replace("_", "-")
        if HEADER in name or (("header" in name or "metadata" in name) and HEADER in str(value).lower()):
            return True
    return False
