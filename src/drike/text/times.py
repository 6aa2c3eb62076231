"""Of which time a question is: "What did it cost in 1998?" is not about the price of today.

Rules tell it by the words of a question in English, and by some of other languages that have no
word-by-word translation.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

from drike.text.months import month_numbers, months_pattern
from drike.text.question_forms import is_open
from drike.text.times_in_languages import is_of_other_time_abroad

_LONGEST = 1_000  # characters of a text that is read
_LONGEST_BEFORE = 120  # characters of what is said of a time before a question

YEAR = re.compile(r"\b(?:1\d|20)\d\d\b")

_MONTHS = months_pattern()
_OF_SOMEBODY = r"(?:the|its|it['’]s|his|her|their|your|my|our|an?)"
_COUNTS = r"(?:\d+|a|an|one|two|three|four|five|six|ten|twenty|some|several|many|a few|a couple of)"
_PERIODS = r"(?:years?|months?|weeks?|decades?|century|centuries|seasons?)"
_DECADES = r"(?:twent|thirt|fort|fift|sixt|sevent|eight|ninet)ies|(?:(?:1\d|20)?\d0)['’]?s"

# What makes a question one of the past, however it is put.
_SURELY_PAST = re.compile(
    r"\b(?:formerly|previously|in the past|back then|back in|back when"
    r"|earlier this (?:year|month|week|season)"
    r"|in those days|in the old days|in former times|at launch|before now|back in the day"
    r"|once upon a time|pre-\w+|a (?:long )?while (?:ago|back)"
    r"|früher\w*|ehemal\w*|damals|vormals|bisherig\w*|anteriormente|antiguamente|antigu[oa]"
    r"|autrefois|auparavant|jadis|ancien(?:ne)?s?|précédemment)\b"
    r"|以前|之前|过去|去年|原来|当时|曾经"
)
# Words for what was before, or at first, if the edit has none of these: "original language".
_OLD = re.compile(
    r"\b(?:the|it['’]?s|its|your|their|our|an?) "
    r"(?:old|former|previous|prior|earlier|original|initial|very first|first ever|preceding|launch"
    r"|introductory|starting)\b(?! (?:enough|town|city|point|time|date|page))"
    r"|\bthe (?:very )?(?:first|original|old) it\b(?!['’]?s )"
    r"|\b(?:originally|initially|predecessors?|(?:came|went|was there) before|preceded)\b"
)
_STATES_OLD = re.compile(
    r"\b(?:old|former|previous|prior|earlier|origin|initial|first|preced|predecessor|before|launch"
    r"|introduct|start)"
)
# Times that are over, of which a question is if its verb is in the past, or it has none.
_PAST_TIMES = re.compile(
    r"(?<!since )(?<!than )\b(?:used? to (?!\w+ing)|last (?:year|month|week|season|decade|century"
    r"|quarter|summer|winter|spring|autumn|christmas)|year latest"
    rf"|\w+ {_PERIODS} (?:ago|before|earlier)|\w+ (?:days|releases|versions) ago|yesterday"
    rf"|(?:in|during|until|before|of|from|since) the (?:early |mid |late )?(?:{_DECADES})"
    r"|(?:in|during|of|until|before|from) the (?:early |mid |late )?\d\d?th century"
    r"|in (?:\w+ )?times|(?:during|before|after) the (?:\w+ ){0,2}(?:war|crisis|pandemic|empire"
    r"|beta|pilot|lockdown|strike|rebuild|rebuilding|renovations?)"
    r"|before the (?!current\b)(?:\w+ ){0,2}\w+|before \w+['’]s \w+"
    r"|before (?:it|they|you|he|she|we) \w+"
    r"|until (?:last|recently)|at (?:the time|first)|in the beginning|at the start|earlier"
    rf"|(?:until|till|up to|prior to|under) {_OF_SOMEBODY} (?!end\b)\w+|prior to [a-z]\w+"
    r"|at (?:(?:its|the|their) )?(?:opening|launch|christmas|easter)|(?:to (?:begin|start) with)"
    rf"|in {_OF_SOMEBODY} (?:\w+['’]s? )?(?:early |first |opening |old |good old )?"
    r"(?:days?|years?|times?|youth|childhood)(?! of (?:membership|use|employment|work|contract))"
    r"|the (?:year|day|month|week|summer|moment|time)"
    rf" (?:it|they|we|you|i|he|she|{_OF_SOMEBODY} \w+) (?!can\b|may\b|must\b|is\b|are\b)\w+"
    rf"|\w+ ago(?=\W*$|,)|(?:{_PERIODS}|days|rises|changes|versions) back(?=\W*$|,)"
    r"|last (?:\w+day|autumn|fall|time|session|term)"
    r"|the (?:other|last) (?:year|month|week|day|season|time)"
    r"|(?:start|starts|started) (?:out|off)|first (?:go|went|come|came|open|opened) (?:on|out|up)"
    r"|once(?! (?:a|an|per|every|in|you|it|we|i|the|they|he|she|more|again)\b)"
    r"|when (?:it|they|he|she|we|you)(?: \w+)? (?:was|were|had|did|\w+ed|won|came|began|went|ran"
    r"|left|took|made|built|sold|bought)"
    r"|(?:im )?(?:letzten|vergangenen|vorigen) jahr\w*|letztes jahr|vor \w+ jahren"
    r"|el año pasado|hace \w+ años|antes|l['’]an(?:née)? (?:dernière?|passée?)|avant|il y a)\b"
    r"|\bbefore\W*$"
)
_FUTURE = re.compile(
    r"\b(?:next (?:year|season|decade|century|summer|winter|quarter)|in the future"
    r"|(?:from|starting|as of) next \w+"
    rf"|in {_COUNTS} years|(?:the|its|it['’]s|your|their|any) (?:upcoming|planned|future)"
    r"|(?:who|which \w+|what \w+) (?:will|is going to) (?:replace|succeed|follow|take over|become"
    r"|be the (?:next|new)|run|lead|head)|who succeeds|will (?:replace|succeed|follow)"
    r"|going to be (?:from|after|once|when)"
    r"|taking over|nächstes jahr|im nächsten jahr|el (?:año próximo|próximo año)"
    r"|l['’]an(?:née)? prochaine?)\b|明年|将来"
)
_STATES_FUTURE = re.compile(r"\b(?:next|future|planned|upcoming|will|succe\w+|replac\w+)\b")
# Of a time to come, behind "will".
_LATER = re.compile(
    r"(?<!\bi )(?<!\bwe )\b(?:will|going to)\b.*\b"
    rf"(?:(?:from|as from|starting|by) (?:{_MONTHS}|(?:20)\d\d|then|next)\b"
    r"|soon\b|(?:go|get) (?:up|down)\b|(?:rise|drop|fall|increase|change)(?: to\b|(?=\W*$| in\b))"
    r"|(?:be|get) (?:raised|increased|lowered|reduced|cheaper|dearer|more expensive)\b"
    r"|in (?:the|its|your) (?:next|coming|new) (?:version|release|edition|generation|term)\b"
    r"|(?:after|once|when) the (?:\w+ )?(?:promotion|promo|offer|discount|sale|campaign)\b"
    r"|once (?:the|its|it['’]s) .*(?:finished|open|ready|done|built|complete|completed|over)\b"
    rf"|(?:after|when|following) {_OF_SOMEBODY} (?:\w+ )?(?:renovations?|move|merger|takeover"
    r"|increase|rise|change|changes|reform|refit|refurbishment|reopening|relaunch|rules|extension))"
)
_TIME_BEFORE = re.compile(
    r"(?:^|(?<=[.!?\n] ))(?:(?:and|so|but|hi|hello) )?"
    r"(?:before|prior to|until|when|while|during|in|under|back|at|as|after|from|last|next|once"
    r"|originally|formerly|for|up to|years? ago)\b[^.!?\n]*,\s*$",
    re.IGNORECASE,
)
_YEAR_TO_COME = re.compile(
    r"\b(?:will|going to)\b.*\b(?:in|from|by|as of) (20\d\d)\b|\b(?:for|from|as of) (20\d\d)\b"
)
_PRESENT_TIMES = re.compile(
    r"\b(?:now|nowadays|currently|today|these days|at the moment|at present|presently|right now"
    r"|this (?:year|month|week|season)|still|derzeit|heute|aktuell|jetzt|ahora|hoy|actualmente"
    r"|maintenant|aujourd['’]hui|actuellement)\b|现在|目前|今年"
)
_PAST_VERBS = re.compile(
    r"(?<!which )(?<!that )(?<!, )(?<!who )\b(?:was|were|did|had)\b|\bwho was\b"
)
_BECAME = re.compile(
    r"\b(?:who|which \w+|what \w+|whose) (?:became|ran|led|headed|held|owned|played|won|made|sold"
    r"|built|wrote|sang|\w+ed)\b"
)
_PLAIN_PRESENT = re.compile(r"\b(?:is|are|does|do)\b")
# Of somebody who may well have been in office since.
_ELECTED = re.compile(r"\b(?:elected|appointed|chosen|took over)\b|\bwho joined\b")
_PRESENT_VERBS = re.compile(r"\b(?:is|are|does|do|has|have|can|may|will|would|should)\b")
_BEFORE_SOMEBODY = re.compile(r"\bwho (?:was|were|came|led|ran|headed|held|had)\b.*\bbefore \w+")

_YEAR_ASKED = re.compile(
    r"(?:\b(?:in|en|im jahr|during|until|before|around|of|from|between|by|as of)"
    rf" (?:(?:the year|early|mid|late)[ -]|(?:{_MONTHS}) (?:\d\d?,? )?)?"
    rf"|\b(?:was|were|did|had)\b.* ){YEAR.pattern}"
)
# The year of what is typed as for a search engine: "price 2015".
_BARE_YEAR = re.compile(r"(?:(?<=\bit )|(?<=\bin ))(?:19|20)\d\d\b|\b(?:19|20)\d\d(?=\W*$)")
_VERBS = re.compile(rf"{_PAST_VERBS.pattern}|{_PRESENT_VERBS.pattern}|\b\w{{3,}}(?:ed|s)\b")
# The years of Chinese and Japanese questions, whose verbs show no time.
_YEAR_OF_VERBLESS = re.compile(r"\b((?:1\d|20)\d\d) ?(?:year\b|年)")
_STATED_IN_PAST = re.compile(
    r"\b(?:was|were|did|had|been|\w{2,}ed|born|won|wrote|built|made|took|became|came|began|sang|ran"
    r"|led|held|sold|bought|went|gave|found|fought|taught|spoke|grew|drew)\b"
)


def is_of_other_time(
    question: str,
    wordings: Iterable[str],
    answers: Iterable[str],
    since: str,
    original: str = "",
) -> bool:
    """Whether a question in lower case is about a time in which an edit is not known to hold.

    wordings, answers: the edit's. since: the time from which on it holds, or is known, in ISO 8601;
    "" if that is unknown. original: the question in its own language, if that is not English. An
    edit of what was once, such as a founder, holds at any time.
    """
    question = question[:_LONGEST]
    texts = [text.lower()[:_LONGEST] for text in wordings]
    if not any(map(is_of_present, texts)):
        return False
    years = years_asked(question)
    if years and (is_open(question) or not _VERBS.search(question)):
        stated = " ".join((*texts, *answers))
        return not any(year in stated or (since and year >= since[:4]) for year in years)
    is_to_come = is_of_future(question) and not any(map(_STATES_FUTURE.search, texts))
    if is_of_past(question) or is_to_come or _is_of_later_year(question, since):
        return True
    if original and is_of_other_time_abroad(original):
        return not any(map(is_of_other_time_abroad, texts))
    return _OLD.search(question) is not None and not any(map(_STATES_OLD.search, texts))


def time_before(text: str, start: int) -> str:
    """What says before a question, in its sentence, of which time it is: "In the nineties, "."""
    match = _TIME_BEFORE.search(text, max(0, start - _LONGEST_BEFORE), start)
    return match[0] if match else ""


@lru_cache(4_096)
def years_asked(question: str) -> tuple[str, ...]:
    """The years of which a question in lower case is."""
    if _is_in_past_tense(question) and _YEAR_ASKED.search(question):
        return tuple(YEAR.findall(question))
    if not _VERBS.search(question) and _BARE_YEAR.search(question):
        return tuple(_BARE_YEAR.findall(question))
    return tuple(_YEAR_OF_VERBLESS.findall(question))


@lru_cache(4_096)
def is_of_past(question: str) -> bool:
    """Whether a question in lower case is about a time that is over, though it names no year."""
    if _SURELY_PAST.search(question) or _BEFORE_SOMEBODY.search(question):
        return True
    if _PAST_TIMES.search(question) is None or _ELECTED.search(question):
        return False
    return _is_in_past_tense(question)


@lru_cache(4_096)
def is_of_future(question: str) -> bool:
    """Whether a question in lower case is about a time to come."""
    return _FUTURE.search(question) is not None or _LATER.search(question) is not None


def _is_of_later_year(question: str, since: str) -> bool:
    """Whether a question asks what will be so in a year behind the one from which on an edit is."""
    to_come = _YEAR_TO_COME.search(question)
    return to_come is not None and bool(since) and (to_come[1] or to_come[2]) > since[:4]


@lru_cache(4_096)
def is_of_present(wording: str) -> bool:
    """Whether a wording in lower case states what is so now, as it does without a verb."""
    if _PAST_VERBS.search(wording):
        return False
    has_present = _PRESENT_VERBS.search(wording) is not None
    return has_present or _STATED_IN_PAST.search(wording) is None


def _is_in_past_tense(question: str) -> bool:
    """Whether the verb of a question is in the past, or it has none that shows its time."""
    if _PRESENT_TIMES.search(question) or _PLAIN_PRESENT.search(question):
        return False
    if _PAST_VERBS.search(question) or _BECAME.search(question):
        return True
    return _PRESENT_VERBS.search(question) is None


_MONTH_ASKED = re.compile(
    r"\b(?:(?P<before>before|until|till|up to)|in|as of|by|from|since|during|of)"
    rf" (?:early |mid |late )?(?P<month>{_MONTHS})\b(?! (?:\d{{4}}|i|we|you)\b)"
)
_HALF_A_YEAR = 6  # months, up to which a month is taken for one before another


def is_before_month(question: str, since: str) -> bool:
    """Whether a question in lower case is of a month before the one from which on an edit holds.

    since: in ISO 8601. "As of March" is of an edit that is valid from March on, "before March" is
    not. Of which year a month is, is not said: it is the one that is nearest.
    """
    match = _MONTH_ASKED.search(question)
    if match is None or not since[5:7].isdigit():
        return False
    months_before = (int(since[5:7]) - month_numbers()[match["month"]]) % 12
    if match["before"]:
        return months_before <= _HALF_A_YEAR
    return 0 < months_before <= _HALF_A_YEAR
