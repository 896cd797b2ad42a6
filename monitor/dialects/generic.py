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
    "weak_question": "query, prompt, input, request",
    "answer": "answer, final answer, answer generated, generated answer, generated text, completion, llm response, "
    "llm output, bot response, assistant message, assistant response, model response, ai response, final response, "
    "final output, bot utterance, assistant utterance, reply, output messages, antwort, respuesta, resposta, risposta, "
    "reponse",
    "weak_answer": "response, output",
    "documents": "documents, docs, contexts, context, chunks, passages, snippets, citations, sources, search results, "
    "retrieved documents, retrieved docs, retrieved chunks, retrieved contexts, retrieved context, source documents, "
    "source nodes, nodes, hits, matches, kb articles, knowledge articles, chunk texts, chunk contents, document texts, "
    "document contents, doc texts, passage texts, retrieved texts, dokumente, documentos, documenti",
    "results": "result, results, tool response, tool output",
    "return_value": "return, return value",
    "ids": "document ids, doc ids, chunk ids, retrieved ids",
    "scores": "scores, similarity scores, relevance scores, similarities",
    "distances": "distances",
    "search": "search query, retrieval query, rewritten query, search text",
    "messages": "messages, chat messages, input messages, prompt messages",
    "history": "chat history, conversation history, message history, previous messages",
    "session": "session id, conversation id, chat id, session",
    "user": "user id, customer id, user",
    "model": "response model",
    "request_model": "model, model name, llm model, model id, request model",
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
_RETRIEVING = re.compile(
    r"(?=[rvks])(?:retriev|vector|knowledge|semantic|(?<![^\W_])(?:kb|rag)(?![^\W_]))", re.IGNORECASE
)
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
_INPUT, _OUTPUT = "input.value", "output.value"


@dataclass(frozen=True, slots=True, kw_only=True)
class _Contents:
    question: str | None = None
    history: tuple[Message, ...] | None = None
    answer: str | None = None
    shapeless: str | None = None
    """JSON of an answer that is no text."""
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
    return _role(span, _contents_of(span)) is not None


def role(span: Span) -> Role:
    """Return what the span's content makes it: a model call names a model, a retrieval has documents and no answer."""
    return _role(span, _contents_of(span)) or Role.NOISE


def read(span: Span) -> Step:
    """Translate one span."""
    contents = _contents_of(span)
    span_role = _role(span, contents) or Role.NOISE
    step = TABLE.step(span, span_role, NAME)
    step = replace(
        step,
        model=contents.model or contents.request_model,
        request_model=contents.request_model,
        input_tokens=contents.input_tokens,
        output_tokens=contents.output_tokens,
        documents=contents.documents,
        session_id=step.session_id or contents.session_id,
        user_id=step.user_id or contents.user_id,
        error=step.error or server_fault(span),
        flags=step.flags | {"generic"},
    )
    if span_role is Role.LLM:
        prompt = contents.messages or ((ParsedMessage("user", contents.question),) if contents.question else ())
        return replace(step, messages=prompt_messages(prompt), output=contents.answer)
    if span_role in {Role.RETRIEVAL, Role.EMBEDDING}:
        return replace(step, retrieval_query=contents.searched or contents.question)
    earlier, last = before_last_user(contents.messages)
    query = contents.question or (last.content.strip() or None if last else None)
    return replace(
        step,
        query=query,
        history=contents.history if contents.history is not None else conversation(earlier) or None,
        response=contents.answer,
        shapeless=contents.shapeless,
        retrieval_query=contents.searched,
        unsure=frozenset() if contents.sure else frozenset({"query", "response"}),
    )


def _role(span: Span, contents: _Contents) -> Role | None:
    asks, modelled = (
        contents.question or contents.searched,
        contents.model or contents.request_model or contents.output_tokens,
    )
    if _EMBEDDING.search(span.name):
        return Role.EMBEDDING if asks or contents.messages or contents.documents else None
    whole = contents.documents is not None and contents.question is not None and contents.sure
    if modelled and not whole and (contents.answer or contents.messages or (contents.question and _failed(span))):
        return Role.LLM
    if (contents.answer or _failed(span)) and (contents.question or contents.messages):
        return Role.CHAIN
    if contents.documents is not None and not contents.answer:
        return Role.RETRIEVAL if contents.documents or _SEARCHING.search(span.name) else None
    if contents.searched and _RETRIEVING.search(span.name):
        return Role.RETRIEVAL
    sure = contents.sure and (contents.question or contents.answer)
    return Role.CHAIN if sure or (modelled and _GENERATING.search(span.name)) else None


def _contents_of(span: Span) -> _Contents:
    values: dict[str, AttributeValue] = {}
    rows: list[AttributeValue] = []
    for event in reversed(span.events):
        if event.name != "exception":
            _collect(_event_fields(event), values)
            rows[:0] = _row(event)
    if rows:
        values["documents"] = rows
    _collect(span.attributes, values)
    contents = _Contents() if not values else _contents_from(values, failed=_failed(span))
    if contents.question and contents.sure:
        return contents
    return _with_exchange(contents, span)


def _with_exchange(contents: _Contents, span: Span) -> _Contents:
    """What the root of a trace says in OpenInference's two keys is an exchange, also without a kind of span."""
    if span.parent_id is not None or not {_INPUT, _OUTPUT} <= span.attributes.keys():
        return contents
    ask, answer = (chain_input(unwrap(span.attributes[_INPUT])), chain_output(unwrap(span.attributes[_OUTPUT])))
    if not ask.query or not (answer.response or answer.shapeless):
        return contents
    return replace(
        contents,
        question=ask.query,
        history=ask.history,
        answer=answer.response,
        shapeless=answer.shapeless,
        documents=contents.documents if contents.documents is not None else answer.documents,
        sure=True,
    )


