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
from drike.prompts import chat_messages
from drike.research.evaluation.baseline_questions import (
    AnsweredCases,
    baseline_answers,
    with_baseline_answers,
)
from drike.research.evaluation.judge import Rule
from drike.research.evaluation.unedited_answers import UneditedAnswer, unedited_answers
from drike.support.huggingface import pinned
from drike.support.table import Table


def count_only(
    model: LanguageModel, api: ApiOptions, work: Callable[[CountingModel], object]
) -> bool:
    """Whether the model only counts, as for --dry-run.

    If so, the calls of `work` are counted, and what they cost is drawn.
    """
    if not isinstance(model, CountingModel):
        return False
    work(model)
    draw(bound(model.calls, model.read, model.written, api))
    return True


class CountingModel(CustomModel):
    """A model that only counts: distinct calls, tokens of prompts, the most that are generated.

    Its answers cause the most further calls: of full length, or "Yes" to a yes-or-no question. If
    the server may score given texts, every target and every distractor takes a call. Raises
    ModelError for an invalid address.
    """

    def __init__(self, name: str, template: str, api: ApiOptions) -> None:
        if is_served(name):
            parse_address(name, allow_http=api.allow_http)
        scores = template != "chat" and not api.text_only
        super().__init__(name, self._filled, self._scored if scores else None)
        self.info = ModelInfo(name, turns=template == "chat")
        self.count = token_counter(api.tokenizer, template)
        self.calls = 0
        self.read = 0  # tokens
        self.written = 0  # tokens
        self._thinking_tokens = api.thinking_tokens
        self._seen: set[tuple[str | tuple[str, ...], int]] = set()

    def add(self, prompt: str | tuple[str, ...], max_tokens: int = ANSWER_TOKENS) -> None:
        """Count a call, unless it was counted before: its answer will be in the cache."""
        call = (prompt, max_tokens)
        if call in self._seen:
            return
        self._seen.add(call)
        self.calls += 1
        self.read += self.count(prompt)
        self.written += max_tokens + self._thinking_tokens

    def _filled(self, prompts: Prompts, max_tokens: int, stop: str | None) -> list[str]:
        for prompt in prompts:
            self.add(prompt, max_tokens)
        return [longest_answer(max_tokens)] * len(prompts)

    def _scored(self, requests: Sequence[Request]) -> list[Score]:
        for request in requests:
            self.add(request.prompt + request.continuation)
        return [Score((-1.0,), False, -1.0) for _ in requests]


def count_own_answers(model: CountingModel, cases: Sequence[EditCase], rule: Rule) -> AnsweredCases:
    """Count the calls for the model's own answers to questions without one.

    The answers are assumed to have full length, and to be usable.
    """
    usable = []
    for case in cases:
        questions = tuple(replace(question, choices=()) for question in case.baseline_questions)
        usable.append(replace(case, baseline_questions=questions))
    questions_asked = baseline_answers(model, cases, rule)
    answers = dict.fromkeys(questions_asked, longest_answer(ANSWER_TOKENS))
    return with_baseline_answers(usable, answers)


def count_unedited(
    model: CountingModel, cases: Sequence[EditCase], rule: Rule
) -> list[UneditedAnswer]:
    """Count the calls for the unedited model's answers to the neighbours.

    The answers are assumed to have full length, and to be comparable with those under edits.
    """
    text = longest_answer(ANSWER_TOKENS)
    return [replace(answer, text=text) for answer in unedited_answers(model, cases, rule)]


def token_counter(tokenizer: str | None, template: str) -> Callable[[str | tuple[str, ...]], int]:
    """Count a prompt's tokens as it is sent, by a tokenizer and its chat template or an estimate.

    Raises UsageError.
    """

    def sent(prompt: str | tuple[str, ...]) -> str:
        if isinstance(prompt, str) and template != "chat":
            return prompt
        return "\n".join(message["content"] for message in chat_messages(prompt))

    if tokenizer is None:
        return lambda prompt: estimated_tokens(sent(prompt))
    from transformers import AutoTokenizer

    from drike.models.local.sources import source_of

    try:
        name, revision = pinned(source_of(tokenizer))
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
    if api.tokenizer:
        how = f"counted by {api.tokenizer}"
    else:
        how = f"estimated at {CHARACTERS_PER_TOKEN} characters a token"
    if money is None:
        cost = "n/a"
        remark = "give --price-in and --price-out"
    else:
        cost = f"{money:.4f}"
        remark = "at the given prices, without retries"
    rows = (
        ("calls", f"{calls:,}", "cached answers cost nothing"),
        ("prompt tokens", f"{read:,}", how),
        ("generated tokens", f"{written:,}", "if every answer had its full length"),
        ("money", cost, remark),
    )
    header = ("what", "at most", "how it is counted")
    return Table("At most; nothing was sent", header, rows, wide=True)


def usage_sentence(used: Usage) -> str:
    """Calls, tokens and money in a sentence."""
    requests = f"{used.calls:,} calls in {used.requests:,} requests"
    parts = [
        f"{requests}, {used.cached:,} answers from the cache",
        f"{used.prompt_tokens:,} prompt tokens, {used.completion_tokens:,} generated",
    ]
    if used.tokens_shared:
        parts.append(f"{used.tokens_shared:,} prompt tokens from the server's own cache")
    if used.estimated:
        parts.append(f"token counts of {used.estimated:,} calls estimated")
    if used.money is not None:
        parts.append(f"cost {used.money:.4f}")
    return "; ".join(parts)
