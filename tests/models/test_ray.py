"""Ray actors as replicas. Needs Ray and some minutes: `make ray`.

What needs no Ray is in test_replicas.
"""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from drike import tinyfacts
from drike.encoders import HashingEncoder
from drike.errors import ModelError
from drike.models.local.huggingface import load as load_here
from drike.models.protocols import Request
from drike.research import datasets
from drike.research.editors.budgets import Fraction
from drike.research.editors.in_context import InContextEditor
from drike.research.editors.pool import Pool
from drike.research.editors.rankings import Similarity
from drike.research.editors.selectors import RankAndCut
from drike.research.evaluation.evaluate import evaluate
from drike.research.runs.files import read_outcomes
from tests.fakes.commands import run

ray = pytest.importorskip("ray")
pytestmark = pytest.mark.ray

WHERE = str(tinyfacts.MODEL)
ASKED = [
    Request("The capital of France is", " Paris"),
    Request("The capital of France is", " Rome"),
]


@pytest.fixture(scope="module", autouse=True)
def cluster() -> Iterator[None]:
    """Start a private Ray with two cores on any machine, so that its limits can be reached."""
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"
    ray.init(address="local", num_cpus=2, num_gpus=0, include_dashboard=False, log_to_driver=False)
    yield
    ray.shutdown()


def test_ray_replicas_give_the_same_outcomes_as_the_local_model() -> None:
    from drike.models.ray import load

    cases = datasets.load(tinyfacts.ROWS).cases
    editor = InContextEditor(
        "IKE", Pool(cases[459:], HashingEncoder()), RankAndCut(Similarity(), Fraction(1.0))
    )
    expected = list(evaluate(editor, load_here(WHERE, device="cpu"), cases[:6]))
    for replicas in (1, 2):
        model = load(WHERE, replicas=replicas, name="embedded")
        assert (model.info.name, len(model.models)) == ("embedded", replicas)
        for mine, theirs in zip(evaluate(editor, model, cases[:6]), expected, strict=True):
            assert (mine.case_id, mine.query, mine.correct) == (
                theirs.case_id,
                theirs.query,
                theirs.correct,
            )
            assert mine.logprob_margin == pytest.approx(theirs.logprob_margin, abs=1e-3)
        assert model.usage.calls == 6 and model.usage.tokens_computed > 0
        del model


def test_a_ray_replica_has_the_info_and_scores_of_its_model() -> None:
    from drike.models.ray import load

    model = load(WHERE, replicas=1, name="embedded")
    here = load_here(WHERE, device="cpu", name="embedded")
    assert model.info == replace(here.info, calls_at_once=2)
    assert model.generate(["The capital of France is"]) == here.generate(
        ["The capital of France is"]
    )
    assert model.count_tokens(["The capital"]) == here.count_tokens(["The capital"])
    for mine, theirs in zip(model.score(ASKED), here.score(ASKED), strict=True):
        assert (
            mine.logprobs == pytest.approx(theirs.logprobs, abs=1e-4)
            and mine.greedy == theirs.greedy
        )
    model.score(ASKED)
    assert model.usage.cached == 2
    model.forget()
    model.score(ASKED)
    assert model.usage.cached == 2


def test_ray_failures_are_one_sentence_with_a_remedy() -> None:
    from drike.models.ray import load

    with pytest.raises(ModelError, match="no model folder"):
        load("/nowhere/at/all", replicas=1)
    with pytest.raises(ModelError, match="ask for 2 at most"):
        load(WHERE, replicas=3)
    with pytest.raises(ModelError, match=r"GPU .* leave replicas out"):
        load(WHERE, replicas=1, gpus=1)
    model = load(WHERE, replicas=2)
    with pytest.raises(ModelError, match=r"^the continuation '' is empty"):
        model.score([Request("x", "")])
    with pytest.raises(ModelError, match=r"^replica . of 2 failed with .* without replicas"):
        model.score([Request("x", None)])  # type: ignore[arg-type]
    ray.kill(model.models[0]._actor)  # permanently
    with pytest.raises(ModelError, match=r"^replica 1 of 2 is gone .* fewer replicas"):
        model.models[0].score(ASKED)
    assert model.models[1].score(ASKED)


PRIVATE = """
import json, os, sys
import psutil
from drike.models.ray import load
model = load(sys.argv[1], replicas=1)
import ray
processes = psutil.Process().children(recursive=True)
found = [one.laddr.ip for process in processes for one in process.net_connections("inet") if one.status == "LISTEN"]
print(json.dumps({
    "address": ray.get_runtime_context().gcs_address,
    "token": os.environ["RAY_AUTH_TOKEN"],
    "listening": found,
    "variables": [list(process.environ()) for process in processes],
    "folder": os.path.dirname(os.path.dirname(ray._private.worker._global_node.get_session_dir_path())),
    "own": os.environ["OPENAI_API_KEY"],
}), flush=True)
sys.stdin.read()
"""
JOIN = """
import sys, ray
ray.init(address=sys.argv[1], log_to_driver=False)
print("joined", len(ray.nodes()))
"""


