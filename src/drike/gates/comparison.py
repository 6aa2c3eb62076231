"""What a query has in common with the edits whose subject or new object it names.

This gives the features by which a calibrated gate decides.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from heapq import nlargest
from math import log

from drike.edits.record import EditRecord, EditVersion
from drike.encoders.base import FloatArray
from drike.gates.aspects import (
    AGREEING,
    MANY,
    aspect,
    aspect_features,
    attribute_features,
    words_of_attributes,
)
from drike.gates.excerpts import Affordable, Excerpt, Span, affordable
from drike.gates.index import EditIndex, agreements
from drike.gates.name_index import Mention
from drike.gates.parsed_query import ParsedQuery
from drike.gates.premises import PRESUPPOSED, Held, held, presupposes
from drike.gates.relations import (
    about_another,
    asks_value,
    mentions_object,
    object_features,
    relation_features,
    share_in_words,
    share_said,
)
from drike.gates.unnamed_subjects import asking_stems
from drike.gates.wordings import Agreement
from drike.text.capitals import find_name
from drike.text.closed_questions import asks_beyond, asks_for_existing, is_closed
from drike.text.masking import masked
from drike.text.ordinary_words import used_as_word
from drike.text.question_forms import asks_role, asks_who
from drike.text.sentences import sentence_around
from drike.text.short_forms import NameMatch
from drike.text.surroundings import QUESTION_WORDS, behind_only, continued
from drike.text.things import Said
from drike.text.words import words

Features = Mapping[str, float]

# The feature of a question about another time, person or case, which does not concern the edit.
ANOTHER = "another"
# The feature of an edit whose subject has many. A head of its own judges it.
CROWDED = "crowded"

# Added to the probability that a question and an edit ask for the same, before its logarithm is
# taken as a feature.
_LEAST_SAME = 0.01
# Edits of one subject that are compared, those with the nearest wordings: thousands would take
# seconds.
_MOST_COMPARED = 64
# What no person wrote must not widen an edit: one with such texts does not concern a part of a
# question that is nearer to another edit of its subject by the first cosine, nor one that is nearer
# to a near miss, if that is as near as the second.
_NEARER_EDIT = 0.15
_NEAR_MISS = 0.4
# An edit so much farther than another one of its subject does not match, whatever is asked.
_FAR_FROM_NEAREST = 0.4
# Agreement in the relation from which on a question for yes or no is taken to check the edit.
_SAME_RELATION = 0.7
# Of a question that holds the old object, but with words of something else.
_OTHER = 0.7
# The least nearness of one that holds it as what the edit is about.
_NEAR_OF_PREMISE = 0.4
_BEFORE_NAMES = frozenset(("of", "in", "for", "at", "by", "from", "with"))

# The agreement of an edit and a question for the value that the subject's own name says.
_FULL_AGREEMENT = Agreement(near=1.0, same=1.0, relation=1.0, other=0.0, known=1.0)


@dataclass(frozen=True)
class ComparedEdit:
    """An edit, the name by which the query names it, if it does, and their features."""

    edit: EditVersion
    name: str | None
    features: Features


@dataclass(frozen=True, eq=False)
class Reading:
    """A query read as one about names that it mentions.

    parsed: the query, with mentions of these names. subjects: None where they are names of
    subjects; where they are objects, the mentions of subjects in the same query.
    """

    parsed: ParsedQuery
    subjects: Sequence[Mention] | None = None
    _name_features: dict[int, dict[str, float]] = field(
        default_factory=dict, init=False, repr=False
    )  # by edit

    def groups(self, index: EditIndex) -> Iterator[_Group]:
        """The edits of each subject that the query may be about, with what to compare."""
        ids_by_names: dict[frozenset[Span], list[int]] = defaultdict(list)
        for edit_id, mentions in self.parsed.by_edit.items():
            names = frozenset((mention.begin, mention.end) for mention in mentions)
            ids_by_names[names].append(edit_id)

        for names, edit_ids in ids_by_names.items():
            excerpts = self.parsed.excerpts(names)
            if any(
                not self._is_about_another(index.edits[edit_id], excerpt)
                for edit_id in edit_ids
                for excerpt in excerpts
            ):
                yield _Group(self, tuple(edit_ids), excerpts)

    def compared(
        self,
        edit: EditVersion,
        masked_query: str,
        nearest: _NearestPart,
        agreement: Agreement,
        of_aspect: Features,
        *,
        missed: bool,
    ) -> ComparedEdit:
        """An edit with its features by the part of the query that is nearest to it.

        masked_query: the edit's, with "it" for the subject. of_aspect: further features. missed:
        whether that part is a near miss.
        """
        part = nearest.excerpt.text
        mentions = self.parsed.by_edit[edit.id]
        old_object = held(part, edit.record) if self.subjects is None else Held.NOT
        if old_object is Held.NOT and self._is_presupposed_before(edit, nearest.excerpt):
            old_object = Held.ALONE
        agreement, share = _by_old_object(part, edit.record, agreement, old_object)
        is_by_object = self.subjects is not None
        if asks_who(part) if is_by_object else asks_role(part, masked_query):
            agreement, share = _FULL_AGREEMENT, 1.0
        if old_object is Held.OTHERWISE:  # what is said of the object says nothing of the edit
            of_aspect = {**of_aspect, **dict.fromkeys(AGREEING, 0.0)}
        if old_object in PRESUPPOSED:  # what is asked about it need not be of its kind
            of_aspect = {**of_aspect, "misfit": 0.0}
        # Who holds the old object against the edit asks about it, whatever else is near.
        is_missed = missed and old_object is Held.NOT
        features = {
            "masked": agreement.near,
            "margin": nearest.margin,
            "same": log(_LEAST_SAME + agreement.same),
            "relation": agreement.relation,
            "other": agreement.other,
            "known": agreement.known,
            "said": share,
            ANOTHER: float(
                is_missed
                or of_aspect.get("limited", 0.0) > 0
                or self._is_about_another(edit, nearest.excerpt)
            ),
            **relation_features(part, masked_query),
            **self._features_of_name(edit),
            **of_aspect,
        }
        if self.subjects is not None:
            features |= object_features(part, mentions, self.subjects)
        return ComparedEdit(edit, mentions[0].name, features)

    def _is_presupposed_before(self, edit: EditVersion, excerpt: Excerpt) -> bool:
        """Whether a statement of the query, outside of this part, takes the old object for granted.

        So does "It takes 80 cents per transfer. Why?"
        """
        if self.subjects is not None or not edit.record.target_true:
            return False
        words_of_query = self.parsed.words
        statements = set[str]()
        for mention in self.parsed.by_edit[edit.id]:
            begin = int(words_of_query.begins[mention.begin])
            end = int(words_of_query.ends[mention.end - 1])
            start, stop = sentence_around(words_of_query.text, begin, end)
            if not start <= excerpt.place[0] < stop:
                statements.add(words_of_query.text[start:stop])
        return any(
            presupposes(masked(statement, edit.record.names), edit.record)
            for statement in statements
        )

    def _is_about_another(self, edit: EditVersion, excerpt: Excerpt) -> bool:
        """Whether a part is surely about a longer name, or another time, person or case."""
        part = excerpt.text
        mentions = self.parsed.by_edit[edit.id]
        if all(map(self._seems_common_word, mentions)) and (
            find_name(part) or mentions[0].name in QUESTION_WORDS
        ):
            return True
        if all(self._is_ordinary_word(mention, edit.record) for mention in mentions):
            return True
        of_name = self._features_of_name(edit)
        if of_name["inside"] and of_name["continued"]:
            return True
        return about_another(
            part,
            edit.record,
            written=edit.created_at,
            reverse=self.subjects is not None,
            original=excerpt.original,
            before=excerpt.before,
        )

    def _seems_common_word(self, mention: Mention) -> bool:
        """Whether a name that is also a common word seems to be that word, as in "Tell us"."""
        if mention.cased or not mention.ambiguous:
            return False
        word_before = self.parsed.words.folded(mention.begin - 1, mention.begin)
        word_behind = self.parsed.words.folded(mention.end, mention.end + 1)
        if word_before:
            seems_name = word_before[0] in _BEFORE_NAMES
        else:
            seems_name = mention.name not in QUESTION_WORDS
        return not seems_name and word_behind != ["s"]

    def _is_ordinary_word(self, mention: Mention, record: EditRecord) -> bool:
        """Whether a name that has a capital where it is stored is used as the word that it is."""
        if mention.cased or not mention.ambiguous or mention.kind is NameMatch.TYPO:
            return False
        has_capital = any(
            mention.name.title() in name and not (" " in name and name[1:].islower())
            for name in record.names
        )
        return has_capital and used_as_word(self.parsed.words, mention.begin, mention.end)

    def _features_of_name(self, edit: EditVersion) -> dict[str, float]:
        """How doubtful it is that the query names the edit's subject, by all mentions."""
        if edit.id not in self._name_features:
            mentions = self.parsed.by_edit[edit.id]
            self._name_features[edit.id] = _name_features(self.parsed, mentions, edit.record)
        return self._name_features[edit.id]


