"""Which span's word counts for which field of a turn."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING

import pytest

from monitor.model.spans import AttributeValue, Span, instant
from monitor.model.turns import Message, turn_id

if TYPE_CHECKING:
    from tests.monitor.conftest import Assemble, Make, Turns

PUMP = "The warranty covers the pump for two years."
SHIPPING = "Express shipping takes a single working day."


def test_identity(make: Make, turns: Turns) -> None:
    """A turn is named by its trace and root, and says where it ran."""
    resource = {
        "service.name": "shop",
        "service.version": "1.2",
        "deployment.environment.name": "prod",
        "deployment.environment": "old",
    }
    (turn,) = turns([replace(make.chain(1, "Why?", "So."), resource=resource)])
    assert (turn_id(make.trace_id, make.id(1)), "shop", "1.2", "prod", "openinference") == (
        turn.turn_id,
        turn.app,
        turn.release,
        turn.environment,
        turn.dialect,
    )


def test_the_app_of_a_request(make: Make, turns: Turns) -> None:
    """A request that a gateway passed on does not name the app; the span that answers does."""
    gateway = replace(make.span(1, {"http.route": "/chat"}), resource={"service.name": "gateway"})
    (turn,) = turns([gateway, make.call(2, [("user", "Why?")], "So.", parent=1)])
    assert "shop" == turn.app


def test_session_and_user(make: Make, turns: Turns) -> None:
    """The root's session counts before those of its steps; the user is kept only as hashed."""
    root = make.chain(1, "Why?", "So.")
    root = replace(root, attributes={**root.attributes, "session.id": "root", "user.id": "u"})
    call = make.call(2, [("user", "Why?")], "So.", parent=1)
    call = replace(call, attributes={**call.attributes, "session.id": "step"})
    (turn,) = turns([root, call])
    assert ("root", "user:u") == (turn.session_id, turn.user_id)


def test_session_of_the_steps_or_above(make: Make, turns: Turns) -> None:
    """Without a word of the root, most steps count, else what stands above it."""
    step = make.call(2, [("user", "Why?")], "So.", parent=1)
    steps = [make.chain(1, "Why?", "So."), replace(step, attributes={**step.attributes, "session.id": "step"})]
    above = [make.span(9, {"session.id": "above"}), make.chain(1, "Why?", "So.", parent=9)]
    assert ("step", "above") == (turns(steps)[0].session_id, turns(above)[0].session_id)


def test_query_from_a_prompt(make: Make, turns: Turns) -> None:
    """Without a chain the last message of the user counts, cut out of its template and flagged."""
    prompt = f"Context:\n[a] {PUMP}\n\nQuestion: Is the pump covered?"
    (turn,) = turns([make.call(1, [("system", "Be kind."), ("user", prompt)], "Yes.")])
    assert ("Is the pump covered?", True) == (turn.query, "query_from_prompt" in turn.flags)


def test_a_prompt_as_the_query(make: Make, turns: Turns) -> None:
    """A chain that was handed the model's whole prompt was asked the question in it; any other is asked as it says."""
    prompt = f"Context:\n[kb-1] {PUMP}\n\nQuestion: Is the pump covered?"
    root, call = make.chain(1, prompt, "Yes."), make.call(2, [("user", prompt)], "Yes.", parent=1)
    (turn,) = turns([root, call])
    assert ("Is the pump covered?", True) == (turn.query, "query_from_prompt" in turn.flags)
    (turn,) = turns([root, make.call(2, [("user", "Is the pump covered?")], "Yes.", parent=1)])
    assert (prompt, False) == (turn.query, "query_from_prompt" in turn.flags)


def test_lost_content_of_the_user(make: Make, turns: Turns) -> None:
    """When the question's content was lost, an earlier question is not taken for it."""
    spans = [
        make.span(
            1,
            {
                "gen_ai.operation.name": "chat",
                "gen_ai.input.messages": '[{"role":"user","parts":[{"type":"text","content":"Old?"}]},'
                '{"role":"assistant","parts":[{"type":"text","content":"Yes."}]},{"role":"user","parts":[]}]',
                "gen_ai.output.messages": '[{"role":"assistant","parts":[{"type":"text","content":"No."}]}]',
            },
        )
    ]
    (turn,) = turns(spans)
    assert (None, "No.", 2) == (turn.query, turn.response, len(turn.history))


def test_history_of_the_answering_call(make: Make, turns: Turns) -> None:
    """Without a word of the root, what stands before the question in the prompt is the history."""
    messages = [("system", "x"), ("user", "Hi"), ("assistant", "Hello"), ("user", "Why?")]
    (turn,) = turns([make.chain(1, "Why?", "So."), make.call(2, messages, "So.", parent=1)])
    assert (Message(role="user", content="Hi"), Message(role="assistant", content="Hello")) == turn.history


def test_a_printed_history_that_goes_on(make: Make, turns: Turns) -> None:
    """Messages that were printed without roles end where the question of the turn begins."""
    inner = make.span(
        2,
        {
            "openinference.span.kind": "CHAIN",
            "input.value": """{"messages": ["content='Why?' name=None", "content='[1]' name=None"]}""",
        },
        parent=1,
    )
    (turn,) = turns([make.chain(1, "Why?", "So."), inner, make.call(3, [("user", "Why?")], "So.", parent=1)])
    assert () == turn.history


