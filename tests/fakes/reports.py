"""Made-up outcomes and runs for tests of reports, and a parser that reads a page back."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from html.parser import HTMLParser

from drike.edits.edit import Aspect
from drike.research.editors.budgets import Threshold
from drike.research.evaluation.metrics import Outcome
from drike.research.report.reported_runs import ReportedRun
from drike.research.training.algorithm1 import Episode, EpisodeRecord


def outcome(
    case: str, shots: int, *, correct: bool = True, editor: str = "DR-IKE", query: str = "q"
) -> Outcome:
    """A rewrite probe's, with so many demonstrations."""
    return Outcome(
        editor=editor, case_id=case, aspect=Aspect.REWRITE, query=query, target="new", distractor="old",
        correct=correct, answer=None, matched=None, exact=None, prefers=None,
        prob_margin=None, logprob_margin=None, logit_gap=None,
        shots=shots, pruned=0, prompt_tokens=10 * shots, calls=1, seconds=0.1,
    )  # fmt: skip


def timeless(outcomes: Iterable[Outcome]) -> list[Outcome]:
    """The outcomes as if they had taken no time, to be compared."""
    return [replace(outcome, seconds=0.0) for outcome in outcomes]


def episode(
    epoch: int, rewards: tuple[int, ...], *, tokens: int | None = 100, seconds: float = 2.0
) -> Episode:
    """Of three candidates, with a threshold that grows with the epochs."""
    return Episode(
        epoch=epoch, case_id="1", order=(0, 1, 2), probs=(0.5, 0.3, 0.2), rewards=rewards,
        correct=tuple(r > 0 for r in rewards), loss=0.0,
        budget=Threshold(0.1 * epoch), prompt_tokens=tokens, seconds=seconds, kept=len(rewards), sigma=0.1 * epoch,
        k=len(rewards), share=None, probes=None,
    )  # fmt: skip


HOSTILE = "</script><img src=x onerror=alert(1)><!-- \"'`| %$&_{}\\ #~^ *a* [b](http://c) ]]> \u2028 \ud800"


PROBES = ((Aspect.REWRITE, 1), (Aspect.PARAPHRASE, 2), (Aspect.NEIGHBORHOOD, 3))


QUALITY = {"Unedited": 0, "FactPrompt": 3, "IKE": 5, "Rank-50%": 6, "DR-IKE": 7}


TOKENS = {"Unedited": 8, "FactPrompt": 20, "IKE": 700, "Rank-50%": 500, "DR-IKE": 300}


def outcomes_of(
    editor: str,
    cases: Sequence[str],
    *,
    hostile: str = "",
    scores: bool = True,
    neighbours: int = 3,
) -> tuple[Outcome, ...]:
    """Make outcomes by a fixed rule: better editors are right more often, on different probes."""
    made = []
    for n, case_id in enumerate(cases):
        for aspect, count in (*PROBES[:2], (Aspect.NEIGHBORHOOD, neighbours)):
            for j in range(count):
                keep = aspect is Aspect.NEIGHBORHOOD
                good = QUALITY.get(editor, 4)
                correct = (n * 3 + j * 5 + len(editor)) % 8 < (8 - good // 2 if keep else good)
                made.append(
                    Outcome(
                        editor=editor, case_id=case_id, aspect=aspect,
                        query=f"{aspect.value} {j} of Land{n}{hostile} is",
                        target=f"Old{n}" if keep else f"New{n}{hostile}",
                        distractor=f"New{n}{hostile}" if keep else f"Old{n}", correct=correct,
                        answer=f"said {n}{hostile}" if n % 3 == 0 or not scores else None, matched=None, exact=None,
                        prefers=correct if scores else None, prob_margin=(0.5 if correct else -0.5) if scores else None,
                        logprob_margin=(1.25 if correct else -2.5) if scores else None,
                        logit_gap=1.0 if scores else None,
                        pruned=0, shots=(n % 4) + 1 if editor == "DR-IKE" else 16 if editor == "IKE" else 0,
                        prompt_tokens=TOKENS.get(editor, 400) + n % 7, calls=1, seconds=0.25,
                    )
                )  # fmt: skip
    return tuple(made)


def episode_of(epoch: int, i: int) -> EpisodeRecord:
    """Of one to three prefixes, of which the budget keeps the first."""
    k, right = 1 + i % 3, i % 4 > 0
    return EpisodeRecord(
        epoch=epoch, case_id=str(i), order=tuple(range(k)), probs=(1 / k,) * k, k=k, kept=1, probes=None,
        rewards=(0.5 if right else -0.5,) * k, correct=(right,) * k, loss=0.0,
        prompt_tokens=500 + i, seconds=0.5, sigma=0.01 * (6 * epoch + i), share=None,
    )  # fmt: skip


def run_of(
    seed: int = 0,
    *,
    model: str = "some-model",
    data: str = "Lands",
    editors: Sequence[str] = tuple(QUALITY),
    cases: int = 12,
    hostile: str = "",
    scores: bool = True,
    neighbours: int = 3,
    **settings: str,
) -> ReportedRun:
    """Make a run on the cases of its seed; seeds share some cases."""
    ids = tuple(f"{seed * 5 + n}" for n in range(cases))
    episodes = tuple(episode_of(epoch, i) for epoch in (1, 2) for i in range(6))
    outcomes = {
        name: outcomes_of(name, ids, hostile=hostile, scores=scores, neighbours=neighbours)
        for name in editors
    }
    written: dict[str, dict[str, tuple[str | None, ...]]] = {name: {} for name in editors}
    for name, of_editor in outcomes.items():
        for outcome in of_editor:
            if outcome.answer is not None:
                written[name][outcome.case_id] = (
                    *written[name].get(outcome.case_id, ()),
                    outcome.answer,
                )
    return ReportedRun(
        folder=f"runs/{model}-{seed}{hostile}", model=model + hostile, data=data + hostile, seed=seed,
        settings={"data": f"{data} 1234", "template": "plain", "epochs": "2", **settings},
        identity={"dtype": "float32"},
        test=ids,
        outcomes=outcomes, written=written,
        episodes=episodes, started="today", versions={"drike": "0.1.0"},
    )  # fmt: skip


class Page(HTMLParser):
    """The elements of a page with their attributes, and the text inside each kind of element."""

    def __init__(self, html: str) -> None:
        super().__init__(convert_charrefs=True)
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self._open: list[str] = []
        self.feed(html)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        if tag not in ("meta", "input", "path", "use", "rect", "br"):
            self._open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag in self._open:
            while self._open.pop() != tag:
                pass

    def handle_data(self, data: str) -> None:
        if self._open:
            self.texts.append((self._open[-1], data))

    def all(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]

    def text(self, tag: str) -> str:
        return "\n".join(text for name, text in self.texts if name == tag)