@dataclass(frozen=True)
class _Group:
    """Edits of one subject, and what of a query is compared with them."""

    reading: Reading
    edit_ids: tuple[int, ...]
    excerpts: tuple[Excerpt, ...]


def _by_old_object(
    part: str, record: EditRecord, agreement: Agreement, old_object: Held
) -> tuple[Agreement, float]:
    """An edit's agreement with a part of a query, and the share of what it asks that is said there.

    old_object: how the part holds the old object, which changes both.
    """
    if asks_value(part, record) or old_object is Held.ALONE:
        return _FULL_AGREEMENT, 1.0
    match old_object:
        case Held.OTHERWISE:
            return agreement._replace(other=max(agreement.other, _OTHER)), 0.0
        case Held.MEANT:
            return agreement._replace(near=max(agreement.near, _NEAR_OF_PREMISE)), 1.0
        case Held.NAMED:
            return agreement, 1.0
        case Held.IN_DOUBT:
            return agreement, share_in_words(part, record)
        case _:
            return agreement, share_said(part, record)


@dataclass(frozen=True)
class _NearestPart:
    """The part of a query that is nearest to an edit.

    cosine: its largest with a text of the edit. margin: that to the other edits of the subject, 0
    for the nearest edit, else negative.
    """

    excerpt: Excerpt
    cosine: float
    margin: float


