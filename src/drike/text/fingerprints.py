"""Fingerprints of words and names: 64 bits, by which they are compared and looked up.

They are computed with random numbers, new in each process, so that nobody can make two words of the
same fingerprint.
"""

import secrets

import numpy as np
from numpy.typing import NDArray

Fingerprints = NDArray[np.uint64]

MODULUS = 1 << 64

# A word's fingerprint is the sum of its letters, each times a power of the base. Letters are
# numbered with the salt.
BASE = secrets.randbits(64) | 1
BASE_INVERSE = pow(BASE, -1, MODULUS)
_MIXER = secrets.randbits(64) | 1
SALT = secrets.randbits(64) | 1

# The fingerprint of some words, times this, plus that of one more, is the fingerprint of all of
# them.
NEXT = np.uint64(secrets.randbits(64) | 1)

_HALF = 32  # bits
_HALF_OF_ARRAYS, _MIXER_OF_ARRAYS = np.uint64(_HALF), np.uint64(_MIXER)


def mixed(sums: Fingerprints) -> Fingerprints:
    """Fingerprints from sums of letters, so that sums of fingerprints say nothing of letters."""
    return (sums ^ sums >> _HALF_OF_ARRAYS) * _MIXER_OF_ARRAYS


def mixed_sum(letters_sum: int) -> int:
    """`mixed` for one sum."""
    return (letters_sum ^ letters_sum >> _HALF) * _MIXER % MODULUS


def extended(prefix: int, key: int) -> int:
    """The fingerprint of several words, `prefix`, and one more; a prefix of 0 stands for none."""
    return (prefix * int(NEXT) + key) % MODULUS


def contains(known: Fingerprints, wanted: Fingerprints) -> NDArray[np.bool_]:
    """Which of the wanted fingerprints are among the known ones, which are sorted."""
    if not len(known):
        return np.zeros(len(wanted), np.bool_)
    places = np.minimum(np.searchsorted(known, wanted), len(known) - 1)
    found: NDArray[np.bool_] = known[places] == wanted
    return found
