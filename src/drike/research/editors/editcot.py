"""EditCoT: the model is asked to reason about the new facts before it answers.

The published pipeline takes four or five calls per query (`benchmarks/lib/editcot.py`). This
editor asks for the reasoning and the answer in one call, which is what the paper's timings suggest.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from drike.edits.edit import Edit
from drike.prompts import FACT_CHANGED, Prompt, facts_of

ANSWER_CUE = "Answer:"


@dataclass(frozen=True)
class EditCoT:
    """States the facts and asks for reasoning and, after a cue, an answer."""

    name: str = "EditCoT"

    def prompts(self, edits: Sequence[Edit], queries: Sequence[str]) -> list[Prompt]:
        """One instruction per query, to think whether it depends on the facts, and to answer.

        Raises ValueError for no edits.
        """
        facts = facts_of(edits)
        if len(facts) == 1:
            these_facts = "this fact"
            changed_fact = "the changed fact"
        else:
            these_facts = "these facts"
            changed_fact = "a changed fact"

        before_query = (
            "".join(f"{FACT_CHANGED}{fact}.\n" for fact in facts)
            + f"Everything that does not depend on {these_facts} is as it was.\n"
            + "Complete this sentence: "
        )
        after_query = (
            f"First think step by step: does the sentence depend on {changed_fact}? "
            "If so, what follows from the change?\n"
            f'Then write "{ANSWER_CUE}" and the shortest completion of the sentence, '
            "nothing else.\n"
            "Reasoning:"
        )
        return [
            Prompt(f"{before_query}{query}\n{after_query}", cue=ANSWER_CUE) for query in queries
        ]