@dataclass(frozen=True)
class _Match:
    """An edit to be compared with a query, read in some way, by its nearest part.

    of_aspect: features by what the edits of the subject are about.
    """

    reading: Reading
    edit_id: int
    nearest: _NearestPart
    of_aspect: Features


def compared(readings: Sequence[Reading], index: EditIndex) -> list[ComparedEdit]:
    """The edits whose subject, or whose object, is named, with features for `Calibrated.named`.

    Texts of all readings are embedded at once, as far as they are `affordable`.
    """
    groups = (group for reading in readings for group in reading.groups(index))
    comparable = affordable(
        (group, [excerpt.text for excerpt in group.excerpts]) for group in groups
    )
    if not comparable.sources:
        return []

    vectors = index.embed(comparable.texts, masked=True)
    place_of = {text: place for place, text in enumerate(comparable.texts)}

    matches: list[_Match] = []
    for group in _merged(comparable):
        part_vectors = {excerpt: vectors[place_of[excerpt.text]] for excerpt in group.excerpts}
        nearest_parts = _nearest_parts(index, group.edit_ids, part_vectors)
        nearest_ids = nlargest(
            _MOST_COMPARED, nearest_parts, key=lambda i: (nearest_parts[i].margin, -i)
        )
        of_aspects = _features_of_aspects(
            index,
            group.reading,
            {edit_id: nearest_parts[edit_id] for edit_id in nearest_ids},
        )
        matches += [_Match(group.reading, i, nearest_parts[i], of_aspects[i]) for i in nearest_ids]

    agreements_by_edit = agreements(index, [match.edit_id for match in matches], vectors)
    compared_edits = []
    for match in matches:
        place = place_of[match.nearest.excerpt.text]
        agreement = agreements_by_edit[match.edit_id][place]
        asks_beyond_it = agreement.relation < _SAME_RELATION and _asks_beyond(match, index)
        compared_edits.append(
            match.reading.compared(
                index.edits[match.edit_id],
                index.masked.texts[match.edit_id][0],
                match.nearest,
                agreement,
                match.of_aspect,
                missed=asks_beyond_it or _is_missed(match, index, vectors[place]),
            )
        )
    return compared_edits


def _is_missed(match: _Match, index: EditIndex, vector: FloatArray) -> bool:
    """Whether a part of a question is rather about something else than an edit.

    This is said only of edits with paraphrases that no person wrote, by their near misses and by
    other edits of the subject. vector: of the part.
    """
    edit_id = match.edit_id
    record = index.edits[edit_id].record
    if len(record.own_paraphrases) == len(record.paraphrases):
        return False
    if match.nearest.margin < -_NEARER_EDIT:
        return True
    if edit_id not in index.near_misses.texts:
        return False
    cosine = index.near_misses.closest([edit_id], vector)[edit_id]
    return cosine >= _NEAR_MISS and cosine > match.nearest.cosine


def _asks_beyond(match: _Match, index: EditIndex) -> bool:
    """Whether a part is a question for yes or no that asks for what an edit does not say."""
    part = match.nearest.excerpt.text
    is_near = match.nearest.margin >= -_FAR_FROM_NEAREST
    if match.reading.subjects is not None or not is_near or not is_closed(part):
        return False
    edit = index.edits[match.edit_id]
    words_of_fact = words_of_attributes(part, edit.record, match.nearest.excerpt.original)
    if asks_for_existing(part, words_of_fact) or mentions_object(part, edit.record):
        return False
    wordings = index.masked.texts[edit.id]
    return asks_beyond(part, wordings, asking_stems(edit, index), edit.record.target_new)


