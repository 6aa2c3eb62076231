"""Servers that rate a given text, token by token: three ways to ask, and the score of an ending.

Reading an answer trusts nothing: a part that is missing or of another type raises ValueError,
KeyError, TypeError, IndexError or AttributeError, of which ValueErrors say why.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from drike.models.protocols import Request, Score

_CHOICES = 2  # the best two tokens at each place: the target's rival is among them
# Nats; a larger value is no log-probability, and neither is NaN. Servers write -9999 where they
# have none, as JSON has no infinity.
_LARGEST = 5_000


class Token(NamedTuple):
    """A rated token: its log-probability, None for the first one of a text, and its rivals'."""

    text: str
    logprob: float | None
    rivals: tuple[float, ...]


_UNRATED = Token("", None, ())


class RatedText(NamedTuple):
    """A text's tokens, and what the model wrote after it (None if that is among the tokens)."""

    tokens: Sequence[Token]
    written: str | None


@dataclass(frozen=True)
class ScoreForm:
    """A form of request for ratings.

    path: below the API's address. body: the JSON, of a model's name and a text. read: what the
    answer says, of its JSON and the text.
    """

    name: str
    path: str
    body: Callable[[str, str], dict[str, object]]
    read: Callable[[Mapping[str, Any], str], RatedText]


def is_logprob(value: object) -> bool:
    """Whether a value is a number that a log-probability, or a difference of two, can have."""
    return type(value) in (int, float) and abs(value) <= _LARGEST  # type: ignore[arg-type]


def score_of(rated: RatedText, request: Request) -> Score:
    """The continuation's score. Raises ValueError, saying why, where the tokens do not show it."""
    start, end = _place([token.text for token in rated.tokens], request)
    continuation = rated.tokens[start:end]
    if any(not token.rivals for token in continuation):
        raise ValueError("it does not give the second choice at each token")
    for token in continuation:
        if not all(is_logprob(value) for value in (token.logprob, *token.rivals)):
            raise ValueError("it gives no finite log-probability for a token of the continuation")

    logprobs = tuple(min(token.logprob or 0.0, 0.0) for token in continuation)
    leads = [
        logprob - max(token.rivals) for logprob, token in zip(logprobs, continuation, strict=True)
    ]
    smallest_lead = min(leads)
    following = rated.written
    if following is None:
        following = "".join(token.text for token in rated.tokens[end:])
    if not isinstance(following, str):
        raise TypeError("the text after the continuation is not a string")
    return Score(logprobs, smallest_lead > 0, smallest_lead, following, prompt_tokens=start)


def _place(texts: Sequence[str], request: Request) -> tuple[int, int]:
    """The continuation's place among a rated text's tokens, [start, end).

    Raises ValueError if it is not found. It is found by texts from the end, since offsets count a
    start-of-text token on some servers only; without white space, which some tokenizers hide, and
    if need be without characters beyond ASCII, which tokens split.
    """
    comparisons = [_without_space]
    # Else a part of the prompt's last character could be taken for the continuation's.
    if request.prompt[-1:].isascii():
        comparisons.append(_ascii)
    for visible in comparisons:
        for end in (len(texts) - 1, len(texts)):  # the model may have written one more token
            if not _may_end_at(end, texts, request, visible):
                continue
            start = _start(end, texts, request, visible)
            if start is not None:
                return start, end
    raise ValueError("the tokens it returns do not spell the prompt and the continuation")


def _may_end_at(
    end: int, texts: Sequence[str], request: Request, visible: Callable[[str], str]
) -> bool:
    """Whether the first `end` tokens spell prompt and continuation, as `visible` shows them."""
    if end < 1:
        return False
    spelled = visible("".join(texts[:end]))
    if not spelled.endswith(visible(request.prompt + request.continuation)):
        return False
    if end == len(texts):
        return True
    # A last token that this comparison hides was not written by the model if it spells the
    # continuation's end.
    last = _without_space(texts[-1])
    is_hidden = bool(last) and not visible(last)
    return not (is_hidden and _without_space(request.continuation).endswith(last))