def test_a_transcript_as_the_query(make: Make, turns: Turns) -> None:
    """Where an agent was handed all that had been said, the question is what the model got last."""
    messages = [("user", "Hi there"), ("assistant", "Hello!"), ("user", "Why is it so?")]
    root = make.chain(1, "\n".join(text for _, text in messages), "So.")
    (turn,) = turns([root, make.call(2, messages, "So.", parent=1)])
    assert "Why is it so?" == turn.query
    assert (Message(role="user", content="Hi there"), Message(role="assistant", content="Hello!")) == turn.history


def test_an_agent_that_goes_on_as_the_user(make: Make, turns: Turns) -> None:
    """What was said before ends at the question, even if the prompt goes on in the user's name."""
    messages = [
        ("user", "New task:\nWhy is it so?"),
        ("user", "Observation: none"),
        ("user", "Answer now: Why is it so?"),
    ]
    (turn,) = turns([make.chain(1, "Why is it so?", "So."), make.call(2, messages, "So.", parent=1)])
    assert ("Why is it so?", ()) == (turn.query, turn.history)


def test_a_question_that_only_the_template_tells(make: Make, turns: Turns) -> None:
    """Privacy switches leave a prompt's variables as they are."""
    hidden = {"input.value": "__REDACTED__", "output.value": "__REDACTED__"}
    chain = make.span(1, {"openinference.span.kind": "CHAIN", **hidden})
    call = {"openinference.span.kind": "LLM", "llm.model_name": "m", **hidden}
    call |= {"llm.prompt_template.variables": '{"context_str": "A mill.", "query_str": "Why?"}'}
    (turn,) = turns([chain, make.span(2, call, parent=1)])
    assert ("Why?", None, "m") == (turn.query, turn.response, turn.model)


def test_the_loop_of_an_agent(make: Make, turns: Turns) -> None:
    """The calls of a loop begin alike; what the first one was asked is not what was said before."""
    task, final = ("user", "New task:\nWhy is it so?"), ("user", "Now answer the task: Why is it so?")
    loop = [task, ("assistant", "Called a tool"), ("user", "Observation: none"), final]
    calls = [
        make.call(2, [task], "Called a tool", parent=1),
        make.call(3, loop, "So.", parent=1, at=0.5, lasts=0.1),
    ]
    (turn,) = turns([make.chain(1, "Why is it so?", "So."), *calls])
    assert ("Why is it so?", ()) == (turn.query, turn.history)


def test_a_question_asked_again(make: Make, turns: Turns) -> None:
    """The same question earlier in the conversation was said before."""
    messages = [("user", "Why is it so?"), ("assistant", "Hm."), ("user", "Why is it so?")]
    (turn,) = turns([make.chain(1, "Why is it so?", "So."), make.call(2, messages, "So.", parent=1)])
    assert ["Why is it so?", "Hm."] == [m.content for m in turn.history]


def test_the_model_that_an_agent_asks_for(make: Make, turns: Turns) -> None:
    """Without calls of a model, the one that the agent was given is named."""
    agent = {"gen_ai.operation.name": "invoke_agent", "gen_ai.request.model": "m-1"}
    template = '[{"role": "%s", "parts": [{"type": "text", "content": "%s"}]}]'
    agent |= {
        "gen_ai.input.messages": template % ("user", "Why?"),
        "gen_ai.output.messages": template % ("assistant", "So."),
    }
    (turn,) = turns([make.span(1, agent)])
    assert ("Why?", "So.", "m-1") == (turn.query, turn.response, turn.model)


def test_roles_that_an_agent_prints(make: Make, turns: Turns) -> None:
    """Who said what is told by the agent where the prompt has all of it in the user's name."""
    value = """{"messages": ["source='user' content='Hi there'", "source='bot' content='Hello!'",
        "source='user' content='Why is it so?'"]}"""
    root = make.span(1, {"openinference.span.kind": "AGENT", "input.value": value, "output.value": "So."})
    messages = [("user", "Hi there"), ("user", "Hello!"), ("user", "Why is it so?")]
    (turn,) = turns([root, make.call(2, messages, "So.", parent=1)])
    assert "Why is it so?" == turn.query
    assert (Message(role="user", content="Hi there"), Message(role="assistant", content="Hello!")) == turn.history


def test_an_error_told_as_the_answer(make: Make, turns: Turns) -> None:
    """A failed agent that shows the message of what it failed of has not answered."""
    root = make.chain(1, "Why?", "The server had an error", status=2)
    failed = replace(
        make.call(2, [("user", "Why?")], None, parent=1, status=2), status_message="The server had an error"
    )
    (turn,) = turns([root, failed])
    assert (None, "error") == (turn.response, turn.error)


def test_an_error_printed_as_the_answer(make: Make, turns: Turns) -> None:
    """Nor has one that shows the exception itself."""
    raised = make.event("exception", {"exception.type": "shop.ToolError", "exception.message": "No such tool"})
    root = make.chain(1, "Why?", "ToolError(shop): No such tool\nContext: {}", status=2)
    (turn,) = turns([replace(root, events=(raised,))])
    assert (None, "ToolError") == (turn.response, turn.error)


