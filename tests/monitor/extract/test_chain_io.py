"""What chains were asked and answered, out of free-form input and output."""

import pytest

from monitor.extract.chain_io import ChainInput, ChainOutput, chain_input, chain_output, clean_answer
from monitor.model.spans import AttributeValue
from monitor.model.turns import Message

HISTORY = (Message(role="user", content="Hi"), Message(role="assistant", content="Hello"))
LANGCHAIN = [{"type": "human", "data": {"content": "Hi"}}, {"type": "ai", "data": {"content": "Hello"}}]
PRINTED = [
    "ChatMessage(role=<MessageRole.USER: 'user'>, blocks=[TextBlock(text='Hi')])",
    "ChatMessage(role=<MessageRole.ASSISTANT: 'assistant'>, blocks=[TextBlock(text='Hello')])",
]
SPOKEN = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("Why?", id="text"),
        pytest.param({"question": "Why?", "history": []}, id="question"),
        pytest.param({"input": {"question": "Why?", "text": "other"}}, id="nested"),
        pytest.param({"input": '{"question": "Why?"}'}, id="json-in-json"),
        pytest.param({"args": ["Why?"], "kwargs": {}}, id="decorator"),
        pytest.param({"messages": [{"type": "human", "data": {"content": "Why?"}}]}, id="langgraph"),
        pytest.param({"message": {"role": "user", "content": "Why?"}}, id="message"),
        pytest.param({"query_bundle": {"query_str": "Why?", "embedding": None}}, id="llamaindex"),
        pytest.param(
            {"data": {"embedder": {"text": "no"}, "builder": {"query": "Why?", "template": ["x"]}}}, id="haystack"
        ),
        pytest.param([{"role": "system", "content": "x"}, {"role": "user", "content": "Why?"}], id="list"),
    ],
)
def test_the_question(value: AttributeValue) -> None:
    """The question is found in every shape."""
    assert "Why?" == chain_input(value).query


@pytest.mark.parametrize(
    "value",
    [
        {"question": "Why?", "chat_history": SPOKEN},
        {"input": "Why?", "chat_history": LANGCHAIN},
        {"messages": [*SPOKEN, {"role": "user", "content": "Why?"}]},
        {"question": "Why?", "history": "Human: Hi\nAI: Hello"},
        {"message": "Why?", "chat_history": PRINTED},
    ],
)
def test_the_history(value: AttributeValue) -> None:
    """What was said before is found beside the question or before it."""
    assert ("Why?", HISTORY) == (chain_input(value).query, chain_input(value).history)


def test_a_history_said_to_be_empty() -> None:
    """An empty list says that nothing came before; a lone message does not, for some apps keep history elsewhere."""
    assert ((), None) == (
        chain_input({"question": "Why?", "history": []}).history,
        chain_input({"messages": ["Why?"]}).history,
    )


def test_uncertain_sources() -> None:
    """Printed histories and keys that often hold templates are marked."""
    printed = chain_input({"question": "Why?", "history": "HumanMessage(content='Hi')"})
    assert (False, False) == (printed.history_certain, chain_input({"prompt": "Why?"}).query_certain)


def test_a_conversation_that_ends_with_an_answer() -> None:
    """Its last question was answered before, so that another place may hold the one that is asked now."""
    said = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Hello"}]
    found = chain_input({"messages": said})
    assert ("Hi", False, False, "Hello") == (found.query, found.query_certain, found.history_certain, found.last_answer)
    assert chain_input({"question": "Why?", "messages": said}).query_certain


def test_documents_handed_in() -> None:
    """DSPy's modules take the passages as an input field."""
    read = chain_input({"question": "Why?", "context": ["One.", "Two."]})
    assert ["One.", "Two."] == [citation.content for citation in read.documents]


@pytest.mark.parametrize(
    "value",
    [
        pytest.param("So.", id="text"),
        pytest.param({"answer": "So.", "sources": ["kb-9"]}, id="answer"),
        pytest.param({"output": {"content": "So."}}, id="nested"),
        pytest.param({"input": "Why?", "chat_history": [], "context": [], "answer": "So."}, id="langchain"),
        pytest.param(
            {"messages": [{"type": "human", "data": {"content": "Why?"}}, {"type": "ai", "data": {"content": "So."}}]},
            id="graph",
        ),
        pytest.param(
            [{"graph": None, "update": {"messages": [{"type": "ai", "data": {"content": "So."}}]}}], id="command"
        ),
        pytest.param({"choices": [{"index": 0, "message": {"role": "assistant", "content": "So."}}]}, id="openai"),
        pytest.param({"generations": [[{"text": "So.", "message": {"lc": 1}}]], "llm_output": {}}, id="generations"),
        pytest.param({"response": "So.", "source_nodes": ["<NodeWithScore()>"]}, id="llamaindex"),
        pytest.param({"retriever": {"documents": []}, "llm": {"replies": ["So."]}}, id="haystack-generator"),
        pytest.param("assistant: So.", id="speaker"),
        pytest.param("[[ ## reasoning ## ]]\nHm.\n\n[[ ## answer ## ]]\nSo.\n\n[[ ## completed ## ]]", id="dspy"),
    ],
)
def test_the_answer(value: AttributeValue) -> None:
    """The answer is found in every shape."""
    assert "So." == chain_output(value).response


