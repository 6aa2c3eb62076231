import math
import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from drike.edits.edit import ASPECTS_OF_S, Aspect
from drike.research.evaluation.bootstrap import estimated, resampled, share_over_cases
from drike.research.evaluation.metrics import (
    Outcome,
    counted,
    harmonic_mean,
    paired_difference,
    paired_differences,
    summarise,
)
from drike.support.table import Difference


def outcome(
    case: str,
    aspect: Aspect,
    correct: bool,
    *,
    query: str = "q",
    editor: str = "E",
    prob_margin: float | None = None,
) -> Outcome:
    return Outcome(
        editor,
        case,
        aspect,
        query,
        "new",
        "true",
        correct,
        None,
        None,
        None,
        None,
        prob_margin,
        None,
        None,
        3,
        0,
        100,
        1,
        0.1,
    )


def setup(correct: list[tuple[bool, bool, bool]], editor: str = "E") -> list[Outcome]:
    return [
        outcome(str(i), aspect, right, editor=editor)
        for i, row in enumerate(correct)
        for aspect, right in zip(ASPECTS_OF_S, row, strict=True)
    ]


rows = st.lists(st.tuples(st.booleans(), st.booleans(), st.booleans()), min_size=1, max_size=30)


@given(rows)
def test_rates_are_shares_of_right_probes_inside_their_interval(
    correct: list[tuple[bool, bool, bool]],
) -> None:
    summary = summarise(setup(correct), resamples=200)
    for estimate, column in zip(
        (summary.esr, summary.pc, summary.rr), zip(*correct, strict=True), strict=True
    ):
        assert estimate.value == pytest.approx(sum(column) / len(column))
        assert estimate.low is not None and estimate.high is not None
        assert 0 <= estimate.low <= estimate.high <= 1
        assert (
            estimate.low <= estimate.value + 1e-9 and estimate.value - 1e-9 <= estimate.high
        ) or len(correct) < 8


def test_rates_are_micro_averages_over_probes() -> None:
    outcomes = [
        outcome("1", Aspect.NEIGHBORHOOD, right, query=str(i)) for i, right in enumerate([True] * 9)
    ]
    outcomes += [outcome("2", Aspect.NEIGHBORHOOD, False)]
    assert summarise(outcomes).rr.value == 0.9


def test_metrics_not_measured_are_none_not_zero() -> None:
    summary = summarise([outcome("1", Aspect.REWRITE, True)])
    assert summary.pc.value is summary.rr.value is summary.s.value is summary.esm.value is None
    assert summary.esr.value == 1.0


def test_rr_known_excludes_neighbours_the_model_did_not_know() -> None:
    edited = [
        outcome("1", Aspect.NEIGHBORHOOD, right, query=q)
        for q, right in [("a", True), ("b", False), ("c", False)]
    ]
    plain = [
        outcome("1", Aspect.NEIGHBORHOOD, right, query=q, editor="U")
        for q, right in [("a", True), ("b", True), ("c", False)]
    ]
    summary = summarise(edited, plain)
    assert summary.rr.value == pytest.approx(1 / 3)
    assert summary.rr_known.value == pytest.approx(1 / 2)


@given(st.lists(st.floats(0.01, 1), min_size=3, max_size=3))
def test_s_lies_between_the_smallest_rate_and_their_mean(values: list[float]) -> None:
    s = harmonic_mean(values)
    assert min(values) - 1e-9 <= s <= sum(values) / 3 + 1e-9


def test_s_is_zero_if_any_rate_is_zero() -> None:
    assert harmonic_mean([0.0, 1.0, 1.0]) == 0.0


def test_paired_difference_is_zero_for_the_same_editor_and_positive_for_a_better_one() -> None:
    worse = setup([(False, True, True)] * 30, "worse")
    better = setup([(True, True, True)] * 30, "better")
    same = paired_difference(worse, worse, "ESR", resamples=100)
    assert (same.value, same.low, same.high) == (0, 0, 0)
    gain = paired_difference(better, worse, "ESR", resamples=100)
    assert gain.value == 1.0 and gain.low is not None and gain.low > 0


def test_a_paired_comparison_needs_the_same_cases() -> None:
    with pytest.raises(ValueError, match="same cases"):
        paired_difference(setup([(True, True, True)]), setup([(True, True, True)] * 2), "S")


def test_a_summary_of_two_editors_is_refused() -> None:
    with pytest.raises(ValueError, match="one editor"):
        summarise(setup([(True,) * 3], "a") + setup([(True,) * 3], "b"))


def test_intervals_are_reproducible_with_their_seed() -> None:
    outcomes = setup([(i % 2 == 0, True, i % 3 == 0) for i in range(40)])
    assert summarise(outcomes) == summarise(outcomes)


def test_margins_are_averaged_over_the_probes_that_have_them() -> None:
    outcomes = [
        outcome("1", Aspect.REWRITE, True, prob_margin=0.5),
        outcome("1", Aspect.PARAPHRASE, True, prob_margin=-0.25),
    ]
    summary = summarise(outcomes)
    assert summary.esm.value is not None and math.isclose(summary.esm.value, 0.5)
    assert summary.gsm.value is not None and math.isclose(summary.gsm.value, -0.25)


