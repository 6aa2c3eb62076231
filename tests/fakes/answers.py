"""Answers of models behind an API: the file that keeps them, and any model in the place of a served one."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

from drike.models.protocols import ANSWER_TOKENS, Completion, LanguageModel, Prompts, Request, Score
from drike.models.served.cache import AnswerCache, CachedModel


class Streamed:
    """A model that gives its answers one after the other, as a served one does."""

    def __init__(self, model: LanguageModel) -> None:
        self.model = model

    def __getattr__(self, name: str) -> object:
        return getattr(self.model, name)

    def completions(
        self, prompts: Prompts, max_tokens: int = ANSWER_TOKENS, stop: str | None = "\n"
    ) -> Iterator[tuple[int, Completion]]:
        """All completions, with the index of each."""
        yield from enumerate(self.model.generate(prompts, max_tokens, stop))

    def scores(self, requests: Sequence[Request]) -> Iterator[tuple[int, Score]]:
        """All scores, with the index of each."""
        assert self.model.score is not None
        yield from enumerate(self.model.score(requests))


def cached(model: LanguageModel, path: Path, identity: str = "m") -> CachedModel:
    """Any model whose answers are kept in a file."""
    return CachedModel(Streamed(model), identity, AnswerCache(path))  # type: ignore[arg-type]


def kept_answers(path: Path) -> int:
    """How many answers a file keeps; 0 if there is none."""
    if not path.exists():
        return 0
    with closing(sqlite3.connect(path)) as file:
        [[count]] = file.execute("SELECT count(*) FROM entries")
    return int(count)
