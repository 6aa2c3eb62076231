"""Models behind an OpenAI-compatible API: no weights, often no log-probabilities, money per token.

With template "chat" a prompt is one user turn of chat/completions, or several turns, with "plain" the text of
completions. Answers are cut here: the server is not asked to stop at a line break, as chat models may begin with one.

Many servers do not rate a given text, or rate only what they write themselves (llama.cpp, all chats), so each of three
forms is used only after a probe, two short requests: an obvious continuation must be far more probable than an odd one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from typing import Any, NamedTuple, TypeVar

from drike.errors import ModelError, RefusedError, ServerError
from drike.models.protocols import (
    ANSWER_TOKENS,
    Completion,
    ModelInfo,
    Prompts,
    Request,
    Score,
    Template,
    Usage,
    cut,
)
from drike.models.served import KEY, ApiOptions, is_logprob, key_in, parse_address, token_counts
from drike.models.served.client import ApiCall, Connection
from drike.prompts import chat_messages
from drike.support.records import encodable

T = TypeVar("T")

ATTEMPTS = 4  # at most, for an answer
# Any language model continues a repeated text.
PROBE = "red green blue, red green blue, red green blue, red green blue, red green"
OBVIOUS, ODD = " blue", " Wednesday"
_LEAD = 1.0  # nats by which the obvious continuation of a probe must lead
_CHOICES = 2  # the best two tokens at each place: the target's rival is among them


class ServedModel:
    """A model behind an API; threads may share it. name: as `parse_address` reads it. Raises ModelError."""

    def __init__(
        self, name: str, options: ApiOptions | None = None, *, template: Template = "chat"
    ) -> None:
        self._options = options = options or ApiOptions()
        self._address = address = parse_address(name, allow_http=options.allow_http)
        key = key_in(address.key_variable)
        if key is None and address.key_variable != KEY:
            raise ModelError(f"{address.service} needs a key: set ${address.key_variable}")
        self._connection = Connection(address, key, options, ATTEMPTS)
        self.close = self._connection.close
        self._template = template
        self._form: ScoreForm | None = None
        self.count_tokens = None
        if options.text_only:
            scoring = "text only: asked for"
        elif template == "chat":
            scoring = "text only: a chat gives no scores"
        else:
            self._form, scoring = self._probe()
        identity = {
            "name": address.model, "server": address.url, "template": template, "scoring": scoring,
            "thinking_tokens": options.thinking_tokens, "effort": options.reasoning_effort, "openai": version("openai"),
        }  # fmt: skip
        # As many edits at a time as requests: each has one in flight at any time, and often more.
        self.info = ModelInfo(
            address.model, options.concurrency, scoring, identity, turns=template == "chat"
        )

    @property
    def score(self) -> Callable[[Sequence[Request]], list[Score]] | None:
        """Score requests; None if the server does not rate given continuations."""
        return None if self._form is None else lambda requests: _in_order(self.scores(requests))

    @property
    def usage(self) -> Usage:
        """The work since the model was opened, including the probe."""
        return self._connection.meter.usage

    def generate(
        self, prompts: Prompts, max_tokens: int = ANSWER_TOKENS, stop: str | None = "\n"
    ) -> list[Completion]:
        """Complete each prompt, in order. Raises ServerError, RefusedError, SpendingLimitError."""
        return _in_order(self.completions(prompts, max_tokens, stop))

    def completions(
        self, prompts: Prompts, max_tokens: int, stop: str | None
    ) -> Iterator[tuple[int, Completion]]:
        """Yield completions as they arrive, with the index of their prompt, so that a later failure loses none."""

        def read(i: int, answer: Mapping[str, Any]) -> Completion:
            counts = token_counts(answer, self._address.url)
            return Completion(cut(self._text(answer), stop), counts.prompt, counts.completion)

        room = max_tokens + self._options.thinking_tokens
        return self._connection.send([self._call(prompt, room) for prompt in prompts], read)

    def scores(
        self, requests: Sequence[Request], form: ScoreForm | None = None
    ) -> Iterator[tuple[int, Score]]:
        """Yield scores as they arrive, with the index of their request. Raises ModelError if tokens do not align."""
        asked: Any = form or self._form  # only called if it scores
        path = asked.path
        if path.startswith("../"):  # beside the API, not below it
            path = self._address.url.removesuffix("v1/") + path.removeprefix("../")
        calls = []
        for request in requests:
            if not request.continuation.strip():
                raise ModelError(
                    f"the continuation {request.continuation!r} is empty: give the words to be scored"
                )
            text = encodable(request.prompt + request.continuation)
            calls.append(ApiCall(path, asked.body(self._address.model, text), text, 1))

        def read(i: int, answer: Mapping[str, Any]) -> Score:
            request = requests[i]
            try:
                score = score_of(asked.read(answer, request.prompt + request.continuation), request)
            except (ValueError, KeyError, TypeError, IndexError, AttributeError) as problem:
                why = f"the server cannot rate {request.continuation!r} by {asked.name} ({_fault(problem)})"
                raise ModelError(f"{why}: judge by text alone, `text_only`") from problem
            return replace(score, following=self._connection.check_answer(score.following or ""))

        return self._connection.send(calls, read)

    def forget(self) -> None:
        """Do nothing: this model keeps no cache in memory."""

    def _probe(self) -> tuple[ScoreForm | None, str]:
        """Find the form of request by which the server rates continuations, or None and why not. Raises ModelError."""
        reasons = []
        for form in FORMS:
            if form.path.startswith("../") and self._address.service != "sglang":
                continue
            try:
                obvious, odd = _in_order(
                    self.scores([Request(PROBE, OBVIOUS), Request(PROBE, ODD)], form)
                )
            except RefusedError as error:
                if error.status not in (
                    400,
                    405,
                    422,
                    501,
                    *([] if form.path == "completions" else [404]),
                ):
                    raise
                reasons.append(f"{form.name}: refused ({error.status})")
            except ServerError:
                raise
            except ModelError as error:
                reasons.append(f"{form.name}: {_fault(error.__cause__)}")
            else:
                if obvious.logprob >= odd.logprob + _LEAD and not odd.greedy:
                    return form, form.name
                reasons.append(
                    f"{form.name}: it does not find the obvious continuation more probable than an odd one"
                )
        return None, "text only: " + "; ".join(reasons)

    def _call(self, prompt: str | tuple[str, ...], max_tokens: int) -> ApiCall:
        body: dict[str, object] = {
            "model": self._address.model,
            "max_tokens": max_tokens,
            "temperature": 0,
        }
        body["reasoning_effort"] = self._options.reasoning_effort  # None is not sent
        if isinstance(prompt, str) and self._template == "plain":
            prompt = encodable(prompt)
            return ApiCall("completions", {**body, "prompt": prompt}, prompt, max_tokens)
        messages = [
            message | {"content": encodable(message["content"])}
            for message in chat_messages(prompt)
        ]
        sent = "\n".join(message["content"] for message in messages)
        return ApiCall("chat/completions", {**body, "messages": messages}, sent, max_tokens)

    def _text(self, answer: Mapping[str, Any]) -> str:
        """The text of an answer. Raises ServerError for another form, or if all its tokens went into thinking."""
        choices = answer.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else None
        if not isinstance(choice, dict):
            raise ServerError(
                f"{self._address.url} answers without a choice: is it the address of an API?"
            )
        message = choice.get("message") if self._template == "chat" else choice
        if not isinstance(message, dict):
            raise ServerError(
                f"{self._address.url} answers in another form: try the other `template`"
            )
        text, finish = (
            message.get("content" if self._template == "chat" else "text"),
            choice.get("finish_reason"),
        )
        if text is None and (finish == "content_filter" or isinstance(message.get("refusal"), str)):
            return ""  # the model refuses: this is its answer
        if (text is None or text == "") and finish == "length":
            remedy = "give a model that thinks more room with `thinking_tokens`, or `reasoning_effort` none"
            raise ServerError(
                f"{self._address.model} used up its tokens before it wrote anything: {remedy}"
            )
        if not isinstance(text, str):
            raise ServerError(
                f"{self._address.url} answers without a text: try again, or another model"
            )
        return self._connection.check_answer(text)


def _in_order(arriving: Iterator[tuple[int, T]]) -> list[T]:
    return [item for _, item in sorted(arriving, key=lambda pair: pair[0])]


class Token(NamedTuple):
    """A rated token: its log-probability (None for the first one of a text) and those of its rivals."""

    text: str
    logprob: float | None
    rivals: tuple[float, ...]


_NOTHING = Token("", None, ())
# A rated text: its tokens, and what the model wrote after it (None if that is among the tokens).
RatedText = tuple[Sequence[Token], str | None]


class ScoreForm(NamedTuple):
    """A form of request: its path, its JSON, and how its answer is read (raises ValueError, KeyError, TypeError...)."""

    name: str
    path: str
    body: Callable[[str, str], dict[str, object]]
    read: Callable[[Mapping[str, Any], str], RatedText]


def score_of(rated: RatedText, request: Request) -> Score:
    """The continuation's score. Raises ValueError, saying why, where the tokens do not show it."""
    tokens, written = rated
    start, end = _place([token.text for token in tokens], request)
    own = tokens[start:end]
    if any(not token.rivals for token in own):
        raise ValueError("it does not give the second choice at each token")
    if not all(is_logprob(value) for token in own for value in (token.logprob, *token.rivals)):
        raise ValueError("it gives no finite log-probability for a token of the continuation")
    logprobs = tuple(min(token.logprob or 0.0, 0.0) for token in own)
    gap = min(logprob - max(token.rivals) for logprob, token in zip(logprobs, own, strict=True))
    following = "".join(token.text for token in tokens[end:]) if written is None else written
    if not isinstance(following, str):
        raise TypeError("the text after the continuation is not a string")
    return Score(logprobs, gap > 0, gap, following, start)


