"""One edit under several editors: what each shows, what the model then says, and the effect of each retain.

The effect of a retain is measured by removing it, if it was kept, or adding it, if it was cut: how that changes the
log-probability of each probe's target, and whether the answer is right. The paper (section 5.4) shows prompts alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from drike.demonstrations import Demonstration
from drike.editors.budgets import Fraction
from drike.editors.in_context import InContextEditor
from drike.editors.selectors import RankAndCut, Selection
from drike.edits import Aspect, EditCase
from drike.evaluation.completion import complete
from drike.evaluation.judge import Judge, Question, Verdict
from drike.matching import first_line
from drike.models.protocols import LanguageModel
from drike.prompts import Prompt
from drike.support.table import Cell, Noted, Table

RIGHT, WRONG = "\N{CHECK MARK}", "\N{BALLOT X}"
_SHORT = {Aspect.REWRITE: "rewrite", Aspect.PARAPHRASE: "paraphr.", Aspect.NEIGHBORHOOD: "neighb."}
_NOTES = (
    "near: rank by similarity. rewrite, paraphr., neighb.: how much this retain changes the log-probability of the "
    "right answer (nats, mean over the probes), measured by removing a kept retain or adding a cut one.",
    "pruned: chosen, but dropped to respect --prompt-tokens. flips: how many rewrite (r), paraphrase (p) and "
    "neighbourhood (n) probes are right only with this retain (+) or only without it (-).",
)


@dataclass(frozen=True)
class ModelAnswer:
    """The model's answer to a probe under a prompt. logprob: of the probe's target, in nats; None without scores."""

    text: str
    correct: bool
    logprob: float | None

    @property
    def cell(self) -> Cell:
        """Whether it is right, the text, and the log-probability, for a table."""
        answer = f"{RIGHT if self.correct else WRONG} {self.text or '(nothing)'}"
        return answer if self.logprob is None else Noted(answer, f"[{self.logprob:.2f}]")


@dataclass(frozen=True)
class Effect:
    """The effect of one retain in the prompt on each probe: with it minus without it.

    nats: change of the target's log-probability, None without scores. gained, lost: probes right only with, without it.
    """

    nats: tuple[float | None, ...]
    gained: tuple[bool, ...]
    lost: tuple[bool, ...]


@dataclass(frozen=True)
class Retain:
    """A retain of the pool: `rank` is the editor's, `nearness` the rank by similarity, both from 1.

    effect: None if it was not measured: in an explanation, or if it would not fit into the prompt.
    """

    rank: int
    nearness: int
    probability: float
    similarity: float
    kept: bool
    demonstration: Demonstration
    effect: Effect | None = None

    @property
    def text(self) -> str:
        """The question and its answer, on one line."""
        return f"{self.demonstration.query} {self.demonstration.answer}"


@dataclass(frozen=True)
class EditorColumn:
    """One editor's part of a case study, or of an explanation, which measures no effects.

    prompt: of the edit's own query. answers: to the case's probes. sigma, share: of its budget; None if it has none.
    """

    editor: str
    prompt: Prompt
    answers: tuple[ModelAnswer, ...]
    retains: tuple[Retain, ...]
    sigma: float | None
    share: float | None

    def table(self, aspects: Sequence[Aspect] = ()) -> Table:
        """Its retains in the editor's order: kept, pruned or cut, and if measured their effects on the aspects."""
        kept = sum(retain.kept for retain in self.retains)
        shown = kept + self.prompt.pruned
        present = [aspect for aspect in Aspect if aspect in aspects]
        rows = tuple(
            (
                retain.text,
                "kept" if retain.kept else "pruned" if retain.rank <= shown else "cut",
                str(retain.rank),
                str(retain.nearness),
                f"{retain.probability:.4f}",
                *(
                    [*(_mean(retain.effect, aspect, aspects) for aspect in present), _flips(retain.effect, aspects)]
                    if aspects
                    else [f"{retain.similarity:.3f}"]
                ),
            )
            for retain in self.retains
        )
        measured = (*(_SHORT[aspect] for aspect in present), "flips") if aspects else ("cosine",)
        title = f"{self.editor}: {kept} of {len(self.retains)} retains{self._rule(shown)}"
        return Table(title, ("retain", "", "rank", "near", "p", *measured), rows, _NOTES if aspects else ())

    def _rule(self, shown: int) -> str:
        if self.share is not None:
            return f", a fixed share of {self.share:.0%}"
        if self.sigma is None:
            return ""
        above = sum(retain.probability > self.sigma for retain in self.retains)
        note = f" (at most {shown})" if above > shown else ""
        if not above:
            note = " (none exceeds it, so the best one is kept)"
        return f", kept where p > sigma = {self.sigma:.4f}{note}"


