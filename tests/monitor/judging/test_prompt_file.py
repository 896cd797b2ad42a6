"""Prompt files: what they may say, and how a mistake is told."""

from collections.abc import Callable
from pathlib import Path

import pytest

from monitor.assets import asset_dir
from monitor.errors import ConfigError
from monitor.judging.prompt_file import locate, read

_NO_SCORE = """{"name": "x", "strict": true,
"schema": {"type": "object", "additionalProperties": false, "required": [], "properties": {}}}"""
SHIPPED = sorted(path.stem for path in asset_dir("prompts").glob("*.md"))


@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_prompt(name: str) -> None:
    """Every shipped prompt is read without complaint, and its id is its file's name."""
    prompt = read(locate(name))
    assert name == prompt.front.id
    assert prompt.front.placeholders_required <= prompt.system.names | prompt.user.names


def test_groundedness_and_relevance_are_shipped() -> None:
    """The default metrics have their prompts."""
    assert {"groundedness", "relevance"} <= set(SHIPPED)


def test_own_file(prompt_file: Callable[..., Path]) -> None:
    """A file of one's own works like a shipped one."""
    prompt = read(locate(str(prompt_file())))
    tone = prompt.front.metrics["tone"]
    assert ("tone", "score", "Tone") == (prompt.front.id, tone.reply, tone.title)
    assert [True, False] == [tone.defect(score) for score in (2, 3)]


@pytest.mark.parametrize(
    ("rule", "defects"),
    [("score_lt: 2", [1]), ("score_lte: 2", [1, 2]), ("score_gt: 3", [4, 5]), ("score_gte: 3", [3, 4, 5])],
)
def test_defect_rule(prompt_file: Callable[..., Path], rule: str, defects: list[int]) -> None:
    """Each kind of bound says which scores are defects."""
    defect = read(prompt_file(("score_lte: 2", rule))).front.metrics["tone"].defect
    assert defects == [score for score in range(1, 6) if defect(score)]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("---\nid", "id", "expected YAML front matter between two lines of ---"),
        ("id: tone", "id: [", "front matter is not YAML"),
        ("id: tone", "id: Tone of voice", "id: String should match pattern"),
        ("title: Tone\n", "", "title: Field required"),
        ("title: Tone", "titel: Tone", "titel: Extra inputs are not permitted"),
        ("[query, response]", "[question]", "needs.0: Input should be 'query', 'response', 'citations'"),
        ("min: 1, max: 5", "min: 5, max: 1", "min (5) must be below max (1)"),
        ("{score_lte: 2}", "{}", "expected exactly one of score_lt"),
        ("{score_lte: 2}", "{score_lte: 2, score_gt: 4}", "expected exactly one of score_lt"),
        ("schema: tone.schema.json", "schema: other.json", "schema: cannot read"),
        ("[fence, response]", "[fence, answer]", "no placeholder 'answer'; known: claim, context, document"),
        ("[fence, response]", "[fence, query]", "placeholders_required: {{query}} is not in the prompt"),
        ("{{response}}", "{{answer}}", ":18: no placeholder 'answer' here"),
        ("[system]\nYou", "You", "expected a line [system] and then a line [user]"),
        ("schema: tone.schema.json", "schema: null", "schema: expected null for claims, number, result, yes_no"),
        ("defect: {score_lte: 2}", "defect: {score_lte: 2}\nreply: number", "schema: expected null for claims, number"),
        ("defect: {score_lte: 2}", "defect: {label_in: [bad]}", "label_in belongs to reply: label"),
        ("defect: {score_lte: 2}", "defect: {score_lte: 2}\nreply: label", "label_in belongs to reply: label"),
        ("defect: {score_lte: 2}", "defect: {score_lte: 2}\nreply: ranking", "ranking: belongs to reply: ranking"),
        ("defect: {score_lte: 2}", "defect: {score_lte: 2}\nreply: severity", "severity runs from 0 to 7"),
        ("defect: {score_lte: 2}", "defect: {score_lte: 2}\nfield: inner", "needs a property 'inner.score'"),
        ("defect: {score_lte: 2}", "defect: {score_lte: 2}\napplies_if: sure", "needs a property 'sure'"),
        ("defect: {score_lte: 2}", "metrics: {}", "scale: Extra inputs are not permitted"),
        ("[user]\n", "[user]\n[user]\n", "expected a line [system] and then a line [user]"),
        ("You grade", "You grade {{response}}", "[system]: {{response}} is judged text and belongs in [user]"),
        ("defect:", "reply: sentences\ndefect:", "reply: sentences needs {{#sentences}}"),
    ],
)
def test_mistake(prompt_file: Callable[..., Path], old: str, new: str, message: str) -> None:
    """A mistake names the file, the key or line, what was found and what is allowed."""
    path = prompt_file((old, new))
    with pytest.raises(ConfigError) as caught:
        read(path)
    assert message in str(caught.value)
    assert str(path) in str(caught.value)


def test_data_without_a_fence(prompt_file: Callable[..., Path]) -> None:
    """Judged text must stand between fences."""
    path = prompt_file(("\n{{fence}}\n{{response}}\n{{fence}}\n", "\n{{response}}\n"))
    with pytest.raises(ConfigError, match=r"\[user\]: put judged text between two \{\{fence\}\} marks"):
        read(path)


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("{", "not JSON"),
        ("[]", "expected a mapping"),
        ("{}", 'expected {"name"'),
        (
            _NO_SCORE,
            "reply: score needs a property 'score'",
        ),
    ],
)
def test_bad_schema(prompt_file: Callable[..., Path], schema: str, message: str) -> None:
    """A schema that cannot be used is told with its file."""
    with pytest.raises(ConfigError) as caught:
        read(prompt_file(schema=schema))
    assert message in str(caught.value)
    assert "tone.schema.json" in str(caught.value)


def test_unknown_name() -> None:
    """An unknown name lists the shipped prompts."""
    with pytest.raises(ConfigError, match=r"no prompt 'groundednes'; known: .*groundedness.*, or the path"):
        locate("groundednes")


def test_missing_file(tmp_path: Path) -> None:
    """A path without a file is told as such."""
    with pytest.raises(ConfigError, match="cannot read the prompt: No such file"):
        read(locate(str(tmp_path / "none.md")))


def test_not_utf8(tmp_path: Path) -> None:
    """A file that is not UTF-8 is told as such."""
    (tmp_path / "tone.md").write_bytes(b"---\nid: \xff\n---\n")
    with pytest.raises(ConfigError, match="not UTF-8"):
        read(tmp_path / "tone.md")
