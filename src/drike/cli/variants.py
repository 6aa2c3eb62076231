"""Variants of trained editors with one part replaced: another order of the retains, another sigma."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from drike.editors import Editor
from drike.editors.ike import IKE
from drike.errors import UsageError
from drike.prompts import ORDERS, OrderName
from drike.retrieval.budget import Threshold
from drike.retrieval.retriever import Retriever


def parse_orders(given: str | None) -> list[OrderName]:
    """Names of orders from a comma-separated option. Raises UsageError for one that does not exist."""
    names = list(dict.fromkeys(_parts(given)))
    unknown = [name for name in names if name not in ORDERS]
    if unknown:
        raise UsageError(f"--order knows {', '.join(ORDERS)}, not {unknown[0]!r}")
    return [order for name in names for order in ORDERS if order == name]


def parse_sigmas(given: str | None) -> list[float]:
    """Thresholds from a comma-separated option. Raises UsageError for what is no probability."""
    sigmas = []
    for part in _parts(given):
        try:
            sigmas.append(Threshold(float(part)).sigma)
        except ValueError:
            raise UsageError(f"--sigmas takes probabilities such as .03,.06, not {part!r}") from None
    return list(dict.fromkeys(sigmas))


def _parts(given: str | None) -> list[str]:
    return [part.strip().casefold() for part in (given or "").split(",") if part.strip()]


def reordered(editors: Sequence[Editor], orders: Sequence[OrderName], seed: int) -> list[IKE]:
    """Every editor with a learned ranking once more in each order, as "DR-IKE (reversed)"; the same retains are kept.

    Raises UsageError where orders are wanted and no editor has a learned ranking.
    """
    learned = [one for one in editors if isinstance(one, IKE) and isinstance(one.ranker, Retriever)]
    if orders and not learned:
        raise UsageError("--order is for trained editors: name one in --editors, such as dr-ike, and give its --run")
    return [
        replace(one, name=f"{one.name} ({order})", style=replace(one.style, order=order, order_seed=seed))
        for one in learned
        for order in orders
    ]


def swept(dr_ike: IKE, sigmas: Sequence[float]) -> list[IKE]:
    """DR-IKE with fixed thresholds in place of its own budget, as "DR-IKE (sigma .06)"."""
    own = dr_ike.budget if isinstance(dr_ike.budget, Threshold) else Threshold()
    return [
        replace(dr_ike, name=f"{dr_ike.name} (sigma {repr(sigma).removeprefix('0')})", budget=replace(own, sigma=sigma))
        for sigma in sigmas
    ]
