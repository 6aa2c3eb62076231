"""Check stored edits on a model: that each takes on its own wordings, and leaves other questions alone."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from drike.deployment.edited_model import BeforeAfter, EditedModel
from drike.deployment.routing import route_each
from drike.encoders import TextEncoder
from drike.gates.calibration import written
from drike.gates.decision import Gate, YesOrNo
from drike.gates.index import EditIndex
from drike.gates.questions import common_questions
from drike.gates.verification import verify
from drike.matching import matches
from drike.models.protocols import LanguageModel
from drike.stores.records import EditVersion
from drike.support.table import Table

UNRELATED, NEGATIVE = "unrelated", "negative"
_STEP = 25  # of the common questions, every 25th is asked


@dataclass(frozen=True)
class Check:
    """A question about an edit (None for an unrelated one), its answers, and what is wrong ("" where nothing is).

    kind: query, wording, alias, negative or unrelated.
    """

    edit: EditVersion | None
    kind: str
    answers: BeforeAfter
    problem: str

    @property
    def failed(self) -> bool:
        """Whether the edit does not take on its own wording, or fires on its negative exemplar."""
        return bool(self.problem) and self.kind != UNRELATED


def check(edited: EditedModel, edits: Sequence[EditVersion]) -> list[Check]:
    """Ask about each edit its query, wordings, aliases and negative exemplars, and a few common questions."""
    asked = [(edit, kind, query) for edit in edits for kind, query in questions(edit)]
    unrelated = common_questions()[::_STEP]
    answers = edited.before_after([*(query for _, _, query in asked), *unrelated])
    found = [
        Check(edit, kind, one, _problem(edit, kind, one)) for (edit, kind, _), one in zip(asked, answers, strict=False)
    ]
    return found + [
        Check(None, UNRELATED, one, "an edit fires" if one.decision.matched else "") for one in answers[len(asked) :]
    ]


def questions(edit: EditVersion) -> Iterator[tuple[str, str]]:
    """The questions about an edit with their kinds; those of aliases are its query with the alias for the subject."""
    entry = edit.record
    yield "query", entry.query
    yield from (("wording", text) for text in entry.paraphrases)
    for alias in entry.aliases:
        text = entry.query_with(alias)
        if text not in (entry.query, *entry.paraphrases):
            yield "alias", text
    yield from ((NEGATIVE, text) for text in entry.negatives)


def doubts(gate: Gate, edits: Sequence[EditVersion], encoder: TextEncoder | None, model: LanguageModel) -> Table:
    """What a model's yes or no changes, on texts written with the edits, which are asked as if they were not stored."""
    bare, probes = written(edits)
    before = route_each(gate, EditIndex.of(bare, encoder), [probe.query for probe in probes])
    after = verify(before, model)
    rows = []
    for kind, concerns in (("should fire", True), ("must not fire", False)):
        some = [(one.edit, b, a) for one, b, a in zip(probes, before, after, strict=True) if one.concerns is concerns]
        said = Counter(one.answer for edit, _, asked in some for one in asked.uncertain if one.edit.id == edit)
        fire, then = (sum(edit in {one.id for one in d[i].matched} for edit, *d in some) for i in (0, 1))
        counts = (len(some), fire, said.total(), *(said[answer] for answer in YesOrNo), then)
        rows.append((kind, *map(str, counts)))
    header = ("its edit", "texts", "fires", "in doubt", *(f"model: {answer}" for answer in YesOrNo), "fires then")
    title = (
        "The model's yes or no, on wordings, negative exemplars and the subject's other edits as if none were stored"
    )
    return Table(title, header, tuple(rows))


def _problem(edit: EditVersion, kind: str, answers: BeforeAfter) -> str:
    fires = edit in answers.decision.matched
    if kind == NEGATIVE:
        return "the edit fires" if fires else ""
    if not fires:
        return "the edit does not fire"
    return "" if matches(answers.after, edit.record.target_new) else f"not {edit.record.target_new}"
