"""Which edits a question gets, the prompt that states them, and a model that answers under the edits in force.

It is evaluated with many edits in force: every query goes through a gate (lifelong evaluation, docs/design/method.md).
"""

from __future__ import annotations

import random
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from drike.answers.matching import first_line
from drike.edits.conflicts import conflict_keys
from drike.edits.edit import STABLE, Aspect, Edit, EditCase, Probe
from drike.edits.record import EditVersion, as_stored
from drike.encoders import TextEncoder
from drike.errors import UsageError
from drike.gates.by_name import EveryQuery
from drike.gates.confirmation import require_uncertainty, verify
from drike.gates.decision import Decision, Gate
from drike.gates.index import EditIndex
from drike.live.live_edits import LiveEdits
from drike.live.store_gate import encoder_of, open_gate
from drike.models.answers import complete, write_answers
from drike.models.protocols import ANSWER_TOKENS, LanguageModel
from drike.prompts import Prompt, Role
from drike.research.editors.columns import EditorColumn, column_of
from drike.research.editors.editor import Editor
from drike.research.editors.in_context import ranks_retains
from drike.research.editors.query_policy import applied
from drike.stores.edit_store import EditStore
from drike.support.table import Table, as_markdown, markdown_text, visible
from drike.text.words import mentions

if TYPE_CHECKING:
    from rich.console import RenderableType

_MAX_CANDIDATES = 5  # in an explanation


def route_each(
    gate: Gate, index: EditIndex, questions: Sequence[str], model: LanguageModel | None = None
) -> list[Decision]:
    """The decision on each question. model: is asked about all uncertain edits, in one call."""
    decisions = [gate.decide(question, index) for question in questions]
    return decisions if model is None else verify(decisions, model)


def write_prompts(editor: Editor, decisions: Sequence[Decision]) -> list[Prompt]:
    """A prompt for each decision: the query as it is, or under its edits. Same edits share one call of the editor."""
    editor = applied(editor)
    queries_under: dict[tuple[Edit, ...], dict[str, None]] = defaultdict(dict)
    for decision in decisions:
        queries_under[decision.edits][decision.query] = None
    written: dict[tuple[tuple[Edit, ...], str], Prompt] = {}
    for edits, queries in queries_under.items():
        prompts = editor.prompts(edits, list(queries)) if edits else map(Prompt, queries)
        written |= zip(((edits, query) for query in queries), prompts, strict=True)
    return [written[decision.edits, decision.query] for decision in decisions]


@dataclass(frozen=True)
class Explanation:
    """Why a query got its prompt: the gate's decision, and one side of a case study."""

    query: str
    decision: Decision
    answer: str
    prompt_tokens: int | None
    side: EditorColumn

    def __rich__(self) -> RenderableType:
        from rich.console import Group
        from rich.text import Text

        return Group(*map(Text, map(visible, self._lines())), *self._tables())

    def _repr_markdown_(self) -> str:
        return "\n\n".join([*map(markdown_text, self._lines()), *map(as_markdown, self._tables())])

    def __str__(self) -> str:
        return "\n".join([*map(visible, self._lines()), *map(str, self._tables())])

    def _tables(self) -> list[Table]:
        tables = [_candidates_table(self.decision)] if self.decision.candidates else []
        if self.side.retains:
            shown = (d for d in self.side.prompt.demonstrations if d.role is not Role.RETAIN)
            fixed = tuple((f"{d.query} {d.answer}", d.role.value) for d in shown)
            tables.append(Table("Always shown", ("demonstration", "role"), fixed, wide=True))
            tables.append(self.side.table())
        return tables

    def _lines(self) -> list[str]:
        lines = [f"{self.query} -> {self.answer}"]
        if not self.decision.applied:
            return [
                *lines,
                f"No edit applies ({self.decision.reason}): the model gets the query alone.",
            ]
        prompt, retains = self.side.prompt, self.side.retains
        shown = [
            f"{len(prompt.demonstrations) - prompt.shots} copies and updates",
            f"{prompt.shots} retains",
        ]
        if retains:
            shown[1] = f"{sum(retain.kept for retain in retains)} of {len(retains)} retains"
        if self.prompt_tokens is not None:
            shown.append(f"{self.prompt_tokens} tokens")
        lines += [f"Edit: {edit.record.edit.fact}" for edit in self.decision.applied]
        return [*lines, f"Why: {self.decision.reason}", f"Prompt: {', '.join(shown)}"]


