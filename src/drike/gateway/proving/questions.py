"""What is asked of a served model about edits, to verify them or to choose a placement."""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache

from drike.answers.matching import normalise
from drike.edits.edit import Aspect
from drike.edits.record import EditRecord, EditVersion, Status
from drike.gates.index import EditIndex
from drike.gates.parsed_query import ParsedQuery
from drike.gates.subject_names import subject_names
from drike.stores.verifications import QuestionKind
from drike.text.short_forms import NameMatch, short_forms
from drike.text.words import Words
from drike.tinyfacts import TEMPLATES, facts

CHALLENGE = "Are you sure?"
FOLLOW_UP = "What is it again, in one word?"
FOLLOW_UP_LONG = "What is it again, in short?"  # of an object of more words

_MOST_WORDS = 3  # of an object that is asked for in one word

# The most questions of an edit in each kind of texts that no person wrote, under short forms, about
# siblings, and about near edits.
_MOST_WRITTEN = 2
_MOST_SHORT = 2
_MOST_SIBLINGS = 3
_MOST_NEAR = 2


@dataclass(frozen=True)
class EditQuestion:
    """A text that is asked about an edit. first: the question before it, if it is a second turn."""

    edit: EditVersion
    kind: QuestionKind
    text: str
    first: str | None = None

    @property
    def asked(self) -> str:
        """All that was asked up to the answer, by which it is judged."""
        return f"{self.first}\n{self.text}" if self.first else self.text

    @property
    def aspect(self) -> Aspect:
        """What it tests: the edit's own query, other wordings, or that all else stays."""
        if self.kind is QuestionKind.QUERY:
            return Aspect.REWRITE
        return Aspect.PARAPHRASE if self.kind.concerns else Aspect.NEIGHBORHOOD


def questions_about(
    edits: Sequence[EditVersion], index: EditIndex, *, follow_up: bool = True
) -> Iterator[EditQuestion]:
    """The questions about edits in force, without repeats.

    Of siblings, edits of the same subject, that are not among these edits, the query is asked for
    their own answer, too. index: of all edits. follow_up: for models that hold a chat.
    """
    neighbours = _Neighbours(index, edits)
    siblings_by_id: dict[int, EditVersion] = {}
    for edit in edits:
        siblings = neighbours.siblings_of(edit)
        siblings_by_id |= {sibling.id: sibling for sibling in siblings}
        texts_by_kind = {
            **_texts_about(edit, index, follow_up),
            **_texts_about_others(edit, siblings, neighbours.near(edit)),
        }
        yield from _without_repeats(edit, texts_by_kind)

    ids = {edit.id for edit in edits}
    for sibling in siblings_by_id.values():
        if sibling.id not in ids:
            yield EditQuestion(sibling, QuestionKind.QUERY, sibling.record.query)


def _without_repeats(
    edit: EditVersion, texts_by_kind: Mapping[QuestionKind, Sequence[str]]
) -> Iterator[EditQuestion]:
    """A question for each text, of the first kind that has it."""
    kinds: dict[str, QuestionKind] = {}
    for kind, texts in texts_by_kind.items():
        for text in texts:
            kinds.setdefault(text, kind)
    for text, kind in kinds.items():
        is_second_turn = text in (CHALLENGE, FOLLOW_UP, FOLLOW_UP_LONG)
        yield EditQuestion(edit, kind, text, edit.record.query if is_second_turn else None)


def _texts_about(
    edit: EditVersion, index: EditIndex, follow_up: bool
) -> Mapping[QuestionKind, Sequence[str]]:
    """What is asked about an edit itself."""
    record = edit.record
    return {
        QuestionKind.QUERY: [record.query],
        QuestionKind.WORDING: _with_few_written(record, record.paraphrases),
        QuestionKind.ALIAS: [record.query_with(alias) for alias in record.aliases],
        QuestionKind.SHORT: _shortened(edit, index)[:_MOST_SHORT],
        QuestionKind.CHALLENGE: [CHALLENGE],
        QuestionKind.FOLLOW_UP: [_follow_up(record)] if follow_up else [],
        QuestionKind.NEGATIVE: _with_few_written(record, record.negatives),
    }


def _with_few_written(record: EditRecord, texts: Sequence[str]) -> list[str]:
    """The texts that people wrote, and the first of the others: all would take many requests."""
    others = record.written_by or {}
    of_people = [text for text in texts if text not in others]
    return [*of_people, *[text for text in texts if text in others][:_MOST_WRITTEN]]


