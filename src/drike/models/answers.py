"""Ask a model for its answers to prompts: checked for number and kind, the reasoning apart."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from drike.answers.thoughts import without_thoughts
from drike.errors import ModelError
from drike.models.protocols import (
    ANSWER_TOKENS,
    MAX_REASONING_TOKENS,
    Completion,
    LanguageModel,
    Turns,
)
from drike.prompts import Prompt

Returned = TypeVar("Returned")


@dataclass(frozen=True)
class WrittenAnswer:
    """An answer that a model wrote, None if it was not asked to, and the reasoning before it."""

    reasoning: str = ""  # up to and including the cue, even if the model did not write it
    answer: str | None = None
    reached_cue: bool = True
    prompt_tokens: int | None = None


def complete(
    model: LanguageModel, prompts: Sequence[Prompt], max_tokens: int = ANSWER_TOKENS
) -> list[str]:
    """The model's answer to each prompt, in one line.

    Of a prompt that asks to reason first, this is what follows the last cue, "" without a cue.
    """
    return [written.answer or "" for written in write_answers(model, prompts, max_tokens)]


def write_answers(
    model: LanguageModel, prompts: Sequence[Prompt], max_tokens: int = ANSWER_TOKENS
) -> list[WrittenAnswer]:
    """What the model writes after each prompt.

    The model is called once, or twice if only some of the prompts ask to reason first.
    """
    written: dict[int, WrittenAnswer] = {}  # by the prompt's place

    without_cue = [place for place, prompt in enumerate(prompts) if prompt.cue is None]
    if without_cue:
        completions = _generated(model, [prompts[i] for i in without_cue], max_tokens, "\n")
        for place, completion in zip(without_cue, completions, strict=True):
            written[place] = WrittenAnswer(
                answer=completion.text, prompt_tokens=completion.prompt_tokens
            )

    cues = {place: prompt.cue for place, prompt in enumerate(prompts) if prompt.cue is not None}
    if cues:
        completions = _generated(model, [prompts[i] for i in cues], MAX_REASONING_TOKENS, None)
        for (place, cue), completion in zip(cues.items(), completions, strict=True):
            written[place] = _after_reasoning(cue, completion)

    return [written[place] for place in range(len(prompts))]


def _generated(
    model: LanguageModel, prompts: Sequence[Prompt], max_tokens: int, stop: str | None
) -> list[Completion]:
    inputs: list[str | Turns] = []
    for prompt in prompts:
        text, earlier = model_input(model, prompt)
        inputs.append((*earlier, text) if earlier else text)

    completions = model.generate(inputs, max_tokens, stop)
    whole = checked(f"{model.info.name}.generate", completions, Completion, len(prompts))
    return [replace(completion, text=without_thoughts(completion.text)) for completion in whole]


def _after_reasoning(cue: str, completion: Completion) -> WrittenAnswer:
    """The text behind the last cue. Without a cue, one is put behind what was written."""
    reasoning, found_cue, answer = completion.text.rpartition(cue)
    if not found_cue:
        return WrittenAnswer(f"{completion.text}\n{cue}", "", False, completion.prompt_tokens)
    return WrittenAnswer(reasoning + cue, answer, True, completion.prompt_tokens)


def model_input(model: LanguageModel, prompt: Prompt) -> tuple[str, Turns]:
    """A prompt's text as the model takes it, and the turns before it.

    A model that takes no turns gets the whole conversation as one text.
    """
    if not prompt.earlier:
        return prompt.text, ()
    if model.info.turns:
        return prompt.text, prompt.earlier
    return prompt.conversation, ()


def checked(
    called: str, answers: list[Returned], kind: type[Returned], count: int
) -> list[Returned]:
    """What `called` returned, if its answers are of the right kind and number, or ModelError."""
    wrong = [type(answer).__name__ for answer in answers if not isinstance(answer, kind)]
    if wrong:
        raise ModelError(f"{called} returned a {wrong[0]}: return drike.{kind.__name__}s")
    if len(answers) != count:
        raise ModelError(
            f"{called} returned {len(answers)} answers to {count} prompts: return one for each"
        )
    return answers
