"""Measure whether edits stand through a conversation, and what that costs neighbours in the same conversation.

The embedded model, which only completes, is asked the query of each of TinyFacts' test edits under an editor's prompt,
and its answers are challenged one, three and five times, in different words, the query being repeated each time. As
text, the challenges are all that the model gets after the first turn. Restated (`drike.conversations.restated`),
each has behind it, on lines of their own, the nearest retain, the New Fact line and the question again. Neighbours are
asked in the same conversations, as text, and in conversations of their own, where they are challenged once.

    python benchmarks/conversations.py [--seeds 3] [--edits 300] [--test 100] [--some 50] [--epochs 5]

First prompts are cut to 480 tokens, since the model reads 1,024 and five challenges with facts take up to 500. "Behind
the gate": each question gets the edit only if it names its subject, and a challenge only if the question before it did.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import numpy as np

from aspect_profile import ABLE, trained
from drike import datasets
from drike.conversations.restated import Restated
from drike.datasets.generated import challenged, with_swapped_objects
from drike.deployment.evaluation import GatedEditor, SimulatedStores
from drike.editors.baselines import FactPrompt, Unedited
from drike.editors.budgets import TokenLimit
from drike.editors.catalog import PER_QUERY, make
from drike.editors.editor import Editor
from drike.editors.in_context import InContextEditor
from drike.editors.pool import Pool
from drike.editors.role_counts import RoleCounts
from drike.edits import Aspect, Edit, EditCase
from drike.encoders import load_encoder
from drike.evaluation.evaluate import evaluate
from drike.evaluation.metrics import Outcome, estimated, resampled_by_edit
from drike.gates.by_name import Named
from drike.models import EMBEDDED, load
from drike.prompts import Prompt, PromptStyle
from drike.report.tables import INTERVALS, STARRED
from drike.support.table import Cell, Difference, Estimate
from lib import pages

TITLE = "Edits in conversations"

EDITORS = ("factprompt", "no-retains", "dr-ike", PER_QUERY)
TIMES = (0, 1, 3, 5)
FIRST_PROMPT = 480  # tokens
PLACES = ("alone", "after the edit's question", "after 1 challenge of it", "after 5 challenges of it", "challenged")
BEFORE = (None, None, 1, 1, 0)  # for each place the one before any challenge
AGAIN = " Answer once more"

Counts = tuple[list[str], np.ndarray]  # cases, and their right answers and all of them: (cases, columns, 2)
Column = Callable[[Outcome], int | None]


@dataclass(frozen=True)
class QuestionAlone:
    """A control: the question again, in the layout of demonstrations, without any fact."""

    name: str = "Question alone"

    def prompts(self, edits: Sequence[Edit], queries: Sequence[str]) -> list[Prompt]:
        """The line of each query."""
        return [Prompt(f"Prompt: {query}") for query in queries]


@dataclass(frozen=True)
class BeforeTurn:
    """A control: the facts stand where the turn begins, as in the first turn, instead of behind it."""

    editor: Editor
    facts: Editor

    @property
    def name(self) -> str:
        """The editor's."""
        return self.editor.name

    def prompts(self, edits: Sequence[Edit], queries: Sequence[str]) -> list[Prompt]:
        """The editor's."""
        return self.editor.prompts(edits, queries)

    def later_turns(self, edits: Sequence[Edit], query: str, turns: Sequence[str]) -> tuple[str, ...]:
        """The prompt of each turn."""
        return tuple(prompt.text for prompt in self.facts.prompts(edits, turns))


def with_pushback(case: EditCase, seed: int, said: Callable[[Edit, str], str] = lambda edit, turn: turn) -> EditCase:
    """The rewrite probe of a case, and its pushback probes. said: a challenge in other words."""
    probes = [case.probes[0], *(challenged(case, times, seed) for times in TIMES[1:])]
    rewrite, *further = (
        replace(p, distractor=None, challenges=tuple(said(case.edit, turn) for turn in p.challenges)) for p in probes
    )
    return EditCase(case.case_id, case.edit, (rewrite,), tuple(further))


def with_neighbours(case: EditCase, seed: int) -> EditCase:
    """The neighbours of a case alone, and in conversations with challenges."""
    five = challenged(case, 5, seed).challenges
    probes = []
    for probe in (replace(neighbour, distractor=None) for neighbour in case.neighborhood):
        after = (replace(probe, query=case.edit.query, challenges=(*five[:times], probe.query)) for times in (0, 1, 5))
        asked = five[0].replace(case.edit.query, probe.query)
        probes += [probe, *after, replace(probe, challenges=(asked,))]
    return EditCase(case.case_id, case.edit, (case.probes[0], *probes))


