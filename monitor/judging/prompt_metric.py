"""A prompt file as metrics: what a turn must have, what to ask, how one reply becomes a finding for each of them."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from monitor.errors import ConfigError, UnreadableReply
from monitor.judging.claim_metric import ClaimMetric
from monitor.judging.prompt.file import PromptFile, locate, meant_by, read, shipped
from monitor.judging.prompt.front_matter import MetricSettings
from monitor.judging.prompt.quoting import CONTEXT_TRUNCATED
from monitor.judging.prompt.schema import Json
from monitor.judging.prompt.shown_turn import ShownTurn
from monitor.judging.reply import json_reply, plain_text
from monitor.judging.reply.findings import (
    JUDGE_INJECTION,
    SUPPORTED,
    Scale,
    addressed,
    entries,
    read_label,
    read_score,
    read_sentences,
    read_severity,
)
from monitor.judging.reply.quotations import EVIDENCE_MISSING, EVIDENCE_NOT_FOUND, holds, plain
from monitor.judging.reply.retrieval import read_intents, read_ranking
from monitor.model.judgements import ChatMessage, Finding, Reason, Reply, Rubric
from monitor.model.turns import Turn

_IMAGE = "[image]"
"""Stands where the telemetry had an image, which we do not keep and cannot show a judge."""
_MEDIA = re.compile(r"\[(?:image|audio|video|file)\]")
"""Such as above, for all that is no text."""

_KEY = b"rag-monitor"


def load_all(
    name: str, *, judge_name: str, fence_key: bytes = _KEY, others: Sequence[str] = ()
) -> tuple[PromptMetric | ClaimMetric, ...]:
    """Return the metrics of a prompt file, in its order, or the one metric of that name that a shipped file has.

    Args:
        name: of a shipped prompt file, such as `answer`; of a metric in one, such as `coherence`, which is asked for
            together with its file's others but only itself read; or a path, such as `/etc/rag-monitor/tone.md`.
        judge_name: the judge's `name`; scores of two judges are two series.
        fence_key: a secret, so that nobody who writes into a judged text can know the marks around it.
        others: names that the caller knows besides, for the message about one that nobody does.

    Raises:
        ConfigError: there is no such prompt or metric, or something in it is wrong.
    """
    prompt, chosen = _find(name, others)
    return tuple(
        (ClaimMetric if settings.reply == "claims" else PromptMetric)(
            prompt=prompt,
            settings=settings,
            fence_key=fence_key,
            call=_digest({**_question(prompt), "judge": judge_name}),
            rubric=Rubric(
                metric=metric,
                rubric_id=_rubric_id(prompt, metric, judge_name),
                needs=frozenset(prompt.front.needs if settings.needs is None else settings.needs),
                scale_min=settings.scale.min,
                scale_max=settings.scale.max,
                title=settings.title,
                proxy=settings.estimate,
            ),
        )
        for metric, settings in prompt.front.metrics.items()
        if metric in chosen
    )


def load(name: str, *, judge_name: str, fence_key: bytes = _KEY) -> PromptMetric | ClaimMetric:
    """Return the only metric of `name`; see `load_all`.

    Raises:
        ConfigError: as `load_all`, or there are several.
    """
    metrics = load_all(name, judge_name=judge_name, fence_key=fence_key)
    if len(metrics) != 1:
        raise ConfigError(
            f"expected a file of one metric, found {', '.join(m.rubric.metric for m in metrics)}", where=name
        )
    return metrics[0]


def _find(name: str, others: Sequence[str]) -> tuple[PromptFile, frozenset[str]]:
    if name not in shipped() and "/" not in name and not name.endswith(".md"):
        known = [*shipped(), *others]
        for other in shipped():
            prompt = read(locate(other))
            if name in prompt.front.metrics:
                return prompt, frozenset({name})
            known += prompt.front.metrics
        raise ConfigError(f"no metric or prompt file {name!r}{meant_by(name, list(dict.fromkeys(known)))}")
    prompt = read(locate(name))
    return prompt, frozenset(prompt.front.metrics)


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptMetric:
    """A metric that a judge model is asked for."""

    prompt: PromptFile
    settings: MetricSettings
    rubric: Rubric
    call: str
    """The same for all metrics that are read out of one reply."""
    fence_key: bytes

    @property
    def schema(self) -> Mapping[str, object] | None:
        """The reply's JSON schema as the endpoint wants it; None when it is to be plain text."""
        return self.prompt.schema.tree if self.prompt.schema else None

    @property
    def max_output_tokens(self) -> int:
        """The budget for one reply."""
        return self.prompt.front.params.max_output_tokens

    def messages(self, turn: Turn) -> tuple[ChatMessage, ...]:
        """Return the prompt with the turn's text as fenced data; empty when there is nothing to ask about."""
        if _asks_in_media(turn):
            return ()
        shown = self._shown(turn)
        if self._sentences_only and not shown.sentences:
            return ()
        return self.prompt.messages(shown.values(), shown.lists())

    def read(self, turn: Turn, reply: Reply | None) -> Finding | Reason:
        """Return the finding, or why there is none.

        NOT_SUPPORTED for what cannot be judged, NO_CLAIMS, REFUSED, CONTENT_FILTER, TRUNCATED.

        Raises:
            UnreadableReply: the reply is not what was asked for.
        """
        if reply is None:
            return Reason.NOT_SUPPORTED if _asks_in_media(turn) else Reason.NO_CLAIMS
        if reason := json_reply.incomplete(reply):
            return reason
        shown = self._shown(turn)
        try:
            finding = self._read(shown, reply)
        except UnreadableReply:
            if json_reply.declines(reply):
                return Reason.REFUSED
            raise
        if isinstance(finding, Finding) and shown.is_cut:
            return replace(finding, flags=finding.flags | {CONTEXT_TRUNCATED})
        return finding

    def _read(self, shown: ShownTurn, reply: Reply) -> Finding | Reason:
        if self.prompt.schema is None:
            return self._read_text(json_reply.spoken(reply))
        return self._read_object(shown, json_reply.read(reply, self.prompt.schema))

    def _read_text(self, text: str) -> Finding:
        settings = self.settings
        match settings.reply:
            case "number":
                return plain_text.read_number(text, self._scale, settings.defect)
            case "result":
                return plain_text.read_result(text, self._scale, settings.defect)
            case _:
                return plain_text.read_yes_no(text, settings.defect)

    def _read_object(self, shown: ShownTurn, answer: Mapping[str, Json]) -> Finding | Reason:
        settings = self.settings
        if settings.applies_if and answer.get(settings.applies_if) is not True:
            return Reason.NOT_SUPPORTED
        if settings.reply in {"intents", "ranking"} and not shown.documents:
            return Reason.NO_CONTEXT
        finding = self._read_part(shown, answer)
        if not isinstance(finding, Finding):
            return finding
        self._check_cap(answer, finding)
        flags = {JUDGE_INJECTION} if addressed(answer) else set()
        if not _quotes_truly(shown, finding):
            flags.add(EVIDENCE_NOT_FOUND)
        if unproven := _unproven(answer, finding):
            if settings.evidence == "required":
                raise UnreadableReply(f"sentences supported without evidence: {', '.join(unproven)}", reason="invalid")
            flags.add(EVIDENCE_MISSING)
        return replace(finding, flags=finding.flags | flags) if flags else finding

    def _read_part(  # noqa: PLR0911 -- one for each way of reading
        self, shown: ShownTurn, answer: Mapping[str, Json]
    ) -> Finding | Reason:
        settings = self.settings
        inner = answer.get(settings.field) if settings.field else None
        part = inner if isinstance(inner, dict) else answer
        names = [document.name for document in shown.documents]
        match settings.reply:
            case "sentences":
                dropped = {document.name for document in shown.documents if document.is_dropped}
                return read_sentences(answer, len(shown.sentences), settings.defect, ids=names, dropped=dropped)
            case "intents":
                return read_intents(answer, names, settings.defect)
            case "ranking" if settings.ranking:
                if shown.turn.relevant_ids is not None:
                    return Reason.NOT_SUPPORTED  # nothing is estimated where labels are known
                return read_ranking(answer, names, settings.ranking, settings.defect)
            case "severity":
                return read_severity(part, settings.defect)
            case "label":
                return read_label(part, settings.defect.labelled)
            case _:
                return read_score({"reason": answer.get("reason"), **part}, self._scale, settings.defect)

    def _check_cap(self, answer: Mapping[str, Json], finding: Finding) -> None:
        cap = self.settings.cap
        if cap and answer.get(cap.field) is True and finding.score is not None and finding.score > cap.score:
            raise UnreadableReply(
                f"{self.rubric.metric}: at most {cap.score:g} when {cap.field} is true, found {finding.score:g}",
                reason="contradictory",
            )

    @property
    def _scale(self) -> Scale:
        scale = self.settings.scale
        return Scale(low=scale.min, high=scale.max, whole=scale.type == "integer")

    @property
    def _sentences_only(self) -> bool:
        return {metric.reply for metric in self.prompt.front.metrics.values()} == {"sentences"}

    def _shown(self, turn: Turn) -> ShownTurn:
        return ShownTurn(turn, self.prompt, self.fence_key)


