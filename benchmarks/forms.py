"""Some rows of each published form, unedited, under FactPrompt and under IKE.

FOLDER holds the files by the names below; what is missing is skipped. This shows that a form is read and asked
completely. The embedded model does not know the facts of these files, so the figures say nothing about editors. Test
edits are those that `drike evaluate` draws. A cell of the first table: probes in all
cases; probes asked.

    python benchmarks/forms.py FOLDER [--edits 40] [--model embedded]
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from drike.edits.edit import Aspect
from drike.encoders import load_encoder
from drike.models import load as load_model
from drike.prompts import Role
from drike.research.datasets import Dataset, load
from drike.research.editors.catalog import make
from drike.research.editors.in_context import TokenLimit
from drike.research.editors.pool import Pool
from drike.research.evaluation.baseline_questions import (
    AnsweredCases,
    baseline_answers,
    with_baseline_answers,
)
from drike.research.evaluation.evaluate import evaluate
from drike.research.evaluation.judge import Judge
from drike.research.evaluation.metrics import Outcome, Summary, summarise
from drike.research.report.tables import INTERVALS
from lib import pages

TITLE = "The newer forms, read and asked completely"

FILES = {
    "HalluEditBench, 26 topics": "halluedit_llama2/*.csv",
    "WikiData-counterfact (KnowEdit)": "knowedit_wiki_counterfact_train.json",
    "zsRE (KnowEdit)": "knowedit_zsre_test.json",
    "QAEdit": "qaedit_1k.json",
    "RippleEdits": "ripple_pop.json",
    "MQuAKE": "mquake_300.json",
}
EDITORS = ("unedited", "factprompt", "ike")
ROLES = (
    (Role.COPY, 1),
    (Role.UPDATE, 3),
    (Role.RETAIN, 4),
)  # a quarter of IKE's: the model reads 1,024 tokens


Measured = Mapping[str, tuple[Dataset, Sequence[Summary]]]


def draw_probes(measured: Measured) -> None:
    """Print a row for each data set: the probes of each aspect in all cases, and those asked."""
    rows, kinds = (
        [],
        [
            aspect
            for aspect in Aspect
            if any(probes_of(data)[aspect] for data, _ in measured.values())
        ],
    )
    for name, (data, (first, *_)) in measured.items():
        in_all = probes_of(data)
        counts = (
            f"{in_all[a]:,}; {first.aspects[a].probes:,}" if in_all[a] else "n/a" for a in kinds
        )
        rows.append(
            (
                name,
                f"{len(data.cases):,} ({sum(source.rows for source in data.sources):,})",
                *counts,
            )
        )
    pages.draw("Probes in all cases, and those asked", ("data set", "cases (rows)", *kinds), rows)


def probes_of(data: Dataset) -> Counter[Aspect]:
    """How many probes of each aspect all cases have."""
    return Counter(
        probe.aspect for case in data.cases for probe in (*case.asked, *case.baseline_questions)
    )


def draw_shares(measured: Measured) -> None:
    """Print each editor's share of right answers, where any is above 0."""
    rows = []
    for name, (_, summaries) in measured.items():
        for aspect in Aspect:
            estimates = [summary.aspects[aspect].estimate for summary in summaries]
            if any(estimate.value for estimate in estimates):
                rows.append((f"{name}, {aspect}", *estimates))
    pages.draw("Shares of right answers above 0", ("data set, aspect", *EDITORS), rows, INTERVALS)


def left_out(data: Dataset, resolved: AnsweredCases) -> Iterator[str]:
    """What reading the files left out, and which test questions the model gave no usable answer to."""
    yield f"Left out: {'; '.join(f'{one.count:,} x {one.what}: {one.reason}' for one in data.dropped) or 'nothing'}."
    if resolved.asked:
        yield (
            f"{resolved.asked} test questions have no published answer; left out are {resolved.unusable} without "
            f"an answer of the unedited model that can be judged and {resolved.new} answered with the new object."
        )


def main() -> None:
    """Print for each form what was read, and the figures of each editor."""
    parser = pages.parser(__doc__)
    parser.add_argument(
        "folder", type=Path, nargs="?", default=Path("datasets"), help="folder of the files"
    )
    parser.add_argument("--edits", type=int, default=40, help="test edits of each form")
    parser.add_argument("--model", default="embedded", help="model to edit")
    parser.add_argument(
        "--prompt-tokens", type=int, default=960, help="the last retains are dropped to fit"
    )
    options = parser.parse_args()
    with pages.measured(options, TITLE, __doc__):
        measure(options)


def measure(options: argparse.Namespace) -> None:
    """Print the tables; progress goes to standard error."""
    found = {name: sorted(options.folder.glob(pattern)) for name, pattern in FILES.items()}
    for name in [name for name, paths in found.items() if not paths]:
        print(f"{name} is skipped: {options.folder} holds no {FILES.pop(name)}", file=sys.stderr)
    model, encoder = load_model(options.model), load_encoder()
    rule = Judge(model).rule
    limit = TokenLimit(options.prompt_tokens, model.count_tokens) if model.count_tokens else None
    measured: dict[str, tuple[Dataset, list[Summary]]] = {}
    for name in FILES:
        data = load(*found[name], name=name)
        parts = data.split(test=options.edits, train=0)
        pool = Pool(parts.demonstrations, encoder, roles=ROLES)
        resolved = with_baseline_answers(parts.test, baseline_answers(model, parts.test, rule))
        outcomes: dict[str, list[Outcome]] = {}
        for editor in (make(one, pool=pool, limit=limit) for one in EDITORS):
            print(f"  {name}: {editor.name}", file=sys.stderr, flush=True)
            outcomes[editor.name] = list(evaluate(editor, model, resolved.cases, rule=rule))
        measured[name] = (
            data,
            [summarise(of_editor, outcomes["Unedited"]) for of_editor in outcomes.values()],
        )
        print(*pool.fallbacks, *left_out(data, resolved), sep="\n", file=sys.stderr, flush=True)
    draw_probes(measured)
    draw_shares(measured)


if __name__ == "__main__":
    main()
