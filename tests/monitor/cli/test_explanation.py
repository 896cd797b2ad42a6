"""Everything stored about a turn, from a real store."""

import asyncio
import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner

from monitor.cli.explanation import Explanation, as_json, as_text, explanation_of
from monitor.cli.main import commands
from monitor.cli.replay import replay_recording
from monitor.errors import Rejected
from monitor.model.judgements import MEANINGS, Reason, Unscored, Verdict
from monitor.model.turns import Citation
from monitor.runtime.build import open_parts
from monitor.settings.tree import Settings
from monitor.store.sql_store import SqlStore, open_store

GOLDEN = Path(__file__).parents[2] / "golden" / "replay"
BEFORE_ALL = datetime(2026, 1, 1, tzinfo=UTC)


def settings(path: Path, **more: object) -> Settings:
    """Settings of a store in a file."""
    return Settings.model_validate({"store": {"url": f"sqlite:///{path}"}, **more})


def replayed(tree: Settings) -> None:
    """Put the golden recording into the store."""

    async def replay() -> None:
        async with open_parts(tree) as parts:
            await replay_recording(GOLDEN, parts, app="imported", now=BEFORE_ALL)

    asyncio.run(replay())


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store with 14 recorded turns, half of them drawn, in windows of six hours."""
    made = tmp_path_factory.mktemp("store") / "shop.db"
    replayed(settings(made, sample={"rate": 0.5}, rollup={"window": "6h"}))
    return made


@pytest.fixture
def store(path: Path) -> Iterator[SqlStore]:
    """The store, opened as `rag-monitor explain` does it, which does not know the length of its windows."""
    opened = open_store(f"sqlite:///{path}", migrate=False)
    yield opened
    opened.close()


def test_parts_belong_together(store: SqlStore) -> None:
    """Spans, turn, sampling, verdict and window are those of the turn asked for."""
    for turn in store.turns():
        found = explanation_of(turn.turn_id, store)
        assert turn == found.turn
        assert {turn.trace_id} == {span.trace_id for span in found.spans}
        assert turn.span_id in {span.span_id for span in found.spans}
        assert found.sampling is not None
        assert all(outcome.job.turn_id == turn.turn_id for outcome in found.outcomes)
        (window,) = found.windows
        assert window.start <= turn.started_at < window.end
        assert timedelta(hours=6) == window.end - window.start
        assert 14 == window.sums.turns


def test_json_is_one_line_with_fixed_keys(store: SqlStore) -> None:
    """For programs it is one object, whatever is stored."""
    for turn in store.turns():
        line = as_json(explanation_of(turn.turn_id, store))
        assert "\n" not in line
        tree = json.loads(line)
        assert ["spans", "turn", "sampling", "outcomes", "windows"] == list(tree)
        assert all(outcome["kind"] in {"verdict", "unscored"} for outcome in tree["outcomes"])


def test_text_tells_why_there_is_no_score(store: SqlStore) -> None:
    """A turn that was not drawn, one without an answer and one that was judged say so."""
    texts = [as_text(explanation_of(turn.turn_id, store)) for turn in store.turns()]
    assert any("not drawn: nobody judges it" in text for text in texts)
    assert any("no score: no_response" in text for text in texts)
    assert any(", a defect: " in text for text in texts)
    assert all("(root of the turn)" in text for text in texts)


def test_text_of_many_lines_stays_under_its_title(store: SqlStore) -> None:
    """Only titles begin a line."""
    for turn in store.turns():
        lines = as_text(explanation_of(turn.turn_id, store)).splitlines()
        titles = [line.split(":")[0] for line in lines if not line.startswith("  ")]
        assert {"Spans", "Turn", "Sampling", "Judged", "Window"} >= set(titles)


def test_beginning_of_an_id_is_enough(store: SqlStore) -> None:
    """An id may be cut as long as it is the only one that begins so."""
    turn = next(iter(store.turns()))
    assert turn == explanation_of(turn.turn_id[:12], store).turn


@pytest.mark.parametrize(("turn_id", "message"), [("zzz", "no turn has the id 'zzz'"), ("", "no turn has the id ''")])
def test_unknown_turn_is_refused(store: SqlStore, turn_id: str, message: str) -> None:
    """An id that names none is an error that says where ids are."""
    with pytest.raises(Rejected, match=message):
        explanation_of(turn_id, store)


def test_ambiguous_beginning_is_refused(store: SqlStore) -> None:
    """A beginning that several ids have is told as such."""
    firsts = [turn.turn_id[0] for turn in store.turns()]
    twice = next(first for first in firsts if firsts.count(first) > 1)
    with pytest.raises(Rejected, match=f"{firsts.count(twice)} turns begin with '{twice}'"):
        explanation_of(twice, store)


def test_pruned_turn_is_still_explained(tmp_path: Path) -> None:
    """Once text and spans are gone, the numbers are still told."""
    path = tmp_path / "pruned.db"
    replayed(settings(path))
    store = open_store(f"sqlite:///{path}", migrate=False)
    future = datetime(2100, 1, 1, tzinfo=UTC)
    while store.kept_text.prune(text_before=future, fragments_before=future, limit=1000):
        pass
    turn = next(turn for turn in store.turns() if store.outcomes(turn.turn_id))
    found = explanation_of(turn.turn_id, store)
    assert () == found.spans
    assert "Spans\n  nothing stored\n" in as_text(found)
    assert found.windows
    store.close()


def test_names_break_no_line(store: SqlStore) -> None:
    """Names of any length and content stand on their line; what was said is told whole."""
    found = explanation_of(next(iter(store.turns())).turn_id, store)
    odd = "a\n\x1b[2J" * 10_000
    long = "word " * 10_000 + "end"
    turn = replace(found.turn, app=odd, release=odd, model=odd, response=long)
    spans = tuple(replace(span, name=odd, scope=odd) for span in found.spans)
    printed = as_text(replace(found, turn=turn, spans=spans)).splitlines()
    assert f"  response: {long}" in printed
    assert all(line.isprintable() for line in printed)
    head = [line for line in printed if line.lstrip().startswith(("a", "app:", "release:", "model:"))]
    assert len(spans) + 3 == len(head)
    assert max(map(len, head)) < 300
    assert odd == json.loads(as_json(replace(found, turn=turn)))["turn"]["app"]


def test_user_ids_are_hidden_unless_asked_for(tmp_path: Path) -> None:
    """What the app sent as a user's id is shown as the turn's pseudonym, and as sent with `--user-ids`."""
    attributes = [
        {"key": key, "value": {"stringValue": value}}
        for key, value in (("input.value", "Why?"), ("output.value", "So."), ("user.id", "ann@example.org"))
    ]
    attributes.append({"key": "openinference.span.kind", "value": {"stringValue": "CHAIN"}})
    span = {
        "traceId": "0af7651916cd43dd8448eb211c80319c",
        "spanId": "b7ad6b7169203331",
        "name": "chat",
        "startTimeUnixNano": "1772366400000000000",
        "endTimeUnixNano": "1772366401000000000",
        "attributes": attributes,
    }
    body = {"resourceSpans": [{"scopeSpans": [{"spans": [span]}]}]}
    (tmp_path / "001.traces.json").write_text(json.dumps(body))
    url = f"sqlite:///{tmp_path / 'store.db'}"

    def called(*arguments: str) -> str:
        return CliRunner().invoke(commands, [*arguments, "--store", url], catch_exceptions=False).output

    called("replay", str(tmp_path / "001.traces.json"))
    turn = json.loads(called("turns", "--format", "jsonl"))
    shown = called("explain", turn["turn_id"], "--format", "jsonl")
    assert "ann@example.org" not in shown
    assert f"user:{turn['user_id']}" in shown
    assert "ann@example.org" in called("explain", turn["turn_id"], "--format", "jsonl", "--user-ids")
    assert "ann@example.org" not in called("explain", turn["turn_id"])
    assert "  user_id as sent: ann@example.org\n" in called("explain", turn["turn_id"], "--user-ids")


def test_text_of_user_ids_that_are_not_kept(store: SqlStore) -> None:
    """Where the spans are gone, so are the ids."""
    found = explanation_of(next(iter(store.turns())).turn_id, store)
    pruned = replace(found, turn=replace(found.turn, user_id="4f"), spans=(), user_ids=())
    assert "  user_id as sent: (not kept any more)\n" in as_text(pruned)


def _judged(store: SqlStore, outcome_type: type[Verdict] | type[Unscored]) -> Explanation:
    """A turn with exactly one outcome, of this type."""
    explanations = (explanation_of(turn.turn_id, store) for turn in store.turns())
    found = next(e for e in explanations if any(isinstance(o, outcome_type) for o in e.outcomes))
    return replace(found, outcomes=tuple(o for o in found.outcomes if isinstance(o, outcome_type))[:1])


@pytest.mark.parametrize("reason", list(Reason))
def test_text_says_what_a_reason_means(store: SqlStore, reason: Reason) -> None:
    """A turn without a score has more than a word for it, also where nobody gave a detail."""
    found = _judged(store, Unscored)
    (outcome,) = found.outcomes
    assert isinstance(outcome, Unscored)
    text = as_text(replace(found, outcomes=(replace(outcome, reason=reason, detail=""),)))
    assert f"  no score: {reason.value}: {MEANINGS[reason]}\n" in text


def test_text_of_a_defect_without_reason(store: SqlStore) -> None:
    """A judge that gave no reason is said to have given none."""
    found = _judged(store, Verdict)
    (outcome,) = found.outcomes
    assert isinstance(outcome, Verdict)
    finding = replace(outcome.finding, score=1.0, defect=True, reason="")
    assert "  score 1.0, a defect: no reason given\n" in as_text(
        replace(found, outcomes=(replace(outcome, finding=finding),))
    )


def test_text_marks_documents_that_the_model_did_not_see(store: SqlStore) -> None:
    """A document that was dropped stands there, and is no evidence."""
    found = explanation_of(next(iter(store.turns())).turn_id, store)
    citations = (Citation(id="a", content="A mill.", used=True), Citation(id="b", content="A pump.", used=False))
    lines = as_text(replace(found, turn=replace(found.turn, citations=citations))).splitlines()
    assert any(line.endswith("A mill.") for line in lines)
    assert any(line.endswith("A pump.  (not seen by the model)") for line in lines)