def column_of(editor: InContextEditor[RankAndCut], selection: Selection, prompt: Prompt) -> EditorColumn:
    """An editor's column without answers and effects."""
    similarities, ranking, budget = selection.candidates.retain_similarities, selection.ranking, editor.selector.budget
    assert ranking is not None  # noqa: S101 - the selector ranks
    ranked = enumerate(zip(ranking.order, ranking.retains, ranking.probs, strict=True))
    retains = tuple(Retain(j + 1, i + 1, p, similarities[i], j < selection.k, retain) for j, (i, retain, p) in ranked)
    sigma = budget.sigma_for(ranking.probs, selection.candidates)
    share = budget.share if isinstance(budget, Fraction) else None
    return EditorColumn(editor.name, prompt, (), retains, sigma, share)


@dataclass(frozen=True)
class CaseStudy:
    """A case, and the model's answers to its probes without an edit and under each editor."""

    model: str
    case: EditCase
    before: tuple[ModelAnswer, ...]
    columns: tuple[EditorColumn, ...]

    @property
    def aspects(self) -> tuple[Aspect, ...]:
        """The aspect of each probe."""
        return tuple(probe.aspect for probe in self.case.probes)

    @property
    def title(self) -> str:
        """The case and its edits."""
        edits = (
            f"{edit.query} -> {edit.target_new}" + ("" if edit.target_true is None else f" (was {edit.target_true})")
            for edit in self.case.edits
        )
        return f"Case {self.case.case_id}: {'; '.join(edits)}"

    def tables(self) -> Iterator[Table]:
        """The answers, then the retains of every editor."""
        columns = (self.before, *(column.answers for column in self.columns))
        by_probe = zip(self.case.probes, zip(*columns, strict=True), strict=True)
        rows = tuple((p.query, p.aspect.value, p.target, *(of.cell for of in answers)) for p, answers in by_probe)
        header = ("query", "aspect", "right answer", "before", *(column.editor for column in self.columns))
        note = f"{RIGHT} right, {WRONG} wrong; in brackets: log-probability of the right answer, in nats."
        yield Table(f"Answers of {self.model}", header, rows, (note,), wide=True)
        yield from (column.table(self.aspects) for column in self.columns)


def study_case(model: LanguageModel, case: EditCase, editors: Sequence[InContextEditor[RankAndCut]]) -> CaseStudy:
    """Ask a case's probes without an edit, under each editor, and with each retain removed or added.

    (1 + editors x (1 + n)) x probes prompts, n being the pool's size, in one call; a model that scores writes the
    answers under the unchanged prompts in a second one.
    """
    queries = [probe.query for probe in case.probes]
    selections = [editor.fit(editor.select(case.edits, queries)[0], queries) for editor in editors]
    chosen = list(zip(editors, selections, strict=True))
    tried = [[[Prompt(query) for query in queries]]]
    tried += [list(_versions(editor, selection, queries)) for editor, selection in chosen]
    questions = [
        Question(prompt, probe.target)
        for versions in tried
        for prompts in versions
        for prompt, probe in zip(prompts, case.probes if prompts else (), strict=True)
    ]
    verdicts = iter(Judge(model).ask(questions))
    judged = [[[next(verdicts) for _ in prompts] for prompts in versions] for versions in tried]
    before, *after = _answers(model, [versions[0] for versions in tried], [versions[0] for versions in judged])
    columns = []
    for (editor, selection), versions, (base, *rest), answers in zip(chosen, tried[1:], judged[1:], after, strict=True):
        column = column_of(editor, selection, versions[0][0])
        tried_without = zip(column.retains, rest, strict=True)
        retains = tuple(replace(r, effect=_effect(base, c) if r.kept else _effect(c, base)) for r, c in tried_without)
        columns.append(replace(column, answers=answers, retains=retains))
    return CaseStudy(model.info.name, case, before, tuple(columns))


