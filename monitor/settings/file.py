"""The tree of settings as plain values: the YAML file, `${NAME}` filled in, and the environment's overrides."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

import yaml

from monitor.errors import ConfigError
from monitor.settings import plain_yaml

_PREFIX = "RAG_MONITOR__"
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_STANDARD = (
    ("OPENAI_API_KEY", "judge", "api_key"),
    ("OPENAI_BASE_URL", "judge", "base_url"),
    ("GRAFANA_URL", "grafana", "url"),
    ("GRAFANA_TOKEN", "grafana", "token"),
)


def tree(path: Path | None, environ: Mapping[str, str]) -> dict[str, object]:
    """Return what `path` (None: nothing) and the environment say, not yet checked.

    Raises:
        ConfigError: the file cannot be read, or a variable it names is not set.
    """
    tree = _read(path, environ) if path else {}
    for name, value in sorted(environ.items()):
        if name.startswith(_PREFIX):
            _override(tree, name, value)
    _standard_variables(tree, environ)
    return tree


def _read(path: Path, environ: Mapping[str, str]) -> dict[str, object]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = error.strerror if isinstance(error, OSError) else "not UTF-8"
        raise ConfigError(f"cannot read the settings: {why}", where=str(path)) from None
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
    filled = _substitute(tree, environ, str(path))
    return {str(key): value for key, value in filled.items()} if isinstance(filled, dict) else {}


def _substitute(node: object, environ: Mapping[str, str], where: str) -> object:
    """Fill `${NAME}` in strings after parsing, so that a value with quotes or colons cannot change the file's shape."""
    if isinstance(node, dict):
        return {key: _substitute(value, environ, f"{where}: {key}") for key, value in node.items()}
    if isinstance(node, list):
        return [_substitute(value, environ, f"{where}[{i}]") for i, value in enumerate(node)]
    if not isinstance(node, str) or "${" not in node:
        return node

    def fill(match: re.Match[str]) -> str:
        name, default = match[1], match[2]
        value = environ.get(name)
        if value:
            return value
        if default is not None:
            return default
        raise ConfigError(
            f"${{{name}}} is not set in the environment; set it or write ${{{name}:-default}}", where=where
        )

    text = _VARIABLE.sub(fill, node)
    # Numbers stay text: fields that want one take it as such, and a password may be made of digits, zeros first.
    return None if text == "null" and _VARIABLE.fullmatch(node) else text


def _override(tree: dict[str, object], name: str, value: str) -> None:
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


def _standard_variables(tree: dict[str, object], environ: Mapping[str, str]) -> None:
    """The field's own variables fill what the file leaves open."""
    for variable, section, key in _STANDARD:
        if environ.get(variable):
            below = tree.setdefault(section, {})
            if isinstance(below, dict) and f"{key}_file" not in below:
                below.setdefault(key, environ[variable])
