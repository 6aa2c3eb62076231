"""Routing: which edits a question gets, and the prompt that states them, in evaluation as in the gateway."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

from drike.editors.catalog import Editor
from drike.edits import Edit
from drike.gates.decision import Decision, Gate
from drike.gates.index import EditIndex
from drike.gates.policy import applied
from drike.gates.verification import verify
from drike.models.protocols import LanguageModel
from drike.prompts import Prompt
from drike.stores.records import Status


def route(gate: Gate, index: EditIndex, queries: Iterable[str], *, verifying: bool = False) -> Decision:
    """The decision on a question, which may be read in several ways: the last turn of a chat, then it with context.

    * The first query that concerns an active edit decides, and the names that it uses for `Decision.edits`.
    * verifying: so does one with an uncertain active edit, since a model will be asked about it. If the model then says
      no, the question gets no edit, even if a later query would match.
    * Else the first that concerns a shadow edit decides, so that it is counted, or the first query: shadow edits change
      no answer.

    queries: at least one. The function is as pure as the gate.
    """
    decisions = []
    for query in queries:
        decision = gate.decide(query, index)
        statuses = {edit.record.status for edit in decision.matched}
        if verifying:
            statuses |= {candidate.edit.record.status for candidate in decision.uncertain}
        if Status.ACTIVE in statuses:
            return decision
        decisions.append((bool(statuses), decision))
    return next((decision for concerns, decision in decisions if concerns), decisions[0][1])


def route_each(
    gate: Gate, index: EditIndex, questions: Sequence[str], model: LanguageModel | None = None
) -> list[Decision]:
    """The decision on each question, of one query each. model: is asked about all uncertain edits, in one call."""
    decisions = [route(gate, index, [question], verifying=model is not None) for question in questions]
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
