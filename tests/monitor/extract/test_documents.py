"""Retrieved documents in all their shapes."""

import json

import pytest

from monitor.extract.documents import documents
from monitor.model.spans import AttributeValue
from monitor.model.turns import Citation

ONE = Citation(id="kb-1", title="Fees", content="Five euros.", score=0.5, source="fees.md", rank=1)
PRINTED_PAIR = (
    "[Document(metadata={'id': 'kb-1'}, page_content='The mill is run by the Berger family.'), "
    "Document(metadata={'id': 'kb-2'}, page_content='It has stood there since 1650.')]"
)
META = {"title": "Fees", "source": "fees.md"}


@pytest.mark.parametrize(
    "value",
    [
        pytest.param([{"id": "kb-1", "content": "Five euros.", "score": 0.5, "metadata": META}], id="openinference"),
        pytest.param(
            [{"id": "kb-1", "content": "Five euros.", "score": 0.5, "metadata": json.dumps(META)}], id="json-metadata"
        ),
        pytest.param(
            {"documents": [{"id": "kb-1", "page_content": "Five euros.", "metadata": {**META, "score": 0.5}}]},
            id="langchain",
        ),
        pytest.param(
            [{"lc": 1, "kwargs": {"id": "kb-1", "page_content": "Five euros.", "metadata": {**META, "score": 0.5}}}],
            id="langchain-lc",
        ),
        pytest.param(
            [{"node": {"id_": "kb-1", "text": "Five euros.", "metadata": META}, "score": 0.5}], id="llamaindex"
        ),
        pytest.param(
            [json.dumps({"node": {"id_": "kb-1", "text": "Five euros.", "metadata": META}, "score": 0.5})],
            id="json-in-json",
        ),
        pytest.param([[{"id": "kb-1", "page_content": "Five euros.", "metadata": META}, 0.5]], id="with-score"),
        pytest.param([{"document": {"id": "kb-1", "content": "Five euros.", **META}, "score": 0.5}], id="wrapped"),
        pytest.param([{"doc_id": "kb-1", "passage": "Five euros.", "score": "0.5", **META}], id="other-names"),
        pytest.param([{"id": "kb-1", "score": 0.5, "payload": {"text": "Five euros.", **META}}], id="qdrant"),
    ],
)
def test_one_document(value: AttributeValue) -> None:
    """Every shape reads as the same citation."""
    assert (ONE,) == documents(value).citations


def test_columns_of_a_vector_store() -> None:
    """Chroma's parallel lists read as documents whose number is a distance."""
    value: AttributeValue = {
        "ids": [["a", "b"]],
        "documents": [["One.", "Two."]],
        "distances": [[0.1, 0.9]],
        "metadatas": None,
    }
    expected = (
        Citation(id="a", content="One.", score=0.1, score_kind="distance", rank=1),
        Citation(id="b", content="Two.", score=0.9, score_kind="distance", rank=2),
    )
    assert expected == documents(value).citations


@pytest.mark.parametrize(
    ("key", "kind"),
    [("relevance_score", "similarity"), ("certainty", "similarity"), ("distance", "distance"), ("score", "unknown")],
)
def test_what_a_score_means(key: str, kind: str) -> None:
    """The key tells whether more is better, if anything does."""
    assert kind == documents([{"id": "a", "content": "x", key: 0.3}]).citations[0].score_kind


def test_a_score_that_is_no_number() -> None:
    """NaN never becomes a score."""
    assert documents([{"id": "a", "content": "x", "score": float("nan")}]).citations[0].score is None


def test_nothing_found() -> None:
    """An empty list is a retrieval that found nothing."""
    assert () == documents([]).citations


def test_broken_metadata() -> None:
    """Metadata that cannot be read costs only itself, and is marked."""
    read = documents([{"id": "a", "content": "x", "metadata": '{"page": 2'}])
    assert (True, "a") == (read.damaged, read.citations[0].id)


@pytest.mark.parametrize("value", ["plain text", '{"stock": 3}', [1, 2], {"answer": "x"}, [{"name": "a"}], None, 5])
def test_what_is_no_document(value: AttributeValue) -> None:
    """Tool results of another shape are no documents."""
    assert documents(value) is None


def test_texts_count_where_documents_are_expected() -> None:
    """A list of plain texts is documents only where the convention says so."""
    assert (None, "Five euros.") == (
        documents(["Five euros."]),
        documents(["Five euros."], trusted=True).citations[0].content,
    )


def test_ids_count_where_documents_are_expected() -> None:
    """GenAI's retrieval spans give ids and scores, and the score may be null."""
    assert (Citation(id="kb-1", rank=1),) == documents([{"id": "kb-1", "score": None}], trusted=True).citations


def test_printed_documents() -> None:
    """Of printed documents id and score are read; their text is a preview."""
    printed: AttributeValue = [
        "<NodeWithScore(node=TextNode(id_=kb-1), score=0.62)>",
        "Document(id=kb-2, content: 'The pump is...', meta: {'title': 'x'}, score: 0.3)",
    ]
    assert (Citation(id="kb-1", score=0.62, rank=1), Citation(id="kb-2", score=0.3, rank=2)) == documents(
        printed
    ).citations


