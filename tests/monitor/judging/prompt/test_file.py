"""Prompt files: what they may say, and how a mistake is told."""

from collections.abc import Callable
from pathlib import Path

import pytest

from monitor.assets import asset_dir
from monitor.errors import ConfigError
from monitor.judging.prompt.file import locate, read

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
    ("old", "new", "line", "message"),
    [
        ("---\nid", "id", 1, "expected YAML front matter between two lines of ---"),
        ("id: tone", "id: [", 4, "front matter is not YAML"),
        ("id: tone", "id: \x07", 2, "front matter is not YAML: special characters are not allowed"),
        ("id: tone", "id: 2026-13-45", 2, "front matter is not YAML: a value that cannot be read"),
        ("id: tone", f"id: {'[' * 5000}{']' * 5000}", 2, "front matter is not YAML: a value that cannot be read"),
        ("id: tone", "- tone", 3, "front matter is not YAML"),
        ("title: Tone", "title: Tone\nid: other", 5, "id is there twice, first on line 2"),
        ("id: tone", "id: Tone of voice", 2, "id: String should match pattern"),
        ("title: Tone\n", "", 1, "title: Field required"),
        ("title: Tone", "title: Tone\ntitel: Tone", 5, "titel: no such key; known: id, version, title, source, needs"),
        ("{type: integer", "{typ: integer", 6, "scale.typ: no such key; known: type, min, max"),
        ("[query, response]", "[question]", 5, "needs.0: Input should be 'query', 'response', 'citations'"),
        ("min: 1, max: 5", "min: 5, max: 1", 6, "scale: min (5) must be below max (1)"),
        ("{score_lte: 2}", "{}", 7, "defect: expected exactly one of score_lt"),
        ("{score_lte: 2}", "{score_lte: 2, score_gt: 4}", 7, "expected exactly one of score_lt"),
        ("{score_lte: 2}", "{score_lte: 5}", 1, "defect: <= 5 makes every score from 1 to 5 a defect"),
        ("{score_lte: 2}", "{score_lt: 1}", 1, "defect: < 1 makes no score from 1 to 5 a defect"),
        ("schema: tone.schema.json", "schema: other.json", 8, "schema: cannot read"),
        ("schema: tone.schema.json", "schema: ../other.json", 8, "schema: expected the name of a file beside"),
        ("schema: tone.schema.json", 'schema: ""', 8, "schema: expected the name of a file beside"),
        ("[fence, response]", "[fence, answer]", 9, "no placeholder 'answer'; known: claim, context, document"),
        ("[fence, response]", "[fence, context]", 9, "placeholders_required: {{context}} is not in the prompt"),
        ("{{response}}", "{{answer}}", 21, "no placeholder 'answer' here"),
        ("[system]\nYou", "You", 11, "expected a line [system] and then a line [user]"),
        ("schema: tone.schema.json", "schema: null", 1, "schema: expected null for claims, number, result, yes_no"),
        ("defect: {", "reply: number\ndefect: {", 1, "schema: expected null for claims, number"),
        ("defect: {score_lte: 2}", "defect: {label_in: [bad]}", 1, "label_in belongs to reply: label"),
        ("defect: {", "reply: label\ndefect: {", 1, "label_in belongs to reply: label"),
        ("defect: {", "reply: ranking\ndefect: {", 1, "ranking: belongs to reply: ranking"),
        ("defect: {", "reply: severity\ndefect: {", 1, "severity runs from 0 to 7"),
        ("defect: {", "cap: {field: x, score: 9}\ndefect: {", 1, "cap: score: expected a number from 1 to 5"),
        ("defect: {", "field: inner\ndefect: {", 9, "needs a property 'inner.score'"),
        ("defect: {", "applies_if: sure\ndefect: {", 9, "needs a property 'sure'"),
        ("defect: {score_lte: 2}", "metrics: {}", 6, "scale: no such key; known: id, version, title"),
        ("max: 5}", "max: 4}", 8, "the schema allows 5, the scale runs from 1 to 4"),
        ("[user]\n", "[user]\n[user]\n", 11, "expected a line [system] and then a line [user]"),
        ("You grade", "You grade {{response}}", 12, "[system]: {{response}} is judged text and belongs in [user]"),
        ("defect: {", "reply: sentences\ndefect: {", 14, "reply: sentences needs {{#sentences}}"),
        (
            "defect: {score_lte: 2}\nschema: tone.schema.json",
            "reply: claims\ndefect: {score_lte: 2}\nschema: null",
            14,
            "reply: claims needs {{claim}}",
        ),
        ("{{query}}\n", "", 5, "needs: query is not shown to the judge: put {{query}} in [user]"),
        ("[query, response]", "[query]", 5, "{{response}} is in [user], so needs must name response"),
        ("{{query}}", "{{query}} {{ground_truth}}", 5, "so needs must name ground_truth"),
        ("{{fence}}\n{{response}}\n{{fence}}", "{{response}}", 13, "{{response}} stands outside"),
        ("{{response}}\n{{fence}}\n", "{{response}}\n", 13, "a mark is left open"),
        ("{{#documents}}\n", "{{#documents}}{{fence}}\n", 13, "{{id}} stands outside"),
    ],
)
def test_mistake(prompt_file: Callable[..., Path], old: str, new: str, line: int, message: str) -> None:
    """A mistake names the file and the line, the key, what was found and what is allowed."""
    path = prompt_file((old, new))
    with pytest.raises(ConfigError) as caught:
        read(path)
    (told,) = [told for told in str(caught.value).splitlines() if message in told]
    assert told.startswith(f"{path}:{line}: ")


