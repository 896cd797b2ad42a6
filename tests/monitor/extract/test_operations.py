"""What free-form inputs and outputs say, by the role of the operation."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from monitor.extract.messages import ParsedMessage
from monitor.extract.operations import (
    DecodedValue,
    answering_model,
    decoded_value,
    function_input,
    model_input,
    model_output,
    operation_input,
    step_with_io,
)
from monitor.model.spans import AttributeValue, Role, Step
from monitor.model.turns import Message

if TYPE_CHECKING:
    from tests.monitor.conftest import Make

HI: dict[str, AttributeValue] = {"role": "user", "content": "Hi"}
HELLO: dict[str, AttributeValue] = {"role": "assistant", "content": "Hello"}
BEFORE = (Message(role="user", content="Hi"), Message(role="assistant", content="Hello"))
AI: dict[str, AttributeValue] = {
    "lc": 1,
    "type": "constructor",
    "id": ["langchain", "AIMessage"],
    "kwargs": {"content": "So."},
}


def step(make: Make, role: Role, given: AttributeValue = None, made: AttributeValue = None) -> Step:
    """A step that is told its input and output."""
    empty = Step(span=make.span(1, {}, name="find"), role=role, dialect="test")
    return step_with_io(empty, decoded_value(given), decoded_value(made))


@pytest.mark.parametrize(
    ("raw", "value"),
    [
        ("Why?", DecodedValue("Why?")),
        ('"Why?"', DecodedValue("Why?")),
        ('{"a": 1}', DecodedValue({"a": 1})),
        ("{'a': None, 'b': (1,)}", DecodedValue({"a": None, "b": [1]})),
        ("[kb-1] says so", DecodedValue("[kb-1] says so")),
        ("__REDACTED__", DecodedValue()),
        ('{"a": "bro', DecodedValue({"a": "bro"}, "bro")),
        (["a"], DecodedValue(["a"])),
    ],
)
def test_a_value(raw: AttributeValue, value: DecodedValue) -> None:
    """JSON and printed containers are read, any other text stays as it is."""
    assert value == decoded_value(raw)


@pytest.mark.parametrize(
    ("args", "kwargs"),
    [
        (["Why?", [HI, HELLO]], {}),
        (["Rag", "Why?", [["human", "Hi"], ["ai", "Hello"]]], {}),
        (["<app.Rag object at 0x7f>", "Why?", [HI, HELLO]], {}),
        ([], {"query": "Why?", "history": [HI, HELLO]}),
        ([{"question": "Why?", "chat_history": [HI, HELLO]}], {}),
        ([[HI, HELLO, {"role": "user", "content": "Why?"}]], {}),
    ],
)
def test_arguments(args: list[AttributeValue], kwargs: dict[str, AttributeValue]) -> None:
    """The question and what came before are found wherever a decorated function takes them."""
    read = function_input(args, kwargs)
    assert ("Why?", BEFORE) == (read.query, read.history)


def test_arguments_without_history() -> None:
    """An empty list beside the question says that nothing came before; no list says nothing."""
    assert ((), None) == (function_input(["Why?", []], {}).history, function_input(["Why?"], {}).history)


def test_arguments_alone() -> None:
    """JavaScript's SDKs write a function's arguments as a list, in which the messages are the history."""
    assert ("Why?", BEFORE) == (
        operation_input(["Why?", [HI, HELLO]]).query,
        operation_input(["Why?", [HI, HELLO]]).history,
    )
    assert ("Why?", ()) == (operation_input(["Why?", []]).query, operation_input(["Why?", []]).history)
    assert "Why?" == operation_input(["human", "Why?"]).query


def test_a_state_passed_on(make: Make) -> None:
    """A chain that returns the conversation it was given answered nothing."""
    read = step(make, Role.CHAIN, {"messages": [HI, HELLO]}, {"messages": [HI, HELLO]})
    assert {"query", "history", "response"} == read.unsure


def test_a_single_word() -> None:
    """One word is the question when there is no other text."""
    assert "Returns" == function_input(["Returns"], {}).query


def test_documents_are_no_question() -> None:
    """A step that is handed documents is not asked their text."""
    read = operation_input([{"id": "d", "page_content": "Text.", "metadata": {}}])
    assert (None, "Text.") == (read.query, read.documents[0].content if read.documents else None)


@pytest.mark.parametrize(
    "value",
    [
        [HI],
        {"messages": [HI], "model": "m"},
        {"messages": [[{"lc": 1, "id": ["HumanMessage"], "kwargs": {"content": "Hi"}}]]},
        {"input": "Hi", "model": "m"},
        {"input": [HI]},
        {"prompts": ["Hi"]},
        {"contents": [{"role": "user", "parts": [{"text": "Hi"}]}]},
        {"args": [], "kwargs": {"messages": [HI]}},
        {"args": [[HI]], "kwargs": {}},
        {"query": "Hi"},
        "Hi",
    ],
)
def test_a_prompt(value: AttributeValue) -> None:
    """Providers' request bodies, message lists and plain prompts read the same."""
    assert [("user", "Hi")] == [(m.role, m.content) for m in model_input(value)]


