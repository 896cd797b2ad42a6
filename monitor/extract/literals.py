"""Lists, dicts, texts and numbers as Python prints them, read without Python's own parser.

`ast.literal_eval` warns on the process's standard error of what a sender wrote, may raise `TypeError` of it, and can
bring the interpreter down when it is nested deep enough (https://docs.python.org/3/library/ast.html).
"""

from __future__ import annotations

import re

from monitor.model.spans import AttributeValue

_TOKEN = re.compile(
    r"""\s*+(?:(?P<text>[uU]?(?:'[^'\\\n]*+(?:\\.[^'\\\n]*+)*+'|"[^"\\\n]*+(?:\\.[^"\\\n]*+)*+"))
    |(?P<bytes>[bB](?:'[^'\\\n]*+(?:\\.[^'\\\n]*+)*+'|"[^"\\\n]*+(?:\\.[^"\\\n]*+)*+"))
    |(?P<number>[+-]?(?:\d++\.?+\d*+|\.\d++)(?:[eE][+-]?\d++)?+)(?![\w.])
    |(?P<name>True|False|None)(?!\w)
    |(?P<mark>[][(){},:])
    |(?P<end>\Z))""",
    re.DOTALL | re.VERBOSE,
)
_ESCAPE = re.compile(
    r"\\(?:([0-7]{1,3})|x([0-9a-fA-F]{2})|u([0-9a-fA-F]{4})|U(00(?:0[0-9a-fA-F]|10)[0-9a-fA-F]{4})|(.))", re.DOTALL
)
_ESCAPED = dict(zip("\\'\"abfnrtv", "\\'\"\a\b\f\n\r\t\v", strict=True)) | {"\n": ""}
_CUT = frozenset("xuU")
"""What must be followed by digits."""
_NAMES = {"True": True, "False": False, "None": None}
_DEPTH = 100


def value(text: str) -> AttributeValue:
    """Return a printed value: tuples and sets as lists, keys as text, bytes as None; None for what is not one.

    >>> value("{'scores': (0.5, -1), 1: [True, None]}")
    {'scores': [0.5, -1], '1': [True, None]}
    >>> value("[Document(id=1)]") is None
    True
    """
    try:
        reader = _Reader(text)
        read = reader.value(_DEPTH)
        reader.take("")
    except ValueError:
        return None
    return read


def unquoted(quoted: str) -> str:
    r"""Return what a printed text says; escapes that Python does not know stand for themselves.

    >>> unquoted(r"'It\'s \d \x41'")
    "It's \\d A"

    Raises:
        ValueError: an escape breaks off.
    """
    inner = quoted[1:-1]
    return _ESCAPE.sub(_unescaped, inner) if "\\" in inner else inner


def _unescaped(escape: re.Match[str]) -> str:
    octal, *hexadecimal, other = escape.groups()
    if octal:
        return chr(int(octal, 8))
    for digits in hexadecimal:
        if digits:
            return chr(int(digits, 16))
    if other in _CUT:
        raise ValueError("an escape without its digits")
    return _ESCAPED.get(other, escape[0])


def _scalar(kind: str, token: str) -> AttributeValue:
    if kind == "number":
        return float(token) if set(token) & set(".eE") else int(token)
    if kind == "end":
        raise ValueError("no value")
    return _NAMES.get(token)


class _Reader:
    """A position in a text; every method raises `ValueError` where it cannot go on."""

    def __init__(self, text: str) -> None:
        self._text, self._at, self._kind, self._read = text, 0, "", ""
        self._advance()

    def value(self, depth: int) -> AttributeValue:
        """Read one value with up to `depth` more inside one another."""
        kind, mark = self._kind, self._read
        if kind == "text":
            return self._texts()
        self._advance()
        if kind != "mark":
            return _scalar(kind, mark)
        if mark == "[" and depth:
            return self._items("]", depth - 1)[0]
        if mark == "{" and depth:
            return self._braces(depth - 1)
        if mark != "(" or not depth:
            raise ValueError("no value")
        items, comma = self._items(")", depth - 1)
        return items[0] if len(items) == 1 and not comma else items

    def take(self, token: str) -> None:
        """Pass over this mark; "" is the end of the text."""
        if self._read != token:
            raise ValueError("not what must follow")
        if token:
            self._advance()

    def _texts(self) -> str:
        """Texts beside one another are one, which is how `pprint` breaks its lines."""
        parts = []
        while self._kind == "text":
            parts.append(unquoted(self._read.lstrip("uU")))
            self._advance()
        return "".join(parts)

    def _items(self, closer: str, depth: int) -> tuple[list[AttributeValue], bool]:
        """Read up to the closing bracket; return the items and whether a comma stands behind the last."""
        items: list[AttributeValue] = []
        comma = False
        while self._read != closer:
            items.append(self.value(depth))
            comma = self._read == ","
            if not comma:
                break
            self._advance()
        self.take(closer)
        return items, comma

    def _braces(self, depth: int) -> AttributeValue:
        read: dict[str, AttributeValue] = {}
        while self._read != "}":
            first = self.value(depth)
            if self._read != ":" and not read:
                return self._rest_of_set(first, depth)
            self.take(":")
            read[str(first)] = self.value(depth)
            if self._read != ",":
                break
            self._advance()
        self.take("}")
        return read

    def _rest_of_set(self, first: AttributeValue, depth: int) -> AttributeValue:
        if self._read != ",":
            self.take("}")
            return [first]
        self._advance()
        return [first, *self._items("}", depth)[0]]

    def _advance(self) -> None:
        token = _TOKEN.match(self._text, self._at)
        if token is None:
            raise ValueError("no token")
        self._kind = token.lastgroup or ""
        self._read, self._at = token[self._kind], token.end()
