"""Telling that two texts are in different languages."""

import pytest

from monitor.text.languages import differ, script

_ENGLISH = "The amount is paid to the account within fourteen days, and there is no fee for the transfer of it."
_DUTCH = "Het bedrag wordt binnen veertien dagen op de rekening gestort en er zijn geen kosten voor het overmaken."
_GERMAN = (
    "Der Betrag wird innerhalb von vierzehn Tagen auf das Konto überwiesen, und es gibt keine Gebühr für die Zahlung."
)
_JAPANESE = "返金は14日以内に行われます。手数料はかかりません。"
_CHINESE = "款项将在十四天内退还到您的账户，不收取任何费用。"


@pytest.mark.parametrize(
    ("text", "reference"),
    [(_DUTCH, _ENGLISH), (_GERMAN, _ENGLISH), (_ENGLISH, _GERMAN), (_JAPANESE, _ENGLISH), (_CHINESE, _JAPANESE)],
)
def test_different(text: str, reference: str) -> None:
    """Running text in another language is told apart."""
    assert differ(text, reference)


@pytest.mark.parametrize(
    ("text", "reference"),
    [
        (_ENGLISH, _ENGLISH),
        (_DUTCH, _DUTCH),
        (_JAPANESE, _JAPANESE),
        ("14 days.", _DUTCH),
        ("Amsterdam, Rotterdam", _ENGLISH),
        ("42", _JAPANESE),
        ("", _ENGLISH),
        (_ENGLISH, "kb-1 42"),
        ("wifi router firmware reset button", _ENGLISH),
    ],
)
def test_same_or_unknown(text: str, reference: str) -> None:
    """The same language, and texts too short to tell, never count as different."""
    assert not differ(text, reference)


def test_japanese_is_not_chinese() -> None:
    """A Japanese text is told from a Chinese one by its kana, however many Chinese characters it has."""
    assert "kana" == script("返金手続完了通知書は")
    assert "han" == script("退款手续完成通知书")
