"""Calibration: how often promises fail, which metric they are about, and when they are refused."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch

from drike.editors.budgets import Threshold
from drike.editors.pool import Pool
from drike.editors.query_policy import QueryPolicy
from drike.editors.retriever import Retriever
from drike.editors.role_counts import RoleCounts, mixes_of
from drike.edits import EditCase
from drike.encoders import HashingEncoder
from drike.errors import GuaranteeError, UsageError
from drike.evaluation.answer_matrix import CaseAnswers
from drike.evaluation.risk_control import (
    CertifiedGuarantee,
    Counts,
    Guarantee,
    calibrate,
    certified,
    exceeds,
    lower_bound,
    rates,
    score,
)
from drike.runs import checkpoint
from drike.runs.checkpoint import Checkpoint
from drike.training.certify import OFFSETS, answered_at, check_possible, most_probes, promised
from tests.worlds.commands import run
from tests.worlds.small import CAPITALS

EDITS, DRAWS = 40, 400
NOISE = 3 * (0.05 * 0.95 / DRAWS) ** 0.5


def worlds(level: float, *, harder: float = 0.2) -> Iterator[tuple[Counts, Counts]]:
    """Draws of edits whose RR is exactly `level`: half have 8 neighbours and are harder, half have 2."""
    rng = np.random.default_rng(0)
    for _ in range(DRAWS):
        many = rng.random(EDITS) < 0.5
        n = np.where(many, 8, 2)
        p = np.where(many, level - harder / 4, level + harder)  # (8 (l - h/4) + 2 (l + h)) / 10 = l
        shared = rng.random(EDITS) < 0.5  # half of the edits answer all their neighbours alike
        right = np.where(shared, n * (rng.random(EDITS) < p), rng.binomial(n, p))
        ones = np.ones(EDITS)
        yield np.stack([ones, ones, right], axis=1).astype(float), np.stack([ones, ones, n], axis=1).astype(float)


@pytest.mark.parametrize("level", [0.7, 0.8])
def test_a_promise_that_does_not_hold_passes_at_most_one_time_in_twenty(level: float) -> None:
    promise, passed, by_edit = Guarantee("rr", level), 0, 0
    for right, probes in worlds(level - 1e-6):
        passed += bool(certified(promise, {"only": right}, probes, max_probes=8))
        by_edit += exceeds(right[:, 2] / probes[:, 2], level)
    assert passed / DRAWS <= 0.05 + NOISE
    assert by_edit / DRAWS > 0.1, "the mean of the edits' shares is another metric, and promises too much"


@pytest.mark.parametrize(("level", "edits"), [(0.8, 40), (0.9, 59), (0.6, 20)])
def test_right_and_wrong_answers_at_the_level_itself_rarely_exceed_it(level: float, edits: int) -> None:
    rng, draws = np.random.default_rng(1), 2000
    error = np.mean([exceeds(rng.random(edits) < level, level) for _ in range(draws)])
    assert 0.01 < error <= 0.05 + 3 * (0.05 * 0.95 / draws) ** 0.5


def test_many_settings_do_not_raise_the_error() -> None:
    promise, false = Guarantee("rr", 0.75), 0
    for (safe, probes), (edge, _), (worse, _) in zip(worlds(0.9, harder=0.05), worlds(0.75), worlds(0.7), strict=True):
        settings = {"safe": safe, **dict.fromkeys(range(5), edge), **{str(i): worse for i in range(5)}}
        false += len(certified(promise, settings, probes, max_probes=8)) > 1
    assert false / DRAWS <= 0.05 + NOISE


def test_a_promise_that_holds_by_far_nearly_always_passes() -> None:
    passed = [
        bool(certified(Guarantee("rr", 0.7), {"only": right}, probes, max_probes=8))
        for right, probes in worlds(0.96, harder=0.04)
    ]
    assert np.mean(passed) > 0.95


def test_no_setting_behind_one_that_fails_is_certified() -> None:
    probes = np.ones((60, 3))
    good, bad = probes.copy(), probes.copy()
    bad[:20, 2] = 0
    promise = Guarantee("rr", 0.8)
    assert certified(promise, {"a": good, "b": good, "c": bad, "d": good}, probes) == ["a", "b"]
    assert certified(promise, {"a": bad, "b": good}, probes) == []
    assert calibrate({"a": bad}, probes, guarantee=promise) is None


def test_rates_average_to_the_level_exactly_where_the_metric_does() -> None:
    right, probes = (
        np.array([[1, 1, 9], [0, 2, 1], [1, 0, 0]], dtype=float),
        np.array([[1, 2, 10], [1, 2, 2], [1, 2, 0]]),
    )
    assert rates("rr", 10 / 12, right, probes, 10).mean() == pytest.approx(10 / 12)
    assert rates("rr", 0.8, right, probes)[2] == 0.8, "an edit without neighbours says nothing"
    assert rates("esr", 0.5, right, probes).tolist() == [1, 0, 1]
    assert rates("pc", 0.9, right, probes) == pytest.approx([0.5, 1, 0])
    with pytest.raises(ValueError, match="10 probes"):
        rates("rr", 0.8, right, probes, 5)


def test_the_best_level_that_can_be_promised_is_the_largest_that_passes() -> None:
    for right, probes in list(worlds(0.9, harder=0.1))[:5]:
        bound = lower_bound("rr", right, probes, max_probes=8)
        assert 0.5 < bound < right[:, 2].sum() / probes[:, 2].sum()
        assert [
            bool(certified(Guarantee("rr", x), {0: right}, probes, max_probes=8)) for x in (bound, bound + 0.01)
        ] == [
            1,
            0,
        ]


def test_without_a_promise_the_setting_with_the_largest_s_is_chosen_less_its_cost() -> None:
    rng = np.random.default_rng(0)
    probes, probs = np.ones((50, 3)), np.sort(rng.dirichlet(np.ones(4), size=50))[:, ::-1]
    under = [np.column_stack([rng.random(50) < e, rng.random(50) < e, rng.random(50) < r]).astype(float)
             for e, r in ((0.98, 0.3), (0.9, 0.85), (0.6, 0.9), (0.4, 0.95))]  # fmt: skip
    by_k = dict(enumerate(under, 1))
    assert calibrate(by_k, probes) == 2
    assert calibrate(by_k, probes, cost={1: 0, 2: 0.9, 3: 0.9, 4: 0.9}) == 1
    kept = {sigma: [Threshold(sigma).keep(row) for row in probs.tolist()] for sigma in (0.0, 0.1, 0.25, 0.5)}
    by_sigma = {sigma: np.array([under[k - 1][i] for i, k in enumerate(ks)]) for sigma, ks in kept.items()}
    assert calibrate(by_sigma, probes) == max(by_sigma, key=lambda sigma: score(by_sigma[sigma], probes))


@pytest.mark.parametrize("text", ["rr>=1.2", "rr>=0", "foo>=.5", "rr>.5", "rr>=", "rr>=.5,pc>=.5", "s>=.9", "rr>=nan"])
def test_a_promise_of_another_form_is_refused(text: str) -> None:
    with pytest.raises(UsageError, match="guarantee"):
        Guarantee.parse(text)


def test_a_promise_is_read_and_written() -> None:
    assert Guarantee.parse(" RR >= .85") == Guarantee("rr", 0.85)
    assert str(Guarantee.parse("pc>=0.9")) == "pc>=.9"
    for wrong in (("s", 0.5, 0.95), ("rr", 1.0, 0.95), ("rr", 0.5, 1.0)):
        with pytest.raises(ValueError, match="level"):
            Guarantee(*wrong)  # type: ignore[arg-type]


ENCODER = HashingEncoder()
MIXES = mixes_of(Pool(CAPITALS[30:], ENCODER).roles)


def test_an_offset_of_0_changes_nothing_and_large_ones_leave_one_role() -> None:
    policy = QueryPolicy(ENCODER, MIXES)
    policy.head.weight.data.normal_(generator=torch.Generator().manual_seed(0))
    case = CAPITALS[0]
    queries = [probe.query for probe in case.probes]
    assert policy.with_logit_offset(0).choose(case.edit, queries) == policy.choose(case.edit, queries)
    assert {*policy.with_logit_offset(OFFSETS[-1]).choose(case.edit, queries)} == {RoleCounts(0, 0, 16)}
    assert {*policy.with_logit_offset(OFFSETS[0]).choose(case.edit, queries)} == {RoleCounts(4, 12, 0)}
    whole = {RoleCounts(0, 0, 16), RoleCounts(4, 12, 0)}
    assert {*policy.with_logit_offset(64).choose(case.edit, queries)} <= whole
    assert list(OFFSETS) == sorted(OFFSETS)


def answered(cases: tuple[EditCase, ...]) -> list[CaseAnswers]:
    """Neighbours are right with at least 4 retains, all else without any; one neighbour in eight is never right."""
    rows = [
        (str(i), [[(mix.retains >= 4) == bool(j) and not (j and i % 8 == 0) for mix in MIXES] for j in kinds])
        for i, kinds in enumerate([p in case.neighborhood for p in case.probes] for case in cases)
    ]
    return [CaseAnswers(name, tuple(map(tuple, found)), ()) for name, found in rows]


def test_a_policy_that_forgets_neighbours_is_leant_until_it_keeps_the_promise() -> None:
    cases = CAPITALS[:30]
    policy, answers = QueryPolicy(ENCODER, MIXES), answered(CAPITALS[:30])
    right, _, _ = answered_at(policy, cases, answers)
    assert right[0.0][:, 2].sum() == 0, "untrained, it shows nothing"
    most = most_probes(Guarantee("rr", 0.6), cases)
    kept = promised(policy, cases, answers, Guarantee("rr", 0.6), most=most)
    assert (kept.edits, kept.measured) == (30, right[kept.offset][:, 2].sum() / (30 * most))
    assert kept.measured > 0.8 and kept.offset > 0
    with pytest.raises(GuaranteeError, match=r"rr>=.85 cannot be promised with 30 edits: best certified 0\.[67]\d;"):
        promised(policy, cases, answers, Guarantee("rr", 0.85), most=most)
    assert promised(policy, cases, answers, Guarantee("pc", 0.85), most=1).offset <= 0
    with pytest.raises(UsageError, match="even if every answer is right"):
        check_possible(Guarantee("rr", 0.95), cases)
    with pytest.raises(UsageError, match="no edit held out for it has a neighborhood probe"):
        check_possible(Guarantee("rr", 0.5), [EditCase("a", cases[0].edit, cases[0].probes[:1])])


def test_a_checkpoint_keeps_the_promise_and_one_without_the_field_still_loads(tmp_path: Path) -> None:
    kept = CertifiedGuarantee(Guarantee("rr", 0.85), 100, -2.0, 0.93)
    saved = Checkpoint(Retriever(ENCODER), Threshold(), per_query=QueryPolicy(ENCODER, MIXES), promise=kept)
    checkpoint.save(saved, tmp_path)
    assert checkpoint.load(tmp_path).promise == kept
    content = checkpoint._serialise(Checkpoint(Retriever(ENCODER), Threshold()))
    described = checkpoint._verified(content)
    del described["promise"], described["sha256"]
    (tmp_path / checkpoint.FILE).write_bytes(checkpoint._sealed(described, checkpoint.unpacked(content)))
    assert checkpoint.load(tmp_path).promise is None


SMALL = [
    "train", "--objective", "balanced", "--model", "reader", "--encoder", "hashing", "--edits", "6", "--test", "3",
    "--epochs", "1", "--calibrate-on", "12",
]  # fmt: skip


def test_a_promise_from_the_command_line_is_kept_in_the_run_and_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    promised, refused = tmp_path / "promised", tmp_path / "refused"
    assert run(*SMALL, "--promise", "rr>=.6", "--out", str(promised)) == 0
    assert "Guaranteed: rr>=.6 for new edits like the 12 held out" in capsys.readouterr().out
    loaded, split = checkpoint.load(promised), json.loads((promised / "split.json").read_bytes())
    assert loaded.promise is not None and loaded.per_query is not None
    assert (loaded.promise.edits, len(split["validation"])) == (12, 12)
    assert len(loaded.per_query.trained_on) == 18 and len(loaded.retriever.trained_on) == 6
    assert run("evaluate", "--run", str(promised), "--editors", "dr-ike-q", "--out", str(tmp_path / "e")) == 0
    assert "Guarantee of DR-IKE-Q: rr>=.6" in capsys.readouterr().out
    assert run(*SMALL, "--promise", "rr>=.75", "--out", str(refused)) == 1
    said = capsys.readouterr()
    assert "rr>=.75 cannot be promised with 12 edits: best certified" in said.err
    assert "Saved in" in said.out and checkpoint.load(refused).promise is None


def test_promises_that_cannot_be_kept_are_refused_before_the_model_is_asked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plain = [word for word in SMALL if word not in ("--objective", "balanced")]
    for words, reason in (
        ([*SMALL, "--promise", "rr>=1.2"], "a level between 0 and 1"),
        ([*SMALL, "--promise", "s>=.9"], "S cannot be guaranteed"),
        ([*SMALL, "--promise", "rr>=.95"], "even if every answer is right"),
        ([*plain, "--promise", "rr>=.6"], "add --objective s"),
        (SMALL, "add --guarantee"),
    ):
        assert run(*words, "--out", str(tmp_path / "run")) == 2
        assert reason in capsys.readouterr().err
        assert not (tmp_path / "run").exists()
