"""`ParsedQuery`: a query as gates read it, with the stored names that it asks about."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import islice

from drike.gates.excerpts import (
    LONGEST_WHOLE,
    Characters,
    Excerpt,
    Part,
    Span,
    places_to_compare,
    plain,
    question_parts,
)
from drike.gates.index import EditIndex
from drike.gates.name_index import Mention
from drike.gates.names import find_names, objects_in, read_words
from drike.text.glossary import glossed
from drike.text.question_forms import asks_who, trimmed
from drike.text.times import time_before
from drike.text.words import Words, composed, words

_OBJECT_MARK = "\ufffc"

SHARING = 3  # edits with a new object; one that more edits have says too little of any


@dataclass(frozen=True)
class ParsedQuery:
    """A query as gates read it.

    mentions: the names of edits of which it asks something; of very many, those at both ends.
    negatives: the ids of the edits of which it is a negative exemplar. equal: the ids of the edits
    of which it is a text, up to case and punctuation. parts: what it asks.
    """

    words: Words
    mentions: list[Mention]
    negatives: frozenset[int] = frozenset()
    equal: frozenset[int] = frozenset()
    parts: tuple[Part, ...] = ()

    @classmethod
    def of(cls, query: str, index: EditIndex) -> ParsedQuery:
        """Read a query, and look up its words in an index."""
        words = read_words(query)
        parsed = cls(
            words,
            [],
            negatives=frozenset(index.lookup.by_negative.get(words.fingerprint, ())),
            equal=frozenset(index.lookup.by_text.get(words.fingerprint, ())),
        )
        return parsed._about(find_names(words, index.lookup.names))

    @cached_property
    def by_edit(self) -> dict[int, list[Mention]]:
        """The mentions of each edit's names, by its id."""
        mentions_by_edit: dict[int, list[Mention]] = defaultdict(list)
        for mention in self.mentions:
            for edit_id in mention.edits:
                mentions_by_edit[edit_id].append(mention)
        return mentions_by_edit

    def by_object(self, index: EditIndex) -> ParsedQuery:
        """The query as one about the new objects that it names.

        They are those of edits whose subject it does not name. Those of more than `SHARING` active
        edits do not count, nor answers to choose from, nor any in a long text.
        """
        if len(self.words.text) > LONGEST_WHOLE:
            return replace(self, mentions=[])

        edits_named = {edit_id for mention in self.mentions for edit_id in mention.edits}
        objects: list[Mention] = []
        for mention in objects_in(self.words, index.lookup.by_object):
            edit_ids = _telling_edits(index, mention.edits)
            if not self._asks_who(mention):
                edit_ids -= edits_named
            if edit_ids and not self._is_choice(mention):
                objects.append(replace(mention, edits=tuple(sorted(edit_ids))))
        return self._about(objects)

    def excerpts(self, names: Collection[Span]) -> tuple[Excerpt, ...]:
        """What to compare, given where a subject is named: texts with "it" for the subject.

        Each is a part that asks about the subject or, of a long one, its end and the sentences that
        name the subject first and last.
        """
        it_for_names = dict.fromkeys(sorted(names), "it")
        excerpts = []
        for place in self._places(names):
            masked = composed(self.words.replaced(it_for_names, *place))
            asked = plain(masked)
            original = masked if glossed(masked) != masked else ""
            before = time_before(self.words.text, place[0])
            excerpts.append(Excerpt(place, asked.text, asked.foreign, original, before))
        # "Oxley? How long is the leave at Oxley?" asks one thing, and not first for anything.
        asking = tuple(excerpt for excerpt in excerpts if words(excerpt.text) != ["it"])
        return asking or tuple(excerpts)

    def wholes(self, names: Collection[Span]) -> list[str]:
        """The texts of `excerpts` as they are."""
        return [composed(self.words.text[start:stop]) for start, stop in self._places(names)]

    def _about(self, mentions: Sequence[Mention]) -> ParsedQuery:
        """The query with only those mentions of which it asks something."""
        parts = question_parts(self.words, mentions)
        names_asked_about = {name for part in parts for name in part.names}
        return replace(
            self,
            mentions=[m for m in mentions if (m.begin, m.end) in names_asked_about],
            parts=parts,
        )

    def _places(self, names: Collection[Span]) -> list[Characters]:
        return places_to_compare(self.words, self.parts, names)

    def _asks_who(self, mention: Mention) -> bool:
        """Whether the query only asks who or whose a name is, wherever: "What does N do at F?"."""
        return asks_who(plain(self.words.replaced({(mention.begin, mention.end): "it"})).text)

    def _is_choice(self, mention: Mention) -> bool:
        """Whether a name is one of the answers to choose from, or in an aside."""
        marked = self.words.replaced({(mention.begin, mention.end): _OBJECT_MARK})
        return _OBJECT_MARK not in trimmed(marked)


def _telling_edits(index: EditIndex, edit_ids: Iterable[int]) -> set[int]:
    """The active edits with a new object, and the first shadow edits; none if too many are active.

    Shadow edits must not change what active ones match, so they are counted apart.
    """
    active = list(islice(filter(index.is_active, edit_ids), SHARING + 1))
    if len(active) > SHARING:
        return set()
    shadow = islice((i for i in edit_ids if not index.is_active(i)), SHARING)
    return {*active, *shadow}
