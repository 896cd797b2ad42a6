"""A week of users in event time: who asks what and when, and how long the app took to answer."""

import heapq
import math
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from chat import Chat, Exchange, Finding, Release, Reply
from questions import QuestionBook

_TURNS_PER_SESSION = 2.2
_MOST_TURNS = 7
_USERS = 400
_OFF_TOPIC_SHARE = 0.05
_NEW_TOPIC_SHARE = 0.08
_FAILING_SHARE = 0.015
_PEAK_HOUR, _SWING = 14, 0.35
_THINKING = (math.log(40), 0.7)
_LONGEST_THINKING = timedelta(minutes=12)
_FAILURES = (
    "model endpoint answered 503: overloaded, try again later",
    "model endpoint did not answer within 30 s",
    "connection reset while reading the completion",
)


class AnswerFailedError(Exception):
    """The answer model gave no answer."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """What happens in the simulated time.

    Attributes:
        start: First moment, aware UTC.
        end: Moment after the last, aware UTC; every turn has ended by then.
        turns_per_hour: Mean over a whole day; nights are quieter than afternoons.
        released_at: From when `after` is in service instead of `before`; at or after `end` for never.
    """

    start: datetime
    end: datetime
    turns_per_hour: float
    released_at: datetime
    before: Release
    after: Release


@dataclass(frozen=True, slots=True)
class Moments:
    """When a turn started, had its standalone query, had its passages, and ended. Aware UTC, in that order."""

    asked: datetime
    condensed: datetime
    retrieved: datetime
    answered: datetime


@dataclass(frozen=True, slots=True)
class Turn:
    """One question and what the app did with it.

    Attributes:
        number: Place in the session, from 1.
        history: The exchanges before, oldest first. A failed turn leaves none.
        finding: What was retrieved.
        reply: The answer, or None when the model call failed.
        error: Why there is no reply, or None.
    """

    session: str
    user: str
    number: int
    question: str
    history: tuple[Exchange, ...]
    release: Release
    finding: Finding
    reply: Reply | None
    moments: Moments
    error: AnswerFailedError | None


@dataclass(slots=True)
class _Session:
    key: str
    user: str
    topic: str
    question: str
    length: int
    asked: list[str] = field(default_factory=list)
    history: list[Exchange] = field(default_factory=list)


def turns(scenario: Scenario, chat: Chat, book: QuestionBook, chance: random.Random) -> Iterator[Turn]:
    """Yield the turns of ``scenario`` in the order in which they end.

    Arrivals of sessions are Poisson with a mild daily swing; the same ``chance`` state gives the same turns.
    """
    # Each entry: when, a tie-breaker, and a session about to ask or a turn about to end.
    agenda: list[tuple[datetime, int, _Session | Turn]] = []
    for number, arrival in enumerate(_arrivals(scenario, chance)):
        agenda.append((arrival, number, _session(book, chance)))
    heapq.heapify(agenda)
    number = len(agenda)
    while agenda:
        when, _, happening = heapq.heappop(agenda)
        if when >= scenario.end:
            continue
        if isinstance(happening, Turn):
            yield happening
            continue
        turn = _turn(happening, when, scenario, chat, chance)
        heapq.heappush(agenda, (turn.moments.answered, number, turn))
        if len(happening.asked) < happening.length:
            thinking = min(timedelta(seconds=chance.lognormvariate(*_THINKING)), _LONGEST_THINKING)
            _think(happening, book, chance)
            heapq.heappush(agenda, (turn.moments.answered + thinking, number + 1, happening))
        number += 2


def _arrivals(scenario: Scenario, chance: random.Random) -> Iterator[datetime]:
    """Yield session starts, by thinning a Poisson process of the busiest rate (Lewis and Shedler 1979)."""
    busiest = scenario.turns_per_hour / _TURNS_PER_SESSION * (1 + _SWING)
    moment = scenario.start
    while True:
        moment += timedelta(hours=chance.expovariate(busiest))
        if moment >= scenario.end:
            return
        hour = moment.hour + moment.minute / 60
        wave = 1 + _SWING * math.cos((hour - _PEAK_HOUR) / 24 * 2 * math.pi)
        if chance.random() < wave / (1 + _SWING):
            yield moment


def _session(book: QuestionBook, chance: random.Random) -> _Session:
    opening = chance.choice(book.off_topic if chance.random() < _OFF_TOPIC_SHARE else book.openings)
    # Geometric, so that every turn is as likely to be the last as any other.
    length = 1 + int(math.log(1 - chance.random()) / math.log(1 - 1 / _TURNS_PER_SESSION))
    # The square makes a few users regulars.
    user = f"user-{int(_USERS * chance.random() ** 2):03d}"
    return _Session(f"{chance.getrandbits(64):016x}", user, opening.topic, opening.text, min(length, _MOST_TURNS))


def _think(session: _Session, book: QuestionBook, chance: random.Random) -> None:
    if not session.topic or chance.random() < _NEW_TOPIC_SHARE:
        opening = chance.choice(book.openings)
        session.topic, session.question = opening.topic, opening.text
    else:
        session.question = book.follow_up(session.topic, session.asked, chance)


def _turn(session: _Session, asked: datetime, scenario: Scenario, chat: Chat, chance: random.Random) -> Turn:
    release = scenario.after if asked >= scenario.released_at else scenario.before
    history = tuple(session.history)
    finding = chat.retrieve(session.question, history, release, chance)
    reply = chat.answer(session.question, history, finding, chance)
    error = _failure(chance)
    session.asked.append(session.question)
    if error is None:
        session.history.append(Exchange(session.question, reply.text))
    return Turn(
        session=session.key,
        user=session.user,
        number=len(session.asked),
        question=session.question,
        history=history,
        release=release,
        finding=finding,
        reply=reply if error is None else None,
        moments=_moments(asked, reply, len(history), chance),
        error=error,
    )


def _failure(chance: random.Random) -> AnswerFailedError | None:
    """Return why the model call of a turn failed, with a traceback, or None when it did not."""
    try:
        _call_model(chance)
    except AnswerFailedError as error:
        return error
    return None


def _call_model(chance: random.Random) -> None:
    if chance.random() < _FAILING_SHARE:
        raise AnswerFailedError(chance.choice(_FAILURES))


def _moments(asked: datetime, reply: Reply, exchanges: int, chance: random.Random) -> Moments:
    condensing = chance.lognormvariate(math.log(0.35), 0.3) if exchanges else 0.0
    retrieving = chance.lognormvariate(math.log(0.028), 0.5)
    # A model answers after a wait and then about 60 words a second.
    answering = chance.lognormvariate(math.log(0.55), 0.45) + len(reply.text.split()) / 60
    condensed = asked + timedelta(milliseconds=2, seconds=condensing)
    retrieved = condensed + timedelta(seconds=retrieving)
    return Moments(asked, condensed, retrieved, retrieved + timedelta(seconds=answering))
