"""DR-IKE-Q's policy: its features, its choice, and what an offset does to that."""

from __future__ import annotations

import pytest
import torch

from drike.editors.pool import Pool
from drike.editors.query_policy import QueryPolicy
from drike.editors.role_counts import mixes_of
from drike.encoders import HashingEncoder
from tests.worlds.small import CAPITALS

ENCODER = HashingEncoder()
TEST = CAPITALS[20:30]
MIXES = mixes_of(Pool(CAPITALS[30:], ENCODER).roles)


def test_the_name_of_the_subject_is_a_feature_only_if_wanted() -> None:
    edit = TEST[0].edit
    other = edit.query.replace(edit.subject or "", "Landfill")
    with_name, without = (
        QueryPolicy(ENCODER, MIXES, named=named).features(edit, [edit.query, other]) for named in (True, False)
    )
    assert with_name[:, 3].tolist() == [1.0, 0.0]
    assert without[:, 3].tolist() == [0.0, 0.0]
    assert torch.equal(with_name[:, 4:], without[:, 4:])
    assert with_name[0, 0] == pytest.approx(1.0)


def test_an_untrained_policy_chooses_the_smallest_mix_and_one_without_mixes_is_refused() -> None:
    policy = QueryPolicy(ENCODER, MIXES)
    assert policy.choose(TEST[0].edit, ["Who?", "Where?"]) == [MIXES[0]] * 2
    assert policy.choose(TEST[0].edit, []) == []
    with pytest.raises(ValueError, match="at least one mix"):
        QueryPolicy(ENCODER, ())


def test_an_offset_leads_from_copies_and_updates_through_whole_roles_to_retains() -> None:
    policy = QueryPolicy(ENCODER, MIXES)
    before = policy.head.bias.clone()

    def chosen(offset: float) -> tuple[int, int]:
        [mix] = policy.with_logit_offset(offset).choose(TEST[0].edit, [TEST[0].edit.query])
        return mix.copies + mix.updates, mix.retains

    assert [chosen(offset) for offset in (-100.0, -1.0, 0.0, 1.0, 64.0, 1000.0)] == [
        (16, 0), (16, 0), (0, 0), (0, 16), (0, 16), (0, 16),
    ]  # fmt: skip
    features = policy.features(TEST[0].edit, ["Who?"])
    assert torch.equal(policy.with_logit_offset(0.0).log_probs(features), policy.log_probs(features))
    assert torch.equal(policy.head.bias, before), "the policy itself stays as it was"
