"""Where a prompt introduces a document by its id."""

import pytest

from monitor.assembly.document_labels import introduced_at


@pytest.mark.parametrize(
    ("text", "identity"),
    [
        ("see Source: kb", "kb"),
        ("see source = [kb", "kb"),
        ('{"doc_id" : "kb', "kb"),
        ("see \\'fileName\\': kb", "kb"),
        ("see chunk #(kb", "kb"),
        ("an ID: 12 is", "12"),
        ("- [document kb-1 of", "kb-1"),
        ("is (kb) one", "kb"),
    ],
)
def test_labelled(text: str, identity: str) -> None:
    """A word for a document or its id, or brackets on both sides, introduce what follows."""
    found = introduced_at(identity, text)
    assert found is not None
    assert text.index(identity) == found.start()


@pytest.mark.parametrize(
    ("text", "identity"),
    [
        ("the resource: kb", "kb"),
        ("the source : x kb", "kb"),
        ("the profile9file: kb", "kb"),
        ("see document: 12 of", "12"),
        ("an id# 12 is", "12"),
        ("see : kb and", "kb"),
    ],
)
def test_in_running_text(text: str, identity: str) -> None:
    """Part of another word is no label, nothing stands between label and id, and a number must be called an id."""
    assert introduced_at(identity, text) is None
