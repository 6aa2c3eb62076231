"""Laws of sets of fingerprints: few and many are found alike, whatever bits they share."""

from __future__ import annotations

import numpy as np
import pytest

from drike.gates.fingerprint_set import FingerprintSet


@pytest.mark.parametrize("top", [64, 48, 20], ids=["spread", "crowded", "in one place"])
@pytest.mark.parametrize("size", [0, 1, 5_000])
def test_many_fingerprints_are_found_where_they_are(size: int, top: int) -> None:
    rng = np.random.default_rng(size)
    values = np.unique(rng.integers(0, 1 << top, size, np.uint64))
    own = FingerprintSet().replace(gone=(), new=values.tolist())
    wanted = np.concatenate(
        [rng.permutation(np.repeat(values, 2)), rng.integers(0, 1 << 64, 9_000, np.uint64)]
    )
    places, where = own.find(wanted ^ np.uint64(5), 5)
    assert np.array_equal(places, np.flatnonzero(np.isin(wanted, values)))
    assert np.array_equal(own.sorted[where], wanted[places]) and own.may_have(wanted)[places].all()
    gone, kept = values[::3].tolist(), np.delete(values, np.s_[::3])
    assert np.array_equal(own.replace(gone=gone, new=[7]).sorted, np.union1d(kept, np.uint64([7])))
