"""One turn of the chat: condense the question, retrieve, answer; and what a release does wrong on the way."""

import random
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from answerer import Claim, compose, refusal, select
from corpus import Passage
from inventions import invent
from retriever import Hit, Retriever
from words import words

MODEL = "extractive-demo"
# Of broken retrievals, of embellished answers, and of invented sentences.
_STALE_SHARE, _LONE_SHARE, _CITING_SHARE = 0.85, 0.6, 0.6
_LEANS_ON_HISTORY = re.compile(r"^(?:And|But|So)\b|\b(?:it|that|this|there|else|more)\b", re.IGNORECASE)
_CITATION = re.compile(r"\[([\w-]+-\d{2,})\]")
_LEAD_IN = re.compile(r"^(?:And|But|So)\s+", re.IGNORECASE)

Outcome = Literal["answered", "refused"]
Fault = Literal["stale_index", "empty_query"]


@dataclass(frozen=True, slots=True)
class Release:
    """One deployed version of the app.

    Attributes:
        version: What the spans say in `service.version`.
        invents: Share of answers, 0 to 1, that state something no document says.
        misretrieves: Share of those whose retrieval went wrong before. The others embellish what was retrieved.
        misses: Share of the remaining turns whose retrieval goes wrong as well, but which are answered honestly.
    """

    version: str
    invents: float
    misretrieves: float
    misses: float


@dataclass(frozen=True, slots=True)
class Exchange:
    """An earlier question of the session and the answer it got."""

    question: str
    answer: str


@dataclass(frozen=True, slots=True)
class Finding:
    """What a question was answered from.

    Attributes:
        query: What was searched for: the question, made to stand on its own.
        hits: The retrieved passages, best first.
        fault: What went wrong in retrieval, if anything did.
        faithful: Whether the answer will keep to the passages.
    """

    query: str
    hits: tuple[Hit, ...]
    fault: Fault | None
    faithful: bool


@dataclass(frozen=True, slots=True)
class Reply:
    """What the app said.

    Attributes:
        text: The answer.
        outcome: Whether the answer is one, or says that there is none.
        cited: Ids of the passages the answer cites, in order.
        invented: The sentences of the answer that the app made up; a groundedness defect unless empty.
    """

    text: str
    outcome: Outcome
    cited: tuple[str, ...]
    invented: tuple[str, ...]


class Chat:
    """The chat app: answers questions from the passages it was given."""

    def __init__(self, passages: Sequence[Passage], retriever: Retriever) -> None:
        """Answer from ``passages``, found with ``retriever``."""
        self._titles = {passage.id: passage.title for passage in passages}
        self._retriever = retriever

    def retrieve(self, question: str, history: Sequence[Exchange], release: Release, chance: random.Random) -> Finding:
        """Return what ``release`` finds for ``question``, asked after ``history`` (oldest first)."""
        query = self.condense(question, history)
        faithful = chance.random() >= release.invents
        fault = _fault(release.misses if faithful else release.misretrieves, chance)
        if fault == "stale_index":
            hits = self._retriever.search_stale(query)
        else:
            hits = self._retriever.search("" if fault == "empty_query" else query)
        return Finding(query, hits, fault, faithful)

    def answer(self, question: str, history: Sequence[Exchange], finding: Finding, chance: random.Random) -> Reply:
        """Return the answer to ``question`` from ``finding``, without what was already told in ``history``."""
        told = " ".join(exchange.answer for exchange in history)
        claims = select(finding.query, finding.hits, told, self._retriever)
        invented: tuple[str, ...] = ()
        if not finding.faithful:
            claims, invented = _embellished(claims, finding.hits, _subject(question), chance)
        text = compose(claims, chance) if claims else refusal(told, chance)
        return Reply(
            text=text,
            outcome="answered" if claims else "refused",
            cited=tuple(dict.fromkeys(_CITATION.findall(text))),
            invented=invented,
        )

    def condense(self, question: str, history: Sequence[Exchange]) -> str:
        """Return ``question`` as a query that needs no history.

        A question that leans on the turn before gets that turn's topic: the title of the passage it cited, or else
        its words.
        """
        if not history or not _LEANS_ON_HISTORY.search(question):
            return question
        last = history[-1]
        cited = [self._titles[found] for found in _CITATION.findall(last.answer) if found in self._titles]
        topic = cited[0] if cited else " ".join(words(last.question))
        bare = _LEAD_IN.sub("", question).rstrip("?")
        if not words(bare):
            return f"More about {topic}: {last.question}"
        return f"{bare[0].upper()}{bare[1:]} ({topic})?"


def _fault(share: float, chance: random.Random) -> Fault | None:
    if chance.random() >= share:
        return None
    return "stale_index" if chance.random() < _STALE_SHARE else "empty_query"


def _subject(question: str) -> str:
    quoted = re.search(r'"[^"]+"', question)
    return quoted[0] if quoted else ""


def _embellished(
    claims: Sequence[Claim], hits: Sequence[Hit], subject: str, chance: random.Random
) -> tuple[tuple[Claim, ...], tuple[str, ...]]:
    """Return one or two of ``claims`` with as many invented ones among them, or two or three when there are none."""
    kept = claims[: 1 if chance.random() < _LONE_SHARE else 2]
    count = chance.choice((1, 1, 2)) if kept else chance.choice((2, 2, 3))
    mixed = list(kept)
    invented = tuple(invent(subject if number == 0 else "", chance) for number in range(count))
    for sentence in invented:
        # An invented sentence is as sure of its source as any other.
        cites = hits[chance.randrange(len(hits))].passage.id if hits and chance.random() < _CITING_SHARE else ""
        mixed.insert(chance.randint(min(1, len(mixed)), len(mixed)), Claim(sentence, cites))
    return tuple(mixed), invented
