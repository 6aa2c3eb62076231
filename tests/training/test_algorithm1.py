"""Training: the literal Algorithm 1 as an oracle, and its behaviour on models that answer by a rule."""

from __future__ import annotations

import inspect
import random
import re
import textwrap
import zlib
from collections.abc import Callable

import pytest
import torch

import drike
from benchmarks.lib.draws import sampled
from drike.edits.edit import Aspect, Edit, EditCase, Probe, rewrite_probe
from drike.encoders import HashingEncoder
from drike.prompts import demonstration_block
from drike.research.editors.budgets import Budget, Flip, Fraction, Threshold
from drike.research.editors.in_context import InContextEditor
from drike.research.editors.pool import Pool
from drike.research.editors.retriever import Retriever
from drike.research.editors.selectors import RankAndCut
from drike.research.training.algorithm1 import Choose, Episode, loss_of, rewrite_reward, top, train
from tests.fakes.capitals import candidates_of, rollout
from tests.fakes.models import ScriptedModel


def literal_algorithm_1(
    z: torch.Tensor, sigma: float, most: int, answers: list[bool], *, flip: Flip
) -> tuple[int, float, list[int], torch.Tensor]:
    """Lines 7 to 26 as printed, with 1-based j and p in descending order; `answers[j - 1]`: y_hat = y_new.

    With flip="offender", line 20 follows section 4.3: the candidate at the flip counts as remaining.
    """
    p = torch.softmax(z, dim=0)
    p = p[torch.argsort(p, descending=True, stable=True)]
    n = len(p)
    k = min(most, len([i for i in range(1, n + 1) if p[i - 1].item() > sigma]))
    if k == 0:
        k = 1
    prev_r = None
    loss = torch.zeros((), dtype=z.dtype)
    rewards = []
    for j in range(1, k + 1):
        r = +1 if answers[j - 1] else -1
        c = (j > 1) and (prev_r == +1) and (r == -1)
        if c:
            first = j if flip == "offender" else j + 1
            remaining = [p[i - 1].item() for i in range(first, n + 1)]
            if remaining:
                sigma = max(sigma, *remaining)
        loss = loss + -r * torch.log(p[j - 1])
        prev_r = r
        rewards.append(r)
    return k, sigma, rewards, loss


@pytest.mark.parametrize("flip", ["offender", "algorithm1"])
@pytest.mark.parametrize("write_only", [False, True])
@pytest.mark.parametrize("episodes", [150, pytest.param(2_000, marks=pytest.mark.slow)])
def test_every_rollout_equals_the_literal_algorithm(
    flip: Flip, write_only: bool, episodes: int
) -> None:
    rng = random.Random(11)
    for _ in range(episodes):
        n = rng.randint(1, 16)
        answers = [rng.random() < 0.6 for _ in range(n)]
        z = torch.tensor(
            [rng.gauss(0, 2) for _ in range(n)], dtype=torch.float64, requires_grad=True
        )
        sigma, most = rng.choice([0.0, rng.random() * 0.3]), rng.randint(1, 16)
        expected_k, expected_sigma, expected_rewards, expected_loss = literal_algorithm_1(
            z, sigma, most, answers, flip=flip
        )
        [expected_gradient] = torch.autograd.grad(expected_loss, z)

        def rule(prompt: str, answers: list[bool] = answers) -> str:
            return " Oslo" if answers[prompt.count("Prompt: Neighbour") - 1] else " Lima"

        model = ScriptedModel(rule, scores=not write_only)
        budget = Threshold(sigma, most, flip)
        tried, rewards = rollout(model, candidates_of(n), torch.log_softmax(z, dim=0), budget)
        loss, after = (
            loss_of(rewards.rewards, tried.log_p),
            budget.after(tried.probs, rewards.rewards),
        )
        [gradient] = torch.autograd.grad(loss, z)
        assert len(rewards.rewards) == tried.k == expected_k
        assert list(rewards.rewards) == expected_rewards
        assert rewards.correct == tuple(reward > 0 for reward in rewards.rewards)
        assert after.sigma == pytest.approx(expected_sigma, abs=1e-12)
        assert loss.item() == pytest.approx(expected_loss.item(), abs=1e-9)
        assert torch.allclose(gradient, expected_gradient, atol=1e-9)


