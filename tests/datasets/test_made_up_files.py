"""Any data file is loaded or refused in one sentence, never with a traceback.

`make test` tries 100 files, `make reliability` 10,000.
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drike.encoders import HashingEncoder
from drike.errors import DataError, PoolError
from drike.research import datasets
from drike.research.datasets import description
from drike.research.datasets.dataset import SplitIds
from drike.research.editors.budgets import Fraction
from drike.research.editors.in_context import InContextEditor
from drike.research.editors.pool import Pool
from drike.research.editors.rankings import Similarity
from drike.research.editors.selectors import RankAndCut
from drike.research.evaluation.evaluate import evaluate
from drike.research.runs.files import append, read_outcomes
from tests.datasets.test_datasets import flat_row, row
from tests.datasets.test_forms import group, known_row, zsre_row
from tests.fakes.damaged_json import mutate, replaced
from tests.fakes.models import ScriptedModel
from tests.fakes.tally import Tally

FEW, MANY = 100, 10_000
ENCODER, MODEL = HashingEncoder(32), ScriptedModel(str)


NAMES = ["Ada Bell", "Bo", "Cy Dee", "Eli 3", "Fay", "Gus Ito", "Øre", "Jan"]
FORMS: dict[str, Callable[[int], object]] = {
    "published": lambda i: row(i, f"{NAMES[i % 8]} {i}"),
    "flat": lambda i: flat_row(i, f"{NAMES[i % 8]} {i}", f"{NAMES[i % 8]} {i} was raised in"),
    "zsre": lambda i: zsre_row(f"{NAMES[i % 8]} {i}"),
    "knowedit": lambda i: known_row(f"{NAMES[i % 8]} {i}"),
    "knowedit zsre": lambda i: known_row(f"{NAMES[i % 8]} {i}", rephrase_prompt="Her town is"),
    "temporal": lambda i: group(f"{NAMES[i % 8]} {i}"),
}


def written(rows: list[object], rng: random.Random) -> bytes:
    """Write rows to a file: as a list or lines, in some encoding, perhaps truncated or with a byte changed."""
    dumped = [json.dumps(one, ensure_ascii=rng.random() < 0.5) for one in rows]
    dumped = [replaced(one) for one in dumped]
    end = rng.choice(["\n", "\n", "\r\n", "\n\n", " "])
    text = end.join(dumped) if rng.random() < 0.25 else f"[{f',{end}'.join(dumped)}]"
    match rng.randrange(24):
        case 0:
            text = text[: rng.randrange(len(text) + 1)]
        case 1:
            at = rng.randrange(len(text) + 1)
            text = (
                text[:at]
                + rng.choice(["\x00", "NaN", "]", "}", '"', "\\", "\\ud800", "\ufeff", ","])
                + text[at:]
            )
        case 2:
            text = rng.choice(
                [
                    "",
                    " ",
                    "null",
                    "3",
                    '"a"',
                    "{}",
                    "[]",
                    "[1]",
                    "[[]]",
                    "not JSON",
                    "[" * 5000,
                    text + text,
                ]
            )
        case 3:
            text = text.replace('": ', '": {"a": ', 1)
        case 4:
            text = re.sub(
                r'("\w+": )', rf"\g<1>{rng.randrange(9)}, \g<1>", text, count=1
            )  # a key that occurs twice
        case _:
            pass
    content = text.encode(
        rng.choice(["utf-8"] * 17 + ["utf-8-sig", "utf-16", "utf-32"]), "surrogatepass"
    )
    if rng.random() < 0.05 and content:
        at = rng.randrange(len(content))
        content = content[:at] + bytes([rng.randrange(256)]) + content[at + 1 :]
    return rng.choice([b"\xef\xbb\xbf", b""] if rng.random() < 0.1 else [b""]) + content


def use(path: Path, rng: random.Random) -> str:
    """Load a file and do what a run does before it calls a model; "read", or "refused" in one sentence."""
    try:
        dataset = datasets.load(
            path, cleaning=rng.random() < 0.8, target=rng.choice(["alt", "answers"])
        )
    except DataError as problem:
        assert path.name in str(problem)
        assert "\n" not in str(problem).encode().decode() and len(str(problem)) < 1_000
        return "refused"
    assert all(line.encode() for line in description(dataset))
    try:
        parts = dataset.split(seed=rng.randrange(9))
        parts.ids.save(path.with_suffix(".split"))
        assert dataset.restore(SplitIds.load(path.with_suffix(".split"))) == parts
        pool = Pool(parts.demonstrations, ENCODER)
        outcomes = list(
            evaluate(
                InContextEditor("IKE", pool, RankAndCut(Similarity(), Fraction(1.0))),
                MODEL,
                [*parts.train, *parts.test][:2],
            )
        )
        append(path.with_suffix(".outcomes"), map(asdict, outcomes))
        assert read_outcomes(path.with_suffix(".outcomes")) == outcomes
        path.with_suffix(".outcomes").unlink(missing_ok=True)
    except (DataError, PoolError) as problem:
        assert "\n" not in str(problem).encode().decode()
        return "refused for a run"
    return "read"


def check_file(seed: int, folder: Path) -> str:
    rng = random.Random(seed)
    form = FORMS[rng.choice(list(FORMS))]
    rows = [form(i) for i in range(rng.choice([1, 2, 3, 9, 80, 80, 80]))]
    for _ in range(rng.choice([0, 1, 1, 1, 2, 5])):
        if rows:
            mutate(rows, rng)
    path = folder / "fuzz.json"
    path.write_bytes(written(rows, rng))
    return use(path, rng)


@settings(
    max_examples=FEW, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
@given(seed=st.integers(0, 2**48))
def test_any_data_file_is_loaded_or_refused_in_one_sentence(
    seed: int, tmp_path_factory: pytest.TempPathFactory
) -> None:
    check_file(seed, tmp_path_factory.getbasetemp())


@pytest.mark.reliability
def test_ten_thousand_data_files_are_loaded_or_refused(tmp_path: Path, tally: Tally) -> None:
    tally("made-up data files", MANY)
    print("files:", dict(Counter(check_file(seed, tmp_path) for seed in range(MANY))))
