"""Every error the monitor raises on purpose.

    MonitorError
    ├── ConfigError            fix the settings; exit status 2 at start
    ├── PluginFailed           code of another distribution raised, or returned what it must not
    ├── Retryable              the same input may succeed later
    │   ├── Overloaded         the buffer is full; nothing was kept
    │   ├── StoreUnavailable   the database cannot be written now
    │   ├── RateLimited        the judge asks for a pause
    │   ├── TimedOut           the judge did not answer within its deadline
    │   ├── Unusable           the judge refuses everybody until a person acts: key, permission, model, quota
    │   └── Paused             not tried: an earlier failure, reported then, asked for a pause
    └── Permanent              the same input will always fail
        ├── MalformedPayload   bytes that are not what they claim to be
        ├── UnreadableReply    a judge's reply that holds no verdict
        └── Rejected           understood, and refused

Two questions only are asked of an error: *again?* (its branch) and *when?* (`retry_after`). Adapters translate
foreign exceptions at their own edge; messages hold neither user text nor secrets.
"""

from __future__ import annotations

import re
import traceback
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from types import MappingProxyType
from typing import ClassVar, Self

# Whatever stands before: looking for the name of a scheme takes thirty times as long, and can only leave one out.
_ADDRESS = re.compile(r"://(\S+)")
_NAMED_PASSWORD = re.compile(
    r"(\b\w{0,30}(?:password|passwd|pwd)\s*=\s*)(?:'[^']*'|\"[^\"]*\"|[^\s&,;'\"]+)", re.IGNORECASE
)
_PLACEHOLDER = "user:password"
_PART = 4


def without_credentials(text: str) -> str:
    """Return a text with `***` for user and password of addresses in it, and for what `password=` and its like name.

    >>> without_credentials("asking postgresql://me:p@ss/w:rd@db/monitor?sslpassword=x refused")
    'asking postgresql://***@db/monitor?sslpassword=*** refused'
    """
    return _NAMED_PASSWORD.sub(r"\1***", _ADDRESS.sub(_masked, text))


def _masked(found: re.Match[str]) -> str:
    # Up to the last `@`: a password that is not encoded has `@`, `:` or `/` in it.
    credentials, at, rest = found[1].rpartition("@")
    return f"://***@{rest}" if at and credentials != _PLACEHOLDER else found[0]


def without_parts_of(text: str, secrets: Iterable[str]) -> str:
    """Return a text of another side, which may repeat what we sent, with `***` for each part of a secret.

    A part is of 4 characters or more, since some show the last four of a key. What is shorter than that is no secret.

    >>> without_parts_of("Incorrect API key provided: sk-proj-***9876", ["sk-proj-0123459876"])
    'Incorrect API key provided: *********'
    """
    parts = {secret[i : i + _PART] for secret in secrets for i in range(len(secret) - _PART + 1)}
    shown, hidden_until = [], 0
    for i, character in enumerate(text):
        if text[i : i + _PART] in parts:
            if i >= hidden_until:
                shown.append("***")
            hidden_until = i + _PART
        elif i >= hidden_until:
            shown.append(character)
    return "".join(shown)


class MonitorError(Exception):
    """The root: everything below is expected and handled by its branch. Messages hold no credentials of addresses."""

    def __init__(self, message: str = "") -> None:
        super().__init__(without_credentials(message))


class ConfigError(MonitorError):
    """Something that people set is wrong: the message says where, what was found and what is allowed.

    >>> print(ConfigError("missing", where="kind").at("collectors[1]"))
    collectors[1]: kind: missing
    """

    def __init__(self, problem: str, *, where: str = "") -> None:
        """Keep the problem; `where` is its place: a key path, a file and line, an option; "" leaves it to callers."""
        super().__init__(problem)
        self.problems: Sequence[tuple[str, str]] = ((where, without_credentials(problem)),)
        """Each with its place first."""

    def __str__(self) -> str:
        return "\n".join(f"{where}: {problem}" if where else problem for where, problem in self.problems)

    @classmethod
    def several(cls, problems: Sequence[tuple[str, str]]) -> Self:
        """Return one error for all of these problems, each with its place first."""
        error = cls("")
        error.problems = tuple((where, without_credentials(problem)) for where, problem in problems)
        return error

    def at(self, where: str) -> Self:
        """Return the same problems, with the place that only the caller knows in front of theirs."""
        return self.several([(f"{where}: {place}" if place else where, problem) for place, problem in self.problems])