def test_train_equals_the_literal_loop_with_adam_episode_by_episode() -> None:
    """Compare k, rewards, sigma and head over five epochs of forty edits with a loop written from the listing."""
    cases, encoder, rate = world(), HashingEncoder(), 1e-3

    def rule(prompt: str) -> str:
        return new_object_of(prompt) if zlib.crc32(prompt.encode()) % 5 else " nothing"

    pool, ours = Pool(cases[40:], encoder), Retriever(encoder, seed=2)
    editor, reward = (
        InContextEditor("DR-IKE", pool, RankAndCut(ours, Threshold())),
        rewrite_reward(ScriptedModel(rule)),
    )
    episodes = list(train(editor, reward, cases[:40], epochs=5, learning_rate=rate))
    theirs, sigma, at = Retriever(encoder, seed=2), 0.0, 0
    optimizer = torch.optim.Adam(theirs.head.parameters(), lr=rate)
    for _ in range(5):
        for case in cases[:40]:
            [c] = pool.candidates([case.edit])
            hidden = theirs.head(theirs.features(c))
            z = hidden[1:] @ hidden[0] / hidden.shape[1] ** 0.5
            order = torch.argsort(z, descending=True, stable=True).tolist()
            answers = []
            for j in range(1, 17):
                shown = "".join(
                    demonstration_block(d) for d in [*c.fixed, *(c.retains[i] for i in order[:j])]
                )
                own = f"New Fact: {case.edit.fact}\nPrompt: {case.edit.query}"
                answers.append(
                    rule(f"{shown}{own} {case.edit.target_new}\n\n{own}").strip()
                    == case.edit.target_new
                )
            k, sigma, rewards, loss = literal_algorithm_1(z, sigma, 16, answers, flip="offender")
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            episode = episodes[at]
            assert (episode.k, list(episode.rewards)) == (k, rewards)
            assert episode.loss == pytest.approx(loss.item(), abs=1e-5)
            assert isinstance(episode.budget, Threshold)
            assert episode.budget.sigma == pytest.approx(sigma, abs=1e-6)
            sigma, at = episode.budget.sigma, at + 1
    assert len({episode.k for episode in episodes}) > 3, (
        "the test needs episodes in which sigma cuts"
    )
    assert torch.allclose(ours.head.weight, theirs.head.weight, atol=1e-5)


# -- laws of training ------------------------------------------------------------------------------------------------


KINDS = ("river", "opera", "planet", "pepper")


def world(n: int = 120) -> list[EditCase]:
    """Make cases whose neighbours are of four kinds, recognisable by their words."""
    rng = random.Random(5)
    cases = []
    for i in range(n):
        edit = Edit(f"The mayor of Town{i} is", f"New{i}", f"Old{i}", f"Town{i}", "mayor")
        kind = KINDS[i % len(KINDS)]
        neighbour = f"The {kind} {kind} {kind} number {rng.randrange(1000)} is"
        probes = (
            rewrite_probe(edit),
            Probe(Aspect.PARAPHRASE, f"Town{i} is led by", edit.target_new, edit.target_true),
            Probe(Aspect.NEIGHBORHOOD, neighbour, f"Old{i}", f"New{i}"),
        )
        cases.append(EditCase(str(i), edit, probes))
    return cases


def trained(
    rule: Callable[[str], str],
    *,
    form: str,
    epochs: int = 5,
    learning_rate: float = 1e-2,
    choose: Choose = top,
) -> tuple[list[Episode], Retriever, Pool, list[EditCase]]:
    cases = world()
    encoder = HashingEncoder()
    pool = Pool(cases[20:], encoder)
    retriever = Retriever(encoder, form=form, seed=1)  # type: ignore[arg-type]
    editor, reward = (
        InContextEditor("DR-IKE", pool, RankAndCut(retriever, Threshold())),
        rewrite_reward(ScriptedModel(rule)),
    )
    episodes = train(
        editor, reward, cases[:20], epochs=epochs, learning_rate=learning_rate, choose=choose
    )
    return list(episodes), retriever, pool, cases


def new_object_of(prompt: str) -> str:
    return prompt.rpartition("New Fact: ")[2].splitlines()[0].rpartition(" is")[2]


def shown_kinds(prompt: str) -> list[str]:
    return [
        kind
        for line in prompt.splitlines()
        for kind in KINDS
        if line.startswith(f"Prompt: The {kind}")
    ]


def kept_kinds(
    retriever: Retriever, budget: Budget, pool: Pool, cases: list[EditCase]
) -> list[list[str]]:
    """Return the kinds each edit keeps under the trained policy, best first."""
    kept = []
    for candidates in pool.candidates([case.edit for case in cases[:20]]):
        ranking = retriever.rank(candidates)
        retains = ranking.retains[: budget.keep(ranking.probs)]
        kept.append([kind for retain in retains for kind in KINDS if kind in retain.query])
    return kept


