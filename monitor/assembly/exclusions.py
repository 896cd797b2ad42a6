"""What the settings leave out: turns of an app, a model or a route, and all that an instrumentation describes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from urllib.parse import urlsplit

from monitor.extract.attributes import text
from monitor.model.spans import Span
from monitor.model.turns import Turn

_ROUTES = ("http.route", "next.route")
_ADDRESSES = ("url.path", "http.target", "url.full", "http.url")


@dataclass(frozen=True, slots=True, kw_only=True)
class Exclusions:
    """Names that are left out; each may hold `*` and `?` and is compared whole, capitals told apart."""

    apps: tuple[str, ...] = ()
    scopes: tuple[str, ...] = ()
    models: tuple[str, ...] = ()
    routes: tuple[str, ...] = ()

    def leaves_out(self, span: Span) -> bool:
        """Return whether a span is not read, for the instrumentation that wrote it."""
        return _is_listed(span.scope, self.scopes)

    def read(self, span: Span) -> Span:
        """Return the span as it may be read: of one that is left out only its place among the others is kept."""
        return replace(span, attributes={}, events=(), status=0) if self.leaves_out(span) else span

    def reason(self, turn: Turn, around: Sequence[Span] = ()) -> str | None:
        """Return why a turn is left out, None when it is not; `around` are its root and the spans above it."""
        if _is_listed(turn.app, self.apps):
            return "excluded_app"
        if turn.model is not None and _is_listed(turn.model, self.models):
            return "excluded_model"
        if self.routes and any(_is_listed(route, self.routes) for span in around for route in _routes(span)):
            return "excluded_route"
        return None


NOTHING = Exclusions()
"""For settings that leave nothing out."""


def _is_listed(name: str, patterns: Sequence[str]) -> bool:
    return any(fnmatchcase(name, pattern) for pattern in patterns)


def _routes(span: Span) -> tuple[str, ...]:
    """Return the route and the path that a span of a request names."""
    route, address = text(span.attributes, *_ROUTES), text(span.attributes, *_ADDRESSES)
    path = urlsplit(address).path if address else None
    return tuple(name for name in (route, path) if name)
