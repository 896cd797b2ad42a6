"""A judge that answers every request alike after a fixed latency: what a client's calls a second are measured on."""

from __future__ import annotations

import asyncio
import json
import sys

from aiohttp import web

LATENCY = 0.2
GRADE = {"reason": "It answers the question.", "score": 4}
REPLY = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "created": 1,
    "model": "judge-1",
    "system_fingerprint": "fp_1",
    "choices": [
        {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": json.dumps(GRADE)}},
    ],
    "usage": {"prompt_tokens": 700, "completion_tokens": 30, "total_tokens": 730},
}


async def answer(request: web.Request) -> web.Response:
    """Reply after the latency."""
    await request.read()
    await asyncio.sleep(LATENCY)
    return web.json_response(REPLY)


async def serve() -> None:
    """Serve until standard input ends; the port is the only line of output."""
    app = web.Application(client_max_size=2**24)
    app.router.add_post("/v1/chat/completions", answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0, backlog=1024)
    await site.start()
    print(runner.addresses[0][1], flush=True)
    await asyncio.to_thread(sys.stdin.read)
    await runner.cleanup()


if __name__ == "__main__":
    asyncio.run(serve())
