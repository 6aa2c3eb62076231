"""How a question is put: for what kind of answer, and with what besides."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache

_LONGEST = 1_000  # characters of a question that is trimmed

# The kinds of answers, and words that ask for one. Of several, the first counts.
_ANSWER_KINDS = {
    "person": r"who|whom|whose",
    "time": r"when|year|date|day",
    "number": (r"how (?:many|much|old|tall|long|far|large|big)|number|population|elevation|height"),
    "place": r"where|city|town|country|place|location|located|continent|state|capital",
    "language": r"language|tongue",
}
_ANSWER_KIND = re.compile(
    "|".join(rf"(?P<{kind}>\b(?:{words})\b)" for kind, words in _ANSWER_KINDS.items()), re.I
)

# Questions that begin with different ones of these never ask for the same.
_BEGINNING = re.compile(
    r"\W*(?:(?:and|so|do you know|tell me|in|on|at|by|from|since|until)\W+)*"
    r"(?:(?P<person>who|whom|whose)"
    r"|(?P<time>when|(?:what|which) (?:year|date|day|month|century|time))"
    r"|(?P<place>where|(?:what|which) (?:city|town|country|place))"
    r"|(?P<number>how (?:many|much))"
    r"|(?P<reason>why)"
    r")\b",
    re.I,
)

# Words of a question for a name; one for yes or no does not ask for the subject of an edit.
_OPEN = re.compile(
    r"\b(?:who|whom|whose|what|which|where|when|how"
    r"|wer|wen|wem|wessen|welche[rmns]?|wo|wann"
    r"|qui|quels?|quelles?|où|quand|lequel|laquelle"
    r"|quién|quiénes|qué|cuál|cuáles|dónde|cuándo"
    r"|chi|quale|quali|dove|quando"
    r"|quem|qual"
    r"|wie|welk)\b"
    # Anywhere in a word:
    r"|(?:[誰何谁哪]|どこ|いつ"
    r"|кто|что|как(?:ой|ая|ое|ие)|где|когда"
    r"|누구|무엇|어느|어디)",
    re.I,
)

# What a question says beside what it asks: before it (polite words, then an introduction), and
# anywhere.
_ASIDE = re.compile(
    r"^\W*(?:(?:please|hey|hi|hello|ok|so|and|can you|could you|would you|will you"
    r"|quick question)\W+)*"
    r"(?:remind me|tell me|tell us|let me know|i(?: would|'d) like to know"
    r"|i (?:want|need) to know|do you know)\b[\s,:]*"
    r"|[,\s]*\b(?:these days|right now|at the moment|at present|currently|nowadays|by the way"
    r"|im moment|derzeit|gerade"
    r"|en este momento|actualmente"
    r"|actuellement|en ce moment)\b",
    re.I,
)

# What a question excludes.
_BESIDES = re.compile(
    r"[,(]?\s*\b(?:besides|apart from|aside from|other than|in addition to|except(?: for)?"
    r"|außer|abgesehen von"
    r"|además de|aparte de"
    r"|outre|à part|en dehors de)\b[^,.;?!]*",
    re.I,
)
_OPTIONS = re.compile(r"\s\(?A[.):]\s.*\bB[.):]\s.*", re.DOTALL)

# Another than the one that an edit is about: a relative, who has an office before or beside it, or
# another thing that a text describes by the one that it names.
_OTHERS = re.compile(
    r"\bit(?:['’]?s)? "
    r"(?P<kin>(?:brother|sister|father|mother|parent|wife|husband|spouse|son|daughter|uncle|aunt"
    r"|cousin|friend))s?\b(?!\W+(?:tongue|company))"
    r"|\b(?P<other>(?:first|second|third|former|previous|past|next|last|vice|deputy|assistant|acting"
    r"|interim|incoming|outgoing|honorary|founding|ex|co(?=-)))\W(?:\w+\W){0,2}"
    r"(?:(?:president|minister|chancellor|ceo|chief|head|coach|coache|manager|mayor|owner|king|queen"
    r"|leader|director|captain)s?|chair\w*)\b"
    r"|\b(?P<time>before) the current\b"
    r"|\b(?P<part>women|youth)['’]?s?\b"
    r"|\b(?P<beside>(?:the (?:\w+ )?\w+ "
    r"(?:next to|(?:north|south|east|west) of|near|opposite))) it\b"
)

# What a statement asks for, by the noun that it begins with.
_STATED = re.compile(
    r"(?:the |it['’]?s )?(?:\w+ )?"
    r"(?:(?P<person>author|writer|founder|inventor|discoverer|director|architect|designer|composer"
    r"|singer|spouse|wife|husband|president|ceo|chief executive|mayor|minister|chancellor|coach"
    r"|captain|king|queen)"
    r"|(?P<time>date|day|year|birthday|deadline)"
    r"|(?P<place>birthplace|headquarters|city|location|venue|place|hometown))"
    r"\b(?:(?! it['’]?s ).)* (?:is|are|was)\W*",
    re.I,
)


# What a question asks that wants to know of a name or a number only who or whose it is.
_ROLE = (
    r"(?:role|position|job|post|title|function|office|occupation|profession|cargo|fonction|funktion"
    r"|amt)"
)
_THERE = (
    r"(?:\W+(?:there|here|please|(?:at|in|of|for)\W+(?:the |your |our )?\w+(?:\W+\w+){0,3}))?\W*"
)
_TOLD = (
    r"(?:(?:do you (?:happen to )?know|(?:can|could|would) you (?:please )?tell me|tell me"
    r"|remind me|any idea|i(?:['’]d| would) like to know|i need to know) )?"
)
_ASKS_WHO = re.compile(
    rf"\W*(?:(?:and|so|hi|hello|please)\W+)*(?:"
    rf"(?:who(?:['’]s| is| was)?|wer ist|qui est|quién es) (?:this |that |the )?it"
    rf"|it (?:is|是) ?(?:who|谁)|who is it"
    rf"|(?:what|which) (?:is|['’]s|does|has) it(?:['’]?s)? {_ROLE}"
    rf"|what['’]s it(?:['’]?s)? {_ROLE}"
    rf"|(?:what|which) {_ROLE} (?:does|has|is) it(?: have| hold)?|which {_ROLE} has it"
    rf"|(?:what|which) (?:is|['’]s) the {_ROLE} of it"
    rf"|what does it do|it\W+(?:what|who)(?:['’]s| is) (?:her|his|their|its) {_ROLE}"
    rf"|(?:from |of )?whose (?:is )?(?:the )?(?:phone |telephone )?"
    rf"(?:number|extension|e-?mail|address|mail) (?:is )?(?:it|that)"
    rf"|(?:from |of )?who(?:se|m)? is (?:the )?(?:phone |telephone )?"
    rf"(?:number|extension|e-?mail|address) it"
    rf"|(?:\w+\W+){{0,12}}it\W+(?:whose (?:number )?is (?:it|that)|who is (?:it|that))"
    rf"|(?:\w+\W+){{0,12}}whose number is it"
    rf"|it['’]?s {_ROLE}|{_ROLE} of it"
    r"|(?:what|which) (?:is|['’]s) it (?:responsible for|in charge of|there for|for)"
    r"|what['’]s it (?:responsible for|in charge of|there for|for)"
    r"|(?:what|which) (?:department|team|area|part|unit|office) does it (?:run|lead|head|manage)"
    r"|who (?:can i|do i|will i|would i|can you) (?:reach|get|speak to|talk to|call|ring)"
    r" (?:at|on|under|with|by|via|by calling|if i call|when i call|if i dial) it"
    r"|who (?:picks up|answers|is reached|is behind|has|uses) (?:at |on |under |by )?it"
    rf"|{_TOLD}(?:who it is|what it does|what it is for|whose (?:number|address|e-?mail) it is"
    rf"|what it['’]?s {_ROLE} is)"
    rf"){_THERE}",
    re.IGNORECASE,
)
_TITLE_BEFORE = re.compile(
    r"\b(?:mr|mrs|ms|miss|mx|dr|doctor|prof|professor|herr|frau|señora?|sra?|monsieur|madame|mme)\b"
    r"\.? (?=it\b)",
    re.IGNORECASE,
)


_SAYS_ROLE = re.compile(
    rf"\W*it (?:works|is employed|serves|acts)(?: (?:at|for|in|with) .{{1,80}})? as\b.*"
    rf"|\W*(?:it(?:['’]?s)? {_ROLE}|the {_ROLE} of it)\b.*"
    rf"|\W*what (?:is|['’]s) it(?:['’]?s)? {_ROLE}\W*",
    re.IGNORECASE,
)
_ASKS_ROLE = re.compile(rf"\b{_ROLE}\b|\bdo\b", re.IGNORECASE)


@dataclass(frozen=True)
class Beginning:
    """How a question begins, and the rest of it.

    kind: of the answer that it asks for; None where the beginning does not say.
    """

    kind: str | None
    rest: str


@dataclass(frozen=True)
class OtherThing:
    """What of another thing than "it" a question asks for, in its words. kin: it is a relative."""

    text: str
    kin: bool


@lru_cache(4_096)
def answer_kind(text: str) -> str | None:
    """What a text asks for: a person, time, number, place or language; None if no word says."""
    kinds = _answer_kinds(text)
    return next((kind for kind in _ANSWER_KINDS if kind in kinds), None)


def _answer_kinds(text: str) -> set[str | None]:
    return {match.lastgroup for match in _ANSWER_KIND.finditer(text)}


def beginning(question: str) -> Beginning:
    """For what a question asks by how it begins.

    It has no kind where a word asks for another kind of answer: "What year did the author ...?".
    """
    match = _BEGINNING.match(question)
    if match is None:
        return Beginning(None, question)
    says_another = not _answer_kinds(question) <= {match.lastgroup}
    return Beginning(None if says_another else match.lastgroup, question[match.end() :])


def stated_kind(statement: str) -> str | None:
    """The kind of answer that completes a statement, such as a person for "The author of it is"."""
    match = _STATED.fullmatch(statement)
    return match.lastgroup if match else None


def is_open(question: str) -> bool:
    """Whether a question asks for a name or another thing, and not for yes or no."""
    return _OPEN.search(question) is not None


def trimmed(question: str) -> str:
    """A question without asides, what it excludes and the answers to choose from.

    It excludes something in "besides its capital".
    """
    if len(question) > _LONGEST:
        return question
    without_asides = _ASIDE.sub("", question) or question
    return _OPTIONS.sub("", _BESIDES.sub("", without_asides))


def other_things(lowercase: str) -> list[OtherThing]:
    """What a question in lower case, with "it" for its subject, asks about something else."""
    return [
        OtherThing(" ".join(filter(None, match.groups())), kin=match["kin"] is not None)
        for match in _OTHERS.finditer(lowercase)
    ]


def asks_who(question: str) -> bool:
    """Whether a question with "it" for a name only asks who or whose it is: "What is its job?"."""
    untitled = _TITLE_BEFORE.sub("", question.strip())
    return _ASKS_WHO.fullmatch(untitled) is not None


def asks_role(question: str, wording: str) -> bool:
    """Whether a question only asks for the role of "it", and a stored wording says it."""
    is_of_role = asks_who(question) and _ASKS_ROLE.search(question) is not None
    return is_of_role and _SAYS_ROLE.fullmatch(wording) is not None
