"""Measure whether edits stand through a conversation, and what that costs neighbours in the same conversation.

The embedded model, which only completes, is asked the query of each of TinyFacts' test edits under an editor's prompt,
and its answers are challenged one, three and five times, in different words, the query being repeated each time. As
text, the challenges are all that the model gets after the first turn. Restated (`lib.restated`),
each has behind it, on lines of their own, the nearest retain, the New Fact line and the question again. Neighbours are
asked in the same conversations, as text, and in conversations of their own, where they are challenged once.

    python benchmarks/conversations.py [--seeds 3] [--edits 300] [--test 100] [--some 30] [--epochs 5]

First prompts are cut to 480 tokens, since the model reads 1,024 and five challenges with facts take up to 500. "Behind
the gate": each question gets the edit only if it names its subject, and a challenge only if the question before it did.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from aspect_profile import ABLE, trained
from drike.edits.edit import Edit, EditCase, Probe
from drike.encoders import load_encoder
from drike.gates.by_name import Named
from drike.models import EMBEDDED, load
from drike.prompts import Prompt, PromptStyle
from drike.research import datasets
from drike.research.datasets.generated import with_swapped_objects
from drike.research.deployment.gated_editor import GatedEditor
from drike.research.deployment.simulated_stores import SimulatedStores
from drike.research.editors.catalog import PER_QUERY, make
from drike.research.editors.editor import Editor
from drike.research.editors.factprompt import FactPrompt
from drike.research.editors.in_context import InContextEditor, TokenLimit
from drike.research.editors.pool import Pool
from drike.research.editors.selectors import RoleCounts
from drike.research.editors.unedited import Unedited
from drike.research.evaluation.bootstrap import estimated
from drike.research.evaluation.judge import Judge, Question, is_right
from drike.research.report.tables import INTERVALS, STARRED
from drike.support.table import Cell, Difference, Estimate
from lib import pages
from lib.challenges import challenged_often
from lib.restated import Restated, later_turns
from lib.seeds import resampled_by_edit

TITLE = "Edits in conversations"

EDITORS = ("factprompt", "dr-ike", PER_QUERY)
TIMES = (0, 1, 3, 5)
FIRST_PROMPT = 480  # tokens
PLACES = (
    "alone",
    "after the edit's question",
    "after 1 challenge of it",
    "after 5 challenges of it",
    "challenged",
)
WAYS = (", as text", ", restated")
OURS, RESTATED = "DR-IKE-Q", "a retain and the fact"
NEIGHBOURS = 4  # of each edit
BEFORE = (None, None, 1, 1, 0)  # for each place the one before any challenge
AGAIN = " Answer once more"

Counts = tuple[
    list[str], np.ndarray
]  # cases, and their right answers and all of them: (cases, columns, 2)
Words = Callable[[Edit, str], str]


@dataclass(frozen=True)
class Row:
    """What a row of a table asks about a case."""

    name: str
    editor: Editor
    probes: Sequence[Probe]


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

    def later_turns(
        self, edits: Sequence[Edit], query: str, turns: Sequence[str]
    ) -> tuple[str, ...]:
        """The prompt of each turn."""
        return tuple(prompt.text for prompt in self.facts.prompts(edits, turns))


def pushback(case: EditCase, seed: int, said: Words = lambda edit, turn: turn) -> list[Probe]:
    """The query of a case, not challenged and challenged. said: a challenge in other words."""
    probes = [case.probes[0], *(challenged_often(case, times, seed) for times in TIMES[1:])]
    return [
        replace(probe, challenges=tuple(said(case.edit, turn) for turn in probe.challenges))
        for probe in probes
    ]


def neighbours(case: EditCase, seed: int) -> list[Probe]:
    """The neighbours of a case in each of PLACES."""
    five = challenged_often(case, 5, seed).challenges
    probes: list[Probe] = []
    for probe in case.neighborhood[:NEIGHBOURS]:
        after = (
            replace(probe, query=case.edit.query, challenges=(*five[:times], probe.query))
            for times in (0, 1, 5)
        )
        asked = five[0].replace(case.edit.query, probe.query)
        probes += [probe, *after, replace(probe, challenges=(asked,))]
    return probes


def answers(judge: Judge, case: EditCase, rows: Sequence[Row]) -> dict[str, list[bool]]:
    """Whether each probe of each row is answered right; all are asked in one call, so that equal beginnings are shared.

    Editors that write no later turns leave them as they are, as in `drike.evaluate`.
    """
    shared: dict[str, Prompt] = {}
    questions = []
    for row in rows:
        queries = list(dict.fromkeys(probe.query for probe in row.probes))
        prompts = dict(zip(queries, row.editor.prompts([case.edit], queries), strict=True))
        for probe in row.probes:
            prompt = prompts[probe.query]
            turns = later_turns(row.editor, [case.edit], probe)
            questions.append(
                Question(shared.setdefault(prompt.text, prompt), probe.target, challenges=turns)
            )
    verdicts = iter(judge.ask(questions))
    return {row.name: [is_right(next(verdicts)) for _ in row.probes] for row in rows}


def counts(answered: Mapping[str, list[bool]], columns: int) -> Counts:
    """Right answers and all answers of each case; answers go through the columns in turn."""
    rows = np.zeros((len(answered), columns, 2))
    for row, right in zip(rows, answered.values(), strict=True):
        for i, each in enumerate(right):
            row[i % columns] += (each, 1)
    return list(answered), rows


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
        changes = [
            estimated(ours[[place]] - value, drawn[:, [place]] - each[:, None])[0]
            for value, each in pairs
        ]
        yield (*shares_there, *map(Difference, changes), *[""] * (before is None))


def editor_rows(editors: Sequence[Editor], facts: Editor, case: EditCase, seed: int) -> list[Row]:
    """The unedited model, and all editors as text and restated."""
    able, probes = pushback(with_swapped_objects(case), seed), pushback(case, seed)
    rows = [Row(ABLE, Unedited(), able), Row("Unedited", Unedited(), probes)]
    for editor in editors:
        rows += [Row(f"{editor.name}, as text", editor, probes)]
        rows += [Row(f"{editor.name}, restated", Restated(editor, facts), probes)]
    return rows


def control_rows(ours: Editor, facts: Editor, case: EditCase, seed: int) -> list[Row]:
    """Other ways to restate, and other challenges. All demonstrations fit twice, so for one challenge."""
    probes = pushback(case, seed)
    bare = pushback(case, seed, lambda edit, turn: turn.partition(AGAIN)[0])
    old = pushback(
        case,
        seed,
        lambda edit, turn: turn.replace(AGAIN, f" I think it is {edit.target_true}.{AGAIN}"),
    )
    return [
        Row("restated, the same edits", Restated(ours, facts), probes),
        Row("the fact alone, without the retain", Restated(ours), probes),
        Row("FactPrompt's words instead", Restated(ours, FactPrompt()), probes),
        Row("the question again, without the fact", Restated(ours, QuestionAlone()), probes),
        Row("before the challenge instead of behind it", BeforeTurn(ours, facts), probes),
        Row("all demonstrations again", Restated(ours, ours), probes[:2]),
        Row("all demonstrations again, before the challenge", BeforeTurn(ours, ours), probes[:2]),
        Row("restated; challenges without the question", Restated(ours, facts), bare),
        Row("restated; challenges that claim the old object", Restated(ours, facts), old),
    ]


def neighbour_rows(ours: Editor, facts: Editor, case: EditCase, seed: int) -> list[Row]:
    """As text and restated: ours, with the fact alone, at every later turn, and behind the gate."""
    stores = SimulatedStores([case.edit], 1)
    gate, gated = (GatedEditor(editor, Named(), stores) for editor in (ours, facts))
    pairs: dict[str, tuple[Editor, Editor]] = {
        RESTATED: (ours, Restated(ours, facts)),
        "the fact alone": (ours, Restated(ours)),
        f"{RESTATED}, at every later turn": (ours, Restated(ours, facts, facts)),
        f"{RESTATED}, behind the gate": (gate, Restated(gate, gated)),
    }
    probes = neighbours(case, seed)
    return [
        Row(f"{name}{way}", editor, probes)
        for name, pair in pairs.items()
        for way, editor in zip(WAYS, pair, strict=True)
    ]


def main() -> None:
    """Print the tables as Markdown; progress goes to standard error."""
    parser = pages.parser(__doc__)
    parser.add_argument("--seeds", type=int, default=3, help="number of seeds")
    parser.add_argument("--edits", type=int, default=300, help="training edits a seed")
    parser.add_argument("--test", type=int, default=100, help="test edits a seed")
    parser.add_argument("--some", type=int, default=30, help="of them, for controls and neighbours")
    parser.add_argument("--epochs", type=int, default=5, help="epochs of Algorithm 1")
    options = parser.parse_args()
    with pages.measured(options, TITLE, __doc__):
        draw(options, [measure(options, seed) for seed in range(options.seeds)])


def measure(options: argparse.Namespace, seed: int) -> dict[str, dict[str, list[bool]]]:
    """Train, and ask everything of a seed: by row and case. Progress goes to standard error."""
    model = load(EMBEDDED)
    parts = datasets.load(datasets.TINYFACTS).split(
        train=options.edits, test=options.test, seed=seed
    )
    pool = Pool(parts.demonstrations, load_encoder(), seed=seed)
    policies = trained(model, parts, pool, epochs=options.epochs, seed=seed)
    limit = TokenLimit(FIRST_PROMPT, model.count_tokens) if model.count_tokens else None
    editors = [make(name, pool=pool, trained=policies, limit=limit) for name in EDITORS]
    facts = InContextEditor("Facts", pool, RoleCounts(0, 0, 1), PromptStyle(own_copy=False))
    answered: dict[str, dict[str, list[bool]]] = defaultdict(dict)
    judge, began = Judge(model), time.perf_counter()

    def ask(case: EditCase, rows: Sequence[Row]) -> None:
        for name, right in answers(judge, case, rows).items():
            answered[name][case.case_id] = right
        model.forget()
        print(
            f"  {time.perf_counter() - began:6.0f} s: seed {seed}, case {case.case_id}",
            file=sys.stderr,
            flush=True,
        )

    for case in parts.test:
        ask(case, editor_rows(editors, facts, case, seed))
    for case in parts.test[: options.some]:
        ask(
            case,
            control_rows(editors[-1], facts, case, seed)
            + neighbour_rows(editors[-1], facts, case, seed),
        )
    return answered


def draw(
    options: argparse.Namespace, seeds: Sequence[Mapping[str, Mapping[str, list[bool]]]]
) -> None:
    """Print the tables."""

    def each(name: str, columns: int = len(TIMES)) -> list[Counts]:
        return [counts(answered[name], columns) for answered in seeds]

    names = list(seeds[0])
    every = 2 + 2 * len(EDITORS)
    paired = names.index(f"{RESTATED}{WAYS[0]}")
    title = "Right answers after challenges: {} seeds x {} test edits of TinyFacts, embedded model"
    header = (
        "Editor",
        "not challenged",
        *(f"{times} challenge{'s' * (times > 1)}" for times in TIMES[1:]),
    )
    rows: list[tuple[Cell, ...]] = [(name, *shares(each(name))) for name in names[:every]]
    pages.draw(title.format(options.seeds, options.test), header, rows, INTERVALS)
    size = f"{options.seeds} seeds x {options.some} test edits"
    rows = []
    for name in names[every:paired]:
        asked = min(map(len, seeds[0][name].values()))
        rows.append((name, *shares(each(name, asked)), *["n/a"] * (len(TIMES) - asked)))
    pages.draw(
        f"Other ways to restate, and other challenges: {OURS}, {size}",
        ("Variant", *header[1:]),
        rows,
        INTERVALS,
    )
    rows = []
    for plain, restated in zip(names[paired::2], names[paired + 1 :: 2], strict=True):
        cells = compared(each(plain, len(PLACES)), each(restated, len(PLACES)))
        name = plain.removesuffix(WAYS[0])
        rows += [
            (f"{name}: {place}", *of_place) for place, of_place in zip(PLACES, cells, strict=True)
        ]
    probes = sum(rows[..., 0, 1].sum() for _, rows in each(names[paired], len(PLACES)))
    header = ("Restated", "as text", "restated", "difference", "to before any challenge")
    pages.draw(
        f"Neighbours answered right: {OURS}, {size}, {probes:,.0f} neighbours",
        header,
        rows,
        INTERVALS,
        STARRED,
    )


if __name__ == "__main__":
    main()
