"""Objects that programs of any language printed where a text was meant: by their names alone, or with their fields.

Sources: `Object.toString` of Java SE (java.lang.Object), `Object.prototype.toString` of ECMA-262 section 20.1.3.6,
`util.inspect` of Node.js, `fmt` of Go, `Debug` of Rust, `inspect` of Ruby, `Object.ToString` of .NET.
"""

from __future__ import annotations

import re

_LONGEST = 2000
"""Characters at either end of a text that are looked at."""
_NAME_ONLY = re.compile(
    r"""\A\s*+(?:
    (?:(?:[\w$]++\.)*+[A-Z][\w$]*+|\[++[A-Z][\w.$]*+;?)@[0-9a-f]{1,16}    # Java: shop.Result@43b4fe19
    |\[object[ ]\w++\]                                                    # JavaScript: [object Object]
    |\[(?:Async)?(?:Generator)?Function(?::[ ][\w.$]++|[ ]\(anonymous\))?\]
    |Promise[ ]\{[ ]<pending>[ ]\}
    |<(?:async_generator|generator|coroutine|function|bound[ ]method)[ ][^<>]{1,200}+>
    |<[^<>]{0,60}?[ ]object[ ]at[ ]0x[0-9a-f]++>                          # Python
    |\#<[A-Z][\w:]*+(?::0x[0-9a-f]++)?>                                   # Ruby: #<Result:0x0000f00d>
    |(?:\(\*[\w.]++\)\()?0xc?[0-9a-f]{6,16}\)?                            # Go: 0xc000012345
    |System(?:\.\w++)++(?:`\d)?(?:\[[\w.,` \[\]]*+)?                      # .NET: System.String[]
    )\s*+\Z""",
    re.VERBOSE,
)
_FIELDS = re.compile(
    r"""\A\s*+(?:
    [A-Z][\w.$]*+\[\s*+\w++=                      # Java's records: Result[content=So., sources=[]]
    |[A-Z][\w.$]*+\(\s*+\w++=                     # Kotlin, Lombok
    |[A-Z][\w.$]*+[ ]\{\s*+\w++(?::|[ ]=)[ ]      # Node.js, Rust, C#: Result { content: 'So.' }
    |&?\{[A-Z]\w*+:                               # Go: {Content:So. Sources:[]}
    |\{\w++=                                      # Java's maps
    |\#<(?:struct[ ]|data[ ])?[A-Z][\w:]*+[ ]@?\w++=
    |[A-Za-z]\w*+[ ]Object\s++\(\s*+\[               # PHP
    )""",
    re.VERBOSE,
)
_CLOSED = ("]", ")", "}", ">", "...", "…")
_NOT_NAMED = frozenset(("unknown", "none", "null", "undefined", "n/a"))


def is_name_only(text: str) -> bool:
    """Return whether a text is nothing but an object's type, with its address or without: it says nothing.

    >>> is_name_only("dev.langchain4j.service.Result@43b4fe19"), is_name_only("[object Object]")
    (True, True)
    >>> is_name_only("Write to info@ada.de.")
    False
    """
    return len(text) <= _LONGEST and _NAME_ONLY.match(text) is not None


def has_printed_fields(text: str) -> bool:
    """Return whether a text is an object that was printed with its fields, whole or shortened to a preview.

    >>> has_printed_fields("Result[content=Two years., sources=[]]"), has_printed_fields("Result { content: 'So.' }")
    (True, True)
    >>> has_printed_fields("Use f(x=1).")
    False
    """
    return text[-_LONGEST:].rstrip().endswith(_CLOSED) and _FIELDS.match(text[:_LONGEST]) is not None


def is_printed(text: str) -> bool:
    """Return whether a text is an object that a program printed, in whatever language."""
    return is_name_only(text) or has_printed_fields(text)


def named(model: str | None) -> str | None:
    """Return a model's name; None for what emitters write that do not know it.

    >>> named("gpt-4o"), named("unknown")
    ('gpt-4o', None)
    """
    return None if model is not None and model.strip().casefold() in _NOT_NAMED else model
