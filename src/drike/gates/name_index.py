"""A dictionary of the names of edits, and what a name in a text mentions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from drike.gates.fingerprint_set import FingerprintSet
from drike.gates.overlay import InvertedIndex, OverlayDict
from drike.text.capitals import cased
from drike.text.fingerprints import Fingerprints, extended
from drike.text.name_forms import OF_KIND, WHOLE, NameForms, SubjectNames, forms_of, key_of
from drike.text.ordinary_words import names_by_capital
from drike.text.short_forms import NameMatch
from drike.text.surroundings import inside, other_place, within_initials
from drike.text.typos import shortened
from drike.text.word_lists import word_list
from drike.text.words import MAX_NAME_PARTS, Words

_MOST_SUBJECTS = 3  # a last name that more of them share names none
_SHORTEST_CLEAR = 3  # letters


@dataclass(frozen=True)
class Mention:
    """A stored name in a query: its words begin..end (excluded), and the ids of its edits.

    ambiguous: it may mean something else: it is a common word, one of several well-known things,
    two letters, or a shared short form. cased: an ambiguous one is written as it is stored, and not
    only because a sentence begins. inside: it is part of another's name, as "Mercury" in "Freddie
    Mercury".
    """

    name: str
    kind: NameMatch
    begin: int
    end: int
    edits: tuple[int, ...]
    ambiguous: bool = False
    cased: bool = True
    inside: bool = False

    @property
    def certain(self) -> bool:
        """Whether it names its subject without any evidence from the relation."""
        if self.inside or self.kind not in (NameMatch.FULL, NameMatch.SHORT):
            return False
        return not self.ambiguous or (self.cased and self.kind is NameMatch.FULL)


@dataclass(frozen=True)
class _Meaning:
    """What a name may mean: its kind, the ids of its edits, and whether others share it."""

    kind: NameMatch
    edits: tuple[int, ...]
    shared: bool


@dataclass(frozen=True)
class NameIndex:
    """A dictionary of the names of edits, by their fingerprints.

    Names of more than `MAX_NAME_PARTS` are left out. by_name: ids of edits by name, combined with
    its kind; people also by first and last name, in any order. subjects: of each edit the
    fingerprint of its subject. parts: of each beginning of a name, whole name, pair and word, the
    number of edits that have it. known: the keys of `parts`; a name found in a text is a place in
    it. written: names that may mean something else, as they are stored, with the ids of edits.
    misspelt: words of `LONG_WORD` letters or more, by each way to leave out a letter.
    """

    by_name: InvertedIndex[int, int] = field(default_factory=InvertedIndex)
    subjects: OverlayDict[int, int] = field(default_factory=OverlayDict)
    parts: OverlayDict[int, int] = field(default_factory=OverlayDict)
    known: FingerprintSet = field(default_factory=FingerprintSet, compare=False)
    written: InvertedIndex[int, tuple[int, str]] = field(default_factory=InvertedIndex)
    misspelt: InvertedIndex[str, str] = field(default_factory=InvertedIndex)
    _meanings: dict[int, list[_Meaning]] = field(
        default_factory=dict, init=False, compare=False, repr=False
    )

    def replace(
        self, *, gone: Mapping[int, SubjectNames], new: Mapping[int, SubjectNames]
    ) -> NameIndex:
        """A copy without the names of some edits and with those of others, both by id."""
        forms_gone = forms_of(gone)
        forms_new = forms_of(new)

        part_changes = self._part_changes(forms_gone, forms_new)
        parts_gone = {part for part, count in part_changes.items() if count is None}
        parts_new = {part for part in part_changes if part not in self.parts} - parts_gone

        # A word may be misspelt as long as any name has it.
        all_forms = (*forms_gone.values(), *forms_new.values())
        long_words = {word: part for forms in all_forms for word, part in forms.long.items()}
        words_gone = [word for word, part in long_words.items() if part in parts_gone]
        words_new = [word for word, part in long_words.items() if part in parts_new]

        subjects_gone: dict[int, int | None] = dict.fromkeys(gone)
        subjects_new = {edit_id: forms.subject for edit_id, forms in forms_new.items()}
        return NameIndex(
            by_name=self.by_name.replace(
                gone={edit_id: forms.names for edit_id, forms in forms_gone.items()},
                new={edit_id: forms.names for edit_id, forms in forms_new.items()},
            ),
            subjects=self.subjects.changed({**subjects_gone, **subjects_new}),
            parts=self.parts.changed(part_changes),
            known=self.known.replace(gone=parts_gone, new=parts_new),
            written=self.written.replace(
                gone=_written_names(forms_gone), new=_written_names(forms_new)
            ),
            misspelt=self.misspelt.replace(
                gone={word: shortened(word) for word in words_gone},
                new={word: shortened(word) for word in words_new},
            ),
        )

    def _part_changes(
        self, forms_gone: Mapping[int, NameForms], forms_new: Mapping[int, NameForms]
    ) -> dict[int, int | None]:
        """How many edits have each part of a name whose number changes; None for none."""
        differences = Counter(part for forms in forms_new.values() for part in forms.parts)
        differences.subtract(part for forms in forms_gone.values() for part in forms.parts)
        if not self.parts:  # the first index of many edits, made in less time
            return {part: count for part, count in differences.items() if count}

        changes: dict[int, int | None] = {}
        for part, difference in differences.items():
            if difference:
                count = self.parts.get(part, 0) + difference
                changes[part] = count if count else None
        return changes

    def exact(self, text: str) -> tuple[int, ...]:
        """The ids of the edits that have a text as a name, up to case and punctuation."""
        return tuple(self.by_name.get(key_of(text) ^ OF_KIND[NameMatch.FULL], ()))

    def longest(
        self, words: Words, keys: Sequence[int] | Fingerprints, begin: int
    ) -> tuple[int, int]:
        """Where the longest name that begins with a word ends, and its fingerprint; 0 for no name.

        keys: the fingerprints of the words, some of which may be corrected.
        """
        longest_end = begin
        longest_name = 0
        prefix = 0
        for end in range(begin + 1, min(begin + MAX_NAME_PARTS, len(keys)) + 1):
            prefix = extended(prefix, int(keys[end - 1]))
            if prefix not in self.parts:
                break
            is_name = prefix ^ WHOLE in self.parts
            if is_name and words.least[begin] <= end - begin and words.last[end - 1]:
                longest_end = end
                longest_name = prefix
        return longest_end, longest_name

    def mentions(
        self,
        words: Words,
        name: int,
        begin: int,
        end: int,
        kinds: Collection[NameMatch] = tuple(NameMatch),
    ) -> Iterator[Mention]:
        """What the words begin..end of a text mention: the edits with a name, by its kind.

        name: its fingerprint.
        """
        text = " ".join(words.folded(begin, end))
        is_ambiguous = False
        is_cased = True
        if name in self.written and not names_by_capital(words, begin, end):
            surfaces = {surface for _, surface in self.written[name]}
            is_homonym = text in word_list("homonyms")
            is_cased = (is_homonym and text not in word_list("common words")) or cased(
                words, begin, end, surfaces
            )
            is_ambiguous = (
                not is_cased or is_homonym or len(text) < _SHORTEST_CLEAR or _looks_common(surfaces)
            )

        for meaning in self._meanings_of(name):
            if meaning.kind not in kinds:
                continue
            is_last_name = meaning.kind is NameMatch.LAST
            if within_initials(words, begin, end):
                continue
            is_inside = inside(words, begin, end, last=is_last_name)
            if is_inside and (is_last_name or other_place(words, begin, end)):
                continue  # it names another person or place
            yield Mention(
                text,
                meaning.kind,
                begin,
                end,
                meaning.edits,
                ambiguous=is_ambiguous or meaning.shared,
                cased=is_cased,
                inside=is_inside,
            )

    def _meanings_of(self, name: int) -> list[_Meaning]:
        """What a name may mean, by its fingerprint; it is kept."""
        if name in self._meanings:
            return self._meanings[name]

        edits_by_kind: dict[NameMatch, tuple[int, ...]] = {}
        for kind in NameMatch:
            edit_ids = self.by_name.get(name ^ OF_KIND[kind])
            if edit_ids:
                edits_by_kind[kind] = edit_ids

        subjects = {
            self.subjects[edit_id] for edit_ids in edits_by_kind.values() for edit_id in edit_ids
        }
        if len(subjects) > _MOST_SUBJECTS:
            edits_by_kind.pop(NameMatch.LAST, None)
        meanings = [
            _Meaning(kind, edit_ids, shared=kind is not NameMatch.FULL and len(subjects) > 1)
            for kind, edit_ids in edits_by_kind.items()
        ]
        if meanings:  # any text has names that are none
            self._meanings[name] = meanings
        return meanings


def _written_names(forms_by_edit: Mapping[int, NameForms]) -> dict[tuple[int, str], list[int]]:
    """The names that may mean something else: each with its edit, and its fingerprint."""
    return {
        (edit_id, text): [fingerprint]
        for edit_id, forms in forms_by_edit.items()
        for text, fingerprint in forms.written.items()
    }


def _looks_common(surfaces: Collection[str]) -> bool:
    """Whether a name is stored in lower case, or not with a capital in all its words."""
    if all(map(str.islower, surfaces)):
        return True
    return any(surface[1:].islower() for surface in surfaces if " " in surface)
