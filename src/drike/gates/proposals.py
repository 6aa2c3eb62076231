"""Paraphrases that a language model proposes for edits, checked before anyone stores them."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from itertools import islice

from drike.answers.matching import normalise
from drike.answers.thoughts import without_thoughts
from drike.edits.conflicts import conflict_keys
from drike.edits.record import EditRecord
from drike.gates.confirmation import answer_of, question
from drike.gates.decision import YesOrNo
from drike.gates.relations import relation_features
from drike.models.answers import complete
from drike.models.protocols import LanguageModel
from drike.prompts import REWRITE, Prompt
from drike.text.words import masked, mentions

_TOKENS = 40  # of a paraphrase
_LIST_MARK = re.compile(r"^\s*(?:[-*\u2022]|\(?\d+[.):])\s+")  # of an item of a list
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

    The model writes them in one call, and in another says whether those that pass the other checks
    ask for the same; only a no counts. No two records get the same paraphrase. taken:
    `conflict_keys` of all edits in force.
    """
    prompts = [_writing_prompt(record, count) for record in records]
    completions = model.generate(prompts, _TOKENS * count, None) if prompts else []

    keys_taken = set(taken)
    proposals_by_record = []
    for completion, record in zip(completions, records, strict=True):
        proposed = [
            Proposal(text, _problem(text, record, keys_taken))
            for text in islice(_different_lines(completion.text), count)
        ]
        proposals_by_record.append(proposed)
        good = tuple(proposal.text for proposal in proposed if not proposal.problem)
        keys_taken |= conflict_keys(replace(record, paraphrases=good))

    checked = _without_other_questions(model, records, proposals_by_record)
    return [sorted(proposed, key=lambda one: bool(one.problem)) for proposed in checked]


def _writing_prompt(record: EditRecord, count: int) -> str:
    return (
        f"{REWRITE}in {count} different ways, one a line: questions, and sentences to be completed."
        f" Each must name {record.subject} and ask for the same fact, without the answer.\n"
        f"Text: {record.query}\nRewritten:\n"
    )


def _different_lines(text: str) -> list[str]:
    """The lines of what a model wrote, without its thoughts, marks of lists and quotes."""
    written = without_thoughts(text).splitlines()
    lines = [_LIST_MARK.sub("", line).strip(_QUOTES) for line in written]
    return [line for line in dict.fromkeys(lines) if line]


def _without_other_questions(
    model: LanguageModel, records: Sequence[EditRecord], proposals: Sequence[Sequence[Proposal]]
) -> list[list[Proposal]]:
    """The proposals once the model has said whether those without a problem ask for the same."""
    prompts = [
        Prompt(question(proposal.text, record.query))
        for record, proposed in zip(records, proposals, strict=True)
        for proposal in proposed
        if not proposal.problem
    ]
    answers = iter([answer_of(text) for text in complete(model, prompts)])

    checked = []
    for proposed in proposals:
        checked_of_record = []
        for proposal in proposed:
            if not proposal.problem and next(answers) is YesOrNo.NO:
                problem = "asks for something else, says the model"
                checked_of_record.append(replace(proposal, problem=problem))
            else:
                checked_of_record.append(proposal)
        checked.append(checked_of_record)
    return checked


def _problem(text: str, record: EditRecord, taken: Collection[str]) -> str:
    """Why a paraphrase is not to be stored, "" where it may be, by its words."""
    if not any(mentions(text, name) for name in record.names):
        return f"does not name {record.subject}"

    stored_texts = (record.query, *record.paraphrases, *record.negatives)
    if normalise(text) in map(normalise, stored_texts):
        return "is known already"

    for answer in (record.target_new, record.target_true):
        if answer and mentions(text, answer) and not mentions(record.query, answer):
            return f"gives the answer {answer}"

    features = relation_features(masked(text, record.names), masked(record.query, record.names))
    if features["contrary"] or features["other_kind"]:
        return "asks for something else"

    new_keys = conflict_keys(replace(record, paraphrases=(text,))) - conflict_keys(record)
    return "asks what another edit answers" if new_keys.intersection(taken) else ""
