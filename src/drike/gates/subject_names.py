"""The names by which a gate finds an edit, by what its record says of its subject."""

from drike.edits.record import EditRecord
from drike.text.name_forms import SubjectNames, as_compared
from drike.text.relation_words import word_set
from drike.text.word_lists import word_list
from drike.text.words import words


def subject_names(record: EditRecord) -> SubjectNames:
    """The names of an edit's subject, with what is known of them."""
    struck = frozenset(map(as_compared, record.not_names))
    return SubjectNames(record.names, struck, of_thing=_is_of_thing(record))


def _is_of_thing(record: EditRecord) -> bool:
    """Whether a query says of its subject what nobody says of a person: its price, "the Vega"."""
    before, subject, behind = record.query.casefold().partition(record.subject.casefold() or "\0")
    if not subject:  # an edit of one command may have none, and a query may not name it
        return False
    words_before = words(before)
    if words_before and words_before[-1] in word_list("articles"):
        return True
    return not word_set("of things").isdisjoint((*words_before, *words(behind)))