@pytest.mark.parametrize(
    "printed",
    [
        (
            "[Document(id='k', metadata={'title': \"It's\", 'score': 0.5}, page_content='A mill, Document(1)'), "
            "Document(page_content='B')]"
        ),
        [
            "page_content='A mill, Document(1)' metadata={'id': 'k', 'title': \"It's\", 'score': 0.5}",
            "page_content='B'",
        ],
    ],
)
def test_printed_lists(printed: AttributeValue) -> None:
    """LangChain's documents are printed in two ways; quotation marks, commas and names inside texts are text."""
    found = documents(printed, trusted=True)
    assert found is not None
    first, second = found.citations
    assert ("k", "It's", "A mill, Document(1)", 0.5) == (first.id, first.title, first.content, first.score)
    assert (None, "B") == (second.id, second.content)


def test_sources_that_are_objects() -> None:
    """A list of sources holds documents when its elements are objects with content, else only names."""
    found = documents({"relevantContext": [{"text": "A"}], "sources": [{"id": "a", "metadata": {"text": "A"}}]})
    assert found is not None
    assert [("a", "A")] == [(citation.id, citation.content) for citation in found.citations]
    assert documents({"sources": ["a.pdf"]}) is None


@pytest.mark.parametrize("trusted", [True, False])
def test_messages_are_no_documents(trusted: bool) -> None:  # noqa: FBT001 -- both ways of asking
    """Messages have an id and a text as well; nobody retrieved them."""
    constructed: AttributeValue = {
        "lc": 1,
        "id": ["langchain", "schema", "messages", "HumanMessage"],
        "kwargs": {"content": "Why?", "id": "m-1"},
    }
    for message in (constructed, {"role": "user", "content": "Why?", "id": "m-1"}, {"type": "ai", "content": "So."}):
        assert documents([message], trusted=trusted) is None


@pytest.mark.parametrize(
    "text",
    [
        "[kb-1] The mill is run by the Berger family.\n\n[kb-2] It has stood there since 1650.",
        (
            "Source: {'id': 'kb-1'}\nContent: The mill is run by the Berger family.\n\n"
            "Source: {'id': 'kb-2'}\nContent: It has stood there since 1650."
        ),
        (
            "[{'id': 'kb-1', 'content': 'The mill is run by the Berger family.', 'score': None}, "
            "{'id': 'kb-2', 'content': 'It has stood there since 1650.'}]"
        ),
        (
            "doc_id: kb-1\ntitle: Mill\n\nThe mill is run by the Berger family.\n\n"
            "doc_id: kb-2\n\nIt has stood there since 1650."
        ),
        f"content='gone' name='find' artifact={PRINTED_PAIR}",
        "content='[kb-1] The mill is run by the Berger family.\\n\\n[kb-2] It has stood there since 1650.' name='find'",
    ],
)
def test_texts_for_a_model(text: str) -> None:
    """Tools write down for a model what they found, and frameworks print the tool's message."""
    found = documents(text)
    assert found is not None
    assert [("kb-1", "The mill is run by the Berger family."), ("kb-2", "It has stood there since 1650.")] == [
        (citation.id, citation.content) for citation in found.citations
    ]


@pytest.mark.parametrize(
    "text",
    ["[ERROR] The index could not be reached, so nothing was found.", "The mill is run by [1] the family of Berger."],
)
def test_remarks_are_no_documents(text: str) -> None:
    """A level in brackets, or a label in the middle of a sentence."""
    assert documents(text) is None


def test_content_in_parts() -> None:
    """Content may be a list of parts."""
    found = documents([{"content": [{"text": "A"}, {"text": "B"}], "metadata": {"id": "a"}}], trusted=True)
    assert found is not None
    assert [("a", "A\nB")] == [(citation.id, citation.content) for citation in found.citations]


def test_a_score_beside_a_distance() -> None:
    """The score is what the app went by; a distance counts where there is none."""
    found = documents(
        [{"id": "a", "text": "A", "score": 0.7, "distance": 0.3}, {"id": "b", "text": "B", "distance": 0.3}]
    )
    assert found is not None
    assert [(0.7, "unknown"), (0.3, "distance")] == [(c.score, c.score_kind) for c in found.citations]


def test_elements_and_files_in_a_text() -> None:
    """Each element, and each text after the name of a file, is a document."""
    marked_up = (
        '<document id="kb-1"><title>Pumps</title><document_content>Pumps are covered.</document_content></document>\n'
        '<document id="kb-2">Shipping takes a day.</document>'
    )
    read = documents(marked_up)
    assert read is not None
    assert [("kb-1", "Pumps", "Pumps are covered."), ("kb-2", None, "Shipping takes a day.")] == [
        (citation.id, citation.title, citation.content) for citation in read.citations
    ]
    read = documents("a b.pdf#page=1: Pumps are covered.\nfaq.md: Shipping takes a day: always.")
    assert read is not None
    assert [("a b.pdf#page=1", "Pumps are covered."), ("faq.md", "Shipping takes a day: always.")] == [
        (citation.id, citation.content) for citation in read.citations
    ]
    assert documents("Write to ada@example.com. It is free: always, and for everybody.") is None


@pytest.mark.parametrize("text", ["[ Document(", "[ Document(page_content='a", "[\nDocument(id=1)]"])
def test_printed_list_that_does_not_begin_as_one(text: str) -> None:
    """A space behind the bracket makes no list of it, and no fault either."""
    assert documents(text, trusted=True) is None
