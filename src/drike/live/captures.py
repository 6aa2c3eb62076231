"""What a person changed in a draft before it was sent: a fact, a wording of an edit, or the style.

The rules compare the values of both texts (`values_in_texts`). A value that the draft has and the
sent text has not is a wrong one if the same place holds another of its kind. What concerns one
customer, such as the number of an order, is no fact.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

import regex

from drike.answers.matching import normalise
from drike.answers.policy_words import stem
from drike.answers.statements import Stated
from drike.answers.turned import is_negated
from drike.answers.yes_no import polarity
from drike.edits.record import EditVersion
from drike.gates.index import EditIndex
from drike.live.report_texts import EDGES, subject_of
from drike.live.values_in_texts import Value, ValuedText, names_in
from drike.text.question_forms import is_open
from drike.text.relation_words import is_empty, stems, telling_words
from drike.text.words import mentions, words

NAME = "name"
_LEAST_SHARED = 0.34  # of the telling words of two sentences that say the same in other words
_SURELY_SHARED = 0.5
_SENTENCE = regex.compile(
    r"(?<!\b(?:Dr|Mr|Mrs|Ms|St|No|a\.m|p\.m))(?<=[.!?])\s+(?=[\p{Lu}\"'(¿¡])|\n+"
)
_SALUTATION = regex.compile(
    r"^(?:dear|hi|hello|hey|hallo|liebe[rs]?|sehr geehrte[rs]?|hola|bonjour|good (?:morning|day))\b"
    r"[^,.!:]{0,40}[,!:]\s*",
    regex.IGNORECASE,
)
_SIGNATURE = regex.compile(
    r"(?:(?:all the )?best|(?:kind|best|warm) (?:regards|wishes)|regards|cheers|thanks|saludos"
    r"|viele grüße|freundliche grüße|cordialement|(?:yours )?sincerely|yours)\b[,.]?.{0,40}",
    regex.IGNORECASE,
)
_LEAD = regex.compile(
    r"^(?:(?:yes|no|sure|sorry|hi|hello|dear|well|of course|unfortunately|good news|thank you"
    r"|thanks)\b[^,.!:]{0,30}[,.!:]\s+)+",
    regex.IGNORECASE,
)
_OF_CUSTOMER = (
    r"(?:order|parcel|package|ticket|case|invoice|booking|reservation|tracking|customer|reference"
    r"|appointment|refund|request|table|bag|repair|card|payment|results?)"
)
_ABOUT_CUSTOMER = regex.compile(
    rf"\b(?:your|ihre?|votre|su)\s+(?:[\w-]+\s+)?{_OF_CUSTOMER}\s+"
    r"(?:is|are|was|were|has|have|will|should|left|arrives?|came|for|on|from|number|ending|#|\(|\d)"
    rf"|\b{_OF_CUSTOMER}\s+(?:number|no\.?|nr\.?|id)?\s*(?:is\s+)?#?\d{{4,}}",
    regex.IGNORECASE,
)
_NEGATED = regex.compile(
    r"\b(?:nothing|nobody|none|neither|unable|nichts|niemand|nada|rien)\b", regex.I
)
_NOUN_PHRASE = regex.compile(
    r"\b(?:the|our|an?|der|die|das|el|la|le)\s+((?:[\w'-]+\s+){0,4}?[\w'-]+)\s+"
    r"(?:is|are|was|were|costs?|takes?|opens?|closes?|comes?|has|have|ist|sind|kostet|est|es)\b",
    regex.IGNORECASE,
)
_BEGINNING = regex.compile(r"(\p{Lu}[\w-]+) (?:is|was|has|\p{Ll}+s)\b")  # "Aria opens at 9"
_JOINER = regex.compile(r",\s*(?:and\s+|und\s+)?|\s+(?:and|und|y|et|or)\s+")
_PREPOSITION = regex.compile(r"^(?:in|on|at|for|with)\s+", regex.IGNORECASE)
_MOST_ITEM_WORDS = 3
_NUMBERS = frozenset(("year", "number of things"))  # the kinds of bare numbers
_ONE_WORD = regex.compile(r"[^\W\d_]{3,}(?:-[^\W\d_]+)?")
_ARTICLES = regex.compile(
    r"^(?:the|an?|our|der|die|das|den|dem|ein\w*|le|la|les|el|los|las)\s+", regex.I
)
# Endings of adjectives and adverbs, and common ones without such.
_NO_NOUN = regex.compile(
    r"\w{3}(?:ly|ful|ous|able|ible|ish|less|ing|ed)$|^(?:easy|simple|huge|big|small|great|good|nice|fine"
    r"|fast|quick|slow|new|old|free|ready|open|closed|shut|happy|glad|sorry|true|false|sure|clear"
    r"|short|long|high|low|full|empty|warm|cold|late|early|hard|safe|large|tiny|vast|immense|lovely)$",
    regex.IGNORECASE,
)
_BEFORE_OBJECT = regex.compile(
    r"\b(?:(?:is|are|was|were)(?: (?:called|named|now|still))?|uses?|has|have|contains?|needs?"
    r"|speaks?|plays?|sells?|offers?|comes? with|in at|ist|sind|heißt|est|es"
    r"|(?:is|are|was|were|be|get|gets|pay|pays|deliver|made) (?:\w+ )?"
    r"(?:in|at|by|with|from|of|via|on))"
    r"(?:\s+(?:the|our|der|die|das|el|la|le|(?P<any>an?|ein\w*|une?|una?)))?$",
    regex.IGNORECASE,
)
_LEAST_ABOUT = 2  # telling words before it
_ALIKE = 4  # letters that forms of one word share


class CaptureKind(StrEnum):
    """What becomes of a change to a draft."""

    EDIT = "edit"
    WORDING = "wording"
    NOTHING = "nothing"


@dataclass(frozen=True)
class Draft:
    """A draft, what was sent instead, and what is known of both."""

    draft: str
    sent: str
    question: str = ""
    context: str = ""


@dataclass(frozen=True)
class DraftChange:
    """What was decided about a change to a draft, and why.

    query: the text before the object, or a question. edit: the one that says this already, or whose
    object is now another.
    """

    kind: CaptureKind
    why: str
    old: str = ""
    new: str = ""
    subject: str = ""
    query: str = ""
    edit: EditVersion | None = None


@dataclass(frozen=True)
class _Replaced:
    """A value that took the place of another, with the sentences of both."""

    old: str
    new: str
    draft_sentence: str
    sent_sentence: str


def changes_in(capture: Draft, index: EditIndex) -> list[DraftChange]:
    """What a person changed, one item at least. index: of the edits in use."""
    if normalise(capture.draft) == normalise(capture.sent):
        return [_nothing("both texts say the same")]
    ways = (_replaced_values, _replaced_lists, _replaced_answer, _replaced_nouns)
    replaced = next(filter(None, (way(capture) for way in ways)), [])
    if not replaced:
        return [_nothing("only the style differs: no value or name took another's place")]
    about_customer = [each for each in replaced if _is_about_customer(each)]
    if len(about_customer) == len(replaced):
        return [_nothing("what differs concerns one customer, such as the number of an order")]
    kept = [each for each in replaced if each not in about_customer]
    changes = [_change(each, capture, index) for each in kept]
    # "10 GB, so it is full with 2,400 photos": what follows from the fact of an edit is no other.
    decisive = [change for change in changes if change.edit is not None]
    return decisive or changes


def _nothing(why: str) -> DraftChange:
    return DraftChange(CaptureKind.NOTHING, why)


def _is_about_customer(replaced: _Replaced) -> bool:
    return any(
        _ABOUT_CUSTOMER.search(text) for text in (replaced.draft_sentence, replaced.sent_sentence)
    )


def _sentences(text: str) -> list[str]:
    """The sentences of a text without its greeting and signature."""
    sentences = [_SALUTATION.sub("", sentence.strip()) for sentence in _SENTENCE.split(text)]
    return [sentence for sentence in sentences if sentence and not _SIGNATURE.fullmatch(sentence)]


def _shared(first: str, second: str) -> float:
    """The share of the telling words of the shorter of two sentences that the other has."""
    stems_of_first = stems(telling_words(first))
    stems_of_second = stems(telling_words(second))
    least = min(len(stems_of_first), len(stems_of_second))
    return len(stems_of_first & stems_of_second) / least if least else 0.0


def _replaced_values(capture: Draft) -> list[_Replaced]:
    """The values that took the place of others of their kind."""
    draft = ValuedText.of("\n".join(_sentences(capture.draft)))
    sent = ValuedText.of("\n".join(_sentences(capture.sent)))
    gone = [value for value in draft.values if not sent.has(value)]
    new = [value for value in sent.values if not draft.has(value)]

    replaced: list[_Replaced] = []
    for value in gone:
        sentence = _line_of(draft.text, value)
        candidates = [
            other
            for other in new
            if (other.kind == value.kind and _may_replace(value, other, sentence, sent.text))
            or _are_in_one_place(value, other, sentence, _line_of(sent.text, other))
        ]
        if not candidates:
            continue
        nearest = max(candidates, key=lambda other: _shared(sentence, _line_of(sent.text, other)))
        new.remove(nearest)
        old_text = value.text.strip(EDGES)
        new_text = nearest.text.strip(EDGES)
        replaced.append(_Replaced(old_text, new_text, sentence, _line_of(sent.text, nearest)))
    return replaced


def _line_of(text: str, value: Value) -> str:
    start = text.rfind("\n", 0, value.begin) + 1
    stop = text.find("\n", value.end)
    return text[start : len(text) if stop < 0 else stop]


def _may_replace(old: Value, new: Value, sentence: str, sent: str) -> bool:
    """Whether a value may stand in another's place: in a sentence that says the same otherwise.

    Names have to stand in sentences that share more.
    """
    line = _line_of(sent, new)
    shared = _shared(sentence.replace(old.text, " "), line.replace(new.text, " "))
    return shared >= (_SURELY_SHARED if old.kind == NAME else _LEAST_SHARED)


def _are_in_one_place(old: Value, new: Value, sentence: str, line: str) -> bool:
    """Whether two numbers stand in the same place of one sentence: "call 1111", "call 112"."""
    are_numbers = old.kind in _NUMBERS and new.kind in _NUMBERS
    if not (are_numbers or (_is_count(old) and _is_count(new))):
        return False
    return normalise(sentence.replace(old.text, " ", 1)) == normalise(
        line.replace(new.text, " ", 1)
    )


def _is_count(value: Value) -> bool:
    return value.kind.startswith("number of ")


def _replaced_nouns(capture: Draft) -> list[_Replaced]:
    """A common noun in another's place, where a sentence says what something is, has or is in.

    Both sentences are the same but for it, and tell what it is about. "A box" for "a package" is
    style, as is one adjective for another.
    """
    for draft, sent in _aligned(capture):
        before, old_words, new_words = _where_they_differ(draft.split(), sent.split())
        old = _noun(old_words)
        new = _noun(new_words)
        if not old or not new or not _is_other(old, new):
            continue
        if _tells_of(before, capture.question):
            return [_Replaced(old, new, draft, sent)]
    return []


def _where_they_differ(
    first: Sequence[str], second: Sequence[str]
) -> tuple[str, Sequence[str], Sequence[str]]:
    """What two sentences have before the words in which they differ, and these words of each."""
    start = _same_at_start(first, second)
    behind = _same_at_start(first[start:][::-1], second[start:][::-1])
    return (
        " ".join(first[:start]),
        first[start : len(first) - behind],
        second[start : len(second) - behind],
    )


def _same_at_start(first: Sequence[str], second: Sequence[str]) -> int:
    """How many words are the same at the beginning of both."""
    pairs = enumerate(zip(first, second, strict=False))
    return next((n for n, (a, b) in pairs if a != b), min(len(first), len(second)))


def _noun(words_of_place: Sequence[str]) -> str:
    """The noun in a place, without its article; "" for anything else."""
    place = _ARTICLES.sub("", " ".join(words_of_place)).strip(EDGES)
    is_noun = _ONE_WORD.fullmatch(place) is not None and not is_empty(place)
    return place if is_noun and not _NO_NOUN.search(place) else ""


def _tells_of(before: str, question: str) -> bool:
    """Whether what stands before a noun says what something is, has or is in.

    That it is "a surprise" is a fact only where somebody asks what it is.
    """
    place = _BEFORE_OBJECT.search(before)
    is_asked = is_open(question)
    if place is None:
        return is_asked and len(telling_words(before)) >= _LEAST_ABOUT
    if place["any"] and not is_asked:
        return False
    about = telling_words(before[: place.start()])
    return len(about) >= _LEAST_ABOUT or (bool(about) and is_asked)


def _is_other(old: str, new: str) -> bool:
    """Whether two nouns do not say the same: not "box" and "package"."""
    return stem(old) != stem(new) and old[:_ALIKE].casefold() != new[:_ALIKE].casefold()


def _replaced_lists(capture: Draft) -> list[_Replaced]:
    """A list at the end of a sentence that has another item or one more."""
    for draft, sent in _aligned(capture):
        start = _common_start(draft, sent)
        if start is None:
            continue
        old_list, new_list = draft[start:].strip(EDGES), sent[start:].strip(EDGES)
        old_items, new_items = _items(old_list), _items(new_list)
        if not old_items or not new_items or old_items == new_items:
            continue
        if max(len(old_items), len(new_items)) > 1 and old_items & new_items:
            return [_Replaced(old_list, new_list, draft, sent)]
    return []


def _common_start(draft: str, sent: str) -> int | None:
    """Where two sentences cease to have the same words; None if they hardly begin alike."""
    words_of_draft = draft.split(" ")
    words_of_sent = sent.split(" ")
    same = 0
    while same < min(len(words_of_draft), len(words_of_sent)):
        if words_of_draft[same] != words_of_sent[same]:
            break
        same += 1
    # The list may begin with an item that both have, or the same item with a comma behind it.
    while same > 0 and _JOINER.search(f"{words_of_draft[same - 1]} "):
        same -= 1
    return len(" ".join(words_of_draft[:same])) if same >= _MOST_ITEM_WORDS else None


def _items(text: str) -> frozenset[str]:
    """The items of a list; none if it is no list."""
    items = [_PREPOSITION.sub("", item).strip(EDGES).casefold() for item in _JOINER.split(text)]
    if any(not item or len(item.split()) > _MOST_ITEM_WORDS for item in items):
        return frozenset()
    return frozenset(items)


def _replaced_answer(capture: Draft) -> list[_Replaced]:
    """Yes for no, or no for yes."""
    was_negated = _denies(capture.draft) or polarity(capture.draft) == "no"
    now_negated = _denies(capture.sent) or polarity(capture.sent) == "no"
    if was_negated == now_negated:
        return []
    for draft, sent in _aligned(capture):
        is_flipped = _denies(draft) != _denies(sent)
        if is_flipped and _shared(_plain(draft), _plain(sent)) >= _SURELY_SHARED:
            old, new = ("no", "yes") if was_negated else ("yes", "no")
            return [_Replaced(old, new, draft, sent)]
    return []


def _denies(text: str) -> bool:
    return is_negated(text) or _NEGATED.search(text) is not None


def _plain(sentence: str) -> str:
    return str(regex.sub(r"(?i)\b(?:not|no|never|cannot|nicht)\b|n't\b", " ", sentence))


def _aligned(capture: Draft) -> list[tuple[str, str]]:
    """Each sentence of a draft with the sent one that shares most with it, if any does."""
    sent_sentences = _sentences(capture.sent)
    pairs = []
    for sentence in _sentences(capture.draft):
        nearest = max(sent_sentences, key=lambda other: _shared(sentence, other), default="")
        if nearest and _shared(sentence, nearest) >= _LEAST_SHARED:
            pairs.append((sentence, nearest))
    return pairs


def _change(replaced: _Replaced, capture: Draft, index: EditIndex) -> DraftChange:
    """What becomes of a replaced value, by the edits that exist."""
    texts = (capture.question, replaced.sent_sentence, replaced.draft_sentence, capture.context)
    named = [
        index.edits[edit_id]
        for edit_id in sorted({i for text in texts if text for i in index.named(text)})
    ]
    for edit in named:
        if edit.record.states(replaced.new) is not Stated.NEW:
            continue
        why = f"edit {edit.id} says this already: its wordings miss the question"
        record = edit.record
        return DraftChange(
            CaptureKind.WORDING, why, replaced.old, replaced.new, record.subject, record.query, edit
        )

    subject = next((edit.record.subject for edit in named), "") or _subject(replaced, capture)
    changed = next((edit for edit in named if edit.record.states(replaced.old) is Stated.NEW), None)
    query = changed.record.query if changed else _query(replaced, capture, subject)
    if not subject or not query:
        return _nothing(
            f'"{replaced.old}" became "{replaced.new}", but neither text nor question says of '
            "what: give the question, or add the edit by hand"
        )
    why = f'"{replaced.new}" took the place of "{replaced.old}"'
    if changed:
        why += f", which edit {changed.id} has"
    return DraftChange(CaptureKind.EDIT, why, replaced.old, replaced.new, subject, query, changed)


def _subject(replaced: _Replaced, capture: Draft) -> str:
    """What the sentences are about: a name that both have, else what the question asks about."""
    objects = f"{replaced.old}\n{replaced.new}"

    def names(*texts: str) -> list[str]:
        found = [value.text for text in texts for value in names_in(text)]
        return [
            name
            for name in found
            if not mentions(objects, name) and not mentions(name, replaced.new)
        ]

    around = f"{capture.question}\n{capture.context}"
    for texts in (
        (replaced.sent_sentence, replaced.draft_sentence, capture.question),
        (capture.sent, capture.draft),
    ):
        both = [
            name
            for name in names(*texts)
            if mentions(f"{capture.sent}\n{around}", name)
            and mentions(f"{capture.draft}\n{around}", name)
        ]
        if both:
            asked = [name for name in both if mentions(capture.question, name)]
            return max(asked or both, key=len)

    for text in (replaced.sent_sentence, replaced.draft_sentence, capture.question):
        found = _NOUN_PHRASE.search(text)
        if found and not mentions(found[1], replaced.new):
            return str(found[1]).strip()
    beginning = _BEGINNING.match(replaced.sent_sentence)
    if beginning and replaced.draft_sentence.startswith(f"{beginning[1]} "):
        return str(beginning[1])
    shared = _longest_shared(capture.question, replaced.sent_sentence)
    if shared and not mentions(shared, replaced.new):
        return shared
    of_context = names(capture.context)
    return of_context[0] if of_context else subject_of(capture.question)


def _longest_shared(question: str, sentence: str) -> str:
    """The longest run of telling words that both have, "" for none."""
    words_of_question = words(question)
    runs = [
        words_of_question[begin:end]
        for begin in range(len(words_of_question))
        for end in range(begin + 1, len(words_of_question) + 1)
        if not is_empty(words_of_question[begin]) and not is_empty(words_of_question[end - 1])
    ]
    shared = [" ".join(run) for run in runs if mentions(sentence, " ".join(run))]
    return max(shared, key=len, default="")


def _query(replaced: _Replaced, capture: Draft, subject: str) -> str:
    """The text before the object in a sentence that names the subject there, else the question."""
    if replaced.new in ("yes", "no"):
        return capture.question if mentions(capture.question, subject) else ""
    sentences = (
        (replaced.sent_sentence, replaced.new),
        (replaced.draft_sentence, replaced.old),
    )
    for sentence, value in sentences:
        before, found, _ = sentence.partition(value)
        before = _LEAD.sub("", before.strip()).strip()
        if found and mentions(before, subject) and before.casefold() != subject.casefold():
            return f"{before[0].upper()}{before[1:]}"
    if mentions(capture.question, subject) and is_open(capture.question):
        return capture.question
    rest = replaced.sent_sentence.replace(replaced.new, "...").strip(EDGES)
    return f'{subject}: "{rest}", where the dots stand for' if subject else ""