@pytest.mark.parametrize("form", ["dot", "cross"])
@pytest.mark.sampled(3)
def test_training_ranks_helpful_retains_first_and_sigma_cuts_the_rest(form: str) -> None:
    """The answer is right if the last retain is a river and wrong after any other kind."""

    def newest_is_a_river(prompt: str) -> str:
        return new_object_of(prompt) if shown_kinds(prompt)[-1:] == ["river"] else " nothing"

    episodes, retriever, pool, cases = trained(
        newest_is_a_river, form=form, epochs=15, learning_rate=1e-3
    )
    kept = kept_kinds(retriever, episodes[-1].budget, pool, cases)
    assert {kind for kinds in kept for kind in kinds} == {"river"}
    assert 1 < sum(map(len, kept)) / len(kept) < 8


def test_sampled_training_learns_to_show_only_the_one_helpful_kind() -> None:
    """The answer is right only if all retains are rivers: the first other kind breaks all longer prompts.

    Top-j alone may not learn this: if its first retain is of another kind, every reward is -1.
    """

    def only_rivers(prompt: str) -> str:
        return new_object_of(prompt) if set(shown_kinds(prompt)) == {"river"} else " nothing"

    draws = sampled(random.Random(0))
    episodes, retriever, pool, cases = trained(
        only_rivers, form="cross", epochs=15, learning_rate=1e-3, choose=draws
    )
    kept = kept_kinds(retriever, episodes[-1].budget, pool, cases)
    assert {kind for kinds in kept for kind in kinds} == {"river"}
    assert sum(map(len, kept)) / len(kept) < 8


def test_sigma_stays_0_if_added_retains_never_undo_a_right_answer() -> None:
    """The answer is right once the prompt holds a river: no reward drops, so the rule keeps everything."""

    def a_river(prompt: str) -> str:
        return new_object_of(prompt) if "river" in shown_kinds(prompt) else " nothing"

    episodes, *_ = trained(a_river, form="dot", epochs=2)
    assert episodes[-1].budget == Threshold()


def test_k_falls_to_1_if_every_added_retain_breaks_the_answer() -> None:
    def only_one(prompt: str) -> str:
        return new_object_of(prompt) if prompt.count("number") == 1 else " nothing"

    episodes, _, _, _ = trained(only_one, form="dot")
    assert [episode.k for episode in episodes[-20:]] == [1] * 20
    assert episodes[0].k == 16


def test_sigma_stays_0_and_all_retains_are_kept_if_nothing_breaks() -> None:
    episodes, _, _, _ = trained(new_object_of, form="dot", epochs=1)
    assert {episode.k for episode in episodes} == {16}
    assert episodes[-1].budget == Threshold()


def test_training_is_reproducible_and_leaves_global_seeds_alone() -> None:
    def rule(prompt: str) -> str:
        return new_object_of(prompt) if len(prompt) % 3 else " nothing"

    torch.manual_seed(4)
    before = torch.random.get_rng_state()
    first, one, _, _ = trained(rule, form="cross", epochs=2)
    again, other, _, _ = trained(rule, form="cross", epochs=2)
    assert torch.equal(before, torch.random.get_rng_state())
    assert [e.rewards for e in first] == [e.rewards for e in again]
    assert torch.equal(one.head.weight, other.head.weight)


def test_the_program_in_the_docstring_runs(capsys: pytest.CaptureFixture[str]) -> None:
    """Run it with few edits and one epoch, otherwise unchanged."""
    lines = inspect.cleandoc(train.__doc__ or "").splitlines()
    program = "\n".join(line for line in lines if line.startswith("    ") or not line)
    for whole, few in (
        ("split(seed=0)", "split(seed=0, train=2, test=2)"),
        ("split.train)", "split.train, epochs=1)"),
    ):
        assert program.count(whole) == 1
        program = program.replace(whole, few)
    exec(textwrap.dedent(program), {"drike": drike})
    assert re.search(r"^Editor +S +ESR +PC +RR", capsys.readouterr().out, re.MULTILINE)


def test_a_fixed_fraction_never_changes_in_training() -> None:
    cases = world()
    encoder = HashingEncoder()
    retriever = Retriever(encoder)
    editor = InContextEditor(
        "Rank-50%", Pool(cases[20:], encoder), RankAndCut(retriever, Fraction(0.5))
    )
    episodes = list(
        train(editor, rewrite_reward(ScriptedModel(new_object_of)), cases[:3], epochs=1)
    )
    assert [episode.k for episode in episodes] == [8, 8, 8]
    assert {episode.budget for episode in episodes} == {Fraction(0.5)}
