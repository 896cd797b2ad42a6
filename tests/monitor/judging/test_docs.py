"""docs/metrics.md says what the prompt files say."""

import re
from pathlib import Path

import pytest

from monitor.judging.coded.lex5 import THRESHOLD
from monitor.judging.coded.registry import NAMES
from monitor.judging.prompt.file import locate, read, shipped
from monitor.judging.prompt.front_matter import DefectSettings, MetricSettings, PromptSettings
from monitor.model.judgements import Reason

PAGE = (Path(__file__).parents[3] / "docs" / "metrics.md").read_text(encoding="utf-8")
SECTIONS = dict(re.findall(r"^#### `(\w+)`\n\n(.*?)(?=^#|\Z)", PAGE, re.MULTILINE | re.DOTALL))


@pytest.mark.parametrize("file", shipped())
def test_shipped_file(file: str) -> None:
    """Every shipped file has its title, its source, and a row for each metric with scale, defect rule and needs."""
    front = read(locate(file)).front
    assert SECTIONS[file].startswith(f"{front.title}. Source: {front.source}.\n")
    rows = [line for line in SECTIONS[file].splitlines() if line.startswith("| `")]
    assert len(front.metrics) == len(rows)
    for (name, metric), row in zip(front.metrics.items(), rows, strict=True):
        scale = "label" if metric.reply == "label" else f"{metric.scale.min:g} to {metric.scale.max:g}"
        needs = ", ".join(sorted(front.needs if metric.needs is None else metric.needs))
        estimate = " (estimate)" if metric.estimate else ""
        assert f"| `{name}`{estimate} | {scale} | {metric.defect.words} | {needs} |" == row


def test_no_other_file() -> None:
    """No file is described that is not shipped."""
    assert set(shipped()) == SECTIONS.keys()


def test_ways_of_reading() -> None:
    """Every way of reading a reply is in the table, and no other."""
    ways = MetricSettings.model_fields["reply"].annotation
    listed = re.findall(r"^\| `(\w+)` \| ", PAGE.split("| reply | what it must be")[1].split("\n\n")[0], re.MULTILINE)
    assert set(getattr(ways, "__args__", ())) == set(listed)


def test_computed_in_code() -> None:
    """Every measure computed in code is in the table, with the proxy and its threshold."""
    for name in NAMES:
        assert f"| `{name}` | {'label' if name == 'refusal_proxy' else '0 to 1'} | " in PAGE
    assert f"| `groundedness_proxy` | 0 to 1 | < {THRESHOLD:g} | " in PAGE


def test_reasons() -> None:
    """Reasons that the page names exist."""
    named = {"no_context", "no_ground_truth", "no_claims", "unreadable", "truncated", "refused", "content_filter"}
    assert named | {"not_supported", "budget"} <= {reason.value for reason in Reason}
    assert all(f"`{name}`" in PAGE for name in named)


def test_own_prompt_file(tmp_path: Path) -> None:
    """The file that the page shows, with its schema, is one that can be used, and its tables name every key."""
    (prompt,) = re.findall(r"^```markdown\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    (schema,) = re.findall(r"^```json\n(.*?)^```", PAGE, re.MULTILINE | re.DOTALL)
    (tmp_path / "tone.md").write_text(prompt, encoding="utf-8")
    (tmp_path / "tone.schema.json").write_text(schema, encoding="utf-8")
    assert "tone" == read(tmp_path / "tone.md").front.id
    assert all(f"`{key}`" in PAGE for key in PromptSettings.model_fields)
    assert all(f"`{key}`" in PAGE for key in DefectSettings.model_fields)
