"""Options of models behind an API, and the limits on calls and money at which a run stops."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from threading import Lock

from drike.errors import ModelError, SpendingLimitError
from drike.models.protocols import Usage
from drike.models.served.token_counts import (
    CAUTIOUS_CHARACTERS_PER_TOKEN,
    TokenCounts,
    estimated_tokens,
)


@dataclass(frozen=True)
class ApiOptions:
    """Options of a served model; each is also an option of the commands.

    allow_http: send prompts unencrypted to another machine. concurrency: requests, and edits, at a
    time. deadline: seconds for an answer, retries included. thinking_tokens: added to the length of
    every answer, for models that think before they write. reasoning_effort: passed on. text_only:
    never ask for log-probabilities. no_cache: neither use nor keep answers on disk. price_in,
    price_out: money per million tokens read and written. max_calls, max_cost: limits on requests
    and money, in any currency. tokenizer: folder or hub name of one that counts the model's tokens.
    """

    allow_http: bool = False
    concurrency: int = 8
    deadline: float = 120.0
    thinking_tokens: int = 0
    reasoning_effort: str | None = None
    text_only: bool = False
    no_cache: bool = False
    price_in: float | None = None
    price_out: float | None = None
    max_calls: int | None = None
    max_cost: float | None = None
    tokenizer: str | None = None

    def cost(self, read: float, written: float) -> float | None:
        """The cost of tokens read and written; None without a price."""
        if self.price_in is None and self.price_out is None:
            return None
        return ((self.price_in or 0.0) * read + (self.price_out or 0.0) * written) / 1e6

    def after(self, used: Usage) -> ApiOptions:
        """The same options, with limits reduced by `used`."""
        max_calls = self.max_calls
        if max_calls is not None:
            max_calls = max(0, max_calls - used.requests)
        max_cost = self.max_cost
        if max_cost is not None:
            spent = self.cost(used.prompt_tokens, used.completion_tokens) or 0.0
            max_cost = max(0.0, max_cost - spent)
        return replace(self, max_calls=max_calls, max_cost=max_cost)


class Meter:
    """Counts requests and answers, and refuses requests that would exceed a limit.

    Threads may share it. Of `options`, max_calls limits requests over the network, retries
    included; max_cost money, with a cautious estimate of requests in flight. Raises ModelError for
    max_cost without a price.
    """

    def __init__(self, options: ApiOptions) -> None:
        if options.max_cost is not None and options.cost(0, 0) is None:
            raise ModelError(
                "a limit on money needs prices: give `price_in` and `price_out`, per million tokens"
            )
        amounts = (options.max_cost, options.price_in, options.price_out)
        if any(amount is not None and math.isnan(amount) for amount in amounts):
            raise ModelError(
                "prices and limits are numbers, not nan: no cost would ever exceed such a limit"
            )
        self.usage = Usage(money=options.cost(0, 0))
        self._options = options
        self._reserved = 0.0  # money for the answers that are awaited
        self._counting = Lock()

    def sent(self) -> None:
        """Count a request that is about to be sent.

        Raises SpendingLimitError if it would exceed max_calls.
        """
        max_calls = self._options.max_calls
        with self._counting:
            if max_calls is not None and self.usage.requests >= max_calls:
                used_up = f"the {max_calls} requests that `max_calls` leaves are used up"
                raise SpendingLimitError(f"{used_up}: allow more to continue")
            self.usage += Usage(requests=1)

    @contextmanager
    def reserved(self, text: str, max_tokens: int) -> Iterator[None]:
        """Reserve money while an answer is awaited.

        Raises SpendingLimitError if it could exceed max_cost.
        """
        tokens_read = len(text) / CAUTIOUS_CHARACTERS_PER_TOKEN
        amount = self._options.cost(tokens_read, max_tokens) or 0.0
        max_cost = self._options.max_cost
        with self._counting:
            spent = self.usage.money or 0.0
            if max_cost is not None and spent + self._reserved + amount > max_cost:
                used = f"{spent:.4f} of the {max_cost:g} that `max_cost` leaves are spent"
                raise SpendingLimitError(
                    f"{used}, and the next call could exceed it: allow more to continue"
                )
            self._reserved += amount
        try:
            yield
        finally:
            with self._counting:
                self._reserved -= amount

    def answered(self, text: str, counts: TokenCounts, max_tokens: int) -> None:
        """Count an answer to `text`.

        Tokens that are None are estimated, those of the answer at most `max_tokens`.
        """
        read = estimated_tokens(text) if counts.prompt is None else counts.prompt
        written = max_tokens if counts.completion is None else counts.completion
        cached = min(counts.cached or 0, read)
        is_estimate = counts.prompt is None or counts.completion is None
        used = Usage(
            calls=1,
            prompts=1,
            prompt_tokens=read,
            completion_tokens=written,
            tokens_computed=read + written - cached,
            estimated=int(is_estimate),
            money=self._options.cost(read, written),
        )
        with self._counting:
            self.usage += used
