"""Training runs, summarised by epoch."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drike.research.editors.budgets import Fraction
from drike.research.report.training_tables import by_epoch, epochs_table
from drike.research.training.algorithm1 import EpisodeRecord
from drike.support.records import read
from drike.support.table import as_text
from tests.fakes.reports import episode, run_of


def test_epochs_sum_their_episodes() -> None:
    run = run_of(0)
    epochs = by_epoch(run.episodes)
    assert [epoch.calls for epoch in epochs] == [12, 12]
    assert sum(e.seconds for e in epochs) == sum(episode.seconds for episode in run.episodes)
    assert epochs[-1].sigma == run.episodes[-1].sigma
    assert (
        by_epoch([replace(run.episodes[0], prompt_tokens=None), *run.episodes[1:]])[0].prompt_tokens
        is None
    )


REWARDS = st.lists(st.sampled_from([1, -1]), min_size=1, max_size=3).map(tuple)


@given(st.lists(st.tuples(st.integers(1, 4), REWARDS), min_size=1, max_size=20))
def test_epoch_summaries_add_up_to_the_whole_run(drawn: list[tuple[int, tuple[int, ...]]]) -> None:
    in_order = sorted(drawn, key=lambda pair: pair[0])
    epochs = by_epoch([episode(number, rewards) for number, rewards in in_order])
    calls = sum(epoch.calls for epoch in epochs)
    assert [epoch.epoch for epoch in epochs] == sorted({number for number, _ in drawn})
    assert sum(epoch.episodes for epoch in epochs) == len(drawn)
    assert calls == sum(epoch.mean_k * epoch.episodes for epoch in epochs)
    assert calls == sum(len(rewards) for _, rewards in drawn)
    assert sum(epoch.prompt_tokens or 0 for epoch in epochs) == 100 * len(drawn)
    assert sum(epoch.seconds for epoch in epochs) == pytest.approx(2.0 * len(drawn))
    for epoch in epochs:
        assert 0 <= epoch.esr <= 1
        assert -1 <= epoch.reward <= 1


def test_an_epoch_takes_its_last_sigma_and_keeps_unknown_tokens_unknown() -> None:
    [epoch] = by_epoch([episode(1, (1, -1)), replace(episode(1, (1,), tokens=None), sigma=0.7)])
    assert epoch.sigma == 0.7 and epoch.prompt_tokens is None and epoch.esr == 0.5
    half = replace(episode(1, (1,)), budget=Fraction(0.5), sigma=None, share=0.5)
    [fixed] = by_epoch([half])
    assert fixed.sigma is None and fixed.share == 0.5
    heading, row = epochs_table({"run": [fixed]}).rows
    assert heading == ("run",)
    assert [as_text(cell) for cell in row] == [
        "1",
        "1.000",
        "+1.000",
        "1.00",
        "share 50%",
        "1",
        "100",
        "2.0",
    ]


def test_training_esr_is_measured_at_the_budgets_cut() -> None:
    tried = [replace(episode(1, (1, -1)), kept=1), replace(episode(1, (-1, 1)), kept=1)]
    assert by_epoch(tried)[0].esr == 0.5 and by_epoch(tried[:1])[0].esr == 1
    record = read(EpisodeRecord, json.loads(json.dumps(tried[0].record)))
    assert by_epoch([record]) == by_epoch(tried[:1])
