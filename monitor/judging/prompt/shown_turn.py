"""A turn's text as a prompt shows it: without the fence's mark, its documents named and cut, its sentences numbered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from monitor.judging.prompt.file import PromptFile
from monitor.judging.prompt.passages import shorten
from monitor.judging.prompt.quoting import clean, fence, indented, tag_name, tokens, untagged
from monitor.model.turns import Citation, Turn
from monitor.text.sentences import split


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownDocument:
    """A document as a judge sees it."""

    citation: Citation
    name: str
    """By which the judge is told of it: its id, told apart where another has the same."""
    text: str
    """Its content, cut where all together are too long."""
    is_dropped: bool
    """It was retrieved, but did not reach the answering model: it proves nothing of the answer."""


class ShownTurn:
    """What a judge sees of a turn, the same whenever it is judged; each part is made when it is first asked for."""

    def __init__(self, turn: Turn, prompt: PromptFile, fence_key: bytes) -> None:
        """Prepare; `fence_key` is the secret behind the marks around judged text."""
        self.turn = turn
        self._prompt = prompt
        self._mark = fence(fence_key, turn.turn_id)

    @cached_property
    def sentences(self) -> tuple[str, ...]:
        """The answer's sentences, as they are numbered for the judge."""
        return split(self._clean(self.turn.response), limit=self._prompt.front.params.max_sentences)

    @cached_property
    def documents(self) -> tuple[ShownDocument, ...]:
        """The documents that the prompt shows, in rank order and within the budget; () when it shows none.

        A prompt about an answer shows what the answering model saw, and the rest only as `{{dropped}}`; one about
        retrieval alone shows everything that was retrieved.
        """
        if not {"documents", "context", "document"} & self._prompt.user.names:
            return ()
        texts = self._texts
        if sum(map(tokens, texts)) > self._budget:
            nearest = self.sentences if self._is_about_answer else ()
            texts = shorten(texts, (*nearest, self._clean(self.turn.query)), self._budget)
        names = _unique_names([tag_name(self._clean(citation.id)) for citation in self._citations])
        return tuple(
            ShownDocument(
                citation=citation,
                name=name,
                text=text,
                is_dropped=self._is_about_answer and not citation.is_evidence,
            )
            for citation, name, text in zip(self._citations, names, texts, strict=True)
        )

    @property
    def evidence(self) -> tuple[ShownDocument, ...]:
        """Those of `documents` that an answer may be held against."""
        return tuple(document for document in self.documents if not document.is_dropped)

    @property
    def is_cut(self) -> bool:
        """Whether the documents have more text than the judge sees."""
        return bool(self.documents) and sum(map(tokens, self._texts)) > self._budget

    @property
    def _is_about_answer(self) -> bool:
        return bool({"sentences", "response", "claim"} & self._prompt.user.names)

    @property
    def _budget(self) -> int:
        return self._prompt.front.params.max_document_tokens

    @cached_property
    def _citations(self) -> tuple[Citation, ...]:
        shows_all = "dropped" in self._prompt.user.names or not self._is_about_answer
        return tuple(citation for citation in self.turn.citations or () if shows_all or citation.is_evidence)

    @cached_property
    def _texts(self) -> tuple[str, ...]:
        return tuple(self._clean(citation.content) for citation in self._citations)

    def values(self) -> dict[str, str]:
        """Return what the placeholders of values stand for."""
        turn, shown = self.turn, self._prompt.front.params.history_messages
        history = turn.history[-shown:] if shown else ()
        messages = [f"{tag_name(self._clean(message.role))}: {self._clean(message.content)}" for message in history]
        response = self._clean(turn.response)
        context = "\n\n".join(document.text for document in self.evidence if document.text)
        dropped = [self._tagged(document) for document in self.documents if document.is_dropped]
        return {
            "fence": self._mark,
            "query": self._clean(turn.query),
            "response": response,
            "ground_truth": self._clean(turn.ground_truth),
            "history": "\n".join(map(indented, messages)),
            "context": context,
            "document": context,
            "claim": response,
            "dropped": "\n".join(dropped),
        }

    def lists(self) -> dict[str, list[dict[str, str]]]:
        """Return what the placeholders of lists stand for, as far as the prompt has them."""
        lists: dict[str, list[dict[str, str]]] = {}
        if "documents" in self._prompt.user.names:
            lists["documents"] = [
                {
                    "id": document.name,
                    "title": self._on_one_line(document.citation.title),
                    "content": untagged(document.text),
                    "rank": str(document.citation.rank or place),
                    "source": self._on_one_line(document.citation.source),
                }
                for place, document in enumerate(self.documents, start=1)
                if not document.is_dropped
            ]
        if "sentences" in self._prompt.user.names:
            numbered = enumerate(self.sentences, start=1)
            lists["sentences"] = [{"n": str(number), "text": indented(text)} for number, text in numbered]
        return lists

    def _tagged(self, document: ShownDocument) -> str:
        title = self._on_one_line(document.citation.title)
        return f'<document id="{document.name}"> {title}\n{untagged(document.text)}\n</document>'

    def _clean(self, text: str | None) -> str:
        return clean(text or "", self._mark)

    def _on_one_line(self, text: str | None) -> str:
        return " ".join(untagged(self._clean(text)).split())


def _unique_names(ids: Sequence[str]) -> tuple[str, ...]:
    """Return a name for each document: its id, with its place where another has the same id or it has none."""
    counts = Counter(ids)
    names: dict[str, None] = {}
    for place, id_ in enumerate(ids, start=1):
        is_alone = bool(id_) and counts[id_] == 1
        name = id_ if is_alone else f"{id_}#{place}" if id_ else f"doc{place}"
        while name in names or (not is_alone and name in counts):
            name = f"{name}#{place}"
        names[name] = None
    return tuple(names)
