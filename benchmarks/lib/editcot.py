"""EditCoT as published, in four or five calls, without its fine-tuned editor.

The model answers, gives the reasons for its answer, says whether the edit contradicts them, rewrites them if so, and
answers from them. The edit is given, not retrieved. The words are ours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from drike.answers.matching import first_line
from drike.edits.edit import Edit
from drike.models.protocols import MAX_REASONING_TOKENS, LanguageModel
from drike.prompts import SENTENCE, TO_COMPLETE, WORLD_CHANGED, Prompt, facts_of

_WHY = (  # second call: the reasons for the model's own answer
    f"{SENTENCE}{{query}} {{answer}}\n"
    "Give the facts behind this sentence, one short statement a line, ending with the sentence itself.\nThoughts:\n"
)
_CONFLICT = (  # third call: one word on how the new fact relates to the chain of thought
    f"{TO_COMPLETE}{{query}}\nThoughts:\n{{thoughts}}\nNew knowledge: {{facts}}.\n"
    "Does the new knowledge contradict the thoughts, support them, or is it unrelated? Answer with one word: "
    "Contradict, Support or Unrelated.\nRelation of the new knowledge to the thoughts:"
)
_REWRITE = (  # fourth call: the chain of thought rewritten to agree with the new fact
    f"{TO_COMPLETE}{{query}}\nOld thoughts:\n{{thoughts}}\nNew knowledge: {{facts}}.\n"
    "Rewrite the thoughts so that they agree with the new knowledge, one short statement a line.\nNew thoughts:\n"
)
_ANSWER = (  # last call: complete the query from the chain of thought alone
    f"{WORLD_CHANGED}trust the thoughts below rather than what you remember.\nThoughts:\n{{thoughts}}\n"
    "Complete the sentence with as few words as possible.\nSentence: {query}"
)


@dataclass(frozen=True)
class EditCoTFull:
    """The pipeline of four calls, or five where the edit contradicts the model's reasons.

    `prompts` makes all calls but the last, for all queries at once.
    """

    model: LanguageModel
    name: str = "EditCoT (full)"

    def prompts(self, edits: Sequence[Edit], queries: Sequence[str]) -> list[Prompt]:
        """The final prompt of each query, with the number of calls it took. Raises ValueError for no edits."""
        facts = ". ".join(facts_of(edits))
        answers = [
            first_line(text) for text in self._write([Prompt(query).text for query in queries])
        ]
        asked = [
            _WHY.format(query=query, answer=answer)
            for query, answer in zip(queries, answers, strict=True)
        ]
        thoughts = [text.strip() for text in self._write(asked, MAX_REASONING_TOKENS, "\n\n")]
        asked = [
            _CONFLICT.format(query=q, thoughts=t, facts=facts)
            for q, t in zip(queries, thoughts, strict=True)
        ]
        conflicts = [
            first_line(text).casefold().startswith("contradict") for text in self._write(asked)
        ]
        contradicted = [i for i, conflict in enumerate(conflicts) if conflict]
        asked = [
            _REWRITE.format(query=queries[i], thoughts=thoughts[i], facts=facts)
            for i in contradicted
        ]
        for i, text in zip(
            contradicted, self._write(asked, MAX_REASONING_TOKENS, "\n\n"), strict=True
        ):
            thoughts[i] = text.strip()
        return [
            Prompt(_ANSWER.format(query=query, thoughts=chain), calls=5 if conflict else 4)
            for query, chain, conflict in zip(queries, thoughts, conflicts, strict=True)
        ]

    def _write(self, prompts: list[str], max_tokens: int = 16, stop: str = "\n") -> list[str]:
        return (
            [completion.text for completion in self.model.generate(prompts, max_tokens, stop)]
            if prompts
            else []
        )
