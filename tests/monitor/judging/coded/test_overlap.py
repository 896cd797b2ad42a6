"""F1 of an answer with a reference, against examples worked out by hand."""

import pytest

from monitor.judging.coded.overlap import f1, words


@pytest.mark.parametrize(
    ("answer", "reference", "expected"),
    [
        ("Paris", "paris", 1.0),
        ("The Paris!", "a paris", 1.0),
        # 4 of 5 words of the answer are among the reference's 4: 2 x 4 / (5 + 4).
        ("refunds are paid in 14", "paid in 14 refunds", 8 / 9),
        # The published turn: alpine, explorer, tent are shared; 6 and 9 words without the articles.
        (
            "The Alpine Explorer Tent is the most waterproof.",
            "The Alpine Explorer Tent has the highest rainfly waterproof rating at 3000m",
            2 * 4 / (6 + 10),
        ),
        ("yes yes yes", "yes", 2 * 1 / (3 + 1)),
        ("no", "yes", 0.0),
        ("", "", 1.0),
        ("the", "a", 1.0),
        ("", "yes", 0.0),
        # 返金は14日以内です / 返金は14日: seven characters and a number each way are shared.
        ("返金は14日です", "返金は14日", 2 * 5 / (7 + 5)),
        ("무료 배송", "배송 무료", 1.0),
        ("Ｐａｒｉｓ", "Paris", 1.0),
        ("don't", "dont", 1.0),
    ],
)
def test_f1(answer: str, reference: str, expected: float) -> None:
    """Words are shared as often as both have them; case, punctuation and articles do not count."""
    assert pytest.approx(expected) == f1(answer, reference)
    assert f1(answer, reference) == f1(reference, answer)


def test_chinese_is_not_all_or_nothing() -> None:
    """Answers in Chinese that share characters share a part, where whole words would share nothing."""
    assert 0 < f1("退款在十四天内支付", "十四天内退款") < 1


def test_words() -> None:
    """Typographic punctuation and symbols are left out like ASCII's."""
    assert ["its", "350", "naïve", "été"] == words("It’s “$3.50” – naïve… été¿")
