"""Which language a text is in, as far as its script and its function words tell, and whether two texts differ in it.

A check against a blunder, not a detector: a lexical score is meaningless across languages, so it abstains there.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from types import MappingProxyType

FUNCTION_WORDS = MappingProxyType(
    {
        language: frozenset(words.split())
        for language, words in {
            "en": """a about after all also am an and any are as at be because been before being both but by can could
                did do does doing for from had has have having he her here him his how i if in into is it its just me
                more most my no nor not of on only or other our out over own same she should so some such than that the
                their them then there these they this those through to too under until up very was we were what when
                where which while who whom why will with would you your""",
            "nl": """aan als bij dan dat de deze die dit door een en er geen haar heb hebben heeft het hij hoe hun ik in
                is je kan kunnen maar meer met mij moet na naar niet nog of om onder ook op over te tegen tot u uit uw
                van veel voor waar was wat we wel werd wordt zal ze zich zij zijn zo zonder zou""",
            "de": """aber alle als am an auch auf aus bei bis das dass dem den der des die diese dieser durch ein eine
                einem einen einer er es für haben hat ich ihr im in ist kann mit nach nicht noch nur oder sein sich sie
                sind so über um und uns unter vom von vor war was wenn werden wie wird wir zu zum zur""",
            "fr": """au aux avec ce ces cette dans de des du elle en est et être il ils je la le les leur lui mais ne
                nous on ou où par pas plus pour que qui sa se ses son sont sur un une vous à été""",
            "es": """al con de del el ella en entre es esta este está fue ha hay la las le lo los más no nos o para
                pero por que se ser sin sobre son su sus también un una y ya""",
            "it": """a al alla anche che chi ci come con da dal dalla dei del della delle di e è gli ha i il in la le lo
                ma nel nella non o per più questa questo se si sono su sul tra un una uno""",
            "pt": """ao aos as com como da das de do dos e em entre é foi há isso mais mas na nas no nos não o os ou
                para pela pelo por que se sem seu sua são também um uma""",
            "sv": "att av de den det du en ett för från han har hon i inte jag kan med men när om på som till var är",
            "da": "af at de den det der du en er et for fra han har ikke jeg kan med men og om på som til var vi",
            "pl": "ale być co czy dla do i jak jest już lub może na nie o od oraz po przez się są to w z za że",
            "cs": "a ale by do i jak je jako jsou k má na nebo o od po pro při se si s tak to v z za že",
            "tr": "ama bir bu çok da daha de değil en gibi için ile ise kadar mi ne o olan olarak ve veya ya",
            "vi": "các cho chỉ có của cũng được để không khi là một này như những ở tại theo thì trong từ và vào với",
            "ro": "a al ale ca care ce cu de din este și la mai nu o pe pentru prin sau se sunt un în",
            "id": "ada adalah akan anda atau bisa dan dapat dari dengan di ini itu juga ke pada saya tidak untuk yang",
        }.items()
    }
)
_SCRIPTS = (
    ("han", re.compile(r"[\u3400-\u4dbf\u4e00-\u9fff]")),
    ("kana", re.compile(r"[\u3040-\u30ff]")),
    ("hangul", re.compile(r"[\uac00-\ud7af]")),
    ("cyrillic", re.compile(r"[\u0400-\u04ff]")),
    ("greek", re.compile(r"[\u0370-\u03ff]")),
    ("arabic", re.compile(r"[\u0600-\u06ff]")),
    ("hebrew", re.compile(r"[\u0590-\u05ff]")),
    ("devanagari", re.compile(r"[\u0900-\u097f]")),
    ("thai", re.compile(r"[\u0e00-\u0e7f]")),
)
_LANGUAGES_OF: Mapping[str, tuple[str, ...]] = {
    word: tuple(language for language, known in FUNCTION_WORDS.items() if word in known)
    for word in frozenset().union(*FUNCTION_WORDS.values())
}
_LATIN = re.compile(r"[a-zà-ɏḀ-ỿ]", re.IGNORECASE)
_WORD = re.compile(r"[^\W\d_]+")
_SAMPLE = 2000
# One written character of these carries about as much as two letters.
_DENSE = frozenset({"han", "kana", "hangul"})
# A text of this many words tells its language when a fifth of them are function words of it, which running text holds
# twice over; a text of 25 words with next to none of a language's function words is not in that language.
_SHORT_WORDS = 5
_LONG_WORDS = 25
_SURE_SHARE = 0.2
_ABSENT_SHARE = 0.04


def script(text: str) -> str | None:
    """Return the script most of the letters of `text` are in, `latin` among them; None when it has no letters.

    Japanese is `kana` however many of its characters are Chinese ones.
    """
    sample = text[:_SAMPLE]
    if sample.isascii():  # most texts are, and the patterns are what costs
        return "latin" if _LATIN.search(sample) else None
    counts = Counter({name: len(pattern.findall(sample)) for name, pattern in _SCRIPTS})
    for name in _DENSE:
        counts[name] *= 2
    counts["latin"] = len(_LATIN.findall(sample))
    if counts["kana"] * 10 >= counts["han"]:
        counts["kana"] += counts.pop("han", 0)
    name, count = counts.most_common(1)[0]
    return name if count else None


def latin_language(text: str) -> str | None:
    """Return the code of the language whose function words `text` uses most, such as `en`; None when it uses none."""
    shares = _shares(text)
    language = max(shares, key=lambda name: shares[name], default=None)
    return language if language and shares[language] > 0 else None


def differ(text: str, reference: str) -> bool:
    """Return whether `text` is surely in another language than `reference`; False when either is too short to tell.

    >>> differ("Het bedrag wordt binnen veertien dagen op de rekening gestort.", "The amount is paid to the account.")
    True
    """
    ours, theirs = script(text), script(reference)
    if ours is None or theirs is None:
        return False
    if ours != theirs:
        return True
    return ours == "latin" and _latin_differ(text, reference)


def _latin_differ(text: str, reference: str) -> bool:
    ours, theirs = _shares(text), _shares(reference)
    if not ours or not theirs:
        return False
    expected = max(theirs, key=lambda language: theirs[language])
    language = max(ours, key=lambda language: ours[language])
    if theirs[expected] < _SURE_SHARE:
        return False
    words = len(_WORD.findall(text[:_SAMPLE]))
    if language != expected and ours[language] >= _SURE_SHARE and ours[language] >= 2 * ours[expected]:
        return words >= _SHORT_WORDS
    return words >= _LONG_WORDS and ours[expected] < _ABSENT_SHARE


def _shares(text: str) -> dict[str, float]:
    """Return the share of words that are function words, by language."""
    words = [word.lower() for word in _WORD.findall(text[:_SAMPLE])]
    if not words:
        return {}
    counts = Counter(words)
    totals = dict.fromkeys(FUNCTION_WORDS, 0)
    for word in counts.keys() & _LANGUAGES_OF.keys():
        for language in _LANGUAGES_OF[word]:
            totals[language] += counts[word]
    return {language: total / len(words) for language, total in totals.items()}
