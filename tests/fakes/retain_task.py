"""A task in which neighbours need one retain.

The model keeps their old object only where a demonstration shows it.
"""

from __future__ import annotations

import torch

from drike.edits.edit import EditCase
from drike.encoders import HashingEncoder
from drike.prompts import Demonstration, PromptStyle
from drike.research.editors.budgets import Fraction
from drike.research.editors.in_context import InContextEditor, TokenLimit
from drike.research.editors.pool import Pool
from drike.research.editors.rankings import Similarity
from drike.research.editors.selectors import RankAndCut
from drike.research.training.algorithm1 import Rollout
from tests.fakes.capitals import CAPITALS, old_object
from tests.fakes.models import ScriptedModel

ENCODER = HashingEncoder()
POOL = Pool(CAPITALS[30:], ENCODER)
TRAIN, TEST = CAPITALS[:20], CAPITALS[20:30]
CASE = TRAIN[0]


def helps(retain: Demonstration) -> bool:
    """Whether it is the retain that neighbours need."""
    return retain.answer == "Old3"


def needs_a_retain(prompt: str) -> str:
    """Answer every question with the new object, unless a demonstration shows that the old object Old3 is kept."""
    *shown, question = prompt.splitlines()
    kept = any(line.startswith("Prompt: ") and line.split()[-1] == "Old3" for line in shown)
    about = shown[-1].split()
    edited = next(word for word in about if word.startswith("Land")) in question.split()
    return old_object(question) if kept and not edited else about[-1]


MODEL = ScriptedModel(needs_a_retain)


def rollout_of(
    case: EditCase,
    kept: int = 16,
    *,
    style: PromptStyle = PromptStyle(),
    limit: TokenLimit | None = None,
) -> Rollout:
    """All retains of a case, in the order of the pool."""
    editor = InContextEditor("DR-IKE", POOL, RankAndCut(Similarity(), Fraction(1.0)), style, limit)
    [pool] = POOL.candidates([case.edit])
    n = len(pool.retains)
    return Rollout(
        tuple(range(n)), (1 / n,) * n, torch.zeros(n), kept, n, editor=editor, case=case, pool=pool
    )
