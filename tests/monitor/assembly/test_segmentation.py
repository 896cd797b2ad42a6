"""Where one turn ends and the next begins."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import pytest

from monitor.model.spans import Span

if TYPE_CHECKING:
    from tests.monitor.conftest import Assemble, Make, Turns

REQUEST = {"http.request.method": "POST", "http.route": "/chat"}


def exchanges(turns: Turns, spans: list[Span]) -> list[tuple[str | None, str | None]]:
    """Query and response of each turn."""
    return [(turn.query, turn.response) for turn in turns(spans)]


def test_a_chain_with_everything_below_it(make: Make, turns: Turns) -> None:
    """The outermost chain is the turn; chains and calls inside are its steps."""
    spans = [
        make.chain(1, "Why?", "So."),
        make.chain(2, "Why?", "So.", parent=1),
        make.call(3, [("user", "Why?")], "So.", parent=2),
    ]
    assert [("Why?", "So.", make.id(1))] == [(t.query, t.response, t.span_id) for t in turns(spans)]


def test_turns_side_by_side_below_a_connection(make: Make, turns: Turns) -> None:
    """Several chains below a websocket are several turns, also when the same question is asked again."""
    spans = [make.span(1, {"url.path": "/ws"}, lasts=60)]
    spans += [make.chain(n, "Why?", f"So {n}.", parent=1, at=n) for n in (2, 3, 4)]
    assert [("Why?", "So 2."), ("Why?", "So 3."), ("Why?", "So 4.")] == exchanges(turns, spans)


def test_a_session_wrapped_in_a_chain(make: Make, turns: Turns) -> None:
    """A chain that itself was asked nothing holds as many turns as stand in it."""
    spans = [make.chain(1, None, None, lasts=60)]
    spans += [make.chain(n, f"Question {n}?", f"Answer {n}.", parent=1, at=n) for n in (2, 3)]
    assert [("Question 2?", "Answer 2."), ("Question 3?", "Answer 3.")] == exchanges(turns, spans)


def test_a_chain_beside_its_steps(make: Make, turns: Turns) -> None:
    """Steps that an instrumentation puts beside their chain end before it does and ask the same, or nothing."""
    spans = [
        make.span(9, {"http.route": "/chat"}, lasts=9),
        make.chain(1, "Is the pump covered?", "It is covered.", parent=9, lasts=4),
        make.chain(2, "Is the pump covered?", "Is the pump covered?", parent=9, lasts=0.1),
        make.chain(3, "Is the pump covered?", "[1] The warranty covers it.", parent=9, at=0.1, lasts=1),
        make.call(4, [("user", "Is the pump covered?")], "It is covered.", parent=9, at=2, lasts=1),
        make.chain(5, "Is the pump covered?", "Yes, as before.", parent=9, at=5),
    ]
    assert [("Is the pump covered?", "It is covered."), ("Is the pump covered?", "Yes, as before.")] == [
        (turn.query, turn.response) for turn in turns(spans)
    ]


def test_questions_asked_at_once(make: Make, turns: Turns) -> None:
    """Another question is another turn also when it ended before the first one did."""
    spans = [
        make.span(9, {"http.route": "/chat"}, lasts=9),
        make.chain(1, "Is the pump covered?", "It is covered.", parent=9, lasts=4),
        make.chain(2, "How long does shipping take?", "A day.", parent=9, at=1),
    ]
    assert ["Is the pump covered?", "How long does shipping take?"] == [turn.query for turn in turns(spans)]


def test_an_agent_without_content_around_its_workflow(make: Make, turns: Turns) -> None:
    """The outermost of nested agents is the turn, though only the inner one says what was asked."""
    spans = [make.chain(1, None, None), make.chain(2, "Why?", "So.", parent=1)]
    assert [("Why?", "So.", make.id(1))] == [(t.query, t.response, t.span_id) for t in turns(spans)]


def test_bare_steps_below_a_request(make: Make, turns: Turns) -> None:
    """Retrieval and call below a request are one turn, which is named after the request."""
    spans = [
        make.span(1, REQUEST),
        make.retrieval(2, "Why is it red?", {"a": "Red is a colour."}, parent=1, at=0.1),
        make.call(3, [("user", "Why is it red?")], "So.", parent=1, at=0.2),
    ]
    assert [("Why is it red?", "So.", make.id(1), "a")] == [
        (t.query, t.response, t.span_id, t.citations[0].id) for t in turns(spans)
    ]


def test_rewriting_before_retrieval(make: Make, turns: Turns) -> None:
    """A call that rewrites the question belongs to the turn of the call that answers it."""
    spans = [
        make.span(1, {}, name="handle"),
        make.call(
            2, [("user", "Chat history: ...\nFollow Up Input: And that one?")], "How long is the warranty?", parent=1
        ),
        make.retrieval(3, "How long is the warranty?", {"a": "Two years of warranty."}, parent=1, at=1),
        make.call(
            4,
            [("user", "Context:\nTwo years of warranty.\n\nQuestion: How long is the warranty?")],
            "Two years.",
            parent=1,
            at=2,
        ),
    ]
    assert [("And that one?", "Two years.")] == exchanges(turns, spans)


def test_bare_turns_in_a_row(make: Make, turns: Turns) -> None:
    """Below one connection another question begins another turn, each with its own documents."""
    spans = [make.span(1, {"url.path": "/ws"}, lasts=60)]
    for n, word in enumerate(("lamp", "oven", "sink")):
        question = f"Where is the {word}?"
        spans.append(make.retrieval(10 + n, question, {word: f"The {word} is there."}, parent=1, at=n))
        spans.append(make.call(20 + n, [("user", question)], f"By the {word}.", parent=1, at=n + 0.5))
    assert [("lamp", "By the lamp."), ("oven", "By the oven."), ("sink", "By the sink.")] == [
        (turn.citations[0].id, turn.response) for turn in turns(spans)
    ]


def test_a_conversation_that_moved_on(make: Make, turns: Turns) -> None:
    """A call to which the last answer is history belongs to the next turn, even when the question repeats."""
    first = [("user", "And the pump, please?")]
    second = [*first, ("assistant", "It is covered."), ("user", "And the pump, please?")]
    spans = [make.span(1, {}), make.call(2, first, "It is covered.", parent=1)]
    spans.append(make.call(3, second, "As I said.", parent=1, at=2))
    assert ["It is covered.", "As I said."] == [turn.response for turn in turns(spans)]


def test_another_session(make: Make, turns: Turns) -> None:
    """Spans of two sessions are never one turn, even where a leaked context puts them into one trace."""
    spans = []
    for n, session in ((1, "a"), (2, "b")):
        call = make.call(n, [("user", "Where is my order?")], f"Here, {session}.", parent=99, at=n)
        spans.append(make.span(n, {**call.attributes, "session.id": session}, parent=99, at=n))
    assert [("a", "Here, a."), ("b", "Here, b.")] == [(turn.session_id, turn.response) for turn in turns(spans)]


def test_a_question_taken_apart(make: Make, turns: Turns) -> None:
    """Sub-questions between two calls with the same question are steps on the way to its answer."""
    question = "Is the lamp cheaper than the oven?"
    spans = [
        make.span(1, {}),
        make.call(2, [("user", question)], "lamp price; oven price", parent=1),
        make.retrieval(3, "lamp price", {"l": "The lamp costs 5."}, parent=1, at=1),
        make.retrieval(4, "oven price", {"o": "The oven costs 9."}, parent=1, at=2),
        make.call(5, [("user", question)], "Yes, by 4.", parent=1, at=3),
    ]
    (turn,) = turns(spans)
    assert (question, "Yes, by 4.", ["l", "o"]) == (turn.query, turn.response, [c.id for c in turn.citations])


def test_a_missing_root(make: Make, turns: Turns) -> None:
    """Children of a parent that never came are one turn, named after that parent, and it is flagged."""
    spans = [
        make.retrieval(2, "Why?", {"a": "x"}, parent=1),
        make.call(3, [("user", "Why?")], "So.", parent=1, at=1),
    ]
    (turn,) = turns(spans)
    assert (make.id(1), True) == (turn.span_id, "root_missing" in turn.flags)


def test_a_root_that_comes_late(make: Make, turns: Turns) -> None:
    """The turn keeps its id when its root arrives after its children."""
    children = [
        make.retrieval(2, "Why?", {"a": "x"}, parent=1),
        make.call(3, [("user", "Why?")], "So.", parent=1, at=1),
    ]
    assert turns(children)[0].turn_id == turns([*children, make.chain(1, "Why?", "So.")])[0].turn_id


def test_two_missing_parents(make: Make, turns: Turns) -> None:
    """Steps whose parents both never came are one turn when together they ask and answer once."""
    spans = [
        make.retrieval(2, "warranty pump", {"a": "x"}, parent=1),
        make.call(3, [("user", "Is the pump covered?")], "Yes.", parent=9, at=1),
    ]
    assert [("Is the pump covered?", "Yes.")] == exchanges(turns, spans)


def test_a_leaked_context(make: Make, turns: Turns) -> None:
    """After a root that was never ended, a chain that searches by itself begins the next turn."""
    spans = [
        make.retrieval(2, "Is the pump covered?", {"a": "x"}, parent=1),
        make.chain(4, "How long is shipping?", None, parent=9, at=2),
        make.retrieval(5, "How long is shipping?", {"b": "y"}, parent=4, at=2.1),
    ]
    assert ["Is the pump covered?", "How long is shipping?"] == [turn.query for turn in turns(spans)]


def test_graph_nodes_whose_root_never_came(make: Make, turns: Turns) -> None:
    """Nodes of one graph run share their question and are one turn."""
    state = '{"messages": [{"type": "human", "data": {"content": "Why?"}}]}'
    answer = '{"messages": [{"type": "ai", "data": {"content": "So."}}]}'
    spans = [
        make.chain(2, state, '{"documents": [{"page_content": "x", "id": "a"}]}', parent=1),
        make.chain(3, state, answer, parent=1, at=1),
    ]
    assert [("Why?", "So.")] == exchanges(turns, spans)


def test_a_cycle_of_parents(make: Make, turns: Turns) -> None:
    """Spans that are each other's parents still make a turn."""
    spans = [make.chain(1, "Why?", "So.", parent=2), make.call(2, [("user", "Why?")], "So.", parent=1, at=1)]
    assert [("Why?", "So.")] == exchanges(turns, spans)


