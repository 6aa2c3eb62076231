"""What models behind an API cost: the most that a run can (`--dry-run`, which sends nothing), and what was used."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from drike.cli.console import draw, say
from drike.editors.budgets import TokenLimit
from drike.editors.pool import Pool
from drike.edits import Edit, EditCase, Probe
from drike.errors import UsageError
from drike.evaluation.baseline_answers import AnsweredCases, baseline_answers, with_baseline_answers
from drike.evaluation.judge import Rule
from drike.models.protocols import MAX_ANSWER_TOKENS, Completion, LanguageModel, ModelInfo, Request, Score, Turns, Usage
from drike.models.served.address import is_served, parse_address
from drike.models.served.options import ApiOptions
from drike.models.served.spending import CHARACTERS_PER_TOKEN, estimated_tokens
from drike.prompts import YES_OR_NO, PromptStyle, chat_messages, demonstration_block
from drike.report import Table
from drike.runs.folder import add_usage, read_usage
from drike.support.huggingface import pinned


class CountingModel:
    """A model that only counts: distinct calls, their prompt tokens, and the most tokens they could generate.

    Its answers lead to the most further work: they have full length and begin with "Contradict", or with "Yes" where
    that is asked. If the server may score given texts, every target and every distractor takes a call. Raises
    ModelError for an invalid address.
    """

    def __init__(self, name: str, template: str, api: ApiOptions) -> None:
        if is_served(name):
            parse_address(name, allow_http=api.allow_http)
        self.info, self.usage, self.count_tokens = ModelInfo(name, turns=template == "chat"), Usage(), None
        self.count, self._room = token_counter(api.tokenizer, template), api.thinking_tokens
        self.score = None if template == "chat" or api.text_only else self._score
        self._seen: set[tuple[str | Turns, int]] = set()
        self.calls = self.read = self.written = 0

    def add(self, prompt: str | Turns, most: int = MAX_ANSWER_TOKENS) -> None:
        """Count a call, unless the same call was counted before: its answer will be in the cache."""
        if (prompt, most) not in self._seen:
            self._seen.add((prompt, most))
            self.calls += 1
            self.read += self.count(prompt)
            self.written += most + self._room

    def repeat(self, times: int) -> None:
        """Take the calls counted until now so many times."""
        self.calls, self.read, self.written = times * self.calls, times * self.read, times * self.written

    def generate(
        self, prompts: Sequence[str | Turns], max_tokens: int = MAX_ANSWER_TOKENS, stop: str | None = "\n"
    ) -> list[Completion]:
        """Count the calls, and answer with filler."""
        for prompt in prompts:
            self.add(prompt, max_tokens)
        return [
            Completion("Yes" if str(prompt).startswith(YES_OR_NO) else longest_answer(max_tokens)) for prompt in prompts
        ]

    def forget(self) -> None:
        """Do nothing: there is no cache."""

    def _score(self, requests: Sequence[Request]) -> list[Score]:
        for request in requests:
            self.add(request.prompt + request.continuation)
        return [Score((-1.0,), False, -1.0) for _ in requests]


def longest_answer(max_tokens: int = MAX_ANSWER_TOKENS) -> str:
    """Words to the estimated length of so many tokens, which start as the answer that leads to the most calls."""
    return ("Contradict " + "word " * max_tokens)[: CHARACTERS_PER_TOKEN * max_tokens]


def count_own_answers(model: CountingModel, cases: Sequence[EditCase], rule: Rule) -> AnsweredCases:
    """Count what the unedited model is asked about the questions without a published answer.

    The cases that result have an answer of full length to each of them, so that editors' calls can be counted.
    """
    answers = dict.fromkeys(baseline_answers(model, cases, rule), longest_answer())
    usable = [
        replace(case, baseline_questions=tuple(replace(one, choices=()) for one in case.baseline_questions))
        for case in cases
    ]
    return with_baseline_answers(usable, answers)


def token_counter(tokenizer: str | None, template: str) -> Callable[[str | Turns], int]:
    """Count the tokens of a prompt as it is sent, with a tokenizer and its chat template, or by an estimate.

    Raises UsageError for a tokenizer that cannot be opened.
    """

    def sent(prompt: str | Turns) -> str:
        if isinstance(prompt, str) and template != "chat":
            return prompt
        return "\n".join(one["content"] for one in chat_messages(prompt))

    if tokenizer is None:
        return lambda prompt: estimated_tokens(sent(prompt))
    from transformers import AutoTokenizer

    try:
        name, revision = pinned(tokenizer)
        opened = AutoTokenizer.from_pretrained(name, revision=revision or "main", trust_remote_code=False)
    except (OSError, ValueError) as problem:
        raise UsageError(f"--tokenizer {tokenizer} cannot be opened: give a folder with tokenizer.json") from problem

    if template != "chat" or not opened.chat_template:
        return lambda prompt: len(opened.encode(sent(prompt)))

    def count(prompt: str | Turns) -> int:
        text = opened.apply_chat_template(chat_messages(prompt), tokenize=False, add_generation_prompt=True)
        return len(opened.encode(text, add_special_tokens=False))

    return count


def count_training(
    model: CountingModel,
    pool: Pool,
    questions: Mapping[tuple[Edit, ...], Sequence[Probe]],
    max_shots: int,
    *,
    style: PromptStyle,
    limit: TokenLimit | None,
) -> None:
    """Count the most calls an epoch can take: every prefix of every edit's pool, the longest retains first.

    questions: the probes that the reward asks for the edits of a case. With a limit, as many prefixes as fit with the
    shortest retains.
    """
    for one in pool.for_groups(list(questions)):
        probes = questions[one.edits]
        queries = [probe.query for probe in probes]
        blocks = {retain: demonstration_block(retain, style.retain) for retain in one.retains}
        lengths = {retain: (model.count(block), len(block)) for retain, block in blocks.items()}
        longest = sorted(one.retains, key=lengths.__getitem__, reverse=True)
        most = min(max_shots, len(longest))
        if limit is not None:
            most = limit.fitting(most, lambda j: style.show(one, longest[-j:], queries))  # noqa: B023 - called at once
        for j in range(1, most + 1):
            for prompt, probe in zip(style.show(one, longest[:j], queries), probes, strict=True):
                model.add(f"{prompt.text} {probe.target}")


def show_bound(model: CountingModel, api: ApiOptions) -> None:
    """Draw the most that a run can cost which makes the counted calls."""
    calls, read, written = model.calls, model.read, model.written
    money = api.price.of(read, written)
    how = f"counted by {api.tokenizer}" if api.tokenizer else f"estimated at {CHARACTERS_PER_TOKEN} characters a token"
    remark = "give --price-in and --price-out" if money is None else "at the given prices, without retries"
    rows = (
        ("calls", f"{calls:,}", "cached answers cost nothing"),
        ("prompt tokens", f"{read:,}", how),
        ("generated tokens", f"{written:,}", "if every answer had its full length"),
        ("money", "n/a" if money is None else f"{money:.4f}", remark),
    )
    draw(Table("At most; nothing was sent", ("what", "at most", "how it is counted"), rows, wide=True))


@contextmanager
def metered(model: LanguageModel, folder: Path | None = None) -> Iterator[None]:
    """Print what a served model used since it was opened, however the block ends.

    The calls that opening it took are recorded in the run's folder here, all others by the part that makes them.
    """
    opened = model.usage
    if folder is not None and opened.requests:
        add_usage(folder, "probe", opened)
    try:
        yield
    finally:
        if model.info.served:
            say(f"\nUsed: {sentence(model.usage)}")


def used_in(folder: Path) -> Usage:
    """Sum the usage of all parts of a run; nothing if its folder does not say. Raises RunError."""
    return sum(read_usage(folder).values(), Usage())


def sentence(used: Usage) -> str:
    """Describe calls, tokens and money in a sentence."""
    parts = [
        f"{used.calls:,} calls in {used.requests:,} requests, {used.cached:,} answers from the cache",
        f"{used.prompt_tokens:,} prompt tokens, {used.completion_tokens:,} generated",
        *([f"{used.tokens_shared:,} prompt tokens from the server's own cache"] if used.tokens_shared else []),
        *([f"token counts of {used.estimated:,} calls estimated"] if used.estimated else []),
        *([] if used.money is None else [f"cost {used.money:.4f}"]),
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
