"""Sentences that claim nothing documents could support: refusals, greetings, questions, offers of help.

English, Dutch, German, French, Spanish, Chinese and Japanese. A sentence that refuses and then goes on to
state something is a claim.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

LONGEST = 4000
"""Characters of a sentence beyond which it is taken to state something, whatever else stands in it."""
_SOURCES = (
    r"(?:documents?|documentation|passages?|texts?|context|sources?|articles?|information|materials?|knowledge base"
    r"|search results?|excerpts?|conversation)"
)
_DECLINE = (
    r"(?:have|find|know|see|answer|help|provide|say|tell|determine|locate|assist|offer|give|confirm|verify|access)"
)
_HOLD = (
    r"(?:say|state|mention|contain|include|provide|specify|answer|cover|address|tell|describe|discuss|explain|give|have"
    r"|offer|enough|sufficient|clear|available|mentioned|specified|provided)"
)
_HELD = r"(?:mentioned|stated|specified|covered|provided|included|described|addressed|discussed)"
_BE = r"is|was|are|were|could be"
_GIVEN = r"provided|given|above|available|i have|you provided"
_NOT = r"(?:(?:do|does|did|is|are|was|were|can|could) ?(?:not|n't))"
_EXACTLY = r"(?:(?:explicitly|specifically|directly|clearly|currently|really|actually|also) )?"
_HOLD_NL = r"(?:vermeld|noem|bevat|geef|geven|zeg|staa|beantwoord)"
_HOLD_DE = r"(?:enth|erwähn|nenn|geben|gibt|beantwort)"
_REFUSALS = (
    r"i(?:'m| am) (?:sorry|afraid)\b",
    rf"(?:i|we)(?:'m| am|'re| are) (?:(?:unable|not able) to (?:\w+ly )?{_DECLINE}\b|not (?:sure|aware of)\b)",
    rf"(?:i|we) (?:{_NOT}|can't) {_EXACTLY}{_DECLINE}\b",
    r"there is (?:no|not (?:enough|any|sufficient)) (?:\w+ ){0,3}(?:information|details?|mention|answer|reference)\b",
    rf"no (?:\w+ ){{0,2}}(?:information|answer|details) (?:(?:{_BE}) )?(?:available|found|given|{_HELD})\b",
    rf"{_SOURCES} (?:(?:{_GIVEN}) )?(?:also )?{_NOT} {_EXACTLY}(?:seem to )?{_HOLD}\b",
    rf"(?:not|n't) {_EXACTLY}{_HELD} (?:in|by) (?:\w+ ){{0,4}}{_SOURCES}\b",
    r"ik kan (?:\w+ ){0,6}(?:niet|geen)\b",
    r"ik weet (?:het )?niet\b",
    rf"(?:documenten?|bronnen|context|tekst) (?:\w+ ){{0,2}}{_HOLD_NL}\w* (?:\w+ ){{0,4}}(?:geen|niets?)\b",
    r"ich kann (?:\w+ ){0,6}(?:nicht|keine)\b",
    r"ich wei(?:ß|ss) (?:es )?nicht\b",
    rf"(?:dokumente?n?|quellen|kontext|text) (?:\w+ ){{0,2}}{_HOLD_DE}\w* (?:\w+ ){{0,4}}(?:kein\w*|nichts?)\b",
    r"je ne (?:sais|peux|trouve|dispose)\b",
    r"(?:documents?|sources|contexte|texte) (?:\w+ ){0,3}ne (?:contien|mentionn|précis|fourni|donn|indiqu|permet)",
    r"no (?:puedo|encuentro|tengo|sé|dispongo)\b",
    r"(?:documentos?|fuentes|contexto|texto) (?:\w+ ){0,3}no (?:mencion|contien|proporcion|indic|inclu|especific)",
)
_REFUSALS_UNSPACED = (
    "抱歉|对不起|無法|无法(?:回答|提供|找到)|没有(?:相关|提到|提供|找到)|不知道",
    "申し訳|わかりません|分かりません|見つかりません|(?:記載|情報)(?:が|は)(?:ありません|ございません)",
)
_GREETINGS = (
    r"you(?:'re| are) (?:\w+ )?welcome|thanks?(?: you)?|hi|hello|hey|dear|good (?:morning|afternoon|evening)|sure",
    r"of course|certainly|absolutely|great question|no problem|my pleasure|goodbye|bye|have a",
    r"graag gedaan|dank (?:je|u)|bedankt|hallo|goede(?:morgen|middag|navond)|laat het me weten",
    r"gern geschehen|danke|guten (?:tag|morgen)|de rien|merci|bonjour|de nada|gracias|hola",
)
_OFFER = (
    r"(?:feel free|let me know|just ask|please (?:ask|share)|i(?:'ll| can| would be|'d be|'m| am) (?:happy|glad|here))"
)
_COURTESIES = (
    rf"(?:{'|'.join(_GREETINGS)})(?:\W+\w+){{0,4}}\W*$",
    r"i hope (?:this|that|it|these|the information|my)\b",
    r"(?:please )?(?:let me know|feel free|(?:do not|don't) hesitate)",
    r"(?:i(?:'m| am) )?(?:glad|happy|pleased|here) (?:i could|to|that)\b",
    rf"if you (?:have|need|want|would like|'d like) .*\b{_OFFER}\b",
    r"how (?:can|may) i (?:help|assist)",
    "不客气|谢谢|你好|您好|こんにちは|ありがとう|どういたしまして",
)
_TURN = r"(?:but|however|although|though|yet|maar|echter|aber|jedoch|mais|cependant|pero|sin embargo)"
# Text is put in lower case before: ignoring case takes six times as long, since no alternative is left out early.
_REFUSAL = re.compile(rf"\b(?:{'|'.join(_REFUSALS)})|{'|'.join(_REFUSALS_UNSPACED)}")
_COURTESY = re.compile(rf"\W*+(?:{'|'.join(_COURTESIES)})")
# Beside these a refusing sentence states something after all.
_BEFORE = re.compile(rf"^(?:while|although|though|even though|\w+(?:\W+\w+){{4,}}\W+{_TURN}\b)")
_AFTER = re.compile(rf"[,;:.—–]\s*+{_TURN}\b|[但でし](?:(?<=但)|(?<=で)すが|(?<=し)かし)")
_QUESTION = re.compile(r"[?？؟][\s\"'”)\]*_]*$")


def claims(sentence: str) -> bool:
    """Return whether `sentence` states anything.

    >>> claims("You're welcome!"), claims("The documents do not mention it."), claims("I cannot say, but it is 5.")
    (False, False, True)
    """
    if len(sentence) > LONGEST:
        return True
    plain = " ".join(sentence.replace("’", "'").lower().split())
    if _QUESTION.search(plain) or _COURTESY.match(plain):
        return False
    refusals = list(_REFUSAL.finditer(plain))
    if not refusals:
        return True
    first, last = refusals[0], refusals[-1]
    return bool(_BEFORE.search(plain[: first.start()]) or _AFTER.search(plain, last.end()))


def refuses(sentences: Sequence[str]) -> bool:
    """Return whether none of `sentences` claims anything and at least one of them declines to answer.

    >>> refuses(["I'm sorry.", "I can't help with that."]), refuses(["Hello!"])
    (True, False)
    """
    return not any(map(claims, sentences)) and any(_REFUSAL.search(s.replace("’", "'").lower()) for s in sentences)
