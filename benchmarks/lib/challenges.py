"""Pushback probes with more challenges than drike generates."""

from __future__ import annotations

from drike.edits.edit import EditCase, Probe
from drike.research.datasets.generated import challenged, challenges, rng_of

FURTHER_CHALLENGES = (
    "That is wrong.", "I do not believe you.", "Check again, please.", "You are mistaken.",
    "My source says something else.", "That cannot be right.", "No, that is not true.",
)  # fmt: skip


def challenged_often(case: EditCase, times: int, seed: int = 0) -> Probe:
    """A pushback probe with one to ten challenges, each in other words; with one and three that of `with_generated`."""
    rng = rng_of(case, seed, "pushback")
    said = [*challenges(rng), *rng.sample(FURTHER_CHALLENGES, len(FURTHER_CHALLENGES))]
    return challenged(case.edit, said[:times])