@dataclass(frozen=True)
class BeforeAfter:
    """The answers to a query without and with the edits, and the gate's decision."""

    decision: Decision
    before: str
    after: str

    @property
    def reason(self) -> str:
        """Why the query was put under edits, or left alone."""
        return (
            self.decision.reason if self.decision.matched else f"left alone: {self.decision.reason}"
        )


def _candidates_table(decision: Decision) -> Table:
    matched = {edit.id for edit in decision.matched}
    rows = []
    for candidate in decision.candidates[:_MAX_CANDIDATES]:
        edit, answer = candidate.edit, candidate.answer
        notes = " ".join(
            filter(
                None,
                ("fires" if edit.id in matched else "", f"(model: {answer})" if answer else ""),
            )
        )
        rows.append(
            (
                str(edit.id),
                edit.record.edit.fact,
                candidate.name or "",
                f"{candidate.probability:.3f}",
                notes,
            )
        )
    more = len(decision.candidates) - len(rows)
    hidden = (f"{more} less probable ones are not shown.",) if more else ()
    return Table(
        "Edits considered", ("edit", "fact", "named as", "p", ""), tuple(rows), hidden, wide=True
    )


class EditedModel:
    """A frozen model that answers under the edits in force, and as it is where a query concerns none of them.

    edits: a store, whose changes take effect at the next query; or one edit or several, of which the later one holds
    where two share a query. gate: None is the store's own, else the default one, or `Named` where no encoder is
    installed; `EveryQuery()` is the paper's protocol. encoder: of the vectors that the gate compares. ask: ask the
    model, yes or no, where the gate is uncertain. Raises ValueError for no edits, and for one without a subject, which
    only `EveryQuery` can use; UsageError for `ask` with a gate that is never uncertain.
    """

    def __init__(
        self,
        model: LanguageModel,
        editor: Editor,
        edits: EditStore | Edit | Sequence[Edit],
        *,
        gate: Gate | None = None,
        encoder: TextEncoder | None = None,
        ask: bool = False,
    ) -> None:
        listed = _listed(edits)
        store = None if isinstance(edits, Edit | Sequence) else edits
        gate = gate or open_gate(store)
        if ask:
            require_uncertainty(gate, "give gate=drike.default_gate(), or leave ask out")
        encoder = encoder or encoder_of(gate)
        self.model = model
        self.editor = editor
        self.gate = gate
        self._verifier = model if ask else None
        self._live: LiveEdits | None = None
        self._index = EditIndex()
        if store is not None:
            self._live = LiveEdits(store, gate, encoder_of_gate=lambda gate: encoder)
            return

        if not listed:
            raise ValueError("an edited model needs at least one edit")
        nameless = next((edit for edit in listed if not edit.subject), None)
        if nameless and not isinstance(gate, EveryQuery):
            remedy = "give it one, or put every query under the edits (gate=EveryQuery())"
            raise ValueError(
                f"the edit {nameless.fact!r} has no subject that a query could name: {remedy}"
            )
        self._index = EditIndex.of(as_stored(listed), encoder)

    @property
    def index(self) -> EditIndex:
        """The edits in force now that apply to the model by its name. Raises StoreError if the store cannot be read."""
        if self._live is None:
            return self._index
        return self._live.refresh().view.index.applying({"model": self.model.info.name})

    def decide(self, query: str) -> Decision:
        """Which edits a query concerns."""
        return route_each(self.gate, self.index, [query], self._verifier)[0]

    def prompt(self, query: str) -> Prompt:
        """Everything the model is given for a query."""
        return write_prompts(self.editor, [self.decide(query)])[0]

    def ask(self, query: str, *, max_tokens: int = ANSWER_TOKENS) -> str:
        """The model's answer under the edits: the first line it writes."""
        [text] = complete(self.model, [self.prompt(query)], max_tokens)
        return first_line(text)

    def before_after(self, queries: Sequence[str]) -> list[BeforeAfter]:
        """The answers of the model as it is and under the edits, all in one call; equal prompts are asked once."""
        decisions = route_each(self.gate, self.index, queries, self._verifier)
        pairs = list(zip(map(Prompt, queries), write_prompts(self.editor, decisions), strict=True))
        asked = list(dict.fromkeys(prompt for pair in pairs for prompt in pair))
        answers = {
            prompt: first_line(text)
            for prompt, text in zip(asked, complete(self.model, asked), strict=True)
        }
        decided = zip(decisions, pairs, strict=True)
        return [
            BeforeAfter(decision, answers[before], answers[after])
            for decision, (before, after) in decided
        ]

    def explain(self, query: str) -> Explanation:
        """The answer, and why its prompt looks as it does."""
        decision = self.decide(query)
        if decision.edits and ranks_retains(self.editor):
            selection = self.editor.fit(self.editor.select(decision.edits, [query])[0], [query])
            side = column_of(self.editor, selection, self.editor.show(selection, [query])[0])
        else:
            side = EditorColumn(self.editor.name, write_prompts(self.editor, [decision])[0])
        [written] = write_answers(self.model, [side.prompt])
        return Explanation(
            query, decision, first_line(written.answer or ""), written.prompt_tokens, side
        )


