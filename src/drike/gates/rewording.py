"""Paraphrases for stored edits, proposed by a language model and checked."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from drike.evaluation.judge import complete
from drike.gates.decision import YesOrNo
from drike.gates.relations import answer_kind, contrary
from drike.gates.verification import answer_of, question
from drike.matching import normalise
from drike.models.protocols import LanguageModel
from drike.prompts import REWRITE, Prompt
from drike.stores.records import EditRecord, conflict_keys
from drike.words import masked, mentions

_TOKENS = 40  # of a paraphrase
_THOUGHTS = re.compile(r"<think>.*?(?:</think>|$)", re.DOTALL)
_MARK = re.compile(r"^\s*(?:[-*\u2022]|\(?\d+[.):])\s+")  # of an item of a list
_QUOTES = "\"'\u201c\u201d\u2018\u2019 \t"


@dataclass(frozen=True)
class Proposal:
    """A paraphrase that a model proposes, and why it is not to be stored ("" where it may be)."""

    text: str
    problem: str = ""


def proposals(
    model: LanguageModel, records: Sequence[EditRecord], count: int, taken: Collection[str] = ()
) -> list[list[Proposal]]:
    """Up to `count` paraphrases of each record's query, those that pass the checks first.

    The model writes them, in one call for all records. In another call it is asked about those that pass the other
    checks whether they ask for the same; only a no counts. No two records get the same paraphrase.

    taken: `conflict_keys` of all edits in force.
    """
    prompts = [_prompt(record, count) for record in records]
    completions = model.generate(prompts, _TOKENS * count, None) if prompts else []
    known, proposed = set(taken), []
    for completion, record in zip(completions, records, strict=True):
        proposed.append(_read(completion.text, record, count, known))
        good = tuple(proposal.text for proposal in proposed[-1] if not proposal.problem)
        known |= conflict_keys(replace(record, paraphrases=good))
    places = [(i, j) for i, own in enumerate(proposed) for j, proposal in enumerate(own) if not proposal.problem]
    questions = [Prompt(question(proposed[i][j].text, records[i].query)) for i, j in places]
    for (i, j), answer in zip(places, complete(model, questions), strict=True):
        if answer_of(answer) is YesOrNo.NO:
            proposed[i][j] = replace(proposed[i][j], problem="asks for something else, says the model")
    return [sorted(own, key=lambda proposal: bool(proposal.problem)) for own in proposed]


def _prompt(record: EditRecord, count: int) -> str:
    return (
        f"{REWRITE}in {count} different ways, one a line: questions, and sentences to be completed. Each must "
        f"name {record.subject} and ask for the same fact, without the answer.\nText: {record.query}\nRewritten:\n"
    )


def _read(text: str, record: EditRecord, count: int, taken: Collection[str]) -> list[Proposal]:
    """The lines that a model wrote, without repeats, each with its problem."""
    lines = (_MARK.sub("", line).strip(_QUOTES) for line in _THOUGHTS.sub("", text).splitlines())
    different = list(dict.fromkeys(line for line in lines if line))[:count]
    return [Proposal(line, _problem(line, record, taken)) for line in different]


def _problem(text: str, record: EditRecord, taken: Collection[str]) -> str:
    if not any(mentions(text, name) for name in record.names):
        return f"does not name {record.subject}"
    if normalise(text) in map(normalise, (record.query, *record.paraphrases, *record.negatives)):
        return "is known already"
    for answer in filter(None, (record.target_new, record.target_true)):
        if mentions(text, answer) and not mentions(record.query, answer):
            return f"gives the answer {answer}"
    new, known = masked(text, record.names), masked(record.query, record.names)
    kinds = answer_kind(new), answer_kind(known)
    if contrary(new, known) or (all(kinds) and kinds[0] != kinds[1]):
        return "asks for something else"
    own = conflict_keys(replace(record, paraphrases=(text,))) - conflict_keys(record)
    return "asks what another edit answers" if own.intersection(taken) else ""
