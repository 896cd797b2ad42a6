"""A turn's text as a prompt shows it: without the fence's mark, its documents named and cut, its sentences numbered."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import cached_property

from monitor.judging.prompt.file import PromptFile
from monitor.judging.prompt.passages import shorten
from monitor.judging.prompt.quoting import clean, fence, indented, tag_name, tokens, untagged
from monitor.model.turns import Turn
from monitor.text.sentences import split


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
    def document_names(self) -> tuple[str, ...]:
        """The names by which the judge is told of the documents: their ids, told apart where they are equal."""
        return _unique_names([tag_name(self._clean(citation.id)) for citation in self.turn.citations or ()])

    @property
    def documents(self) -> tuple[str, ...]:
        """The documents' text within the budget; () when the prompt shows none."""
        return self._documents[0]

    @property
    def is_cut(self) -> bool:
        """Whether the documents have more text than the judge sees."""
        return self._documents[1]

    @cached_property
    def _documents(self) -> tuple[tuple[str, ...], bool]:
        placeholders = self._prompt.user.names
        if not {"documents", "context", "document"} & placeholders:
            return (), False
        whole = tuple(self._clean(citation.content) for citation in self.turn.citations or ())
        budget = self._prompt.front.params.max_document_tokens
        if sum(map(tokens, whole)) <= budget:
            return whole, False
        nearest = self.sentences if {"sentences", "response", "claim"} & placeholders else ()
        return shorten(whole, (*nearest, self._clean(self.turn.query)), budget), True

    def values(self) -> dict[str, str]:
        """Return what the placeholders of values stand for."""
        turn, shown = self.turn, self._prompt.front.params.history_messages
        history = turn.history[-shown:] if shown else ()
        messages = [f"{tag_name(self._clean(message.role))}: {self._clean(message.content)}" for message in history]
        response = self._clean(turn.response)
        context = "\n\n".join(document for document in self.documents if document)
        return {
            "fence": self._mark,
            "query": self._clean(turn.query),
            "response": response,
            "ground_truth": self._clean(turn.ground_truth),
            "history": "\n".join(map(indented, messages)),
            "context": context,
            "document": context,
            "claim": response,
        }

    def lists(self) -> dict[str, list[dict[str, str]]]:
        """Return what the placeholders of lists stand for, as far as the prompt has them."""
        lists: dict[str, list[dict[str, str]]] = {}
        if "documents" in self._prompt.user.names:
            named = zip(self.turn.citations or (), self.document_names, self.documents, strict=True)
            lists["documents"] = [
                {
                    "id": name,
                    "title": self._on_one_line(citation.title),
                    "content": untagged(document),
                    "rank": str(citation.rank or place),
                    "source": self._on_one_line(citation.source),
                }
                for place, (citation, name, document) in enumerate(named, start=1)
            ]
        if "sentences" in self._prompt.user.names:
            numbered = enumerate(self.sentences, start=1)
            lists["sentences"] = [{"n": str(number), "text": indented(text)} for number, text in numbered]
        return lists

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
