"""What a turn is in its conversation: a doubt, a question that leans on others, mere thanks.

Rules tell this, not a model: they take microseconds, and can be read. They look for the phrases of
a dozen languages in `text/phrases.txt`.
"""

import re

from drike.text.capitals import find_name
from drike.text.passed_on import only_wants_answer
from drike.text.phrases import SPACELESS, find_phrase, phrase_at
from drike.text.question_forms import trimmed
from drike.text.questions import parts_of
from drike.text.relation_words import telling_words
from drike.text.words import words

_BEGINNING = 240  # characters in which a turn says what it is
NAMES_READ = 8 * _BEGINNING  # characters in which a turn's own names are looked for
_LONGEST_CHALLENGE = 4 * _BEGINNING  # characters; a longer turn has a matter of its own
_MOST_WORDS = 60  # of a turn that may lean on others
_FRAGMENT = 3  # words of a question that is no sentence of its own: "the population?"
_VERBS = frozenset(
    ("is", "are", "was", "were", "do", "does", "did", "ist", "sind", "est", "es", "è", "são", "é")
)
_FURTHER_VERBS = frozenset(
    ("can", "could", "will", "would", "has", "have", "may", "must", "should", "wird", "hat")
) | frozenset(("kann", "gibt", "darf", "muss", "kostet", "peut", "a", "coûte", "tiene", "hay"))
_ABOUT_ANSWER = frozenset(
    ("that", "this", "das", "dies", "ça", "cela", "eso", "esto", "so", "why", "warum", "pourquoi")
)
_SPEAKERS = frozenset(  # words for whoever asks, or is asked
    ("you", "your", "i", "my", "me", "we", "du", "sie", "tu", "vous", "ich", "je", "yo", "usted")
)
_MOST_WORDS_OF_CLOSING = 24  # of a turn that thanks or takes leave and asks nothing
_LONGEST_UNASKED = 4  # words of a turn that may lean on others without a sign that it asks
_ASKING_MARK = re.compile(r"[?？]")
_CLAUSE_END = re.compile(
    r"[.!,;:…\n。！，；]+\s*|\s[-–—]\s|\b(?:and|but|und|aber|et|mais|y|pero)\b\s*"
)
_AUXILIARY = re.compile(
    r"(?:is|are|was|were|do|does|did|can|could|will|would|has|have|had|may|must|should|shall)\s"
    r"(?:it|its|he|she|they|there|that|this|these|those|i|we|you|the|one)\b"
    r"|(?:ist|sind|war|hat|haben|kann|darf|muss|gibt)\s(?:es|er|sie|das|man|ich|wir|dort|da)\b"
)
# Particles and words of questions in Chinese and Japanese.
_SPACELESS_QUESTION = re.compile(
    r"[吗呢谁哪]|什么|多少|怎么|何时|几[天个年]|ですか|ますか|どこ|いつ|なに|何"
)
_LEADING_MARKS = re.compile(r"^[\W_]+")


def is_challenge(text: str) -> bool:
    """Whether a turn doubts the answer before it: "Are you sure?", "My source says 1912"."""
    beginning = beginning_of(text)
    if len(text) > _LONGEST_CHALLENGE or _begins_a_task(beginning):
        return False

    challenge = phrase_at(beginning, "challenge")
    if not challenge:
        return find_phrase(beginning, "doubt") is not None
    rest = beginning[len(challenge) :].lstrip()
    if " " not in challenge and _goes_on_to_ask(rest):
        return False
    is_sentence = " " in challenge or SPACELESS.match(challenge) is not None
    ends_there = rest == "" or rest[0] in ",.!?;:-–—…"
    # A single word only doubts at the end of a clause, or before a pronoun: "wrong, it is Oslo".
    return is_sentence or ends_there or find_phrase(rest, "pronoun") is not None


