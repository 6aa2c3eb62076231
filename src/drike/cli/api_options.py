"""Models behind an API on the command line: their options, and what a run did cost."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any, Literal

from drike.cli.console import console
from drike.errors import RunError
from drike.models.protocols import LanguageModel
from drike.models.served.address import is_served
from drike.models.served.spending import Paid, Price, Spending
from drike.prompts import chat_messages
from drike.runs.folder import write_record


@dataclass(frozen=True)
class ApiOptions:
    """How a served model is asked; each field is an option of a command."""

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
        """What a token costs."""
        return Price(self.price_in, self.price_out)

    def after(self, spent: Spending) -> ApiOptions:
        """The terms on which to go on, this being spent: what is left of the limits."""
        money = self.price.of(spent.prompt_tokens, spent.completion_tokens) or 0.0
        return replace(
            self,
            max_calls=None if self.max_calls is None else max(0, self.max_calls - spent.requests),
            max_cost=None if self.max_cost is None else max(0.0, self.max_cost - money),
        )


def template_for(name: str, asked: str | None) -> str:
    """What was asked for, or the form that fits: served models chat, local ones complete (design: chat models)."""
    return asked or ("chat" if is_served(name) else "plain")


def open_served(name: str, template: Literal["plain", "chat"], terms: ApiOptions) -> LanguageModel:
    """A served model, behind the cache unless that is off. Raises ModelError."""
    from drike.models.served.cache import cached
    from drike.models.served.openai import connect

    model = connect(
        name, template=template, allow_http=terms.allow_http, price=terms.price, max_calls=terms.max_calls,
        max_cost=terms.max_cost, deadline=terms.deadline, concurrency=terms.concurrency,
        thinking_tokens=terms.thinking_tokens, effort=terms.reasoning_effort, text_only=terms.text_only,
    )  # fmt: skip
    if terms.no_cache:
        return model
    told = model.describe()
    # What decides an answer besides its prompt; the wording of a chat is a part of it.
    decides = [told.server, told.name, told.template, told.thinking_tokens, told.effort]
    return cached(model, identity=json.dumps([*decides, chat_messages("") if template == "chat" else None]))


@contextmanager
def metered(model: LanguageModel, part: str, folder: Path | None = None) -> Iterator[None]:
    """Say at the end, however it comes, what was used since the model was opened; add it up in the run's folder."""
    try:
        yield
    finally:
        if isinstance(model, Paid):
            spent = model.spending
            console.print(f"\nUsed: {sentence(spent, model.price)}", markup=False)
            if folder is not None:
                add_spending(folder, part, spent, model.price)


def add_spending(folder: Path, part: str, spent: Spending, price: Price) -> None:
    """Keep what a part of a run used, on top of what it used before it was stopped."""
    try:
        known = read_spending(folder)
    except RunError:  # damaged: what this process used is told all the same
        known = {}
    before = known.get(part, {})
    told = asdict(spent) | {"money": price.of(spent.prompt_tokens, spent.completion_tokens)}
    added = {name: None if value is None else value + (before.get(name) or 0) for name, value in told.items()}
    write_record(folder, "spending.json", known | {part: added | {"price": asdict(price)}})


def read_spending(folder: Path) -> dict[str, dict[str, Any]]:
    """spending.json, {} where there is none. Raises RunError if it is damaged."""
    path = folder / "spending.json"
    try:
        known = json.loads(path.read_text("utf-8")) if path.is_file() else {}
        numbers = [used[field.name] for used in known.values() for field in fields(Spending)]
        numbers += [used["money"] for used in known.values() if used["money"] is not None]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as problem:
        raise RunError(f"{path} is damaged: remove it, and limits count from there") from problem
    if not all(type(number) in (int, float) for number in numbers):
        raise RunError(f"{path} is damaged: remove it, and limits count from there")
    return dict(known)


def spent_in(folder: Path) -> Spending:
    """What was used in all parts of a run; nothing where its folder does not say. Raises RunError."""
    used = [Spending(*(part[field.name] for field in fields(Spending))) for part in read_spending(folder).values()]
    return sum(used, Spending())


def sentence(spent: Spending, price: Price) -> str:
    """Calls, tokens and money in words."""
    money = price.of(spent.prompt_tokens, spent.completion_tokens)
    parts = [
        f"{spent.calls:,} calls in {spent.requests:,} requests, {spent.remembered:,} answers from the cache",
        f"{spent.prompt_tokens:,} tokens read, {spent.completion_tokens:,} written",
        *([f"{spent.prefix_tokens:,} of those read from the server's own cache"] if spent.prefix_tokens else []),
        *([f"tokens of {spent.estimated:,} calls estimated"] if spent.estimated else []),
        *([] if money is None else [f"{money:.4f} in money"]),
    ]
    return "; ".join(parts)


def live(model: LanguageModel) -> Callable[[], str] | None:
    """What stands behind a bar while a paid model works."""
    if not isinstance(model, Paid):
        return None

    def told() -> str:
        spent = model.spending
        money = model.price.of(spent.prompt_tokens, spent.completion_tokens)
        tokens = (spent.prompt_tokens + spent.completion_tokens) / 1000
        cost = "" if money is None else f" {money:.3f}"
        return f"calls {spent.calls:,} cached {spent.remembered:,} tokens {tokens:,.0f}k{cost}"

    return told
