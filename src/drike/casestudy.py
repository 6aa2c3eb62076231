"""One edit under several editors, side by side: what each shows, what the model then says, and what every retain does.

For each editor and each retain of its pool, the prompt is also tried the other way round: without a retain that was
kept, with one that was cut. What having the retain changes, in the log-probability of each probe's target and in right
or wrong, says why it is there, or should be. All prompts are asked in one call, so that a backend can share prefixes.
The paper's case study (section 5.4) shows such prompts; the effects are ours.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from drike.answers import first_line
from drike.demonstrations import Demonstration
from drike.editors.ike import IKE, Selection
from drike.edits import Aspect, EditCase
from drike.judging import Question, Verdict, complete, judge
from drike.models.protocols import LanguageModel
from drike.prompts import Prompt, bare


@dataclass(frozen=True)
class Reply:
    """What the model says to a probe under a prompt. logprob: of the probe's target, in nats; None without scores."""

    text: str
    correct: bool
    logprob: float | None


@dataclass(frozen=True)
class Effect:
    """What having one retain in the prompt does, probe by probe: with it minus without it.

    nats: change of the target's log-probability, None without scores. gained, lost: probes that are right only with
    it, only without it.
    """

    nats: tuple[float | None, ...]
    gained: tuple[bool, ...]
    lost: tuple[bool, ...]

    def mean(self, which: Sequence[bool]) -> float | None:
        """Mean change over some of the probes; None where there is none or the model gives no scores."""
        chosen = [n for n, wanted in zip(self.nats, which, strict=True) if wanted and n is not None]
        return sum(chosen) / len(chosen) if chosen else None


@dataclass(frozen=True)
class Retain:
    """A retain of the pool: `rank` is the editor's, `nearness` the rank by similarity, both from 1.

    effect: None where it was not measured: in an explanation, or where it would not fit into the prompt.
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


def ranked_retains(selection: Selection) -> tuple[Retain, ...]:
    """The retains of a selection in the editor's order, kept and cut."""
    similarities, ranking = selection.candidates.retain_similarities, selection.ranking
    return tuple(
        Retain(j + 1, i + 1, ranking.probs[j], similarities[i], j < selection.k, retain)
        for j, (i, retain) in enumerate(zip(ranking.order, ranking.retains, strict=True))
    )


@dataclass(frozen=True)
class Side:
    """One editor's part.

    prompt: of the edit's own query; it says how many retains were pruned to fit. sigma: None where there is none.
    """

    editor: str
    prompt: Prompt
    replies: tuple[Reply, ...]
    retains: tuple[Retain, ...]
    sigma: float | None


@dataclass(frozen=True)
class CaseStudy:
    """A case, the model's replies to its probes as it is, and under each editor."""

    model: str
    case: EditCase
    before: tuple[Reply, ...]
    sides: tuple[Side, ...]

    def of(self, aspect: Aspect) -> tuple[bool, ...]:
        """Which probes look at an aspect."""
        return tuple(probe.aspect is aspect for probe in self.case.probes)


def study(model: LanguageModel, case: EditCase, editors: Sequence[IKE]) -> CaseStudy:
    """Ask a case's probes of the model as it is, under each editor, and with each retain left out or put in.

    (1 + editors x (1 + n)) x probes prompts, n being the pool's size, in one call; a model that scores writes the
    answers under the unchanged prompts in a second one.
    """
    queries = [probe.query for probe in case.probes]
    chosen = [(editor, editor.fit(editor.select(case.edit), queries)) for editor in editors]
    tried = [list(_versions(editor, selection, queries)) for editor, selection in chosen]
    versions = [[bare(query) for query in queries], *(prompts for of_editor in tried for prompts in of_editor)]
    questions = [
        Question(prompt, probe.target)
        for prompts in versions
        for prompt, probe in zip(prompts, case.probes if prompts else (), strict=True)
    ]
    verdicts = iter(judge(model, questions))
    judged = [[next(verdicts) for _ in prompts] for prompts in versions]
    at = [1 + sum(map(len, tried[:i])) for i in range(len(tried))]
    replies = _replies(model, [versions[i] for i in (0, *at)], [judged[i] for i in (0, *at)])
    sides = tuple(
        _side(editor, selection, versions[i][0], reply, judged[i : i + len(of_editor)])
        for (editor, selection), of_editor, i, reply in zip(chosen, tried, at, replies[1:], strict=True)
    )
    return CaseStudy(model.info.name, case, replies[0], sides)


def _versions(editor: IKE, selection: Selection, queries: Sequence[str]) -> Iterator[list[Prompt]]:
    """The prompts as they are, then one version per ranked retain; none where it would not fit.

    A kept retain is left out. A cut one is put where the style would show it. Everything else stays in its place, so
    that an effect is that of the retain alone.
    """
    yield editor.show(selection, queries)
    candidates, style, kept = selection.candidates, editor.style, selection.kept
    shown = style.arrange(candidates, kept)
    for j, retain in enumerate(selection.ranking.retains):
        if j < selection.k:
            yield style.write(candidates.edit, [d for d in shown if d != retain], queries)
        else:
            at = style.arrange(candidates, [*kept, retain]).index(retain)
            made = style.write(candidates.edit, [*shown[:at], retain, *shown[at:]], queries)
            yield made if _fits(editor, made) else []


def _fits(editor: IKE, prompts: Sequence[Prompt]) -> bool:
    limit = editor.limit
    return limit is None or max(limit.count([prompt.text for prompt in prompts])) <= limit.tokens


def _replies(
    model: LanguageModel, versions: Sequence[Sequence[Prompt]], judged: Sequence[Sequence[Verdict]]
) -> list[tuple[Reply, ...]]:
    """Verdicts with the text the model writes, which a model that scores has not written yet."""
    texts = [verdict.text for of_version in judged for verdict in of_version]
    if any(text is None for text in texts):
        texts = [text for text, _ in complete(model, [prompt for prompts in versions for prompt in prompts])]
    written = iter(texts)
    return [
        tuple(Reply(first_line(next(written) or ""), verdict.correct, _logprob(verdict)) for verdict in of_version)
        for of_version in judged
    ]


def _side(
    editor: IKE, selection: Selection, prompt: Prompt, replies: tuple[Reply, ...], judged: Sequence[Sequence[Verdict]]
) -> Side:
    """An editor's part; `judged` begins with the unchanged prompts, then one version a retain in ranking order."""
    base = judged[0]
    retains = tuple(
        replace(one, effect=_effect(base, version) if one.kept else _effect(version, base))
        for one, version in zip(ranked_retains(selection), judged[1:], strict=True)
    )
    sigma = editor.budget.sigma_for(selection.ranking.probs, selection.candidates)
    return Side(editor.name, prompt, replies, retains, sigma)


def _effect(having: Sequence[Verdict], lacking: Sequence[Verdict]) -> Effect | None:
    if not having:
        return None
    pairs = list(zip(having, lacking, strict=True))
    nats = []
    for one, other in pairs:
        a, b = _logprob(one), _logprob(other)
        nats.append(None if a is None or b is None else a - b)
    return Effect(
        nats=tuple(nats),
        gained=tuple(one.correct and not other.correct for one, other in pairs),
        lost=tuple(other.correct and not one.correct for one, other in pairs),
    )


def _logprob(verdict: Verdict) -> float | None:
    return None if verdict.score is None else verdict.score.logprob
