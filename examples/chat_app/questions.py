"""What people ask: openings and follow-ups made from the passages, and questions about something else entirely."""

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from types import MappingProxyType

from corpus import Passage

_CONDITION = re.compile(r"^(If|When) ([^,;:]{12,95}), (?!but|and|or)")
_STATEMENT_TITLE = re.compile(r'^(?:The )?"(\w+)" statement$')
_CALLABLE = re.compile(r'"((?:\w+\.)?\w{3,}\(\))"')
_EXCEPTION = re.compile(r'"(\w+(?:Error|Exit|Iteration|Warning))"')
_PURPOSE = re.compile(r'^(?:The |An? )?("[^"]{2,30}"(?: \w+)?|[\w -]{4,40}?) (is|are|can be) used (?:to|for|by|when)')
_DEFINITION = re.compile(r"^(An?|The) ((?:\*|\b)[\w -]{4,32}?\*?) is (?:an?|the) ")
# A clause that leans on the sentence before it makes no question of its own.
_LEANING = re.compile(
    r"\b(?:it|they|them|this|these|those|such|so|its|their|both|neither|either)\b|^(?:not|no|any)\b|[\[\]{}=]"
)
_CAPITALISED = re.compile(r"(?<![\w\"*.])(?!Python\b)[A-Z][a-z'\u2019-]*(?![\w\"*(])")

_MORE = (
    "Can you tell me more about that?",
    "Can you give me some more detail?",
    "Is there anything else I should know about it?",
    "What else is there to know about this?",
    "Could you elaborate on that?",
)
_OFF_TOPIC = MappingProxyType(
    {
        "How do I {}?": (
            "bake sourdough bread",
            "descale an espresso machine",
            "renew my passport",
            "train for a marathon",
            "repair a flat bicycle tyre",
            "cancel my gym subscription",
            "grow tomatoes on a balcony",
            "tune a guitar by ear",
        ),
        "Who won {}?": (
            "the football final yesterday",
            "the chess olympiad",
            "the election in Denmark",
            "the Tour de France",
        ),
        "What is the weather in {} tomorrow?": ("Lisbon", "Utrecht", "Osaka", "Nairobi", "Montreal"),
        "Can you recommend {}?": (
            "a hotel near the beach",
            "a good dentist",
            "a jazz album",
            "a vegetarian restaurant",
            "a thriller for the weekend",
        ),
        "How much does {} cost?": (
            "a train ticket to Vienna",
            "your premium plan",
            "a litre of diesel",
            "a kitchen renovation",
        ),
        "When will {}?": ("my parcel arrive", "my refund be paid", "the shop in Antwerp open", "the museum reopen"),
    }
)


@dataclass(frozen=True, slots=True)
class Opening:
    """A first question of a session, and the topic (`Passage.source`) that answers it; "" when none does."""

    text: str
    topic: str


class QuestionBook:
    """Questions that the passages can answer, and some that they cannot."""

    def __init__(self, passages: Sequence[Passage]) -> None:
        """Read the questions out of ``passages``."""
        by_text: dict[str, str] = {}
        names: dict[str, dict[str, None]] = {}
        conditions: dict[str, list[str]] = {}
        for passage in passages:
            for text in _questions(passage):
                by_text.setdefault(text, passage.source)
            for statement in passage.statements:
                names.setdefault(passage.source, {}).update(dict.fromkeys(_CALLABLE.findall(statement)))
                if condition := _condition(statement):
                    conditions.setdefault(passage.source, []).append(condition)
        self.openings = tuple(Opening(text, topic) for text, topic in by_text.items())
        self.off_topic = tuple(Opening(form.format(what), "") for form, whats in _OFF_TOPIC.items() for what in whats)
        self._names = {topic: tuple(found) for topic, found in names.items()}
        self._conditions = conditions

    def follow_up(self, topic: str, asked: Sequence[str], chance: random.Random) -> str:
        """Return a question that only makes sense after those ``asked`` about ``topic``, and is none of them."""
        fresh = [text for text in self._follow_ups(topic, chance) if text not in asked]
        return fresh[0] if fresh else chance.choice(_MORE)

    def _follow_ups(self, topic: str, chance: random.Random) -> Iterator[str]:
        forms: list[str] = [chance.choice(_MORE)]
        if names := self._names.get(topic):
            name = chance.choice(names)
            forms.append(
                chance.choice((f'And what about "{name}"?', f'How does "{name}" fit in there?', f'And "{name}"?'))
            )
        if conditions := self._conditions.get(topic):
            forms.append(f"And {chance.choice(conditions)}")
        chance.shuffle(forms)
        yield from forms


def _questions(passage: Passage) -> Iterator[str]:
    yield from _about_title(passage)
    for statement in passage.statements:
        if condition := _condition(statement):
            yield f"{condition[0].upper()}{condition[1:]}"
        if purpose := _PURPOSE.match(statement):
            subject, verb = purpose.groups()
            yield f"What {'is' if verb == 'is' else 'are'} {_decapitalised(subject)} used for?"
        if (definition := _DEFINITION.match(statement)) and not _LEANING.search(definition[2]):
            yield f"What is {definition[1].lower()} {definition[2].replace('*', '')}?"
        for name in _CALLABLE.findall(statement)[:1]:
            yield f'When is "{name}" called?' if "called" in statement else f'What does "{name}" do?'
        if "raise" in statement:
            heading = passage.title.split(":")[0]
            for name in _EXCEPTION.findall(statement)[:1]:
                yield f'When is "{name}" raised by {_decapitalised(heading)}?'


def _about_title(passage: Passage) -> Iterator[str]:
    title = passage.title.split(": ")[-1]
    if statement := _STATEMENT_TITLE.match(title):
        yield f'What does the "{statement[1]}" statement do?'
        yield f'How do I use the "{statement[1]}" statement?'
    else:
        yield f"What does the documentation say about {_decapitalised(title)}?"
        yield f"Can you explain {_decapitalised(title)}?"


def _condition(statement: str) -> str:
    """Return "what happens if ...?" where ``statement`` answers that, else ""."""
    found = _CONDITION.match(statement)
    if (
        found is None
        or _LEANING.search(found[2])
        or found[2].count('"') % 2
        or found[2].count("(") != found[2].count(")")
    ):
        return ""
    return f"what happens {found[1].lower()} {found[2].replace('*', '')}?"


def _decapitalised(phrase: str) -> str:
    return _CAPITALISED.sub(lambda found: found[0].lower(), phrase)
