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
    except ValueError as error:
        # Python's own limit: a number of thousands of digits.
        raise yaml.YAMLError("a value that cannot be read") from error


def load_with_unique_keys(text: str) -> object:
    """Return what a YAML document says, in which no mapping has a key twice: the last would win, and nobody see it.

    Raises:
        yaml.YAMLError: as `load`, or a key is there twice; the mark is the second one's.
    """
    document = load(text)
    root = yaml.compose(text, Loader=yaml.SafeLoader)
    if root is not None:
        _refuse_doubled(root, set())
    return document


def _refuse_doubled(node: yaml.Node, seen: set[int]) -> None:
    if id(node) in seen:
        return
    seen.add(id(node))
    if isinstance(node, yaml.SequenceNode):
        for item in node.value:
            _refuse_doubled(item, seen)
    elif isinstance(node, yaml.MappingNode):
        lines: dict[str, int] = {}
        for key, value in node.value:
            if isinstance(key, yaml.ScalarNode):
                if key.value in lines:
                    raise yaml.constructor.ConstructorError(
                        problem=f"{key.value} is there twice, first on line {lines[key.value]}",
                        problem_mark=key.start_mark,
                    )
                lines[key.value] = key.start_mark.line + 1
            _refuse_doubled(value, seen)


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
