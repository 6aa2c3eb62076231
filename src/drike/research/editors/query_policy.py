"""DR-IKE-Q's policy: whether an edit applies to a query, and what the query is then shown.

    pi(leave the query alone | edit, query) = 1 - p,    pi(mix | edit, query) = p softmax(z)_mix

p is the probability of a `Calibrated` gate. The z, one for each mix, are linear in the same
features.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import log

from drike.edits.edit import Edit, EditCase, Key
from drike.edits.record import as_stored
from drike.encoders import TextEncoder
from drike.gates.calibrated import Calibrated, LogisticHead
from drike.gates.calibration import default_gate
from drike.gates.decision import EQUAL, Candidate
from drike.gates.index import EditIndex
from drike.gates.inventory import WithRelations
from drike.prompts import DemonstrationSet, Role
from drike.research.editors.editor import Editor
from drike.research.editors.in_context import InContextEditor
from drike.research.editors.selectors import RoleCounts, Selection, Selector, policy_mixes
from drike.text.masking import masked
from drike.text.relation_wordings import Relation


@dataclass(frozen=True)
class Shown:
    """A mix, and a head that says how well it suits a query by the features of the gate."""

    mix: RoleCounts
    head: LogisticHead


@dataclass(frozen=True)
class QueryPolicy(Selector):
    """Leaves a query alone unless an edit applies to it, and shows it the most probable mix if so.

    gate: its threshold decides whether the edit applies. shown: the mixes, smallest first. encoder:
    the gate's, without its relations. trained_on: the keys of the edits that the policy or its
    threshold is fitted to. applied: something else has decided already that the edits apply.
    """

    gate: Calibrated
    shown: tuple[Shown, ...]
    encoder: TextEncoder
    trained_on: frozenset[Key] = frozenset()
    applied: bool = False

    @classmethod
    def untrained(
        cls,
        encoder: TextEncoder,
        roles: Sequence[Role],
        mixes: Sequence[RoleCounts] | None = None,
    ) -> QueryPolicy:
        """The default gate with another encoder, and mixes, by default of a pool with these roles.

        The mixes are equally probable, and the gate's logit is shifted so that its threshold is .5.
        """
        gate = default_gate()
        logit_at_threshold = log(gate.threshold / (1 - gate.threshold))
        gate = replace(
            gate,
            encoder=encoder.name,
            settings={},
            named=replace(gate.named, bias=gate.named.bias - logit_at_threshold),
            threshold=0.5,
        )

        no_weights = dict.fromkeys([*gate.named.weights, EQUAL], 0.0)
        indifferent = LogisticHead(no_weights, bias=0.0)
        mixes = policy_mixes(roles) if mixes is None else mixes
        shown = tuple(Shown(mix, indifferent) for mix in mixes)
        return cls(gate, shown, encoder)

    @property
    def mixes(self) -> tuple[RoleCounts, ...]:
        """What it may show."""
        return tuple(shown.mix for shown in self.shown)

    def shifted(self, logit: float) -> QueryPolicy:
        """The same policy with this added to the logit that an edit applies."""
        named = replace(self.gate.named, bias=self.gate.named.bias + logit)
        return replace(self, gate=replace(self.gate, named=named))

    def with_relations(self, relations: Iterable[Relation]) -> QueryPolicy:
        """The same policy that compares texts through more relations.

        These may be those of its training edits.
        """
        all_relations = (*self.gate.relations, *relations)
        return replace(self, gate=replace(self.gate, relations=all_relations))

    @cached_property
    def _encoder_with_relations(self) -> TextEncoder:
        if not self.gate.relations:
            return self.encoder
        return WithRelations(self.encoder, self.gate.relations)

    def candidates(self, edits: Sequence[Edit], queries: Sequence[str]) -> list[Candidate | None]:
        """What the gate finds out about the first of the edits in force, for each query.

        None for a query that cannot concern it.
        """
        index = EditIndex.of(as_stored(edits), self._encoder_with_relations)
        return [self._candidate_for_first_edit(query, index) for query in queries]

    def _candidate_for_first_edit(self, query: str, index: EditIndex) -> Candidate | None:
        for candidate in self.gate.candidates(query, index):
            if candidate.edit.id == 1:  # `as_stored` counts from 1
                return candidate
        return None

    def choose(self, edits: Sequence[Edit], queries: Sequence[str]) -> list[RoleCounts | None]:
        """The mix for each query about the first of the edits in force; None to leave it alone."""
        if self.applied and len(self.shown) == 1:  # nothing depends on the candidates
            return [self.shown[0].mix] * len(queries)
        candidates = self.candidates(edits, queries)
        return [
            self.best(candidate) if self._applies(candidate) else None for candidate in candidates
        ]

    def _applies(self, candidate: Candidate | None) -> bool:
        if self.applied:
            return True
        return candidate is not None and candidate.probability >= self.gate.threshold

    def best(self, candidate: Candidate | None) -> RoleCounts:
        """The most probable mix for a query with this candidate.

        Of equally probable ones it is the smallest.
        """
        features = candidate.features if candidate is not None else {}
        most_probable = max(self.shown, key=lambda shown: shown.head.logit(features))
        return most_probable.mix

    def select(self, candidates: DemonstrationSet, queries: Sequence[str]) -> list[Selection]:
        """The demonstrations of each query's mix, or the query alone, without the edit either."""
        selections = []
        for mix in self.choose(candidates.edits, queries):
            if mix is None:
                selections.append(Selection(candidates, (), alone=True))
            else:
                selections.append(mix.selection(candidates))
        return selections


def policy_of(editor: Editor) -> QueryPolicy | None:
    """The policy of an editor that has one."""
    if isinstance(editor, InContextEditor) and isinstance(editor.selector, QueryPolicy):
        return editor.selector
    return None


def applied(editor: Editor) -> Editor:
    """An editor behind a gate: a policy then decides only what is shown."""
    policy = policy_of(editor)
    if isinstance(editor, InContextEditor) and policy is not None:
        return replace(editor, selector=replace(policy, applied=True))
    return editor


def relations_of(cases: Iterable[EditCase]) -> dict[str, Relation]:
    """The relations of cases by name, in the words of their edits and paraphrases.

    An edit without a relation is of one of its own, whose name is its query's wording.
    """
    wordings_by_relation: dict[str, dict[str, None]] = {}  # dicts as sets that keep their order
    for case in cases:
        wordings = _wordings_of(case)
        name = case.edit.relation or wordings[0]
        wordings_by_relation.setdefault(name, {}).update(dict.fromkeys(wordings))

    return {
        name: Relation(name, groups=tuple((wording,) for wording in wordings))
        for name, wordings in wordings_by_relation.items()
    }


def _wordings_of(case: EditCase) -> list[str]:
    """The edit's query and its paraphrases, with "it" for the subject."""
    subject = case.edit.subject or ""
    queries = [case.edit.query, *(probe.query for probe in case.paraphrases)]
    return [masked(query, [subject]) for query in queries]
