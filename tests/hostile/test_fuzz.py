"""Any data file and any command line either works or is refused in one sentence, never with a traceback.

`make test` tries 100 files and 100 command lines, `make reliability` 10,000 of each.
"""

from __future__ import annotations

import copy
import json
import os
import random
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from drike.encoders import HashingEncoder
from drike.errors import DataError, ModelError, PoolError
from drike.models.protocols import Request
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
from tests.fakes.models import ScriptedModel
from tests.fakes.servers import Handler, connect, echoed, serve, serving, usage
from tests.fakes.tally import Tally

FEW, MANY = 100, 10_000
ENCODER, MODEL = HashingEncoder(32), ScriptedModel(str)

# -- data files ------------------------------------------------------------------------------------------------------

NAMES = ["Ada Bell", "Bo", "Cy Dee", "Eli 3", "Fay", "Gus Ito", "Øre", "Jan"]
FORMS: dict[str, Callable[[int], object]] = {
    "published": lambda i: row(i, f"{NAMES[i % 8]} {i}"),
    "flat": lambda i: flat_row(i, f"{NAMES[i % 8]} {i}", f"{NAMES[i % 8]} {i} was raised in"),
    "zsre": lambda i: zsre_row(f"{NAMES[i % 8]} {i}"),
    "knowedit": lambda i: known_row(f"{NAMES[i % 8]} {i}"),
    "knowedit zsre": lambda i: known_row(f"{NAMES[i % 8]} {i}", rephrase_prompt="Her town is"),
    "temporal": lambda i: group(f"{NAMES[i % 8]} {i}"),
}
VALUES: list[object] = [
    None, True, False, 0, -1, 10**30, 1.5, float("nan"), float("inf"), "", " ", "\t\n", "x", "{}", "{} {}", "{", "_X_",
    "\ud800", "a\udc80b", "\x00", "\ufeff", "\u202e\u2066", "\U0001f600", "e\u0301", "a\u2028b\u0085c",
    "x" * 20_000, ". " * 5_000, "\n" * 3_000, [], [[]], [None], {}, {"": ""}, {"\ud800": 1}, [[["a"]]], ["a", 1],
    "../../etc", "<b>[red]", "None",
]  # fmt: skip


DEEP = {
    f"@deep {depth}@": "[" * depth + "]" * depth for depth in (3, 90, 2_000)
}  # inserted after encoding as text


def places(value: object) -> Iterator[tuple[object, object]]:
    """Yield every (container, key) inside a JSON value."""
    keys = (
        list(value)
        if isinstance(value, dict)
        else range(len(value))
        if isinstance(value, list)
        else []
    )
    for key in keys:
        yield value, key
        yield from places(value[key])  # type: ignore[index]


def mutate(rows: list[object], rng: random.Random) -> None:
    """Change one place in some rows."""
    container, key = rng.choice(list(places(rows)))
    match rng.randrange(8):
        case 0:
            del container[key]  # type: ignore[attr-defined]
        case 1 | 2:
            container[key] = copy.deepcopy(rng.choice(VALUES))  # type: ignore[index]
        case 3:
            container[key] = rng.choice(list(DEEP))  # type: ignore[index]
        case 4:
            container[key] = [container[key]]  # type: ignore[index]
        case 5:
            other, place = rng.choice(list(places(rows)))
            container[key] = json.loads(json.dumps(other[place]))  # type: ignore[index]
        case 6 if isinstance(container, dict):
            container[rng.choice([*map(str, container), "case_id", "\ud83d", "x" * 300])] = (
                container.pop(key)
            )
        case _:
            rows.append(json.loads(json.dumps(rng.choice(rows))))


def replaced(text: str) -> str:
    for marker, nested in DEEP.items():
        text = text.replace(f'"{marker}"', nested)
    return text


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


# -- answers of servers ----------------------------------------------------------------------------------------------

