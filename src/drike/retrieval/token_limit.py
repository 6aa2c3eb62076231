"""Prompts that fit: pruning the retains of an edit from the end of their ranking, down to a number of prompt tokens.

The budget says how many retains are worth keeping; a context window, or a price, may allow fewer. Copies and updates
stay, and so does the best retain: what is too long even then is for the model to refuse.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from drike.prompts import Prompt


@dataclass(frozen=True)
class TokenLimit:
    """At most `tokens` in a prompt, as `count` counts them (a model's `count_tokens`)."""

    tokens: int
    count: Callable[[Sequence[str]], Sequence[int]]

    def __post_init__(self) -> None:
        """Refuse a limit that nothing meets."""
        if self.tokens < 1:
            raise ValueError(f"a prompt has at least one token; it cannot be limited to {self.tokens}")

    def fitting(self, k: int, shown: Callable[[int], Sequence[Prompt]]) -> int:
        """The most retains, from 1 to k, with which all prompts fit; 1 where none does.

        shown: the prompts with the first j of the ranking; they grow with j.
        """
        most, least = k, 1
        j = k  # nearly always everything fits: look there first
        while least < most:
            if max(self.count([prompt.text for prompt in shown(j)])) <= self.tokens:
                least = j
            else:
                most = j - 1
            j = (least + most + 1) // 2
        return least