def test_documents_in_a_message_of_their_own(make: Make, turns: Turns) -> None:
    """A user's message that only hands over documents is no history."""
    messages = [("user", f"Context: {PUMP}"), ("user", "Is the pump covered?")]
    spans = [make.span(1, {}), make.retrieval(2, "pump", {"a": PUMP}, parent=1)]
    (turn,) = turns([*spans, make.call(3, messages, "Yes.", parent=1, at=1)])
    assert ("Is the pump covered?", ()) == (turn.query, turn.history)


def test_a_streamed_answer(make: Make, turns: Turns) -> None:
    """A root that ended before its answer was streamed gets the answer, and its end, from the call."""
    spans = [
        make.chain(1, "Why?", '{"response": "", "source_nodes": []}', lasts=0.1),
        make.chain(2, "Why?", "<generator object>", parent=1, lasts=3),
        make.call(3, [("user", "Why?")], "So.", parent=2, at=0.2, lasts=2),
    ]
    (turn,) = turns(spans)
    assert ("So.", timedelta(seconds=2.2)) == (turn.response, turn.latency)


def test_a_failed_answer(make: Make, turns: Turns) -> None:
    """When the root failed, the text of an earlier call that rewrote the question is no answer."""
    spans = [
        make.chain(1, "And that?", None, status=2),
        make.call(2, [("user", "Rewrite: And that?")], "How long is the warranty?", parent=1),
        make.retrieval(3, "How long is the warranty?", {"a": PUMP}, parent=1, at=1),
        make.call(4, [("user", "How long is the warranty?")], None, parent=1, at=2, status=2),
    ]
    (turn,) = turns(spans)
    assert (None, "error", "m", ["a"]) == (turn.response, turn.error, turn.model, [c.id for c in turn.citations])


def test_a_failed_last_call(make: Make, turns: Turns) -> None:
    """Below a root that says nothing, a last call that failed is the turn's failure."""
    spans = [
        make.span(1, {}),
        make.call(2, [("user", "Why is it?")], "why is it", parent=1),
        make.call(3, [("user", "Why is it?")], None, parent=1, at=1, status=2),
    ]
    (turn,) = turns(spans)
    assert (None, "error") == (turn.response, turn.error)


def test_a_rewritten_question_is_no_answer(make: Make, turns: Turns) -> None:
    """Before the answering call has arrived, the text that was searched for is not taken for an answer."""
    spans = [
        make.call(2, [("user", "And that?")], "How long is the warranty?", parent=1),
        make.retrieval(3, "How long is the warranty?", {"a": PUMP}, parent=1, at=1),
    ]
    (turn,) = turns(spans)
    assert (None, {"root_missing", "incomplete"}) == (turn.response, turn.flags & {"root_missing", "incomplete"})


def test_a_call_made_again(make: Make, turns: Turns) -> None:
    """A call that failed and was made again answers once, and the retry is counted."""
    spans = [
        make.chain(1, "Why?", None),
        make.call(2, [("user", "Why?")], None, parent=1, status=2),
        make.call(3, [("user", "Why?")], "So.", parent=1, at=1),
    ]
    (turn,) = turns(spans)
    assert ("So.", None, True) == (turn.response, turn.error, "retries=1" in turn.flags)


def test_a_title_written_after_the_answer(make: Make, turns: Turns) -> None:
    """Of two calls below a silent root, the one that was shown the documents answered."""
    spans = [
        make.span(1, {}),
        make.retrieval(2, "Is the pump covered?", {"a": PUMP}, parent=1),
        make.call(3, [("user", f"Context: {PUMP}\nQuestion: Is the pump covered?")], "Two years.", parent=1, at=1),
        make.call(4, [("user", "Title for: Is the pump covered?")], "Pump cover", parent=1, at=2),
    ]
    (turn,) = turns(spans)
    assert "Two years." == turn.response


def test_a_server_fault_above(make: Make, turns: Turns) -> None:
    """A request that ended with 5xx is a failure even where no span says so."""
    request = make.span(9, {"http.response.status_code": 503})
    assert "503" == turns([request, make.chain(1, "Why?", "So.", parent=9)])[0].error


def test_an_unknown_output(make: Make, turns: Turns) -> None:
    """An output of unknown shape is kept as JSON and flagged when no model call says better."""
    (turn,) = turns([make.chain(1, "Why?", '{"rows": [1, 2]}'), make.retrieval(2, "Why?", {}, parent=1)])
    assert ('{"rows":[1,2]}', True) == (turn.response, "unparsed_json" in turn.flags)


def test_tokens_are_counted_once(make: Make, turns: Turns) -> None:
    """Nested descriptions of one call count once, several calls add up, chains do not count."""
    tokens = {"llm.token_count.prompt": 10, "llm.token_count.completion": 2}
    calls = [make.call(n, [("user", "Why?")], "So.", parent=p, at=n) for n, p in ((2, 1), (3, 2), (4, 1))]
    root = make.chain(1, "Why?", "So.")
    spans = [replace(span, attributes={**span.attributes, **tokens}) for span in (root, *calls)]
    (turn,) = turns(spans)
    assert (20, 4) == (turn.input_tokens, turn.output_tokens)


