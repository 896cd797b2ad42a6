"""Metrics computed in code."""

from dataclasses import replace

import pytest
from judged_turn import judged_turn

from monitor.errors import ConfigError, Rejected
from monitor.judging.coded.registry import coded
from monitor.model.judgements import Finding, Reason
from monitor.model.turns import Citation, Turn

_DOCUMENTS = tuple(Citation(id=name, content=name) for name in ("a", "b", "c", "d"))


def _ranked(*relevant: str) -> Turn:
    """A turn that found a, b, c, d in this order, of which some should be found."""
    return replace(judged_turn(), citations=_DOCUMENTS, relevant_ids=relevant)


def _score(name: str, turn: Turn) -> tuple[float | None, bool] | Reason:
    metric = coded(name, where="metrics[0]")
    assert metric is not None
    finding = metric.read(turn, None)
    return (finding.score, finding.defect) if isinstance(finding, Finding) else finding


@pytest.mark.parametrize(
    ("name", "relevant", "expected"),
    [
        ("precision_at_1", "a", (1.0, False)),
        ("precision_at_2", "ac", (1 / 2, False)),
        ("precision_at_4", "ac", (2 / 4, False)),
        ("precision_at_8", "ac", (2 / 8, False)),
        ("precision_at_2", "cd", (0.0, True)),
        ("recall_at_2", "ac", (1 / 2, False)),
        ("recall_at_4", "acxyz", (2 / 5, True)),
        ("reciprocal_rank", "b", (1 / 2, False)),
        ("reciprocal_rank", "cd", (1 / 3, True)),
        ("reciprocal_rank", "x", (0.0, True)),
        ("ndcg_at_4", "a", (1.0, False)),
        ("ndcg_at_4", "x", (0.0, True)),
    ],
)
def test_ranking(name: str, relevant: str, expected: tuple[float, bool]) -> None:
    """Hand-worked examples over the list a, b, c, d."""
    assert expected == _score(name, _ranked(*relevant))


def test_ndcg_at_second_place() -> None:
    """One relevant document at the second place is worth 1 / log2(3) of one at the first."""
    finding = _score("ndcg_at_5", _ranked("b"))
    assert (pytest.approx(0.6309, abs=1e-4), False) == finding


def test_document_found_twice() -> None:
    """Two chunks of one relevant document are one hit."""
    turn = replace(_ranked("a"), citations=(_DOCUMENTS[0], _DOCUMENTS[0], _DOCUMENTS[1]))
    assert (1 / 2, False) == _score("precision_at_2", turn)
    assert (1.0, False) == _score("recall_at_2", turn)


def test_named_by_source() -> None:
    """A document may be named by its source as well as by its id."""
    turn = replace(_ranked("https://kb/7"), citations=(Citation(id="x", source="https://kb/7", content="c"),))
    assert (1.0, False) == _score("reciprocal_rank", turn)


@pytest.mark.parametrize("name", ["precision_at_3", "recall_at_3", "reciprocal_rank", "ndcg_at_3"])
def test_negative_query(name: str) -> None:
    """A question that nothing should be found for is not averaged with the others."""
    assert Reason.NOT_SUPPORTED == _score(name, _ranked())


def test_false_positives() -> None:
    """For such a question every place that is filled is too much; for another the measure does not apply."""
    assert (1.0, True) == _score("false_positives_at_4", _ranked())
    assert (4 / 8, True) == _score("false_positives_at_8", _ranked())
    assert (0.0, False) == _score("false_positives_at_4", replace(_ranked(), citations=()))
    assert Reason.NOT_SUPPORTED == _score("false_positives_at_4", _ranked("a"))


@pytest.mark.parametrize("name", ["precision_at_3", "recall_at_3", "reciprocal_rank", "ndcg_at_3"])
def test_nothing_retrieved(name: str) -> None:
    """Nothing found where something should be is the worst score; no retrieval seen is none."""
    assert (0.0, True) == _score(name, replace(_ranked("a"), citations=()))
    assert Reason.NO_CONTEXT == _score(name, replace(_ranked("a"), citations=None))


@pytest.mark.parametrize(("reference", "expected"), [("paid within 14 days", (8 / 10, False)), ("never", (0.0, True))])
def test_f1(reference: str, expected: tuple[float, bool]) -> None:
    """F1 with the reference is a defect below a half."""
    assert expected == _score("f1", replace(judged_turn(), ground_truth=reference))


def test_needs() -> None:
    """Each says what a turn must have for it."""
    f1, rank = coded("f1", where=""), coded("reciprocal_rank", where="")
    assert f1 is not None
    assert rank is not None
    assert ({"response", "ground_truth"}, {"relevant_ids"}) == (f1.rubric.needs, rank.rubric.needs)


@pytest.mark.parametrize("name", ["groundedness", "precision_at_0", "precision", "recall_at_5x", ""])
def test_not_computed_in_code(name: str) -> None:
    """Other names belong to prompt files."""
    assert coded(name, where="metrics[0]") is None


