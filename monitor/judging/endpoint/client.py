"""A judge behind any OpenAI-compatible endpoint, through the openai client.

The client's own retries and ten-minute time-out are off: retrying is the score stage's business, and a call has one
deadline of ours, from connecting to the last byte. It asks over aiohttp, since its default pool looks at every
connection for every request. Errors are translated here and carry no text of ours or theirs.
"""

from __future__ import annotations

import asyncio
import re
import ssl
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from types import TracebackType
from typing import Self
from urllib.parse import unquote, urlsplit

import httpx2
import openai
from openai import AsyncAzureOpenAI, AsyncOpenAI

from monitor.errors import MonitorError, Rejected, Retryable, TimedOut
from monitor.judging.endpoint import refusal, usage
from monitor.judging.endpoint.capabilities import REASONING_HEADROOM, Capabilities, has_form, schema_in_words
from monitor.judging.endpoint.completion import Completion, read
from monitor.judging.endpoint.connection import BROKEN, connections, failure
from monitor.judging.endpoint.prices import KNOWN, Price, price_of
from monitor.judging.endpoint.usage import estimate, is_cut
from monitor.judging.prompt.quoting import tokens
from monitor.model.judgements import ChatMessage, ChatRequest, Reply
from monitor.model.own_calls import HEADER, HEADER_VALUE

_SEED = 7
_VERSION = re.compile(r"/v\d")
_FREE = Price(0.0, 0.0)
_OPENAI = "https://api.openai.com/v1"
# A gateway that is watched by us shows the call to us again, and it must not be judged in its turn.
_HEADERS = {HEADER: HEADER_VALUE}
# An upper bound on learning: four parameters, two weaker formats, two fewer alternatives, the limit by two names.
_MOST_REFUSALS = 10