def test_reranked_documents(make: Make, turns: Turns) -> None:
    """What a reranker kept are the citations, in its order and with its scores, completed from the retrieval."""
    reranked = {
        "openinference.span.kind": "RERANKER",
        "reranker.output_documents.0.document.id": "b",
        "reranker.output_documents.0.document.score": 0.9,
    }
    spans = [
        make.chain(1, "Why?", "So."),
        make.retrieval(2, "Why?", {"a": PUMP, "b": SHIPPING}, parent=1),
        make.span(3, reranked, parent=1, at=1),
    ]
    (turn,) = turns(spans)
    assert [("b", SHIPPING, 0.9, 1)] == [(c.id, c.content, c.score, c.rank) for c in turn.citations]


def test_a_reranker_that_kept_nothing(make: Make, turns: Turns) -> None:
    """What was found and then filtered out was not what the model saw."""
    filtered = {"openinference.span.kind": "RERANKER", "reranker.input_documents.0.document.content": PUMP}
    spans = [
        make.chain(1, "Why?", "So."),
        make.retrieval(2, "Why?", {"a": PUMP}, parent=1),
        make.span(3, filtered, parent=1, at=1),
    ]
    assert () == turns(spans)[0].citations


def test_documents_whose_text_is_empty(make: Make, turns: Turns) -> None:
    """They leave the word to the prompt, which shows the documents as the model saw them."""
    prompt = f"Context:\n[kb-1] {PUMP} Descale every 3 months, or when it blinks.\n\nQuestion: Why?"
    spans = [
        make.chain(1, "Why?", "So."),
        make.retrieval(2, "Why?", {"3": ""}, parent=1),
        make.call(3, [("user", prompt)], "So.", parent=1, at=1),
    ]
    (turn,) = turns(spans)
    assert [("kb-1", f"{PUMP} Descale every 3 months, or when it blinks.")] == [
        (citation.id, citation.content) for citation in turn.citations
    ]
    assert "citations_from_prompt" in turn.flags


def test_ids_that_the_prompt_does_not_introduce(make: Make, turns: Turns) -> None:
    """A number in a sentence is no sign that a document of that id was shown."""
    prompt = f"Background: {PUMP} Descale every 3 months.\n\nQuestion: Why?"
    spans = [
        make.chain(1, "Why?", "So."),
        make.retrieval(2, "Why?", {"3": ""}, parent=1),
        make.call(3, [("user", prompt)], "So.", parent=1, at=1),
    ]
    (citation,) = turns(spans)[0].citations
    assert ("3", None, False) == (citation.id, citation.content, citation.used)


def test_nested_retrievals(make: Make, turns: Turns) -> None:
    """Of retrievers inside each other the outermost that lists documents counts; side by side they add up."""
    spans = [
        make.chain(1, "Why?", "So."),
        make.retrieval(2, "Why?", {"a": PUMP}, parent=1),
        make.retrieval(3, "Why?", {"a": PUMP, "b": SHIPPING}, parent=2),
        make.retrieval(4, "Why so?", {"a": PUMP, "c": "Other."}, parent=1, at=1),
    ]
    (turn,) = turns(spans)
    assert (["a", "c"], ("Why?", "Why so?")) == ([c.id for c in turn.citations], turn.retrieval_queries)


def test_chunks_of_one_document(make: Make, turns: Turns) -> None:
    """Two chunks that carry their document's id are two citations."""
    attributes = {"openinference.span.kind": "RETRIEVER"}
    for i, content in enumerate((PUMP, SHIPPING, PUMP)):
        attributes |= {
            f"retrieval.documents.{i}.document.id": "doc",
            f"retrieval.documents.{i}.document.content": content,
        }
    (turn,) = turns([make.chain(1, "Why?", "So."), make.span(2, attributes, parent=1)])
    assert [PUMP, SHIPPING] == [citation.content for citation in turn.citations]


def test_nothing_found_and_nothing_seen(make: Make, turns: Turns) -> None:
    """A retrieval that found nothing is told from a turn without retrieval."""
    seen = turns([make.chain(1, "Why?", "So."), make.retrieval(2, "Why?", {}, parent=1)])
    unseen = turns([make.chain(1, "Why?", "So.")])
    assert ((), None) == (seen[0].citations, unseen[0].citations)


def test_used_documents(make: Make, turns: Turns) -> None:
    """Documents that stand in the answering prompt were used, others were not."""
    spans = [
        make.chain(1, "Is the pump covered?", "Yes."),
        make.retrieval(2, "pump", {"a": PUMP, "b": SHIPPING}, parent=1),
        make.call(3, [("system", f"Context:\n{PUMP}"), ("user", "Is the pump covered?")], "Yes.", parent=1, at=1),
    ]
    assert [True, False] == [citation.used for citation in turns(spans)[0].citations]


