"""Spans of instrumentations nobody told us about: a question, documents and an answer found by name and shape.

Asked after every other dialect but `transport`; what it reads is flagged `generic`. Nothing is guessed: a span is
claimed only if an attribute's last words say what it holds and its value looks like it; weak words (`input`, `output`)
must come in pairs and hold sentences. Namespaces of OpenTelemetry's other conventions are never looked into.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from functools import lru_cache

from monitor.extract import session_and_user
from monitor.extract.attributes import REDACTED, finite, is_mapping, is_sequence
from monitor.extract.chain_io import ChainInput, chain_input, chain_output
from monitor.extract.convention import Convention, Setup, Table
from monitor.extract.documents import documents
from monitor.extract.failure import exception, server_fault
from monitor.extract.json_text import unwrap
from monitor.extract.messages import ParsedMessage, before_last_user, conversation, messages_of, prompt_messages
from monitor.model.spans import Attributes, AttributeValue, Event, Role, Span, Step
from monitor.model.turns import Citation, Message

NAME = "generic"

TABLE = Table(facets=(("route", "http.route"),))

ENDINGS = {
    "question": "question, user question, user query, user input, user message, user prompt, user utterance, "
    "chat input, input query, frage, pregunta, pergunta, domanda",
    "asked": "query, prompt, input, request",
    "answer": "answer, final answer, answer generated, generated answer, generated text, completion, llm response, "
    "llm output, bot response, assistant message, assistant response, model response, ai response, final response, "
    "final output, bot utterance, assistant utterance, reply, output messages, antwort, respuesta, resposta, risposta, "
    "reponse",
    "answered": "response, output",
    "documents": "documents, docs, contexts, context, chunks, passages, snippets, citations, sources, search results, "
    "retrieved documents, retrieved docs, retrieved chunks, retrieved contexts, retrieved context, source documents, "
    "source nodes, nodes, hits, matches, kb articles, knowledge articles, chunk texts, chunk contents, document texts, "
    "document contents, doc texts, passage texts, retrieved texts, dokumente, documentos, documenti",
    "results": "result, results, tool response, tool output",
    "returned": "return, return value",
    "ids": "document ids, doc ids, chunk ids, retrieved ids",
    "scores": "scores, similarity scores, relevance scores, similarities",
    "distances": "distances",
    "search": "search query, retrieval query, rewritten query, search text",
    "messages": "messages, chat messages, input messages, prompt messages",
    "history": "chat history, conversation history, message history, previous messages",
    "session": "session id, conversation id, chat id, session",
    "user": "user id, customer id, user",
    "model": "response model",
    "requested": "model, model name, llm model, model id, request model",
    "input_tokens": "prompt tokens, input tokens",
    "output_tokens": "completion tokens, output tokens",
}
"""Last words of attribute keys, and what they say an attribute holds."""
PADDING = ("value", "text", "content", "str", "string", "json", "body", "payload")
"""Words that may follow them."""
ELSEWHERE = frozenset(
    (
        "http", "url", "db", "rpc", "messaging", "net", "network", "server", "client", "code", "thread", "exception",
        "error", "otel", "telemetry", "service", "host", "k8s", "container", "process", "faas", "aws", "gcp", "cloud",
        "graphql", "browser", "device", "os", "enduser", "peer", "source", "destination", "log", "event", "dns", "tls",
        "feature_flag", "cicd", "vcs", "test", "artifact", "deployment", "file", "system", "jvm", "aspnetcore",
        "kestrel", "nodejs", "user_agent",
    )
)  # fmt: skip
"""First words of keys that other conventions define."""
_EMBEDDING = re.compile("embed", re.IGNORECASE)
_SEARCHING = re.compile(r"search|retriev|lookup|vector|knowledge", re.IGNORECASE)
_DOCUMENT = re.compile(r"doc|chunk|passage|citation|snippet|retriev", re.IGNORECASE)
_GENERATING = re.compile(r"generat|complet|llm|chat|answer", re.IGNORECASE)
_RETRIEVING = re.compile(r"retriev|vector|knowledge|semantic|(?:^|[_.\W])(?:kb|rag)(?:$|[_.\W])", re.IGNORECASE)
"""A shop is searched too."""
_ASKING = {"question", "query", "user_question", "user_query", "message"}
_ANSWERING = {"answer", "final_answer", "response", "reply"}
_WORD = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+")
_PRINTED = re.compile(r"\s*(?:[\[{<]|[\w.]+\(\w+=)")
"""The beginning of printed objects."""
_INDEXED = re.compile(r"^(.+?)\.(\d+)\.(.+)$")
_LONGEST_KEY = 120
_SENTENCE = 2
"""Words of the shortest text that a weak name is believed."""
_SHORTEST_CONTEXT = 40
_ERROR = 2


@dataclass(frozen=True, slots=True, kw_only=True)
class _Found:
    question: str | None = None
    history: tuple[Message, ...] | None = None
    answer: str | None = None
    sure: bool = True
    documents: tuple[Citation, ...] | None = None
    searched: str | None = None
    messages: tuple[ParsedMessage, ...] = ()
    model: str | None = None
    request_model: str | None = None
    input_tokens: int | None = None
    output_tokens: int | None = None
    session_id: str | None = None
    user_id: str | None = None


def claims(span: Span) -> bool:
    """Return whether the span holds a question with an answer, documents, or messages of a conversation."""
    return _role(span, _found(span)) is not None


def role(span: Span) -> Role:
    """Return what the span's content makes it: a model call names a model, a retrieval has documents and no answer."""
    return _role(span, _found(span)) or Role.NOISE


