"""Models behind an API on the command line: their options, and what a run did cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import fields
from functools import wraps
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import Annotated

import typer

from drike.cli.console import console
from drike.models.protocols import LanguageModel, Usage
from drike.models.served.options import ApiOptions
from drike.runs.folder import add_usage, read_usage

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


_OPTIONS = {
    "allow_http": AllowHttp, "concurrency": Concurrency, "deadline": Deadline, "thinking_tokens": ThinkingTokens,
    "reasoning_effort": Effort, "text_only": TextOnly, "no_cache": NoCache, "price_in": PriceIn, "price_out": PriceOut,
    "max_calls": MaxCalls, "max_cost": MaxCost, "tokenizer": Tokenizer,
}  # fmt: skip


def with_api_options(command: Callable[..., None]) -> Callable[..., None]:
    """`command` with an option for each of the `ApiOptions` instead of its parameter `terms`."""
    options = [
        Parameter(field.name, Parameter.KEYWORD_ONLY, default=field.default, annotation=_OPTIONS[field.name])
        for field in fields(ApiOptions)
    ]

    @wraps(command)
    def asked(**given: object) -> None:
        terms = {option.name: given.pop(option.name, option.default) for option in options}
        command(**given, terms=ApiOptions(**terms))  # type: ignore[arg-type]

    own = [one for one in signature(command, eval_str=True).parameters.values() if one.name != "terms"]
    asked.__signature__ = Signature([*own, *options])  # type: ignore[attr-defined]
    return asked


@contextmanager
def metered(model: LanguageModel, folder: Path | None = None) -> Iterator[None]:
    """Print what a served model used since it was opened, however this ends.

    What opening it took is recorded in the run's folder; the rest is the part's that uses it.
    """
    opened = model.usage
    if folder is not None and opened.requests:
        add_usage(folder, "probe", opened)
    try:
        yield
    finally:
        if model.info.served:
            console.print(f"\nUsed: {sentence(model.usage)}", markup=False)


def used_in(folder: Path) -> Usage:
    """Sum the usage of all parts of a run; nothing if its folder does not say. Raises RunError."""
    return sum(read_usage(folder).values(), Usage())


def sentence(used: Usage) -> str:
    """Calls, tokens and money in words."""
    shared = used.tokens_shared
    parts = [
        f"{used.calls:,} calls in {used.requests:,} requests, {used.cached:,} answers from the cache",
        f"{used.prompt_tokens:,} tokens read, {used.completion_tokens:,} written",
        *([f"{shared:,} of those read from the server's own cache"] if shared else []),
        *([f"tokens of {used.estimated:,} calls estimated"] if used.estimated else []),
        *([] if used.money is None else [f"{used.money:.4f} in money"]),
    ]
    return "; ".join(parts)


def live(model: LanguageModel) -> Callable[[], str] | None:
    """What the progress bar shows while a served model works."""
    if not model.info.served:
        return None

    def status() -> str:
        used = model.usage
        cost = "" if used.money is None else f" {used.money:.3f}"
        return f"calls {used.calls:,} cached {used.cached:,} tokens {used.tokens / 1000:,.0f}k{cost}"

    return status
