"""How stored edits change the text of a request: as a block before it, or as an editor's prompt in its place."""

from __future__ import annotations

import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from drike.edits import Edit
from drike.prompts import Prompt, facts_of
from drike.serving.context import block


class Writer(Protocol):
    """An editor, as far as serving needs it."""

    def prompts(self, edits: Sequence[Edit], queries: Sequence[str]) -> list[Prompt]:
        """One prompt per query, in order."""


class Placement(Protocol):
    """Puts edits into a text."""

    def place(self, edits: Sequence[Edit], text: str, query: str) -> str:
        """The text with the edits, the best first; `query` is what the gate has read of it."""


@dataclass(frozen=True)
class AsBlock:
    """The facts, with the demonstrations that `writer` shows, as a block before the text.

    tokens: about how many a block may take.
    """

    writer: Writer
    tokens: int = 1024

    def place(self, edits: Sequence[Edit], text: str, query: str) -> str:
        """The block, then the text."""
        [prompt] = self.writer.prompts(edits, [query])
        return block(facts_of(edits), prompt.demonstrations, secrets.token_hex(8), tokens=self.tokens) + text


@dataclass(frozen=True)
class AsPrompt:
    """The prompt of `writer` for the text, which is to be completed: the layout of training and evaluation."""

    writer: Writer

    def place(self, edits: Sequence[Edit], text: str, query: str) -> str:
        """The prompt, which ends in the text."""
        [prompt] = self.writer.prompts(edits, [text])
        return prompt.text
