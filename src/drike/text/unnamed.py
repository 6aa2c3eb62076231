"""Questions to an assistant that name no subject: whether they are about those it speaks for.

"Do you ship to Austria?" is about whoever is addressed, and names Austria only as a limit. "Where
is the head office?" is about a subject that is understood. "Who founded Google?" and "What is the
number of the police?" are about others.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass
from enum import IntEnum
from functools import lru_cache

from drike.encoders.salience import word_weights
from drike.text.glossary import glossed
from drike.text.phrases import find_phrase, phrase_at, without_phrases
from drike.text.question_forms import trimmed
from drike.text.relation_words import is_empty, word_set
from drike.text.spelling import corrected, written_out
from drike.text.words import Words, words

_LONGEST = 400  # characters of a question that are read
_MOST_CACHED = 1 << 10
_SHORTEST_OF_TITLE = 4  # letters; in titles all words of so many have capitals
_LEAST_OF_TITLE = 2  # words

_WORD = re.compile(r"(?P<word>[^\W_]+(?:[.&][^\W_]+)*)(?P<genitive>['’]s?(?!\w))?")
# A question for what a word means, as any dictionary says it.
_DEFINES = re.compile(
    r"\b(?:explain|define|definition of|meaning of|stands? for|mean by|means?\W*$"
    r"|what(?:['’]s| is) an? (?:\w+ ){0,2}\w+\W*$)",
    re.IGNORECASE,
)
_GERMAN = re.compile(
    r"\b(?:der|die|das|den|dem|ist|sind|wer|was|wann|wie|wo|welche[rnsm]?|ich|mein\w*|eure?\w*|ihr"
    r"|und|für|bei|zum|zur|kann|muss|hat|habt)\b",
    re.IGNORECASE,
)
# "I write for the Courier", "we're off to Boston": of whom the question is not.
_OWN_NAME = re.compile(
    r"(?P<before>\b(?:I|[Ww]e|[Mm]y|[Oo]ur)(?:['’](?:m|re|ve|d))?\b(?! (?:call|reach|pay)\b)"
    r"[^.,;:?!]*?\b(?:for|to|from|in|at|near|with|off) (?:the )?)[A-Z][\w'’-]*(?= *[.,;:!]| and\b)"
)
_CLAUSE_END = re.compile(r"\s*(?:$|[.,;?!])")
_BEFORE_FIRST = "\"'“„«‘¿¡(- "
_DOES = frozenset(("you", "we"))  # may do something to what is named behind it: "do you take Visa?"
_NO_OWNERS = frozenset(
    ("what", "who", "where", "when", "how", "it", "he", "she", "that", "there", "here", "let")
)
_NO_NAME_ENDINGS = ("ed", "ing", "ly", "s")
_INDEFINITE = frozenset(("a", "an", "any", "some", "ein", "eine", "einen", "un", "une", "una"))
_DETERMINERS = (
    word_set("articles")
    | _INDEFINITE
    | frozenset(("your", "our", "my", "their", "this", "these", "that", "which", "what", "each"))
)
_AUXILIARIES = frozenset(("does", "do", "did", "is", "are", "was", "were", "will", "can", "has"))
_OF = word_set("of") | frozenset(("for", "at", "für"))
_AT = frozenset(("at", "bei", "chez"))
_BESIDES = word_set("besides")
_BEFORE_ARGUMENTS = word_set("before arguments")
_CALENDAR = word_set("calendar")
_ORGANISATIONS = word_set("organisations")
KINDS_OF_ORGANISATIONS = word_set("kinds of organisations")

Says = Callable[[str], bool]


class HostLink(IntEnum):
    """How surely a question is about those in whose name an assistant answers."""

    NONE = 0  # it is about another, or about nothing that some fact says
    LOOSE = 1  # it says more than what asks for the fact
    SURE = 2


@dataclass(frozen=True)
class _Word:
    """A word of a question: as it is compared, the word before it and any determiner, and its form.

    named: it has a capital, and does not only begin the question. last: it ends a clause.
    """

    folded: str
    before: str
    determiner: str
    named: bool
    genitive: bool
    last: bool

    @property
    def adds_nothing(self) -> bool:
        """Whether the question asks the same without it."""
        word = self.folded
        is_host = phrase_at(word, "host") == word
        return is_host or is_empty(word) or word in _BESIDES or word.isdigit()

    @property
    def is_hosts(self) -> bool:
        """Whether it is of those in whose name an assistant answers: "your place"."""
        return self.determiner in ("your", "our", "my")

    @property
    def may_be_bare_name(self) -> bool:
        """Whether it may be a name in small letters: a rare word that nothing determines."""
        is_rare = self.folded not in word_weights() and not self.folded.endswith(_NO_NAME_ENDINGS)
        return is_rare and not self.determiner


@dataclass(frozen=True)
class UnnamedQuestion:
    """A question, or a request, by its words in English, without what only asks to be told.

    addresses: it speaks to or of those in whose name an assistant answers. takes: these do
    something in it, maybe to what it names from some word on: "do you take Visa?". defines: it asks
    what a word means.
    """

    words: tuple[_Word, ...]
    addresses: bool
    takes: int
    defines: bool

    @classmethod
    def of(cls, text: str, called: Collection[str] = ()) -> UnnamedQuestion:
        """Read a question.

        called: what those in whose name an assistant answers may be called, such as "hotel".
        """
        return _read(text[:_LONGEST], frozenset(called))

    def link(self, asks: Says, answers: Says) -> HostLink:
        """How surely it is about those in whose name an assistant answers, and a fact about them.

        asks: whether a word is one by which people ask for that fact. answers: whether it is of an
        answer, new or old. A question is surely about both if it asks for nothing but the fact and,
        where it addresses nobody, for "the" one, not "a".
        """
        if self.defines or self._is_about_another(asks, answers):
            return HostLink.NONE
        telling = [word for word in self.words if not word.adds_nothing]
        asked = [word for word in telling if asks(word.folded)]
        is_indefinite = any(word.determiner in _INDEFINITE for word in asked)
        is_covered = all(asks(word.folded) or answers(word.folded) for word in telling)
        is_clear = self.addresses or not is_indefinite
        return HostLink.SURE if asked and is_covered and is_clear else HostLink.LOOSE

    def _is_about_another(self, asks: Says, answers: Says) -> bool:
        """Whether it names another subject: "Google's", "the number of the police", "does DHL"."""
        asked_before = False
        is_asked_before = False
        for place, word in enumerate(self.words):
            is_asked = asks(word.folded)
            is_of_fact = is_asked or answers(word.folded)
            if not (is_of_fact or word.adds_nothing or word.folded in _CALENDAR):
                is_owner = word.genitive and not word.determiner
                has_what_is_asked = asked_before and word.before in _OF and not word.is_hosts
                if is_owner or has_what_is_asked:
                    return True
                if word.named and not self._is_limit(word, place):
                    return True
                stands_as_name = word.before in _AUXILIARIES or (is_asked_before and word.last)
                if word.may_be_bare_name and stands_as_name and not self.addresses:
                    return True
            is_asked_before = is_asked
            asked_before = asked_before or is_asked
        return False

    def _is_limit(self, name: _Word, place: int) -> bool:
        """Whether a name in a question to somebody only limits what is asked."""
        is_taken = place > self.takes and name.before not in _AT
        return self.addresses and (name.before in _BEFORE_ARGUMENTS or is_taken)


def is_limit(text_words: Words, begin: int) -> bool:
    """Whether a name, from some word of a text on, only limits what is asked: "to Austria"."""
    if begin and text_words.word(begin - 1) in _DETERMINERS:
        begin -= 1
    return begin > 0 and text_words.word(begin - 1) in _BEFORE_ARGUMENTS


def without_own_names(text: str) -> str:
    """A text with "there" for names that the asker says of himself: "I write for the Courier"."""
    return _OWN_NAME.sub(r"\g<before>there", text)


@lru_cache(_MOST_CACHED)
def _read(text: str, called: frozenset[str]) -> UnnamedQuestion:
    written = corrected(written_out(text))
    asked = _with_organisations(without_phrases(trimmed(written), "told"), called)
    addresses = find_phrase(asked, "host") is not None
    english = glossed(asked)
    is_german = _GERMAN.search(asked) is not None  # in which all nouns have capitals
    found = tuple(_words_of(without_own_names(english), capitals_name=not is_german))
    doing = (place for place, word in enumerate(found) if word.folded in _DOES)
    is_foreign = english != asked  # in which it does not show who does something
    takes = -1 if is_foreign else next(doing, len(found))
    return UnnamedQuestion(found, addresses, takes, _DEFINES.search(text) is not None)


def _with_organisations(text: str, called: frozenset[str]) -> str:
    """A question with "here" for "the company", "this hotel" and so on."""
    nouns = "|".join(sorted(_ORGANISATIONS | called))
    of_another = r"(?!\s+(?:of|in|at|on|near|next|behind|called|named|that|which|from)\b)"
    hosts = rf"\b(?:the|this|my|your|our)\s+(?:{nouns})\b{of_another}"
    return re.sub(hosts, "here", text, flags=re.IGNORECASE)


def _words_of(text: str, *, capitals_name: bool) -> Iterator[_Word]:
    """The words of a question, with what stands before each.

    capitals_name: whether a capital shows a name.
    """
    text = _without_capitals_of_title(text)
    before = determiner = ""
    for match in _WORD.finditer(text):
        folded = " ".join(words(match["word"]))
        is_first = not text[: match.start()].strip(_BEFORE_FIRST)
        has_capital = capitals_name and match["word"][0].isupper()
        named = has_capital and not is_first and not phrase_at(folded, "common")
        is_last = _CLAUSE_END.match(text, match.end()) is not None
        genitive = match["genitive"] is not None and folded not in _NO_OWNERS
        yield _Word(folded, before, determiner, named, genitive, is_last)
        if folded in _DETERMINERS:
            determiner = folded
        else:
            before = folded
            determiner = ""


def _without_capitals_of_title(text: str) -> str:
    """A text in small letters if all its longer words have capitals."""
    longer = [word for word in _WORD.findall(text) if len(word[0]) >= _SHORTEST_OF_TITLE]
    is_title = len(longer) >= _LEAST_OF_TITLE and all(word[0][0].isupper() for word in longer)
    return text.lower() if is_title else text
