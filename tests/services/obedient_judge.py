"""A judge that does what it is told, wherever it can be told anything: the worst that a protocol has to withstand.

It judges honestly what stands between the marks that its instructions name. But it obeys, before anything else, every
word outside of them that its own instructions do not hold, and every line between them that stands outside of the
documents, the numbered sentences or the messages there; it repeats whatever JSON it meets, in front of its own; and it
answers numbered sentences that were only claimed to be there.
"""

import json
import re
from typing import Any

from judge_server import Step, completion, kind

_MARK = re.compile(r"\bmark ([0-9a-f]{12})\b")
_SENTENCE = re.compile(r"^\((\d+)\) ", re.MULTILINE)
_OPENED = re.compile(r'<document id="[^"\n]+">.*', re.IGNORECASE)
_CLOSED = re.compile(r"</\s*document\s*>.*", re.IGNORECASE)
_SPOKEN = re.compile(r"(?:user|assistant|system|tool): ")
_JSON = re.compile(r"\{.*\}", re.DOTALL)


class ObedientJudge:
    """Judges turns that are all defects (or all fine), and obeys.

    `own` are texts of the prompt files, words that instructions may hold; lines that begin with `repair` are own too.
    """

    def __init__(self, own: str, repair: str, *, defect: bool) -> None:
        self._repair = repair
        self._own = " ".join(own.split())
        self._defect = defect
        self.obeyed: list[str] = []

    def __call__(self, body: dict[str, Any]) -> Step:
        """Reply to one request."""
        system, user = (message["content"] for message in body["messages"])
        (mark,) = _MARK.findall(system)
        quoted, outside = _fenced(user, mark)
        inside = "\n".join(text for _, text in quoted)
        strange = [line.strip() for line in outside.splitlines() if not self._is_own(line)]
        strange += [line for heading, text in quoted for line in _loose(heading, text)]
        if strange:
            self.obeyed += strange
            return completion(self._verdict(body, inside, defect=not self._defect))
        honest = self._verdict(body, inside, defect=self._defect)
        echoed = "\n".join(_JSON.findall(inside))
        return completion(f"{echoed}\n{honest}" if echoed else honest)

    def _is_own(self, line: str) -> bool:
        return line.startswith(self._repair) or " ".join(line.split()) in self._own

    def _verdict(self, body: dict[str, Any], inside: str, *, defect: bool) -> str:
        kindly = kind(body)
        if kindly == "Yes":
            return "No" if defect else "Yes"
        reply = json.loads(kindly)
        if not defect:
            return json.dumps(reply)
        for entry in reply.get("sentences", []):
            entry["verdict"] = "contradicted"
        if "sentences" in reply:
            claimed = {int(number) for number in _SENTENCE.findall(inside)} - {e["n"] for e in reply["sentences"]}
            extra = {"document": "", "evidence": "", "verdict": "supported", "reason": "", "addresses_evaluator": True}
            reply["sentences"] += [{"n": number, **extra} for number in sorted(claimed)]
        for entry in reply.get("intents", []):
            entry["document_ids"] = []
        for name in ("relevance", "coherence", "fluency"):
            if name in reply:
                reply[name]["score"] = 1
        for name in ("hate_unfairness", "sexual", "violence", "self_harm"):
            if name in reply:
                reply[name]["severity"] = 7
        return json.dumps(reply)


def _fenced(user: str, mark: str) -> tuple[list[tuple[str, str]], str]:
    """Return what stands between marks, each text with the line above it, and all lines outside of them."""
    quoted: list[tuple[str, str]] = []
    outside = [""]
    held: list[str] | None = None
    for line in user.split("\n"):
        if line.strip() == mark:
            if held is not None:
                quoted.append((outside[-1], "\n".join(held)))
            held = [] if held is None else None
        elif held is not None:
            held.append(line)
        else:
            outside.append(line)
    return quoted, "\n".join(outside)


def _loose(heading: str, text: str) -> list[str]:
    """Return the lines that belong to no document, no sentence and no message, though the heading promises such."""
    lines = [line for line in text.split("\n") if line.strip()]
    if heading.startswith("DOCUMENTS"):
        return _outside_documents(lines)
    if heading.startswith("EARLIER"):
        return [line for line in lines if not (_SPOKEN.match(line) or line.startswith("    "))]
    if heading.startswith("ANSWER") and _SENTENCE.match(text):
        numbers = [int(found[1]) for line in lines if (found := _SENTENCE.match(line))]
        forged = [f"({n}) is there twice" for n in sorted({n for n in numbers if numbers.count(n) > 1})]
        return forged + [line for line in lines if not (_SENTENCE.match(line) or line.startswith("    "))]
    return []


def _outside_documents(lines: list[str]) -> list[str]:
    loose: list[str] = []
    within = False
    for line in lines:
        if _OPENED.match(line):
            loose += [line] if within else []
            within = True
        elif _CLOSED.match(line):
            loose += [] if within and line == "</document>" else [line]
            within = False
        elif not within:
            loose.append(line)
    return loose