def test_a_span_that_is_its_own_parent(make: Make, turns: Turns) -> None:
    """A span that names itself as parent is a root."""
    assert [("Why?", "So.")] == exchanges(turns, [make.chain(1, "Why?", "So.", parent=1)])


@pytest.mark.parametrize(
    ("kind", "reason"),
    [("EMBEDDING", "embedding_only"), ("TOOL", "tool_only"), ("PROMPT", "noise"), ("EVALUATOR", "evaluation")],
)
def test_single_steps_that_are_no_turn(make: Make, assemble: Assemble, kind: str, reason: str) -> None:
    """Nobody is answered by an embedding, a tool, a prompt template or an evaluator; they are counted."""
    assembly = assemble([make.span(1, {"openinference.span.kind": kind, "input.value": "x"})])
    assert ((), {reason: 1}) == (assembly.turns, assembly.unread)


def test_a_lone_call_that_chose_tools(make: Make, assemble: Assemble) -> None:
    """Without a trace around an agent's loop, the call that is given the results answers, not the one that chose."""
    attributes = make.call(1, [("user", "Stock?")], None).attributes
    calls = {"llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "search"}
    assembly = assemble([make.span(1, {**attributes, **calls})])
    assert ((), {"tool_call_only": 1}) == (assembly.turns, assembly.unread)


def test_judging_is_no_turn(make: Make, assemble: Assemble) -> None:
    """Model calls below an evaluator judge a turn and are none, inside a turn and alone."""
    evaluator = make.span(2, {"openinference.span.kind": "EVALUATOR"}, parent=1)
    judging = make.call(3, [("user", "Is it grounded?")], "5", parent=2, at=1)
    alone = assemble([evaluator, judging])
    inside = assemble(
        [make.chain(1, "Why?", None), make.call(4, [("user", "Why?")], "So.", parent=1), evaluator, judging]
    )
    assert ((), ["So."]) == (alone.turns, [turn.response for turn in inside.turns])


def test_an_answer_after_many_tools(make: Make, turns: Turns) -> None:
    """However often a model chose tools before, the call that answers makes it a turn."""
    spans = [make.span(1, REQUEST, lasts=99)]
    for number in range(2, 72):
        call = make.call(number, [("user", "Is the pump covered?")], None, parent=1, at=number * 0.1, lasts=0.05)
        tool = {"llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "find"}
        spans.append(replace(call, attributes={**call.attributes, **tool}))
    spans.append(make.call(72, [("user", "Is the pump covered?")], "It is covered.", parent=1, at=9))
    assert [("Is the pump covered?", "It is covered.")] == exchanges(turns, spans)


def test_filling_a_vector_store_is_no_turn(make: Make, assemble: Assemble) -> None:
    """A chain with nothing but embeddings below it is ingestion."""
    spans = [
        make.chain(1, '{"text": "A long document."}', None),
        make.span(2, {"openinference.span.kind": "EMBEDDING"}, parent=1),
    ]
    assert {"ingestion": 2} == assemble(spans).unread


def test_splitting_text_is_no_turn(make: Make, turns: Turns) -> None:
    """A lone helper chain whose input is a text rather than a question is no turn."""
    assert () == turns([make.chain(1, '{"text": "A long document."}', '["A long document."]')])


def test_a_lone_chain_that_asked_and_answered(make: Make, turns: Turns) -> None:
    """An app may write one span a turn."""
    assert [("Why?", "So.")] == exchanges(turns, [make.chain(1, "Why?", "So.")])


def test_a_lone_retrieval(make: Make, turns: Turns) -> None:
    """A retrieval without an answer is kept as such; what was searched for stands for the question."""
    (turn,) = turns([make.retrieval(1, "Why?", {"a": "x"})])
    assert ("Why?", None, frozenset({"retrieval_only", "query_from_retrieval"})) == (
        turn.query,
        turn.response,
        turn.flags,
    )


def test_spans_nobody_claims(make: Make, assemble: Assemble) -> None:
    """A trace without any known convention is counted, span by span."""
    assembly = assemble(
        [make.span(1, REQUEST), make.span(2, {"custom": "x"}, parent=1), make.span(3, {"custom": "y"}, parent=1)]
    )
    assert ((), {"transport": 1, "no_dialect": 2}) == (assembly.turns, assembly.unread)


def test_more_spans_than_are_looked_at(make: Make, assemble: Assemble) -> None:
    """The earliest spans are looked at, the turn is flagged and the rest counted."""
    spans = [make.chain(1, "Why?", "So.")] + [
        make.call(n, [("user", "Why?")], "So.", parent=1, at=n) for n in range(2, 9)
    ]
    assembly = assemble(spans, max_spans=3)
    assert (True, {"over_limit": 5}) == ("span_limit" in assembly.turns[0].flags, assembly.unread)


def test_a_deep_trace(make: Make, turns: Turns) -> None:
    """Nesting deeper than Python's own stack is read like any other."""
    spans = [make.chain(1, "Why?", "So.")] + [make.span(n, {}, parent=n - 1) for n in range(2, 3000)]
    assert [("Why?", "So.")] == exchanges(turns, spans)


def test_an_unclaimed_trace_of_any_depth(make: Make, turns: Turns) -> None:
    """A call below thousands of spans that nobody claims is still found."""
    spans = [make.span(n, {}, parent=n - 1 or None) for n in range(1, 3000)]
    spans.append(make.call(3000, [("user", "Why?")], "So.", parent=2999))
    assert [("Why?", "So.")] == exchanges(turns, spans)


def test_a_call_that_left_no_span(make: Make, turns: Turns) -> None:
    """Some instrumentations drop the span of a call that failed: the app's own span of the conversation tells of it."""
    raised = make.event("exception", {"exception.type": "openai.InternalServerError"})
    own = {"session.id": "s", "user.id": "u"}
    (turn,) = turns([make.span(1, own, name="chat", status=2, events=[raised])])
    assert ("s", None, None, "InternalServerError") == (turn.session_id, turn.query, turn.response, turn.error)
    below = make.span(2, {"http.request.method": "POST", "http.response.status_code": 500}, parent=1, status=2)
    assert 1 == len(turns([make.span(1, own, name="chat", status=2, events=[raised]), below]))


def test_a_failure_of_something_else(make: Make, turns: Turns) -> None:
    """Other errors, errors that were handled and spans without a conversation are no turns."""
    other = make.event("exception", {"exception.type": "sqlalchemy.exc.OperationalError"})
    raised = make.event("exception", {"exception.type": "openai.RateLimitError"})
    assert () == turns([make.span(1, {"session.id": "s"}, status=2, events=[other])])
    assert () == turns([make.span(1, {"session.id": "s"}, events=[raised])])
    assert () == turns([make.span(1, {}, status=2, events=[raised])])


def test_a_failure_around_a_call_that_was_seen(make: Make, turns: Turns) -> None:
    """An app's span around the call is the call's turn, once."""
    raised = make.event("exception", {"exception.type": "openai.InternalServerError"})
    around = make.span(1, {"session.id": "s"}, name="chat", status=2, events=[raised], lasts=3)
    (turn,) = turns([around, make.call(2, [("user", "Why?")], None, parent=1, at=1, status=2)])
    assert ("s", "Why?", "InternalServerError") == (turn.session_id, turn.query, turn.error)


def test_nodes_of_a_graph_that_say_nothing(make: Make, turns: Turns) -> None:
    """One node searches, one grades, one answers and one checks: a turn, though each has a question and an answer."""
    fact, answer = "The mill is run by the Berger family since 1900.", "It is run by the Berger family, since 1900."
    nodes = [make.chain(at, None, None, parent=1, at=at, lasts=0.9) for at in (2, 3, 4, 5)]
    (turn,) = turns(
        [
            make.chain(1, None, None, lasts=9),
            *nodes,
            make.retrieval(12, "Who runs the mill?", {"k-1": fact}, parent=2, at=2, lasts=0.1),
            make.call(13, [("user", f"Document: {fact}\n\nUser question: Who runs the mill?")], "yes", parent=3, at=3),
            make.call(
                14, [("system", f"Context: {fact}"), ("user", "Who runs the mill?")], answer, parent=4, at=4, lasts=0.1
            ),
            make.call(
                15,
                [("user", f"Facts: {fact}\n\nGeneration: {answer}\n\nAsked was: Who runs the mill?")],
                "yes",
                parent=5,
                at=5,
                lasts=0.1,
            ),
        ]
    )
    assert ("Who runs the mill?", answer) == (turn.query, turn.response)


def test_a_call_for_tools_that_the_client_describes_too(make: Make, turns: Turns) -> None:
    """A client's own span inside tells no content; that the call only chose a tool stands around it."""
    call = {"gen_ai.operation.name": "chat", "gen_ai.provider.name": "p"}
    prompt = '[{"role": "user", "parts": [{"type": "text", "content": "Why?"}]}]'
    output = '[{"role": "assistant", "parts": [{"type": "tool_call", "id": "c", "name": "search"}]}]'
    outer = make.span(1, {**call, "gen_ai.input.messages": prompt, "gen_ai.output.messages": output})
    assert () == turns([outer, make.span(2, call, parent=1)])


@pytest.mark.parametrize(("reason", "count"), [("tool_calls", 0), ("tool_use", 0), ("stop", 1)])
def test_a_call_for_tools_without_content(make: Make, turns: Turns, reason: str, count: int) -> None:
    """Where no content is recorded, the finish reason tells that a call only chose a tool."""
    call = {"gen_ai.operation.name": "chat", "gen_ai.request.model": "m", "gen_ai.response.finish_reasons": [reason]}
    assert count == len(turns([make.span(1, call)]))


def test_a_crew_whose_model_is_not_seen(make: Make, turns: Turns) -> None:
    """A crew that answered has a turn, though only its first task tells what it was asked."""
    crew = {"openinference.span.kind": "CHAIN", "crew_tasks": '[{"description": "Answer: Why?"}]'}
    crew |= {"output.value": '{"raw": "So."}', "output.mime_type": "application/json"}
    agent = make.span(2, {"openinference.span.kind": "AGENT", "output.value": "So."}, parent=1)
    (turn,) = turns([make.span(1, crew), agent])
    assert ("Answer: Why?", "So.") == (turn.query, turn.response)