def _fault(problem: BaseException | None) -> str:
    """Why an answer contains no score, in words."""
    return (
        str(problem)
        if type(problem) is ValueError
        else "it gives no log-probabilities in this form"
    )


def _place(texts: Sequence[str], request: Request) -> tuple[int, int]:
    """The continuation's place among tokens, [start, end). The model may have written one more token after it.

    It is found by texts from the end, since offsets count a start-of-text token on some servers only; without white
    space, which some tokenizers hide, and if need be without characters beyond ASCII, which tokens split.
    """
    for kept in (_without_space, _ascii):
        whole, own = kept(request.prompt + request.continuation), kept(request.continuation)
        if kept is _ascii and not request.prompt[-1:].isascii():
            continue  # a part of the prompt's last character could be taken for the continuation's
        for end in (len(texts) - 1, len(texts)):
            if end < 1 or not kept("".join(texts[:end])).endswith(whole):
                continue
            last = _without_space(texts[-1])
            if (
                end < len(texts)
                and last
                and not kept(last)
                and _without_space(request.continuation).endswith(last)
            ):
                continue  # hidden from this comparison, but it spells the continuation's end: nothing was written
            start, left = end, len(own)
            while left > 0:
                start -= 1
                left -= len(kept(texts[start]))
            ends_in_space = request.prompt[-1:].isspace()
            while start > 1 and not kept(texts[start - 1]) and not ends_in_space:
                start -= 1
            straddles = (
                not ends_in_space and texts[start - 1][-1:].isspace()
            )  # holds the continuation's space
            if left == 0 and start < end and not straddles:
                return start, end
    raise ValueError("the tokens it returns do not spell the prompt and the continuation")


