"""Summaries of training runs and of variants of editors, and verdicts on differences."""

from __future__ import annotations

import json
from dataclasses import asdict, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchmarks.studies import efficiency_table, verdict
from drike.editors.budgets import Fraction, Threshold
from drike.edits import ASPECTS_OF_S, Aspect
from drike.evaluation.metrics import Estimate, Outcome, counted, summarise
from drike.report.training import by_epoch, epochs_table, step_of
from drike.report.variants import agreement, agreement_table, distribution_of, distribution_table, frontier_table
from drike.runs.folder import EpisodeRecord
from drike.support.records import read
from drike.training.algorithm1 import Episode


def episode(epoch: int, rewards: tuple[int, ...], *, tokens: int | None = 100, seconds: float = 2.0) -> Episode:
    return Episode(
        epoch=epoch, case_id="1", order=(0, 1, 2), probs=(0.5, 0.3, 0.2), rewards=rewards,
        correct=tuple(r > 0 for r in rewards), loss=0.0,
        budget=Threshold(0.1 * epoch), prompt_tokens=tokens, seconds=seconds, kept=len(rewards), sigma=0.1 * epoch,
    )  # fmt: skip


def outcome(case: str, shots: int, *, correct: bool = True, editor: str = "DR-IKE", query: str = "q") -> Outcome:
    return Outcome(
        editor=editor, case_id=case, aspect=Aspect.REWRITE, query=query, target="new", distractor="old",
        correct=correct, answer=None, matched=None, exact=None, prefers=None,
        prob_margin=None, logprob_margin=None, logit_gap=None,
        shots=shots, pruned=0, prompt_tokens=10 * shots, calls=1, seconds=0.1,
    )  # fmt: skip


REWARDS = st.lists(st.sampled_from([1, -1]), min_size=1, max_size=3).map(tuple)


@given(st.lists(st.tuples(st.integers(1, 4), REWARDS), min_size=1, max_size=20))
def test_epoch_summaries_add_up_to_the_whole_run(drawn: list[tuple[int, tuple[int, ...]]]) -> None:
    episodes = [episode(epoch, rewards) for epoch, rewards in sorted(drawn, key=lambda one: one[0])]
    epochs = by_epoch(episodes)
    assert [one.epoch for one in epochs] == sorted({epoch for epoch, _ in drawn})
    assert sum(one.episodes for one in epochs) == len(episodes)
    assert sum(one.calls for one in epochs) == sum(one.mean_k * one.episodes for one in epochs)
    assert sum(one.calls for one in epochs) == sum(len(rewards) for _, rewards in drawn)
    assert sum(one.prompt_tokens or 0 for one in epochs) == 100 * len(episodes)
    assert sum(one.seconds for one in epochs) == pytest.approx(2.0 * len(episodes))
    assert all(0 <= one.esr <= 1 and -1 <= one.reward <= 1 for one in epochs)


def test_an_epoch_takes_its_last_sigma_and_keeps_unknown_tokens_unknown() -> None:
    [one] = by_epoch([episode(1, (1, -1)), replace(episode(1, (1,), tokens=None), sigma=0.7)])
    assert one.sigma == 0.7 and one.prompt_tokens is None and one.esr == 0.5
    half = replace(episode(1, (1,)), budget=Fraction(0.5), sigma=None)
    [fixed] = by_epoch([half])
    assert fixed.sigma is None and fixed.share == 0.5
    assert epochs_table({"run": [fixed]}).rows == (
        ("run",),
        ("1", "1.000", "+1.000", "1.00", "share 50%", "1", "100", "2.0"),
    )


def test_training_esr_is_measured_at_the_budgets_cut() -> None:
    tried = [replace(episode(1, (1, -1)), kept=1), replace(episode(1, (-1, 1)), kept=1)]
    assert by_epoch(tried)[0].esr == 0.5 and by_epoch(tried[:1])[0].esr == 1
    assert step_of(read(EpisodeRecord, json.loads(json.dumps(asdict(EpisodeRecord.of(tried[0])))))).correct


