"""OTLP attribute values become Python values, with text that databases and JSON can hold."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from monitor.model.spans import Attributes, AttributeValue
from monitor.payloads.otlp.schema import AnyValue, KeyValue
from monitor.text.repair import decoded

TEXT_REPAIRED = "text_repaired"


def text(raw: bytes, flags: set[str]) -> str:
    """Return `raw` as text; where something in it became U+FFFD, `flags` gets `text_repaired`."""
    read, was_repaired = decoded(raw)
    if was_repaired:
        flags.add(TEXT_REPAIRED)
    return read


def attributes(pairs: Sequence[KeyValue], flags: set[str]) -> Attributes:
    """Return attributes by key; of a key given twice the last counts. See `text` for `flags`."""
    return {text(pair.key, flags): value(pair.value, flags) for pair in pairs}


def value(any_value: AnyValue, flags: set[str]) -> AttributeValue:
    """Return a value as str, bool, int, float, bytes, tuple or dict; None when it has none. See `text` for `flags`."""
    which = any_value.WhichOneof("value")
    if which == "string_value":
        return text(any_value.string_value, flags)
    read = _READ.get(which) if which else None
    return read(any_value, flags) if read else None


_READ: Mapping[str, Callable[[AnyValue, set[str]], AttributeValue]] = {
    "bool_value": lambda any_value, _: any_value.bool_value,
    "int_value": lambda any_value, _: any_value.int_value,
    "double_value": lambda any_value, _: any_value.double_value,
    "bytes_value": lambda any_value, _: any_value.bytes_value,
    "array_value": lambda any_value, flags: tuple(value(entry, flags) for entry in any_value.array_value.values),
    "kvlist_value": lambda any_value, flags: attributes(any_value.kvlist_value.values, flags),
}
