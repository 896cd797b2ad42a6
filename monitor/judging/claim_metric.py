"""A metric that asks about one claim and one passage at a time: is it borne out, yes or no, with what probability.

The form of MiniCheck (Tang, Laban, Durrett, EMNLP 2024) and of Spring AI's FactCheckingEvaluator: each sentence that
claims something is held against the nearest passages, the best passage counts, and the worst sentence is the answer's
score. P(yes) is taken from the first token's alternatives where the endpoint tells them, else from the word itself.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

from monitor.errors import UnreadableReply
from monitor.judging.prompt.file import PromptFile
from monitor.judging.prompt.front_matter import MetricSettings
from monitor.judging.prompt.passages import Nearness, pieces
from monitor.judging.prompt.quoting import CONTEXT_TRUNCATED, clean, fence
from monitor.judging.reply import json_reply
from monitor.judging.reply.findings import SUPPORTED, UNSUPPORTED
from monitor.judging.reply.plain_text import read_yes_no
from monitor.model.judgements import ChatMessage, Detail, Finding, Reason, Reply, Rubric
from monitor.model.turns import Turn
from monitor.text.claims import claims
from monitor.text.sentences import split

_LEAST_MASS = 0.5
_EVEN = 0.5


@dataclass(frozen=True, slots=True, kw_only=True)
class Question:
    """One claim held against one passage."""

    sentence: int
    """1 for the answer's first sentence."""
    claim: str
    citation: str
    """Id of the document that the passage is from."""
    messages: tuple[ChatMessage, ...]
    partial: bool = False
    """Whether the documents have more passages than the claim is held against."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ClaimMetric:
    """A metric of a prompt file with `reply: claims`."""

    prompt: PromptFile
    settings: MetricSettings
    rubric: Rubric
    call: str
    fence_key: bytes
    schema: Mapping[str, object] | None = None

    @property
    def max_output_tokens(self) -> int:
        """The budget for one reply."""
        return self.prompt.front.params.max_output_tokens

    def messages(self, turn: Turn) -> tuple[ChatMessage, ...]:
        """Return the first question; empty when there is none."""
        return next((question.messages for question in self.questions(turn)), ())

    def questions(self, turn: Turn) -> tuple[Question, ...]:
        """Return what to ask: for each sentence that claims something, its nearest passages."""
        params = self.prompt.front.params
        mark = fence(self.fence_key, turn.turn_id)
        cited = [(c.id or f"doc{place}", c) for place, c in enumerate(turn.citations or (), start=1)]
        shown = [(name, clean(c.content, mark)) for name, c in cited if c.is_evidence and c.content]
        passages = pieces([content for _, content in shown], params.window_tokens)
        nearness = Nearness(passages)
        whole_turn = {"query": clean(turn.query or "", mark), "response": clean(turn.response or "", mark)}
        questions: list[Question] = []
        for number, sentence in enumerate(split(clean(turn.response or "", mark), limit=params.max_sentences), start=1):
            if not claims(sentence):
                continue
            for passage in islice(nearness(sentence), params.windows):
                values = {**whole_turn, "fence": mark, "claim": sentence, "document": passage.text}
                questions.append(
                    Question(
                        sentence=number,
                        claim=sentence,
                        citation=shown[passage.document][0],
                        messages=self.prompt.messages(values, {}),
                        partial=len(passages) > params.windows,
                    )
                )
        return tuple(questions)

    def read(self, turn: Turn, reply: Reply | None) -> Finding | Reason:
        """Return the finding on an answer of a single question, or NO_CLAIMS when there was none to ask."""
        questions = self.questions(turn)
        if reply is None or not questions:
            return Reason.NO_CLAIMS
        return self.conclude(questions[:1], [self.support(reply)])

    def support(self, reply: Reply) -> float | Reason:
        """Return P(yes) of one reply, or why there is none.

        Raises:
            UnreadableReply: it is neither yes nor no, or both together are unlikely.
        """
        if reply.finish_reason == "content_filter":
            return Reason.CONTENT_FILTER
        if reply.refusal is not None:
            return Reason.REFUSED
        if reply.alternatives:
            return _probability(reply.alternatives)
        return read_yes_no(json_reply.spoken(reply), self.settings.defect).score or 0.0

    def conclude(self, questions: Sequence[Question], supports: Sequence[float | Reason]) -> Finding | Reason:
        """Return the worst sentence's best support; a reason when a question was refused or filtered."""
        best: dict[int, tuple[float, Question]] = {}
        for question, support in zip(questions, supports, strict=True):
            if isinstance(support, Reason):
                return support
            if question.sentence not in best or support > best[question.sentence][0]:
                best[question.sentence] = (support, question)
        if not best:
            return Reason.NO_CLAIMS
        score = min(support for support, _ in best.values())
        details = tuple(
            Detail(
                index=number,
                verdict=SUPPORTED if support >= _EVEN else UNSUPPORTED,
                reason=f"P(yes) {support:.2f}",
                citation=question.citation,
            )
            for number, (support, question) in sorted(best.items())
        )
        wrong = [str(detail.index) for detail in details if detail.verdict == UNSUPPORTED]
        return Finding(
            score=score,
            defect=self.settings.defect(score),
            reason=f"not borne out: sentence {', '.join(wrong)}" if wrong else "",
            details=details,
            flags=frozenset({CONTEXT_TRUNCATED} if any(question.partial for question in questions) else ()),
        )


def _probability(alternatives: Sequence[tuple[str, float]]) -> float:
    """Return P(yes) / (P(yes) + P(no)) over all spellings among the first token's alternatives."""
    mass = {"yes": 0.0, "no": 0.0}
    for token, logprob in alternatives:
        word = token.strip(" \t\n▁Ġ*\"'").casefold()
        if word in mass:
            mass[word] += math.exp(logprob)
    total = mass["yes"] + mass["no"]
    if total < _LEAST_MASS:
        raise UnreadableReply(f"yes and no together have a probability of {total:.2f}", reason="invalid")
    return mass["yes"] / total
