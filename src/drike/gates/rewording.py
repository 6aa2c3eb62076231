"""Wordings for stored edits, proposed by a language model; what can be checked of them is checked."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

from drike.edits import mentions
from drike.evaluation.completion import complete
from drike.gates.decision import YesOrNo
from drike.gates.names import masked
from drike.gates.relations import answer_kind, contrary
from drike.gates.verification import answer_of, question
from drike.matching import normalise
from drike.models.protocols import LanguageModel
from drike.prompts import REWRITE, Prompt
from drike.stores.records import EditRecord, conflict_keys

_TOKENS = 40  # of one wording
_THOUGHTS = re.compile(r"<think>.*?(?:</think>|$)", re.DOTALL)
_MARK = re.compile(r"^\s*(?:[-*\u2022]|\(?\d+[.):])\s+")  # of an item of a list
_QUOTES = "\"'\u201c\u201d\u2018\u2019 \t"


@dataclass(frozen=True)
class Proposal:
    """A wording that a model proposes, and why it is not to be stored ("" where it may be)."""

    text: str
    problem: str = ""


def proposals(
    model: LanguageModel, entries: Sequence[EditRecord], count: int, taken: Collection[str] = ()
) -> list[list[Proposal]]:
    """Up to `count` other wordings of each entry's query, those that pass the checks first.

    The model writes them, in one call for all entries. It is then asked about those that pass the other checks whether
    they ask for the same, in another call; only a no counts. No two entries get the same wording.

    taken: `claims` of all edits in force.
    """
    prompts = [_prompt(entry, count) for entry in entries]
    written = model.generate(prompts, _TOKENS * count, None) if prompts else []
    known, found = set(taken), []
    for one, entry in zip(written, entries, strict=True):
        some = _read(one.text, entry, count, known)
        known |= conflict_keys(replace(entry, paraphrases=tuple(each.text for each in some if not each.problem)))
        found.append(some)
    places = [(i, j) for i, some in enumerate(found) for j, one in enumerate(some) if not one.problem]
    asked = [Prompt(question(found[i][j].text, entries[i].query)) for i, j in places]
    for (i, j), answer in zip(places, complete(model, asked), strict=True):
        if answer_of(answer) is YesOrNo.NO:
            found[i][j] = replace(found[i][j], problem="asks for something else, says the model")
    return [sorted(some, key=lambda one: bool(one.problem)) for some in found]


def _prompt(entry: EditRecord, count: int) -> str:
    return (
        f"{REWRITE}in {count} different ways, one a line: questions, and sentences to be completed. Each must "
        f"name {entry.subject} and ask for the same fact, without the answer.\nText: {entry.query}\nRewritten:\n"
    )


def _read(text: str, entry: EditRecord, count: int, taken: Collection[str]) -> list[Proposal]:
    """The lines that a model wrote, each once and with its problem."""
    lines = (_MARK.sub("", line).strip(_QUOTES) for line in _THOUGHTS.sub("", text).splitlines())
    found = list(dict.fromkeys(line for line in lines if line))[:count]
    return [Proposal(line, _problem(line, entry, taken)) for line in found]


def _problem(text: str, entry: EditRecord, taken: Collection[str]) -> str:
    if not any(mentions(text, name) for name in entry.names):
        return f"does not name {entry.subject}"
    if normalise(text) in map(normalise, (entry.query, *entry.paraphrases, *entry.negatives)):
        return "is known already"
    for answer in filter(None, (entry.target_new, entry.target_true)):
        if mentions(text, answer) and not mentions(entry.query, answer):
            return f"gives the answer {answer}"
    new, known = (masked(one, entry.names) for one in (text, entry.query))
    kinds = answer_kind(new), answer_kind(known)
    if contrary(new, known) or (all(kinds) and kinds[0] != kinds[1]):
        return "asks for something else"
    own = conflict_keys(replace(entry, paraphrases=(text,))) - conflict_keys(entry)
    return "asks what another edit answers" if own.intersection(taken) else ""