def test_every_k_is_a_series() -> None:
    """Measures at different k are different metrics and rubrics."""
    three, five = coded("precision_at_3", where=""), coded("precision_at_5", where="")
    assert three is not None
    assert five is not None
    assert three.rubric.metric != five.rubric.metric
    assert three.rubric.rubric_id != five.rubric.rubric_id


SCORER = """
import dataclasses

from monitor.model.judgements import Finding, Rubric

class Length:
    rubric = Rubric(
        metric="length", rubric_id="length-1", needs=frozenset({"response"}), scale_min=0, scale_max=1000
    )

    def score(self, turn):
        return Finding(score=float(len(turn.response)), defect=len(turn.response) > 20)

class Wrong(Length):
    def __init__(self, name, outcome):
        self.rubric = dataclasses.replace(Length.rubric, metric=name)
        self.outcome = outcome

    def score(self, turn):
        return self.outcome

def rubric(metric, **changed):
    return type("Bad", (Length,), {"rubric": dataclasses.replace(Length.rubric, metric=metric, **changed)})()

SCORER = Length()
NOT_A_SCORER = "text"
NAN, LARGE = (Wrong(n, Finding(score=s, defect=False)) for n, s in (("nan", float("nan")), ("large", 1001)))
NONE, TEXT = Wrong("none", None), Wrong("words", "fine")
LABEL = Wrong("label", Finding(score=1, defect=False, label=2))
FLAGS = Wrong("flags", Finding(score=1, defect=False, flags=["a"]))
NEEDS, NAME, SCALE = rubric("needs", needs=frozenset({"answer"})), rubric("My metric"), rubric("scale", scale_max=0)
F1 = rubric("f1")
"""
ENTRIES = """[rag_monitor.metrics]
length = length_scorer:SCORER
text = length_scorer:NOT_A_SCORER
gone = length_scorer:GONE
nan = length_scorer:NAN
large = length_scorer:LARGE
none = length_scorer:NONE
words = length_scorer:TEXT
label = length_scorer:LABEL
flags = length_scorer:FLAGS
needs = length_scorer:NEEDS
My metric = length_scorer:NAME
scale = length_scorer:SCALE
f1 = length_scorer:F1
recall_at_3 = length_scorer:F1
coherence = length_scorer:F1
groundedness_proxy = length_scorer:F1
"""


@pytest.fixture
def installed(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another distribution that brings scorers."""
    folder = tmp_path_factory.mktemp("site")
    (folder / "length_scorer.py").write_text(SCORER, encoding="utf-8")
    info = folder / "length_scorer-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: length-scorer\nVersion: 1.0\n", encoding="utf-8")
    (info / "entry_points.txt").write_text(ENTRIES, encoding="utf-8")
    monkeypatch.syspath_prepend(str(folder))


@pytest.mark.usefixtures("installed")
def test_scorer_of_ones_own() -> None:
    """An installed scorer is a metric by its entry point's name."""
    assert (32.0, True) == _score("length", judged_turn())


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("text", r"metrics\[3\]: metric 'text' \(length_scorer:NOT_A_SCORER of length-scorer\): rubric: missing"),
        ("gone", r"metrics\[3\]: .*: length_scorer has no 'GONE'"),
        ("needs", r"metrics\[3\]: .*: rubric.needs: no 'answer'; known: query, response, citations"),
        ("My metric", r"metrics\[3\]: metric 'My metric' of length-scorer: the entry point's name must be lower case"),
        ("scale", r"metrics\[3\]: .*: scale_min must be below scale_max"),
    ],
)
def test_wrong_entry_point(name: str, message: str) -> None:
    """An entry point that leads elsewhere is told with the setting that named it."""
    with pytest.raises(ConfigError, match=message):
        coded(name, where="metrics[3]")


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nan", "nan: expected a score from 0 to 1000"),
        ("large", "large: expected a score from 0 to 1000"),
        ("none", "none: expected a Finding or a Reason, found NoneType"),
        ("words", "words: expected a Finding or a Reason, found str"),
        ("label", "label: label: expected str or None, found int"),
        ("flags", r"flags: flags: expected frozenset\[str\], found list"),
    ],
)
def test_wrong_score(name: str, message: str) -> None:
    """What a scorer returns is checked like what a judge replies: one NaN would spoil every mean."""
    with pytest.raises(Rejected, match=message):
        _score(name, judged_turn())


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("name", ["f1", "recall_at_3", "coherence", "groundedness_proxy"])
def test_scorer_with_a_name_of_ours(name: str) -> None:
    """A scorer never takes the place of a metric that is shipped, in code or as a prompt."""
    with pytest.raises(
        ConfigError, match=rf"^metrics\[3\]: metric '{name}' is brought by rag-monitor and by length-scorer; rename"
    ):
        coded(name, where="metrics[3]")
