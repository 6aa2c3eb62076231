"""Models behind an API on the command line: their options, what a run would cost, what it did cost."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import asdict, dataclass, fields, replace
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated, Literal, get_type_hints

import typer

from drike.cli.showing import console, draw
from drike.demonstrations import Candidates, Demonstration
from drike.editors.ike import arrange
from drike.fitting import TokenLimit
from drike.models import MAX_ANSWER_TOKENS, Completion, LanguageModel, Request, Score
from drike.models.address import is_served, parse_address
from drike.models.spending import CHARACTERS_PER_TOKEN, Paid, Price, Spending, estimated_tokens
from drike.prompts import Prompt, chat_messages, demonstration_block, in_context
from drike.reinforce import Switches
from drike.report import Table
from drike.runs import write_record

_PANEL = "Models behind an API"

AllowHttp = Annotated[
    bool, typer.Option("--allow-http", help="Send prompts unencrypted to another machine", rich_help_panel=_PANEL)
]
Concurrency = Annotated[
    int, typer.Option("--concurrency", min=1, help="Requests, and edits, at a time", rich_help_panel=_PANEL)
]
Deadline = Annotated[
    float, typer.Option("--deadline", min=0.1, help="Seconds for an answer, retries included", rich_help_panel=_PANEL)
]
ThinkingTokens = Annotated[
    int, typer.Option("--thinking-tokens", min=0, help="Room for models that think first", rich_help_panel=_PANEL)
]
Effort = Annotated[
    str | None, typer.Option("--reasoning-effort", help="Passed on: none, minimal, low, ...", rich_help_panel=_PANEL)
]
TextOnly = Annotated[bool, typer.Option("--text-only", help="Do not ask for log-probabilities", rich_help_panel=_PANEL)]
NoCache = Annotated[
    bool, typer.Option("--no-cache", help="Neither use nor keep answers on disk", rich_help_panel=_PANEL)
]
PriceIn = Annotated[
    float | None, typer.Option("--price-in", min=0.0, help="Money per million tokens read", rich_help_panel=_PANEL)
]
PriceOut = Annotated[
    float | None, typer.Option("--price-out", min=0.0, help="Money per million tokens written", rich_help_panel=_PANEL)
]
MaxCalls = Annotated[
    int | None, typer.Option("--max-calls", min=0, help="Stop before more requests (exit 3)", rich_help_panel=_PANEL)
]
MaxCost = Annotated[
    float | None, typer.Option("--max-cost", min=0.0, help="Stop before more money (exit 3)", rich_help_panel=_PANEL)
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Only say what it would cost at most", rich_help_panel=_PANEL)]
Tokenizer = Annotated[
    str | None,
    typer.Option(
        "--tokenizer",
        help="Counts tokens for --dry-run and --prompt-tokens: folder or hub name",
        rich_help_panel=_PANEL,
    ),
]


@dataclass(frozen=True)
class Terms:
    """On what terms a served model is asked: see `drike.models.openai.connect`. Each is an option of a command."""

    allow_http: AllowHttp = False
    concurrency: Concurrency = 8
    deadline: Deadline = 120.0
    thinking_tokens: ThinkingTokens = 0
    reasoning_effort: Effort = None
    text_only: TextOnly = False
    no_cache: NoCache = False
    price_in: PriceIn = None
    price_out: PriceOut = None
    max_calls: MaxCalls = None
    max_cost: MaxCost = None
    tokenizer: Tokenizer = None

    @property
    def price(self) -> Price:
        """What a token costs."""
        return Price(self.price_in, self.price_out)

    def after(self, spent: Spending) -> Terms:
        """The terms on which to go on, this being spent: what is left of the limits."""
        money = self.price.of(spent.prompt_tokens, spent.completion_tokens) or 0.0
        return replace(
            self,
            max_calls=None if self.max_calls is None else max(0, self.max_calls - spent.requests),
            max_cost=None if self.max_cost is None else max(0.0, self.max_cost - money),
        )


def with_terms(command: Callable[..., None]) -> Callable[..., None]:
    """`command` with an option for each of the `Terms` instead of its parameter `terms`."""
    hints = get_type_hints(Terms, include_extras=True)
    options = [
        Parameter(field.name, Parameter.KEYWORD_ONLY, default=field.default, annotation=hints[field.name])
        for field in fields(Terms)
    ]

    @wraps(command)
    def asked(**given: object) -> None:
        terms = {option.name: given.pop(option.name, option.default) for option in options}
        command(**given, terms=Terms(**terms))  # type: ignore[arg-type]

    own = [one for one in signature(command, eval_str=True).parameters.values() if one.name != "terms"]
    asked.__signature__ = Signature([*own, *options])  # type: ignore[attr-defined]
    return asked


def template_for(name: str, asked: str | None) -> str:
    """What was asked for, or the form that fits: served models chat, local ones complete (design: chat models)."""
    return asked or ("chat" if is_served(name) else "plain")


def open_served(name: str, template: Literal["plain", "chat"], terms: Terms) -> LanguageModel:
    """A served model, behind the cache unless that is off. Raises ModelError."""
    from drike.models.cached import cached
    from drike.models.openai import connect

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
                path = folder / "spending.json"
                known = json.loads(path.read_text("utf-8")) if path.is_file() else {}
                before = known.get(part, {})  # of a run that was stopped
                told = asdict(spent) | {"money": model.price.of(spent.prompt_tokens, spent.completion_tokens)}
                added = {
                    name: None if value is None else value + (before.get(name) or 0) for name, value in told.items()
                }
                write_record(folder, path.name, known | {part: added | {"price": asdict(model.price)}})


def spent_in(folder: Path) -> Spending:
    """What a run's folder says was used in all its parts; nothing where it does not say."""
    path = folder / "spending.json"
    known = json.loads(path.read_text("utf-8")) if path.is_file() else {}
    names = [field.name for field in fields(Spending)]
    return sum((Spending(**{name: part[name] for name in names}) for part in known.values()), Spending())


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