def pushback_column(outcome: Outcome) -> int:
    """The place of an answer in TIMES."""
    return TIMES.index(outcome.query.count("\n"))


def neighbour_column(outcome: Outcome) -> int | None:
    """The place of an answer in PLACES; None for the rewrite probe."""
    if outcome.aspect is not Aspect.NEIGHBORHOOD:
        return None
    *_, last = turns = outcome.query.split("\n")
    return PLACES.index("challenged") if AGAIN in last else (1, 2, 3, 7).index(len(turns))


def counts(outcomes: Sequence[Outcome], column: Column) -> Counts:
    """Cases, and how many answers of each column are right and how many there are: (cases, columns, 2)."""
    by_case: dict[str, np.ndarray] = defaultdict(lambda: np.zeros((len(PLACES), 2)))
    for outcome in outcomes:
        if (place := column(outcome)) is not None and outcome.correct is not None:
            by_case[outcome.case_id][place] += (outcome.correct, 1)
    return list(by_case), np.array(list(by_case.values()))


def rates(seeds: Sequence[Counts]) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Shares of each column, those over resamples, and how many edits ask it."""
    whole, drawn = sum(rows.sum(axis=0) for _, rows in seeds), resampled_by_edit(seeds).sum(axis=1)
    edits = sum(np.count_nonzero(rows[..., 1], axis=0) for _, rows in seeds)
    with np.errstate(invalid="ignore"):
        return whole[:, 0] / whole[:, 1], drawn[..., 0] / drawn[..., 1], edits


def shares(seeds: Sequence[Counts]) -> list[Estimate]:
    """The share of each column with its interval."""
    return estimated(*rates(seeds))


def compared(plain: Sequence[Counts], restated: Sequence[Counts]) -> Iterator[tuple[Cell, ...]]:
    """For each place the two shares, their paired difference, and that of the second to the one before challenges."""
    (ours, drawn, _), (theirs, other, _) = rates(restated), rates(plain)
    for place, shares_there in enumerate(zip(shares(plain), shares(restated), strict=True)):
        before = BEFORE[place]
        pairs = [(theirs[place], other[:, place])]
        pairs += [] if before is None else [(ours[before], drawn[:, before])]
        changes = [estimated(ours[[place]] - value, drawn[:, [place]] - each[:, None])[0] for value, each in pairs]
        yield (*shares_there, *map(Difference, changes), *[""] * (before is None))


@dataclass(frozen=True)
class Asked:
    """What a row asks: its name in the table, an editor and the cases."""

    name: str
    editor: Editor
    cases: Sequence[EditCase]


@dataclass(frozen=True)
class Counted:
    """What a seed measured, by row: under challenges, and of neighbours as text and restated."""

    pushback: dict[str, Counts]
    neighbours: dict[str, tuple[Counts, Counts]]


def editor_rows(editors: Sequence[Editor], facts: Editor, test: Sequence[EditCase], seed: int) -> Iterator[Asked]:
    """The unedited model, and all editors as text and restated."""
    cases = [with_pushback(case, seed) for case in test]
    yield Asked(ABLE, Unedited(), [with_pushback(with_swapped_objects(case), seed) for case in test])
    yield Asked("Unedited", Unedited(), cases)
    for editor in editors:
        yield Asked(f"{editor.name}, as text", editor, cases)
        yield Asked(Restated(editor).name, Restated(editor, facts), cases)


def control_rows(ours: Editor, facts: Editor, test: Sequence[EditCase], seed: int) -> Iterator[Asked]:
    """Other ways to restate, and other challenges. All demonstrations fit twice, so for one challenge."""

    def said(words: Callable[[Edit, str], str]) -> list[EditCase]:
        return [with_pushback(case, seed, words) for case in test]

    cases = said(lambda edit, turn: turn)
    once = [replace(case, further=case.further[:1]) for case in cases]
    bare = said(lambda edit, turn: turn.partition(AGAIN)[0])
    old = said(lambda edit, turn: turn.replace(AGAIN, f" I think it is {edit.target_true}.{AGAIN}"))
    yield Asked("restated, the same edits", Restated(ours, facts), cases)
    yield Asked("the fact alone, without a retain", Restated(ours), cases)
    yield Asked("FactPrompt's words instead", Restated(ours, FactPrompt()), cases)
    yield Asked("the question again, without the fact", Restated(ours, QuestionAlone()), cases)
    yield Asked("before the challenge instead of behind it", BeforeTurn(ours, facts), cases)
    yield Asked("all demonstrations again", Restated(ours, ours), once)
    yield Asked("all demonstrations again, before the challenge", BeforeTurn(ours, ours), once)
    yield Asked("restated; challenges without the question", Restated(ours, facts), bare)
    yield Asked("restated; challenges that claim the old object", Restated(ours, facts), old)


def neighbour_rows(
    editors: Sequence[Editor], facts: Editor, test: Sequence[EditCase]
) -> Iterator[tuple[str, Editor, Editor]]:
    """The name of a row, and its editor as text and restated."""
    yield from ((editor.name, editor, Restated(editor, facts)) for editor in editors)
    *_, ours = editors
    yield f"{ours.name}, the fact alone", ours, Restated(ours)
    yield f"{ours.name}, at every later turn", ours, Restated(ours, facts, facts)
    stores = SimulatedStores([case.edit for case in test], 1)
    gate, gated = (GatedEditor(editor, Named(), stores) for editor in (ours, facts))
    yield f"{ours.name} behind the gate", gate, Restated(gate, gated)


def main() -> None:
    """Print the tables as Markdown; progress goes to standard error."""
    parser = pages.parser(__doc__)
    parser.add_argument("--seeds", type=int, default=3, help="number of seeds")
    parser.add_argument("--edits", type=int, default=300, help="training edits a seed")
    parser.add_argument("--test", type=int, default=100, help="test edits a seed")
    parser.add_argument("--some", type=int, default=50, help="of them, for controls and neighbours")
    parser.add_argument("--epochs", type=int, default=5, help="epochs of Algorithm 1")
    options = parser.parse_args()
    with pages.measured(options, TITLE, __doc__):
        draw(options, [measure(options, seed) for seed in range(options.seeds)])


def measure(options: argparse.Namespace, seed: int) -> Counted:
    """Train, and ask everything of a seed; progress goes to standard error."""
    model = load(EMBEDDED)
    parts = datasets.load(datasets.TINYFACTS).split(train=options.edits, test=options.test, seed=seed)
    pool = Pool(parts.demonstrations, load_encoder(), seed=seed)
    policies = trained(model, parts, pool, epochs=options.epochs, seed=seed)
    count = model.count_tokens or (lambda texts: [])
    made = partial(make, pool=pool, model=model, trained=policies)
    editors = [made(name, limit=TokenLimit(FIRST_PROMPT, count)) for name in EDITORS]
    *_, ours = editors
    facts = InContextEditor("Facts", pool, RoleCounts(0, 0, 1), PromptStyle(own_copy=False))
    began, some, answered = time.perf_counter(), parts.test[: options.some], Counted({}, {})

    def ask(name: str, editor: Editor, cases: Sequence[EditCase], column: Column) -> Counts:
        right = counts(list(evaluate(editor, model, cases)), column)
        print(f"  {time.perf_counter() - began:6.0f} s: seed {seed}, {name}", file=sys.stderr, flush=True)
        return right

    for row in (*editor_rows(editors, facts, parts.test, seed), *control_rows(ours, facts, some, seed)):
        answered.pushback[row.name] = ask(row.name, row.editor, row.cases, pushback_column)
    conversations = [with_neighbours(case, seed) for case in some]
    for name, plain, restated in neighbour_rows([editors[0], ours], facts, some):
        pair = (ask(name, editor, conversations, neighbour_column) for editor in (plain, restated))
        answered.neighbours[name] = (next(pair), next(pair))
    return answered


def draw(options: argparse.Namespace, seeds: Sequence[Counted]) -> None:
    """Print the tables."""
    size = "{} seeds x {} test edits of TinyFacts, embedded model"
    rows: list[tuple[Cell, ...]] = [
        (name, *shares([seed.pushback[name] for seed in seeds])[: len(TIMES)]) for name in seeds[0].pushback
    ]
    header = ("Editor", "not challenged", *(f"{times} challenge{'s' * (times > 1)}" for times in TIMES[1:]))
    every = 2 + 2 * len(EDITORS)
    pages.draw(
        f"Right answers after challenges: {size.format(options.seeds, options.test)}", header, rows[:every], INTERVALS
    )
    some = size.format(options.seeds, options.some)
    pages.draw(f"Controls with DR-IKE-Q: {some}", ("Variant", *header[1:]), rows[every:], INTERVALS)
    compared_rows = [
        (f"{name}: {place}", *cells)
        for name in seeds[0].neighbours
        for place, cells in zip(PLACES, compared(*_each([seed.neighbours[name] for seed in seeds])), strict=True)
    ]
    title = f"Neighbours answered right: {some}"
    header = ("Editor", "as text", "restated", "difference", "to before any challenge")
    pages.draw(title, header, compared_rows, INTERVALS, STARRED)


def _each(pairs: Sequence[tuple[Counts, Counts]]) -> tuple[list[Counts], list[Counts]]:
    return [plain for plain, _ in pairs], [restated for _, restated in pairs]


if __name__ == "__main__":
    main()
