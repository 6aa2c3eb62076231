"""What a run would cost at most: `--dry-run`. Nothing is sent."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from drike.cli.console import draw
from drike.demonstrations import DemonstrationSet
from drike.models.protocols import MAX_ANSWER_TOKENS, Completion, ModelInfo, Request, Score, Usage
from drike.models.served.address import is_served, parse_address
from drike.models.served.options import ApiOptions
from drike.models.served.spending import CHARACTERS_PER_TOKEN, estimated_tokens
from drike.prompts import PromptStyle, chat_messages, demonstration_block
from drike.report import Table
from drike.retrieval.token_limit import TokenLimit


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


class CountingModel:
    """A model that only counts, and writes what makes callers ask the most: to the limit, "Contradict" first.

    scores: as on a server that may rate texts, where every target and distractor is a call of its own.
    """

    def __init__(self, name: str, tally: Tally, *, scores: bool) -> None:
        self.info, self.usage, self.count_tokens = ModelInfo(name), Usage(), None
        self.tally = tally
        self.score = self._score if scores else None

    def generate(
        self, prompts: Sequence[str], max_tokens: int = MAX_ANSWER_TOKENS, stop: str | None = "\n"
    ) -> list[Completion]:
        """Count, and write."""
        for prompt in prompts:
            self.tally.add(prompt, max_tokens)
        filler = "Contradict " + "word " * max_tokens
        return [Completion(filler[: CHARACTERS_PER_TOKEN * max_tokens]) for _ in prompts]

    def forget(self) -> None:
        """Nothing is kept."""

    def _score(self, requests: Sequence[Request]) -> list[Score]:
        for request in requests:
            self.tally.add(request.prompt + request.continuation, MAX_ANSWER_TOKENS)
        return [Score((-1.0,), False, -1.0) for _ in requests]


def counting_model(name: str, template: str, terms: ApiOptions) -> CountingModel:
    """A model that counts, of the kind that would be asked. Raises ModelError for an address that cannot be."""
    if is_served(name):
        parse_address(name, allow_http=terms.allow_http)
    tally = Tally(token_counter(terms.tokenizer, template), terms.thinking_tokens)
    return CountingModel(name, tally, scores=template != "chat" and not terms.text_only)


def token_counter(tokenizer: str | None, template: str) -> Callable[[str], int]:
    """Tokens of a prompt as it is sent, by a tokenizer (with its chat template, if it has one) or by an estimate.

    Raises UsageError for a tokenizer that cannot be opened.
    """
    if tokenizer is None:
        return lambda prompt: estimated_tokens(chat_messages(prompt)[0]["content"] if template == "chat" else prompt)
    from transformers import AutoTokenizer

    from drike.errors import UsageError

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
    tally: Tally,
    candidates: Iterable[DemonstrationSet],
    max_shots: int,
    style: PromptStyle,
    limit: TokenLimit | None = None,
) -> None:
    """Count an epoch's calls at most: every prefix of every pool, the longest retains first, whatever is learned.

    Under a limit, as many prefixes as fit with the shortest retains.
    """
    for one in candidates:
        query = [one.edit.query]
        blocks = {retain: demonstration_block(retain, style.retain) for retain in one.retains}
        longest = sorted(
            one.retains, key=lambda retain: (tally.count(blocks[retain]), len(blocks[retain])), reverse=True
        )
        most = min(max_shots, len(longest))
        if limit is not None:
            most = limit.fitting(most, lambda j: style.show(one, longest[-j:], query))  # noqa: B023 - called at once
        for j in range(1, most + 1):
            [prompt] = style.show(one, longest[:j], query)
            tally.add(f"{prompt.text} {one.edit.target_new}", MAX_ANSWER_TOKENS)


def show_bound(tally: Tally, terms: ApiOptions, times: int = 1, title: str = "At most; nothing was sent") -> None:
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