# What a run would cost


class Tally:
    """Distinct calls, their tokens, and the most that could be written."""

    def __init__(self, count: Callable[[str], int], room: int = 0) -> None:
        self.count, self._room = count, room
        self._seen: set[tuple[str, int]] = set()
        self.calls = self.read = self.written = 0

    def add(self, prompt: str, most: int) -> None:
        """Count a call, unless the same was counted before: it will be in the cache."""
        if (prompt, most) not in self._seen:
            self._seen.add((prompt, most))
            self.calls += 1
            self.read += self.count(prompt)
            self.written += most + self._room


class CountingWriter:
    """A model that only counts, and writes what makes callers ask the most: to the limit, "Contradict" first."""

    def __init__(self, name: str, tally: Tally) -> None:
        self.name, self.tally = name, tally

    def generate(
        self, prompts: Sequence[str], max_tokens: int = MAX_ANSWER_TOKENS, stop: str | None = "\n"
    ) -> list[Completion]:
        """Count, and write."""
        return _written(self.tally, prompts, max_tokens)


class CountingModel:
    """The same for a server that may rate texts: every target and distractor is then a call of its own."""

    def __init__(self, name: str, tally: Tally) -> None:
        self.name, self.tally = name, tally

    def generate(
        self, prompts: Sequence[str], max_tokens: int = MAX_ANSWER_TOKENS, stop: str | None = "\n"
    ) -> list[Completion]:
        """Count, and write."""
        return _written(self.tally, prompts, max_tokens)

    def score(self, requests: Sequence[Request]) -> list[Score]:
        """Count a call a request."""
        for request in requests:
            self.tally.add(request.prompt + request.continuation, MAX_ANSWER_TOKENS)
        return [Score((-1.0,), False, -1.0) for _ in requests]