def intervals_by_definition(
    by_case: list[list[float]], seed: int, resamples: int
) -> list[tuple[float, float]]:
    """The intervals of ratios of pairs of columns, with Python's own generator and sums."""
    rng = random.Random(seed)
    drawn = []
    for _ in range(resamples):
        resample = rng.choices(by_case, k=len(by_case))
        sums = [sum(column) for column in zip(*resample, strict=True)]
        ratios = [part / whole for part, whole in zip(sums[::2], sums[1::2], strict=True)]
        drawn.append(ratios)

    last = resamples - 1
    intervals = []
    for of_ratio in zip(*drawn, strict=True):
        ordered = sorted(of_ratio)
        intervals.append((ordered[round(0.025 * last)], ordered[round(0.975 * last)]))
    return intervals


@pytest.mark.parametrize(("cases", "seed"), [(1, 0), (7, 3), (100, 0), (100, 2**63 - 1)])
def test_resamples_are_those_of_pythons_generator(cases: int, seed: int) -> None:
    rng = random.Random(cases)
    by_case = [
        [float(rng.random() < 0.6), 1.0, rng.uniform(-1, 1), 1.0 + rng.randrange(3)]
        for _ in range(cases)
    ]
    expected = intervals_by_definition(by_case, seed, 200)
    counts = np.array(by_case).reshape(cases, 2, 2)
    ratios = [
        one[..., 0] / one[..., 1] for one in (counts.sum(axis=0), resampled(counts, 200, seed))
    ]
    found = [(one.low, one.high) for one in estimated(*ratios)]
    assert found[0] == expected[0], "counts are summed without rounding"
    assert found[1] == pytest.approx(expected[1], rel=1e-12)


def test_a_paired_comparison_aligns_the_cases() -> None:
    ours = setup([(i % 2 == 0, i % 3 == 0, True) for i in range(20)], "ours")
    theirs = setup([(i % 5 == 0, i % 3 != 0, i % 7 == 0) for i in range(20)], "theirs")
    assert paired_differences(counted(ours), counted(theirs[::-1])) == paired_differences(
        counted(ours), counted(theirs)
    )


def test_none_or_all_of_a_few_edits_say_little() -> None:
    """0 of 15: the interval of Clopper and Pearson, [0, .218]."""
    summary = summarise(setup([(False, True, True)] * 15))
    assert (summary.esr.low, summary.esr.high) == (0, pytest.approx(0.2180, abs=1e-4))
    assert (summary.pc.low, summary.pc.high) == (pytest.approx(0.7820, abs=1e-4), 1)
    assert summary.s.value == summary.s.low == 0
    assert summary.s.high == pytest.approx(harmonic_mean([0.2180, 1, 1]), abs=1e-4)
    right = summarise(setup([(True, True, True)] * 15)).s
    assert (right.value, right.low, right.high) == (1, pytest.approx(0.7820, abs=1e-4), 1)


def test_many_probes_of_one_edit_count_once_where_all_are_right() -> None:
    of_one = [outcome("1", Aspect.NEIGHBORHOOD, True, query=str(i)) for i in range(40)]
    assert summarise(of_one).rr.low == pytest.approx(0.025)
    assert share_over_cases([[True] * 40]) == summarise(of_one).rr
    mixed = [outcome("1", Aspect.NEIGHBORHOOD, i < 30, query=str(i)) for i in range(40)]
    rr = summarise(mixed).rr
    assert (
        rr.value == 0.75
        and rr.low is not None
        and rr.high is not None
        and rr.low < 0.1
        and rr.high > 0.9
    )


def test_margins_that_agree_may_still_be_otherwise() -> None:
    certain = summarise(
        [outcome(str(i), Aspect.REWRITE, True, prob_margin=-1.0) for i in range(15)]
    ).esm
    assert (certain.value, certain.low, certain.high) == (
        -1,
        -1,
        pytest.approx(-1 + 2 * 0.2180, abs=1e-3),
    )


@pytest.mark.parametrize(("cases", "significant"), [(1, False), (3, False), (30, True)])
def test_a_difference_that_is_the_same_on_very_few_edits_is_not_significant(
    cases: int, significant: bool
) -> None:
    differences = paired_differences(
        counted(setup([(True, True, True)] * cases)), counted(setup([(False, True, True)] * cases))
    )
    assert all(Difference(differences[name]).significant == significant for name in ("ESR", "S"))
    assert differences["PC"].value == 0


def test_a_summary_prints_as_a_table() -> None:
    heading, columns, _, row, intervals = str(
        summarise(setup([(True, True, False), (True, False, True)]))
    ).splitlines()
    assert heading == "2 edits" and columns.split() == [
        "Editor",
        "S",
        "ESR",
        "PC",
        "RR",
        "ESM",
        "GSM",
    ]
    assert (
        row.split() == ["E", "0.600", "1.000", "0.500", "0.500", "n/a", "n/a"]
        and intervals.count("[") == 4
    )
