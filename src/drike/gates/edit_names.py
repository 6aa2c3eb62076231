"""What is said of the names of an edit: its short forms, and those that may mean something else."""

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cache
from importlib import resources

from drike.edits.record import EditVersion
from drike.gates.name_index import NameIndex
from drike.gates.names import edits_named, find_names
from drike.text.name_forms import forms_of
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
    short = _short_forms_of(edit)
    forms = (*edit.record.names, *short)
    similar = _with_words_in_names(stored, {word for form in forms for word in _last_word(form)})
    index = NameIndex().replace(gone={}, new={**similar, edit.id: edit.record.names})

    ambiguous = {}
    for form in forms:
        mentions = find_names(Words.of(form), index)
        if any(mention.ambiguous and edit.id in mention.edits for mention in mentions):
            other_ids = {id for mention in mentions for id in mention.edits} - {edit.id}
            ambiguous[form] = tuple(
                id for id in sorted(other_ids) if similar[id][:1] != edit.record.names[:1]
            )
    return NameReport(short, ambiguous)


def _short_forms_of(edit: EditVersion) -> tuple[str, ...]:
    """The different short forms of an edit's names, in their order."""
    short: dict[str, None] = {}
    for name in map(Words.of, edit.record.names):
        short |= {form.text(name): None for form in short_forms(name, name.folded())}
    return tuple(short)


def _last_word(name: str) -> list[str]:
    return Words.of(name).folded()[-1:]


def _with_words_in_names(
    edits: Iterable[EditVersion], words: Collection[str]
) -> dict[int, tuple[str, ...]]:
    """The names of the edits that have one of some words in a name, by id: others share no name."""
    return {
        edit.id: edit.record.names
        for edit in edits
        if any(word in name.casefold() for name in edit.record.names for word in words)
    }


def ambiguous_names(edits: Iterable[EditVersion]) -> list[str]:
    """The names and short forms of edits that may mean something else, whatever is stored."""
    forms_by_edit = forms_of({edit.id: edit.record.names for edit in edits})
    names = (name for forms in forms_by_edit.values() for name in forms.written)
    return list(dict.fromkeys(names))


def naming(edit: EditVersion, questions: Iterable[str]) -> list[str]:
    """The questions that name the subject of an edit or an alias, as gates find them."""
    index = NameIndex().replace(gone={}, new={edit.id: edit.record.names})
    return [question for question in questions if edits_named(Words.of(question), index)]


@cache
def common_questions() -> tuple[str, ...]:
    """Questions and requests such as assistants get, in our own words, which concern no edit."""
    file = resources.files("drike.gates").joinpath("questions.txt")
    return tuple(file.read_text("utf-8").splitlines())
