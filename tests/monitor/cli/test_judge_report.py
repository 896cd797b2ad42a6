"""What `rag-monitor judge` prints, apart from the numbers."""

from rich.console import Console

from monitor.cli.judge_report import agreement_table, second_opinion_table
from monitor.detection.judge_agreement import SecondOpinionSummary
from monitor.judging.trials.labelled import Measured
from monitor.model.judgements import SecondOpinionKind
from monitor.statistics.agreement import agreement

ODD = "[/red]\n\x1b[2J" + "x" * 100_000


def test_names_spoil_no_table() -> None:
    """A group of a file and a model's name are text: no markup, one line, and cut where they are too long."""
    of = agreement([(True, True), (False, False)])
    summary = SecondOpinionSummary(
        kind=SecondOpinionKind.REPEAT,
        metric="groundedness",
        rubric_id="r",
        model=ODD,
        fingerprint="",
        agreement=of,
        shift=None,
        shift_lower=None,
        shift_upper=None,
    )
    group = Measured(group=f"lang={ODD}", agreement=of, area=None, unscored={})
    for table in (agreement_table("groundedness", [group]), second_opinion_table([summary])):
        console = Console(width=1000)
        with console.capture() as capture:
            console.print(table)
        lines = capture.get().splitlines()
        assert 6 == len(lines)
        assert max(map(len, lines)) < 250
        assert any(r"[/red]\n\x1b[2Jxxx" in line for line in lines)