def _contents_from(values: Attributes, *, failed: bool) -> _Contents:
    ask, answer = chain_input(unwrap(values.get("question"))), chain_output(unwrap(values.get("answer")))
    weak_ask, weak_answer = (
        chain_input(unwrap(values.get("weak_question"))),
        chain_output(unwrap(values.get("weak_answer"))),
    )
    sure = ask.query is not None or answer.response is not None
    paired = _is_sentence(weak_ask.query) and (weak_answer.response is not None or failed)
    messages = messages_of(unwrap(values.get("messages")))
    talk = messages if any(m.role in {"user", "assistant"} and m.content for m in messages) else ()
    believed = weak_ask if answer.response or (paired and not sure) else ChainInput()
    question = ask if ask.query else believed
    response = answer.response or (weak_answer.response if ask.query or talk or paired else None)
    citations = _with_columns(_documents(values.get("documents")), values)
    if citations is None:
        searches = ask.query or weak_ask.query or "search" in values
        parsed = documents(unwrap(values.get("results"))) or documents(unwrap(values.get("weak_answer")))
        parsed = parsed or (documents(unwrap(values.get("return_value"))) if searches else None)
        citations = parsed.citations or None if parsed is not None else answer.documents or weak_answer.documents
    inputs = unwrap(values.get("question") or values.get("weak_question"))
    earlier = chain_input({"history": unwrap(values["history"])}).history if "history" in values else None
    return _Contents(
        session_id=_name(values.get("session")) or session_and_user.session_in_input(inputs),
        user_id=_name(values.get("user")) or session_and_user.user_in_input(inputs),
        question=_text(question.query),
        history=question.history if earlier is None else earlier,
        answer=response,
        shapeless=answer.shapeless,
        sure=sure or (paired and _is_exchange(values)),
        documents=citations,
        searched=chain_input(unwrap(values.get("search"))).query
        or (weak_ask.query if believed is not weak_ask else None),
        messages=talk,
        model=_text(values.get("model")),
        request_model=_text(values.get("request_model")),
        input_tokens=_count(values.get("input_tokens")),
        output_tokens=_count(values.get("output_tokens")),
    )


def _event_fields(event: Event) -> Attributes:
    """An event's attributes; a name such as `user_message` says what a single text in it is."""
    words = {key: (_WORD.findall(key) or [""])[-1].lower() for key in event.attributes}
    plain = [key for key, word in words.items() if word in {"text", "content", "message", "body", "value"}]
    is_one_text = len(plain) == 1 and _meaning(event.name) in {"question", "answer"}
    return {**event.attributes, event.name: event.attributes[plain[0]]} if is_one_text else event.attributes


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
        meaning = _meaning(key)
        if meaning is not None:
            into[meaning] = value
    if rows:
        into["documents"] = [row for _, row in sorted(rows.items())]


@lru_cache(maxsize=4096)
def _place(key: str) -> tuple[int, str] | None:
    """The index and field of one attribute of a flattened list of documents."""
    match = _INDEXED.match(key)
    if match is None or _meaning(match[1]) != "documents":
        return None
    return int(match[2]), match[3].rpartition(".")[2]


@lru_cache(maxsize=4096)
def _meaning(key: str) -> str | None:
    if key.partition(".")[0] in ELSEWHERE:
        return None
    words = [word.lower() for word in _WORD.findall(key)]
    while words:
        for length in (2, 1):
            meaning = _BY_ENDING.get(" ".join(words[-length:]))
            if meaning is not None:
                return meaning
        if words.pop() not in PADDING:
            break
    return None


_BY_ENDING = {ending: holds for holds, listed in ENDINGS.items() for ending in listed.split(", ")}


def _documents(value: AttributeValue) -> tuple[Citation, ...] | None:
    """Objects with content, an array of texts, or the whole context as one text."""
    content = unwrap(value)
    if isinstance(content, str):
        return (
            (Citation(content=content, rank=1),)
            if len(content) >= _SHORTEST_CONTEXT and _is_sentence(content)
            else None
        )
    if is_sequence(content) and content and all(isinstance(text, str) for text in content):
        texts = [str(text) for text in content]
        sound = all(len(text) >= _SHORTEST_CONTEXT or unwrap(text) is not text for text in texts)
        read = documents(texts, trusted=True) if sound else None
    else:
        read = documents(content) if is_sequence(content) or is_mapping(content) else None
    return None if read is None else read.citations


def _is_exchange(values: Attributes) -> bool:
    """Whether the input is an object with a question and the output one with an answer: bodies of a request."""
    inputs, outputs = unwrap(values.get("weak_question")), unwrap(values.get("weak_answer"))
    asks = is_mapping(inputs) and not inputs.keys().isdisjoint(_ASKING)
    return asks and is_mapping(outputs) and not outputs.keys().isdisjoint(_ANSWERING)


def _with_columns(citations: tuple[Citation, ...] | None, values: Attributes) -> tuple[Citation, ...] | None:
    """Ids and scores that stand beside the texts, as lists of the same length."""
    if not citations:
        return citations
    columns = {name: unwrap(values.get(name)) for name in ("ids", "scores", "distances")}
    whole = {name: column for name, column in columns.items() if is_sequence(column) and len(column) == len(citations)}
    ids, scores, distances = (whole.get(name, (None,) * len(citations)) for name in columns)
    return tuple(
        replace(
            citation,
            id=citation.id or (None if ids[at] is None else str(ids[at])),
            score=_either(citation.score, finite(scores[at]), finite(distances[at])),
            score_kind="distance"
            if citation.score is None and finite(scores[at]) is None and distances[at] is not None
            else citation.score_kind,
        )
        for at, citation in enumerate(citations)
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
