"""What a team changes between releases, as properties of few values to slice turns by.

Read by a span's dialect, or seen in the spans that retrieved: how was searched, for how many, where, in whose
embedding, in which words, with which prompt, and in which languages people ask and are answered.
"""

from __future__ import annotations

import hashlib
import re
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence

from monitor.assembly.model_calls import Call
from monitor.assembly.prompt_question import flat
from monitor.assembly.segment import SEARCHES, Segment
from monitor.extract.attributes import finite, text
from monitor.extract.convention import FacetKeys
from monitor.model.spans import Attributes, Role, Span, Step
from monitor.model.turns import Citation
from monitor.text.languages import FUNCTION_WORDS, script

_MOST = 24
_LONGEST = 64
_RETRIEVING = SEARCHES | {Role.DB}
_LOOKED_AT = 16
"""Spans that searched, and documents, that are looked at."""
_SAMPLE = 1000
_SPOKEN = 400
"""Characters that tell a language."""
_NAMES = 200
_TOP_K = re.compile(
    r"(?:^|[._])(?:top_?k|n_results|num_results|num_contexts|similarity_top_k|top_n)$|^k$", re.IGNORECASE
)
_TOP_K_ARGUMENT = re.compile(
    r"\"(?:top_?k|n_results|num_results|similarity_top_k|top_n|k)\\?\"\s*:\s*(\d{1,4})\b", re.IGNORECASE
)
_INDEX = re.compile(
    r"(?:^|[._])(?:collection[._]?name|index[._]?name|collection|index_id|data_source\.id)$", re.IGNORECASE
)
_INDEX_EMBEDDING = re.compile(r"(?:^|[._])(?:index[._])?embedding[._]model$")
_SEARCH_TYPES = (
    ("hybrid", re.compile(r"hybrid", re.IGNORECASE)),
    ("fusion", re.compile(r"fusion|\brrf\b|ensemble", re.IGNORECASE)),
    ("keyword", re.compile(r"bm25|keyword|tf_?idf|full_?text|sparse|lexical", re.IGNORECASE)),
    ("vector", re.compile(r"vector|embedding|dense|similarity|knn|semantic", re.IGNORECASE)),
)
_TRANSLATIONS = (
    ("hyde", re.compile(r"hyde|hypothetical", re.IGNORECASE)),
    ("decomposition", re.compile(r"sub_?quer|sub_?question|decompos", re.IGNORECASE)),
    ("augmentation", re.compile(r"multi_?quer|expan(?:d|sion)|rag_?fusion", re.IGNORECASE)),
    ("rewriting", re.compile(r"rewrit|rephras|condens|standalone|contextualiz", re.IGNORECASE)),
)
_SCRIPTS = {"kana": "ja", "hangul": "ko", "han": "zh", "greek": "el", "hebrew": "he", "thai": "th"}
_WORD = re.compile(r"[^\W\d_]+")
_FEWEST_WORDS, _SURE_SHARE = 3, 0.2
_IMAGE = "[image]"
_HYPOTHETICAL = 3
"""How many times longer than the question a made-up answer is that was searched for."""
_HYPOTHETICAL_LENGTH = 160


def facets(
    segment: Segment,
    answer: Call | None,
    *,
    model: str | None,
    query: str | None,
    response: str | None,
    citations: Sequence[Citation],
) -> Mapping[str, str]:
    """Return the facets of a turn; what a span's dialect reads counts before what its names and attributes show."""
    facets = dict(_of_dialects(segment, answer))
    keys = segment.rules.facet_keys
    searched = [s for s in segment.steps if s.role in _RETRIEVING or _is_search(s)][:_LOOKED_AT]
    seen = (
        ("model", model),
        ("search_type", _search_type(segment, searched)),
        ("top_k", _top_k(searched, keys)),
        ("index", _first(searched, _INDEX.search)),
        ("reranker", next((_reranker(s.span, keys) for s in segment.steps if s.role is Role.RERANK), None)),
        ("query_translation", _translation(segment, query)),
        ("sub_queries", _sub_queries(segment)),
        ("query_embedding_model", _embedding_model(segment)),
        ("index_embedding_model", _index_embedding_model(searched, keys)),
        ("prompt_template", _template(segment, answer)),
        ("query_language", _language(query)),
        ("response_language", _language(response)),
        ("documents_language", _language(" ".join(c.content or "" for c in citations[:_LOOKED_AT]))),
        ("has_image", "true" if _has_image(answer, query) else None),
    )
    for facet, value in seen:
        if value is not None and len(value) <= _LONGEST and len(facets) < _MOST:
            facets.setdefault(facet, value)
    return facets


def _of_dialects(segment: Segment, answer: Call | None) -> Iterator[tuple[str, str]]:
    """Of the root, then of the answering span, then of the others; the first word counts."""
    answering = answer.span if answer is not None else None
    steps = [step for step in segment.steps if step.role is not Role.EMBEDDING]
    known: set[str] = set()
    for step in sorted(steps, key=lambda step: (step is not segment.root, step.span is not answering)):
        for facet, value in step.facets.items():
            if facet not in known and len(known) < _MOST and len(value) <= _LONGEST:
                known.add(facet)
                yield facet, value


