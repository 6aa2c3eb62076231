"""All editors by their names on the command line."""

from __future__ import annotations

from drike.errors import UsageError
from drike.prompts import PromptStyle
from drike.research.editors import controls
from drike.research.editors.dr_ike import Trained, dr_ike, dr_ike_q, rank_all, rank_half
from drike.research.editors.editcot import EditCoT
from drike.research.editors.editor import Editor
from drike.research.editors.factprompt import FactPrompt
from drike.research.editors.ike import ike
from drike.research.editors.in_context import TokenLimit
from drike.research.editors.pool import Pool
from drike.research.editors.unedited import Unedited

UNTRAINED = ("unedited", "factprompt", "editcot", "ike")
TRAINED = ("rank-all", "rank-50", "dr-ike")
PER_QUERY = "dr-ike-q"

# Controls: of DR-IKE-Q, of editors behind a gate, and of DR-IKE.
BY_NAME = "by-name"
OR_ALONE = "by-name-or-alone"
SAME_SIZE = "nearest-same-size"
NO_RETAINS = "no-retains"
SAME_K = "nearest-same-k"
NEAREST = "nearest@"  # and a number: nearest@4

NEED_TRAINING = (*TRAINED, PER_QUERY, SAME_SIZE, SAME_K)
_NAMES_WITHOUT_NUMBER = (
    *UNTRAINED,
    BY_NAME,
    OR_ALONE,
    NO_RETAINS,
    *TRAINED,
    PER_QUERY,
    SAME_SIZE,
    SAME_K,
)
NAMES = (*_NAMES_WITHOUT_NUMBER, f"{NEAREST}K")


def usual(trained: Trained | None) -> list[str]:
    """The names of the editors that are compared if none are named.

    They are all published ones that what was trained allows, with their main controls.
    """
    names = list(UNTRAINED)
    if trained is None:
        return names
    names += [*TRAINED, SAME_K]
    if trained.per_query is not None:
        names += [PER_QUERY, BY_NAME, OR_ALONE, SAME_SIZE]
    return names


def require_editor(name: str, *, trained: bool) -> None:
    """Raises UsageError for an unknown name, and where nothing is `trained` but a name needs it."""
    is_known = name in _NAMES_WITHOUT_NUMBER or _number_of_nearest(name) is not None
    if not is_known:
        raise UsageError(f"there is no editor {name!r}: choose from {', '.join(NAMES)}")
    if name in NEED_TRAINING and not trained:
        remedy = (
            "run `drike train` first and give its folder as `run`, "
            "or in Python its checkpoint as `trained`"
        )
        raise UsageError(f"{name} needs a trained retriever: {remedy}")


def make(
    name: str, *, pool: Pool, trained: Trained | None = None, limit: TokenLimit | None = None
) -> Editor:
    """An editor by its name in NAMES.

    "nearest@4" shows the 4 retains nearest to the edit, "nearest-same-k" as many of the nearest as
    DR-IKE would show. "by-name", "by-name-or-alone" and "nearest-same-size" are controls of
    "dr-ike-q"; "no-retains" is best behind a gate.

    Its prompts have the style of what is `trained`, those of "ike" their own. Raises UsageError for
    an unknown name or a missing checkpoint.
    """
    require_editor(name, trained=trained is not None)
    style = PromptStyle() if trained is None else trained.style

    k = _number_of_nearest(name)
    if k is not None:
        return controls.nearest(k, pool, style, limit)

    editors = _editors_without_training(pool, style, limit)
    if trained is not None:
        editors |= _trained_editors(trained, pool, limit)
    if name not in editors:
        raise UsageError(
            f"{name} needs a policy per query: train with `objective` s, or resume that training"
        )
    return editors[name]


def _number_of_nearest(name: str) -> int | None:
    """K of "nearest@K"; None for other names, and for a K below 1."""
    if not name.startswith(NEAREST):
        return None
    digits = name.removeprefix(NEAREST)
    if not digits.isdecimal() or int(digits) < 1:
        return None
    return int(digits)


def _editors_without_training(
    pool: Pool, style: PromptStyle, limit: TokenLimit | None
) -> dict[str, Editor]:
    return {
        "unedited": Unedited(),
        "factprompt": FactPrompt(),
        "editcot": EditCoT(),
        "ike": ike(pool, limit),
        BY_NAME: controls.by_name(pool, style, limit),
        OR_ALONE: controls.by_name_or_alone(pool, style, limit),
        NO_RETAINS: controls.no_retains(pool, style, limit),
    }


def _trained_editors(trained: Trained, pool: Pool, limit: TokenLimit | None) -> dict[str, Editor]:
    editors: dict[str, Editor] = {
        "rank-all": rank_all(trained, pool, limit),
        "rank-50": rank_half(trained, pool, limit),
        "dr-ike": dr_ike(trained, pool, limit),
        SAME_K: controls.nearest_same_k(trained, pool, limit),
    }
    policy = trained.per_query
    if policy is not None:
        editors[PER_QUERY] = dr_ike_q(policy, pool, trained.style, limit)
        editors[SAME_SIZE] = controls.nearest_same_size(policy, pool, trained.style, limit)
    return editors
