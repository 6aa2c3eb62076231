"""What a model behind an API costs: calls, tokens and money, and the limits at which a run stops.

Tokens are the server's own figures (`usage` of its answers); where it gives none they are estimated at four characters
a token, and counted as such. Money is tokens times a price that the user states; nothing is looked up.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from operator import add, sub
from typing import Protocol, runtime_checkable

from drike.errors import ModelError, SpendingLimitError

CHARACTERS_PER_TOKEN = 4
_CAUTIOUS = 3  # characters a token while an answer is awaited, so that a limit is met rather than passed


@dataclass(frozen=True)
class Price:
    """Money per million tokens read and written, in whatever currency the user thinks in; None if not stated."""

    read: float | None = None
    written: float | None = None

    def of(self, prompt_tokens: float, completion_tokens: float) -> float | None:
        """What so many tokens cost; None without a price."""
        if self.read is None and self.written is None:
            return None
        return ((self.read or 0.0) * prompt_tokens + (self.written or 0.0) * completion_tokens) / 1e6


@dataclass(frozen=True)
class Spending:
    """What was really used so far; later minus earlier is a stretch.

    calls: answers paid for. remembered: prompts answered from the cache instead. requests: sent over the wire, with
    those that were tried again. prompt_tokens, completion_tokens: of the calls. prefix_tokens: of the prompt tokens,
    those the server says it had read before. estimated: calls whose tokens the server did not tell.
    """

    calls: int = 0
    remembered: int = 0
    requests: int = 0
    prompt_tokens: int = 0
    completion_tokens: int = 0
    prefix_tokens: int = 0
    estimated: int = 0

    def __add__(self, other: Spending) -> Spending:
        return Spending(*map(add, vars(self).values(), vars(other).values()))

    def __sub__(self, other: Spending) -> Spending:
        return Spending(*map(sub, vars(self).values(), vars(other).values()))


@runtime_checkable
class Paid(Protocol):
    """A model that counts what it costs."""

    @property
    def spending(self) -> Spending:
        """What was used since the model was opened."""
        ...

    @property
    def price(self) -> Price:
        """What a token costs."""
        ...


def estimated_tokens(text: str) -> int:
    """Tokens of a text at four characters each, rounded up."""
    return math.ceil(len(text) / CHARACTERS_PER_TOKEN)


class Meter:
    """Counts what is sent and answered, and refuses what would pass a limit.

    max_calls bounds requests over the wire, those tried again included. max_cost bounds money, needs a price, and
    counts what is still on its way by a cautious estimate. It counts in one thread, that of the requests, whoever asks;
    `spending` may be read in any. Raises ModelError for a limit on money
    without a price.
    """

    def __init__(
        self, price: Price | None = None, *, max_calls: int | None = None, max_cost: float | None = None
    ) -> None:
        self.price = price or Price()
        if max_cost is not None and self.price.of(0, 0) is None:
            raise ModelError("a limit on money needs prices: give --price-in and --price-out, per million tokens")
        if any(math.isnan(number) for number in (max_cost, self.price.read, self.price.written) if number is not None):
            raise ModelError("prices and limits are numbers, not nan: no sum of money would ever pass such a limit")
        self.spending = Spending()
        self._max_calls = max_calls
        self._max_cost = max_cost
        self._reserved = 0.0

    def sent(self) -> None:
        """Count a request that is about to be sent. Raises SpendingLimitError instead of passing max_calls."""
        if self._max_calls is not None and self.spending.requests >= self._max_calls:
            raise SpendingLimitError(
                f"the {self._max_calls} requests that --max-calls leaves are used up: allow more to go on"
            )
        self.spending += Spending(requests=1)

    @contextmanager
    def reserved(self, text: str, max_tokens: int) -> Iterator[None]:
        """Set money aside while an answer is awaited. Raises SpendingLimitError if max_cost could be passed."""
        aside = self.price.of(len(text) / _CAUTIOUS, max_tokens) or 0.0
        spent = self.price.of(self.spending.prompt_tokens, self.spending.completion_tokens) or 0.0
        if self._max_cost is not None and spent + self._reserved + aside > self._max_cost:
            raise SpendingLimitError(
                f"{spent:.4f} of the {self._max_cost:g} that --max-cost leaves are spent, and the next call could pass "
                "it: allow more to go on"
            )
        self._reserved += aside
        try:
            yield
        finally:
            self._reserved -= aside

    def answered(
        self, text: str, prompt_tokens: int | None, completion_tokens: int | None, prefix_tokens: int, max_tokens: int
    ) -> None:
        """Count an answer to `text`; tokens that are None are estimated, those of the answer as all it was allowed."""
        told = prompt_tokens is not None and completion_tokens is not None
        self.spending += Spending(
            calls=1,
            prompt_tokens=estimated_tokens(text) if prompt_tokens is None else prompt_tokens,
            completion_tokens=max_tokens if completion_tokens is None else completion_tokens,
            prefix_tokens=prefix_tokens,
            estimated=0 if told else 1,
        )