def _search_type(segment: Segment, searched: Sequence[Step]) -> str | None:
    """What the names of retrievals say; keyword and vector side by side are hybrid; an embedded query is a vector."""
    if not searched:
        return None
    keys = segment.rules.facet_keys
    seen = {kind for step in searched if (kind := _kind(step.span, keys)) is not None}
    for kind in ("hybrid", "fusion"):
        if kind in seen:
            return kind
    if len(seen) > 1:
        return "hybrid"
    if seen:
        return next(iter(seen))
    return "vector" if any(step.role is Role.EMBEDDING for step in segment.steps) else None


def _kind(span: Span, keys: FacetKeys) -> str | None:
    names = f"{span.name} {' '.join(str(span.attributes.get(key, ''))[:_SAMPLE] for key in keys.component)}"
    return next((kind for kind, pattern in _SEARCH_TYPES if pattern.search(names)), None)


def _top_k(searched: Sequence[Step], keys: FacetKeys) -> str | None:
    """Of the spans that searched; elsewhere the same word means how a model samples."""
    for step in searched:
        for key, value in step.span.attributes.items():
            number = finite(value) if _TOP_K.search(key) else None
            if number is not None and number > 0:
                return str(int(number))
        for key in keys.arguments:
            arguments = step.span.attributes.get(key)
            match = _TOP_K_ARGUMENT.search(arguments[:_SAMPLE]) if isinstance(arguments, str) else None
            if match is not None:
                return match[1]
    return None


def _index_embedding_model(searched: Sequence[Step], keys: FacetKeys) -> str | None:
    return _first(searched, lambda key: _INDEX_EMBEDDING.search(key) or key.rpartition(".")[2] in keys.index_embedding)


def _first(searched: Sequence[Step], is_key: Callable[[str], object]) -> str | None:
    """The value of the first attribute whose key fits, in the first span where it says something."""
    return next((value for step in searched if (value := _value(step.span.attributes, is_key))), None)


def _value(attributes: Attributes, is_key: Callable[[str], object]) -> str | None:
    return next((text(attributes, key) for key in attributes if is_key(key)), None)


def _reranker(span: Span, keys: FacetKeys) -> str:
    """A reranker by its model, else by its class or name."""
    return text(span.attributes, *keys.reranker) or span.name.partition(".")[0]


def _translation(segment: Segment, query: str | None) -> str | None:
    """How the question became what was searched for: by comparing the two, and by names of spans where they differ."""
    searched = _searched(segment)
    plain = flat(query).casefold() if query is not None else None
    if not searched or searched == (plain,):
        return None if not searched else "none"
    names = " ".join(node.span.name for node in segment.nodes[:_NAMES] if node.span is not None)
    translation = next((kind for kind, pattern in _TRANSLATIONS if pattern.search(names)), None)
    if translation is not None or plain is None:
        return translation
    if any(plain in text for text in searched):
        return "augmentation"
    return "decomposition" if len(searched) > 1 else _reworded(searched[0], plain)


def _reworded(searched: str, plain: str) -> str:
    """A made-up answer is much longer than the question and is none itself."""
    long = len(searched) >= max(_HYPOTHETICAL_LENGTH, _HYPOTHETICAL * len(plain))
    return "hyde" if long and not searched.endswith("?") else "rewriting"


def _is_search(step: Step) -> bool:
    """A tool that gave documents."""
    return step.role is Role.TOOL and step.documents is not None


def _searched(segment: Segment) -> tuple[str, ...]:
    """The distinct texts that were searched for."""
    steps = segment.searches or tuple(s for s in segment.steps if _is_search(s) and s.retrieval_query)
    return tuple(dict.fromkeys(flat(step.retrieval_query or "").casefold() for step in steps))


def _sub_queries(segment: Segment) -> str | None:
    number = len(_searched(segment))
    return str(number) if number > 1 else None


def _embedding_model(segment: Segment) -> str | None:
    embedded = [step for step in segment.steps if step.role is Role.EMBEDDING]
    return next((model for step in embedded if (model := step.model or step.request_model)), None)


def _template(segment: Segment, answer: Call | None) -> str | None:
    """A name, or eight characters that change with the template's text."""
    calls = [answer] if answer is not None else segment.calls[-1:]
    for span in [call.span for call in calls] or segment.spans:
        template = text(span.attributes, *segment.rules.facet_keys.prompt_template)
        if template is not None:
            is_name = len(template) <= _LONGEST and "\n" not in template and "{" not in template
            digest = hashlib.blake2b(template.encode("utf-8", "replace"), digest_size=4)
            return template if is_name else digest.hexdigest()
    return None


def _has_image(answer: Call | None, query: str | None) -> bool:
    message = (answer.last_user or "") if answer is not None else ""
    return _IMAGE in message or _IMAGE in (query or "")


def _language(sentence: str | None) -> str | None:
    """A language's code, else the name of a script that several are written in; None for too little text."""
    sample = (sentence or "")[:_SPOKEN]
    letters = script(sample) if sample.strip() else None
    if letters != "latin":
        return letters if letters is None else _SCRIPTS.get(letters, letters)
    words = [word.lower() for word in _WORD.findall(sample)]
    if len(words) < _FEWEST_WORDS:
        return None
    counts = Counter(language for word in words for language in _SPEAKING.get(word, ()))
    likely = counts.most_common(1)
    return likely[0][0] if likely and likely[0][1] >= _SURE_SHARE * len(words) else None


_SPEAKING = {
    word: tuple(language for language, words in FUNCTION_WORDS.items() if word in words)
    for word in frozenset().union(*FUNCTION_WORDS.values())
}
"""The languages that a function word occurs in."""
