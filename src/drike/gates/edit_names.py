"""What is said of the names of an edit: its short forms, and those that may mean something else."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cache
from importlib import resources

from drike.edits.record import EditRecord, EditVersion
from drike.gates.name_index import NameIndex
from drike.gates.names import edits_named, find_names, read_words
from drike.gates.subject_names import subject_names
from drike.text.name_forms import SubjectNames, as_compared, forms_of
from drike.text.short_forms import short_forms
from drike.text.words import Words


@dataclass(frozen=True)
class NameReport:
    """The short forms of an edit's names, and the names of both kinds that may mean something else.

    ambiguous: these, with the ids of the other edits that they may name.
    """

    short: tuple[str, ...]
    ambiguous: dict[str, tuple[int, ...]]


def name_report(edit: EditVersion, stored: Iterable[EditVersion]) -> NameReport:
    """How a text may name an edit, among those that are stored."""
    short = short_names(edit.record)
    forms = (*edit.record.names, *short)
    similar = _edits_with_words(stored, _last_words(forms))
    compared = {**similar, edit.id: subject_names(edit.record)}
    index = NameIndex().replace(gone={}, new=compared)
    of_subject = {id for id in similar if similar[id].names[0] == edit.record.subject}

    ambiguous: dict[str, tuple[int, ...]] = {}
    for form in forms:
        mentioned: set[int] = set()
        is_ambiguous = False
        for mention in find_names(Words.of(form), index):
            mentioned.update(mention.edits)
            if mention.ambiguous and edit.id in mention.edits:
                is_ambiguous = True
        if is_ambiguous:
            ambiguous[form] = tuple(sorted(mentioned - of_subject - {edit.id}))
    return NameReport(short, ambiguous)


def short_names(record: EditRecord) -> tuple[str, ...]:
    """The different short forms by which an edit is found beside its names, in their order."""
    known = subject_names(record)
    short: dict[str, None] = {}
    for name in map(Words.of, known.names):
        forms = short_forms(name, name.folded(), of_thing=known.of_thing)
        short |= {form.text(name): None for form in forms}
    return tuple(text for text in short if as_compared(text) not in known.struck)


def _last_words(names: Iterable[str]) -> set[str]:
    """The last word of each name that has words."""
    last_words: set[str] = set()
    for name in names:
        last_words.update(Words.of(name).folded()[-1:])
    return last_words


def _edits_with_words(
    edits: Iterable[EditVersion], wanted: Collection[str]
) -> dict[int, SubjectNames]:
    """The names of the edits that have one of some words in a name, by id.

    Only these edits can share a name that ends in one of the words: the others need not be looked
    at.
    """
    names_by_edit = {}
    for edit in edits:
        folded_names = [name.casefold() for name in edit.record.names]
        if any(word in name for name in folded_names for word in wanted):
            names_by_edit[edit.id] = subject_names(edit.record)
    return names_by_edit


def ambiguous_names(edits: Iterable[EditVersion]) -> list[str]:
    """The names and short forms of edits that may mean something else, whatever is stored."""
    forms_by_edit = forms_of({edit.id: subject_names(edit.record) for edit in edits})
    names = (name for forms in forms_by_edit.values() for name in forms.written)
    return list(dict.fromkeys(names))


def naming(edit: EditVersion, questions: Iterable[str]) -> list[str]:
    """The questions that name the subject of an edit or an alias, as gates find them."""
    index = NameIndex().replace(gone={}, new={edit.id: subject_names(edit.record)})
    return [question for question in questions if edits_named(read_words(question), index)]


@cache
def common_questions() -> tuple[str, ...]:
    """Questions and requests such as assistants get, in our own words, which concern no edit."""
    file = resources.files("drike.gates").joinpath("questions.txt")
    return tuple(file.read_text("utf-8").splitlines())
