"""Records that answer the same question: how they are found, and how a store refuses them."""

import json
from collections.abc import Sequence
from functools import lru_cache

from drike.answers.matching import normalise
from drike.edits.conditions import apart
from drike.edits.record import EditRecord, EditVersion, RecordError, Status
from drike.edits.times import hold_together
from drike.text.bare_names import bare_name
from drike.text.masking import masked
from drike.text.templates import query_template
from drike.text.words import words


class ConflictError(RecordError):
    """Active edits answer the record's question already.

    `rivals`: these edits; `repeated`: they have the same object.
    """

    def __init__(self, record: EditRecord, rivals: Sequence[EditVersion]) -> None:
        self.rivals = tuple(rivals)
        self.repeated = all(
            normalise(rival.record.target_new) == normalise(record.target_new) for rival in rivals
        )
        super().__init__(f"{record.fact} {self._explanation(record)}")

    def _explanation(self, record: EditRecord) -> str:
        """What a conflict is, and the remedy."""
        known = " and ".join(f"edit {rival.id} ({rival.record.fact})" for rival in self.rivals)
        if self.rivals[0].record.status is Status.PROPOSED:
            rival_id = self.rivals[0].id
            return (
                f"repeats {known}, which is proposed already: approve that (drike edits approve "
                f"{rival_id}), or change it (drike edits change {rival_id})"
            )
        if self.repeated and record.status is Status.PROPOSED:
            return (
                f"repeats {known}, which is in force: change that "
                f"(drike edits change {self.rivals[0].id})"
            )
        keys = conflict_keys(record)
        has_same_key = any(keys & conflict_keys(rival.record) for rival in self.rivals)
        if self.repeated and has_same_key:
            return (
                f"repeats {known}: there is nothing to do, "
                "unless the new one shall supersede it (--supersede)"
            )
        if self.repeated:
            rival = self.rivals[0]
            missing = "--paraphrase QUERY"
            if share_wording(record, rival.record):
                missing = f"--alias {json.dumps(record.subject, ensure_ascii=False)}"
            command = f"drike edits change {rival.id} {missing}"
            return f"says in other words what {known} says: add it there ({command})"
        if has_same_key:
            return (
                f"contradicts {known}: retire that edit, "
                "or let the new one supersede it (--supersede)"
            )
        return (
            f"contradicts {known} in other words: let the new one supersede it (--supersede) or, "
            "if both hold, give it the other's query as --never"
        )


@lru_cache(maxsize=1 << 8)  # of a record that is stored it is asked three times
def conflict_keys(record: EditRecord) -> frozenset[str]:
    """Keys of the questions a record answers: its queries, and its relation under each name."""
    queries = (record.query, *record.paraphrases)
    query_keys = [f"query\n{_comparable(query)}" for query in queries]
    relation = relation_key(record)
    relation_keys = [f"relation\n{relation}\n{_comparable(name)}" for name in record.names]
    return frozenset(query_keys + relation_keys)


def relation_key(record: EditRecord) -> str:
    """What a record's relation is compared by: two that share it ask the same of their subjects."""
    return _comparable(_relation_of(record).replace("{}", " it "))


def share_name(first: EditRecord, second: EditRecord) -> bool:
    """Whether names of two records may name one subject, as "Halcyon Ltd" and "Halcyon" do."""
    names = [bare_name(name) for name in second.names]
    return any(bare_name(name).may_be(other) for name in first.names for other in names)


def share_wording(first: EditRecord, second: EditRecord) -> bool:
    """Whether two records ask the same in the same words, whatever they call their subjects."""
    return not _wordings(first).isdisjoint(_wordings(second))


def _wordings(record: EditRecord) -> set[str]:
    """The record's relation and wordings, with "it" for the subject."""
    texts = [masked(text, record.names) for text in (record.query, *record.paraphrases)]
    return {*map(_comparable, texts), relation_key(record)}


def overlap(first: EditRecord, second: EditRecord) -> bool:
    """Whether two records may hold at the same time for the same request."""
    return hold_together(first, second) and not apart(first.only, second.only)


def _relation_of(record: EditRecord) -> str:
    """A record's relation, or else its query with {} for a name of the subject, if it has one."""
    if record.relation:
        return record.relation
    for name in record.names:
        if template := query_template(record.query, name):
            return template
    return record.query


def _comparable(text: str) -> str:
    """A text as others are compared with it.

    Accents do not count, as a gate cannot tell "São Paulo" from "Sao Paulo" either.
    """
    if text.isascii():
        return normalise(text)
    return normalise(" ".join(words(text)) or text)
