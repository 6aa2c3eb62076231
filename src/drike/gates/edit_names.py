"""What is said of the names of an edit: its short forms, and those that may mean something else."""

from collections.abc import Iterable
from functools import cache
from importlib import resources
from typing import NamedTuple

from drike.edits.record import EditVersion
from drike.gates.name_index import NameIndex
from drike.gates.names import edits_named, find_names
from drike.text.name_forms import forms_of
from drike.text.short_forms import short_forms
from drike.text.words import Words


class NameReport(NamedTuple):
    """The short forms of an edit's names, and those of both that may mean something else, with other edits' ids."""

    short: tuple[str, ...]
    ambiguous: dict[str, tuple[int, ...]]


def name_report(edit: EditVersion, stored: Iterable[EditVersion]) -> NameReport:
    """How a text may name an edit, among those that are stored."""
    names = list(map(Words.of, edit.record.names))
    short = dict.fromkeys(
        form.text(name) for name in names for form in short_forms(name, name.folded())
    )
    last_words = {
        word for form in (*edit.record.names, *short) for word in Words.of(form).folded()[-1:]
    }
    others = {
        version.id: version.record.names
        for version in stored
        if any(word in name.casefold() for name in version.record.names for word in last_words)
    }
    index = NameIndex().replace(gone={}, new={**others, edit.id: edit.record.names})
    ambiguous = {}
    for form in (*edit.record.names, *short):
        mentions = find_names(Words.of(form), index)
        if any(mention.ambiguous and edit.id in mention.edits for mention in mentions):
            ids = {id for mention in mentions for id in mention.edits} - {edit.id}
            ambiguous[form] = tuple(
                sorted(id for id in ids if others[id][:1] != edit.record.names[:1])
            )
    return NameReport(tuple(short), ambiguous)


def ambiguous_names(edits: Iterable[EditVersion]) -> list[str]:
    """The names and short forms of edits that may mean something else, whatever is stored."""
    forms = forms_of({edit.id: edit.record.names for edit in edits})
    return list(dict.fromkeys(name for of in forms.values() for name in of.written))


def naming(edit: EditVersion, questions: Iterable[str]) -> list[str]:
    """The questions that name the subject of an edit or an alias, as gates find them."""
    index = NameIndex().replace(gone={}, new={edit.id: edit.record.names})
    return [question for question in questions if edits_named(Words.of(question), index)]


@cache
def common_questions() -> tuple[str, ...]:
    """Questions and requests such as assistants get, in our own words, which concern no edit."""
    return tuple(
        resources.files("drike.gates").joinpath("questions.txt").read_text("utf-8").splitlines()
    )
