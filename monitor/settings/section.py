"""What sections of settings are made of, a plug-in's `Config` too: strict keys, durations, secrets, authorities."""

from __future__ import annotations

import re
import ssl
from datetime import timedelta
from pathlib import Path
from typing import Annotated, TypeAlias

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, SecretStr

from monitor.errors import ConfigError
from monitor.header_fields import problem_of_value
from monitor.settings.text_file import read_whole

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_DURATION = re.compile(r"(\d+(?:\.\d+)?)(ms|s|m|h|d)")


def duration(value: object) -> object:
    """Return the `timedelta` of a number with a unit; other values pass, for pydantic to refuse.

    >>> duration("1.5h")
    datetime.timedelta(seconds=5400)
    """
    if isinstance(value, str) and (match := _DURATION.fullmatch(value.strip())):
        return timedelta(seconds=float(match[1]) * _UNITS[match[2]])
    if isinstance(value, timedelta):
        return value
    raise ValueError('expected a number with a unit: "250ms", "15s", "5m", "2h" or "7d"')


Duration: TypeAlias = Annotated[timedelta, BeforeValidator(duration)]


class Section(BaseModel):
    """A part of the tree: unknown keys are refused, nothing changes after loading."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, hide_input_in_errors=True)


def _sendable(value: SecretStr) -> SecretStr:
    if problem := problem_of_value(value.get_secret_value()):
        raise ValueError(problem)
    return value


HeaderSecret: TypeAlias = Annotated[SecretStr, AfterValidator(_sendable)]
"""A secret that is sent as a header field of HTTP, or as a part of one."""


def secret(value: SecretStr | None, file: Path | None, fallback: str | None, where: str) -> str | None:
    """Return the secret from the settings, else from its file (stripped), else `fallback`, else None.

    Raises:
        ConfigError: both were given, or the file cannot be read; the message names `where`, never the value.
    """
    if value is not None and file is not None:
        raise ConfigError(f"given twice, as itself and as {where}_file; keep one", where=where)
    if value is not None:
        return value.get_secret_value() or None
    if file is None:
        return fallback or None
    try:
        # A text editor of Windows puts a mark before the text.
        return read_whole(file).decode("utf-8-sig").strip() or None
    except OSError as error:
        raise ConfigError(f"cannot read {str(file)!r}: {error.strerror}", where=f"{where}_file") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{str(file)!r} is not text in UTF-8", where=f"{where}_file") from None


def needed_secret(value: SecretStr | None, file: Path | None, name: str, where: str) -> str:
    """Return the secret that the key `name` of the section at `where` holds, as `secret` does.

    Raises:
        ConfigError: as `secret`, and there is none.
    """
    text = secret(value, file, None, f"{where}: {name}")
    if text is None:
        raise ConfigError(f"missing; give {name} or {name}_file", where=f"{where}: {name}")
    return text


def header_secret(value: HeaderSecret | None, file: Path | None, where: str) -> str | None:
    """Return a secret that is sent as a header field, as `secret` does.

    Raises:
        ConfigError: as `secret`, and what the file holds cannot be sent.
    """
    text = secret(value, file, None, where)
    if file is not None and (problem := problem_of_value(text or "")):
        raise ConfigError(problem, where=f"{where}_file")
    return text


def authorities(file: Path | None, where: str) -> ssl.SSLContext | None:
    """Return what trusts the authorities in `file` alone, or None for the machine's own.

    Raises:
        ConfigError: the file cannot be read, or holds no certificate.
    """
    if file is None:
        return None
    try:
        return ssl.create_default_context(cafile=str(file))
    except (OSError, ssl.SSLError) as error:
        raise ConfigError(f"cannot read authorities from {str(file)!r}: {error}", where=where) from None
