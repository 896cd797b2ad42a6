"""A model on loopback that speaks OpenAI's API: chat completions, responses and embeddings, whole and streamed.

Offered a tool, it calls the first one with the question, and answers once it has seen what the tool returned.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

QUESTION = "How long is the warranty?"
ANSWER = "Two years, from the day of delivery."
MODEL = "m-1"
TOKENS = (11, 7)
"""Of a request, of an answer."""


def model_server() -> ThreadingHTTPServer:
    """Return a server on a free port of 127.0.0.1, not yet serving."""
    return ThreadingHTTPServer(("127.0.0.1", 0), _Model)


class _Model(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers.get("Content-Length", 0))) or b"{}")
        kind = self.path.partition("?")[0].rpartition("/")[2]
        if kind == "embeddings":
            self._reply("application/json", json.dumps(_embeddings(asked)))
        elif kind == "completions":
            chunks = _chat_chunks(asked)
            self._reply(*(_events(chunks) if asked.get("stream") else ("application/json", json.dumps(_chat(asked)))))
        elif kind == "responses":
            response = _response(asked)
            events = _response_events(response)
            self._reply(*(_events(events) if asked.get("stream") else ("application/json", json.dumps(response))))
        else:
            self.send_error(404)

    def _reply(self, kind: str, text: str) -> None:
        body = text.encode()
        self.send_response(200)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        """Say nothing."""


def _events(chunks: Iterator[Mapping[str, Any]]) -> tuple[str, str]:
    """Server-sent events, each named by its type where it has one."""
    lines = [
        (f"event: {chunk['type']}\n" if "type" in chunk else "") + f"data: {json.dumps(chunk)}\n\n" for chunk in chunks
    ]
    return "text/event-stream", "".join(lines) + "data: [DONE]\n\n"


def _embeddings(asked: Mapping[str, Any]) -> dict[str, Any]:
    texts = asked["input"] if isinstance(asked["input"], list) else [asked["input"]]
    vectors = [{"object": "embedding", "index": at, "embedding": [0.1, 0.2]} for at, _ in enumerate(texts)]
    return {"object": "list", "model": "e-1", "data": vectors, "usage": {"prompt_tokens": 3, "total_tokens": 3}}


def _call(tool: Mapping[str, Any], parameters: str = "parameters") -> dict[str, str]:
    """Name and arguments with which a tool is called: every required text is the question."""
    schema = tool.get(parameters) or {}
    names = schema.get("required") or list(schema.get("properties", {}))
    return {"name": tool["name"], "arguments": json.dumps(dict.fromkeys(names, QUESTION))}


def _chat(asked: Mapping[str, Any]) -> dict[str, Any]:
    has_looked = any(message.get("role") == "tool" for message in asked["messages"])
    message: dict[str, Any] = {"role": "assistant", "content": ANSWER}
    if asked.get("tools") and not has_looked:
        call = {"id": "call-1", "type": "function", "function": _call(asked["tools"][0]["function"])}
        message = {"role": "assistant", "content": None, "tool_calls": [call]}
    finish = "tool_calls" if "tool_calls" in message else "stop"
    return {
        "id": "chat-2" if has_looked else "chat-1",
        "object": "chat.completion",
        "created": 1,
        "model": MODEL,
        "choices": [{"index": 0, "finish_reason": finish, "message": message}],
        "usage": {"prompt_tokens": TOKENS[0], "completion_tokens": TOKENS[1], "total_tokens": sum(TOKENS)},
    }


def _chat_chunks(asked: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """What `_chat` says, in three parts."""
    whole = _chat(asked)
    choice = whole["choices"][0]
    delta = dict(choice["message"])
    if "tool_calls" in delta:
        delta["tool_calls"] = [{"index": 0, **call} for call in delta["tool_calls"]]
    head = {key: whole[key] for key in ("id", "created", "model")} | {"object": "chat.completion.chunk"}
    yield head | {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
    yield head | {"choices": [{"index": 0, "delta": {}, "finish_reason": choice["finish_reason"]}]}
    yield head | {"choices": [], "usage": whole["usage"]}


def _response(asked: Mapping[str, Any]) -> dict[str, Any]:
    asked_items = asked["input"] if isinstance(asked["input"], list) else []
    has_looked = any(item.get("type") == "function_call_output" for item in asked_items)
    text = {"type": "output_text", "text": ANSWER, "annotations": [], "logprobs": []}
    item: dict[str, Any] = {
        "type": "message",
        "id": "msg-1",
        "role": "assistant",
        "status": "completed",
        "content": [text],
    }
    if asked.get("tools") and not has_looked:
        item = {"type": "function_call", "id": "fc-1", "call_id": "call-1", "status": "completed"}
        item |= _call(asked["tools"][0])
    return {
        "id": "resp_2" if has_looked else "resp_1",
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "model": MODEL,
        "output": [item],
        "parallel_tool_calls": True,
        "tool_choice": "auto",
        "tools": asked.get("tools", []),
        "error": None,
        "incomplete_details": None,
        "instructions": None,
        "metadata": {},
        "usage": {
            "input_tokens": TOKENS[0],
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": TOKENS[1],
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": sum(TOKENS),
        },
    }


def _response_events(response: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The events of a response of one item."""
    (item,) = response["output"]
    at = {"output_index": 0, "item_id": item["id"]}
    events: list[dict[str, Any]] = [{"type": "response.created", "response": {**response, "output": []}}]
    if item["type"] == "message":
        part = item["content"][0]
        events += [
            {"type": "response.output_item.added", "output_index": 0, "item": {**item, "content": []}},
            {"type": "response.content_part.added", **at, "content_index": 0, "part": {**part, "text": ""}},
            {"type": "response.output_text.delta", **at, "content_index": 0, "delta": part["text"], "logprobs": []},
            {"type": "response.output_text.done", **at, "content_index": 0, "text": part["text"], "logprobs": []},
            {"type": "response.content_part.done", **at, "content_index": 0, "part": part},
        ]
    else:
        events += [
            {"type": "response.output_item.added", "output_index": 0, "item": {**item, "arguments": ""}},
            {"type": "response.function_call_arguments.delta", **at, "delta": item["arguments"]},
            {"type": "response.function_call_arguments.done", **at, "arguments": item["arguments"]},
        ]
    events += [
        {"type": "response.output_item.done", "output_index": 0, "item": item},
        {"type": "response.completed", "response": response},
    ]
    yield from ({**event, "sequence_number": at} for at, event in enumerate(events))