def read(span: Span) -> Step:
    """Translate one span."""
    found = _found(span)
    does = _role(span, found) or Role.NOISE
    step = TABLE.step(span, does, NAME)
    step = replace(
        step,
        model=found.model or found.request_model,
        request_model=found.request_model,
        input_tokens=found.input_tokens,
        output_tokens=found.output_tokens,
        documents=found.documents,
        session_id=step.session_id or found.session_id,
        user_id=step.user_id or found.user_id,
        error=step.error or server_fault(span),
        flags=step.flags | {"generic"},
    )
    if does is Role.LLM:
        given = found.messages or ((ParsedMessage("user", found.question),) if found.question else ())
        return replace(step, messages=prompt_messages(given), output=found.answer)
    if does in {Role.RETRIEVAL, Role.EMBEDDING}:
        return replace(step, retrieval_query=found.searched or found.question)
    earlier, last = before_last_user(found.messages)
    query = found.question or (last.content.strip() or None if last else None)
    return replace(
        step,
        query=query,
        history=found.history if found.history is not None else conversation(earlier) or None,
        response=found.answer,
        retrieval_query=found.searched,
        unsure=frozenset() if found.sure else frozenset({"query", "response"}),
    )


def _role(span: Span, found: _Found) -> Role | None:
    asks, modelled = found.question or found.searched, found.model or found.request_model or found.output_tokens
    if _EMBEDDING.search(span.name):
        return Role.EMBEDDING if asks or found.messages or found.documents else None
    whole = found.documents is not None and found.question is not None and found.sure
    if modelled and not whole and (found.answer or found.messages or (found.question and _failed(span))):
        return Role.LLM
    if (found.answer or _failed(span)) and (found.question or found.messages):
        return Role.CHAIN
    if found.documents is not None and not found.answer:
        return Role.RETRIEVAL if found.documents or _SEARCHING.search(span.name) else None
    if found.searched and _RETRIEVING.search(span.name):
        return Role.RETRIEVAL
    told = found.sure and (found.question or found.answer)
    return Role.CHAIN if told or (modelled and _GENERATING.search(span.name)) else None


