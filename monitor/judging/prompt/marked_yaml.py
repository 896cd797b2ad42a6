"""A YAML mapping with the line of each key, so that a mistake in a value can be told with its place."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import yaml

from monitor.errors import ConfigError
from monitor.settings import plain_yaml


@dataclass(frozen=True, slots=True)
class MarkedYaml:
    """The mapping, and where its keys stand."""

    tree: Mapping[str, object]
    lines: Mapping[tuple[str, ...], int]

    def line(self, place: Sequence[object]) -> int:
        r"""Return the line of the key path `place`, or of as much of it as is there.

        >>> load("a:\n  b: 1\n", where="x", line=5).line(("a", "b", 0))
        6
        """
        names = tuple(map(str, place))
        return next((self.lines[names[:end]] for end in range(len(names), 0, -1) if names[:end] in self.lines), 1)


def load(text: str, *, where: str, line: int) -> MarkedYaml:
    """Return the mapping in `text`, whose first line has the number `line` in the file `where`.

    Raises:
        ConfigError: it is no YAML, no mapping, or a key of it is there twice.
    """
    try:
        root = yaml.compose(text, Loader=yaml.SafeLoader)
        tree = plain_yaml.load(text)
    except yaml.MarkedYAMLError as error:
        at = line + error.problem_mark.line if error.problem_mark else line
        raise ConfigError(f"front matter is not YAML: {error.problem}", where=f"{where}:{at}") from None
    except yaml.reader.ReaderError as error:
        at = line + text.count("\n", 0, error.position)
        raise ConfigError(f"front matter is not YAML: {error.reason}", where=f"{where}:{at}") from None
    except (yaml.YAMLError, ValueError, RecursionError):
        raise ConfigError("front matter is not YAML: a value that cannot be read", where=f"{where}:{line}") from None
    if not isinstance(root, yaml.MappingNode) or not isinstance(tree, dict):
        raise ConfigError("front matter: expected a mapping", where=f"{where}:{line}")
    lines: dict[tuple[str, ...], int] = {}
    for place, below in _keys(root, (), set()):
        if place in lines:
            raise ConfigError(
                f"{'.'.join(place)} is there twice, first on line {lines[place]}", where=f"{where}:{line + below}"
            )
        lines[place] = line + below
    return MarkedYaml(tree={str(key): value for key, value in tree.items()}, lines=lines)


def _keys(node: yaml.MappingNode, above: tuple[str, ...], seen: set[int]) -> Iterator[tuple[tuple[str, ...], int]]:
    """Yield the path of each key, and how many lines it stands below the first."""
    # Aliases make a tree of a few lines endless.
    if id(node) in seen:
        return
    seen.add(id(node))
    for key, value in node.value:
        place = (*above, str(key.value))
        yield place, key.start_mark.line
        if isinstance(value, yaml.MappingNode):
            yield from _keys(value, place, seen)
