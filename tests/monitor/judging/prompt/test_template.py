"""Templates."""

import pytest

from monitor.errors import ConfigError
from monitor.judging.prompt.template import parse


def test_values_and_lists() -> None:
    """Values are inserted, lists are written item by item with access to values around them."""
    template = parse("{{query}}:{{#documents}} <{{id}} {{fence}}>{{/documents}}", where="p.md")
    assert "Q: <1 F> <2 F>" == template.render({"query": "Q", "fence": "F"}, {"documents": [{"id": "1"}, {"id": "2"}]})
    assert {"query", "documents", "fence"} == template.names


def test_inserted_text_is_never_read_as_a_template() -> None:
    """Braces, percent signs and tags in a value come out as they went in."""
    hostile = "{{query}} {{#documents}} {0.__class__} {context} %s ${x} {{{fence}}}"
    template = parse("[{{response}}]{{#documents}}[{{content}}]{{/documents}}", where="p.md")
    assert f"[{hostile}][{hostile}]" == template.render({"response": hostile}, {"documents": [{"content": hostile}]})


def test_section_over_a_value() -> None:
    """A section over a value is left out when the value is empty or missing."""
    template = parse("a{{#history}} {{history}}{{/history}} b", where="p.md")
    assert ["a H b", "a b", "a b"] == [template.render(v, {}) for v in ({"history": "H"}, {"history": ""}, {})]


def test_tag_alone_on_its_line() -> None:
    """A line with nothing but a section's tag leaves no empty line."""
    template = parse("a\n{{#sentences}}\n({{n}}) {{text}}\n{{/sentences}}\nb\n", where="p.md")
    assert "a\n(1) x\n(2) y\nb\n" == template.render(
        {}, {"sentences": [{"n": "1", "text": "x"}, {"n": "2", "text": "y"}]}
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("ok\n{{answer}}", "p.md:8: no placeholder 'answer' here; known: claim, context"),
        ("{{id}}", "p.md:7: no placeholder 'id' here"),
        ("{{#docs}}{{/docs}}", "p.md:7: no placeholder 'docs' here; known: claim, context"),
        ("{{#documents}}\n{{text}}", "p.md:8: no placeholder 'text' here"),
        ("{{#documents}}", "{{#documents}} is not closed"),
        ("{{#documents}}\n{{#sentences}}{{/sentences}}{{/documents}}", "p.md:8: {{#sentences}} stands in another list"),
        ("{{/documents}}", "p.md:7: {{/documents}} closes 'nothing'"),
        ("{{#documents}}{{/sentences}}", "p.md:7: {{/sentences}} closes 'documents'"),
        ("a }} b", "p.md:7: '}}' belongs to no placeholder"),
        ("a {{ b", "p.md:7: '{{' belongs to no placeholder"),
    ],
)
def test_mistake(text: str, message: str) -> None:
    """A mistake in a template names the file, the line and what is known."""
    with pytest.raises(ConfigError) as caught:
        parse(text, where="p.md", line=7)
    assert message in str(caught.value)
