"""`/healthz` (the process serves), `/readyz` (it can do its work, else why not) and `/metrics` (Prometheus)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import orjson

from monitor.access.credentials import CHALLENGE, Access
from monitor.access.refusals import peer_name
from monitor.errors import Rejected

if TYPE_CHECKING:
    from uvicorn._types import ASGIReceiveCallable, ASGISendCallable, HTTPScope, Scope

_TEXT = "text/plain; charset=utf-8"
_NOT_LISTENING = "the collectors do not listen: the process is starting or stopping"


class HealthPages:
    """An ASGI application.

    Args:
        access: who may see why not all is well, and the metrics; the others are told the status alone.
        listening: whether everything runs, collectors too; while it does not, no page says that all is well.
        problems: what keeps the monitor from its work now, part -> short reason free of user text; empty when ready.
        metrics: renders the metrics page.
        metrics_type: its content type.
    """

    def __init__(
        self,
        access: Access,
        *,
        listening: Callable[[], bool],
        problems: Callable[[], Mapping[str, str]],
        metrics: Callable[[], bytes],
        metrics_type: str,
    ) -> None:
        self._access = access
        self._listening = listening
        self._problems = problems
        self._metrics = metrics
        self._metrics_type = metrics_type

    async def __call__(self, scope: Scope, receive: ASGIReceiveCallable, send: ASGISendCallable) -> None:  # noqa: ARG002
        """Answer one request."""
        if scope["type"] != "http":
            return
        try:
            status, kind, body = self._answer(scope)
            hints = []
        except Rejected as error:
            status, kind, body = 401, _TEXT, f"{error}\n".encode()
            hints = [(b"www-authenticate", CHALLENGE)]
        # Names that senders chose stand in the metrics: a browser must not take them for HTML.
        kinds = [(b"content-type", kind.encode()), (b"x-content-type-options", b"nosniff")]
        headers = [*kinds, (b"content-length", str(len(body)).encode()), *hints]
        await send({"type": "http.response.start", "status": status, "headers": headers, "trailers": False})
        sent = b"" if scope["method"] == "HEAD" else body
        await send({"type": "http.response.body", "body": sent, "more_body": False})

    def _answer(self, scope: HTTPScope) -> tuple[int, str, bytes]:
        if scope["method"] not in {"GET", "HEAD"}:
            return 405, _TEXT, b"only GET and HEAD are allowed\n"
        authorization = dict(scope["headers"]).get(b"authorization", b"")
        peer = peer_name(scope["client"][0] if scope["client"] else None)
        match scope["path"]:
            case "/healthz":
                return (200, _TEXT, b"ok\n") if self._listening() else (503, _TEXT, _NOT_LISTENING.encode() + b"\n")
            case "/readyz":
                # Load balancers seldom can show credentials; the status is all that they read.
                if authorization:
                    self._access.admit(authorization, peer)
                return self._ready(explained=self._access.admits(authorization))
            case "/metrics":
                self._access.admit(authorization, peer)
                return 200, self._metrics_type, self._metrics()
        return 404, _TEXT, b"not found; try /healthz, /readyz or /metrics\n"

    def _ready(self, *, explained: bool) -> tuple[int, str, bytes]:
        problems = dict(self._problems())
        if not self._listening():
            problems["collectors"] = _NOT_LISTENING
        said = {"ready": not problems, **({"problems": problems} if explained else {})}
        return (503 if problems else 200), "application/json", orjson.dumps(said, option=orjson.OPT_APPEND_NEWLINE)
