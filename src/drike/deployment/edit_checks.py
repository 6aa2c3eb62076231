"""Check stored edits on a model: that each takes on its own paraphrases, and leaves other questions alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from drike.deployment.edited_model import BeforeAfter, EditedModel
from drike.deployment.routing import route_each
from drike.encoders import TextEncoder
from drike.gates.calibration import common_questions, make_probes
from drike.gates.decision import Gate, YesOrNo
from drike.gates.index import EditIndex
from drike.gates.verification import verify
from drike.matching import matches
from drike.models.protocols import LanguageModel
from drike.stores.records import EditVersion
from drike.support.table import Table

UNRELATED, NEGATIVE = "unrelated", "negative"
_STEP = 25  # of the common questions, every 25th is asked


@dataclass(frozen=True)
class Check:
    """A question about an edit (None: an unrelated one) with its kind, its answers, and what is wrong, or ""."""

    edit: EditVersion | None
    kind: str
    answers: BeforeAfter
    problem: str

    @property
    def failed(self) -> bool:
        """Whether the edit does not take on its own paraphrase, or matches its negative exemplar."""
        return bool(self.problem) and self.kind != UNRELATED


def check(edited: EditedModel, edits: Sequence[EditVersion]) -> list[Check]:
    """Ask about each edit its query, paraphrases, aliases and negative exemplars, and a few common questions."""
    asked: list[tuple[EditVersion | None, str, str]] = [(edit, *asking) for edit in edits for asking in questions(edit)]
    asked += [(None, UNRELATED, query) for query in common_questions()[::_STEP]]
    answers = edited.before_after([query for _, _, query in asked])
    pairs = zip(asked, answers, strict=True)
    return [Check(edit, kind, both, _problem(edit, kind, both)) for (edit, kind, _), both in pairs]


def questions(edit: EditVersion) -> Iterator[tuple[str, str]]:
    """The questions about an edit with their kinds; those of aliases are its query with the alias for the subject."""
    record = edit.record
    yield "query", record.query
    yield from (("wording", text) for text in record.paraphrases)
    for alias in record.aliases:
        text = record.query_with(alias)
        if text not in (record.query, *record.paraphrases):
            yield "alias", text
    yield from ((NEGATIVE, text) for text in record.negatives)


def verification_table(
    gate: Gate, edits: Sequence[EditVersion], encoder: TextEncoder | None, model: LanguageModel
) -> Table:
    """What verification by a model changes, on the paraphrases and negative exemplars as if none were stored."""
    bare, probes = make_probes(edits)
    before = route_each(gate, EditIndex.of(bare, encoder), [probe.query for probe in probes])
    after = verify(before, model)
    rows = []
    for kind, concerns in (("should fire", True), ("must not fire", False)):
        places = [i for i, probe in enumerate(probes) if probe.concerns is concerns]
        answers = Counter(c.answer for i in places for c in after[i].uncertain if c.edit.id == probes[i].edit)
        matches_before, matches_after = (
            sum(any(edit.id == probes[i].edit for edit in decisions[i].matched) for i in places)
            for decisions in (before, after)
        )
        counts = (len(places), matches_before, answers.total(), *(answers[answer] for answer in YesOrNo), matches_after)
        rows.append((kind, *map(str, counts)))
    header = ("its edit", "texts", "fires", "in doubt", *(f"model: {answer}" for answer in YesOrNo), "fires then")
    title = (
        "The model's yes or no, on wordings, negative exemplars and the subject's other edits as if none were stored"
    )
    return Table(title, header, tuple(rows))


def _problem(edit: EditVersion | None, kind: str, answers: BeforeAfter) -> str:
    if edit is None:
        return "an edit fires" if answers.decision.matched else ""
    fires = edit in answers.decision.matched
    if kind == NEGATIVE:
        return "the edit fires" if fires else ""
    if not fires:
        return "the edit does not fire"
    return "" if matches(answers.after, edit.record.target_new) else f"not {edit.record.target_new}"
