"""Questions and documents inside prompts."""

import pytest

from monitor.assembly.prompt_documents import quoted_documents
from monitor.assembly.prompt_patterns import prompt_patterns
from monitor.assembly.prompt_question import Question, passages, question, rewrites
from monitor.dialects.openinference import DIALECT as OPENINFERENCE
from monitor.model.turns import Citation, Message

PATTERNS = prompt_patterns([OPENINFERENCE.prompt_wording])
PUMP = "The warranty covers the pump for two years."


@pytest.mark.parametrize(
    "message",
    [
        f"Context:\n[kb-1] {PUMP}\n\nQuestion: Is the pump covered?",
        f"Context information is below.\n---\n{PUMP}\n---\nQuery: Is the pump covered?\nAnswer: ",
        f"<context>\n{PUMP}\n</context>\n<question>Is the pump covered?</question>",
        f"[[ ## context ## ]]\n[{PUMP}]\n\n[[ ## question ## ]]\nIs the pump covered?\n\nRespond with the fields",
        f"Use the following documents.\n{PUMP}\n\nUser question: Is the pump covered?\n\nHelpful Answer:",
        "Given the following conversation, rephrase it.\nFollow Up Input: Is the pump covered?\nStandalone question:",
        f"# Documents\n{PUMP}\n\n**Question:** Is the pump covered?",
        "Conversation history:\nUSER: Hi\n\nFollow-up query:\nIs the pump covered?\n\nStandalone query:\n",
        f"Is the pump covered?\n\nContext: {PUMP}",
    ],
)
def test_a_question_in_a_template(message: str) -> None:
    """The question is cut out of the usual templates."""
    cut = question(message, PATTERNS, contents=[PUMP], searched=["Is the pump covered?"])
    assert Question("Is the pump covered?", is_part=True) == cut


@pytest.mark.parametrize(
    "message",
    [
        "Is the pump covered?",
        "I have a problem.\nInput: 5\nOutput: 6\nWhy?",
        "Two things: the pump, and\nthe question: is it covered?",
        "I read the context. Is it right?",
    ],
)
def test_a_question_of_ones_own(message: str) -> None:
    """What a person wrote is not cut, whatever words stand in it."""
    assert Question(message, is_part=False) == question(message, PATTERNS)


@pytest.mark.parametrize(
    "message",
    [
        f"Answer the question based only on the following context:\n{PUMP}\n\nQuestion: Is the pump covered?",
        f"Is the pump covered?\n\nContext information is below, surrounded by -----\n\n-----\n{PUMP}\n-----\n\nReply.",
        f"Is the pump covered?\n\nAnswer using the following information:\n{PUMP}",
    ],
)
def test_a_question_in_a_template_of_an_app_that_says_no_more(message: str) -> None:
    """The same where nobody told what was found, also when the question comes first."""
    assert Question("Is the pump covered?", is_part=True) == question(message, PATTERNS)


def test_a_question_without_a_marker() -> None:
    """Where documents and question only follow each other, the last paragraph is the question."""
    assert Question("Is the pump covered?", is_part=True) == question(
        f"{PUMP}\n\nIs the pump covered?", PATTERNS, contents=[PUMP]
    )


def test_a_prompt_of_documents_only() -> None:
    """Nothing is left when the question stands in another message."""
    assert question(PUMP, PATTERNS, contents=[PUMP]) is None


def test_passages_by_id() -> None:
    """The text of documents that came as ids stands behind the ids."""
    prompt = f"Context:\n[kb-1] Warranty\n{PUMP}\n[kb-10] Shipping takes a day.\n\nQuestion: Is it covered?"
    texts = passages([Message(role="user", content=prompt)], ["kb-1", "kb-10"], PATTERNS)
    assert {"kb-1": f"Warranty\n{PUMP}", "kb-10": "Shipping takes a day."} == texts


def test_passages_of_a_tool() -> None:
    """LangChain's retriever tool prints metadata before the content."""
    printed = (
        f"Source: {{'doc_id': 'kb-1', 'title': 'x'}}\nContent: {PUMP}\n\nSource: {{'doc_id': 'kb-2'}}\nContent: Other."
    )
    assert {"kb-1": PUMP, "kb-2": "Other."} == passages(
        [Message(role="tool", content=printed)], ["kb-1", "kb-2"], PATTERNS
    )


def test_earlier_answers_quote_nothing() -> None:
    """An id that an answer cites is no document."""
    assert {} == passages([Message(role="assistant", content=f"{PUMP} [kb-1]. More text.")], ["kb-1"], PATTERNS)


