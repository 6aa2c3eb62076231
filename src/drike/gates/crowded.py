"""Subjects of which many facts are stored, and what these facts state.

A question about such a subject is compared with whole facts, too: which of them has the answer
shows in their objects.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from drike.edits.record import EditVersion, Status
from drike.gates.aspects import MANY
from drike.gates.name_index import NameIndex
from drike.text.glossary import glossed
from drike.text.words import masked_each


@dataclass(frozen=True)
class CrowdedChanges:
    """What a change of edits does to the subjects with many: ids of edits.

    touched: the edits of all subjects of changed edits. within: those of them whose subject has
    `MANY` active edits now.
    """

    touched: frozenset[int]
    within: frozenset[int]

    @classmethod
    def of(
        cls,
        changed: Iterable[EditVersion],
        edits: Mapping[int, EditVersion],
        names: NameIndex,
        names_before: NameIndex,
    ) -> CrowdedChanges:
        """What changes once the edits and their names are these."""
        touched: set[int] = set()
        within: set[int] = set()
        for subject in dict.fromkeys(edit.record.subject for edit in changed):
            edit_ids = names.exact(subject)
            touched.update(edit_ids, names_before.exact(subject))
            active = (edits[id].record.status is Status.ACTIVE for id in edit_ids)
            if len(edit_ids) >= MANY and sum(active) >= MANY:
                within.update(edit_ids)
        return cls(frozenset(touched), frozenset(within))


def stated_texts(edits: Iterable[EditVersion]) -> dict[int, tuple[str, ...]]:
    """What each edit states, in English with "it" for the subject, by its id."""
    edits = list(edits)
    masked = masked_each([(edit.record.query, edit.record.names) for edit in edits])
    return {
        edit.id: (glossed(f"{query} {edit.record.target_new}"),)
        for edit, query in zip(edits, masked, strict=True)
    }
