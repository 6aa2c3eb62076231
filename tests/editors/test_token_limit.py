"""A limit on prompt tokens keeps the longest prefix of the ranking that fits, in training and evaluation."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from drike.deployment.edited_model import EditedModel
from drike.editors.budgets import Fraction, Threshold, TokenLimit
from drike.editors.in_context import InContextEditor
from drike.editors.pool import Pool
from drike.editors.rankers import Similarity
from drike.editors.retriever import Retriever
from drike.editors.selectors import RankAndCut
from drike.encoders.hashing import HashingEncoder
from drike.evaluation.evaluate import evaluate
from drike.prompts import Layout, Prompt, PromptStyle
from drike.training.algorithm1 import train
from drike.training.rewards import rewrite_reward
from tests.worlds.scripted import ScriptedModel
from tests.worlds.small import CAPITALS


def words(prompts: Sequence[str]) -> list[int]:
    return [len(prompt.split()) for prompt in prompts]


@given(st.lists(st.integers(1, 9), min_size=1, max_size=40), st.integers(1, 200))
def test_the_longest_prefix_that_fits_is_kept(sizes: list[int], tokens: int) -> None:
    limit = TokenLimit(tokens, lambda texts: [len(text) for text in texts])
    kept = limit.fitting(len(sizes), lambda j: [Prompt("x"), Prompt("x" * sum(sizes[:j]))])
    fits = [j for j in range(1, len(sizes) + 1) if sum(sizes[:j]) <= tokens]
    assert kept == (fits[-1] if fits else 1)


def test_a_token_limit_below_1_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one token"):
        TokenLimit(0, words)


@pytest.mark.parametrize("layout", ["append", "ike"])
def test_outcomes_record_what_was_pruned(layout: Layout) -> None:
    pool = Pool(CAPITALS[1:], HashingEncoder())
    whole = InContextEditor("IKE", pool, RankAndCut(Similarity(), Fraction(1.0)), PromptStyle(layout))
    queries = [probe.query for probe in CAPITALS[0].probes]
    longest = max(words([prompt.text for prompt in whole.prompts([CAPITALS[0].edit], queries)]))
    model = ScriptedModel(lambda prompt: "Oslo")
    for tokens in (longest, longest - 1, longest // 2 + 40, 1):
        limited = InContextEditor(
            "IKE", pool, RankAndCut(Similarity(), Fraction(1.0)), PromptStyle(layout), limit=TokenLimit(tokens, words)
        )
        prompts = limited.prompts([CAPITALS[0].edit], queries)
        assert max(words([prompt.text for prompt in prompts])) <= tokens or prompts[0].shots == 1
        assert {prompt.shots + prompt.pruned for prompt in prompts} == {16}
        kept = limited.select([CAPITALS[0].edit], ["?"])[0].ranking.retains[: prompts[0].shots]
        assert {d for d in prompts[0].demonstrations if d.role == "retain"} == set(kept)
        outcomes = list(evaluate(limited, model, [CAPITALS[0]]))
        assert {(outcome.shots, outcome.pruned) for outcome in outcomes} == {(prompts[0].shots, prompts[0].pruned)}
        choices = EditedModel(model, limited, CAPITALS[0].edit).explain(queries[0]).choices
        assert sum(choice.kept for choice in choices) >= prompts[0].shots
    assert prompts[0].pruned == 15


def test_training_never_sends_a_prompt_over_the_limit() -> None:
    pool = Pool(CAPITALS[4:], HashingEncoder())
    asked = ScriptedModel(lambda prompt: "Oslo")
    editor = InContextEditor("DR-IKE", pool, RankAndCut(Retriever(HashingEncoder()), Threshold()))
    free = list(train(editor, rewrite_reward(asked), CAPITALS[:4], epochs=1))
    tokens = sorted(words(asked.prompts))[len(asked.prompts) // 2]
    limited = ScriptedModel(lambda prompt: "Oslo")
    editor = InContextEditor(
        "DR-IKE", pool, RankAndCut(Retriever(HashingEncoder()), Threshold()), limit=TokenLimit(tokens, words)
    )
    reward = rewrite_reward(limited, editor.style, editor.limit)
    episodes = list(train(editor, reward, CAPITALS[:4], epochs=1))
    assert max(words(limited.prompts)) <= tokens < max(words(asked.prompts))
    assert sum(e.k for e in episodes) < sum(e.k for e in free)