class OpenAIJudge:
    """One model at one endpoint. Enter it before use: it holds the connections that all calls share."""

    def __init__(
        self,
        *,
        model: str,
        api_key: Callable[[], str | None],
        base_url: str | None,
        timeout: timedelta,
        api_version: str | None = None,
        prices: Mapping[str, Price] = KNOWN,
        max_prompt_tokens: int | None = None,
        trust: ssl.SSLContext | None = None,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """Prepare without connecting; `base_url` None is OpenAI's own.

        With `api_version` it is the address of an Azure OpenAI resource and `model` the name of a deployment there.
        `api_key` is asked before each request; None is for a server that takes any. `prices` are looked up by the
        model that answered, then by `model`; without one a reply costs nothing. `max_prompt_tokens` is only for
        callers to read. `trust` None trusts the machine's authorities. `now` is only for a Retry-After that names a
        date.
        """
        self._model = model
        self._timeout = timeout
        self._prices = prices
        query = urlsplit(base_url or "").query
        self._key, self._query = api_key, (query, unquote(query))
        lacks_version = api_version is None and base_url is not None and not _VERSION.search(urlsplit(base_url).path)
        self._hint = "; is base_url to end in /v1?" if lacks_version else ""
        self.max_prompt_tokens = max_prompt_tokens
        """About how many tokens a prompt may have; None when only the endpoint knows."""
        self._now = now
        self._capabilities = Capabilities()
        self._client = _client(base_url, api_version, api_key, connections(base_url or _OPENAI, trust))

    @property
    def model(self) -> str:
        """The model as configured."""
        return self._model

    @property
    def name(self) -> str:
        """Endpoint kind and model; part of every rubric id."""
        return f"openai:{self._model}"

    async def __aenter__(self) -> Self:
        """Return itself."""
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the connections."""
        await self._client.close()

    async def ask(self, request: ChatRequest) -> Reply:
        """Return the model's reply; what the endpoint refuses of the request is left out and remembered.

        Raises:
            RateLimited: 429, with the endpoint's Retry-After.
            TimedOut: no whole reply within the time-out.
            Unusable: 401, 402, 403, 404, 405 or 410, or a code that says as much: another turn would fare no better.
            Retryable: no connection, 5xx, 408, 409 or 425, or a body that is no completion.
            Rejected: `content_filter`, `context_length` or `rejected`.
        """
        return await self._ask(request, repeat=False)

    async def probe(self, request: ChatRequest) -> Reply:
        """Ask what holds no user text: as `ask`, but errors repeat what the endpoint says."""
        return await self._ask(request, repeat=True)

    async def _ask(self, request: ChatRequest, *, repeat: bool) -> Reply:
        started = time.monotonic()
        try:
            async with asyncio.timeout(self._timeout.total_seconds()):
                body = await self._negotiate(request, repeat=repeat)
        except TimeoutError:
            raise TimedOut(f"asking {self.name}: no reply within {self._timeout.total_seconds():g} s") from None
        return self._reply(request, body, timedelta(seconds=time.monotonic() - started))

    async def _negotiate(self, request: ChatRequest, *, repeat: bool) -> bytes:
        """Return the body of the completion, each part that the endpoint refuses left out of the request."""
        for _ in range(_MOST_REFUSALS):
            capabilities = self._capabilities
            try:
                return await self._complete(request, capabilities)
            except (openai.BadRequestError, openai.UnprocessableEntityError) as error:
                said = refusal.read(error)
                if said.is_filtered or said.is_too_long:
                    raise self._translated(error, repeat=repeat) from None
                # Calls sent side by side are refused side by side; the second only tries what the first has learnt.
                if self._capabilities == capabilities:
                    reduced = capabilities.without(said.parameter, said.message)
                    if reduced is None:
                        raise self._translated(error, repeat=repeat) from None
                    self._capabilities = reduced
            except (openai.OpenAIError, *BROKEN) as error:
                raise self._translated(error, repeat=repeat) from None
        raise Rejected(f"asking {self.name}: refused in every form", reason="rejected")

    async def _complete(self, request: ChatRequest, capabilities: Capabilities) -> bytes:
        schema = request.schema
        body: dict[str, object] = {
            "model": self._model,
            "messages": _messages(request.messages, schema if capabilities.in_words else None),
        }
        if schema is not None and capabilities.format != "text":
            body["response_format"] = _response_format(capabilities, schema)
        if capabilities.tokens:
            headroom = REASONING_HEADROOM if capabilities.tokens == "max_completion_tokens" else 0
            body[capabilities.tokens] = request.max_output_tokens + headroom
        if capabilities.temperature:
            body["temperature"] = 0
        if capabilities.seed:
            body["seed"] = _SEED
        if capabilities.reasoning_effort:
            body["reasoning_effort"] = "none"
        if request.alternatives and capabilities.alternatives:
            body |= {"logprobs": True, "top_logprobs": capabilities.alternatives}
        # `chat.completions.create` walks through every value of the body, the schema's too: 0.4 ms of CPU a call.
        response = await self._client.post("/chat/completions", cast_to=httpx2.Response, body=body)
        return response.content

    def _reply(self, request: ChatRequest, body: bytes, latency: timedelta) -> Reply:
        completion = read(body)
        if completion is None:
            raise Retryable(f"asking {self.name}: HTTP 200 without a chat completion{self._hint}")
        self._learn(request, completion)
        prompt = estimate(request.messages)
        if request.schema:
            prompt += tokens(schema_in_words(request.schema))
        counted = usage.read(
            completion.usage, prompt=prompt, reply=tokens(completion.text) + tokens(completion.reasoning)
        )
        price = price_of(self._prices, completion.model, self._model) or _FREE
        return Reply(
            text=completion.text,
            model=completion.model or self._model,
            finish_reason=completion.finish_reason,
            refusal=completion.refusal,
            reasoned=completion.reasoned,
            input_tokens=counted.input,
            output_tokens=counted.output,
            tokens_estimated=counted.is_estimated,
            cost_usd=price.cost_usd(counted),
            latency=latency,
            fingerprint=completion.fingerprint,
            severities=completion.severities,
            alternatives=completion.alternatives,
            prompt_cut=not counted.is_estimated and is_cut(request.messages, counted.input),
        )

    def _learn(self, request: ChatRequest, completion: Completion) -> None:
        """Remember what an endpoint makes of requests that it does not refuse."""
        if completion.reasoned and not completion.text.strip() and self._capabilities.reasoning_effort is None:
            self._capabilities = replace(self._capabilities, reasoning_effort=True)
        ended = completion.finish_reason not in {"length", "content_filter"} and not completion.refusal
        if ended and request.schema and completion.text.strip() and not has_form(completion.text, request.schema):
            self._capabilities = replace(self._capabilities, ignores_format=True)

    def _translated(self, error: Exception, *, repeat: bool) -> MonitorError:
        what = f"asking {self.name}"
        if isinstance(error, openai.APIStatusError):
            what = f"{what}: HTTP {error.status_code}"
            said = refusal.read(error)
            if repeat and (words := said.shown(secrets=tuple(filter(None, (self._key(), *self._query))))):
                what = f'{what}, "{words}"'
            if said.knows_no_address:
                what += self._hint
            return refusal.translated(error, what, self._now())
        # Over aiohttp a refused connection looks like one that timed out; only the deadline in `ask` is a time-out.
        return failure(error, what)


def _client(
    base_url: str | None, api_version: str | None, api_key: Callable[[], str | None], http: httpx2.AsyncClient
) -> AsyncOpenAI:
    async def key() -> str:
        # Servers on the own machine take any key, and the client insists on one.
        return api_key() or "none"

    if api_version:
        return AsyncAzureOpenAI(
            azure_endpoint=base_url or "",
            api_version=api_version,
            api_key=key,
            max_retries=0,
            timeout=None,
            default_headers=_HEADERS,
            http_client=http,
        )
    return AsyncOpenAI(
        base_url=base_url or _OPENAI,
        api_key=key,
        max_retries=0,
        timeout=None,
        default_headers=_HEADERS,
        http_client=http,
    )


def _messages(messages: Sequence[ChatMessage], schema: Mapping[str, object] | None) -> list[dict[str, str]]:
    """Return the messages, with the schema in words below the first when the endpoint is not sent it as such."""
    written = [{"role": message.role, "content": message.content} for message in messages]
    if schema is not None and written:
        written[0]["content"] += f"\n\n{schema_in_words(schema)}"
    return written


def _response_format(capabilities: Capabilities, schema: Mapping[str, object]) -> dict[str, object]:
    if capabilities.format == "json_object":
        return {"type": "json_object"}
    return {
        "type": "json_schema",
        "json_schema": {"name": schema["name"], "strict": True, "schema": schema["schema"]},
    }