@pytest.mark.parametrize(
    ("context", "expected"),
    [
        ("Context:\nIn short: pumps are covered for two whole years, and shipping takes no longer than a day.", None),
        ("Context:\n(nothing was found)", False),
    ],
)
def test_reworded_documents(make: Make, turns: Turns, context: str, expected: bool | None) -> None:  # noqa: FBT001 -- a value
    """A prompt with other documents than those retrieved may hold them in other words; one without any does not."""
    spans = [
        make.chain(1, "Is the pump covered?", "Yes."),
        make.retrieval(2, "pump", {"a": PUMP, "b": SHIPPING}, parent=1),
        make.call(3, [("system", context), ("user", "Is the pump covered?")], "Yes.", parent=1, at=1),
    ]
    assert [expected, expected] == [citation.used for citation in turns(spans)[0].citations]


@pytest.mark.parametrize(
    ("context", "expected"),
    [
        ("A mill.\n\nA pump.", [("A mill.", 0.5), ("A pump.", None)]),
        ("A mill.\n\nA pump.\n\nA hose.", [("A mill.\n\nA pump.\n\nA hose.", None)]),
        ("", None),
    ],
)
def test_documents_without_ids(
    make: Make, turns: Turns, context: str, expected: list[tuple[str, float | None]] | None
) -> None:
    """Nameless documents get the text that the prompt was filled with, piece by piece if there are as many."""
    documents = {
        "gen_ai.operation.name": "retrieval",
        "gen_ai.retrieval.documents": '[{"id": null, "score": 0.5}, {"id": null, "score": null}]',
    }
    call = {"gen_ai.operation.name": "chat", "gen_ai.prompt.variable.context": context}
    call |= {"gen_ai.input.messages": '[{"role": "user", "parts": [{"type": "text", "content": "Why?"}]}]'}
    (turn,) = turns(
        [
            make.span(1, {"gen_ai.operation.name": "invoke_workflow"}),
            make.span(2, documents, parent=1),
            make.span(3, call, parent=1, at=0.1),
        ]
    )
    assert expected == (None if turn.citations is None else [(c.content, c.score) for c in turn.citations])
    assert turn.response is None


def test_a_context_is_no_answer(make: Make, turns: Turns) -> None:
    """What a prompt was filled with is not what the call made."""
    call = {"gen_ai.operation.name": "chat", "gen_ai.prompt.variable.context": "A mill."}
    call |= {"gen_ai.input.messages": '[{"role": "user", "parts": [{"type": "text", "content": "Why?"}]}]'}
    (turn,) = turns([make.span(1, call)])
    assert turn.response is None


@pytest.mark.parametrize("plain", [False, True])
def test_used_documents_inside_json(make: Make, turns: Turns, *, plain: bool) -> None:
    """What a tool found stands in the prompt as JSON, its line breaks and quotation marks escaped."""
    text = 'Keep it between 5 and 20 °C:\n - never store it "empty"\n - recharge it every 60 days'
    result = json.dumps([{"id": "a", "content": text}], ensure_ascii=plain)
    tool = make.span(
        2, {"openinference.span.kind": "TOOL", "tool.name": "search", "output.value": result}, parent=1, lasts=0.1
    )
    (turn,) = turns(
        [
            make.chain(1, "Why?", "So."),
            tool,
            make.call(3, [("user", "Why?"), ("tool", result)], "So.", parent=1, at=0.5),
        ]
    )
    assert [("a", True)] == [(c.id, c.used) for c in turn.citations or ()]


def test_an_agent_whose_model_is_not_seen(make: Make, turns: Turns) -> None:
    """An agent that looked for documents has a turn, though its model's client is not instrumented."""
    tool = {
        "gen_ai.operation.name": "execute_tool",
        "gen_ai.tool.call.arguments": '{"query": "Why?"}',
        "gen_ai.tool.call.result": '[{"id": "a", "content": "A mill."}]',
    }
    (turn,) = turns([make.span(1, {"gen_ai.operation.name": "invoke_agent"}), make.span(2, tool, parent=1)])
    assert ("Why?", None, ["a"]) == (turn.query, turn.response, [c.id for c in turn.citations or ()])
    assert {"no_content", "query_from_retrieval"} <= turn.flags


def test_a_prompt_recorded_without_context(make: Make, turns: Turns) -> None:
    """When only the bare question was recorded, nobody knows which documents were used."""
    spans = [
        make.chain(1, "Is the pump covered?", "Yes."),
        make.retrieval(2, "pump", {"a": PUMP}, parent=1),
        make.call(3, [("user", "Is the pump covered?")], "Yes.", parent=1, at=1),
    ]
    assert [None] == [citation.used for citation in turns(spans)[0].citations]


def test_documents_that_a_tool_returned(make: Make, turns: Turns) -> None:
    """In an agent the retrieval is a tool whose result has the shape of documents."""
    result = f'[{{"id": "a", "text": "{PUMP}", "source": "w.md"}}]'
    tool = make.span(2, {"openinference.span.kind": "TOOL", "tool.name": "search_kb", "output.value": result}, parent=1)
    assert ["a"] == [c.id for c in turns([make.chain(1, "Why?", "So."), tool])[0].citations]


@pytest.mark.parametrize(("name", "expected"), [("search_kb", ()), ("list_orders", None)])
def test_a_tool_that_returned_nothing(make: Make, turns: Turns, name: str, expected: tuple[()] | None) -> None:
    """An empty result is an empty retrieval only if the tool searches."""
    tool = make.span(2, {"openinference.span.kind": "TOOL", "tool.name": name, "output.value": "[]"}, parent=1)
    assert expected == turns([make.chain(1, "Why?", "So."), tool])[0].citations


