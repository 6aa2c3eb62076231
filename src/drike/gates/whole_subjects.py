"""Requests for all that is known of a subject: "Tell me about Corvo 3", "Compare Corvo 2 and 3".

Such a request names no relation, or several things within the subject, so that no single edit is
near it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from drike.edits.record import EditVersion
from drike.gates.decision import Candidate, Decision, among_equals
from drike.gates.excerpts import Part
from drike.gates.index import EditIndex
from drike.gates.name_index import Mention
from drike.gates.parsed_query import ParsedQuery
from drike.text.glossary import glossed
from drike.text.phrases import find_phrase, without_phrases
from drike.text.relation_words import (
    stem,
    stems,
    synonyms,
    telling_words,
    word_set,
    word_weights_of,
)
from drike.text.words import words

MOST_OF_WHOLE = 12  # facts that are stated at once where all of a subject is asked for
# The feature of a candidate that is asked for with all others of its subject.
WHOLE = "whole_subject"
_LONGEST = 400  # characters of a part that may ask for a whole subject
_NAME_MARK = "\ufffc"
_BETWEEN_THINGS = re.compile(rf"[,;:.?!()]|{_NAME_MARK}|\b(?:and|or|as well as|incl|including)\b")
# "Heron 2 and 4": a number that stands for a further name.
_FURTHER_NUMBER = re.compile(
    r"\s*(?:,|and|or|vs\.?|versus|with|to|und|oder|mit|y|con|et|avec|和|与)\s*(?:the\s+)?(\d+)\b",
    re.IGNORECASE,
)
_LAST_NUMBER = re.compile(r"\d+$")
_LISTS = re.compile(r"\W*(?:please |can you |could you )*(?:list|give me)\b", re.IGNORECASE)
_FILLERS = word_set("fillers of whole subjects")


@dataclass(frozen=True)
class _Things:
    """The things within a subject that a part asks for; none where it asks for all of it."""

    chunks: tuple[frozenset[str], ...]  # words
    lists: bool  # it asks for all of a kind: "List the heads of department"

    def wanted(self, edits: Sequence[EditVersion]) -> list[EditVersion]:
        """The edits of a subject that are asked for."""
        if not self.chunks:
            return list(edits)
        found: dict[int, EditVersion] = {}
        for chunk in self.chunks:
            common = {edit.id: _in_common(chunk, edit) for edit in edits}
            most = max(common.values(), default=0)
            is_clear = len(self.chunks) == 1 and not self.lists
            least = len(chunk) if is_clear else (len(chunk) + 1) // 2
            if most >= max(1, least):
                found |= {edit.id: edit for edit in edits if common[edit.id] == most}
        return list(found.values())


def whole_subjects(parsed: ParsedQuery, index: EditIndex, decision: Decision) -> Decision:
    """A decision with all edits of the subjects of which a query asks for everything.

    Beside them those stay that match anyway.
    """
    asked: dict[int, EditVersion] = {}
    for part in parsed.parts:
        asked |= {edit.id: edit for edit in _asked_in(part, parsed, index)}
    already = {edit.id for edit in decision.matched}
    if not asked.keys() - already:
        return decision

    by_rank = sorted(asked.values(), key=among_equals)
    stated = [*decision.matched, *(edit for edit in by_rank if edit.id not in already)]
    stated.sort(key=lambda edit: -edit.record.priority)
    left_out = tuple(stated[MOST_OF_WHOLE:])
    candidates = tuple(_as_asked(c, asked.keys()) for c in decision.candidates)
    considered = {candidate.edit.id for candidate in candidates}
    further = (
        Candidate(edit, 1.0, edit.record.subject, {WHOLE: 1.0})
        for edit in by_rank
        if edit.id not in considered
    )
    return Decision(
        decision.query,
        matched=tuple(stated[:MOST_OF_WHOLE]),
        candidates=(*candidates, *further),
        reason=_reason(stated, left_out),
        left_out=left_out,
    )


def _as_asked(candidate: Candidate, asked_ids: Iterable[int]) -> Candidate:
    """A candidate that is asked for with its whole subject is in no doubt."""
    if candidate.edit.id not in asked_ids:
        return replace(candidate, uncertain=False)
    features = {**candidate.features, WHOLE: 1.0}
    return replace(candidate, probability=1.0, features=features, uncertain=False)


def _reason(stated: Sequence[EditVersion], left_out: Sequence[EditVersion]) -> str:
    count = len(stated) - len(left_out)
    facts = "its fact is" if count == 1 else f"{count} facts are"
    reason = f"all of a subject is asked for: {facts} stated"
    if not left_out:
        return reason
    ids = ", ".join(str(edit.id) for edit in left_out)
    return f"{reason}, and left out, beyond {MOST_OF_WHOLE}: edits {ids}"


def _asked_in(part: Part, parsed: ParsedQuery, index: EditIndex) -> list[EditVersion]:
    """The edits of which a part asks for the whole subject, or for several things within it."""
    start, stop = part.place
    if stop - start > _LONGEST or find_phrase(parsed.words.text[start:stop], "whole") is None:
        return []
    mentions = [mention for mention in parsed.mentions if _is_named_in(mention, part)]
    if not mentions:
        return []

    ids_of_subjects: dict[str, list[int]] = {}
    for mention in mentions:
        ids_of_subjects.setdefault(mention.name, []).extend(mention.edits)
        for name in _further_names(mention, parsed, stop):
            ids_of_subjects.setdefault(name, []).extend(index.lookup.names.exact(name))

    things = _things_in(part, parsed, mentions)
    found: list[EditVersion] = []
    for edit_ids in ids_of_subjects.values():
        edits = [
            index.edits[edit_id]
            for edit_id in dict.fromkeys(edit_ids)
            if index.is_active(edit_id) and edit_id not in parsed.negatives
        ]
        found += things.wanted(edits)
    return found


def _is_named_in(mention: Mention, part: Part) -> bool:
    """Whether a part is surely about what a mention names."""
    is_sure = not mention.inside and (mention.cased or not mention.ambiguous)
    return is_sure and (mention.begin, mention.end) in part.names


def _further_names(mention: Mention, parsed: ParsedQuery, stop: int) -> list[str]:
    """The names of which only the number is said behind one of the kind: "Heron 2 and 4"."""
    number = _LAST_NUMBER.search(mention.name)
    if number is None:
        return []
    names: list[str] = []
    place = int(parsed.words.ends[mention.end - 1])
    while further := _FURTHER_NUMBER.match(parsed.words.text, place, stop):
        names.append(f"{mention.name[: number.start()]}{further[1]}")
        place = further.end()
    return names


def _things_in(part: Part, parsed: ParsedQuery, mentions: Sequence[Mention]) -> _Things:
    """What a part says beside names and the words that ask for a whole subject."""
    marks = {(mention.begin, mention.end): _NAME_MARK for mention in mentions}
    text = parsed.words.replaced(marks, *part.place)
    for mention in mentions:
        if _LAST_NUMBER.search(mention.name):
            text = re.sub(rf"(?<={_NAME_MARK}){_FURTHER_NUMBER.pattern}", _NAME_MARK, text)
    left = glossed(without_phrases(text, "whole"))
    says_nothing = _FILLERS.union(*(words(mention.name) for mention in mentions))
    chunks = (
        frozenset(word for word in telling_words(chunk) if word not in says_nothing)
        for chunk in _BETWEEN_THINGS.split(left)
    )
    return _Things(tuple(filter(None, chunks)), lists=_LISTS.search(text) is not None)


def _in_common(chunk: frozenset[str], edit: EditVersion) -> int:
    """How many words of a chunk an edit's wordings have, or mean."""
    said = _said_of(edit)
    return sum(stem(word) in said or stem(word.rstrip("s")) in said for word in chunk)


def _said_of(edit: EditVersion) -> frozenset[str]:
    """The stems of the words of an edit's wordings, and of their synonyms."""
    record = edit.record
    own: frozenset[str] = frozenset()
    for text in (record.query, *record.paraphrases):
        own |= stems(word_weights_of(text, record.names))
    return own | synonyms(own)
