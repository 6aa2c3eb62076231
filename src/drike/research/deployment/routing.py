"""Which edits a question gets, and the prompt that states them."""

from collections import defaultdict
from collections.abc import Sequence

from drike.edits.edit import Edit
from drike.gates.decision import Decision, Gate
from drike.gates.index import EditIndex
from drike.prompts import Prompt
from drike.research.editors.editor import Editor
from drike.research.editors.query_policy import applied


def route_each(gate: Gate, index: EditIndex, questions: Sequence[str]) -> list[Decision]:
    """The decision on each question."""
    return [gate.decide(question, index) for question in questions]


def write_prompts(editor: Editor, decisions: Sequence[Decision]) -> list[Prompt]:
    """A prompt for each decision: the query as it is, or under its edits.

    Queries under the same edits share one call of the editor.
    """
    editor = applied(editor)
    queries_by_edits: dict[tuple[Edit, ...], dict[str, None]] = defaultdict(dict)
    for decision in decisions:
        queries_by_edits[decision.edits][decision.query] = None

    written: dict[tuple[tuple[Edit, ...], str], Prompt] = {}
    for edits, distinct_queries in queries_by_edits.items():
        queries = list(distinct_queries)
        prompts = _prompts_under(editor, edits, queries)
        for query, prompt in zip(queries, prompts, strict=True):
            written[edits, query] = prompt
    return [written[decision.edits, decision.query] for decision in decisions]


def _prompts_under(editor: Editor, edits: Sequence[Edit], queries: Sequence[str]) -> list[Prompt]:
    """A prompt for each query under the same edits; the query itself under none."""
    if not edits:
        return [Prompt(query) for query in queries]
    return editor.prompts(edits, queries)