def _versions(
    editor: InContextEditor[RankAndCut], selection: Selection, queries: Sequence[str]
) -> Iterator[list[Prompt]]:
    """The unchanged prompts, then a version for each ranked retain; none if it would not fit.

    A kept retain is left out. A cut one is put where the style would show it. Everything else stays in its place, so
    that an effect is that of the retain alone.
    """
    yield editor.show(selection, queries)
    candidates, style, kept = selection.candidates, editor.style, selection.kept
    shown = style.arrange(candidates, kept)
    for j, retain in enumerate(selection.ranking.retains if selection.ranking else ()):
        if j < selection.k:
            yield style.write(candidates.edits, [d for d in shown if d != retain], queries)
        else:
            at = style.arrange(candidates, [*kept, retain]).index(retain)
            made = style.write(candidates.edits, [*shown[:at], retain, *shown[at:]], queries)
            limit = editor.limit
            fits = limit is None or max(limit.count([prompt.text for prompt in made])) <= limit.tokens
            yield made if fits else []


def _answers(
    model: LanguageModel, versions: Sequence[Sequence[Prompt]], judged: Sequence[Sequence[Verdict]]
) -> list[tuple[ModelAnswer, ...]]:
    """The verdicts with the text of the answers, which a model that scores has yet to write."""
    texts = [verdict.text for verdicts in judged for verdict in verdicts]
    if any(text is None for text in texts):
        texts = list(complete(model, [prompt for prompts in versions for prompt in prompts]))
    written = iter(texts)

    def answer(verdict: Verdict) -> ModelAnswer:
        logprob = None if verdict.score is None else verdict.score.logprob
        return ModelAnswer(first_line(next(written) or ""), bool(verdict.correct), logprob)

    return [tuple(map(answer, verdicts)) for verdicts in judged]


def _effect(having: Sequence[Verdict], lacking: Sequence[Verdict]) -> Effect | None:
    """The effect of a retain by the verdicts with and without it; None if the retain would not fit."""
    if not having:
        return None
    pairs = list(zip(having, lacking, strict=True))
    return Effect(
        nats=tuple(a.score.logprob - b.score.logprob if a.score and b.score else None for a, b in pairs),
        gained=tuple(bool(a.correct and not b.correct) for a, b in pairs),
        lost=tuple(bool(b.correct and not a.correct) for a, b in pairs),
    )


def _mean(effect: Effect | None, aspect: Aspect, aspects: Sequence[Aspect]) -> str:
    """The mean change over the probes of an aspect; "n/a" where it was not measured."""
    changes = zip(effect.nats, aspects, strict=True) if effect else ()
    nats = [change for change, of in changes if of is aspect and change is not None]
    return f"{sum(nats) / len(nats):+.2f}" if nats else "n/a"


def _flips(effect: Effect | None, aspects: Sequence[Aspect]) -> str:
    """Count the probes of each aspect that a retain turns right or wrong."""
    if effect is None:
        return "n/a"
    counts = [
        f"{sign}{count}{aspect.value[0]}"
        for sign, flipped in (("+", effect.gained), ("-", effect.lost))
        for aspect in Aspect
        if (count := sum(yes and of is aspect for yes, of in zip(flipped, aspects, strict=True)))
    ]
    return " ".join(counts) or "-"
