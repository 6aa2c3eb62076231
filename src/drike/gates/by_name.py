"""Gates without training: `Named` goes by names, `EveryQuery` always finds an edit."""

from collections.abc import Sequence
from dataclasses import dataclass

from drike.gates.decision import EQUAL, Candidate, Decision, among_equals, foremost
from drike.gates.excerpts import affordable
from drike.gates.index import EditIndex
from drike.gates.name_index import Mention
from drike.gates.parsed_query import ParsedQuery
from drike.text.short_forms import NameMatch
from drike.text.words import Words


@dataclass(frozen=True)
class Named:
    """Matches, of each named subject, the edit with the paraphrase that is nearest to the query.

    Nearness is cosine similarity where the index has vectors, else the share of common words; ties
    go to the edit with the highest priority, then the oldest. Only names and short forms that are
    certain count (`Mention.certain`): no partial names, typos and parts of longer names. A query
    that is one of an edit's texts is nearest to it, named or not. Where it is a negative exemplar
    of the nearest, none takes its place.
    """

    def decide(self, query: str, index: EditIndex) -> Decision:
        """Match the nearest edit of every subject or alias that the query names as whole words.

        Edits of which the query is a text match, too.
        """
        parsed = ParsedQuery.of(query, index)
        mentions = [mention for mention in parsed.mentions if mention.certain]
        if not mentions and not parsed.equal:
            return Decision(query)

        named = {edit_id for mention in mentions for edit_id in mention.edits}
        nearness = _nearness(parsed, index, sorted(named))
        nearness |= dict.fromkeys(parsed.equal, 1.0)
        ranked = sorted(
            nearness,
            key=lambda i: (i not in parsed.equal, -nearness[i], *among_equals(index.edits[i])),
        )

        matching = set(parsed.equal)
        for mention in mentions:
            matching.update(foremost(index, _ranked_of(mention, ranked)))
        matching -= parsed.negatives  # and no other edit of the subject answers instead

        name_of = {i: mention.name for mention in reversed(mentions) for i in mention.edits}
        candidates = []
        for edit_id in sorted(ranked, key=lambda i: i not in matching):
            feature = "nearness" if edit_id in name_of else EQUAL
            candidates.append(
                Candidate(
                    index.edits[edit_id],
                    probability=float(edit_id in matching),
                    name=name_of.get(edit_id),
                    features={feature: nearness[edit_id]},
                )
            )
        matched = [candidate for candidate in candidates if candidate.probability]
        return Decision.of(query, candidates, matched, "a negative exemplar matches")


@dataclass(frozen=True)
class EveryQuery:
    """Puts every query under an edit, as the paper does: the nearest of those with a named subject.

    If no subject is named, it is the nearest of all.
    """

    def decide(self, query: str, index: EditIndex) -> Decision:
        """Match one edit; none only where the index is empty."""
        parsed = ParsedQuery.of(query, index)
        full = [mention for mention in parsed.mentions if mention.kind is NameMatch.FULL]
        name_of = {edit_id: mention.name for mention in full for edit_id in mention.edits}
        nearness = _nearness(parsed, index, sorted(name_of or index.edits))
        ranked = sorted(nearness, key=lambda i: (-nearness[i], *among_equals(index.edits[i])))
        if not ranked:
            return Decision(query, reason="no edit is in force")

        candidates = [
            Candidate(
                index.edits[edit_id],
                probability=float(edit_id == ranked[0]),
                name=name_of.get(edit_id),
                features={"nearness": nearness[edit_id]},
            )
            for edit_id in ranked
        ]
        matched = tuple(index.edits[edit_id] for edit_id in foremost(index, ranked))
        reason = f"every query is put under an edit: edit {matched[-1].id}"
        return Decision(query, matched, tuple(candidates), reason)


def _ranked_of(mention: Mention, ranked: Sequence[int]) -> list[int]:
    """The ranked edits that have a name."""
    edit_ids = set(mention.edits)
    return [edit_id for edit_id in ranked if edit_id in edit_ids]


def _nearness(parsed: ParsedQuery, index: EditIndex, edit_ids: Sequence[int]) -> dict[int, float]:
    """How near the nearest text of each edit is: by cosine, or by the share of common words.

    Only edits whose texts of the query are `affordable` have one.
    """
    names = {
        edit_id: {(mention.begin, mention.end) for mention in mentions}
        for edit_id, mentions in parsed.by_edit.items()
    }
    wholes_of_edits = ((i, parsed.wholes(names.get(i, ()))) for i in edit_ids)
    comparable = affordable(((i, wholes), wholes) for i, wholes in wholes_of_edits)

    nearness = {}
    if index.encoder is not None:
        vectors = index.embed(comparable.texts) if comparable.texts else ()
        vector_of = dict(zip(comparable.texts, vectors, strict=True))
        for edit_id, wholes in comparable.sources:
            cosines = [index.texts.closest([edit_id], vector_of[text])[edit_id] for text in wholes]
            nearness[edit_id] = max(cosines)
        return nearness

    words_of = {text: _different_words(text) for text in comparable.texts}
    for edit_id, wholes in comparable.sources:
        record = index.edits[edit_id].record
        words_of_edit = [_different_words(text) for text in (record.query, *record.paraphrases)]
        nearness[edit_id] = max(
            _share_of_common(words_of[text], words) for text in wholes for words in words_of_edit
        )
    return nearness


def _different_words(text: str) -> set[int]:
    """The fingerprints of a text's words."""
    return set(Words.of(text).keys.tolist())


def _share_of_common(first: set[int], second: set[int]) -> float:
    return len(first & second) / max(1, len(first | second))