def test_instructions() -> None:
    """Instructions beside the messages are the system's."""
    assert (ParsedMessage("system", "Be kind."), ParsedMessage("user", "Hi")) == model_input(
        {"system": "Be kind.", "messages": [HI]}
    )


@pytest.mark.parametrize(
    "value",
    [
        "Hello",
        HELLO,
        {"choices": [{"message": HELLO}, {"message": {"role": "assistant", "content": "Hey"}}]},
        {"generations": [[{"text": "Hello", "generation_info": {}}]]},
        {"generations": [[{"text": "Hello", "message": {**AI, "kwargs": {"content": "Hello"}}}]]},
        {"id": "resp_1", "output": [{"type": "reasoning"}, {"type": "message", **HELLO}]},
        {"content": [{"type": "text", "text": "Hello"}], "stop_reason": "end_turn"},
        {"candidates": [{"content": {"role": "model", "parts": [{"text": "Hello"}]}}]},
        {"output": "Hello"},
        {"messages": [HELLO]},
    ],
)
def test_a_completion(value: AttributeValue) -> None:
    """Providers' replies and frameworks' results read the same."""
    assert ["Hello"] == [m.content for m in model_output(value) if m.content]


def test_a_call_of_tools(make: Make) -> None:
    """A reply that only asks for tools has no text."""
    reply: dict[str, AttributeValue] = {
        "choices": [{"message": {"role": "assistant", "content": None, "tool_calls": [{"id": "c", "function": {}}]}}]
    }
    read = step(make, Role.LLM, [HI], reply)
    assert (None, 1) == (read.output, read.tool_calls)


def test_a_model_call(make: Make) -> None:
    """The body of a request and of its reply name the models, the id and whether it streams."""
    read = step(
        make,
        Role.LLM,
        {"model": "m", "stream": True, "messages": [HI]},
        {"id": "chatcmpl-1", "model": "m-2", "choices": [{"message": HELLO}]},
    )
    assert ("m", "m-2", "chatcmpl-1", True, "Hello", (Message(role="user", content="Hi"),)) == (
        read.request_model,
        read.model,
        read.response_id,
        read.streaming,
        read.output,
        read.messages,
    )


def test_a_chain(make: Make) -> None:
    """A chain's input and output are its question and answer."""
    read = step(make, Role.CHAIN, {"question": "Why?", "history": [HI, HELLO]}, {"answer": "So."})
    assert ("Why?", BEFORE, "So.") == (read.query, read.history, read.response)


def test_a_chain_that_returns_documents(make: Make) -> None:
    """A list of documents is no answer."""
    read = step(make, Role.CHAIN, "Why?", [{"id": "d", "content": "Text.", "score": 0.5}])
    assert (None, "d") == (read.response, read.documents[0].id if read.documents else None)


def test_a_cut_input(make: Make) -> None:
    """A question that an attribute limit cut is flagged."""
    read = step(make, Role.CHAIN, '{"question": "How lo', "So.")
    assert ("How lo", frozenset({"truncated", "input_truncated"})) == (read.query, read.flags)


@pytest.mark.parametrize(
    ("given", "query"),
    [("Why?", "Why?"), ({"query": "Why?"}, "Why?"), ({"str_or_query_bundle": "Why?"}, "Why?"), ({"k": 4}, None)],
)
def test_a_retrieval(make: Make, given: AttributeValue, query: str | None) -> None:
    """What was searched for is found also under a name nobody has heard of."""
    read = step(make, Role.RETRIEVAL, given, [])
    assert (query, ()) == (read.retrieval_query, read.documents)