def _written(tally: Tally, prompts: Sequence[str], max_tokens: int) -> list[Completion]:
    for prompt in prompts:
        tally.add(prompt, max_tokens)
    filler = "Contradict " + "word " * max_tokens
    return [Completion(filler[: CHARACTERS_PER_TOKEN * max_tokens]) for _ in prompts]


def counting_model(name: str, template: str, terms: Terms) -> CountingWriter | CountingModel:
    """A model that counts, of the kind that would be asked. Raises ModelError for an address that cannot be."""
    if is_served(name):
        parse_address(name, allow_http=terms.allow_http)
    tally = Tally(token_counter(terms.tokenizer, template), terms.thinking_tokens)
    return CountingWriter(name, tally) if template == "chat" or terms.text_only else CountingModel(name, tally)


def token_counter(tokenizer: str | None, template: str) -> Callable[[str], int]:
    """Tokens of a prompt as it is sent, by a tokenizer (with its chat template, if it has one) or by an estimate.

    Raises UsageError for a tokenizer that cannot be opened.
    """
    if tokenizer is None:
        return lambda prompt: estimated_tokens(chat_messages(prompt)[0]["content"] if template == "chat" else prompt)
    from transformers import AutoTokenizer

    from drike.cli.opening import UsageError

    try:
        opened = AutoTokenizer.from_pretrained(tokenizer, trust_remote_code=False)
    except (OSError, ValueError) as problem:
        raise UsageError(f"--tokenizer {tokenizer} cannot be opened: give a folder with tokenizer.json") from problem

    def count(prompt: str) -> int:
        if template != "chat":
            return len(opened.encode(prompt))
        messages = chat_messages(prompt)
        if not opened.chat_template:
            return len(opened.encode(messages[0]["content"]))
        text = opened.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        return len(opened.encode(text, add_special_tokens=False))

    return count


def count_training(
    tally: Tally, candidates: Iterable[Candidates], max_shots: int, switches: Switches, limit: TokenLimit | None = None
) -> None:
    """Count an epoch's calls at most: every prefix of every pool, the longest retains first, whatever is learned.

    Under a limit, as many prefixes as fit with the shortest retains.
    """
    for one in candidates:
        blocks = {retain: demonstration_block(retain, switches.retain) for retain in one.retains}
        longest = sorted(
            one.retains, key=lambda retain: (tally.count(blocks[retain]), len(blocks[retain])), reverse=True
        )
        most = min(max_shots, len(longest))
        if limit is not None:
            most = limit.fitting(most, lambda j: [_prefix(one, longest[-j:], switches)])  # noqa: B023 - asked at once
        for j in range(1, most + 1):
            tally.add(f"{_prefix(one, longest[:j], switches).text} {one.edit.target_new}", MAX_ANSWER_TOKENS)


def _prefix(candidates: Candidates, retains: Sequence[Demonstration], switches: Switches) -> Prompt:
    """The edit's own query under these retains."""
    shown, edit = arrange(candidates, retains, switches.layout), candidates.edit
    return in_context(shown, edit, edit.query, own_copy=switches.own_copy, retain=switches.retain)


def show_bound(tally: Tally, terms: Terms, times: int = 1, title: str = "At most; nothing was sent") -> None:
    """Draw what a run would cost at most. Nothing has been sent."""
    calls, read, written = times * tally.calls, times * tally.read, times * tally.written
    money = terms.price.of(read, written)
    how = (
        f"counted by {terms.tokenizer}"
        if terms.tokenizer
        else f"estimated at {CHARACTERS_PER_TOKEN} characters a token"
    )
    remark = "give --price-in and --price-out" if money is None else "at the prices given; retries come on top"
    rows = (
        ("calls", f"{calls:,}", "answers that are in the cache already cost nothing"),
        ("tokens read", f"{read:,}", how),
        ("tokens written", f"{written:,}", "as if every answer used all its room"),
        ("money", "n/a" if money is None else f"{money:.4f}", remark),
    )
    draw(Table(title, ("what", "how many", "how it is known"), rows, wide=True))