def test_the_efficiency_table_compares_every_run_with_the_first() -> None:
    full = [episode(e, (1, 1, 1), tokens=300, seconds=2080.1) for e in (1, 2)]
    cut = [episode(e, (1,), tokens=100, seconds=1459.6) for e in (1, 2)]
    table = efficiency_table({"without": full, "with": cut})
    first, second = [dict(zip(table.header, row, strict=True)) for row in table.rows]
    assert first["tokens saved"] == first["s saved"] == "0.0 %"
    assert (second["tokens saved"], second["s saved"]) == ("66.7 %", "29.8 %"), "the paper's own arithmetic"
    assert second["mean k"] == "1.00"
    unknown = efficiency_table({"a": [episode(1, (1,), tokens=None)], "b": cut})
    assert unknown.rows[0][3] == unknown.rows[0][5] == unknown.rows[1][5] == "n/a"


@given(st.lists(st.integers(1, 16), min_size=1, max_size=50))
def test_the_retain_distribution_counts_every_edit_once(shots: list[int]) -> None:
    outcomes = [outcome(str(i), k) for i, k in enumerate(shots)]
    paraphrases = [replace(one, aspect=Aspect.PARAPHRASE) for one in outcomes]
    found = distribution_of([*outcomes, *paraphrases])
    assert sum(found.counts.values()) == len(shots)
    assert sum(k * n for k, n in found.counts.items()) / len(shots) == pytest.approx(found.mean)
    spread = sum(n * (k - found.mean) ** 2 for k, n in found.counts.items()) / len(shots)
    assert found.std == pytest.approx(spread**0.5)
    rows = distribution_table(outcomes).rows
    assert [int(row[0]) for row in rows] == list(range(min(shots), max(shots) + 1))
    assert max(len(row[2]) for row in rows) == 30
    with pytest.raises(ValueError, match="no outcome of a rewrite"):
        distribution_of(paraphrases)


def test_agreement_is_the_share_of_equal_verdicts_on_the_same_probes() -> None:
    ours = [outcome(str(i), 2, correct=i % 2 == 0) for i in range(20)]
    assert agreement(ours, ours).value == 1
    assert agreement(ours, [replace(one, correct=not one.correct) for one in ours]).value == 0
    half = agreement(ours, [replace(one, correct=True) for one in ours])
    assert half.value == 0.5 and half.low is not None and half.low < 0.5 < (half.high or 0)
    with pytest.raises(ValueError, match="same probes"):
        agreement(ours, ours[1:])
    moved = [replace(one, editor="DR-IKE (reversed)") for one in ours]
    outcomes = {"DR-IKE": ours, "DR-IKE (reversed)": moved}
    counts = {name: counted(of_editor) for name, of_editor in outcomes.items()}
    table = agreement_table(outcomes, counts, [("DR-IKE (reversed)", "DR-IKE")])
    [row] = table.rows
    assert row[:2] == ("DR-IKE (reversed)", "1.000 [1.00,1.00]") and row[3].startswith("+0.000")


def test_the_frontier_holds_the_editors_not_dominated_in_length_and_s() -> None:
    def probes(name: str, shots: int, right: int) -> list[Outcome]:
        return [
            replace(outcome(str(i), shots, editor=name, correct=i < right), aspect=aspect, query=aspect)
            for i in range(10) for aspect in ASPECTS_OF_S
        ]  # fmt: skip

    points = {"none": (0, 0), "short": (1, 6), "worse": (2, 5), "long": (8, 9), "longest": (16, 9)}
    table = frontier_table([summarise(probes(name, *point)) for name, point in points.items()])
    assert [(row[0], row[4]) for row in table.rows] == [
        ("none", ""), ("short", "yes"), ("worse", ""), ("long", "yes"), ("longest", ""),
    ]  # fmt: skip


@given(st.floats(-1, 1), st.floats(0, 0.5))
def test_verdicts_depend_on_the_sign_and_need_an_interval(value: float, half: float) -> None:
    measured = Estimate(value, value - half, value + half)
    mirrored = Estimate(-value, -value - half, -value + half)
    assert verdict(measured, "up") == verdict(mirrored, "down")
    assert verdict(measured, "same") == verdict(mirrored, "same")
    assert {verdict(measured, "up"), verdict(measured, "down")} in ({"agrees", "does not"}, {"within noise"})
    assert verdict(Estimate(value), "up") == "n/a"


def test_a_same_verdict_requires_the_interval_within_the_margin() -> None:
    assert verdict(Estimate(0.0, -0.04, 0.04), "same") == "agrees"
    assert verdict(Estimate(0.03, 0.02, 0.04), "same") == "agrees", "a difference, but an immaterial one"
    assert verdict(Estimate(0.0, -0.2, 0.2), "same") == "within noise"
    assert verdict(Estimate(0.1, 0.02, 0.2), "same") == "does not"
