"""Contrastive decoding by a model's logits: scores and texts agree with the formula, and with each other."""

from __future__ import annotations

import math
import random
from dataclasses import replace

import pytest
import torch

from drike.edits.edit import Edit
from drike.errors import UsageError
from drike.models.answers import complete
from drike.models.local.contrast import contrasted_logprobs
from drike.models.local.tokens import decode
from drike.models.protocols import Request, cut
from drike.prompts import Against, Contrast, Prompt
from drike.research.editors.contrasting import Contrasting
from drike.research.editors.factprompt import FactPrompt
from drike.research.evaluation.judge import GREEDY, Judge, Question
from tests.fakes.models import ScriptedModel
from tests.fakes.tiny_models import FORKS, TREES, demonstration, dynamic_rope, gpt1, llama, wrap

BARE = "Prompt: Karl Orff comes from"
PROMPT = f"New Fact: Karl Orff was born in Kyoto\n{BARE}"
EDIT = Edit(query="Karl Orff was born in", target_new="Kyoto", subject="Karl Orff")
CONTRASTS = (Contrast(0.0, 0.0), Contrast(0.5), Contrast(1.5, 0.0), Contrast(1.0, adaptive=True))
MODELS = {
    "Llama": llama,
    "Gemma 3": TREES["Gemma 3"],
    "GPT-1": gpt1,
    "dynamic rope": dynamic_rope,
    "fork": next(iter(FORKS.values())),
}


def by_formula(with_edits: torch.Tensor, without: torch.Tensor, contrast: Contrast) -> torch.Tensor:
    """Log-probabilities [V] from those with and without edits [V], token by token."""
    best = max(with_edits.tolist())
    alpha = contrast.alpha
    if contrast.adaptive:
        p, q = with_edits.double().exp(), without.double().exp()
        mean = (p + q) / 2
        alpha *= float((p * (p / mean).log2() + q * (q / mean).log2()).sum() / 2)
    values = []
    for edited, bare in zip(with_edits.tolist(), without.tolist(), strict=True):
        is_plausible = math.exp(edited) >= contrast.plausible * math.exp(best) * (1 - 1e-6)
        values.append((1 + alpha) * edited - alpha * bare if is_plausible else -math.inf)
    return torch.tensor(values).log_softmax(-1)


def plain_logprobs(model: object, text: str, continuation: tuple[int, ...]) -> torch.Tensor:
    """Log-probabilities [T, V] of the tokens of a continuation after a text, from one plain forward."""
    ids = [*model._tokenizer(text)["input_ids"], *continuation]  # type: ignore[attr-defined]
    with torch.inference_mode():
        logits = model._model(torch.tensor([ids])).logits[0]  # type: ignore[attr-defined]
    return logits[-len(continuation) - 1 : -1].log_softmax(-1)


@pytest.mark.parametrize("name", MODELS)
def test_scores_are_those_of_the_formula_under_every_contrast_of_one_call(name: str) -> None:
    model = wrap(MODELS[name])
    shown = "".join(demonstration(random.Random(i)) for i in range(3))
    prompts = (PROMPT, shown + PROMPT)
    requests = [
        Request(prompt, f" {target}", against=Against((BARE,), contrast))
        for prompt in prompts
        for target in ("Kyoto", "New York")
        for contrast in CONTRASTS
    ]
    scores = model.score(requests)
    for request, score in zip(requests, scores, strict=True):
        assert request.against is not None
        ids = tuple(model._tokenizer(request.continuation)["input_ids"])
        with_edits = plain_logprobs(model, request.prompt, ids)
        without = plain_logprobs(model, BARE, ids)
        for place, token in enumerate(ids):
            right = by_formula(with_edits[place], without[place], request.against.contrast)
            if math.isinf(right[token]):
                assert score.logprobs[place] < -9e3
            else:
                assert score.logprobs[place] == pytest.approx(float(right[token]), abs=2e-3)


def test_no_contrast_is_the_plain_score() -> None:
    model = wrap(llama)
    plain = Request(PROMPT, " New York")
    contrasted = replace(plain, against=Against((BARE,), Contrast(0.0, 0.0)))
    first, second = model.score([plain, contrasted])
    assert second.logprobs == pytest.approx(first.logprobs, abs=1e-4)
    assert (second.greedy, second.following) == (first.greedy, first.following)


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("contrast", [Contrast(0.5), Contrast(1.0, adaptive=True)])
def test_what_is_written_follows_the_formula_token_by_token(name: str, contrast: Contrast) -> None:
    model = wrap(MODELS[name])
    [text] = complete(model, [Prompt(PROMPT, against=Against((BARE,), contrast))], max_tokens=4)
    written: tuple[int, ...] = ()
    for _ in range(4):
        with_edits = plain_logprobs(model, PROMPT, (*written, 0))[-1]
        without = plain_logprobs(model, BARE, (*written, 0))[-1]
        written += (int(by_formula(with_edits, without, contrast).argmax()),)
    assert cut(decode(model._tokenizer, written), "\n") == text


def test_an_editor_contrasts_what_it_edits_and_a_judge_reads_that() -> None:
    model = wrap(llama)
    editor = Contrasting(FactPrompt(), Contrast(0.5))
    [prompt] = editor.prompts([EDIT], ["Karl Orff comes from"])
    assert prompt.against == Against(("Karl Orff comes from",), Contrast(0.5))
    [verdict] = Judge(model, GREEDY).ask([Question(prompt, "Rome")])
    request = Request(prompt.text, " Rome", against=prompt.against)
    assert verdict.score is not None
    assert verdict.score.logprobs == model.score([request])[0].logprobs


def test_alpha_0_changes_no_prompt_and_no_name() -> None:
    plain = FactPrompt()
    editor = Contrasting(plain, Contrast(0.0))
    assert editor.prompts([EDIT], ["Q"]) == plain.prompts([EDIT], ["Q"])
    assert editor.name == plain.name


def test_a_conversation_goes_on_against_the_same_turns_without_edits() -> None:
    prompt = Prompt(PROMPT, against=Against((BARE,), Contrast(1.0))).followed("Oslo", "Sure?")
    assert prompt.against is not None
    assert prompt.against.turns == (BARE, "Oslo", "Sure?")


def test_a_model_without_all_probabilities_refuses() -> None:
    model = ScriptedModel(lambda prompt: "Rome")
    prompt = Prompt(PROMPT, against=Against((BARE,), Contrast(0.5)))
    with pytest.raises(UsageError, match="use a local model, or leave the contrast out"):
        complete(model, [prompt])
    with pytest.raises(UsageError, match="use a local model, or leave the contrast out"):
        Judge(model).ask([Question(prompt, "Rome")])


def test_reasoning_first_is_refused() -> None:
    prompt = Prompt(PROMPT, cue="Answer:", against=Against((BARE,), Contrast(0.5)))
    with pytest.raises(UsageError, match="after reasoning"):
        complete(wrap(llama), [prompt])


def test_numbers_that_mean_nothing_are_refused() -> None:
    for alpha in (-0.1, math.nan, math.inf):
        with pytest.raises(ValueError, match="alpha"):
            Contrast(alpha)
    with pytest.raises(ValueError, match="plausible"):
        Contrast(1.0, 2.0)


def test_tokens_that_are_ruled_out_have_a_number_that_a_file_can_hold() -> None:
    edited = torch.tensor([[5.0, 0.0, -5.0]])
    logprobs = contrasted_logprobs(edited, torch.zeros(1, 3), Contrast(1.0))
    assert torch.isfinite(logprobs).all()
    assert logprobs[0, 0] == pytest.approx(0.0)
