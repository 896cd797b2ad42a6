"""The answer model: composes an answer from sentences of the retrieved passages, and cites the passages."""

import random
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from retriever import Hit, Retriever
from words import stems

# Below this share of the question a sentence is beside the point, and saying nothing is better.
_LEAST_SUPPORT = 0.3
_WORTH_ADDING = 0.55
_MOST_SENTENCES = 3
_OPENERS = ("", "", "", "", "In short, ", "According to the documentation, ", "As documented, ", "In general, ")
_CONNECTIVES = ("", "", "", "Also, ", "In addition, ", "Besides, ", "Note that ")
_LOWERED = re.compile(r"(?:The|An?|If|When|Each|Every|All|Some|These|They|Any|By|To|At|On|Since|Always|You)\b")
_REFUSALS = (
    "I do not find that in the documentation.",
    "I could not find anything about that in the documentation.",
    "The documentation does not say anything about that, so I cannot answer it.",
    "I do not know: the passages I have do not cover that.",
    "Sorry, I cannot find an answer to that in the documentation.",
)
_REFUSALS_TO_CONTINUE = (
    "I do not find anything more about that in the documentation.",
    "The documentation does not say more about that than I already told you.",
)


@dataclass(frozen=True, slots=True)
class Claim:
    """One sentence of an answer, and the id of the passage it cites; "" cites nothing."""

    text: str
    passage_id: str


def select(query: str, hits: Sequence[Hit], told: str, retriever: Retriever) -> tuple[Claim, ...]:
    """Return the one to three sentences of ``hits`` that answer ``query`` best, in reading order; none when none does.

    Sentences that already stand in ``told``, the answers given so far, are not repeated.
    """
    ranked = sorted(_scored(query, hits, told, retriever), key=lambda scored: -scored[0])
    if not ranked or ranked[0][0] < _LEAST_SUPPORT:
        return ()
    best = ranked[0][0]
    chosen = [place for score, place in ranked[:_MOST_SENTENCES] if score >= _WORTH_ADDING * best]
    # A lone sentence is continued where the documentation continues it.
    rank, number = chosen[0]
    if len(chosen) == 1 and number + 1 < len(hits[rank].passage.statements):
        chosen.append((rank, number + 1))
    # The best sentence opens the answer, the others follow as the documentation orders them.
    places = (chosen[0], *sorted(chosen[1:]))
    claims = tuple(Claim(hits[rank].passage.statements[number], hits[rank].passage.id) for rank, number in places)
    return tuple(claim for claim in claims if claim.text not in told)


def refusal(told: str, chance: random.Random) -> str:
    """Return an honest "I do not know"; ``told`` are the answers given so far."""
    return chance.choice((*_REFUSALS, *_REFUSALS_TO_CONTINUE) if told else _REFUSALS)


def compose(claims: Sequence[Claim], chance: random.Random) -> str:
    """Return ``claims`` as one paragraph, with the cited passage in square brackets before the full stop."""
    parts = []
    for number, claim in enumerate(claims):
        lead = chance.choice(_CONNECTIVES if number else _OPENERS)
        # Only words that are capitalised for opening a sentence may lose their capital.
        text = f"{lead}{claim.text[0].lower()}{claim.text[1:]}" if lead and _LOWERED.match(claim.text) else claim.text
        cited_next = number + 1 < len(claims) and claims[number + 1].passage_id == claim.passage_id
        mark = f" [{claim.passage_id}]" if claim.passage_id and not cited_next else ""
        parts.append(f"{text.removesuffix('.')}{mark}.")
    return " ".join(parts)


def _scored(
    query: str, hits: Sequence[Hit], told: str, retriever: Retriever
) -> Iterator[tuple[float, tuple[int, int]]]:
    for rank, hit in enumerate(hits):
        title = stems(hit.passage.title)
        for number, statement in enumerate(hit.passage.statements):
            if statement in told:
                continue
            known = stems(statement)
            # What the title says need not be said again, but a sentence that says it is the better one.
            score = 0.7 * retriever.coverage(query, known) + 0.3 * retriever.coverage(query, known | title)
            yield score * (1 - 0.04 * rank - 0.01 * number), (rank, number)
