"""Ask a model for its answers to prompts: checked for number and kind, the reasoning apart."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TypeVar, cast

from drike.answers.thoughts import without_thoughts
from drike.errors import ModelError, UsageError
from drike.models.protocols import (
    ANSWER_TOKENS,
    MAX_REASONING_TOKENS,
    Completion,
    ContrastiveModel,
    LanguageModel,
    Turns,
)
from drike.prompts import Against, Prompt

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

    The model is called once for each kind of prompt: those that ask to reason first, those whose
    answer is contrasted, and the others. Raises UsageError for a contrast that it cannot do.
    """
    written: dict[int, WrittenAnswer] = {}  # by the prompt's place

    contrasted = {
        place: prompt.against for place, prompt in enumerate(prompts) if prompt.against is not None
    }
    if contrasted:
        completions = _contrasted(model, [prompts[i] for i in contrasted], max_tokens)
        for place, completion in zip(contrasted, completions, strict=True):
            written[place] = WrittenAnswer(
                answer=completion.text, prompt_tokens=completion.prompt_tokens
            )

    without_cue = [
        place
        for place, prompt in enumerate(prompts)
        if prompt.cue is None and place not in contrasted
    ]
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
    completions = model.generate(_inputs(model, prompts), max_tokens, stop)
    whole = checked(f"{model.info.name}.generate", completions, Completion, len(prompts))
    return [replace(completion, text=without_thoughts(completion.text)) for completion in whole]


def _contrasted(
    model: LanguageModel, prompts: Sequence[Prompt], max_tokens: int
) -> list[Completion]:
    inputs = _inputs(model, prompts)
    against = [contrast_input(model, prompt) for prompt in prompts]
    given = [contrast for contrast in against if contrast is not None]
    contrastive = cast("ContrastiveModel", model)
    completions = contrastive.generate_contrasted(inputs, given, max_tokens, "\n")
    name = f"{model.info.name}.generate_contrasted"
    whole = checked(name, completions, Completion, len(prompts))
    return [replace(completion, text=without_thoughts(completion.text)) for completion in whole]


def _inputs(model: LanguageModel, prompts: Sequence[Prompt]) -> list[str | Turns]:
    inputs: list[str | Turns] = []
    for prompt in prompts:
        text, earlier = model_input(model, prompt)
        inputs.append((*earlier, text) if earlier else text)
    return inputs


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


def contrast_input(model: LanguageModel, prompt: Prompt) -> Against | None:
    """What a prompt's answer is contrasted with, as the model takes it; None if it is not.

    Raises UsageError for a model that cannot contrast, and for a prompt that asks to reason first.
    """
    if prompt.against is None:
        return None
    if not model.info.contrasts:
        where = "behind an API" if model.info.served else "not one of a folder or the hub"
        raise UsageError(
            f"{model.info.name} is {where} and gives no probabilities of all tokens, which "
            "contrastive decoding needs: use a local model, or leave the contrast out"
        )
    if prompt.cue is not None:
        raise UsageError(
            "an answer after reasoning cannot be contrasted with one without: use an editor whose "
            "prompts do not ask to reason first, or leave the contrast out"
        )
    *earlier, text = prompt.against.turns
    bare, turns_before = model_input(model, Prompt(text, earlier=tuple(earlier)))
    return replace(prompt.against, turns=(*turns_before, bare))


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
