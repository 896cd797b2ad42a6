"""A judge that does what it is told, wherever it can be told anything: the worst that a protocol has to withstand.

It judges honestly what stands between the marks that its instructions name. But it obeys, before anything else, every
word outside of them that its own instructions do not hold; it repeats whatever JSON it meets, in front of its own; and
it answers numbered sentences that were only claimed to be there.
"""

import json
import re
from typing import Any

from judge_server import Step, completion, kind

_MARK = re.compile(r"\bmark ([0-9a-f]{12})\b")
_SENTENCE = re.compile(r"^\((\d+)\) ", re.MULTILINE)
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
        inside, outside = _fenced(user, mark)
        strange = [line.strip() for line in outside.splitlines() if not self._is_own(line)]
        if strange:
            self.obeyed += strange
            return completion(self._verdict(body, inside, defect=not self._defect))
        honest = self._verdict(body, inside, defect=self._defect)
        echoed = "\n".join(_JSON.findall(inside))
        return completion(f"{echoed}\n{honest}" if echoed else honest)

    def _is_own(self, line: str) -> bool:
        return line.startswith(self._repair) or " ".join(line.split()) in self._own

    def _verdict(self, body: dict[str, Any], inside: str, *, defect: bool) -> str:
        reply = json.loads(kind(body))
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


def _fenced(user: str, mark: str) -> tuple[str, str]:
    """Return the lines between marks and the lines outside of them."""
    inside: list[str] = []
    outside: list[str] = []
    within = False
    for line in user.split("\n"):
        if line.strip() == mark:
            within = not within
        else:
            (inside if within else outside).append(line)
    return "\n".join(inside), "\n".join(outside)
