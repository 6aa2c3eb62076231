"""Made-up edits of capitals, and rules by which a model answers questions about them."""

from __future__ import annotations

from torch import Tensor

from drike.edits.edit import Aspect, Edit, EditCase, Probe, rewrite_probe
from drike.encoders import HashingEncoder
from drike.models.protocols import LanguageModel
from drike.prompts import Demonstration, DemonstrationSet, Role
from drike.research.editors.budgets import Budget, Fraction
from drike.research.editors.in_context import InContextEditor
from drike.research.editors.pool import Pool
from drike.research.editors.rankings import Similarity
from drike.research.editors.selectors import RankAndCut
from drike.research.training.algorithm1 import Choose, Rewards, Rollout, rewrite_reward, top

LANDS = 63  # seven old objects for nine lands each


def capital(
    i: int, *, subject: str | None = None, relation: str = "capital", neighbours: int = 3
) -> EditCase:
    """Make an edit of the capital of land i.

    Every fifth shares its new object, every seventh its old one.
    """
    subject = subject or f"Land{i}"
    edit = Edit(f"The {relation} of {subject} is", f"New{i % 5}", f"Old{i % 7}", subject, relation)
    paraphrase = Probe(
        Aspect.PARAPHRASE, f"{subject} has the {relation}", edit.target_new, edit.target_true
    )
    near = tuple(
        Probe(
            Aspect.NEIGHBORHOOD,
            f"The {relation} of Land{(i + 7 * (j + 1)) % LANDS} is",
            f"Old{i % 7}",
            f"New{i % 5}",
        )
        for j in range(neighbours)
    )
    return EditCase(str(i), edit, (rewrite_probe(edit), paraphrase, *near))


CAPITALS = tuple(capital(i) for i in range(LANDS))
SHOWING = InContextEditor(
    "DR-IKE", Pool(CAPITALS, HashingEncoder()), RankAndCut(Similarity(), Fraction(1.0))
)


def follows_the_fact(prompt: str) -> str:
    """Answer by the last stated fact if it is about the subject, else with the old object."""
    question = prompt.splitlines()[-1]
    stated = [
        line for line in prompt.splitlines() if line.startswith(("New Fact: ", "Imagine that "))
    ]
    if stated:
        words = stated[-1].rstrip(".").split()
        if next(word for word in words if word.startswith("Land")) in question.split():
            return words[-1]
    return old_object(question)


def old_object(question: str) -> str:
    """Answer with the object before any edit."""
    lands = [word.removeprefix("Land") for word in question.split() if word.startswith("Land")]
    return f"Old{int(lands[0]) % 7}" if lands else "?"


PERU = Edit("The capital of Peru is", "Oslo", "Lima", "Peru", "capital")


def candidates_of(n: int) -> DemonstrationSet:
    """A copy and n retains to demonstrate an edit of Peru with."""
    fixed = [Demonstration(Role.COPY, "Fact is A", "Fact is", "A", "c")]
    retains = [
        Demonstration(Role.RETAIN, f"Other {i} is B", f"Neighbour {i} is", f"R{i}", str(i))
        for i in range(n)
    ]
    return DemonstrationSet(PERU, tuple(fixed + retains), tuple([0.5] * (n + 1)))


def rollout(
    model: LanguageModel,
    pool: DemonstrationSet,
    log_p: Tensor,
    budget: Budget,
    choose: Choose = top,
) -> tuple[Rollout, Rewards]:
    """Return a rollout of the edit of a pool and its rewards, without learning."""
    case = EditCase("", pool.edit, (rewrite_probe(pool.edit),))
    made = Rollout(**vars(choose(pool, log_p, budget)), editor=SHOWING, case=case, pool=pool)
    return made, rewrite_reward(model)(made)