def test_a_conversation_that_ends_with_the_question() -> None:
    """An earlier answer is not the answer."""
    assert chain_output({"messages": [*SPOKEN, {"role": "user", "content": "Why?"}]}).response is None


@pytest.mark.parametrize(
    "text", ["", "  ", "null", "None", "<generator object>", "<async_generator object f at 0x7f>", "__REDACTED__"]
)
def test_what_is_no_answer(text: str) -> None:
    """Placeholders of streaming, of nothing and of privacy switches are no answers."""
    assert clean_answer(text) is None


def test_an_unknown_shape() -> None:
    """An output in which no answer is found is kept as compact JSON, for want of better."""
    assert ChainOutput(shapeless='{"ok":true,"rows":[1,2]}') == chain_output({"rows": [1, 2], "ok": True})


def test_nothing() -> None:
    """Nothing says nothing."""
    assert (ChainInput(), ChainOutput()) == (chain_input(None), chain_output(None))


def test_printed_messages_in_a_list() -> None:
    """Messages that a framework printed one by one are messages, not questions."""
    printed = "content='Why?' additional_kwargs={} response_metadata={}"
    assert "Why?" == chain_input({"messages": [printed]}).query


PREVIEW = (
    "Stop(result=Output(response=ChatMessage(role=<MessageRole.ASSISTANT: 'assistant'>, blocks=[TextBlock(text='So"
)


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        (PREVIEW + ".')])))", ChainOutput(response="So.", certain=False)),
        (PREVIEW + "...", ChainOutput(shapeless=PREVIEW + "...")),
        ("Prediction(\n    reasoning='r',\n    answer='So.'\n)", ChainOutput(response="So.", certain=False)),
        ("Input(messages=[AIMessage(content='Hi'), HumanMessage(content='Wh...", None),
        ("Input(messages=[AIMessage(content='Hi'), HumanMessage(content='Why?')])", None),
        ("Use Frame(rows=1) for that.", ChainOutput(response="Use Frame(rows=1) for that.")),
    ],
)
def test_a_printed_object(printed: str, expected: ChainOutput | None) -> None:
    """An object that was printed answers with its last message if a model said it, or a field; a preview with none."""
    assert (expected or ChainOutput(shapeless=printed)) == chain_output(printed)


def test_a_history_of_lines() -> None:
    """A list of texts that all say who speaks."""
    assert HISTORY == chain_input({"question": "Why?", "history": ["user: Hi", "assistant: Hello"]}).history


def test_messages_beside_a_question() -> None:
    """What was said before may be called messages; a question that stands among them is no history."""
    assert HISTORY == chain_input({"question": "Why?", "messages": SPOKEN}).history
    assert chain_input({"question": "Why?", "messages": [{"role": "user", "content": "Why?"}]}).history is None


@pytest.mark.parametrize("key", ["task", "user_msg", "user_prompt"])
def test_what_agents_call_a_question(key: str) -> None:
    """Agents are given a task or a user's message."""
    assert "Why?" == chain_input({key: "Why?", "stream": False, "reset": True}).query


def test_candidates() -> None:
    """Of Gemini's candidates the first answers."""
    value = {"candidates": [{"content": {"parts": [{"text": "So."}], "role": "model"}, "finish_reason": "STOP"}]}
    assert "So." == chain_output(value).response


def test_printed_messages() -> None:
    """The last one answers if a model said it; a prompt that was built is no answer."""
    prompt = "messages=[SystemMessage(content='Be brief.'), HumanMessage(content='Why?')]"
    assert ChainOutput() == chain_output(prompt)
    assert ChainOutput(response="So.", certain=False) == chain_output("content='So.' additional_kwargs={} id='run-1'")


def test_names_as_javascript_writes_them() -> None:
    """Keys in camel case hold the same."""
    found = chain_input({"userQuery": "Why?", "chatHistory": [{"role": "user", "content": "Hi"}]})
    assert ("Why?", "Hi") == (found.query, found.history[0].content if found.history else None)
    made = chain_output({"finalAnswer": "So.", "sourceDocuments": [{"pageContent": "T", "metadata": {"docId": "d"}}]})
    assert ("So.", [("d", "T")]) == (made.response, [(c.id, c.content) for c in made.documents or ()])
