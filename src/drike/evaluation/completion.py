"""Let a model write its answers to prompts, and check what it returns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

from drike.errors import ModelError
from drike.matching import first_line
from drike.models.protocols import ANSWER_TOKENS, MAX_REASONING_TOKENS, Completion, LanguageModel, Turns
from drike.prompts import Prompt

Returned = TypeVar("Returned")


@dataclass(frozen=True)
class WrittenAnswer:
    """An answer that a model wrote, and the reasoning before it.

    reasoning: up to and including the cue of the answer, even if the model did not write the cue. answer: None if the
    model was not asked to write. reached_cue: False if it was to reason first and wrote no cue.
    """

    reasoning: str = ""
    answer: str | None = None
    reached_cue: bool = True
    prompt_tokens: int | None = None

    @property
    def turn(self) -> str:
        """Reasoning and answer as a turn of a conversation."""
        return f"{self.reasoning} {first_line(self.answer or '')}".strip()


def complete(model: LanguageModel, prompts: Sequence[Prompt], max_tokens: int = ANSWER_TOKENS) -> list[str]:
    """The model's answer to each prompt, in one line.

    If a prompt asks to reason first, the model may write MAX_REASONING_TOKENS, and the answer is the text after its
    last cue; "" if the model wrote no cue.
    """
    return [written.answer or "" for written in write_answers(model, prompts, max_tokens)]


def write_answers(
    model: LanguageModel, prompts: Sequence[Prompt], max_tokens: int = ANSWER_TOKENS
) -> list[WrittenAnswer]:
    """What the model writes after each prompt: in one call, or two if only some prompts ask to reason first."""
    written: dict[int, WrittenAnswer] = {}
    for reasons in (False, True):
        places = [i for i, prompt in enumerate(prompts) if (prompt.cue is not None) == reasons]
        if not places:
            continue
        limit, stop = (MAX_REASONING_TOKENS, None) if reasons else (max_tokens, "\n")
        inputs = (model_input(model, prompts[i]) for i in places)
        completions = model.generate([(*earlier, text) if earlier else text for text, earlier in inputs], limit, stop)
        completions = checked(model, "generate", completions, Completion, len(places))
        written |= {i: _split(prompts[i].cue, completion) for i, completion in zip(places, completions, strict=True)}
    return [written[i] for i in range(len(prompts))]


def _split(cue: str | None, completion: Completion) -> WrittenAnswer:
    """Split a completion at the last cue of its answer, if the prompt asked for one."""
    if cue is None:
        return WrittenAnswer(answer=completion.text, prompt_tokens=completion.prompt_tokens)
    reasoning, reached, answer = completion.text.rpartition(cue)
    if not reached:
        return WrittenAnswer(f"{completion.text}\n{cue}", "", False, completion.prompt_tokens)
    return WrittenAnswer(reasoning + cue, answer, True, completion.prompt_tokens)


def model_input(model: LanguageModel, prompt: Prompt) -> tuple[str, Turns]:
    """A prompt's text as the model takes it, and the turns before it: none if it takes conversations as one text."""
    if not prompt.earlier:
        return prompt.text, ()
    return (prompt.text, prompt.earlier) if model.info.turns else (prompt.conversation, ())


def checked(
    model: LanguageModel, method: str, answers: list[Returned], kind: type[Returned], count: int
) -> list[Returned]:
    """Return a model's answers if they are of the right kind and number. Raises ModelError."""
    called = f"{model.info.name}.{method}"
    if wrong := [type(answer).__name__ for answer in answers if not isinstance(answer, kind)]:
        raise ModelError(f"{called} returned a {wrong[0]}: return drike.{kind.__name__}s")
    if len(answers) != count:
        raise ModelError(f"{called} returned {len(answers)} answers to {count} prompts: return one for each")
    return answers