def test_claims_know_no_history(tmp_path: Path) -> None:
    """A prompt that is asked claim by claim would find other placeholders empty, so they are refused."""
    path = tmp_path / "claims.md"
    shipped = locate("claim_check").read_text(encoding="utf-8")
    path.write_text(shipped.replace("{{query}}", "{{history}}"), encoding="utf-8")
    with pytest.raises(ConfigError, match=r"no \{\{history\}\} with reply: claims; known: claim, document"):
        read(path)


def test_all_mistakes_of_the_head(prompt_file: Callable[..., Path]) -> None:
    """Several mistakes are told at once, each with its own line."""
    path = prompt_file(("version: 1", "version: one"), ("[query, response]", "[answer]"), ("min: 1", "min: low"))
    with pytest.raises(ConfigError) as caught:
        read(path)
    assert [f"{path}:3", f"{path}:5", f"{path}:6"] == [
        told[: told.index(": ")] for told in str(caught.value).split("\n")
    ]


def test_aliases(prompt_file: Callable[..., Path]) -> None:
    """A head that repeats itself by aliases without end is refused at once."""
    bomb = "title: &a {x: 1}\nsource: &b {x: *a, y: *a}\n" + "".join(
        f"k{n}: &c{n} {{x: *{f'c{n - 1}' if n else 'b'}, y: *{f'c{n - 1}' if n else 'b'}}}\n" for n in range(40)
    )
    path = prompt_file(("title: Tone\n", bomb))
    with pytest.raises(ConfigError, match="more than 100000 values with every alias"):
        read(path)


def test_byte_order_mark(prompt_file: Callable[..., Path]) -> None:
    """A file that an editor began with a byte order mark is read like another."""
    path = prompt_file()
    before = read(path)
    path.write_text(path.read_text(encoding="utf-8"), encoding="utf-8-sig")
    assert before.text == read(path).text


def test_labels(prompt_file: Callable[..., Path]) -> None:
    """A label that no judge can give would never be a defect, so it is refused."""
    schema = """{"name": "x", "strict": true, "schema": {"type": "object", "additionalProperties": false,
    "required": ["reason", "label"], "properties": {"reason": {"type": "string"}, "label": {"type": "string"%s}}}}"""
    rule = ("{score_lte: 2}", "{label_in: [rude]}\nreply: label")
    assert read(prompt_file(rule, schema=schema % ', "enum": ["rude", "kind"]')).front.metrics["tone"].defect.label_in
    for enum, message in (
        (', "enum": ["Rude"]', "defect: no label 'rude'; known: Rude"),
        ("", "label: expected an enum"),
    ):
        with pytest.raises(ConfigError, match=message):
            read(prompt_file(rule, schema=schema % enum))


@pytest.mark.parametrize(
    ("schema", "message"),
    [
        ("{", ":1: not JSON: Expecting property name"),
        ('{"a": 1,\n"b" 2}', ":2: not JSON: Expecting ':'"),
        ("[" * 100_000, "not JSON"),
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
    """An unknown name is told with the nearest that is shipped."""
    with pytest.raises(ConfigError, match=r"^no prompt file 'groundednes'; did you mean 'groundedness'\?$"):
        locate("groundednes")


@pytest.mark.parametrize(
    ("former", "present"),
    [("seed_groundedness", "published_groundedness"), ("seed_spring_relevancy", "spring_relevancy")],
)
def test_former_name(former: str, present: str) -> None:
    """A name that a file had before is told with its present one, and a name that none had like any other."""
    with pytest.raises(ConfigError, match=rf"^no prompt file '{former}'; it is called '{present}' now$"):
        locate(former)
    with pytest.raises(ConfigError, match=r"^no prompt file 'seed_safety'; did you mean 'safety'\?$"):
        locate("seed_safety")


def test_missing_file(tmp_path: Path) -> None:
    """A path without a file is told as such."""
    with pytest.raises(ConfigError, match="cannot read the prompt: No such file"):
        read(locate(str(tmp_path / "none.md")))


def test_not_utf8(tmp_path: Path) -> None:
    """A file that is not UTF-8 is told as such."""
    (tmp_path / "tone.md").write_bytes(b"---\nid: \xff\n---\n")
    with pytest.raises(ConfigError, match="not UTF-8"):
        read(tmp_path / "tone.md")