HEADERS = [
    {"Content-Type": "application/json; charset=utf-16"}, {"Content-Type": "text/html"}, {"Content-Encoding": "gzip"},
    {"Content-Encoding": "gzip, br"}, {"Retry-After": "soon"}, {"Location": "http://127.0.0.2:1"}, {"X-A": "\u00e9"},
]  # fmt: skip


def check_answers(number: int, seed: int) -> Counter[str]:
    """Send mutated answers to completions, chats and scores: each is refused in a sentence, or can be saved."""
    rng, hostile, results = random.Random(seed), [False], Counter[str]()
    good = serving(ScriptedModel(str), scores=True)

    def respond(handler: Handler, body: dict[str, Any]) -> None:
        if not hostile[0]:
            return good(handler, body)
        if body.get("echo"):
            right = echoed(ScriptedModel(str), body["prompt"])
        else:
            text = (
                {"text": "Oslo"}
                if "prompt" in body
                else {"message": {"role": "assistant", "content": "Oslo"}}
            )
            right = {"choices": [{**text, "finish_reason": "stop"}], "usage": usage("a", "Oslo")}
        rows: list[object] = [right]
        for _ in range(rng.choice([1, 1, 2])):
            mutate(rows, rng)
        code, header = rng.choice([200] * 8 + [400, 429, 500]), rng.choice([*HEADERS, *[{}] * 20])
        handler.reply(code, replaced(json.dumps(rows[0] if rows else None)).encode(), header)

    with serve(respond) as served:
        chat = connect(served.named(), deadline=5.0, attempts=1)
        plain = connect(served.named(), template="plain", deadline=5.0, attempts=1)
        assert plain.score is not None
        hostile[0] = True
        for i in range(number):
            try:
                match i % 3:
                    case 0:
                        [answer] = chat.generate(["Where?"])
                    case 1:
                        [answer] = plain.generate(["Where?"])
                    case _:
                        [answer] = plain.score([Request("Where? In", " Oslo")])
                json.dumps(asdict(answer), ensure_ascii=False, allow_nan=False).encode()
                results["read"] += 1
            except ModelError as problem:
                assert len(str(problem)) < 400 and "\n" not in str(problem).encode().decode()
                results["refused"] += 1
        json.dumps(asdict(chat.usage + plain.usage), allow_nan=False)
        chat.close()
        plain.close()
    return results


def test_any_answer_of_a_server_is_read_or_refused_in_one_sentence() -> None:
    assert check_answers(FEW, 0).keys() == {"read", "refused"}


@pytest.mark.reliability
def test_ten_thousand_answers_of_a_server_are_read_or_refused(tally: Tally) -> None:
    tally("made-up answers of a server", MANY)
    print("answers:", dict(check_answers(MANY, 1)))


# -- command lines ---------------------------------------------------------------------------------------------------


def check_command_lines(number: int, seed: int) -> None:
    """Run `fuzzing.py` in a separate process, without keys, hub or the user's cache."""
    command = [
        sys.executable,
        "-m",
        "tests.hostile.fuzzing",
        "--number",
        str(number),
        "--seed",
        str(seed),
    ]
    path = os.pathsep.join(filter(None, sys.path))
    done = subprocess.run(
        command, check=False, capture_output=True, text=True, env={**os.environ, "PYTHONPATH": path}
    )
    assert done.stdout, done.stderr
    result = json.loads(done.stdout)
    print(json.dumps(result))
    assert done.returncode == 0 and not result["wrong"]
    assert result["tried"] == number


@pytest.mark.slow
def test_any_command_line_succeeds_or_is_refused_in_one_sentence() -> None:
    check_command_lines(FEW, 0)


@pytest.mark.reliability
@pytest.mark.parametrize("seed", range(1, 11))
def test_ten_thousand_command_lines_succeed_or_are_refused(seed: int, tally: Tally) -> None:
    tally("made-up command lines", MANY // 10)
    check_command_lines(MANY // 10, seed)