def _merged(comparable: Affordable[_Group]) -> list[_Group]:
    """The groups, where those of one reading with equal excerpts have become one.

    Equal excerpts have the same subject.
    """
    ids_by_excerpts: dict[tuple[Reading, tuple[Excerpt, ...]], list[int]] = defaultdict(list)
    for group in comparable.sources:
        ids_by_excerpts[group.reading, group.excerpts] += group.edit_ids
    return [
        _Group(reading, tuple(edit_ids), excerpts)
        for (reading, excerpts), edit_ids in ids_by_excerpts.items()
    ]


def _features_of_aspects(
    index: EditIndex,
    reading: Reading,
    nearest_parts: Mapping[int, _NearestPart],
) -> dict[int, Features]:
    """What of the subject each edit is about, beside what its part of the query asks.

    Of a subject with few edits only the kinds of values count. Shadow edits change nothing for
    active ones.
    """
    excerpt_by_edit = {edit_id: nearest.excerpt for edit_id, nearest in nearest_parts.items()}
    aspects = {
        edit_id: aspect(
            Said(excerpt.text, excerpt.foreign), index.edits[edit_id].record, excerpt.original
        )
        for edit_id, excerpt in excerpt_by_edit.items()
    }
    if reading.subjects is not None:  # what is asked for is no value of the edits
        return {edit_id: attribute_features(own, ()) for edit_id, own in aspects.items()}
    active_ids = [edit_id for edit_id in aspects if index.is_active(edit_id)]
    features: dict[int, Features] = {}
    for edit_id, own in aspects.items():
        of_edit = {"misfit": float(not own.fits)}
        if own.is_narrower:
            of_edit["limited"] = 1.0
        features[edit_id] = of_edit
        others = [aspects[i] for i in active_ids if excerpt_by_edit[i] == excerpt_by_edit[edit_id]]
        of_edit |= attribute_features(own, [other for other in others if other is not own])
        if len(active_ids) < MANY:
            continue
        of_edit |= aspect_features(own, others)
        of_edit[CROWDED] = 1.0
    return features


def _nearest_parts(
    index: EditIndex, edit_ids: Sequence[int], part_vectors: Mapping[Excerpt, FloatArray]
) -> dict[int, _NearestPart]:
    """For each edit of a subject the part of a query with the largest sum of cosine and margin.

    Shadow edits do not count for the margin of an active one.
    """
    active_ids = {edit_id for edit_id in edit_ids if index.is_active(edit_id)}
    nearest_parts: dict[int, _NearestPart] = {}
    for excerpt, vector in part_vectors.items():
        cosines = index.masked.closest(edit_ids, vector)
        largest = max(cosines.values())
        largest_active = max((cosines[edit_id] for edit_id in active_ids), default=0.0)
        for edit_id in edit_ids:
            cosine = cosines[edit_id]
            margin = cosine - (largest_active if edit_id in active_ids else largest)
            before = nearest_parts.get(edit_id)
            if before is None or cosine + margin > before.cosine + before.margin:
                nearest_parts[edit_id] = _NearestPart(excerpt, cosine, margin)
    return nearest_parts


def _name_features(
    parsed: ParsedQuery, mentions: Sequence[Mention], record: EditRecord
) -> dict[str, float]:
    kinds = {mention.kind for mention in mentions}
    is_stated = [_goes_on_as_stated(parsed, mention, record) for mention in mentions]
    goes_on = all(continued(parsed.words, mention.begin, mention.end) for mention in mentions)
    return {
        "continued": float(goes_on and not any(is_stated)),
        "inside": float(all(mention.inside for mention in mentions) and not any(is_stated)),
        "ambiguous": float(all(mention.ambiguous for mention in mentions)),
        "uncased": float(not any(mention.cased for mention in mentions)),
        "typo": float(kinds == {NameMatch.TYPO}),
        "partial": float(kinds <= {NameMatch.PARTIAL, NameMatch.LAST}),
        "last": float(kinds == {NameMatch.LAST}),
    }


def _goes_on_as_stated(parsed: ParsedQuery, mention: Mention, record: EditRecord) -> bool:
    """Whether a name goes on with a word that the edit says of its subject: "Slack Pro"."""
    adjoining = behind_only(parsed.words, mention.begin, mention.end)
    if adjoining is None:
        return False
    return any(adjoining in words(text) for text in (record.query, *record.paraphrases))