def _found(span: Span) -> _Found:
    held: dict[str, AttributeValue] = {}
    rows: list[AttributeValue] = []
    for event in reversed(span.events):
        if event.name != "exception":
            _collect(_spoken(event), held)
            rows[:0] = _row(event)
    if rows:
        held["documents"] = rows
    _collect(span.attributes, held)
    return _Found() if not held else _read(held, failed=_failed(span))


def _read(held: Attributes, *, failed: bool) -> _Found:
    ask, answer = chain_input(unwrap(held.get("question"))), chain_output(unwrap(held.get("answer")))
    weak_ask, weak_answer = chain_input(unwrap(held.get("asked"))), chain_output(unwrap(held.get("answered")))
    sure = ask.query is not None or answer.response is not None
    paired = _is_sentence(weak_ask.query) and (weak_answer.response is not None or failed)
    messages = messages_of(unwrap(held.get("messages")))
    talk = messages if any(m.role in {"user", "assistant"} and m.content for m in messages) else ()
    believed = weak_ask if answer.response or (paired and not sure) else ChainInput()
    question = ask if ask.query else believed
    response = answer.response or (weak_answer.response if ask.query or talk or paired else None)
    listed = _with_columns(_documents(held.get("documents")), held)
    if listed is None:
        searches = ask.query or weak_ask.query or "search" in held
        found = documents(unwrap(held.get("results"))) or documents(unwrap(held.get("answered")))
        found = found or (documents(unwrap(held.get("returned"))) if searches else None)
        listed = found.citations or None if found is not None else answer.documents or weak_answer.documents
    given = unwrap(held.get("question") or held.get("asked"))
    earlier = chain_input({"history": unwrap(held["history"])}).history if "history" in held else None
    return _Found(
        session_id=_name(held.get("session")) or session_and_user.session_in_input(given),
        user_id=_name(held.get("user")) or session_and_user.user_in_input(given),
        question=_text(question.query),
        history=question.history if earlier is None else earlier,
        answer=response,
        sure=sure or (paired and _is_exchange(held)),
        documents=listed,
        searched=chain_input(unwrap(held.get("search"))).query
        or (weak_ask.query if believed is not weak_ask else None),
        messages=talk,
        model=_text(held.get("model")),
        request_model=_text(held.get("requested")),
        input_tokens=_count(held.get("input_tokens")),
        output_tokens=_count(held.get("output_tokens")),
    )


def _spoken(event: Event) -> Attributes:
    """An event's attributes; a name such as `user_message` says what a single text in it is."""
    words = {key: (_WORD.findall(key) or [""])[-1].lower() for key in event.attributes}
    plain = [key for key, word in words.items() if word in {"text", "content", "message", "body", "value"}]
    named = len(plain) == 1 and _holds(event.name) in {"question", "answer"}
    return {**event.attributes, event.name: event.attributes[plain[0]]} if named else event.attributes


def _row(event: Event) -> list[AttributeValue]:
    """One document per event, such as `document_retrieved` with `doc.id` and `doc.text`."""
    if not _DOCUMENT.search(event.name):
        return []
    row = {key.rpartition(".")[2]: value for key, value in event.attributes.items()}
    read = documents([row])
    return [row] if read is not None and read.citations else []


def _collect(attributes: Attributes, into: dict[str, AttributeValue]) -> None:
    """Put each attribute that says what it holds under that; lists that were flattened become lists again."""
    rows: dict[int, dict[str, AttributeValue]] = {}
    for key, value in attributes.items():
        if value in (None, "", REDACTED) or len(key) > _LONGEST_KEY:
            continue
        place = _place(key)
        if place is not None:
            rows.setdefault(place[0], {})[place[1]] = value
            continue
        holds = _holds(key)
        if holds is not None:
            into[holds] = value
    if rows:
        into["documents"] = [row for _, row in sorted(rows.items())]


@lru_cache(maxsize=4096)
def _place(key: str) -> tuple[int, str] | None:
    """The index and field of one attribute of a flattened list of documents."""
    found = _INDEXED.match(key)
    if found is None or _holds(found[1]) != "documents":
        return None
    return int(found[2]), found[3].rpartition(".")[2]


