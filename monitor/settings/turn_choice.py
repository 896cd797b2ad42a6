"""Which turns are made of telemetry, and from which attributes of an app's own."""

from __future__ import annotations

from monitor.settings.section import Section


class FieldSettings(Section):
    """Attributes of an app's own that are read before what its convention says.

    Each is an attribute, `shop.question`, or a path into its JSON, `input.value#question.text`; the first that holds
    something counts.
    """

    query: tuple[str, ...] = ()
    """What was asked."""
    response: tuple[str, ...] = ()
    """What was answered."""
    documents: tuple[str, ...] = ()
    """Texts, or objects with `id` and `content`, as list or JSON."""
    session_id: tuple[str, ...] = ()
    """The conversation."""
    user_id: tuple[str, ...] = ()
    """Who asked; turns keep a keyed hash of it."""


class ExcludeSettings(Section):
    """What makes no turns. Names may hold `*` and `?`, are compared whole and tell capitals apart.

    What is left out is counted by reason (`excluded_app`, ...), which `rag-monitor doctor` shows. Calls of our own
    judge that a gateway's telemetry brings back need no line here: they are known and count as `own_judge`.
    """

    apps: tuple[str, ...] = ()
    """By `service.name`."""
    scopes: tuple[str, ...] = ()
    """Instrumentation scopes whose spans are not read, such as `opentelemetry.instrumentation.openai*`."""
    models: tuple[str, ...] = ()
    """By the model that answered, else the one that was asked for."""
    routes: tuple[str, ...] = ()
    """By route or path of the request around the turn, such as `/internal/*`."""
