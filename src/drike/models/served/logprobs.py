"""Log-probabilities of a *given* continuation from a server, and the probe that shows whether it returns them.

Many servers ignore a request to rate a text, or rate only what they write themselves (llama.cpp, all chat services), so
each of three forms is used only after a probe: an obvious continuation must be far more probable than an odd one.

The continuation's tokens are found by their texts, from the end, since offsets count a start-of-text token on some
servers only. White space is ignored (some tokenizers hide it), as are characters beyond ASCII that tokens split.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from drike.errors import ModelError
from drike.models.protocols import Request, Score

# Any language model continues a repeated text.
PROBE = "red green blue, red green blue, red green blue, red green blue, red green"
OBVIOUS, ODD = " blue", " Wednesday"
_LARGEST = 1e6  # nats; a larger value is no log-probability
_CHOICES = 2  # the best two tokens at each place: the target's rival is among them


class Token(NamedTuple):
    """A rated token: its log-probability (None for the first one of a text) and those of its rivals."""

    text: str
    logprob: float | None
    rivals: tuple[float, ...]


class RatedText(NamedTuple):
    """A rated text: its tokens, and what the model wrote after it (None if that is among the tokens)."""

    tokens: tuple[Token, ...]
    written: str | None


@dataclass(frozen=True)
class ScoreForm:
    """A form of request: its path, its JSON, and how its answer is read (raises ValueError, KeyError, TypeError...)."""

    name: str
    path: str
    body: Callable[[str, str], dict[str, object]]
    read: Callable[[Mapping[str, Any], str], RatedText]


def score_of(rated: RatedText, request: Request) -> Score:
    """The continuation's score. Raises ValueError, saying why, where the tokens do not show it."""
    tokens = rated.tokens
    start, end = _place([token.text for token in tokens], request)
    own = tokens[start:end]
    if any(not token.rivals for token in own):
        raise ValueError("it does not give the second choice at each token")
    if not all(is_logprob(value) for token in own for value in (token.logprob, *token.rivals)):
        raise ValueError("it gives no finite log-probability for a token of the continuation")
    logprobs = tuple(min(token.logprob or 0.0, 0.0) for token in own)
    gap = min(logprob - max(token.rivals) for logprob, token in zip(logprobs, own, strict=True))
    following = rated.written if rated.written is not None else "".join(token.text for token in tokens[end:])
    if not isinstance(following, str):
        raise TypeError("the text after the continuation is not a string")
    return Score(logprobs, gap > 0, gap, following, start)


def is_logprob(value: object) -> bool:
    """Whether a value is a number that a log-probability, or a difference of two, can have."""
    return type(value) in (int, float) and abs(value) <= _LARGEST  # type: ignore[arg-type]  # false for NaN


def _place(texts: Sequence[str], request: Request) -> tuple[int, int]:
    """The continuation's place among tokens, [start, end). The model may have written one more token after it."""
    for kept in (_without_space, _ascii):
        whole, own = kept(request.prompt + request.continuation), kept(request.continuation)
        if kept is _ascii and not request.prompt[-1:].isascii():
            continue  # a part of the prompt's last character could be taken for the continuation's
        for end in (len(texts) - 1, len(texts)):
            if end < 1 or not kept("".join(texts[:end])).endswith(whole):
                continue
            last = _without_space(texts[-1])
            if end < len(texts) and last and not kept(last) and _without_space(request.continuation).endswith(last):
                continue  # hidden from this comparison, but it spells the continuation's end: nothing was written
            start, left = end, len(own)
            while left > 0:
                start -= 1
                left -= len(kept(texts[start]))
            ends_in_space = request.prompt[-1:].isspace()
            while start > 1 and not kept(texts[start - 1]) and not ends_in_space:
                start -= 1
            straddles = not ends_in_space and texts[start - 1][-1:].isspace()  # holds the continuation's space
            if left == 0 and start < end and not straddles:
                return start, end
    raise ValueError("the tokens it returns do not spell the prompt and the continuation")


def _without_space(text: str) -> str:
    return "".join(text.split())


def _ascii(text: str) -> str:
    return _without_space("".join(character for character in text if character.isascii()))


def read(form: ScoreForm, answer: Mapping[str, Any], request: Request) -> Score:
    """A score from a server's answer. Raises ModelError if the answer is not in the form that the probe found."""
    try:
        return score_of(form.read(answer, request.prompt + request.continuation), request)
    except (ValueError, KeyError, TypeError, IndexError, AttributeError) as problem:
        why = f"the server cannot rate {request.continuation!r} by {form.name} ({reason(problem)})"
        raise ModelError(f"{why}: judge by text alone, `text_only`") from problem


def reason(problem: BaseException | None) -> str:
    """Why an answer contains no score, in words."""
    return str(problem) if type(problem) is ValueError else "it gives no log-probabilities in this form"


def _rivals(own: float | None, text: str, best: Mapping[str, float] | None) -> tuple[float, ...]:
    """Log-probabilities of the best tokens except the token itself, recognised by its text or else by its value."""
    others = dict(best or {})
    itself = text if text in others else next((other for other, value in others.items() if value == own), text)
    others.pop(itself, None)
    return tuple(others.values())


def _read_echo(answer: Mapping[str, Any], text: str) -> RatedText:
    choice = answer["choices"][0]
    rated = choice["logprobs"]
    rows = zip(rated["tokens"], rated["token_logprobs"], rated["top_logprobs"], strict=True)
    tokens = tuple(Token(token, logprob, _rivals(logprob, token, best)) for token, logprob, best in rows)
    whole = choice["text"]
    return RatedText(tokens, whole[len(text) :] if whole.startswith(text) else None)


def _read_prompt_logprobs(answer: Mapping[str, Any], text: str) -> RatedText:
    choice = answer["choices"][0]
    tokens = []
    for place in choice["prompt_logprobs"]:
        if place is None:
            tokens.append(Token("", None, ()))
            continue
        own, *others = place.values()  # the prompt's own token comes first
        tokens.append(Token(own["decoded_token"], own["logprob"], tuple(other["logprob"] for other in others)))
    return RatedText((*tokens, Token("", None, ())), choice["text"])


def _read_generate(answer: Mapping[str, Any], text: str) -> RatedText:
    meta = answer["meta_info"]
    tokens = []
    for (logprob, number, shown), best in zip(meta["input_token_logprobs"], meta["input_top_logprobs"], strict=True):
        rivals = tuple(value for value, other, _ in best or () if other != number)
        tokens.append(Token(shown or "", logprob, rivals))
    return RatedText((*tokens, Token("", None, ())), answer["text"])


def _completions(**asked: object) -> Callable[[str, str], dict[str, object]]:
    return lambda model, text: {"model": model, "prompt": text, **asked, "max_tokens": 1, "temperature": 0}


_GENERATE = {
    "sampling_params": {"max_new_tokens": 1, "temperature": 0}, "return_logprob": True, "logprob_start_len": 0,
    "top_logprobs_num": _CHOICES, "return_text_in_logprobs": True,
}  # fmt: skip

FORMS = (
    ScoreForm("completions with echo", "completions", _completions(echo=True, logprobs=_CHOICES), _read_echo),
    ScoreForm("prompt_logprobs", "completions", _completions(prompt_logprobs=_CHOICES), _read_prompt_logprobs),
    ScoreForm("SGLang's /generate", "../generate", lambda model, text: {"text": text, **_GENERATE}, _read_generate),
)
