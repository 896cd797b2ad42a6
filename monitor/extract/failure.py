"""How a span failed, as a short class; never a message, which may hold user text."""

from __future__ import annotations

import re

from monitor.extract.attributes import integer, text
from monitor.model.spans import Span

_CLASS = re.compile(r"^(?:<class ')?(?:[\w$]+[.:]){0,30}([A-Za-z_]\w{0,79})'?>?$")
_LEADING = re.compile(r"^(?:[\w$]+\.){0,30}([A-Z]\w{0,79}(?:Error|Exception|Timeout|Interrupt|Exit|Warning))\b")
_CLIENTS = (
    "openai.", "anthropic.", "mistralai.", "cohere.", "groq.", "ollama.", "litellm.", "together.", "google.genai.",
    "google.generativeai.", "huggingface_hub.", "fireworks.", "replicate.", "xai_sdk.", "zhipuai.", "dashscope.",
)  # fmt: skip
_ERROR, _OK = 2, 1
_SERVER_FAULT = 500


def failure(span: Span) -> str | None:
    """Return the class of error that ended the span, None when it did not fail.

    A span failed when its status says so, or when it names an `error.type`; an exception event alone may have been
    handled (`exception` tells).
    """
    error_type = class_name(text(span.attributes, "error.type"))
    if span.status != _ERROR and error_type is None:
        return None
    leading = _LEADING.match(span.status_message)
    return exception(span) or error_type or (leading[1] if leading else None) or _http(span) or "error"


def exception(span: Span) -> str | None:
    """Return the class of the last exception event, None when there is none."""
    for event in reversed(span.events):
        if event.name == "exception":
            return class_name(text(event.attributes, "exception.type")) or "exception"
    return None


def is_model_failure(span: Span) -> bool:
    """Return whether an exception of a model's client ended the span.

    Clients of whole clouds are left out: they call much else.
    """
    raised = (text(event.attributes, "exception.type") or "" for event in span.events if event.name == "exception")
    return span.status == _ERROR and any(kind.startswith(_CLIENTS) for kind in raised)


def server_fault(span: Span) -> str | None:
    """Return the HTTP status of a request that failed on our side (5xx), as text; None otherwise."""
    status = integer(span.attributes, "http.response.status_code", "http.status_code")
    return str(status) if status is not None and status >= _SERVER_FAULT else None


def class_name(value: str | None) -> str | None:
    """Return the last name of a dotted path or class repr.

    >>> class_name("<class 'openai.InternalServerError'>"), class_name("500"), class_name("no such file")
    ('InternalServerError', '500', None)
    """
    if value is None:
        return None
    if value.isdecimal():
        return value[:3]
    match = _CLASS.match(value.strip())
    return match[1] if match else None


def _http(span: Span) -> str | None:
    status = integer(span.attributes, "http.response.status_code", "http.status_code")
    return str(status) if status else None
