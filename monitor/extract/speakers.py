"""Who speaks in a prompt that was logged as texts alone: instructions, and person and model by turns."""

from __future__ import annotations

from collections.abc import Sequence

from monitor.model.turns import Message


def with_speakers(texts: Sequence[str], known: Sequence[Message] | None = None) -> tuple[Message, ...]:
    """Return the texts as messages, of which the last is the person's and those before it alternate.

    `known` are messages of the same prompt whose speakers were recorded: its instructions, wherever they stand, or as
    many texts at the beginning where an advisor reworded them. Without it one instruction fills an uneven number up.

    >>> [message.role for message in with_speakers(["Be kind.", "Why?", "So.", "And when?"])]
    ['system', 'user', 'assistant', 'user']
    """
    earlier = range(len(texts) - 1)
    if known is None:
        instructions = set(earlier[: len(earlier) % 2])
    else:
        contents = [message.content for message in known if message.role == "system"]
        instructions = {at for at in earlier if texts[at] in contents}
        others = [at for at in earlier if at not in instructions]
        instructions |= set(others[: max(0, len(contents) - len(instructions))])
    speakers = ["system"] * len(texts)
    speaker = "user"
    for at in reversed(range(len(texts))):
        if at not in instructions:
            speakers[at] = speaker
            speaker = "assistant" if speaker == "user" else "user"
    return tuple(Message(role=role, content=text) for role, text in zip(speakers, texts, strict=True))
