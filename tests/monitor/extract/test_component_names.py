"""What names of components tell."""

from __future__ import annotations

import pytest

from monitor.extract.component_names import role_by_name
from monitor.model.spans import Role


@pytest.mark.parametrize(
    ("name", "role"),
    [
        ("retrieve", Role.RETRIEVAL),
        ("retrieve_documents", Role.RETRIEVAL),
        ("retrieveDocs", Role.RETRIEVAL),
        ("KBRetriever", Role.RETRIEVAL),
        ("kb_search", Role.RETRIEVAL),
        ("vector-search", Role.RETRIEVAL),
        ("app.Rag.retrieve", None),
        ("retriever_node", Role.RETRIEVAL),
        ("LLMRerank", Role.RERANK),
        ("rerank", Role.RERANK),
        ("ReRanker", Role.RERANK),
        ("OpenAIEmbedding", Role.EMBEDDING),
        ("embed_query", Role.EMBEDDING),
        ("retrieval_chain", None),
        ("RetrieverQueryEngine", None),
        ("retrieve_and_answer", None),
        ("search_agent", None),
        ("researcher", None),
        ("generate", None),
        ("rewrite_search_query", None),
        ("RunnableSequence", None),
        ("", None),
        ("検索", None),
    ],
)
def test_names(name: str, role: Role | None) -> None:
    """Words tell, wherever they stand; a word for something larger or else outweighs them."""
    assert role is role_by_name(name)