class SimulatedStores:
    """For each case a store that holds its edits and others, of which none contradicts them.

    edits: all that may be in force; of two that answer the same question the first is. size: edits in force, drawn with
    the seed; None is all. encoder: for a gate that compares vectors. Raises UsageError for an edit without a subject.
    """

    def __init__(
        self,
        edits: Sequence[Edit],
        size: int | None = None,
        *,
        encoder: TextEncoder | None = None,
        seed: int = 0,
    ) -> None:
        self.size, self._seed = size, seed
        self.edits = as_stored(list({edit.key: edit for edit in edits}.values()))
        self._by_key = {edit.record.edit.key: edit for edit in self.edits}
        self._conflict_keys, self._consistent = dict[int, frozenset[str]](), list[EditVersion]()
        taken: set[str] = set()
        for edit in self.edits:
            if not edit.record.subject:
                raise UsageError(
                    f"{edit.record.fact} has no subject, which a store of edits needs: give its row one"
                )
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
        others = [
            edit
            for edit in self._consistent
            if edit.id not in ids and not self._conflict_keys[edit.id] & taken
        ]
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

    def prompts(self, edits: Sequence[Edit], queries: Sequence[str]) -> list[Prompt]:
        """One prompt per query, in order, under the edits in force that it concerns."""
        return write_prompts(
            self.editor, route_each(self.gate, self.stores.of(edits), queries, self.model)
        )


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
    stays = probe.aspect in STABLE
    if probe.aspect is Aspect.DISTRACTOR:  # a sentence before either kind of question
        stays = not any(mentions(probe.query, edit.record.subject) for edit in own)
    if not stays:
        return own
    known = (edit for edit in index.edits.values() if edit.record.target_true is not None)
    stated = (
        edit for edit in known if probe.target in (edit.record.target_true, edit.record.target_new)
    )
    same_fact = [edit for edit in stated if mentions(probe.query, edit.record.subject)]
    return sorted(same_fact, key=lambda edit: (-len(edit.record.subject), edit.id))[:1]


@dataclass(frozen=True)
class GateRecord:
    """What a gate decided about a question of a case, or about an unrelated one, whose case_id is ""."""

    case_id: str
    kind: str  # the probe's aspect, or "unrelated"
    query: str
    asks: (
        str | None
    )  # the fact of the edit in force that it asks for, or that its answer follows from, if any
    fires: bool  # whether all edits that it asks for match
    false: tuple[str, ...]  # the facts of others that match
    probability: float  # of the edit that it asks for; 0 if that is no candidate
    nearest: str | None  # the most probable of others
    nearest_probability: float


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
    yield from (
        _record("", "unrelated", decision, [])
        for decision in route_each(gate, stores.whole, unrelated, model)
    )


def _record(
    case_id: str, kind: str, decision: Decision, edits: Sequence[EditVersion]
) -> GateRecord:
    asked = {edit.id for edit in edits}
    matched = {edit.id: edit.record.edit.fact for edit in decision.matched}
    wrong = next(
        (candidate for candidate in decision.candidates if candidate.edit.id not in asked), None
    )
    false = tuple(fact for i, fact in matched.items() if i not in asked)
    own = max((c.probability for c in decision.candidates if c.edit.id in asked), default=0.0)
    asks, fires = edits[0].record.edit.fact if edits else None, asked <= matched.keys()
    nearest, probability = (
        (wrong.edit.record.edit.fact, wrong.probability) if wrong else (None, 0.0)
    )
    return GateRecord(case_id, kind, decision.query, asks, fires, false, own, nearest, probability)


def _listed(edits: EditStore | Edit | Sequence[Edit]) -> list[Edit]:
    """Edits given one by one, of which the later holds where two share a query; none of a store."""
    if isinstance(edits, Edit):
        return [edits]
    if isinstance(edits, Sequence):
        return list({edit.query: edit for edit in edits}.values())
    return []
