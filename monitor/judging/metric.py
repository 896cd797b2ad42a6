"""A prompt file as a metric: what a turn must have, what to ask, and how a reply becomes a finding."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass, replace

from monitor.judging import reply as replies
from monitor.judging.prompt_file import PromptFile, locate, read
from monitor.judging.quoting import CONTEXT_TRUNCATED, clean, fence, fit
from monitor.judging.sentences import split
from monitor.judging.verdicts import Scale, read_score, read_sentences
from monitor.model import ChatMessage, Finding, Reason, Reply, Rubric, Turn


def load(name: str, *, judge_name: str, fence_key: bytes = b"rag-monitor") -> PromptMetric:
    """Return the metric of a shipped prompt's name, or of a prompt file's path.

    Args:
        name: such as `groundedness`, or `/etc/rag-monitor/tone.md`.
        judge_name: the judge's `name`; scores of two judges are two series.
        fence_key: a secret, so that nobody who writes into a judged text can know the marks around it.

    Raises:
        ConfigError: there is no such prompt, or something in it is wrong.
    """
    prompt = read(locate(name))
    front = prompt.front
    return PromptMetric(
        prompt=prompt,
        fence_key=fence_key,
        rubric=Rubric(
            metric=front.id,
            rubric_id=_rubric_id(prompt, judge_name),
            needs=frozenset(front.needs),
            scale_min=front.scale.min,
            scale_max=front.scale.max,
            title=front.title,
        ),
    )


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptMetric:
    """A metric that a judge model is asked for."""

    prompt: PromptFile
    rubric: Rubric
    fence_key: bytes

    @property
    def schema(self) -> Mapping[str, object] | None:
        """The reply's JSON schema as the endpoint wants it."""
        return self.prompt.schema.tree

    @property
    def max_output_tokens(self) -> int:
        """The budget for one reply."""
        return self.prompt.front.params.max_output_tokens

    def messages(self, turn: Turn) -> tuple[ChatMessage, ...]:
        """Return the prompt with the turn's text as fenced data; empty when there is nothing to ask about."""
        if self._reads_sentences and not self._sentences(turn):
            return ()
        mark = fence(self.fence_key, turn.turn_id)
        params = self.prompt.front.params
        contents, _ = self._contents(turn)
        documents = [
            {
                "id": clean(citation.id or f"doc{place}", mark),
                "title": clean(citation.title or "", mark),
                "content": content,
                "rank": str(citation.rank or place),
                "source": clean(citation.source or "", mark),
            }
            for place, (citation, content) in enumerate(zip(turn.citations or (), contents, strict=True), start=1)
        ]
        history = turn.history[-params.history_messages :] if params.history_messages else ()
        values = {
            "fence": mark,
            "query": clean(turn.query or "", mark),
            "response": clean(turn.response or "", mark),
            "ground_truth": clean(turn.ground_truth or "", mark),
            "history": "\n".join(f"{clean(m.role, mark)}: {clean(m.content, mark)}" for m in history),
            "context": "\n\n".join(content for content in contents if content),
        }
        lists = {
            "documents": documents,
            "sentences": [{"n": str(n), "text": text} for n, text in enumerate(self._sentences(turn), start=1)],
        }
        return (
            ChatMessage(role="system", content=self.prompt.system.render(values, lists).strip()),
            ChatMessage(role="user", content=self.prompt.user.render(values, lists).strip()),
        )

    def read(self, turn: Turn, reply: Reply | None) -> Finding | Reason:
        """Return the finding, or why there is none: NO_CLAIMS, REFUSED, CONTENT_FILTER, TRUNCATED.

        Raises:
            UnreadableReply: the reply is not what was asked for.
        """
        if reply is None:
            return Reason.NO_CLAIMS
        if reason := replies.incomplete(reply):
            return reason
        answer = replies.read(reply, self.prompt.schema)
        front = self.prompt.front
        if self._reads_sentences:
            finding = read_sentences(answer, len(self._sentences(turn)), front.defect)
        else:
            finding = read_score(answer, Scale(low=front.scale.min, high=front.scale.max), front.defect)
        if isinstance(finding, Finding) and self._contents(turn)[1]:
            return replace(finding, flags=finding.flags | {CONTEXT_TRUNCATED})
        return finding

    @property
    def _reads_sentences(self) -> bool:
        return self.prompt.front.reply == "sentences"

    def _sentences(self, turn: Turn) -> tuple[str, ...]:
        mark = fence(self.fence_key, turn.turn_id)
        return split(clean(turn.response or "", mark), limit=self.prompt.front.params.max_sentences)

    def _contents(self, turn: Turn) -> tuple[tuple[str, ...], bool]:
        """Return the documents' text within the budget, and whether any was cut."""
        mark = fence(self.fence_key, turn.turn_id)
        whole = tuple(clean(citation.content or "", mark) for citation in turn.citations or ())
        fitted = fit(whole, self.prompt.front.params.max_document_tokens)
        shown = bool({"documents", "context"} & self.prompt.user.names)
        return fitted, shown and fitted != whole


def _rubric_id(prompt: PromptFile, judge_name: str) -> str:
    front = prompt.front
    parts = {
        "prompt": prompt.text,
        "schema": prompt.schema.tree,
        "scale": front.scale.model_dump(mode="json"),
        "defect": front.defect.model_dump(mode="json", exclude_none=True),
        "reply": front.reply,
        "params": front.params.model_dump(mode="json"),
        "judge": judge_name,
        "parser": replies.PARSER_VERSION,
    }
    return hashlib.sha256(json.dumps(parts, ensure_ascii=False).encode()).hexdigest()[:12]