def test_times_of_another_machine(make: Make, turns: Turns) -> None:
    """The root dates the turn whatever the clocks of other machines say; the disagreement is flagged."""
    far = replace(make.retrieval(2, "Why?", {"a": PUMP}, parent=1, at=90), resource={"service.name": "search"})
    root = make.chain(1, "Why?", "So.", lasts=1)
    (turn,) = turns([root, far, make.call(3, [("user", "Why?")], "So.", parent=1, at=-40)])
    assert (instant(root.start_ns), timedelta(seconds=1), True) == (
        turn.started_at,
        turn.latency,
        "clock_skew" in turn.flags,
    )


def test_a_root_without_times(make: Make, turns: Turns) -> None:
    """A root whose times had to be guessed is dated by its other spans."""
    root = replace(make.chain(1, "Why?", "So.", at=500), flags=frozenset({"time_repaired"}))
    call = make.call(2, [("user", "Why?")], "So.", parent=1, at=3, lasts=2)
    (turn,) = turns([root, call])
    assert (instant(call.start_ns), timedelta(seconds=2), True) == (
        turn.started_at,
        turn.latency,
        "time_repaired" in turn.flags,
    )


def test_text_that_databases_refuse(make: Make, turns: Turns) -> None:
    """NUL and half a surrogate pair, hidden in JSON, are replaced and flagged; inlined images become markers."""
    chain_input = '{"question": "A\\u0000B\\ud83d?"}'
    (turn,) = turns([make.chain(1, chain_input, "See data:image/png;base64,iVBORw0KGgo=")])
    assert ("A\ufffdB\ufffd?", "See [image]", True) == (turn.query, turn.response, "text_repaired" in turn.flags)


def test_truncated_attributes(make: Make, turns: Turns) -> None:
    """A cut input keeps its question; a question that was cut itself is taken whole from another span and flagged."""
    cut_after = turns([make.chain(1, '{"question": "Is the pump covered?", "history": [{"ro', "Yes.")])
    cut_inside = turns(
        [
            make.chain(1, '{"question": "Is the pu', "Yes."),
            make.retrieval(2, "Is the pump covered?", {"a": PUMP}, parent=1),
        ]
    )
    assert (("Is the pump covered?", False), ("Is the pump covered?", True)) == tuple(
        (turn.query, "input_truncated" in turn.flags) for turn in (*cut_after, *cut_inside)
    )


def test_no_content(make: Make, turns: Turns) -> None:
    """A turn whose content is not recorded is a turn: it has times, tokens and a model."""
    span = make.span(1, {"gen_ai.operation.name": "chat", "gen_ai.response.model": "m", "gen_ai.usage.input_tokens": 3})
    (turn,) = turns([span])
    assert (None, None, "m", 3, True) == (
        turn.query,
        turn.response,
        turn.model,
        turn.input_tokens,
        "no_content" in turn.flags,
    )


@pytest.mark.parametrize("answer", ["", "  \n"])
def test_a_blank_answer(make: Make, turns: Turns, answer: str) -> None:
    """An app that answered with nothing did not only retrieve, and its content is recorded."""
    root = {"openinference.span.kind": "CHAIN", "input.value": "Why?", "output.value": answer}
    (turn,) = turns([make.span(1, root), make.retrieval(2, "Why?", {"a": PUMP}, parent=1)])
    assert ("Why?", None) == (turn.query, turn.response)
    assert {"no_response"} == turn.flags & {"no_response", "retrieval_only", "no_content"}
    (turn,) = turns([make.span(1, root)])
    assert {"no_response"} == turn.flags & {"no_response", "retrieval_only", "no_content"}


@pytest.mark.parametrize("count", [-1, 2**70, "-5", "many", float("nan")])
def test_tokens_that_are_no_number(make: Make, turns: Turns, count: float | str) -> None:
    """A number of tokens that can be none is not given, and the other calls' are added up without it."""
    spans = [
        make.chain(1, "Why?", "So."),
        make.call(2, [("user", "Why?")], "So.", parent=1),
        make.call(3, [("user", "Why?")], "So.", parent=1, at=0.1),
    ]
    wrong = {"llm.token_count.prompt": count, "llm.token_count.completion": 7}
    spans[1] = replace(spans[1], attributes={**spans[1].attributes, **wrong})
    (turn,) = turns(spans[:2])
    assert (None, 7, True) == (turn.input_tokens, turn.output_tokens, "tokens_unreadable" in turn.flags)
    right = {"llm.token_count.prompt": 5, "llm.token_count.completion": 7}
    spans[2] = replace(spans[2], attributes={**spans[2].attributes, **right})
    (turn,) = turns(spans)
    assert (5, 14, True) == (turn.input_tokens, turn.output_tokens, "tokens_unreadable" in turn.flags)
    (turn,) = turns([spans[0], spans[2]])
    assert "tokens_unreadable" not in turn.flags


