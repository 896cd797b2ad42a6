"""The language reference that ships with every CPython, cut into passages a retriever can return."""

import importlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from words import sentences

_TARGET_CHARACTERS = 650
_LARGEST_PASSAGE = 1400
_UNDERLINE = re.compile(r"^([*=\-~^\"'#])\1{2,}$")
_LIST_MARK = re.compile(r"^(?:[*•]|\d{1,2}\.|\[\d+\]|\(\d+\))\s+")
_PLAIN_WORD = re.compile(r"^[(\"*\u201c\u2018]*[A-Za-z][A-Za-z'\-\u2019]*[)\"*\u201d\u2019.,;:!?]*$")
_PROSE_SHARE, _FEWEST_WORDS = 0.6, 4
_ANSWER_LENGTH = range(45, 330)
# Sentences that point at something outside themselves make no answer.
_UNSUITABLE = re.compile(
    r"^(?:See|Note|For example|Otherwise|Also|That is|Module|\*\*PEP|\(|\[|(?:Changed|Added|New|Deprecated)\b)"
    r"|^This (?:section|table|uses|is the)"
    r"|::=|>>>|following|below|above|this section|footnote|\[\d+\]"
)


class CorpusError(Exception):
    """This Python ships without the documentation the app answers from."""


@dataclass(frozen=True, slots=True)
class Passage:
    """One retrievable piece of the documentation.

    Attributes:
        id: Stable for one Python version, such as "with-02"; answers cite it in square brackets.
        title: Heading of the topic, and of the section where there is one.
        source: Where it was cut from, such as "pydoc/topics/with".
        content: Text with prose unwrapped to one line per paragraph and code left as it is.
        statements: The sentences of the prose that make sense on their own, verbatim from ``content``.
    """

    id: str
    title: str
    source: str
    content: str
    statements: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Block:
    section: str
    text: str
    prose: bool


def load() -> tuple[Passage, ...]:
    """Return the passages of `pydoc_data.topics`, in the order of their ids.

    Raises:
        CorpusError: The module is missing (some distributions split it off) or holds no text.
    """
    try:
        topics = importlib.import_module("pydoc_data.topics").topics
    except ImportError as error:
        raise CorpusError(
            "reading pydoc_data.topics: this Python ships without it; use one with its full library"
        ) from error
    passages = cut(topics)
    if not passages:
        raise CorpusError(f"reading pydoc_data.topics: no passages in {len(topics)} topics; expected prose")
    return passages


def cut(topics: Mapping[str, str]) -> tuple[Passage, ...]:
    """Return the passages of ``topics`` (topic name to plain text as Sphinx writes it), ordered by topic and place.

    Several topics repeat others word for word; a repeated paragraph stays in the shortest topic that has it.
    """
    seen: set[str] = set()
    passages: list[Passage] = []
    for topic in sorted(topics, key=lambda name: (len(topics[name]), name)):
        heading, blocks = _blocks(topics[topic])
        fresh = [block for block in blocks if block.text not in seen]
        seen.update(block.text for block in fresh)
        for number, group in enumerate(_groups(fresh), start=1):
            section = group[0].section
            passages.append(
                Passage(
                    id=f"{topic}-{number:02d}",
                    title=heading if section in ("", heading) else f"{heading}: {section}",
                    source=f"pydoc/topics/{topic}",
                    content="\n\n".join(block.text for block in group),
                    statements=tuple(_statements(group)),
                )
            )
    return tuple(sorted(passages, key=lambda passage: passage.id))


def _blocks(text: str) -> tuple[str, list[_Block]]:
    heading = section = ""
    blocks: list[_Block] = []
    for raw in re.split(r"\n\s*\n", text.strip("\n")):
        lines = raw.split("\n")
        if len(lines) > 1 and _UNDERLINE.match(lines[1]) and not lines[0].startswith(" "):
            section = lines[0].strip()
            heading = heading or section
            lines = lines[2:]
        # Tables do not survive being cut, and the reference says little in them that it does not say in prose.
        if any(line.strip() for line in lines) and not lines[0].lstrip().startswith(("+--", "|")):
            blocks.append(_block(section, lines))
    return heading, blocks


def _block(section: str, lines: Sequence[str]) -> _Block:
    items: list[str] = []
    for line in lines:
        stripped = line.strip()
        if not items or _LIST_MARK.match(stripped):
            items.append(stripped)
        else:
            items[-1] = f"{items[-1]} {stripped}"
    if all(map(_is_prose, items)):
        return _Block(section, "\n".join(re.sub(r"\s+", " ", item) for item in items), prose=True)
    return _Block(section, "\n".join(line.rstrip() for line in lines), prose=False)


def _is_prose(text: str) -> bool:
    bare = _LIST_MARK.sub("", text)
    parts = bare.split()
    plain = sum(1 for part in parts if _PLAIN_WORD.match(part))
    return (
        "::=" not in bare
        and len(parts) >= _FEWEST_WORDS
        and plain >= _PROSE_SHARE * len(parts)
        and bare[-1] in '.:;!?)"”'
    )


def _groups(blocks: Sequence[_Block]) -> Iterator[list[_Block]]:
    group: list[_Block] = []
    length = 0
    for block in blocks:
        new_section = bool(group) and block.section != group[0].section
        introduces = bool(group) and _introduces(group[-1])
        full = length >= _TARGET_CHARACTERS and not introduces
        if group and (new_section or full or length + len(block.text) > _LARGEST_PASSAGE):
            yield group
            group, length = [], 0
        group.append(block)
        length += len(block.text)
    if group:
        yield group


def _introduces(block: _Block) -> bool:
    signature = not block.prose and "\n" not in block.text and not block.text.startswith(" ")
    return signature or block.text.endswith(":")


def _statements(group: Sequence[_Block]) -> Iterator[str]:
    for block in group:
        if not block.prose:
            continue
        for item in block.text.split("\n"):
            for sentence in sentences(_LIST_MARK.sub("", item)):
                complete = sentence.endswith(".") and (sentence[0].isupper() or sentence[0] in '"“*')
                if complete and len(sentence) in _ANSWER_LENGTH and not _UNSUITABLE.search(sentence):
                    yield sentence