@lru_cache(maxsize=4096)
def _holds(key: str) -> str | None:
    if key.partition(".")[0] in ELSEWHERE:
        return None
    words = [word.lower() for word in _WORD.findall(key)]
    while words:
        for length in (2, 1):
            found = _BY_ENDING.get(" ".join(words[-length:]))
            if found is not None:
                return found
        if words.pop() not in PADDING:
            break
    return None


_BY_ENDING = {ending: holds for holds, listed in ENDINGS.items() for ending in listed.split(", ")}


def _documents(value: AttributeValue) -> tuple[Citation, ...] | None:
    """Objects with content, an array of texts, or the whole context as one text."""
    held = unwrap(value)
    if isinstance(held, str):
        return (Citation(content=held, rank=1),) if len(held) >= _SHORTEST_CONTEXT and _is_sentence(held) else None
    if is_sequence(held) and held and all(isinstance(one, str) for one in held):
        texts = [str(one) for one in held]
        sound = all(len(one) >= _SHORTEST_CONTEXT or unwrap(one) is not one for one in texts)
        read = documents(texts, trusted=True) if sound else None
    else:
        read = documents(held) if is_sequence(held) or is_mapping(held) else None
    return None if read is None else read.citations


def _is_exchange(held: Attributes) -> bool:
    """Whether the input is an object with a question and the output one with an answer: bodies of a request."""
    given, made = unwrap(held.get("asked")), unwrap(held.get("answered"))
    asks = is_mapping(given) and not given.keys().isdisjoint(_ASKING)
    return asks and is_mapping(made) and not made.keys().isdisjoint(_ANSWERING)


def _with_columns(listed: tuple[Citation, ...] | None, held: Attributes) -> tuple[Citation, ...] | None:
    """Ids and scores that stand beside the texts, as lists of the same length."""
    if not listed:
        return listed
    columns = {name: unwrap(held.get(name)) for name in ("ids", "scores", "distances")}
    whole = {name: column for name, column in columns.items() if is_sequence(column) and len(column) == len(listed)}
    ids, scores, distances = (whole.get(name, (None,) * len(listed)) for name in columns)
    return tuple(
        replace(
            one,
            id=one.id or (None if ids[at] is None else str(ids[at])),
            score=_either(one.score, finite(scores[at]), finite(distances[at])),
            score_kind="distance"
            if one.score is None and finite(scores[at]) is None and distances[at] is not None
            else one.score_kind,
        )
        for at, one in enumerate(listed)
    )


def _name(value: AttributeValue) -> str | None:
    """An id: a number or a text without blanks."""
    name = str(value) if isinstance(value, str | int) and not isinstance(value, bool) else ""
    return name if name and not any(map(str.isspace, name)) else None


def _either(*scores: float | None) -> float | None:
    return next((score for score in scores if score is not None), None)


def _text(value: AttributeValue) -> str | None:
    return value if isinstance(value, str) and any(map(str.isalpha, value)) and not _PRINTED.match(value) else None


def _failed(span: Span) -> bool:
    return span.status == _ERROR or exception(span) is not None


def _is_sentence(text: str | None) -> bool:
    return text is not None and len(text.split()) >= _SENTENCE and not _PRINTED.match(text)


def _count(value: AttributeValue) -> int | None:
    read = finite(value)
    return None if read is None else int(read)


DIALECT = Convention(
    name=NAME,
    priority=140,
    url="https://opentelemetry.io/docs/specs/otel/common/attribute-naming/",
    versions="any",
    setup=Setup(
        lines=('span.set_attribute("question", question)\nspan.set_attribute("answer", answer)'),
        remark="keys may have any prefix (shop.user_question, shop.final_answer); such turns are flagged `generic`",
        session="set session.id on the same span",
        documents="an attribute retrieved_documents: JSON of objects with id and content",
    ),
    claims=claims,
    role=role,
    read=read,
)
