"""Ask a language model where a gate is in doubt: one question, answered with yes or no, for each doubtful candidate."""

from __future__ import annotations

import re
from collections.abc import Sequence

from drike.errors import UsageError
from drike.evaluation.completion import complete
from drike.gates.by_name import EveryQuery, Named
from drike.gates.decision import Decision, Gate, YesOrNo
from drike.gates.index import EditIndex
from drike.gates.nearest import Nearest
from drike.models.protocols import LanguageModel
from drike.prompts import YES_OR_NO, Prompt

_ANSWER = re.compile(r"\s*(?:<think>.*?</think>)?\W*(yes|no)\b", re.IGNORECASE | re.DOTALL)


def questions(decision: Decision) -> list[str]:
    """What a language model is asked about each of the doubtful candidates: a prompt, and also a user's message."""
    return [question(decision.query, one.edit.record.query) for one in decision.uncertain]


def question(text: str, query: str) -> str:
    """Whether a text asks for what a query asks for."""
    return (
        f'{YES_OR_NO}does a correct answer to the text below also complete or answer "{query}"?\nText: {text}\nAnswer:'
    )


def answer_of(text: str) -> YesOrNo:
    """What a model said: it begins with yes or no, behind its thoughts, if it shows them."""
    found = _ANSWER.match(text)
    return YesOrNo(found[1].casefold()) if found else YesOrNo.FAILED


def decided(gate: Gate, queries: Sequence[str], index: EditIndex, model: LanguageModel | None = None) -> list[Decision]:
    """What a gate decides about each query. model: is asked about all doubtful candidates, in one call."""
    found = [gate.decide(query, index) for query in queries]
    return found if model is None else resolved(found, model)


def resolved(decisions: Sequence[Decision], model: LanguageModel) -> list[Decision]:
    """The decisions once a model has been asked about all doubtful candidates, in one call."""
    asked = [Prompt(text) for decision in decisions for text in questions(decision)]
    answers = iter([answer_of(text) for text in complete(model, asked)] if asked else ())
    return [one.resolved([next(answers) for _ in one.uncertain]) if one.uncertain else one for one in decisions]


def require_doubt(gate: Gate, remedy: str) -> None:
    """Refuse a gate that is never in doubt, so that there would be nothing to ask. Raises UsageError."""
    if isinstance(gate, Named | Nearest | EveryQuery):
        raise UsageError(f"the gate {type(gate).__name__} is never in doubt, so that no model can be asked: {remedy}")
