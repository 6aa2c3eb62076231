"""EditCoT, as the paper's 0-parameter baseline: chain of thought before the answer.

`EditCoT` is one call, which is what the paper's timing implies (2.02 s against FactPrompt's 1.99 s). `EditCoTFull` is
the
published pipeline without its fine-tuned editor: answer, chain of thought for it, does the edit contradict it, edited
chain, final answer from that chain; the given edit stands in for retrieval. The wording of both is ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from drike.answers import first_line
from drike.edits import Edit
from drike.models.protocols import MAX_REASONING_TOKENS, LanguageModel
from drike.prompts import (
    Prompt,
    answer_from_thoughts,
    bare,
    chain_of_thought,
    conflict_question,
    edit_thoughts,
    editcot,
)


@dataclass(frozen=True)
class EditCoT:
    """State the fact, reason in steps, answer behind a cue, in a single call."""

    name: str = "EditCoT"

    def prompts(self, edit: Edit, queries: Sequence[str]) -> list[Prompt]:
        """One instruction a query."""
        return [editcot(edit, query) for query in queries]


@dataclass(frozen=True)
class EditCoTFull:
    """The pipeline of four calls, or five where the edit contradicts the model's reasons.

    `prompts` asks the model for everything up to the final answer, all queries of a step together.
    """

    model: LanguageModel
    name: str = "EditCoT (full)"

    def prompts(self, edit: Edit, queries: Sequence[str]) -> list[Prompt]:
        """The final prompt of each query, with the number of calls it took."""
        answers = [first_line(text) for text in self._write([bare(query).text for query in queries])]
        asked = [chain_of_thought(query, answer) for query, answer in zip(queries, answers, strict=True)]
        thoughts = [text.strip() for text in self._write(asked, MAX_REASONING_TOKENS, "\n\n")]
        asked = [conflict_question(edit, query, chain) for query, chain in zip(queries, thoughts, strict=True)]
        conflicts = [first_line(text).casefold().startswith("contradict") for text in self._write(asked)]
        contradicted = [i for i, conflict in enumerate(conflicts) if conflict]
        asked = [edit_thoughts(edit, queries[i], thoughts[i]) for i in contradicted]
        for i, text in zip(contradicted, self._write(asked, MAX_REASONING_TOKENS, "\n\n"), strict=True):
            thoughts[i] = text.strip()
        return [
            replace(answer_from_thoughts(query, chain), calls=5 if conflict else 4)
            for query, chain, conflict in zip(queries, thoughts, conflicts, strict=True)
        ]

    def _write(self, prompts: list[str], max_tokens: int = 16, stop: str = "\n") -> list[str]:
        return [completion.text for completion in self.model.generate(prompts, max_tokens, stop)] if prompts else []