@pytest.mark.parametrize(
    ("identity", "prompt"),
    [
        ("3", f"{PUMP} Descale every 3 months, or when the light blinks."),
        ("3", f"{PUMP} Descale every\n3 months, or when the light blinks."),
        ("3", f"[1] {PUMP}\n[2] Shipping takes a day.\n[3] Returns are free."),
        ("warranty", "The warranty covers the pump. A document on this warranty is enclosed."),
        ("kb-2", f"[kb-1] See kb-2 for shipping.\n{PUMP}"),
    ],
)
def test_ids_in_running_text(identity: str, prompt: str) -> None:
    """A number, a word or a reference in a sentence introduces no document, nor does a number in a list."""
    assert {} == passages([Message(role="user", content=f"Context:\n{prompt}")], [identity], PATTERNS)


@pytest.mark.parametrize(
    ("identity", "prompt"),
    [
        ("3", f"id: 3\n{PUMP}"),
        ("3", f'<document id="3">{PUMP}'),
        ("3", f"{{'id': 3, 'text': '{PUMP}"),
        ("3", f'{{\\"_id\\": \\"3\\"}}\n{PUMP}'),
        ("warranty", f"warranty: {PUMP}"),
        ("warranty", f"- **warranty**\n{PUMP}"),
        ("warranty.md", f"Source: warranty.md\n{PUMP}"),
        ("kb-1", f"Document kb-1\n{PUMP}"),
        ("kb-1", f"1. kb-1 {PUMP}"),
        ("kb-1", f"Read this (kb-1): {PUMP}"),
        ("kb-1", f"[kb-7] As kb-1 says, see below.\n[kb-1] {PUMP}"),
    ],
)
def test_ids_that_introduce(identity: str, prompt: str) -> None:
    """An id in brackets, behind a word such as `Source:` or at the head of a line has its text behind it."""
    texts = passages([Message(role="user", content=f"Context:\n{prompt}")], [identity], PATTERNS)
    assert texts[identity].removeprefix("text': '") == PUMP


def test_documents_that_only_the_prompt_holds() -> None:
    """Labelled parts of a context block are a citation each, known to have been used."""
    prompt = f"Context:\n[kb-1] {PUMP}\n[kb-2] Shipping takes one day.\n\nQuestion: Is it covered?"
    expected = (
        Citation(id="kb-1", content=PUMP, rank=1, used=True),
        Citation(id="kb-2", content="Shipping takes one day.", rank=2, used=True),
    )
    assert expected == quoted_documents([Message(role="user", content=prompt)], PATTERNS)


@pytest.mark.parametrize(
    "prompt",
    [
        f"Answer the question based only on the following context:\n{PUMP}\n\nQuestion: Is it covered?",
        f"Use the following pieces of context to answer. Say so if it does not.\n\n{PUMP}\n\nQuestion: Is it covered?",
        f"Is it covered?\n\nContext information is below, surrounded by --- \n---\n{PUMP}\n---\n\nGiven it, reply.",
        f"Context information is below.\n\n---\n{PUMP}\n---\n\nGiven the context, answer.\n\nQuery: Is it?",
        f"Is it covered?\n\nUse the following information to complete your task:\n\n{PUMP}",
    ],
)
def test_documents_that_a_sentence_introduces(prompt: str) -> None:
    """A line that ends with a colon, or a paragraph, may announce the documents; rules may enclose them."""
    assert (Citation(content=PUMP, rank=1, used=True),) == quoted_documents(
        [Message(role="user", content=prompt)], PATTERNS
    )


@pytest.mark.parametrize(
    "prompt",
    [
        "Is it covered?\n\nContext information is below, surrounded by ---\n\n---\nTwo years.\n---\n\nGiven it, reply.",
        "Context information is below.\n\n---------\nTwo years.\n---------\n\nAnswer.\n\nQuery: Is it?\n\nAnswer:\n",
        "<context>\nTwo years.\n</context>\n\nQuestion: Is it covered?",
    ],
)
def test_short_documents_in_a_frame(prompt: str) -> None:
    """What rules or tags enclose is read, however short."""
    assert (Citation(content="Two years.", rank=1, used=True),) == quoted_documents(
        [Message(role="user", content=prompt)], PATTERNS
    )


@pytest.mark.parametrize(
    "prompt",
    [
        "Is it covered?\n\nContext information is below, surrounded by ---\n\n---\nNo documents found.\n---\n\nReply.",
        "<context>None</context>\n\nQuestion: Is it covered?",
        "Is it covered?\n\nContext information is below, surrounded by ---\n\n---\n\n---\n\nGiven it, reply.",
        "Answer in the following format of documents, in which each line stands for itself:\nyes or no",
        "Context:\n(no documents found)\n\nQuestion: Is it covered?",
        "Answer using only the context below. If it does not contain the answer, say so, and never invent anything.",
        "Is the pump covered?",
    ],
)
def test_a_prompt_without_documents(prompt: str) -> None:
    """Instructions about a context, and remarks that it is empty, are no documents."""
    assert () == quoted_documents([Message(role="user", content=prompt)], PATTERNS)


