"""A turn as OpenInference attributes, written by hand.

Source: https://arize-ai.github.io/openinference/spec/semantic_conventions.html
"""

import json
from collections.abc import Iterator, Sequence

from chat import MODEL, Exchange
from retriever import Hit
from traffic import Turn

Attributes = dict[str, str | int | float]
Message = tuple[str, str]

_SYSTEM = (
    "You answer questions about the Python language from the passages below and from nothing else. "
    "Cite the id of a passage in square brackets. If the passages do not answer the question, say so."
)
_CONDENSE = "Rewrite the last question so that it can be understood without the conversation before it."
_CHARACTERS_PER_TOKEN = 4
_TEXT, _JSON = "text/plain", "application/json"


def chain(turn: Turn) -> Attributes:
    """Return the attributes of the root span: the question with its history, and the answer unless the turn failed."""
    history = [{"role": role, "content": content} for role, content in _messages(turn.history)]
    question = json.dumps({"question": turn.question, "chat_history": history}, ensure_ascii=False)
    attributes = _span("CHAIN", turn) | {"input.value": question, "input.mime_type": _JSON}
    if turn.reply is not None:
        attributes |= {"output.value": turn.reply.text, "output.mime_type": _TEXT}
    return attributes


def retriever(turn: Turn) -> Attributes:
    """Return the attributes of the retrieval span; without documents when nothing was found."""
    attributes = _span("RETRIEVER", turn) | {"input.value": turn.finding.query, "input.mime_type": _TEXT}
    for number, hit in enumerate(turn.finding.hits):
        document = f"retrieval.documents.{number}.document"
        attributes |= {
            f"{document}.id": hit.passage.id,
            f"{document}.content": hit.passage.content,
            f"{document}.score": hit.score,
            f"{document}.metadata": json.dumps(
                {"title": hit.passage.title, "source": hit.passage.source}, ensure_ascii=False
            ),
        }
    return attributes


def condensing(turn: Turn) -> Attributes:
    """Return the attributes of the model call that makes a follow-up question stand on its own."""
    prompt = (("system", _CONDENSE), *_messages(turn.history), ("user", turn.question))
    return _span("LLM", turn) | _call(prompt, turn.finding.query)


def answering(turn: Turn) -> Attributes:
    """Return the attributes of the model call that answers; without output and tokens when it failed."""
    prompt = (("system", _SYSTEM), *_messages(turn.history), ("user", _prompt(turn.question, turn.finding.hits)))
    return _span("LLM", turn) | _call(prompt, turn.reply.text if turn.reply else None)


def _span(kind: str, turn: Turn) -> Attributes:
    return {"openinference.span.kind": kind, "session.id": turn.session, "user.id": turn.user}


def _call(prompt: Sequence[Message], completion: str | None) -> Attributes:
    attributes: Attributes = {
        "llm.model_name": MODEL,
        "llm.invocation_parameters": json.dumps({"model": MODEL, "temperature": 0.0}),
    }
    for number, (role, content) in enumerate(prompt):
        attributes[f"llm.input_messages.{number}.message.role"] = role
        attributes[f"llm.input_messages.{number}.message.content"] = content
    if completion is not None:
        prompt_tokens = sum(map(_tokens, (content for _, content in prompt)))
        attributes |= {
            "output.value": completion,
            "output.mime_type": _TEXT,
            "llm.output_messages.0.message.role": "assistant",
            "llm.output_messages.0.message.content": completion,
            "llm.token_count.prompt": prompt_tokens,
            "llm.token_count.completion": _tokens(completion),
            "llm.token_count.total": prompt_tokens + _tokens(completion),
        }
    return attributes


def _messages(history: Sequence[Exchange]) -> Iterator[Message]:
    for exchange in history:
        yield "user", exchange.question
        yield "assistant", exchange.answer


def _prompt(question: str, hits: Sequence[Hit]) -> str:
    passages = "\n\n".join(f"[{hit.passage.id}] {hit.passage.title}\n{hit.passage.content}" for hit in hits)
    return f"Context:\n{passages or '(no passages found)'}\n\nQuestion: {question}"


def _tokens(text: str) -> int:
    return -(-len(text) // _CHARACTERS_PER_TOKEN)
