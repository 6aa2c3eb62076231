"""Rankings: permutations of the retains by descending probability."""

import math

import pytest

from drike.encoders import HashingEncoder
from drike.research.editors.pool import Pool
from drike.research.editors.rankings import Ranker, Similarity, ranking_of
from drike.research.editors.retriever import Retriever
from tests.fakes.capitals import CAPITALS

ENCODER = HashingEncoder()
POOL = Pool(CAPITALS, ENCODER)


@pytest.mark.parametrize(
    "ranker", [Similarity(), Retriever(ENCODER), Retriever(ENCODER, form="cross")]
)
def test_rankings_are_permutations_by_descending_probability(ranker: Ranker) -> None:
    for candidates in POOL.candidates([case.edit for case in CAPITALS[:5]]):
        ranking = ranker.rank(candidates)
        assert sorted(ranking.order) == list(range(16))
        assert ranking.retains == tuple(candidates.retains[i] for i in ranking.order)
        assert list(ranking.probs) == sorted(ranking.probs, reverse=True)
        assert sum(ranking.probs) == pytest.approx(1)


def test_similarity_ranks_the_nearest_record_first_by_the_softmax_of_its_cosines() -> None:
    [candidates] = POOL.candidates([CAPITALS[3].edit])
    ranking = Similarity(0.5).rank(candidates)
    assert ranking.order == tuple(range(16))
    powers = [math.exp(cosine / 0.5) for cosine in candidates.retain_similarities]
    assert list(ranking.probs) == pytest.approx([power / sum(powers) for power in powers])


def test_ties_keep_their_order() -> None:
    [candidates] = POOL.candidates([CAPITALS[3].edit])
    ranking = ranking_of(candidates.retains[:3], [math.log(p) for p in (0.25, 0.5, 0.25)])
    assert ranking.order == (1, 0, 2)