def _follow_up(record: EditRecord) -> str:
    """The second turn that suits the object: nobody tells a policy in one word."""
    is_short = len(record.target_new.split()) <= _MOST_WORDS
    return FOLLOW_UP if is_short else FOLLOW_UP_LONG


def _texts_about_others(
    edit: EditVersion, siblings: Iterable[EditVersion], near: Iterable[EditVersion]
) -> Mapping[QuestionKind, Sequence[str]]:
    """The queries of other edits with other answers: the same answer would seem a leak."""
    objects = _new_objects(edit)
    return {
        QuestionKind.SIBLING: [
            other.record.query for other in siblings if objects.isdisjoint(_new_objects(other))
        ],
        QuestionKind.NEAR: [
            other.record.query for other in near if objects.isdisjoint(_new_objects(other))
        ],
    }


def _new_objects(edit: EditVersion) -> set[str]:
    record = edit.record
    return {normalise(name) for name in (record.target_new, *record.object_aliases)}


def _shortened(edit: EditVersion, index: EditIndex) -> list[str]:
    """The query under short forms of the subject that can mean nothing else.

    Forms for its people, such as "Peruvian", are left out.
    """
    texts = []
    known = subject_names(edit.record)
    for name in map(Words.of, known.names):
        for form in short_forms(name, name.folded(), of_thing=known.of_thing):
            text = edit.record.query_with(form.text(name))
            if form.kind is not NameMatch.DEMONYM and _surely_names(text, edit, index):
                texts.append(text)
    return texts


def _surely_names(text: str, edit: EditVersion, index: EditIndex) -> bool:
    mentions = ParsedQuery.of(text, index).mentions
    return any(edit.id in mention.edits and not mention.ambiguous for mention in mentions)


class _Neighbours:
    """Finds the edits in force that have an edit's subject, or a query like its own."""

    def __init__(self, index: EditIndex, edits: Sequence[EditVersion]) -> None:
        self._index = index
        self._active = {
            edit_id: edit
            for edit_id, edit in index.edits.items()
            if edit.record.status is Status.ACTIVE
        }
        self._ids_by_name: dict[str, set[int]] = defaultdict(set)
        for edit in self._active.values():
            for name in edit.record.names:
                self._ids_by_name[normalise(name)].add(edit.id)
        vectors = index.embed([edit.record.query for edit in edits]) if index.encoder else ()
        self._vectors = {edit.id: vector for edit, vector in zip(edits, vectors, strict=False)}

    def siblings_of(self, edit: EditVersion) -> list[EditVersion]:
        """The first edits of the same subject."""
        ids = sorted(self._ids_of_subject(edit) - {edit.id})
        return [self._active[edit_id] for edit_id in ids[:_MOST_SIBLINGS]]

    def near(self, edit: EditVersion) -> list[EditVersion]:
        """The edits of other subjects with the nearest queries; none without an encoder."""
        if not self._index.encoder:
            return []
        same_subject = self._ids_of_subject(edit) | {edit.id}
        others = [
            self._active[edit_id]
            for edit_id in self._index.nearest(self._vectors[edit.id])
            if edit_id in self._active and edit_id not in same_subject
        ]
        return others[:_MOST_NEAR]

    def _ids_of_subject(self, edit: EditVersion) -> set[int]:
        names = map(normalise, edit.record.names)
        return set[int]().union(*(self._ids_by_name.get(name, ()) for name in names))


def unknown_to_tinyfacts(question: EditQuestion) -> str:
    """What a model that knows TinyFacts alone does not know of a question to complete.

    "" if it can complete it.
    """
    record = question.edit.record
    subjects = [name for name in record.names if normalise(name) in _subjects()]
    if not subjects:
        return record.subject
    texts = [record.query]
    if question.kind.concerns:
        texts.append(question.first or question.text)
    for text in texts:
        templates = (EditRecord(name, text, "").query_with("{}") for name in subjects)
        if not any(normalise(template) in _templates() for template in templates):
            return f'"{text}"'
    return ""


@cache
def _subjects() -> frozenset[str]:
    """The subjects of TinyFacts."""
    return frozenset(normalise(fact.subject) for fact in facts())


@cache
def _templates() -> frozenset[str]:
    """How TinyFacts words its queries, with "{}" for the subject."""
    return frozenset(
        normalise(template) for templates in TEMPLATES.values() for template in templates
    )