def test_facets(make: Make, turns: Turns) -> None:
    """Properties of few values are kept to slice by, the root's before those of its steps; long ones are not."""
    call = make.call(2, [("user", "Why?")], "So.", parent=1)
    call = replace(call, attributes={**call.attributes, "llm.provider": "openai", "agent.name": "x" * 100})
    (turn,) = turns([make.span(1, {"http.route": "/chat"}), call])
    assert {"route": "/chat", "provider": "openai", "model": "m"} == turn.facets


def test_the_model_of_a_failed_call(make: Make, turns: Turns) -> None:
    """Some emitters name the requested model as the one that answered when nothing did; an earlier call knows."""
    call: dict[str, AttributeValue] = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m"}
    chosen = make.span(2, {**call, "gen_ai.response.model": "m-2026-01-01"}, parent=1)
    failed = make.span(3, {**call, "gen_ai.response.model": "m"}, parent=1, at=0.5, status=2)
    (turn,) = turns([make.chain(1, "Why?", None, status=2), chosen, failed])
    assert "m-2026-01-01" == turn.model


def test_the_model_of_a_streamed_answer(make: Make, turns: Turns) -> None:
    """Where a call repeats the model that was asked for, the step that was handed its message names its maker."""
    handed: dict[str, AttributeValue] = {
        "langfuse.observation.type": "chain",
        "langfuse.observation.input": '{"type": "ai", "content": "So.", "response_metadata": {"model_name": "m-2"}}',
        "langfuse.observation.output": "So.",
    }
    call: dict[str, AttributeValue] = {
        "gen_ai.operation.name": "chat",
        "gen_ai.request.model": "m",
        "gen_ai.response.model": "m",
        "gen_ai.output.messages": '[{"role": "assistant", "parts": [{"type": "text", "content": "So."}]}]',
    }
    root = make.chain(1, "Why?", "So.")
    (turn,) = turns([root, make.span(2, call, parent=1), make.span(3, handed, parent=1, at=0.5)])
    assert "m-2" == turn.model


def test_an_app_that_chooses_from_what_a_database_found(make: Make, turns: Turns) -> None:
    """Documents that a chain hands on are the citations, not all that the database came up with."""
    hits = [make.event("db.query.result", {"db.query.result.document": text}) for text in (PUMP, SHIPPING)]
    query = make.span(3, {"db.system": "chroma"}, parent=2, events=hits)
    chosen = make.chain(2, "Why?", f'{{"documents": [{{"id": "a", "content": "{PUMP}"}}]}}', parent=1)
    (turn,) = turns([make.chain(1, "Why?", "So."), chosen, query])
    assert turn.citations is not None
    assert [PUMP] == [citation.content for citation in turn.citations]


@pytest.mark.parametrize(
    ("written", "response", "kept_as_json"),
    [
        (0, "0", True),
        (False, "false", True),
        (42, "42", True),
        (("a", "b"), '["a","b"]', True),
        ('{"b": 1, "a": {"c": []}}', '{"a":{"c":[]},"b":1}', True),
        (("It lasts two years.",), "It lasts two years.", False),
        ('["It lasts two years."]', "It lasts two years.", False),
        ('"\\"20 kg.\\""', "20 kg.", False),
        ('"{\\"answer\\": \\"{\\\\\\"text\\\\\\": \\\\\\"20 kg.\\\\\\"}\\"}"', "20 kg.", False),
        ("", None, False),
        ("  \n", None, False),
        ("null", None, False),
        (None, None, False),
    ],
)
def test_answers_of_any_shape(
    make: Make, turns: Turns, *, written: AttributeValue, response: str | None, kept_as_json: bool
) -> None:
    """A chain that was asked is a turn, whatever it returned; JSON of unknown shape is kept as text and flagged."""
    attributes: dict[str, AttributeValue] = {"openinference.span.kind": "CHAIN", "input.value": "How heavy?"}
    if written is not None:
        attributes["output.value"] = written
    (turn,) = turns([make.span(1, attributes)])
    assert (response, kept_as_json) == (turn.response, "unparsed_json" in turn.flags)


def test_an_index_that_is_filled(make: Make, assemble: Assemble) -> None:
    """A chain that embeds other texts than it was asked is no turn; one that embeds its question is."""
    filled = make.chain(1, "manuals/kettle.pdf", None)
    asked = make.chain(1, "Is the pump covered?", None)
    embedded = make.span(
        2,
        {
            "openinference.span.kind": "EMBEDDING",
            "embedding.embeddings.0.embedding.text": "Is the pump covered?",
        },
        parent=1,
    )
    assert ((), {"ingestion": 2}) == ((made := assemble([filled, embedded])).turns, made.unread)
    assert ["Is the pump covered?"] == [turn.query for turn in assemble([asked, embedded]).turns]


def test_streams_by_the_name_of_the_operation(make: Make, turns: Turns) -> None:
    """Vercel's SDK says in `operation.name` that an answer was streamed, on a span that another convention reads."""
    call = make.call(1, [("user", "Why?")], "So.")
    named = [
        replace(call, attributes={**call.attributes, "operation.name": name})
        for name in ("ai.streamText shop", "ai.generateText")
    ]
    assert [True, None] == [turns([span])[0].streaming for span in named]


