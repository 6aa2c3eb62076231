"""Measure `drike report` of many cases, seconds and peak memory, and the tables of `drike evaluate`, seconds.

The run is made up: every editor answers by chance, at a rate of its own, 1 rewrite, 2 paraphrase and 3 neighbourhood
probes of each case.

    python benchmarks/report.py [--cases 20000] [--editors 6] [--table 2000]
"""

from __future__ import annotations

import argparse
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from drike.edits.edit import Aspect
from drike.research.datasets.dataset import SplitIds
from drike.research.evaluation.metrics import Outcome, counted, summary_of
from drike.research.report.tables import costs, paired, table1
from drike.research.runs.files import RUN, SPLIT, append, outcomes_path, write_record
from drike.support.files import with_checksum
from drike.support.table import Table
from lib import pages

TITLE = "Reports of many cases"

PROBES = (Aspect.REWRITE, *[Aspect.PARAPHRASE] * 2, *[Aspect.NEIGHBORHOOD] * 3)
EDITORS = ("Unedited", "FactPrompt", "EditCoT", "IKE", "Rank-50%", "DR-IKE")


def made_up(editor: str, cases: int) -> Iterator[Outcome]:
    """Yield the outcomes of one editor."""
    rng, rate = random.Random(editor), 0.5 + 0.05 * len(editor)
    for case in range(cases):
        for number, aspect in enumerate(PROBES):
            right, margin = rng.random() < rate, rng.uniform(-1, 1)
            yield Outcome(
                editor=editor, case_id=str(case), aspect=aspect, query=f"The city of land {case}, asked {number}, is",
                target=f"New city {case % 997}", distractor=f"Old city {case % 997}", correct=right, answer=None,
                matched=None, exact=right, prefers=right, prob_margin=margin, logprob_margin=10 * margin,
                logit_gap=margin, shots=rng.randrange(1, 17), pruned=0, prompt_tokens=rng.randrange(300, 900), calls=1,
                seconds=rng.random(),
            )  # fmt: skip


def make_run(folder: Path, cases: int, editors: tuple[str, ...]) -> None:
    """Write an evaluation's folder."""
    ids = tuple(map(str, range(cases)))
    settings = {
        "data": ["lands"],
        "model": "none",
        "template": "plain",
        "encoder": "hashing",
        "seed": 0,
    }
    SplitIds("default", 0, "lands", "0" * 64, ids, (), (), ids, ("x",)).save(folder / SPLIT)
    record = {
        "command": ["drike"], "started": "", "options": None, "settings": settings, "model": {"name": "none"},
        "trained_sha256": None, "data": [], "data_fingerprint": "0" * 64, "encoders": {},
        "fallbacks": [], "versions": {},
    }  # fmt: skip
    write_record(folder, RUN, with_checksum(record))
    for editor in editors:
        append(outcomes_path(folder, editor), map(asdict, made_up(editor, cases)))


def tables(cases: int, editors: tuple[str, ...]) -> list[Table]:
    """What `drike evaluate` prints, but for the paper's table."""
    outcomes = {editor: list(made_up(editor, cases)) for editor in editors}
    counts = {editor: counted(found, outcomes["Unedited"]) for editor, found in outcomes.items()}
    summaries = list(map(summary_of, counts.values()))
    return [
        table1(summaries, "lands"),
        costs(summaries),
        *paired(counts, [("DR-IKE", "IKE")], "DR-IKE minus IKE, paired"),
    ]


def main() -> None:
    """Make the run, report it in a process of its own, and print what that took."""
    parser = pages.parser(__doc__)
    parser.add_argument("--cases", type=int, default=20_000)
    parser.add_argument("--editors", type=int, default=len(EDITORS))
    parser.add_argument("--table", type=int, default=2_000, help="cases of evaluate's table")
    asked = parser.parse_args()
    with pages.measured(asked, TITLE, __doc__):
        measure(asked)


def measure(asked: argparse.Namespace) -> None:
    """Print the tables; progress goes to standard error."""
    editors = EDITORS[-asked.editors :]
    began = time.process_time()
    tables(asked.table, EDITORS)
    of_tables = time.process_time() - began
    with tempfile.TemporaryDirectory() as place:
        make_run(Path(place), asked.cases, editors)
        began = time.perf_counter()
        subprocess.run(
            [sys.executable, "-P", "-m", "drike", "report", place],
            check=True,
            stdout=subprocess.DEVNULL,
        )
        seconds, size = time.perf_counter() - began, (Path(place) / "report.html").stat().st_size
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    of_report = (
        f"{used.ru_utime + used.ru_stime:.1f}",
        f"{used.ru_maxrss * 1024 / 1e9:.2f}",
    )  # ru_maxrss: KiB on Linux
    rows = [
        (f"tables of an evaluation of {asked.table:,} cases", f"{of_tables:.1f}", ""),
        (f"drike report, {asked.cases:,} cases", *of_report),
    ]
    print(f"{seconds:.1f} s of wall time, a page of {size / 1e6:.1f} MB", file=sys.stderr)
    pages.draw(f"{len(editors)} editors", ("step", "processor seconds", "peak memory, GB"), rows)


if __name__ == "__main__":
    main()
