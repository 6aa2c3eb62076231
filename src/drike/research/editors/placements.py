"""The placements of facts among which `drike edits tune` chooses.

Some show demonstrations, which are those of TinyFacts.
"""

from collections.abc import Mapping, Sequence
from functools import cache

from drike.conversations.rendering import AsBlock, AsPlainFacts, AsPrompt, Placement, Restating
from drike.edits.edit import Edit
from drike.encoders import load_encoder
from drike.models.protocols import LanguageModel
from drike.research.datasets import TINYFACTS, load
from drike.research.editors.editor import Editor
from drike.research.editors.factprompt import FactPrompt
from drike.research.editors.in_context import InContextEditor
from drike.research.editors.pool import Pool
from drike.research.editors.selectors import copies_and_updates

REMEMBERED = 1_000  # edits, or sets of them, whose demonstrations stay in memory
_DEMONSTRATIONS = (2, 4, 16)
PLAIN = "plain"

# Each query with its new object on a line: no word says what they are.
PAIRS = FactPrompt("Pairs", "{}\n")
# The layout of demonstrations, without any of them.
NEW_FACTS = FactPrompt("New facts", "New Fact: {}\n", "Prompt: ")


def placements(chat: bool) -> Mapping[str, Placement]:
    """All placements that are compared, by name, for a model that chats or one that completes."""
    return _for_chats() if chat else _for_completions()


def placements_before(model: LanguageModel, *, chat: bool) -> Mapping[str, Placement]:
    """Those that may be chosen for a model.

    Behind an API questions come from people who could write a plain list themselves, so there only
    blocks are compared, whose delimiters nobody can foresee.
    """
    every = placements(chat)
    if not model.info.served:
        return every
    return {name: every[name] for name in every if name != PLAIN}


def _for_chats() -> Mapping[str, Placement]:
    blocks_with_demonstrations = {
        name: AsBlock(editor) for name, editor in _demonstrating_by_name().items()
    }
    return {
        "block": AsBlock(),
        "question-answer": AsBlock(state=_as_questions_and_answers),
        PLAIN: AsPlainFacts(),
        "restated": Restating(AsBlock()),
        **blocks_with_demonstrations,
    }


def _as_questions_and_answers(edits: Sequence[Edit]) -> list[str]:
    return [f"Q: {edit.query} A: {edit.target_new}" for edit in edits]


def _for_completions() -> Mapping[str, Placement]:
    editors: dict[str, Editor] = {
        "new-fact": NEW_FACTS,
        "question-answer": PAIRS,
        "imagine": FactPrompt(),
        **_demonstrating_by_name(),
    }
    return {name: AsPrompt(editor) for name, editor in editors.items()}


def _demonstrating_by_name() -> Mapping[str, Editor]:
    return {f"demonstrations-{count}": demonstrating(count) for count in _DEMONSTRATIONS}


def demonstrating(count: int | None = None) -> Editor:
    """Shows the nearest copies and updates of TinyFacts, `count` at most."""
    pool = _pool()
    return InContextEditor("Copies and updates", pool, copies_and_updates(pool.roles, count))


@cache
def _pool() -> Pool:
    """The demonstrations of TinyFacts, which all editors here share."""
    rows = load(TINYFACTS).split(seed=0, train=0, test=0).demonstrations
    return Pool(rows, load_encoder("hashing"), remembered=REMEMBERED)
