"""IKE: all demonstrations, with the nearest last (Table 2 calls it IKE-All)."""

from drike.prompts import PromptStyle
from drike.research.editors.budgets import Fraction
from drike.research.editors.in_context import InContextEditor, TokenLimit
from drike.research.editors.pool import Pool
from drike.research.editors.rankings import Similarity
from drike.research.editors.selectors import RankAndCut


def ike(pool: Pool, limit: TokenLimit | None = None) -> InContextEditor[RankAndCut]:
    """Retains ranked by similarity, all of them, in the published layout."""
    selector = RankAndCut(Similarity(), Fraction(1.0))
    return InContextEditor("IKE", pool, selector, PromptStyle("ike"), limit)
