"""`/healthz` (the process serves), `/readyz` (it can do its work, else why not) and `/metrics` (Prometheus)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import orjson

if TYPE_CHECKING:
    from uvicorn._types import ASGIReceiveCallable, ASGISendCallable, Scope

_TEXT = "text/plain; charset=utf-8"
_NOT_LISTENING = "the collectors do not listen: the process is starting or stopping"


class HealthPages:
    """An ASGI application.

    Args:
        listening: whether everything runs, collectors too; while it does not, no page says that all is well.
        problems: what keeps the monitor from its work now, part -> short reason free of user text; empty when ready.
        metrics: renders the metrics page.
        metrics_type: its content type.
    """

    def __init__(
        self,
        *,
        listening: Callable[[], bool],
        problems: Callable[[], Mapping[str, str]],
        metrics: Callable[[], bytes],
        metrics_type: str,
    ) -> None:
        self._listening = listening
        self._problems = problems
        self._metrics = metrics
        self._metrics_type = metrics_type

    async def __call__(self, scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:  # noqa: ARG002
        """Answer one request."""
        if scope["type"] != "http":
            return
        status, kind, body = self._answer(scope["method"], scope["path"])
        headers = [(b"content-type", kind.encode()), (b"content-length", str(len(body)).encode())]
        await send({"type": "http.response.start", "status": status, "headers": headers, "trailers": False})
        sent = b"" if scope["method"] == "HEAD" else body
        await send({"type": "http.response.body", "body": sent, "more_body": False})

    def _answer(self, method: str, path: str) -> tuple[int, str, bytes]:
        if method not in {"GET", "HEAD"}:
            return 405, _TEXT, b"only GET and HEAD are allowed\n"
        if path == "/healthz":
            return (200, _TEXT, b"ok\n") if self._listening() else (503, _TEXT, _NOT_LISTENING.encode() + b"\n")
        if path == "/readyz":
            problems = dict(self._problems())
            if not self._listening():
                problems["collectors"] = _NOT_LISTENING
            body = orjson.dumps({"ready": not problems, "problems": problems}, option=orjson.OPT_APPEND_NEWLINE)
            return (503 if problems else 200), "application/json", body
        if path == "/metrics":
            return 200, self._metrics_type, self._metrics()
        return 404, _TEXT, b"not found; try /healthz, /readyz or /metrics\n"
