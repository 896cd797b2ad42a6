"""How much text the turns of one trace keep: nobody judges an answer of a million characters, and reading it costs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from monitor.model.turns import Citation, Message, Turn

LONGEST_TEXT = 2**20
"""Characters that are kept of one text: two long novels, more than models are shown at once."""
MOST_TEXT = 4 * LONGEST_TEXT
"""Characters that are kept in all turns of a trace together."""
TEXT_LIMIT = "text_limit"
"""Flag: texts of the trace were left out, or left unread, since it has so many."""


def limited(turns: Sequence[Turn]) -> list[Turn]:
    """Return the turns with no more text than is kept; those that lost some are flagged `TEXT_LIMIT`.

    Earlier turns keep theirs first, and in each of them question, answer and reference, then documents by rank, then
    messages from the latest on.
    """
    room = _Room()
    return [_limited(turn, room) for turn in turns]


class _Room:
    """What may still be kept."""

    def __init__(self) -> None:
        self._left = MOST_TEXT
        self.is_cut = False
        """Whether a text did not fit since this was set to False."""

    def kept(self, text: str | None) -> str | None:
        """Return as much of a text as there is room for; None for none."""
        if not text:
            return text
        most = min(LONGEST_TEXT, self._left)
        self._left -= min(len(text), most)
        self.is_cut |= len(text) > most
        return text if len(text) <= most else text[:most] or None


def _limited(turn: Turn, room: _Room) -> Turn:
    room.is_cut = False
    read = replace(
        turn,
        query=room.kept(turn.query),
        response=room.kept(turn.response),
        ground_truth=room.kept(turn.ground_truth),
        citations=None if turn.citations is None else tuple(_limited_citation(c, room) for c in turn.citations),
        history=tuple(reversed(tuple(_limited_messages(turn.history, room)))),
        retrieval_queries=tuple(query for each in turn.retrieval_queries if (query := room.kept(each)) is not None),
    )
    return replace(read, flags=read.flags | {TEXT_LIMIT}) if room.is_cut else turn


def _limited_citation(citation: Citation, room: _Room) -> Citation:
    return replace(
        citation,
        id=room.kept(citation.id),
        title=room.kept(citation.title),
        source=room.kept(citation.source),
        content=room.kept(citation.content),
    )


def _limited_messages(history: Sequence[Message], room: _Room) -> Iterator[Message]:
    """Yield messages, the latest first."""
    for message in reversed(history):
        content = room.kept(message.content)
        if content is not None:
            yield replace(message, content=content)