def _agent_with_engine(make: Make) -> list[Span]:
    """An agent that says nothing itself, and a query engine as its tool."""
    said = [("user", "Which kettle is best?"), ("assistant", "The Aurora."), ("user", "And is the pump covered?")]
    chooses = make.call(2, said, None, parent=1)
    called = {"llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "ask"}
    return [
        make.chain(1, None, None, lasts=9),
        replace(chooses, attributes={**chooses.attributes, **called}),
        make.span(3, {"openinference.span.kind": "TOOL", "tool.name": "ask"}, parent=1, at=1, lasts=3),
        make.chain(4, "Is the Aurora's pump covered?", "Response 1: Covered.", parent=3, at=1, lasts=3),
        make.retrieval(5, "Is the Aurora's pump covered?", {"kb-1": PUMP}, parent=4, at=1),
        make.call(
            6, [("user", f"Context:\n{PUMP}\n\nQuestion: Is the Aurora's pump covered?")], "Covered.", parent=4, at=2
        ),
    ]


def test_an_engine_inside_a_tool(make: Make, turns: Turns) -> None:
    """The agent's own call answers and holds the question; where a tool's answer is returned as it is, that counts."""
    spans = _agent_with_engine(make)
    said = [("user", "And is the pump covered?"), ("tool", "Response 1: Covered.")]
    answers = make.call(7, said, "Yes, it is.", parent=1, at=5)
    (answered,), (returned,) = turns([*spans, answers]), turns(spans)
    assert ("And is the pump covered?", "Yes, it is.") == (answered.query, answered.response)
    assert ("And is the pump covered?", "Response 1: Covered.") == (returned.query, returned.response)
    assert 2 == len(returned.history)


@pytest.mark.parametrize(
    "text", ["shop.Result@43b4fe19", "[object Object]", "Result[content=So., sources=[]]", "{answer=So.}"]
)
def test_a_printed_object_is_no_answer(make: Make, turns: Turns, text: str) -> None:
    """What a call below says is the answer."""
    spans = [make.chain(1, "Why?", text, lasts=2), make.call(2, [("user", "Why?")], "Because.", parent=1)]
    assert "Because." == turns(spans)[0].response


def test_a_model_that_nobody_knows(make: Make, turns: Turns) -> None:
    """What an emitter writes that does not know the model is no model, and no facet."""
    call = make.call(1, [("user", "Why?")], "So.")
    (turn,) = turns([replace(call, attributes={**call.attributes, "llm.model_name": "unknown"})])
    assert (None, None) == (turn.model, turn.facets.get("model"))


@pytest.mark.parametrize(("kinds", "is_skewed"), [((4, 5), False), ((1, 5), False), ((4, 1), False), ((3, 2), True)])
def test_a_wait_between_services(make: Make, turns: Turns, *, kinds: tuple[int, int], is_skewed: bool) -> None:
    """Between a producer and a consumer it is the queue's, between a client and a server the clock's."""
    above = replace(make.span(1, {"messaging.system": "kafka"}, lasts=0.1), kind=kinds[0])
    below = make.span(2, {"http.route": "/"}, parent=1, at=20, resource={"service.name": "worker"})
    below = replace(below, kind=kinds[1])
    call = replace(make.call(3, [("user", "Why?")], "So.", parent=2, at=20), resource={"service.name": "worker"})
    (turn,) = turns([above, below, call])
    assert is_skewed == ("clock_skew" in turn.flags)


def test_a_filter_without_a_prompt(make: Make, turns: Turns) -> None:
    """Documents that a filter of a graph did not let pass are not used, even where no prompt was captured."""
    state = json.dumps({"question": "Why?", "documents": [{"id": "a", "page_content": PUMP}]})
    spans = [
        make.chain(1, "Why?", "So.", lasts=9),
        make.retrieval(2, "Why?", {"a": PUMP, "b": SHIPPING}, parent=1),
        replace(make.chain(3, "{}", state, parent=1, at=2), name="filter_documents"),
    ]
    (turn,) = turns(spans)
    assert [("a", None), ("b", False)] == [(citation.id, citation.used) for citation in turn.citations or ()]


@pytest.mark.parametrize(
    ("name", "result", "contents"),
    [
        ("getInformation", '[{"name": "Pumps are covered by it.", "similarity": 0.7}]', ["Pumps are covered by it."]),
        ("search_kb", '[{"text": "Pumps are covered."}]', ["Pumps are covered."]),
        ("search_kb", '{"text": "Pumps are covered."}', ["Pumps are covered."]),
        ("search_kb", PUMP, [PUMP]),
        ("search_kb", "No documents found.", None),
        ("lookup_order", '{"id": 7, "status": "shipped"}', None),
        ("send_mail", PUMP, None),
    ],
)
def test_what_a_tool_returned(make: Make, turns: Turns, name: str, result: str, contents: list[str] | None) -> None:
    """Texts of a tool that searches by its name are documents; remarks and the results of other tools are none."""
    tool = {"openinference.span.kind": "TOOL", "tool.name": name, "output.value": result}
    (turn,) = turns([make.chain(1, "Why?", "So.", lasts=2), make.span(2, tool, parent=1)])
    assert contents == (None if turn.citations is None else [citation.content for citation in turn.citations])
