"""Several seeds pooled: an edit that several of them test is one case, drawn with all its rows."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from drike.research.evaluation.bootstrap import Floats, estimated, resampled
from drike.research.evaluation.metrics import harmonic_mean

from .ceilings import AnswerMatrix, Chosen, Measured


def resampled_by_edit(seeds: Sequence[tuple[Sequence[str], Floats]]) -> Floats:
    """Sum the rows of each resample of edits, seed by seed: (edits, ...) of each seed to (resamples, seeds, ...).

    A seed is the ids of its edits and a row for each. An edit of several seeds is one case, drawn with all its rows.
    """
    place = {
        edit: i
        for i, edit in enumerate(dict.fromkeys(edit for edits, _ in seeds for edit in edits))
    }
    by_edit = np.zeros((len(place), len(seeds), *seeds[0][1].shape[1:]))
    for seed, (edits, rows) in enumerate(seeds):
        by_edit[[place[edit] for edit in edits], seed] = rows
    return resampled(by_edit)


def scores(seeds: Sequence[tuple[AnswerMatrix, Chosen]]) -> tuple[float, Floats]:
    """The mean S of a choice over seeds, and the same over resamples of edits, [resamples], alike for every choice."""
    counts = [(answered.cases, answered.counts(chosen)) for answered, chosen in seeds]
    with np.errstate(invalid="ignore"):  # a resample may hold no probe of an aspect
        drawn = resampled_by_edit(counts)
        of_seeds = harmonic_mean(drawn[..., 0] / drawn[..., 1]).mean(axis=-1)
    return float(np.mean([answered.score(chosen) for answered, chosen in seeds])), of_seeds


def measured(seeds: Sequence[tuple[AnswerMatrix, Chosen]]) -> Measured:
    """A choice on the test edits of each seed: means over seeds; the interval is over the edits of all seeds."""
    s, drawn = scores(seeds)
    of_seeds = [answered.measured(chosen) for answered, chosen in seeds]
    [estimate] = estimated(
        np.array([s]),
        drawn[:, None],
        len({case for answered, _ in seeds for case in answered.cases}),
    )
    rates = {
        aspect: float(np.mean([of.rates[aspect] for of in of_seeds]))
        for aspect in of_seeds[0].rates
    }
    tokens = [of.tokens for of in of_seeds if of.tokens is not None]
    return Measured(
        estimate, rates, float(np.mean(tokens)) if len(tokens) == len(of_seeds) else None
    )