def _start(
    end: int, texts: Sequence[str], request: Request, visible: Callable[[str], str]
) -> int | None:
    """The first of the continuation's tokens, which end before `end`.

    None if they do not begin with a token.
    """
    characters_left = len(visible(request.continuation))
    start = end
    while characters_left > 0:
        start -= 1
        characters_left -= len(visible(texts[start]))
    if not request.prompt[-1:].isspace():
        # Tokens of nothing but white space hold the continuation's own.
        while start > 1 and not visible(texts[start - 1]):
            start -= 1
        if texts[start - 1][-1:].isspace():
            return None  # this token holds the prompt's end as well
    return start if characters_left == 0 and start < end else None


def _without_space(text: str) -> str:
    return "".join(text.split())


def _ascii(text: str) -> str:
    return _without_space("".join(character for character in text if character.isascii()))


def _completions(model: str, text: str, **rating: object) -> dict[str, object]:
    """A request to complete a text by one token.

    Rating: the fields that ask for log-probabilities.
    """
    return {"model": model, "prompt": text, **rating, "max_tokens": 1, "temperature": 0}


def _echo_body(model: str, text: str) -> dict[str, object]:
    return _completions(model, text, echo=True, logprobs=_CHOICES)


def _read_echo(answer: Mapping[str, Any], text: str) -> RatedText:
    choice = answer["choices"][0]
    rated = choice["logprobs"]
    columns = zip(rated["tokens"], rated["token_logprobs"], rated["top_logprobs"], strict=True)
    tokens = []
    for token, logprob, best in columns:
        logprob_by_rival = dict(best or {})
        # The token itself is among the best, by its text or else by its value.
        own_name = token
        if token not in logprob_by_rival:
            same_value = (name for name, value in logprob_by_rival.items() if value == logprob)
            own_name = next(same_value, token)
        logprob_by_rival.pop(own_name, None)
        tokens.append(Token(token, logprob, tuple(logprob_by_rival.values())))
    whole = choice["text"]
    written = whole[len(text) :] if whole.startswith(text) else None
    return RatedText(tokens, written)


def _prompt_logprobs_body(model: str, text: str) -> dict[str, object]:
    return _completions(model, text, prompt_logprobs=_CHOICES)


def _read_prompt_logprobs(answer: Mapping[str, Any], text: str) -> RatedText:
    choice = answer["choices"][0]
    tokens = []
    for place in choice["prompt_logprobs"]:
        if place is None:
            tokens.append(_UNRATED)
            continue
        token, *rivals = place.values()  # the prompt's own token comes first
        rival_logprobs = tuple(rival["logprob"] for rival in rivals)
        tokens.append(Token(token["decoded_token"], token["logprob"], rival_logprobs))
    return RatedText([*tokens, _UNRATED], choice["text"])


def _generate_body(model: str, text: str) -> dict[str, object]:
    return {
        "text": text,
        "sampling_params": {"max_new_tokens": 1, "temperature": 0},
        "return_logprob": True,
        "logprob_start_len": 0,
        "top_logprobs_num": _CHOICES,
        "return_text_in_logprobs": True,
    }


def _read_generate(answer: Mapping[str, Any], text: str) -> RatedText:
    meta = answer["meta_info"]
    columns = zip(meta["input_token_logprobs"], meta["input_top_logprobs"], strict=True)
    tokens = []
    for (logprob, token_id, token), best in columns:
        rival_logprobs = tuple(value for value, rival_id, _ in best or () if rival_id != token_id)
        tokens.append(Token(token or "", logprob, rival_logprobs))
    return RatedText([*tokens, _UNRATED], answer["text"])


FORMS = (
    ScoreForm("completions with echo", "completions", _echo_body, _read_echo),
    ScoreForm("prompt_logprobs", "completions", _prompt_logprobs_body, _read_prompt_logprobs),
    ScoreForm("SGLang's /generate", "../generate", _generate_body, _read_generate),
)
