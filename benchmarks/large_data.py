"""Measure time and memory of the commands on a file of CounterFact's form and size: 21,919 rows.

The rows are made from the facts of EasyEdit's flat files (--flat), or from invented facts without them: 34 relations,
two paraphrases behind an unrelated sentence, ten neighbours, and the attribute and generation prompts that are never
read. Each step runs in a process of its own, with the hashing encoder and the closed-form reader in place of MiniLM
and a language model, so that what remains is drike's own work. Seconds include starting Python; memory is the peak of
the process.

    OMP_NUM_THREADS=1 python benchmarks/large_data.py [--rows 21919] [--flat FILE FILE]
"""

from __future__ import annotations

import argparse
import json
import random
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from pathlib import Path

from lib import pages

TITLE = "Large data files"

ROWS, RELATIONS = 21_919, 34
SYLLABLES = ("ba", "do", "ke", "li", "mu", "na", "ro", "si", "ta", "vu", "xe", "zo")
SPLIT_AND_POOL = """
import sys
from drike.encoders import load_encoder
from drike.research import datasets
from drike.research.editors.pool import Pool
split = datasets.load(sys.argv[1]).split()
Pool(split.demonstrations, load_encoder("hashing")).candidates([case.edit for case in (*split.train, *split.test)])
"""
LOAD = "import sys; from drike.research import datasets; datasets.load(sys.argv[1])"
Fact = tuple[
    str, str, str, str
]  # the query with {} for the subject, the subject, the old and the new object


def published_facts(files: Sequence[Path]) -> list[Fact]:
    """The facts of EasyEdit's flat files whose query names the subject once."""
    rows = [row for file in files for row in json.loads(file.read_text("utf-8"))]
    return [
        (
            row["prompt"].replace(row["subject"], "{}"),
            row["subject"],
            row["ground_truth"],
            row["target_new"],
        )
        for row in rows
        if row["prompt"].count(row["subject"]) == 1 and "{" not in row["prompt"]
    ]


def invented_facts(rng: random.Random) -> list[Fact]:
    """As many facts, with as many wordings and objects, as the flat files have."""
    objects = [name(rng) for _ in range(800)]
    return [
        (
            f"{{}} {name(rng, 1 + i % 4).lower()} {i % 218} in",
            f"{name(rng)} {i}",
            *rng.sample(objects, 2),
        )
        for i in range(20_000)
    ]


def name(rng: random.Random, words: int = 2) -> str:
    """Invented words."""
    return " ".join("".join(rng.choices(SYLLABLES, k=3)).title() for _ in range(words))


def counterfact(count: int, facts: Sequence[Fact], seed: int = 0) -> list[dict[str, object]]:
    """`count` rows in CounterFact's published form; facts beyond the given ones are about new subjects."""
    rng = random.Random(seed)
    relations = {
        wording: f"P{i % RELATIONS}"
        for i, wording in enumerate(sorted({fact[0] for fact in facts}))
    }
    wordings, subjects = defaultdict(list), defaultdict(list)
    for wording, relation in relations.items():
        wordings[relation].append(wording)
    for wording, subject, old, _ in facts:
        subjects[relations[wording], old].append(subject)
    rows = []
    for i in range(count):
        wording, subject, old, new = facts[i % len(facts)]
        subject = subject if i < len(facts) else f"{subject} {i}"
        relation = relations[wording]
        ways, others = wordings[relation], subjects[relation, old]

        def asked(who: str, ways: Sequence[str] = ways) -> str:
            return rng.choice(ways).replace("{}", who)

        rows.append(
            {
                "case_id": i,
                "pararel_idx": i,
                "requested_rewrite": {
                    "prompt": wording,
                    "relation_id": relation,
                    "target_new": {"str": new, "id": "Q1"},
                    "target_true": {"str": old, "id": "Q2"},
                    "subject": subject,
                },
                "paraphrase_prompts": [f"{name(rng, 8)}. {asked(subject)}" for _ in range(2)],
                "neighborhood_prompts": [asked(rng.choice(others)) for _ in range(10)],
                "attribute_prompts": [asked(rng.choice(others)) for _ in range(10)],
                "generation_prompts": [asked(subject) for _ in range(10)],
            }
        )
    return rows


def measured(arguments: Sequence[str]) -> tuple[float, float]:
    """Seconds and peak memory in MB of a Python process. Raises CalledProcessError."""
    # In a process of its own, since the system keeps one peak for all children.
    inner = (
        "import resource, subprocess, sys; subprocess.run(sys.argv[1:], check=True, stdout=subprocess.DEVNULL);"
        "print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss)"
    )
    began = time.perf_counter()
    command = [sys.executable, "-c", inner, sys.executable, *arguments]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    return time.perf_counter() - began, int(done.stdout) / 1024


def steps(file: Path, run: Path) -> dict[str, tuple[str, ...]]:
    """The arguments to Python of every step on a data file; `run` is the folder of the training run."""
    inspect = ("-m", "drike", "data", "inspect", str(file))
    train = (
        "-m",
        "drike",
        "train",
        "--data",
        str(file),
        "--model",
        "reader",
        "--encoder",
        "hashing",
    )
    return {
        "load": ("-c", LOAD, str(file)),
        "load, split, pool, demonstrations of 400 edits": ("-c", SPLIT_AND_POOL, str(file)),
        "drike data inspect": inspect,
        "drike train --edits 300": (*train, "--edits", "300", "--out", str(run)),
    }


def main() -> None:
    """Make the file, run every step, print a row each."""
    parser = pages.parser(__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--flat", type=Path, nargs="*", default=[], help="EasyEdit's flat files")
    given = parser.parse_args()
    with pages.measured(given, TITLE, __doc__):
        measure(given)


def measure(given: argparse.Namespace) -> None:
    """Print the tables; progress goes to standard error."""
    facts = published_facts(given.flat) or invented_facts(random.Random(0))
    with tempfile.TemporaryDirectory() as place:
        file = Path(place, "counterfact.json")
        file.write_text(json.dumps(counterfact(given.rows, facts)), "utf-8")
        rows = []
        for step, arguments in steps(file, Path(place, "run")).items():
            seconds, memory = measured(arguments)
            rows.append((step, f"{seconds:.1f}", f"{memory:,.0f}"))
            print(*rows[-1], file=sys.stderr, flush=True)
        title = f"{given.rows:,} rows of {len(facts):,} facts, {file.stat().st_size / 1e6:.1f} MB"
        pages.draw(title, ("step", "seconds", "peak memory, MB"), rows)


if __name__ == "__main__":
    main()
