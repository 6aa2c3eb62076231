"""The k head: which mixes give a right answer, learned for all of them at once."""

from __future__ import annotations

import pytest
import torch

from benchmarks.lib.k_head import right_with_each
from drike.edits.edit import Aspect

pytestmark = pytest.mark.slow  # no command reaches what these test

MASKS = {
    Aspect.REWRITE: torch.tensor([True, False]),
    Aspect.NEIGHBORHOOD: torch.tensor([False, True]),
}


def test_the_loss_is_small_where_every_mix_is_predicted_and_favours_the_weaker_aspect() -> None:
    right = torch.tensor([[1.0, 0.0], [0.0, 1.0]])
    sure = 20 * (2 * right - 1)
    assert right_with_each(sure, right, MASKS).item() == pytest.approx(0.0, abs=1e-6)
    doubtful = sure.clone()
    doubtful[1] = -sure[1]  # the most probable mix of the neighbour is wrong: its mean counts as .1
    loss, alone = right_with_each(doubtful, right, MASKS).item(), 20.0
    assert loss == pytest.approx(alone * 100 / 101)
