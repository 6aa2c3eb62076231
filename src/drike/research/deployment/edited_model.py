"""A model that answers under the edits in force."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from drike.answers.matching import first_line
from drike.edits.edit import Edit
from drike.edits.record import as_stored
from drike.encoders import TextEncoder
from drike.gates.by_name import EveryQuery
from drike.gates.decision import Decision, Gate
from drike.gates.index import EditIndex
from drike.live.live_edits import LiveEdits
from drike.live.store_gate import encoder_of, open_gate
from drike.models.answers import complete, write_answers
from drike.models.protocols import ANSWER_TOKENS, LanguageModel
from drike.prompts import Prompt
from drike.research.deployment.explanations import Explanation
from drike.research.deployment.routing import route_each, write_prompts
from drike.research.editors.columns import EditorColumn, column_of
from drike.research.editors.editor import Editor
from drike.research.editors.in_context import ranks_retains
from drike.stores.edit_store import EditStore


@dataclass(frozen=True)
class BeforeAfter:
    """The answers to a query without and with the edits, and the gate's decision."""

    decision: Decision
    before: str
    after: str

    @property
    def reason(self) -> str:
        """Why the query was put under edits, or left alone."""
        if self.decision.matched:
            return self.decision.reason
        return f"left alone: {self.decision.reason}"


class EditedModel:
    """A frozen model that answers under the edits in force, and as it is about everything else.

    edits: a store, whose changes take effect at the next query; or one edit or several, of which
    the later one holds where two share a query. gate: None is the store's own, else the default
    one, or `Named` where no encoder is installed; `EveryQuery()` is the paper's protocol. encoder:
    of the vectors that the gate compares. Raises ValueError for no edits, and for one without a
    subject, which only `EveryQuery` can use.
    """

    def __init__(
        self,
        model: LanguageModel,
        editor: Editor,
        edits: EditStore | Edit | Sequence[Edit],
        *,
        gate: Gate | None = None,
        encoder: TextEncoder | None = None,
    ) -> None:
        store = None if isinstance(edits, Edit | Sequence) else edits
        gate = gate or open_gate(store)
        encoder = encoder or encoder_of(gate)

        self.model = model
        self.editor = editor
        self.gate = gate
        self._live: LiveEdits | None = None
        self._index = EditIndex()
        if isinstance(edits, Edit | Sequence):
            self._index = _fixed_index(edits, gate, encoder)
        else:
            self._live = LiveEdits(edits, gate, encoder_of_gate=lambda gate: encoder)

    @property
    def index(self) -> EditIndex:
        """The edits in force now that apply to the model by its name.

        While the store cannot be read, they are those read last. Raises StoreError at first.
        """
        if self._live is None:
            return self._index
        return self._live.latest().view.index.applying({"model": self.model.info.name})

    def decide(self, query: str) -> Decision:
        """Which edits a query concerns."""
        [decision] = self._decide_each([query])
        return decision

    def _decide_each(self, queries: Sequence[str]) -> list[Decision]:
        return route_each(self.gate, self.index, queries)

    def prompt(self, query: str) -> Prompt:
        """Everything the model is given for a query."""
        [prompt] = write_prompts(self.editor, [self.decide(query)])
        return prompt

    def ask(self, query: str, *, max_tokens: int = ANSWER_TOKENS) -> str:
        """The model's answer under the edits: the first line it writes."""
        [text] = complete(self.model, [self.prompt(query)], max_tokens)
        return first_line(text)

    def before_after(self, queries: Sequence[str]) -> list[BeforeAfter]:
        """The answers of the model as it is and under the edits, all in one call.

        Equal prompts are asked once.
        """
        decisions = self._decide_each(queries)
        plain = [Prompt(query) for query in queries]
        edited = write_prompts(self.editor, decisions)

        distinct: dict[Prompt, None] = {}
        for pair in zip(plain, edited, strict=True):
            distinct.update(dict.fromkeys(pair))
        texts = complete(self.model, list(distinct))
        answers = {prompt: first_line(text) for prompt, text in zip(distinct, texts, strict=True)}

        return [
            BeforeAfter(decision, before=answers[before], after=answers[after])
            for decision, before, after in zip(decisions, plain, edited, strict=True)
        ]

    def explain(self, query: str) -> Explanation:
        """The answer, and why its prompt looks as it does."""
        decision = self.decide(query)
        column = self._column(query, decision)
        [written] = write_answers(self.model, [column.prompt])
        answer = first_line(written.answer or "")
        return Explanation(query, decision, answer, written.prompt_tokens, column)

    def _column(self, query: str, decision: Decision) -> EditorColumn:
        """The prompt, with the retains that it was chosen from if the editor ranks them."""
        editor = self.editor
        if not decision.edits or not ranks_retains(editor):
            [prompt] = write_prompts(editor, [decision])
            return EditorColumn(editor.name, prompt)
        [selection] = editor.select(decision.edits, [query])
        fitted = editor.fit(selection, [query])
        [prompt] = editor.show(fitted, [query])
        return column_of(editor, fitted, prompt)


def _fixed_index(
    edits: Edit | Sequence[Edit], gate: Gate, encoder: TextEncoder | None
) -> EditIndex:
    """The index of edits that do not come from a store.

    Raises ValueError for no edits, and for one without a subject that the gate needs.
    """
    listed = [edits] if isinstance(edits, Edit) else list(edits)
    if not listed:
        raise ValueError("an edited model needs at least one edit")
    latest_by_query = {edit.query: edit for edit in listed}
    for edit in latest_by_query.values():
        if not edit.subject and not isinstance(gate, EveryQuery):
            raise ValueError(
                f"the edit {edit.fact!r} has no subject that a query could name: "
                "give it one, or put every query under the edits (gate=EveryQuery())"
            )
    return EditIndex.of(as_stored(list(latest_by_query.values())), encoder)
