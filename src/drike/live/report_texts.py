"""What a report of a wrong answer says, by rules: what was asked, about what, what is right.

`drafts` makes edits of it. A report holds what people type: "no, it's Oslo, not Lima".
"""

from dataclasses import dataclass

import regex

from drike.answers.matching import normalise
from drike.text.words import words

_MOST_WORDS_OF_AN_OBJECT = 12
_APOSTROPHE = "['\N{RIGHT SINGLE QUOTATION MARK}]"

# Questions in common forms, and the same as a statement without its end.
_STATEMENTS = [
    (regex.compile(question, regex.IGNORECASE), statement)
    for question, statement in (
        (
            r"where (?P<be>is|was|are|were) (?P<thing>.+?) "
            r"(?P<verb>located|based|situated|born|founded|held|buried|made|built)",
            "{thing} {be} {verb} in",
        ),
        (r"where (?P<be>is|was|are|were) (?P<thing>.+)", "{thing} {be} in"),
        (
            r"when (?P<be>is|was|are|were) (?P<thing>.+) (?P<verb>\w+(?:ed|en|rn|lt|ld|de))",
            "{thing} {be} {verb} in",
        ),
        (r"(?:what|who) (?P<be>is|was|are|were) (?P<thing>.+)", "{thing} {be}"),
        (r"(?:which|what) [\w ]+? (?P<be>is|was|are|were) (?P<thing>the .+)", "{thing} {be}"),
        (r"who (?P<verb>\w+ed|made|built|led) (?P<thing>.+)", "{thing} was {verb} by"),
        (r"who wrote (?P<thing>.+)", "{thing} was written by"),
        (r"what does (?P<thing>.+) (?P<verb>cost|mean|contain|weigh)", "{thing} {verb}s"),
    )
]
_BEFORE_QUESTION_WORD = regex.compile(r"(?i)^.*?\b(?=(what|who|whose|where|when|which|how)\b)")
_SHORT_IS = regex.compile(rf"(?i)^(what|who|where|when){_APOSTROPHE}s\b")

# Names in a question. Quotation marks of several languages.
_QUOTED = regex.compile(r"[\"\u201c\u201e\u00ab](.+?)[\"\u201c\u201d\u00bb]")
_CAPITALISED = r"\p{Lu}[\p{L}\p{N}&.\-]*"
_NAME = regex.compile(
    rf"{_CAPITALISED}(?:\s+(?:(?:of|the|de|la|von|van|and|&)\s+)*(?:{_CAPITALISED}|\p{{N}}+))*"
)
_OFFICE = regex.compile(r"^\p{Lu}{2,4} of (?:the )?")  # as "CEO of the" in "CEO of the Acme Group"
_LAST_WORDS = regex.compile(r"(?i)\b(?:of|for|in|is|was)\s+(?:the\s+)?([\w' -]+?)$")

# What people write before and behind the right answer.
_INTRODUCTION = regex.compile(
    r"(?i)^(?:(?:no|wrong|sorry|actually|well|incorrect)\b[\s,.:;!-]*)*"
    r"(?:"
    r"(?:it|that|this|the (?:right|correct) (?:answer|one))"
    rf"(?:\s+(?:is|was|are|should (?:be|say|have been))|{_APOSTROPHE}s)\s+"
    r"|should (?:be|say|read|have been)\s+"
    r"|(?:correct(?:ion)?(?: answer)?|answer|right)\s*:\s*"
    r")?"
    r"(?:actually\s+)?"
)
_NEW_NOT_OLD = regex.compile(
    r"(?i)[\s,(;-]+(?:and\s+)?(?:not|instead of|rather than)\s+(?P<old>.+)$"
)
_NOT_OLD_BUT_NEW = regex.compile(r"(?i)^not\s+(?P<old>.+?),?\s+but\s+(?P<new>.+)$")
_VERB_BEFORE_OBJECT = regex.compile(r"(?i)\b(?:is|was|are|were|by|equals)\s+")
# A full stop behind fewer letters may end an abbreviation ("Dr."), or stand in a number.
_END_OF_SENTENCE = regex.compile(r"(?<=[^\W\d]{3}[.!?])\s|\n")
EDGES = " \t\n.,;:!?\"'()*`\N{LEFT DOUBLE QUOTATION MARK}\N{RIGHT DOUBLE QUOTATION MARK}"


@dataclass(frozen=True)
class Objects:
    """What is right, "" where a report does not say it, and what was wrong, if that is known."""

    new: str
    old: str | None


def statement_of(question: str) -> str:
    """A question as a statement without its end, "The capital of Peru is"; else as it is."""
    plain = _SHORT_IS.sub(r"\1 is", _without_courtesies(question))
    for form, statement in _STATEMENTS:
        match = form.fullmatch(plain)
        if match:
            text = statement.format(**match.groupdict())
            return f"{text[0].upper()}{text[1:]}"
    return question.strip()


def subject_of(question: str) -> str:
    """What a question is about, "" if it names nothing.

    It is the name in quotation marks, else the longest name in capitals, else the last words.
    """
    plain = _without_courtesies(question)
    quoted = _QUOTED.search(plain)
    if quoted:
        return str(quoted[1])

    behind_question_word = plain.partition(" ")[2]
    names = [_OFFICE.sub("", name).rstrip(".-") for name in _NAME.findall(behind_question_word)]
    if names:
        return str(max(names, key=len))

    last_words = _LAST_WORDS.search(plain)
    return str(last_words[1]) if last_words else ""


def objects_of(correction: str, answer: str, query: str) -> Objects:
    """The object that a correction gives, and the wrong one, of it or of the wrong answer."""
    right = _INTRODUCTION.sub("", correction.strip(), count=1).strip()
    wrong = answer
    either = _NOT_OLD_BUT_NEW.match(right)
    negated = _NEW_NOT_OLD.search(right)
    if either:
        right = either["new"]
        wrong = either["old"]
    elif negated:
        right = right[: negated.start()]
        wrong = negated["old"]

    new = _object(right, query)
    old = _object(wrong, query)
    if not old or normalise(old) == normalise(new):
        return Objects(new, None)
    return Objects(new, old)


def _without_courtesies(question: str) -> str:
    """A question from its question word on, without the marks at its end."""
    return str(_BEFORE_QUESTION_WORD.sub("", question.strip(), count=1).rstrip("?!. \n"))


def _object(text: str, query: str) -> str:
    """The object that a short answer, or the first sentence of a longer one, gives, or ""."""
    sentence = _END_OF_SENTENCE.split(text.strip(), maxsplit=1)[0].strip(EDGES)
    verb = _VERB_BEFORE_OBJECT.search(sentence)
    if sentence.casefold().startswith(query.casefold()):
        sentence = sentence[len(query) :]
    elif verb and set(words(sentence[: verb.start()])) & set(words(query)):
        sentence = sentence[verb.end() :]

    found = sentence.strip(EDGES)
    is_short = 0 < len(words(found)) <= _MOST_WORDS_OF_AN_OBJECT
    return found if is_short else ""
