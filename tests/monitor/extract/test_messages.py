"""Chat messages in all their shapes."""

import pytest

from monitor.extract.messages import (
    ParsedMessage,
    before_last_user,
    conversation,
    messages_of,
    prompt_messages,
    text_of,
)
from monitor.model.spans import AttributeValue
from monitor.model.turns import Message

ASKED_AND_ANSWERED = (("user", "Why?"), ("assistant", "Because."))
HUMAN = {"type": "human", "data": {"content": "Why?", "additional_kwargs": {}, "type": "human", "id": None}}
AI = {"type": "ai", "data": {"content": "Because.", "type": "ai", "tool_calls": []}}


def constructed(name: str, content: str) -> AttributeValue:
    """LangChain's serialised message."""
    return {
        "lc": 1,
        "type": "constructor",
        "id": ["langchain", "schema", "messages", name],
        "kwargs": {"content": content},
    }


@pytest.mark.parametrize(
    "value",
    [
        pytest.param([{"role": "user", "content": "Why?"}, {"role": "assistant", "content": "Because."}], id="openai"),
        pytest.param([HUMAN, AI], id="langchain-data"),
        pytest.param({"messages": [HUMAN, AI]}, id="langchain-state"),
        pytest.param([constructed("HumanMessage", "Why?"), constructed("AIMessage", "Because.")], id="langchain-lc"),
        pytest.param(
            [[constructed("HumanMessage", "Why?"), constructed("AIMessage", "Because.")]], id="langchain-batch"
        ),
        pytest.param([["human", "Why?"], ["ai", "Because."]], id="langchain-tuples"),
        pytest.param(
            [{"type": "human", "content": "Why?"}, {"type": "ai", "content": "Because."}], id="langchain-flat"
        ),
        pytest.param(
            [
                {"role": "user", "parts": [{"type": "text", "content": "Why?"}]},
                {"role": "model", "parts": [{"text": "Because."}]},
            ],
            id="parts",
        ),
        pytest.param(
            [
                {"role": "user", "content": [{"type": "input_text", "text": "Why?"}]},
                {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Because."}]},
            ],
            id="responses",
        ),
        pytest.param(
            [
                {"role": "user", "blocks": [{"block_type": "text", "text": "Why?"}]},
                {"role": "assistant", "blocks": [{"block_type": "text", "text": "Because."}]},
            ],
            id="llamaindex",
        ),
        pytest.param([{"question": "Why?", "answer": "Because."}], id="pairs-of-names"),
        pytest.param([["Why?", "Because."]], id="pairs"),
        pytest.param('[{"role": "user", "content": "Why?"}, {"role": "assistant", "content": "Because."}]', id="json"),
        pytest.param("messages=[{'question': 'Why?', 'answer': 'Because.'}]", id="dspy-repr"),
        pytest.param(
            [
                "ChatMessage(role=<MessageRole.USER: 'user'>, additional_kwargs={}, blocks=[TextBlock(text='Why?')])",
                "ChatMessage(role=<MessageRole.ASSISTANT: 'assistant'>, blocks=[TextBlock(text='Because.')])",
            ],
            id="llamaindex-repr",
        ),
        pytest.param(
            "[HumanMessage(content='Why?', additional_kwargs={}), AIMessage(content='Because.', id='content=')]",
            id="langchain-repr",
        ),
        pytest.param(
            "ChatMessage(_role=<ChatRole.USER: 'user'>, _content=[TextContent(text='Why?')], _name=None, _meta={}) "
            "ChatMessage(_role=<ChatRole.ASSISTANT: 'assistant'>, _content=[TextContent(text='Because.')], _name=None, "
            "_meta={'model': 'm', 'content': 'text=5'})",
            id="haystack-repr",
        ),
    ],
)
def test_a_question_and_its_answer(value: AttributeValue) -> None:
    """Every shape reads as the same two messages."""
    assert ASKED_AND_ANSWERED == tuple((message.role, message.content) for message in messages_of(value))


def test_reprs_are_uncertain() -> None:
    """What was read out of a printed object is marked, since it may be a shortened preview."""
    assert (False, True) == (messages_of("HumanMessage(content='Why?')")[0].certain, messages_of("Why?")[0].certain)


def test_a_question_about_code_is_no_repr() -> None:
    """A person may write about `Text(text='...')` without being taken for a printed object."""
    question = "Why does Text(text='hi') print nothing?"
    assert (ParsedMessage("user", question),) == messages_of(question)


def test_plain_text_takes_the_role_of_its_place() -> None:
    """Text without a role is the user's in an input and the assistant's in an output."""
    assert (ParsedMessage("assistant", "5 EUR."),) == messages_of("5 EUR.", default_role="assistant")


def test_media_become_markers() -> None:
    """No image, audio or file is kept, only that there was one."""
    parts: AttributeValue = [
        {"type": "text", "text": "What is it?"},
        {"type": "image_url", "image_url": {"url": "data:image/png;base64,iVBORw0KGgo"}},
        {"type": "blob", "modality": "audio", "mime_type": "audio/wav", "content": "AAAA"},
        {"type": "uri", "uri": "https://files.example/a.pdf"},
    ]
    assert "What is it?\n[image]\n[audio]\n[file]" == text_of(parts)


@pytest.mark.parametrize("key", ["mime_type", "media_type", "mediaType", "mimeType"])
def test_files_that_are_images(key: str) -> None:
    """A file part is what its type says, in any spelling."""
    part = {"type": "file", key: "image/png", "data": "iVBORw0KGgo="}
    assert "What is it?\n[image]" == text_of([{"type": "text", "text": "What is it?"}, part])


def test_base64_inside_text() -> None:
    """A data URI in running text becomes a marker too."""
    assert "See ![x]([image])." == text_of("See ![x](data:image/png;base64,iVBORw0KGgo=).")


def test_reasoning_is_not_what_was_said() -> None:
    """A model's thoughts are neither its answer nor anybody's message."""
    assert "Yes." == text_of([{"type": "reasoning", "content": "Hm."}, {"type": "text", "content": "Yes."}])


@pytest.mark.parametrize(
    "message",
    [
        {"role": "assistant", "content": None, "tool_calls": [{"id": "1"}, {"id": "2"}]},
        {"role": "assistant", "parts": [{"type": "tool_call", "name": "a"}, {"type": "tool_call", "name": "b"}]},
        {"role": "assistant", "content": [{"type": "tool_use", "name": "a"}, {"type": "tool_use", "name": "b"}]},
    ],
)
def test_tool_calls_are_counted(message: AttributeValue) -> None:
    """A message that asks for tools says so, in every provider's words."""
    assert (ParsedMessage("assistant", "", 2),) == messages_of(message)


def test_tool_results_are_the_tools_words() -> None:
    """Anthropic and GenAI put tool results into a message of the user; they are not the user's question."""
    message: AttributeValue = {
        "role": "user",
        "parts": [{"type": "tool_call_response", "id": "1", "response": "3 left"}],
    }
    assert (ParsedMessage("tool", "3 left"),) == messages_of(message)


def test_a_tool_by_its_name() -> None:
    """A role nobody has heard of is the tool's when a call was just made, else whoever speaks there."""
    called: dict[str, AttributeValue] = {"role": "assistant", "content": "", "tool_calls": [{"id": "c"}]}
    found: dict[str, AttributeValue] = {"role": "search_kb", "content": "[]"}
    asks: dict[str, AttributeValue] = {"role": "user", "content": "Why?"}
    assert ["user", "assistant", "tool", "tool"] == [m.role for m in messages_of([asks, called, found, found])]
    assert ["user", "user"] == [m.role for m in messages_of([asks, found])]


def test_a_whole_run_in_one_message() -> None:
    """Tool results among the parts of an assistant's message are not what it said."""
    parts = [
        {"type": "text", "content": "Because."},
        {"type": "tool_call", "id": "c"},
        {"type": "tool_call_response", "id": "c", "response": [{"text": "found"}]},
    ]
    assert (ParsedMessage("assistant", "Because.", 1),) == messages_of([{"role": "assistant", "parts": parts}])


def test_lost_content_keeps_its_place() -> None:
    """A user's message without content stays, so that an earlier one is not taken for the question."""
    messages = messages_of(
        [{"role": "user", "content": "First?"}, {"role": "assistant", "content": "Yes."}, {"role": "user", "parts": []}]
    )
    assert (Message(role="user", content=""), "") == (
        prompt_messages(messages)[-1],
        before_last_user(messages)[1].content,
    )


def test_history_is_what_user_and_assistant_said() -> None:
    """System prompts, tool traffic and empty messages are no history."""
    messages = messages_of(
        [
            {"role": "system", "content": "Be kind."},
            {"role": "user", "content": "Why?"},
            {"role": "assistant", "content": "", "tool_calls": [{}]},
            {"role": "tool", "content": "found"},
            {"role": "assistant", "content": "Because."},
        ]
    )
    assert (Message(role="user", content="Why?"), Message(role="assistant", content="Because.")) == conversation(
        messages
    )


def test_redacted_content_is_absent() -> None:
    """What a privacy switch replaced reads as nothing."""
    assert () == messages_of("__REDACTED__")


def test_endless_nesting() -> None:
    """Nesting beyond reason reads as nothing."""
    value: AttributeValue = "deep"
    for _ in range(50):
        value = [value]
    assert () == messages_of(value)


@pytest.mark.parametrize(
    ("printed", "role"),
    [
        ("content='x' additional_kwargs={} response_metadata={} id='7'", "user"),
        ("content='x' additional_kwargs={} response_metadata={'model_name': 'm'} id='7'", "assistant"),
        ("content='x' name='search' id='7' tool_call_id='call_1'", "tool"),
    ],
)
def test_printed_messages_without_a_class(printed: str, role: str) -> None:
    """LangChain's `str` of a message names no class; what only a model's or a tool's message has tells its role."""
    assert (role, "x") == (messages_of(printed)[0].role, messages_of(printed)[0].content)


def test_the_content_of_gemini() -> None:
    """Gemini's content is parts with a role of their own; calls, results and thoughts are told by their keys."""
    answer = {"content": {"role": "model", "parts": [{"text": "So.", "inline_data": None}]}, "index": 0}
    call = {"role": "model", "parts": [{"text": None, "function_call": {"name": "search", "args": {"q": "x"}}}]}
    result = {"role": "user", "parts": [{"functionResponse": {"name": "search", "response": {"found": 1}}}]}
    thought = {"role": "model", "parts": [{"text": "hm", "thought": True}, {"text": "So."}]}
    assert (
        ParsedMessage("assistant", "So."),
        ParsedMessage("assistant", "", 1),
        ParsedMessage("tool", '{"found":1}'),
        ParsedMessage("assistant", "So."),
    ) == messages_of([answer, call, result, thought])


def test_the_content_of_bedrock() -> None:
    """Converse tells calls and results of tools by their keys."""
    call = {"role": "assistant", "content": [{"toolUse": {"toolUseId": "t", "name": "search", "input": {}}}]}
    result = {"role": "user", "content": [{"toolResult": {"toolUseId": "t", "content": [{"text": "Found."}]}}]}
    assert (ParsedMessage("assistant", "", 1), ParsedMessage("tool", "Found.")) == messages_of([call, result])


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        ("id='7' source='user' models_usage=None metadata={} content='Why?' type='TextMessage'", ("user", "Why?")),
        ("id='8' source='helper' models_usage=None metadata={} content='So.' type='TextMessage'", ("assistant", "So.")),
        ("TextMessage(source='helper', content='So.', type='TextMessage')", ("assistant", "So.")),
        ("UserMessage(content='Why?', source='user', type='UserMessage')", ("user", "Why?")),
    ],
)
def test_messages_that_autogen_printed(printed: str, expected: tuple[str, str]) -> None:
    """AutoGen names who speaks; whoever is not the user is an agent."""
    assert [(*expected, False)] == [(m.role, m.content, m.certain) for m in messages_of(printed)]


def test_what_a_tool_made() -> None:
    """A tool's message that holds objects keeps them as JSON; one that holds parts keeps their text."""
    (made,) = messages_of({"role": "tool", "content": [{"id": "d", "content": "A mill."}]})
    assert '[{"content":"A mill.","id":"d"}]' == made.content
    (told,) = messages_of({"role": "tool", "content": [{"text": "A mill."}, {"type": "text", "text": "It turns."}]})
    assert "A mill.\nIt turns." == told.content


def test_type_that_is_no_word() -> None:
    """Where a word is expected anything may stand: it is no type, and the message is read all the same."""
    (message,) = messages_of([{"type": {"a": [1]}, "role": "user", "content": "Why?"}])
    assert ("user", "Why?") == (message.role, message.content)