def test_hostile_prompts_take_no_time() -> None:
    """Prompts of a million characters made to trip patterns are read in linear time."""
    for piece in (
        "\n",
        "<question>",
        "[",
        "Question:",
        " \n",
        "[[ ## question ## ]]",
        "context ",
        "-\n",
        "the following context:\n",
    ):
        text = piece * (1_000_000 // len(piece))
        question(text, PATTERNS)
        quoted_documents([Message(role="user", content=text)], PATTERNS)
    assert "b" == question("[[ ## question ## ]]\n" + " " * 1_000_000 + "b", PATTERNS).text


@pytest.mark.parametrize(
    "returned",
    [
        '{"result": [{"id": "k-1", "content": "The mill is run by the Berger family."}]}',
        "[k-1] The mill is run by the Berger family.",
        "Source: {'id': 'k-1'}\nContent: The mill is run by the Berger family.",
    ],
)
def test_what_a_tool_returned(returned: str) -> None:
    """Agents show the model what a tool found as a message; what it found for an earlier question is another turn's."""
    messages = [
        Message(role="user", content="What is it?"),
        Message(role="tool", content='[{"id": "k-0", "content": "A mill has a wheel and stones."}]'),
        Message(role="assistant", content="A mill."),
        Message(role="user", content="Who runs it?"),
        Message(role="tool", content=returned),
    ]
    assert (
        Citation(id="k-1", content="The mill is run by the Berger family.", rank=1, used=True),
    ) == quoted_documents(messages, PATTERNS)


def test_a_tool_that_found_nothing() -> None:
    """A remark, a number or an empty list are no documents."""
    for returned in ("Nothing found.", "[]", "42", "[error] timeout", '{"temperature": 20}'):
        messages = [Message(role="user", content="Why?"), Message(role="tool", content=returned)]
        assert () == quoted_documents(messages, PATTERNS)


def test_documents_with_descriptions() -> None:
    """LlamaIndex writes a document's metadata above its text."""
    prompt = (
        "Context information is below.\n---------------------\ntitle: Pumps\nsource: pumps.md\n\n"
        f"{PUMP}\n\nIt is paid in full.\n\ntitle: Fees\nsource: fees.md\n\nFive euros for a parcel.\n"
        "---------------------\nGiven the context information, answer the query.\nQuery: Why?\nAnswer: "
    )
    citations = quoted_documents([Message(role="user", content=prompt)], PATTERNS)
    assert [
        ("Pumps", "pumps.md", f"{PUMP}\n\nIt is paid in full."),
        ("Fees", "fees.md", "Five euros for a parcel."),
    ] == [(citation.title, citation.source, citation.content) for citation in citations]


def test_a_task_of_an_agent() -> None:
    """CrewAI asks for a task to be done, to which an app adds the question."""
    task = "\nCurrent Task: {}\n\nThis is the expected criteria for your final answer: a text\nyou MUST return it."
    assert Question("Why?", is_part=True) == question(task.format("Answer the user's question: Why?"), PATTERNS)
    assert Question("Sum up: all.", is_part=True) == question(task.format("Sum up: all."), PATTERNS)


def test_rewriting_is_told_by_prompt_and_output() -> None:
    """A question that was asked for; an answer to a question about rewriting is an answer."""
    prompt = [Message(role="user", content="Chat History: ...\nFollow Up Input: And it?\nStandalone question:")]
    assert (True, False) == (rewrites(prompt, "Is the pump covered?"), rewrites(prompt, "It is covered."))
    assert not rewrites([Message(role="user", content="Is the pump covered?")], "Which pump?")


@pytest.mark.parametrize(
    "prompt",
    [
        "It is very important that you provide only reformulated query and nothing else!",
        "Your task is to generate 3 different versions of the given user question to retrieve relevant documents.",
        "Your task is to synthesize a concise, standalone query that incorporates the context from the history.",
        "Generate a search query based on the conversation and the new question.",
    ],
)
def test_rewriting_that_frameworks_bring(prompt: str) -> None:
    """It is known by its words, whatever the model wrote; a prompt that quotes a question is none."""
    assert rewrites([Message(role="user", content=prompt)], "aurora pump warranty")
    assert not rewrites([Message(role="user", content="Answer the given user question.")], "aurora pump warranty")