def test_a_retrieval_that_failed(make: Make) -> None:
    """A retrieval without an output did not find nothing."""
    assert step(make, Role.RETRIEVAL, "Why?").documents is None


@pytest.mark.parametrize(
    "made",
    [
        [{"id": "d", "text": "Text.", "score": 1}],
        {"output": {"documents": [{"id": "d", "text": "Text."}]}},
        {"type": "tool", "content": '[{"id": "d", "text": "Text."}]', "artifact": None},
        {"lc": 1, "id": ["ToolMessage"], "kwargs": {"type": "tool", "content": '[{"id": "d", "text": "Text."}]'}},
        {"blocks": [], "tool_name": "find", "raw_input": {"kwargs": {}}, "raw_output": [{"id": "d", "text": "Text."}]},
        {"output": 'content=\'[{"id": "d", "text": "Text."}]\' name=\'find\' tool_call_id=\'c\'', "kwargs": {}},
    ],
)
def test_a_tool(make: Make, made: AttributeValue) -> None:
    """A tool's result is looked into for documents, whatever is put around it."""
    read = step(make, Role.TOOL, {"query": "Why?"}, made)
    assert ("find", "Why?", "d") == (read.tool, read.retrieval_query, read.documents[0].id if read.documents else None)


@pytest.mark.parametrize(
    ("given", "query"), [(["Why?"], "Why?"), ({"input": "Why?"}, "Why?"), (["a", "b"], None), ({"texts": ["a"]}, "a")]
)
def test_an_embedding(make: Make, given: AttributeValue, query: str | None) -> None:
    """A single text that was embedded is what somebody searched for; several are a corpus."""
    assert query == step(make, Role.EMBEDDING, given).retrieval_query


def test_the_maker_in_the_reply_of_a_provider() -> None:
    """The reply that stands beside a message names the model."""
    assert "m-1" == answering_model(
        {"message": {"role": "assistant", "content": "So."}, "raw": {"id": "c", "model": "m-1"}}
    )
    assert answering_model({"message": {"role": "assistant", "content": "So."}, "raw": None}) is None


def test_the_maker_of_a_message() -> None:
    """LangChain notes the model with the message; an earlier turn's message does not count."""
    noted: dict[str, AttributeValue] = {**AI, "kwargs": {"content": "So.", "response_metadata": {"model_name": "m-2"}}}
    assert ("m-2", None, None) == (
        answering_model({"messages": [HI, noted]}),
        answering_model({"messages": [noted, HI]}),
        answering_model({"messages": [noted]}, only=True),
    )


def test_langchains_generations(make: Make) -> None:
    """The model stands in the run's own output, or in the message; LlamaIndex keeps the provider's reply whole."""
    message: AttributeValue = {"type": "ai", "content": "So.", "response_metadata": {"model_name": "m-2"}}
    generations: AttributeValue = [[{"text": "So.", "message": message}]]
    assert "m-2" == step(make, Role.LLM, made={"generations": generations, "llm_output": None}).model
    assert "m-3" == step(make, Role.LLM, made={"generations": generations, "llm_output": {"model_name": "m-3"}}).model
    raw: AttributeValue = {"id": "r-1", "model": "m-4", "usage": {"prompt_tokens": 3, "completion_tokens": 2}}
    read = step(make, Role.LLM, made={"message": {"role": "assistant", "content": "So."}, "raw": raw})
    assert ("So.", "m-4", "r-1", 3, 2) == (
        read.output,
        read.model,
        read.response_id,
        read.input_tokens,
        read.output_tokens,
    )


def test_a_model_that_was_only_asked_for(make: Make) -> None:
    """A span may repeat the requested model as the one that answered; the reply knows better."""
    empty = Step(span=make.span(1, {}), role=Role.LLM, dialect="test", model="m", request_model="m")
    assert ["m-2", "m"] == [
        step_with_io(empty, decoded_value(None), decoded_value(made)).model for made in ({"model": "m-2"}, {})
    ]
    assert (
        "m-1" == step_with_io(replace(empty, model="m-1"), decoded_value(None), decoded_value({"model": "m-2"})).model
    )
