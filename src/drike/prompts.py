"""Prompt wording; no other module spells a prompt.

The in-context layout is IKE's: a demonstration is two lines and a blank one,

    New Fact: {its fact} {its new object}
    Prompt: {query} {answer}

and a prompt ends in the edit itself as a last copy demonstration and `New Fact: {edit}` / `Prompt: {query}`, without a
space behind it. Also here: FactPrompt's prefix, EditCoT's instructions and the chat form for models that only chat.
Every text ends where the model has to go on; a target is scored as " " + target behind it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from drike.demonstrations import Demonstration, Role
from drike.edits import Edit

RetainForm = Literal["headed", "bare"]

ANSWER_CUE = "Answer:"
# Prompts that begin so say themselves what to do; a chat model is told nothing else.
_CHANGED, _SENTENCE, _TO_COMPLETE = "A fact has changed: ", "Sentence: ", "Sentence to complete: "
_TRUST = "The world has changed: "
_INSTRUCTIONS = (_CHANGED, _SENTENCE, _TO_COMPLETE, _TRUST)

CHAT_INSTRUCTION = "Continue the text below. Reply with the completion of its last line only, in a few words."


@dataclass(frozen=True)
class Prompt:
    """Everything a model is given for one query, and what an explanation needs to know about it.

    `cue`: None where the answer follows the text at once; else the model reasons first and the answer is what follows
    the last `cue` in its reply. `calls`: model calls it stands for, this one included. `pruned`: retains that were
    wanted and did not fit.
    """

    text: str
    demonstrations: tuple[Demonstration, ...] = ()
    cue: str | None = None
    calls: int = 1
    pruned: int = 0

    @property
    def shots(self) -> int:
        """Retain demonstrations in the prompt."""
        return sum(demonstration.role is Role.RETAIN for demonstration in self.demonstrations)


def fact_line(edit: Edit) -> str:
    """The header that states an edit."""
    return f"New Fact: {edit.fact}"


def query_block(edit: Edit, query: str) -> str:
    """The edit and a question about it, as the last two lines of a prompt; also what the retriever reads as x."""
    return f"{fact_line(edit)}\nPrompt: {query}"


def demonstration_block(demonstration: Demonstration, retain: RetainForm = "headed") -> str:
    """A demonstration's lines with the blank line behind; `retain="bare"` shows a retain without its header."""
    shown = f"Prompt: {demonstration.query} {demonstration.answer}\n\n"
    if retain == "bare" and demonstration.role is Role.RETAIN:
        return shown
    return f"New Fact: {demonstration.fact}\n{shown}"


def in_context(
    demonstrations: Sequence[Demonstration],
    edit: Edit,
    query: str,
    *,
    own_copy: bool = True,
    retain: RetainForm = "headed",
) -> Prompt:
    """Demonstrations in the given order, the edit as its own copy demonstration, then the question (IKE's layout)."""
    shown = "".join(demonstration_block(demonstration, retain) for demonstration in demonstrations)
    copy = f"{query_block(edit, edit.query)} {edit.target_new}\n\n" if own_copy else ""
    return Prompt(shown + copy + query_block(edit, query), tuple(demonstrations))


def bare(query: str) -> Prompt:
    """The query alone: what the unedited model is asked."""
    return Prompt(query)


def factprompt(edit: Edit, query: str) -> Prompt:
    """FactPrompt, the in-context baseline of RippleEdits: one imagined fact before the query."""
    return Prompt(f"Imagine that {edit.fact}.\n{query}")


def editcot(edit: Edit, query: str) -> Prompt:
    """EditCoT as a single call: state the fact, reason whether the query depends on it, then answer behind a cue."""
    return Prompt(
        f"{_CHANGED}{edit.fact}.\n"
        "Everything that does not depend on this fact is as it was.\n"
        f"Complete this sentence: {query}\n"
        "First think step by step: does the sentence depend on the changed fact? If so, what follows from the change?\n"
        f'Then write "{ANSWER_CUE}" and the shortest completion of the sentence, nothing else.\n'
        "Reasoning:",
        cue=ANSWER_CUE,
    )


def chain_of_thought(query: str, answer: str) -> str:
    """EditCoT in full, second call: why the model gave its own answer."""
    return (
        f"{_SENTENCE}{query} {answer}\n"
        "Give the facts behind this sentence, one short statement a line, ending with the sentence itself.\nThoughts:\n"
    )


def conflict_question(edit: Edit, query: str, thoughts: str) -> str:
    """EditCoT in full, third call: one word on how the new fact stands to the chain of thought."""
    return (
        f"{_TO_COMPLETE}{query}\nThoughts:\n{thoughts}\nNew knowledge: {edit.fact}.\n"
        "Does the new knowledge contradict the thoughts, support them, or is it unrelated? Answer with one word: "
        "Contradict, Support or Unrelated.\nRelation of the new knowledge to the thoughts:"
    )


def edit_thoughts(edit: Edit, query: str, thoughts: str) -> str:
    """EditCoT in full, fourth call: the chain of thought rewritten so that it follows the new fact."""
    return (
        f"{_TO_COMPLETE}{query}\nOld thoughts:\n{thoughts}\nNew knowledge: {edit.fact}.\n"
        "Rewrite the thoughts so that they agree with the new knowledge, one short statement a line.\nNew thoughts:\n"
    )


def answer_from_thoughts(query: str, thoughts: str) -> Prompt:
    """EditCoT in full, last call: complete the query from the chain of thought alone."""
    return Prompt(
        f"{_TRUST}trust the thoughts below rather than what you remember.\nThoughts:\n{thoughts}\n"
        f"Complete the sentence with as few words as possible.\nSentence: {query}"
    )


def chat_messages(text: str) -> list[dict[str, str]]:
    """A prompt as one user turn, for models behind a chat template: a text to be continued is introduced as one."""
    content = text if text.startswith(_INSTRUCTIONS) else f"{CHAT_INSTRUCTION}\n\n{text}"
    return [{"role": "user", "content": content}]