def _goes_on_to_ask(rest: str) -> bool:
    """Whether behind a word such as "hmm" stands a question of its own: "Hmm. How far is it?"."""
    clause = _LEADING_MARKS.sub("", rest)
    return bool(_ASKING_MARK.search(clause)) and phrase_at(clause, "question") is not None


def leans(text: str) -> bool:
    """Whether a turn names no subject and leans on what was said before: "and its CEO?", "why?"."""
    beginning = beginning_of(text)
    said = words(text[:NAMES_READ])
    if not beginning or _begins_a_task(beginning) or len(said) > _MOST_WORDS or is_aside(text):
        return False
    if phrase_at(beginning, "opener") or only_wants_answer(text):
        return True
    if names_something(text) or not parts_of(text).questions:
        return False
    if has_pronoun(text):
        is_short = len(said) <= _LONGEST_UNASKED and _SPEAKERS.isdisjoint(said)
        return is_short or asks(text)
    is_fragment = len(said) <= _FRAGMENT and text.rstrip().endswith(("?", "？"))
    return is_fragment and (_SPEAKERS | _VERBS).isdisjoint(said)


def is_aside(text: str) -> bool:
    """Whether a turn only thanks, agrees or takes leave, so that the matter stays what it was."""
    if asks(text):
        return False
    said = words(text[:NAMES_READ])
    beginning = beginning_of(text)
    if phrase_at(beginning, "thanks") and len(said) <= _FRAGMENT:
        return True
    if len(said) > _MOST_WORDS_OF_CLOSING or _begins_a_task(beginning):
        return False
    return find_phrase(beginning, "closing") is not None


def asks(text: str) -> bool:
    """Whether a turn asks or requests something, by its marks or by how a clause of it begins."""
    if _ASKING_MARK.search(text):
        return True
    clauses = _CLAUSE_END.split(beginning_of(text))
    return any(_begins_to_ask(clause) for clause in clauses)


def _begins_to_ask(clause: str) -> bool:
    """Whether a clause begins as a question or a request, behind "and" or "please"."""
    while True:
        opening = phrase_at(clause, "polite") or phrase_at(clause, "joint")
        rest = clause[len(opening) :].lstrip(" ,") if opening else ""
        if not rest:
            break
        clause = rest
    if phrase_at(clause, "question") or phrase_at(clause, "request"):
        return True
    return _AUXILIARY.match(clause) is not None or _SPACELESS_QUESTION.search(clause) is not None


def asks_for_itself(text: str) -> bool:
    """Whether a turn that leans on others is a sentence that asks something: "How heavy is it?".

    "Since when?" and "and Kenya?" only ask what was asked before, and "Why is that?" is about the
    answer.
    """
    said = words(text[:NAMES_READ])
    if _ABOUT_ANSWER.intersection(said) or not asks(text):
        return False
    has_verb = not (_VERBS | _FURTHER_VERBS).isdisjoint(said)
    return has_verb and len(telling_words(trimmed(text[:NAMES_READ]))) > 0


def names_something(text: str) -> bool:
    """Whether a turn has a name of its own."""
    return find_name(text[:NAMES_READ]) is not None


def has_pronoun(text: str) -> bool:
    """Whether a turn begins with a clause that has a pronoun for something said before."""
    return find_phrase(beginning_of(text), "pronoun") is not None


def beginning_of(text: str) -> str:
    """The beginning of a text in lower case, without the marks before its first word."""
    return _LEADING_MARKS.sub("", text[:_BEGINNING]).casefold().replace("’", "'")


def _begins_a_task(beginning: str) -> bool:
    """Whether a turn begins a new matter, behind thanks and openers: "ok, now write a haiku"."""
    while True:
        opening = phrase_at(beginning, "thanks") or phrase_at(beginning, "opener")
        if not opening and beginning.startswith(("now ", "please ")):
            opening = beginning.split(" ", 1)[0]
        if not opening:
            break
        rest = _LEADING_MARKS.sub("", beginning[len(opening) :])
        if rest in (beginning, ""):
            break
        beginning = rest
    return phrase_at(beginning, "task") is not None
