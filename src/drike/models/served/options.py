"""Options of models behind an API, and limits on what they may cost."""

from __future__ import annotations

from dataclasses import dataclass, replace

from drike.models.protocols import Usage
from drike.models.served.spending import Price


@dataclass(frozen=True)
class ApiOptions:
    """Options of a served model; each is also an option of the commands.

    allow_http: send prompts unencrypted to another machine. concurrency: requests, and edits, at a time. deadline:
    seconds for an answer, retries included. thinking_tokens: added to the length of every answer, for models that think
    before they write. reasoning_effort: passed on to the server. text_only: never ask for log-probabilities. no_cache:
    neither use nor keep answers on disk. price_in, price_out: money per million tokens read and written. max_calls,
    max_cost: limits on requests and money. tokenizer: folder or hub name of one that counts the model's tokens.
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

    @property
    def price(self) -> Price:
        """The price of tokens."""
        return Price(self.price_in, self.price_out)

    def after(self, used: Usage) -> ApiOptions:
        """The same options, with limits reduced by `used`."""
        money = self.price.of(used.prompt_tokens, used.completion_tokens) or 0.0
        return replace(
            self,
            max_calls=None if self.max_calls is None else max(0, self.max_calls - used.requests),
            max_cost=None if self.max_cost is None else max(0.0, self.max_cost - money),
        )