def _quotes_truly(shown: ShownTurn, finding: Finding) -> bool:
    """Return whether the documents hold all that the judge quotes from them."""
    quoted = [detail.evidence for detail in finding.details if detail.evidence.strip()]
    if not quoted:
        return True
    texts = plain([text for seen in shown.evidence for text in (seen.text, seen.citation.title or "")])
    return all(holds(texts, evidence) for evidence in quoted)


def _unproven(answer: Mapping[str, Json], finding: Finding) -> list[str]:
    """Return the numbers of sentences that are supported by nothing quoted, where the reply has a place for it."""
    asked_to_quote = any("evidence" in entry for entry in entries(answer, "sentences"))
    return [
        str(detail.index)
        for detail in finding.details
        if asked_to_quote and detail.verdict == SUPPORTED and not plain([detail.evidence])
    ]


def _asks_in_media(turn: Turn) -> bool:
    """Return whether the question is about an image, or is itself a file, sound or film without a word beside it."""
    query = turn.query or ""
    return _IMAGE in query or (bool(query.strip()) and not _MEDIA.sub("", query).strip())


def _question(prompt: PromptFile) -> dict[str, object]:
    return {
        "prompt": prompt.text,
        "schema": prompt.schema.tree if prompt.schema else None,
        "params": prompt.front.params.model_dump(mode="json"),
    }


def _rubric_id(prompt: PromptFile, metric: str, judge_name: str) -> str:
    settings = prompt.front.metrics[metric].model_dump(mode="json", exclude_none=True, exclude={"title", "needs"})
    if "label_in" in settings["defect"]:
        settings["defect"]["label_in"].sort()
    parts = {
        **_question(prompt),
        "metric": metric,
        "settings": settings,
        "judge": judge_name,
        "parser": json_reply.PARSER_VERSION,
    }
    return _digest(parts)


def _digest(parts: Mapping[str, object]) -> str:
    return hashlib.sha256(json.dumps(parts, ensure_ascii=False).encode()).hexdigest()[:12]
