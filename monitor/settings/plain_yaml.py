"""YAML as plain values, refused before it is built where a few lines of aliases would become gigabytes."""

from __future__ import annotations

import yaml

_MOST_VALUES = 100_000
"""Keys and values of a document with every alias written out: our largest files have hundreds."""


def load(text: str) -> object:
    """Return what a YAML document says.

    >>> load("{a: &a [1, 2], b: *a}")
    {'a': [1, 2], 'b': [1, 2]}

    Raises:
        yaml.YAMLError: it is no YAML, or too large with its aliases written out.
    """
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        if root is not None and _written_out(root, {}) > _MOST_VALUES:
            raise yaml.composer.ComposerError(
                problem=f"more than {_MOST_VALUES} values with every alias written out", problem_mark=root.start_mark
            )
        return yaml.safe_load(text)
    except RecursionError:
        raise yaml.YAMLError("nested too deeply") from None


def _written_out(node: yaml.Node, counted: dict[int, int]) -> int:
    """Return how many values a node is with every alias written out; one that holds itself has no end."""
    if id(node) in counted:
        return counted[id(node)]
    counted[id(node)] = _MOST_VALUES + 1
    count = 1
    if isinstance(node, yaml.SequenceNode):
        count += sum(_written_out(item, counted) for item in node.value)
    elif isinstance(node, yaml.MappingNode):
        count += sum(_written_out(key, counted) + _written_out(value, counted) for key, value in node.value)
    counted[id(node)] = count
    return count
