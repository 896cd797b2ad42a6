"""The tree of settings as plain values: the YAML file, `${NAME}` filled in, and the environment's overrides."""

from __future__ import annotations

import copy
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import yaml

from monitor.errors import ConfigError
from monitor.settings import plain_yaml
from monitor.settings.problems import WHOLE
from monitor.settings.text_file import read_text

_PREFIX = "RAG_MONITOR__"
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_KEY = re.compile(r"[^\s.\[\]]+")
_STANDARD = (
    ("OPENAI_API_KEY", "judge", "api_key"),
    ("OPENAI_BASE_URL", "judge", "base_url"),
    ("GRAFANA_URL", "grafana", "url"),
    ("GRAFANA_TOKEN", "grafana", "token"),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Tree:
    """What a file and the environment say, not yet checked."""

    values: Mapping[str, object]
    file: Path | None
    of_file: Mapping[str, object]
    """What the file alone says."""
    variables: Mapping[tuple[str, ...], str]
    """The variables that values came from, by key path: `RAG_MONITOR__SAMPLE__RATE`, or `${RATE}` in the file."""

    def blamed(self, error: ConfigError) -> ConfigError:
        """Return the error with the origin of each problem in front of its place, such as `sample.rate` or `judge`."""
        return ConfigError.several(
            [(f"{self._origin(place, problem)}: {place}", problem) for place, problem in error.problems]
        )

    def _origin(self, place: str, problem: str) -> str:
        """Return the variable that set the key, and those that set a key in it which the problem speaks of."""
        at = () if place == WHOLE else tuple(_KEY.findall(place.lower().split(": ")[0]))
        setting = [name for keys, name in self.variables.items() if keys == at[: len(keys)]]
        if overriding := [name for name in setting if not name.startswith("${")]:
            return ", ".join(overriding)
        within = {keys: name for keys, name in self.variables.items() if keys[: len(at)] == at != keys}
        if within and not _holds(self.of_file, at):
            return ", ".join(within.values())
        spoken_of = [name for keys, name in within.items() if re.search(rf"\b{re.escape(keys[-1])}\b", problem)]
        return " and ".join([*([str(self.file)] if self.file else []), *setting, *spoken_of]) or "environment"


def _holds(node: object, at: Sequence[str]) -> bool:
    for key in at:
        if isinstance(node, list) and key.isdecimal() and int(key) < len(node):
            node = node[int(key)]
        elif isinstance(node, dict) and key in node:
            node = node[key]
        else:
            return False
    return True


def tree(path: Path | None, environ: Mapping[str, str]) -> Tree:
    """Return what `path` (None: nothing) and the environment say, not yet checked.

    Raises:
        ConfigError: the file cannot be read, or a variable it names is not set.
    """
    variables: dict[tuple[str, ...], str] = {}
    values = _read(path, environ, variables) if path else {}
    of_file = copy.deepcopy(values)
    for name, value in sorted(environ.items()):
        if name.startswith(_PREFIX):
            variables[_override(values, name, value)] = name
    _standard_variables(values, environ, variables)
    return Tree(values=values, file=path, of_file=of_file, variables=variables)


def _read(path: Path, environ: Mapping[str, str], variables: dict[tuple[str, ...], str]) -> dict[str, object]:
    text = read_text(path, "the settings")
    try:
        tree = plain_yaml.load_with_unique_keys(text)
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark
        at = f":{mark.line + 1}:{mark.column + 1}" if mark else ""
        raise ConfigError(f"not YAML: {error.problem}", where=f"{path}{at}") from None
    except yaml.YAMLError as error:
        # One of a reader quotes the file.
        why = "" if isinstance(error, yaml.reader.ReaderError) else f": {error}"
        raise ConfigError(f"not YAML{why}", where=str(path)) from None
    if tree is None:
        return {}
    if not isinstance(tree, dict):
        raise ConfigError(f"expected a mapping of sections, found {type(tree).__name__}", where=str(path))
    filled = _Filling(environ, str(path), variables)(tree, ())
    return {str(key): value for key, value in filled.items()} if isinstance(filled, dict) else {}


@dataclass(frozen=True, slots=True)
class _Filling:
    """Fills `${NAME}` in strings after parsing, so that a value with quotes or colons cannot change the file."""

    environ: Mapping[str, str]
    file: str
    variables: dict[tuple[str, ...], str]

    def __call__(self, node: object, place: tuple[str, ...]) -> object:
        if isinstance(node, dict):
            return {key: self(value, (*place, str(key))) for key, value in node.items()}
        if isinstance(node, list):
            return [self(value, (*place, str(i))) for i, value in enumerate(node)]
        if not isinstance(node, str) or "${" not in node:
            return node
        text = _VARIABLE.sub(lambda match: self._value(match, place), node)
        # Numbers stay text: fields that want one take it as such, and a password may be made of digits, zeros first.
        return None if text == "null" and _VARIABLE.fullmatch(node) else text

    def _value(self, match: re.Match[str], place: tuple[str, ...]) -> str:
        name, default = match[1], match[2]
        value = self.environ.get(name)
        if value:
            self.variables[place] = f"${{{name}}}"
            return value
        if default is not None:
            return default
        where = ": ".join((self.file, *place))
        raise ConfigError(
            f"${{{name}}} is not set in the environment; set it or write ${{{name}:-default}}", where=where
        )


def _override(tree: dict[str, object], name: str, value: str) -> tuple[str, ...]:
    """Set what the variable `name` names, and return its key path."""
    keys = name.removeprefix(_PREFIX).lower().split("__")
    node = tree
    for key in keys[:-1]:
        below = node.setdefault(key, {})
        if not isinstance(below, dict):
            raise ConfigError(
                f"{key!r} is a list or a value in the file; only keys of mappings can be overridden", where=name
            )
        node = below
    try:
        node[keys[-1]] = plain_yaml.load(value) if value[:1] in ("[", "{") or value == "null" else value
    except yaml.YAMLError:
        raise ConfigError("starts like a list or mapping but is not YAML", where=name) from None
    return tuple(keys)


def _standard_variables(
    tree: dict[str, object], environ: Mapping[str, str], variables: dict[tuple[str, ...], str]
) -> None:
    """The field's own variables fill what the file leaves open."""
    for variable, section, key in _STANDARD:
        if environ.get(variable):
            below = tree.setdefault(section, {})
            if isinstance(below, dict) and f"{key}_file" not in below and key not in below:
                below[key] = environ[variable]
                variables[section, key] = variable
