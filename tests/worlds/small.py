"""Small worlds for tests: cases without a data set, and models that answer by a rule about them."""

from __future__ import annotations

from torch import Tensor

from drike.demonstrations import DemonstrationSet
from drike.editors.budgets import Budget
from drike.edits import Aspect, Edit, EditCase, Probe, rewrite_probe
from drike.models.protocols import LanguageModel
from drike.training.rewards import Rewards, rewrite_reward
from drike.training.rollouts import Choice, Rollout, top

LANDS = 63  # seven old objects for nine lands each


def capital(i: int, *, subject: str | None = None, relation: str = "capital", neighbours: int = 3) -> EditCase:
    """Make an edit of the capital of land i; every fifth shares its new object, every seventh its old one."""
    subject = subject or f"Land{i}"
    edit = Edit(f"The {relation} of {subject} is", f"New{i % 5}", f"Old{i % 7}", subject, relation)
    paraphrase = Probe(Aspect.PARAPHRASE, f"{subject} has the {relation}", edit.target_new, edit.target_true)
    near = tuple(
        Probe(
            Aspect.NEIGHBORHOOD, f"The {relation} of Land{(i + 7 * (j + 1)) % LANDS} is", f"Old{i % 7}", f"New{i % 5}"
        )
        for j in range(neighbours)
    )
    return EditCase(str(i), edit, (rewrite_probe(edit), paraphrase, *near))


CAPITALS = tuple(capital(i) for i in range(LANDS))


def follows_the_fact(prompt: str) -> str:
    """Answer with the new object of the last stated fact if it is about the subject, else with the old object."""
    question = prompt.splitlines()[-1]
    stated = [line for line in prompt.splitlines() if line.startswith(("New Fact: ", "Imagine that "))]
    if stated:
        words = stated[-1].rstrip(".").split()
        if next(word for word in words if word.startswith("Land")) in question.split():
            return words[-1]
    return old_object(question)


def old_object(question: str) -> str:
    """Answer with the object before any edit."""
    lands = [word.removeprefix("Land") for word in question.split() if word.startswith("Land")]
    return f"Old{int(lands[0]) % 7}" if lands else "?"


def rollout(
    model: LanguageModel,
    pool: DemonstrationSet,
    log_p: Tensor,
    budget: Budget,
    choose: Choice = top,
    *,
    stop_on_flip: bool = False,
) -> tuple[Rollout, Rewards]:
    """Return an attempt on the edit of a pool and its rewards, without learning."""
    case = EditCase("", pool.edit, (rewrite_probe(pool.edit),))
    tried = choose(case, pool, log_p, budget)
    return tried, rewrite_reward(model, stop_on_flip=stop_on_flip)(tried)
