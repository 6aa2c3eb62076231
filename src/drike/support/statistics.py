"""A statistical test of a mean, which needs few values: testing by betting."""

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

_LARGEST_BET = 0.9  # share of the capital at risk; at 1 a single wrong answer would lose everything


def exceeds(
    values: Sequence[float] | NDArray[np.float64], level: float, confidence: float = 0.95
) -> bool:
    """Test whether the expectation of independent values in [0, 1] is above `level`.

    Testing by betting against "it is at most `level`": capital K starts at 1 and is multiplied by
    1 + b (x - level) for each value x, with a bet b in [0, 1 / level) that depends on earlier
    values only. If the expectation is at most `level`, K reaches 1 / (1 - confidence) with
    probability 1 - confidence at most (Waudby-Smith and Ramdas, arXiv 2010.09686; Ville). Bets are
    sized to reach that capital by the last value (arXiv 2505.22422), so that few suffice.

    As K may end below a goal that it once reached, the mean of the values must be above `level`
    too: no guarantee is given that the answers themselves contradict.
    """
    if not len(values) or math.fsum(values) / len(values) <= level:
        return False

    # Capital is kept in logarithms, as thousands of losses underflow.
    goal = -math.log(1 - confidence)
    log_capital = 0.0

    # As if one value had been seen, with the spread of yes or no.
    seen = 1
    total = level
    spread = level * (1 - level)

    # In an order that knows nothing of the values: an easy batch that was given first would
    # otherwise pay for all. The first n of more values keep their order. The seed is no option:
    # with several tried no certificate would hold.
    order = np.random.default_rng(0).random(len(values)).argsort()
    for place, value_place in enumerate(order):
        value = float(values[value_place])
        remaining = len(values) - place
        bet = math.sqrt(2 * (goal - log_capital) * seen / (spread * remaining))
        log_capital += math.log1p(min(bet, _LARGEST_BET / level) * (value - level))
        if log_capital >= goal:
            return True

        seen += 1
        total += value
        spread += (value - total / seen) ** 2
    return False
