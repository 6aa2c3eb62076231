"""Which other edits would match a question if it were about their subjects.

A negative exemplar holds for one question alone: where "Is Sweden's capital a port?" is marked for
Sweden, "Is Norway's capital a port?" still gets Norway's fact.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass

from drike.edits.conflicts import relation_key
from drike.edits.record import EditVersion
from drike.gates.decision import Decision
from drike.stores import moves
from drike.stores.authorship import changeable
from drike.stores.edit_store import EditStore, versions_of
from drike.text.masking import renamed

MOST_LOOKED_AT = 100  # edits of a relation, each of which takes a decision


@dataclass(frozen=True)
class SameQuestion:
    """A question about the subject of an edit, in the words of one about another edit's."""

    edit: EditVersion
    text: str


def of_same_relation(edit: EditVersion, others: Iterable[EditVersion]) -> list[EditVersion]:
    """The other edits that say the same of their subjects, `MOST_LOOKED_AT` at most."""
    key = relation_key(edit.record)
    found: list[EditVersion] = []
    for other in others:
        if len(found) == MOST_LOOKED_AT:
            break
        if other.id != edit.id and relation_key(other.record) == key:
            found.append(other)
    return found


def same_questions(
    text: str,
    edit: EditVersion,
    others: Iterable[EditVersion],
    decide: Callable[[str], Decision],
) -> Iterator[SameQuestion]:
    """The edits that a gate matches to the question if it is asked about their subjects.

    text: about the subject of `edit`, by one of its names; else none is found. others: of the same
    relation.
    """
    names = sorted(edit.record.names, key=len, reverse=True)
    for other in others:
        question = renamed(text, names, other.record.subject)
        if question is None:
            return
        matched = {match.id for match in decide(question).matched}
        if other.id in matched:
            yield SameQuestion(other, question)


def give_negatives(
    store: EditStore,
    found: Iterable[SameQuestion],
    *,
    author: str,
    reason: str | None,
    propose: bool,
) -> list[EditVersion]:
    """Give edits the questions that they match as negative exemplars, all or none.

    propose: as proposals. Raises StoreError.
    """
    texts_by_id: dict[int, list[str]] = {}
    for same in found:
        texts_by_id.setdefault(same.edit.id, []).append(same.text)
    changes: list[EditVersion] = []
    with store.transaction():
        for edit_id, texts in texts_by_id.items():
            negatives = (*changeable(versions_of(store, edit_id)).negatives, *texts)
            changes += moves.change(
                store,
                edit_id,
                {"negatives": negatives},
                author=author,
                reason=reason,
                propose=propose,
            )
    return changes


def sentence_of(found: Sequence[SameQuestion]) -> str:
    """Which edits still match the question about their subjects."""
    ids = sorted({same.edit.id for same in found})
    which = f"edit {ids[0]} still matches"
    if len(ids) > 1:
        which = f"{len(ids):,} other edits (the first is {ids[0]}) still match"
    return f"{which} the same question about another subject, such as {found[0].text!r}"
