"""Sentences that claim nothing."""

import pytest

from monitor.text.claims import LONGEST, claims, refuses


@pytest.mark.parametrize(
    "sentence",
    [
        "You're welcome!",
        "Let me know if you have any other questions.",
        "If you have more questions, feel free to ask!",
        "I'm glad I could help.",
        "Is there anything else?",
        "どうしますか？",
        "I do not have specific information about version 6.16.0.",
        "I’m sorry, but I can’t assist with that.",
        "The documents do not mention a refund.",
        "The provided context doesn't contain enough information.",
        "I could not find anything about that in the documentation.",
        "This is not mentioned in the provided documents.",
        "Ik kan dat niet in de documenten vinden.",
        "De documenten vermelden daar niets over.",
        "Ich kann diese Frage nicht beantworten.",
        "Je ne sais pas.",
        "No encuentro esa información.",
        "抱歉，我无法回答这个问题。",
        "申し訳ありませんが、わかりません。",
    ],
)
def test_no_claim(sentence: str) -> None:
    """Courtesies, questions, offers and refusals claim nothing."""
    assert not claims(sentence)


@pytest.mark.parametrize(
    "sentence",
    [
        "Refunds are paid within 14 days.",
        "The documents say that refunds take 14 days.",
        "I cannot say for sure, but it takes 14 days.",
        "While the context does not give a date, refunds take 14 days.",
        "Similar shows are Community and 30 Rock but the document does not state a rival.",
        "If you need help finding a lawyer, the Bar Association can refer you to one.",
        "Hi Bob, the invoice over 350 euro was paid on Monday by card.",
        "A refund is not available in this shop.",
        "返金は14日以内です。",
        "Der Text wird nicht ausgegeben.",
    ],
)
def test_claim(sentence: str) -> None:
    """A sentence that states something is a claim, also beside a refusal."""
    assert claims(sentence)


def test_refuses() -> None:
    """An answer refuses when it declines and states nothing beside it."""
    assert refuses(["I'm sorry.", "The documents do not mention that.", "Anything else?"])
    assert not refuses(["I'm sorry.", "It takes 14 days."])
    assert not refuses(["Hello!"])
    assert not refuses([])


def test_very_long() -> None:
    """A sentence of more than 4,000 characters states something, also where it declines."""
    sentence = "I cannot answer that " + "a" * LONGEST
    assert not claims(sentence[:LONGEST])
    assert refuses([sentence[:LONGEST]])
    assert claims(sentence)
    assert not refuses([sentence])