def _without_space(text: str) -> str:
    return "".join(text.split())


def _ascii(text: str) -> str:
    return _without_space("".join(character for character in text if character.isascii()))


def _read_echo(answer: Mapping[str, Any], text: str) -> RatedText:
    choice = answer["choices"][0]
    rated, tokens = choice["logprobs"], []
    for token, own, best in zip(
        rated["tokens"], rated["token_logprobs"], rated["top_logprobs"], strict=True
    ):
        rivals = dict(best or {})
        # The token itself is among the best, by its text or else by its value.
        rivals.pop(
            token
            if token in rivals
            else next((other for other in rivals if rivals[other] == own), token),
            None,
        )
        tokens.append(Token(token, own, tuple(rivals.values())))
    whole = choice["text"]
    return tokens, whole[len(text) :] if whole.startswith(text) else None


def _read_prompt_logprobs(answer: Mapping[str, Any], text: str) -> RatedText:
    choice = answer["choices"][0]
    tokens = []
    for place in choice["prompt_logprobs"]:
        if place is None:
            tokens.append(_NOTHING)
            continue
        own, *others = place.values()  # the prompt's own token comes first
        tokens.append(
            Token(own["decoded_token"], own["logprob"], tuple(other["logprob"] for other in others))
        )
    return [*tokens, _NOTHING], choice["text"]


def _read_generate(answer: Mapping[str, Any], text: str) -> RatedText:
    meta = answer["meta_info"]
    tokens = []
    for (logprob, number, shown), best in zip(
        meta["input_token_logprobs"], meta["input_top_logprobs"], strict=True
    ):
        tokens.append(
            Token(
                shown or "",
                logprob,
                tuple(value for value, other, _ in best or () if other != number),
            )
        )
    return [*tokens, _NOTHING], answer["text"]


def _completions(**asked: object) -> Callable[[str, str], dict[str, object]]:
    return lambda model, text: {
        "model": model,
        "prompt": text,
        **asked,
        "max_tokens": 1,
        "temperature": 0,
    }


_GENERATE = {
    "sampling_params": {"max_new_tokens": 1, "temperature": 0}, "return_logprob": True, "logprob_start_len": 0,
    "top_logprobs_num": _CHOICES, "return_text_in_logprobs": True,
}  # fmt: skip

FORMS = (
    ScoreForm(
        "completions with echo",
        "completions",
        _completions(echo=True, logprobs=_CHOICES),
        _read_echo,
    ),
    ScoreForm(
        "prompt_logprobs",
        "completions",
        _completions(prompt_logprobs=_CHOICES),
        _read_prompt_logprobs,
    ),
    ScoreForm(
        "SGLang's /generate",
        "../generate",
        lambda model, text: {"text": text, **_GENERATE},
        _read_generate,
    ),
)
