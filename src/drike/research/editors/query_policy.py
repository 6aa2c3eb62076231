"""DR-IKE-Q's policy: whether an edit applies to a query, and what the query is then shown.

    pi(leave the query alone | edit, query) = 1 - p,    pi(mix | edit, query) = p softmax(z)_mix

p is the probability of a `Calibrated` gate, and z are linear in the same features, by name.
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
from drike.text.relation_wordings import Relation
from drike.text.words import masked


@dataclass(frozen=True)
class Shown:
    """A mix, and a head that says how well it suits a query by the features of the gate."""

    mix: RoleCounts
    head: LogisticHead


@dataclass(frozen=True)
class QueryPolicy(Selector):
    """Leaves a query alone unless an edit applies to it with the gate's threshold, else shows the most probable mix.

    encoder: the gate's, without its relations. trained_on: the keys of the edits that it or its threshold is fitted to.
    applied: something else has decided that the edits apply.
    """

    gate: Calibrated
    shown: tuple[Shown, ...]
    encoder: TextEncoder
    trained_on: frozenset[Key] = frozenset()
    applied: bool = False

    @classmethod
    def untrained(cls, encoder: TextEncoder, roles: Sequence[Role]) -> QueryPolicy:
        """The default gate with another encoder, and the mixes of a pool with these roles, all alike."""
        gate = replace(default_gate(), encoder=encoder.name, settings={})
        head = LogisticHead(dict.fromkeys([*gate.named.weights, EQUAL], 0.0), 0.0)
        even = replace(
            gate.named, bias=gate.named.bias - log(gate.threshold / (1 - gate.threshold))
        )
        shown = tuple(Shown(mix, head) for mix in policy_mixes(roles))
        return cls(replace(gate, named=even, threshold=0.5), shown, encoder)

    @property
    def mixes(self) -> tuple[RoleCounts, ...]:
        """What it may show."""
        return tuple(shown.mix for shown in self.shown)

    def shifted(self, logit: float) -> QueryPolicy:
        """The same policy with this added to the logit that an edit applies."""
        head = replace(self.gate.named, bias=self.gate.named.bias + logit)
        return replace(self, gate=replace(self.gate, named=head))

    def with_relations(self, relations: Iterable[Relation]) -> QueryPolicy:
        """The same policy that compares texts through more relations, such as those of its training edits."""
        return replace(self, gate=replace(self.gate, relations=(*self.gate.relations, *relations)))

    @cached_property
    def _encoder(self) -> TextEncoder:
        return (
            WithRelations(self.encoder, self.gate.relations)
            if self.gate.relations
            else self.encoder
        )

    def candidates(self, edits: Sequence[Edit], queries: Sequence[str]) -> list[Candidate | None]:
        """What the gate finds out about the first of the edits in force, for each query; None where it is no matter."""
        index = EditIndex.of(as_stored(edits), self._encoder)
        return [
            next((c for c in self.gate.candidates(query, index) if c.edit.id == 1), None)
            for query in queries
        ]

    def choose(self, edits: Sequence[Edit], queries: Sequence[str]) -> list[RoleCounts | None]:
        """The mix for each query about the first of the edits in force; None to leave it alone."""
        if self.applied and len(self.shown) == 1:
            return [self.shown[0].mix] * len(queries)
        found, least = self.candidates(edits, queries), self.gate.threshold
        return [
            self.best(c) if self.applied or (c and c.probability >= least) else None for c in found
        ]

    def best(self, candidate: Candidate | None) -> RoleCounts:
        """The most probable mix for a query with this candidate; the smallest of equally probable ones."""
        logits = [shown.head.logit(candidate.features if candidate else {}) for shown in self.shown]
        return self.shown[max(range(len(logits)), key=logits.__getitem__)].mix

    def select(self, candidates: DemonstrationSet, queries: Sequence[str]) -> list[Selection]:
        """The demonstrations of each query's mix, or none and no edit either."""
        return [
            Selection(candidates, (), alone=True)
            if mix is None
            else Selection(candidates, mix.nearest(candidates))
            for mix in self.choose(candidates.edits, queries)
        ]


def policy_of(editor: Editor) -> QueryPolicy | None:
    """The policy of an editor that has one."""
    selector = editor.selector if isinstance(editor, InContextEditor) else None
    return selector if isinstance(selector, QueryPolicy) else None


def applied(editor: Editor) -> Editor:
    """An editor behind a gate: a policy decides only what is shown."""
    if isinstance(editor, InContextEditor) and (policy := policy_of(editor)):
        return replace(editor, selector=replace(policy, applied=True))
    return editor


def relations_of(cases: Iterable[EditCase]) -> dict[str, Relation]:
    """The relations of cases by name, in the words of their edits and paraphrases; an edit without one has its own."""
    texts: dict[str, dict[str, None]] = {}
    for case in cases:
        queries = (case.edit.query, *(probe.query for probe in case.paraphrases))
        own = dict.fromkeys(masked(query, [case.edit.subject or ""]) for query in queries)
        texts.setdefault(case.edit.relation or next(iter(own)), {}).update(own)
    return {name: Relation(name, tuple((text,) for text in own)) for name, own in texts.items()}
