"""The two services that bench/chaos.py puts on the far side: a judge and a webhook, each of which often fails."""

from __future__ import annotations

import asyncio
import itertools
import json
import random
import re
from collections import Counter
from dataclasses import dataclass, field

from aiohttp import web

WRONG = "WRONG"
"""What an answer holds that the judge must call a defect."""
_SILENT_SECONDS = 30.0
_JUDGE_FATES = {"good": 80, "slow": 6, "429": 3, "500": 4, "hang": 2, "cut": 3, "garbage": 2}
_HOOK_FATES = {"good": 45, "late_but_taken": 5, "500": 20, "reset": 15, "hang": 10, "503": 5}


@dataclass
class Delivery:
    """One attempt of the monitor at one message."""

    key: str
    """Its `Idempotency-Key`; "" when there was none."""
    document: dict[str, object]
    fate: str
    taken: bool
    """Whether it was answered with success, in time or not."""


@dataclass
class Stubs:
    """A judge and a webhook on one port; `calm` ends their failures."""

    rng: random.Random
    calm: bool = False
    deliveries: list[Delivery] = field(default_factory=list)
    judged: Counter[str] = field(default_factory=Counter)
    """Requests to the judge, by what became of them."""
    asked: Counter[str] = field(default_factory=Counter)
    """Good replies by canary and metric."""
    port: int = 0
    _numbers: itertools.count[int] = field(default_factory=itertools.count)
    _runner: web.AppRunner | None = None

    async def start(self) -> None:
        """Return when both listen."""
        app = web.Application(client_max_size=2**24)
        app.router.add_post("/v1/chat/completions", self._judge)
        app.router.add_post("/hook", self._hook)
        app.router.add_head("/hook", self._look)
        self._runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await self._runner.setup()
        await web.TCPSite(self._runner, "127.0.0.1", 0, backlog=512).start()
        self.port = self._runner.addresses[0][1]

    async def stop(self) -> None:
        """Close the port."""
        if self._runner is not None:
            await self._runner.cleanup()

    def _fate(self, fates: dict[str, int]) -> str:
        return "good" if self.calm else self.rng.choices(list(fates), list(fates.values()))[0]

    async def _judge(self, request: web.Request) -> web.StreamResponse:
        asked = await request.json()
        fate = self._fate(_JUDGE_FATES)
        self.judged[fate] += 1
        if fate == "hang":
            await asyncio.sleep(_SILENT_SECONDS)
        if fate == "slow":
            await asyncio.sleep(self.rng.uniform(1, 3))
        if fate == "429":
            raise web.HTTPTooManyRequests(headers={"Retry-After": "1"}, text='{"error": {"message": "slow down"}}')
        if fate == "500":
            raise web.HTTPInternalServerError(text='{"error": {"message": "broken"}}')
        content = json.dumps(self._verdict(asked)) if fate != "garbage" else '{"reason": "It'
        reply = completion(content, next(self._numbers))
        if fate != "cut":
            return web.json_response(reply)
        body = json.dumps(reply).encode()
        response = web.StreamResponse(headers={"Content-Type": "application/json", "Content-Length": str(len(body))})
        await response.prepare(request)
        await response.write(body[: len(body) // 2])
        cut(request)
        return response

    def _verdict(self, asked: dict[str, object]) -> dict[str, object]:
        prompt = json.dumps(asked["messages"])
        canary = re.search(r"canary-\d+", prompt)
        metric = (
            "groundedness"
            if "\nANSWER\n" in str(asked["messages"][-1]["content"]) and "(1) " in prompt
            else "relevance"
        )
        self.asked[f"{canary and canary[0]} {metric}"] += 1
        bad = WRONG in prompt
        if metric == "relevance":
            return {"reason": "As the answer says.", "score": 1 if bad else 5}
        verdict = {"verdict": "unsupported" if bad else "supported", "reason": "No colour." if bad else ""}
        evidence = {"n": 1, "document": "", "evidence": "The codes are colours."}
        return {"sentences": [{**evidence, **verdict, "addresses_evaluator": False}]}

    async def _look(self, _: web.Request) -> web.Response:
        return web.Response()

    async def _hook(self, request: web.Request) -> web.StreamResponse:
        document = await request.json()
        fate = self._fate(_HOOK_FATES)
        delivery = Delivery(request.headers.get("Idempotency-Key", ""), document, fate, taken=False)
        self.deliveries.append(delivery)
        if fate == "hang":
            await asyncio.sleep(_SILENT_SECONDS)
        if fate == "reset":
            cut(request)
        if fate in {"500", "503"}:
            return web.Response(status=int(fate), headers={"Retry-After": "2"} if fate == "503" else {})
        if fate == "late_but_taken":
            await asyncio.sleep(self.rng.uniform(1, 5))
        delivery.taken = fate in {"good", "late_but_taken"}
        return web.Response()


def completion(content: str, number: int) -> dict[str, object]:
    """Return an OpenAI chat completion."""
    return {
        "id": f"chatcmpl-{number}",
        "object": "chat.completion",
        "created": 1,
        "model": "judge-1",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": content}}],
        "usage": {"prompt_tokens": 700, "completion_tokens": 30, "total_tokens": 730},
    }


def cut(request: web.Request) -> None:
    """Reset the connection."""
    if request.transport is not None:
        request.transport.abort()
