"""Evaluation with many edits in force: every query goes through a gate (lifelong evaluation, docs/method.md)."""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from drike.deployment.edited_model import route_each, write_prompts
from drike.editors.catalog import Editor
from drike.edits import Aspect, Edit, EditCase, Probe, trained_on
from drike.encoders import TextEncoder
from drike.errors import UsageError
from drike.gates.decision import Decision, Gate
from drike.gates.index import EditIndex
from drike.models.protocols import LanguageModel
from drike.prompts import Prompt
from drike.stores.records import EditVersion, as_stored, conflict_keys
from drike.words import mentions


class SimulatedStores:
    """For each case a store that holds its edits and others, of which none contradicts them.

    edits: all that may be in force; of two that answer the same question the first is. size: edits in force, drawn with
    the seed; None is all. encoder: for a gate that compares vectors. Raises UsageError for an edit without a subject.
    """

    def __init__(
        self, edits: Sequence[Edit], size: int | None = None, *, encoder: TextEncoder | None = None, seed: int = 0
    ) -> None:
        self.size, self._seed = size, seed
        self.edits = as_stored(list({edit.key: edit for edit in edits}.values()))
        self._by_key = {edit.record.edit.key: edit for edit in self.edits}
        self._conflict_keys, self._consistent = dict[int, frozenset[str]](), list[EditVersion]()
        taken: set[str] = set()
        for edit in self.edits:
            if not edit.record.subject:
                raise UsageError(f"{edit.record.fact} has no subject, which a store of edits needs: give its row one")
            self._conflict_keys[edit.id] = keys = conflict_keys(edit.record)
            if not keys & taken:
                taken |= keys
                self._consistent.append(edit)
        self._encoder = encoder
        self.whole = self._last = EditIndex.of(self._consistent, encoder)

    def own(self, edits: Sequence[Edit]) -> list[EditVersion]:
        """The edits of a case as they are stored. Raises KeyError for one that may not be in force."""
        return [self._by_key[edit.key] for edit in edits]

    def of(self, edits: Sequence[Edit]) -> EditIndex:
        """What is in force when a case with these edits is asked."""
        own = self.own(edits)
        ids = {edit.id for edit in own}
        taken = frozenset[str]().union(*(self._conflict_keys[id] for id in ids))
        others = [edit for edit in self._consistent if edit.id not in ids and not self._conflict_keys[edit.id] & taken]
        if self.size is not None:
            rng = random.Random(f"{self._seed}|{edits[0].fact}")
            others = rng.sample(others, min(len(others), max(0, self.size - len(own))))
        chosen = {edit.id for edit in (*own, *others)}
        for known in (self.whole, self._last):
            if known.edits.keys() == chosen:
                return known
        self._last = EditIndex.of([*own, *others], self._encoder, self.whole)
        return self._last


@dataclass(frozen=True)
class GatedEditor:
    """An editor behind a gate: each query gets the edits that it concerns, or reaches the model as it is."""

    editor: Editor
    gate: Gate
    stores: SimulatedStores
    model: LanguageModel | None = None  # is asked, yes or no, where the gate is uncertain

    @property
    def name(self) -> str:
        """The editor's."""
        return self.editor.name

    @property
    def trained_on(self) -> frozenset[tuple[str, str]]:
        """As the editor says."""
        return trained_on(self.editor)

    def prompts(self, edits: Sequence[Edit], queries: Sequence[str]) -> list[Prompt]:
        """One prompt per query, in order, under the edits in force that it concerns."""
        return write_prompts(self.editor, route_each(self.gate, self.stores.of(edits), queries, self.model))


def with_stores(case: EditCase, stores: SimulatedStores) -> EditCase:
    """The case with the right answers under its store: of a probe that asks for another edit in force, its object."""
    own, index = stores.own(case.edits), stores.of(case.edits)

    def with_answer(probe: Probe) -> Probe:
        asked = _asked(probe, own, index)
        if not asked or asked[0] in own:
            return probe
        record = asked[0].record
        return replace(probe, target=record.target_new, distractor=record.target_true, also=())

    probes, further = (tuple(map(with_answer, group)) for group in (case.probes, case.further))
    return replace(case, probes=probes, further=further)


def _asked(probe: Probe, own: Sequence[EditVersion], index: EditIndex) -> Sequence[EditVersion]:
    """The edits in force that a probe asks for: its case's, or one about the same fact if its answer should stay.

    That is one whose subject the probe names and whose old or new object is its answer: data may name no relations.
    """
    stays = probe.aspect in (Aspect.NEIGHBORHOOD, Aspect.SAME_SUBJECT)
    if probe.aspect is Aspect.DISTRACTOR:  # a sentence before either kind of question
        stays = not any(mentions(probe.query, edit.record.subject) for edit in own)
    if not stays:
        return own
    known = (edit for edit in index.edits.values() if edit.record.target_true is not None)
    stated = (edit for edit in known if probe.target in (edit.record.target_true, edit.record.target_new))
    same_fact = [edit for edit in stated if mentions(probe.query, edit.record.subject)]
    return sorted(same_fact, key=lambda edit: (-len(edit.record.subject), edit.id))[:1]


@dataclass(frozen=True)
class GateRecord:
    """What a gate decided about a question of a case, or about an unrelated one, whose case_id is ""."""

    case_id: str
    kind: str  # the probe's aspect, or "unrelated"
    query: str
    asks: str | None  # the fact of the edit in force that it asks for, or that its answer follows from, if any
    fires: bool  # whether all edits that it asks for match
    false: tuple[str, ...]  # the facts of others that match
    probability: float  # of the edit that it asks for; 0 if that is no candidate
    nearest: str | None  # the most probable of others
    nearest_probability: float

    @property
    def concerns(self) -> bool:
        """Whether the question asks an edit in force."""
        return self.asks is not None


def gate_records(
    gate: Gate, stores: SimulatedStores, cases: Sequence[EditCase], unrelated: Sequence[str] = (),
    model: LanguageModel | None = None,
) -> Iterator[GateRecord]:  # fmt: skip
    """What a gate decides about the probes of cases `with_stores`, and unrelated questions to the whole store."""
    for case in cases:
        own, index = stores.own(case.edits), stores.of(case.edits)
        decisions = route_each(gate, index, [probe.query for probe in case.asked], model)
        for probe, decision in zip(case.asked, decisions, strict=True):
            yield _record(case.case_id, probe.aspect.value, decision, _asked(probe, own, index))
    for decision in route_each(gate, stores.whole, unrelated, model):
        yield _record("", "unrelated", decision, [])


def _record(case_id: str, kind: str, decision: Decision, edits: Sequence[EditVersion]) -> GateRecord:
    asked = {edit.id for edit in edits}
    matched = {edit.id: edit.record.edit.fact for edit in decision.matched}
    wrong = next((candidate for candidate in decision.candidates if candidate.edit.id not in asked), None)
    false = tuple(fact for i, fact in matched.items() if i not in asked)
    own = max((c.probability for c in decision.candidates if c.edit.id in asked), default=0.0)
    asks, fires = edits[0].record.edit.fact if edits else None, asked <= matched.keys()
    nearest, probability = (wrong.edit.record.edit.fact, wrong.probability) if wrong else (None, 0.0)
    return GateRecord(case_id, kind, decision.query, asks, fires, false, own, nearest, probability)