FAULTS = (Exception, SystemExit)
"""What code of another distribution may raise without ending us; Ctrl-C and cancellation are not its own."""


class PluginFailed(MonitorError):  # noqa: N818 -- what happened, not what is wrong with us
    """Code of another distribution raised, or returned what it must not; nobody knows whether again would help.

    `kind` is `dialect`, `channel`, `collector` or `metric`.
    """

    def __init__(self, kind: str, name: str, problem: str) -> None:
        super().__init__(f"{kind} {name!r}: {problem}")
        self.kind = kind
        self.name = name


class Retryable(MonitorError):  # noqa: N818 -- the name answers "again?", which is what callers ask
    """The same input may succeed later."""

    def __init__(self, message: str, *, retry_after: timedelta | None = None) -> None:
        super().__init__(message)
        self.retry_after = retry_after
        """How long to wait before trying again; None when the other side gave no hint."""


class Overloaded(Retryable):
    """Too much is waiting to be written; nothing of this input was kept."""


class StoreUnavailable(Retryable):
    """The database refused or did not answer; `reason` is one of `REASONS` and safe as a metric label."""

    REASONS = ("locked", "storage_full", "read_only", "unreachable", "other")
    MEANINGS: ClassVar[Mapping[str, str]] = MappingProxyType(
        {
            "locked": "another process holds the database's lock",
            "storage_full": "no room for the database on its disk or in its quota",
            "read_only": "the database, its folder or its disk cannot be written",
            "unreachable": "the database does not answer, or its disk fails",
            "other": "the log names it",
        }
    )
    """Each reason in words."""

    def __init__(self, message: str, *, reason: str = "other", retry_after: timedelta | None = None) -> None:
        super().__init__(message, retry_after=retry_after)
        self.reason = reason


class RateLimited(Retryable):
    """The judge's endpoint asks for a pause."""


class TimedOut(Retryable):
    """The judge's endpoint accepted a request and did not answer within the deadline."""


class Unusable(Retryable):
    """The judge's endpoint refuses whatever is asked until a person acts: key, permission, model or quota is wrong."""


class Paused(Retryable):
    """Nothing was tried: an earlier failure asked for a pause that is not over. It was reported then."""


class Permanent(MonitorError):  # noqa: N818 -- as Retryable
    """The same input will always fail; `reason` is a short snake_case word, safe as a metric label."""

    def __init__(self, message: str, *, reason: str) -> None:
        super().__init__(message)
        self.reason = reason


class MalformedPayload(Permanent):
    """Bytes that cannot be read as what they claim to be."""


class UnreadableReply(Permanent):
    """A judge's reply that holds no verdict."""


class Rejected(Permanent):
    """Understood and refused, such as by a judge's content filter."""

    def __init__(self, message: str, *, reason: str, severities: Mapping[str, int] = MappingProxyType({})) -> None:
        super().__init__(message, reason=reason)
        self.severities = severities
        """What a content filter found, by risk (`violence`), on the scale of 0 to 7 of the safety metrics."""


def place(error: BaseException) -> str:
    """Return the type of a foreign error and where it was raised: its message may hold user text or secrets.

    >>> place(KeyError("secret"))
    'KeyError'
    """
    frames = traceback.extract_tb(error.__traceback__)
    name = type(error).__name__
    return f"{name} at {frames[-1].filename}:{frames[-1].lineno}" if frames else name


def cause_at_start(error: BaseException) -> str:
    """Return why code could not be imported or started, while no user's text is near: what is missing, or the place.

    >>> cause_at_start(ModuleNotFoundError("No module named 'acme'"))
    "ModuleNotFoundError: No module named 'acme'"
    """
    if isinstance(error, SyntaxError):
        return f"{type(error).__name__} at {error.filename}:{error.lineno}"
    if isinstance(error, ImportError):
        return f"{type(error).__name__}: {error.msg}"
    if isinstance(error, OSError) and error.strerror:
        return f"{place(error)}: {error.strerror}"
    return place(error)
