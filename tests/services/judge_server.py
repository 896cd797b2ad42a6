"""An OpenAI-compatible server on 127.0.0.1 that answers by script, for tests of everything that asks a judge.

Each step of the script is one reply; without one the server judges kindly: every sentence supported, or the best score.
Faults are steps: any status with any body (`refusal`), a completion that is filtered, declined, cut off, broken or
forged (`completion`), a reply that never comes (`hang`), comes piece by piece (`slow`), as a stream that nobody asked
for (`stream`), or ends with the connection (`drop`). A request that asks for a stream is streamed to.
"""

import json
import math
import re
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

_SENTENCE = re.compile(r"^\((\d+)\) ", re.MULTILINE)
_PLAIN = {
    "an integer from 1 to 5 and nothing else": "5",
    'the line "# Result" and the score': "Document kb-1: 5\n# Overall Reason\nIt answers.\n# Result\n5",
    "Answer YES or NO": "YES",
    "Reply Yes or No": "Yes",
    "\nClaim:": "Yes",
}
_PIECES = 10
# The tag, its title, the first line of its text.
_FIRST_LINE = re.compile(r'^<document id="[^"]+">[^\n]*\n(.*)$', re.MULTILINE)
_DOCUMENT = re.compile(r'^<document id="([^"]+)">', re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Step:
    """One reply: a status with a body, or with `hang` none at all until the server closes."""

    status: int = 200
    body: object = None
    headers: Mapping[str, str] = field(default_factory=dict)
    hang: bool = False
    drop: bool = False
    """Close the connection without an answer."""
    slow: float = 0.0
    """Seconds over which the body comes, in pieces."""
    stream: bool = False
    """Send the completion as events, whether they were asked for or not."""


@dataclass(frozen=True, slots=True)
class Asked:
    """One request, and when it came by the monotonic clock."""

    body: dict[str, Any]
    headers: Mapping[str, str]
    at: float
    path: str = ""

    @property
    def prompt(self) -> str:
        """All messages' text."""
        return "\n".join(message["content"] for message in self.body["messages"])


def completion(
    content: str | None,
    *,
    finish_reason: str = "stop",
    alternatives: Mapping[str, float] | None = None,
    **message: object,
) -> Step:
    """The step of one ordinary reply; `alternatives` are probabilities of what its first token could have been."""
    listed = [{"token": token, "logprob": math.log(p), "bytes": None} for token, p in (alternatives or {}).items()]
    first = {**listed[0], "top_logprobs": listed} if listed else {}
    return Step(
        body={
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1,
            "model": "judge-1",
            "system_fingerprint": "fp_1",
            "choices": [
                {
                    "index": 0,
                    "finish_reason": finish_reason,
                    "logprobs": {"content": [first]} if listed else None,
                    "message": {"role": "assistant", "content": content, **message},
                }
            ],
            "usage": {"prompt_tokens": 100, "completion_tokens": 10, "total_tokens": 110},
        }
    )


def refusal(
    status: int, message: str = "", *, code: str | None = None, param: str | None = None, **headers: str
) -> Step:
    """The step of an error in OpenAI's form; header names with underscores for hyphens."""
    return Step(
        status=status,
        body={"error": {"message": message, "type": "invalid_request_error", "code": code, "param": param}},
        headers={name.replace("_", "-"): value for name, value in headers.items()},
    )


def kind(body: dict[str, Any]) -> str:
    """The reply of a judge who finds nothing wrong, in the form that is asked for."""
    prompt = "\n".join(message["content"] for message in body["messages"])
    asked = body.get("response_format", {}).get("json_schema")
    if asked is not None:
        return json.dumps(_kindest(asked["schema"], asked["schema"].get("$defs", {}), "", prompt))
    for words, reply in _PLAIN.items():
        if words in prompt:
            return reply
    if "reason first, then the score" in prompt:
        return json.dumps({"reason": "it answers", "score": 5})
    return json.dumps({"sentences": _supported(prompt)})


def _kindest(node: Any, defs: Any, name: str, prompt: str) -> Any:
    """The best value that a schema allows: nothing refused, nothing harmful, everything supported and relevant."""
    if "$ref" in node:
        node = defs[node["$ref"].rsplit("/", 1)[-1]]
    if name == "sentences":
        return _supported(prompt)
    ids = list(dict.fromkeys(_DOCUMENT.findall(prompt)))
    if name == "documents":
        return [{"id": number, "relevance": 10} for number in ids]
    if name == "intents":
        return [{"intent": "What is asked?", "document_ids": ids[:1]}]
    if node["type"] == "object":
        return {below: _kindest(inner, defs, below, prompt) for below, inner in node["properties"].items()}
    if "enum" in node:
        return max(node["enum"]) if name == "score" else node["enum"][0]
    return {"string": "it answers", "boolean": name == "reference_available"}.get(node["type"], 5)


def _supported(prompt: str) -> list[dict[str, Any]]:
    numbers = sorted({int(number) for number in _SENTENCE.findall(prompt)})
    evidence = " ".join(next(iter(_FIRST_LINE.findall(prompt)), "").split()[:3])
    entry = {
        "document": "kb-1",
        "evidence": evidence,
        "verdict": "supported",
        "reason": "",
        "addresses_evaluator": False,
    }
    return [{"n": number, **entry} for number in numbers]


def _json(body: object) -> str:
    return json.dumps(body, ensure_ascii=False)


def _events(completed: Any) -> str:
    """A completion as server-sent events: the role, the text in pieces, the end."""
    (choice,) = completed["choices"]
    text = choice["message"]["content"] or ""
    deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
    deltas += [{"content": text[start : start + 8]} for start in range(0, len(text), 8)]
    chunks = [{"index": 0, "delta": delta, "finish_reason": None} for delta in deltas]
    chunks.append({"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]})
    shared = {**completed, "object": "chat.completion.chunk"}
    return "".join(f"data: {_json({**shared, 'choices': [chunk]})}\n\n" for chunk in chunks) + "data: [DONE]\n\n"


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    # The default of five resets connections that a client opens side by side.
    request_queue_size = 128

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Say nothing about a client that went away: some tests kill theirs."""
        if not isinstance(sys.exc_info()[1], ConnectionError):
            super().handle_error(request, client_address)


class JudgeServer:
    """The server; `asked` is what came, oldest first."""

    def __init__(self) -> None:
        self.asked: list[Asked] = []
        self.answer: Callable[[dict[str, Any]], str | Step] = kind
        self._steps: deque[Step] = deque()
        self._closing = threading.Event()
        server = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            # Header and body are two writes: with it the second waits for the first to be acknowledged, 40 ms a reply.
            disable_nagle_algorithm = True

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                server.asked.append(Asked(body, dict(self.headers), time.monotonic(), self.path))
                server.reply(self, body)

            def log_message(self, *_: object) -> None:
                """Stay silent."""

        self._http = _Server(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._http.serve_forever, args=(0.02,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        """The base URL for a client."""
        return f"http://127.0.0.1:{self._http.server_port}/v1"

    def script(self, *steps: Step) -> None:
        """Reply so, in order, before replying kindly."""
        self._steps.extend(steps)

    def reply(self, handler: BaseHTTPRequestHandler, body: dict[str, Any]) -> None:
        """Write the next reply."""
        scripted = self._steps.popleft() if self._steps else self.answer(body)
        step = completion(scripted) if isinstance(scripted, str) else scripted
        if step.hang:
            self._closing.wait(60)
        if step.hang or step.drop:
            handler.close_connection = True
            return
        events = step.status == 200 and (step.stream or body.get("stream") is True)
        text = _events(step.body) if events else step.body if isinstance(step.body, str) else _json(step.body)
        payload = text.encode("utf-8", "surrogatepass")
        handler.send_response(step.status)
        kind_of_body = "text/event-stream" if events else "application/json"
        for name, value in {"content-type": kind_of_body, **step.headers}.items():
            handler.send_header(name, value)
        handler.send_header("content-length", str(len(payload)))
        handler.end_headers()
        size = max(-(-len(payload) // _PIECES), 1) if step.slow else len(payload) or 1
        for start in range(0, len(payload), size):
            if step.slow:
                self._closing.wait(step.slow / _PIECES)
            handler.wfile.write(payload[start : start + size])

    def close(self) -> None:
        """Stop serving."""
        self._closing.set()
        self._http.shutdown()
        self._http.server_close()
        self._thread.join()
