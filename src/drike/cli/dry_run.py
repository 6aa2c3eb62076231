"""`--dry-run`: the most that a command can cost with a model behind an API; nothing is sent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from drike.cli.console import draw
from drike.edits.edit import EditCase
from drike.errors import UsageError
from drike.models.protocols import (
    ANSWER_TOKENS,
    CustomModel,
    LanguageModel,
    ModelInfo,
    Prompts,
    Request,
    Score,
    Usage,
)
from drike.models.served import (
    CHARACTERS_PER_TOKEN,
    ApiOptions,
    estimated_tokens,
    is_served,
    longest_answer,
    parse_address,
)
from drike.prompts import YES_OR_NO, chat_messages
from drike.research.evaluation.baseline_questions import (
    AnsweredCases,
    baseline_answers,
    with_baseline_answers,
)
from drike.research.evaluation.judge import Rule
from drike.support.huggingface import pinned
from drike.support.table import Table


def count_only(
    model: LanguageModel, api: ApiOptions, work: Callable[[CountingModel], object]
) -> bool:
    """If the model only counts, as for --dry-run, count the calls of `work`, draw their cost, and return True."""
    if not isinstance(model, CountingModel):
        return False
    work(model)
    draw(bound(model.calls, model.read, model.written, api))
    return True


class CountingModel(CustomModel):
    """A model that only counts: distinct calls, their prompt tokens, and the most tokens they could generate.

    Its answers cause the most further calls: of full length, or "Yes" to a yes-or-no question. If the server may score
    given texts, every target and every distractor takes a call. Raises ModelError for an invalid address.
    """

    def __init__(self, name: str, template: str, api: ApiOptions) -> None:
        if is_served(name):
            parse_address(name, allow_http=api.allow_http)
        super().__init__(
            name, self._filled, None if template == "chat" or api.text_only else self._scored
        )
        self.info = ModelInfo(name, turns=template == "chat")
        self.count, self._room = token_counter(api.tokenizer, template), api.thinking_tokens
        self._seen: set[tuple[str | tuple[str, ...], int]] = set()
        self.calls = self.read = self.written = 0

    def add(self, prompt: str | tuple[str, ...], max_tokens: int = ANSWER_TOKENS) -> None:
        """Count a call, unless the same call was counted before: its answer will be in the cache."""
        if (prompt, max_tokens) not in self._seen:
            self._seen.add((prompt, max_tokens))
            self.calls += 1
            self.read += self.count(prompt)
            self.written += max_tokens + self._room

    def _filled(self, prompts: Prompts, max_tokens: int, stop: str | None) -> list[str]:
        for prompt in prompts:
            self.add(prompt, max_tokens)
        return [
            "Yes" if str(prompt).startswith(YES_OR_NO) else longest_answer(max_tokens)
            for prompt in prompts
        ]

    def _scored(self, requests: Sequence[Request]) -> list[Score]:
        for request in requests:
            self.add(request.prompt + request.continuation)
        return [Score((-1.0,), False, -1.0) for _ in requests]


def count_own_answers(model: CountingModel, cases: Sequence[EditCase], rule: Rule) -> AnsweredCases:
    """Count the calls for the model's own answers to questions without one; they are assumed to have full length."""
    asked = (
        tuple(replace(question, choices=()) for question in case.baseline_questions)
        for case in cases
    )
    usable = [
        replace(case, baseline_questions=of_case)
        for case, of_case in zip(cases, asked, strict=True)
    ]
    return with_baseline_answers(
        usable, dict.fromkeys(baseline_answers(model, cases, rule), longest_answer(ANSWER_TOKENS))
    )


def token_counter(tokenizer: str | None, template: str) -> Callable[[str | tuple[str, ...]], int]:
    """Count a prompt's tokens as it is sent, by a tokenizer and its chat template or an estimate. Raises UsageError."""

    def sent(prompt: str | tuple[str, ...]) -> str:
        if isinstance(prompt, str) and template != "chat":
            return prompt
        return "\n".join(message["content"] for message in chat_messages(prompt))

    if tokenizer is None:
        return lambda prompt: estimated_tokens(sent(prompt))
    from transformers import AutoTokenizer

    try:
        name, revision = pinned(tokenizer)
        opened = AutoTokenizer.from_pretrained(
            name, revision=revision or "main", trust_remote_code=False
        )
    except (OSError, ValueError) as problem:
        raise UsageError(
            f"--tokenizer {tokenizer} cannot be opened: give a folder with tokenizer.json"
        ) from problem
    if template != "chat" or not opened.chat_template:
        return lambda prompt: len(opened.encode(sent(prompt)))

    def count(prompt: str | tuple[str, ...]) -> int:
        text = opened.apply_chat_template(
            chat_messages(prompt), tokenize=False, add_generation_prompt=True
        )
        return len(opened.encode(text, add_special_tokens=False))

    return count


def bound(calls: int, read: int, written: int, api: ApiOptions) -> Table:
    """The most that calls can cost, with so many tokens read and written."""
    money = api.cost(read, written)
    how = (
        f"counted by {api.tokenizer}"
        if api.tokenizer
        else f"estimated at {CHARACTERS_PER_TOKEN} characters a token"
    )
    remark = (
        "give --price-in and --price-out"
        if money is None
        else "at the given prices, without retries"
    )
    rows = (
        ("calls", f"{calls:,}", "cached answers cost nothing"),
        ("prompt tokens", f"{read:,}", how),
        ("generated tokens", f"{written:,}", "if every answer had its full length"),
        ("money", "n/a" if money is None else f"{money:.4f}", remark),
    )
    return Table(
        "At most; nothing was sent", ("what", "at most", "how it is counted"), rows, wide=True
    )


def usage_sentence(used: Usage) -> str:
    """Calls, tokens and money in a sentence."""
    calls = f"{used.calls:,} calls in {used.requests:,} requests, {used.cached:,} answers from the cache"
    tokens = f"{used.prompt_tokens:,} prompt tokens, {used.completion_tokens:,} generated"
    shared = (
        f"{used.tokens_shared:,} prompt tokens from the server's own cache"
        if used.tokens_shared
        else ""
    )
    estimated = f"token counts of {used.estimated:,} calls estimated" if used.estimated else ""
    cost = "" if used.money is None else f"cost {used.money:.4f}"
    return "; ".join(filter(None, (calls, tokens, shared, estimated, cost)))
