r"""Text that databases and JSON refuse becomes text that they take.

PostgreSQL cannot hold NUL in text, SQLite cuts the value there in some of its functions, and neither they nor JSON take
half of a surrogate pair. Each becomes U+FFFD wherever it comes from; none is dropped, which would join words.
"""

from __future__ import annotations


def repaired(text: str) -> str:
    r"""Return `text` with U+FFFD for NUL and for lone surrogates; pairs become the character that they stand for.

    Text that needs nothing is returned as the same object.

    >>> repaired("page 1\x00page 2 \ud83d")
    'page 1\ufffdpage 2 \ufffd'
    """
    if "\x00" in text:
        text = text.replace("\x00", "\ufffd")
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def decoded(raw: bytes) -> tuple[str, bool]:
    r"""Return bytes that should be UTF-8 as repaired text, and whether anything in them became U+FFFD.

    >>> decoded(b"caf\xe9"), decoded("café".encode())
    (('caf\ufffd', True), ('café', False))
    """
    try:
        text, is_utf8 = raw.decode(), True
    except UnicodeDecodeError:
        text, is_utf8 = raw.decode(errors="replace"), False
    if "\x00" in text:
        return repaired(text), True
    return text, not is_utf8