def test_a_private_ray_is_open_to_its_own_process_only(tmp_path: Path) -> None:
    """Ports on the loopback interface, a demanded token, a folder of one user, and no keys inherited."""
    clean = {name: value for name, value in os.environ.items() if not name.startswith("RAY_")} | {
        "HOME": str(tmp_path)
    }
    names = (
        "OPENAI_API_KEY",
        "DRIKE_API_KEY",
        "HF_TOKEN",
        "AWS_ACCESS_KEY_ID",
        "PGPASSWORD",
        "SOME_SERVICE_TOKEN",
    )
    owner = subprocess.Popen(
        [sys.executable, "-c", PRIVATE, WHERE],
        env=clean | dict.fromkeys(names, "sk-1234567890"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert owner.stdin is not None and owner.stdout is not None
    try:
        seen = json.loads(owner.stdout.readline())
        assert {address.removeprefix("::ffff:") for address in seen["listening"]} == {"127.0.0.1"}
        assert len(seen["listening"]) > 3, "Ray's services were not found"
        inherited = {name for variables in seen["variables"] for name in variables}
        assert not inherited & set(names) and "PATH" in inherited and seen["own"] == "sk-1234567890"
        assert stat.S_IMODE(Path(seen["folder"]).stat().st_mode) == 0o700
        joining = clean | {
            "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0"
        }  # so that it, too, talks over the loopback interface
        with_token = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN": seen["token"]}
        strangers = [{}, {"RAY_AUTH_MODE": "disabled"}, with_token | {"RAY_AUTH_TOKEN": "0" * 64}]
        join = [sys.executable, "-c", JOIN, seen["address"]]
        tries = [
            subprocess.Popen(
                join,
                env=joining | more,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
                text=True,
            )
            for more in [with_token, *strangers]
        ]
        with_it, *without = [process.communicate(timeout=120)[0] for process in tries]
        assert "joined 1" in with_it
        assert all("joined" not in output and "InvalidAuthToken" in output for output in without), (
            without
        )
    finally:
        owner.stdin.close()
        assert owner.wait(60) == 0
    assert not Path(seen["folder"]).exists()


def test_replicas_take_no_module_from_the_working_folder(tmp_path: Path) -> None:
    for name in ("drike", "torch", "transformers", "json"):
        (tmp_path / f"{name}.py").write_text(
            f"open({str(tmp_path / 'executed')!r}, 'a').write('{name} ')"
        )
    code = f"from drike.models.ray import load; print(len(load({WHERE!r}, replicas=1).generate(['The capital of'])))"
    where = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run(
        [sys.executable, "-P", "-c", code],
        cwd=tmp_path,
        env=where,
        capture_output=True,
        text=True,
        check=False,
    )
    assert not (tmp_path / "executed").exists() and done.stdout.split() == ["1"], done.stderr


def test_a_replica_that_dies_is_restarted_and_its_call_repeated() -> None:
    from drike.models.ray import load

    model = load(WHERE, replicas=1, name="embedded")
    first = model.score(ASKED)
    for _ in range(2):
        ray.kill(model.models[0]._actor, no_restart=False)
        assert [score.greedy for score in model.score(ASKED)] == [score.greedy for score in first]
    assert model.usage.calls == 3


def test_the_command_line_trains_and_evaluates_with_replicas(tmp_path: Path) -> None:
    small = ["--encoder", "hashing", "--replicas", "2"]
    trained = str(tmp_path / "train")
    tested = str(tmp_path / "test")
    more = [
        "--edits",
        "4",
        "--test",
        "3",
        "--epochs",
        "1",
        "--parallel-edits",
        "2",
        "--out",
        trained,
    ]
    assert run("train", *small, *more) == 0
    assert (
        run("evaluate", "--run", trained, "--editors", "dr-ike", "--replicas", "2", "--out", tested)
        == 0
    )
    settings = json.loads((tmp_path / "train" / "run.json").read_text("utf-8"))["settings"]
    assert (settings["replicas"], settings["parallel_edits"]) == (2, 2)
    assert (
        json.loads((tmp_path / "test" / "run.json").read_text("utf-8"))["settings"]["replicas"] == 2
    )
    assert (
        len({o.case_id for o in read_outcomes(tmp_path / "test" / "outcomes" / "dr-ike.jsonl")})
        == 3
    )
    assert len((tmp_path / "train" / "episodes.jsonl").read_text("utf-8").splitlines()) == 4
