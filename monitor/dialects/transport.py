"""HTTP, RPC, messaging and database spans: no part of a turn's content, but its route, status and session.

They keep a turn together (a request is a turn's parent) and say whether the request failed. Vector databases that
describe what they found have dialects of their own, which come first.
"""

from __future__ import annotations

from dataclasses import replace

from monitor.extract.convention import Convention, Setup, Table
from monitor.extract.failure import server_fault
from monitor.model.spans import Role, Span, Step

NAME = "transport"

TABLE = Table(facets=(("route", "http.route"),))

_KEYS = (
    "http.request.method",
    "http.method",
    "http.response.status_code",
    "http.status_code",
    "http.route",
    "rpc.system",
    "rpc.system.name",
    "messaging.system",
    "url.full",
    "url.path",
    "http.url",
    "http.target",
    "network.protocol.name",
    "db.system",
    "db.system.name",
    "asgi.event.type",
)


def claims(span: Span) -> bool:
    """Return whether the span carries HTTP, RPC, messaging or database attributes, or an event of a request."""
    return any(key in span.attributes for key in _KEYS)


def role(span: Span) -> Role:  # noqa: ARG001 -- every span of this kind does the same
    """Return that the span carries a request."""
    return Role.TRANSPORT


def read(span: Span) -> Step:
    """Translate one span; a status of 500 and above is an error even where the span's own status is unset."""
    step = TABLE.step(span, Role.TRANSPORT, NAME)
    return step if step.error else replace(step, error=server_fault(span))


DIALECT = Convention(
    name=NAME,
    priority=150,
    url="https://opentelemetry.io/docs/specs/semconv/http/http-spans/",
    versions="HTTP, RPC, messaging and database conventions before and after their 1.23 renames",
    setup=Setup(
        lines="FastAPIInstrumentor.instrument_app(app)  # any HTTP, RPC or messaging instrumentation",
        content=None,
        session="set session.id on the server span",
    ),
    claims=claims,
    role=role,
    read=read,
)
