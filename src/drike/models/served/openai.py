"""Models behind an OpenAI-compatible API: no weights, often no log-probabilities, money per token.

With template "chat" a prompt is one user turn of chat/completions, or several turns, with "plain" the text of
completions. Answers are cut here: the server is not asked to stop at a line break, as chat models may begin with one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from typing import Any, TypeVar

from drike.errors import ModelError, RefusedError, ServerError
from drike.models.protocols import ANSWER_TOKENS, Completion, ModelInfo, Prompts, Request, Score, Template, Usage, cut
from drike.models.served import KEY, Address, ApiOptions, key_in, logprobs, parse_address
from drike.models.served.client import ApiCall, Connection
from drike.models.served.response import token_counts, valid_text
from drike.prompts import chat_messages

T = TypeVar("T")

ATTEMPTS = 4
_LEAD = 1.0  # nats by which the obvious continuation of a probe must lead


def connect(
    name: str, options: ApiOptions | None = None, *, template: Template = "chat", attempts: int = ATTEMPTS
) -> ServedModel:
    """Open a served model; with template "plain" it is first probed for scores, by two to six short requests.

    attempts: most requests for one answer. Raises ModelError: ServerError, RefusedError, SpendingLimitError.
    """
    options = options or ApiOptions()
    address = parse_address(name, allow_http=options.allow_http)
    key = key_in(address.key_variable)
    if key is None and address.key_variable != KEY:
        raise ModelError(f"{address.service} needs a key: set ${address.key_variable}")
    return ServedModel(Connection(address, key, options, attempts), address, template, options)


class ServedModel:
    """A model behind an API; threads may share it. It scores if a probe shows that its server rates continuations."""

    def __init__(self, connection: Connection, address: Address, template: Template, options: ApiOptions) -> None:
        self._connection, self._address, self._template, self._options = connection, address, template, options
        self.close = connection.close
        self._form: logprobs.ScoreForm | None = None
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
        self.info = ModelInfo(address.model, options.concurrency, scoring, identity, turns=template == "chat")

    @property
    def score(self) -> Callable[[Sequence[Request]], list[Score]] | None:
        """Score requests; None if the server does not rate given continuations."""
        return None if self._form is None else lambda requests: _in_order(self.scores(requests))

    @property
    def usage(self) -> Usage:
        """The work since the model was opened, including the probe."""
        return self._connection.meter.usage

    def generate(self, prompts: Prompts, max_tokens: int = ANSWER_TOKENS, stop: str | None = "\n") -> list[Completion]:
        """Complete each prompt, in order. Raises ServerError, RefusedError, SpendingLimitError."""
        return _in_order(self.completions(prompts, max_tokens, stop))

    def completions(self, prompts: Prompts, max_tokens: int, stop: str | None) -> Iterator[tuple[int, Completion]]:
        """Yield completions as they arrive, with the index of their prompt, so that a later failure loses none."""

        def read(i: int, answer: Mapping[str, Any]) -> Completion:
            counts = token_counts(answer, self._address.url)
            return Completion(cut(self._text(answer), stop), counts.prompt, counts.completion)

        room = max_tokens + self._options.thinking_tokens
        return self._connection.send([self._call(prompt, room) for prompt in prompts], read)

    def scores(self, requests: Sequence[Request]) -> Iterator[tuple[int, Score]]:
        """Yield scores as they arrive, with the index of their request. Raises ModelError if tokens do not align."""
        return self._rated(requests, self._form)  # type: ignore[arg-type]  # only called if it scores

    def forget(self) -> None:
        """Do nothing: this model keeps no cache in memory."""

    def _rated(self, requests: Sequence[Request], form: logprobs.ScoreForm) -> Iterator[tuple[int, Score]]:
        path = form.path
        if path.startswith("../"):  # beside the API, not below it
            path = self._address.url.removesuffix("v1/") + path.removeprefix("../")
        calls = []
        for request in requests:
            if not request.continuation.strip():
                raise ModelError(f"the continuation {request.continuation!r} is empty: give the words to be scored")
            text = valid_text(request.prompt + request.continuation)
            calls.append(ApiCall(path, form.body(self._address.model, text), text, 1))

        def read(i: int, answer: Mapping[str, Any]) -> Score:
            score = logprobs.read(form, answer, requests[i])
            return replace(score, following=self._connection.check_answer(score.following or ""))

        return self._connection.send(calls, read)

    def _probe(self) -> tuple[logprobs.ScoreForm | None, str]:
        """Find the form of request by which the server rates continuations, or None and why not. Raises ModelError."""
        requests = [Request(logprobs.PROBE, logprobs.OBVIOUS), Request(logprobs.PROBE, logprobs.ODD)]
        reasons = []
        for form in logprobs.FORMS:
            if form.path.startswith("../") and self._address.service != "sglang":
                continue
            try:
                obvious, odd = _in_order(self._rated(requests, form))
            except RefusedError as error:
                if error.status not in (400, 405, 422, 501, *([] if form.path == "completions" else [404])):
                    raise
                reasons.append(f"{form.name}: refused ({error.status})")
            except ServerError:
                raise
            except ModelError as error:
                reasons.append(f"{form.name}: {logprobs.reason(error.__cause__)}")
            else:
                if obvious.logprob >= odd.logprob + _LEAD and not odd.greedy:
                    return form, form.name
                reasons.append(f"{form.name}: it does not find the obvious continuation more probable than an odd one")
        return None, "text only: " + "; ".join(reasons)

    def _call(self, prompt: str | tuple[str, ...], max_tokens: int) -> ApiCall:
        body: dict[str, object] = {"model": self._address.model, "max_tokens": max_tokens, "temperature": 0}
        if self._options.reasoning_effort is not None:
            body["reasoning_effort"] = self._options.reasoning_effort
        if isinstance(prompt, str) and self._template == "plain":
            prompt = valid_text(prompt)
            return ApiCall("completions", {**body, "prompt": prompt}, prompt, max_tokens)
        messages = [message | {"content": valid_text(message["content"])} for message in chat_messages(prompt)]
        sent = "\n".join(message["content"] for message in messages)
        return ApiCall("chat/completions", {**body, "messages": messages}, sent, max_tokens)

    def _text(self, answer: Mapping[str, Any]) -> str:
        """The text of an answer. Raises ServerError for another form, or if all its tokens went into thinking."""
        choices = answer.get("choices")
        choice = choices[0] if isinstance(choices, list) and choices else None
        if not isinstance(choice, dict):
            raise ServerError(f"{self._address.url} answers without a choice: is it the address of an API?")
        message = choice.get("message") if self._template == "chat" else choice
        if not isinstance(message, dict):
            raise ServerError(f"{self._address.url} answers in another form: try the other `template`")
        text, finish = message.get("content" if self._template == "chat" else "text"), choice.get("finish_reason")
        if text is None and (finish == "content_filter" or isinstance(message.get("refusal"), str)):
            return ""  # the model refuses: this is its answer
        if (text is None or text == "") and finish == "length":
            remedy = "give a model that thinks more room with `thinking_tokens`, or `reasoning_effort` none"
            raise ServerError(f"{self._address.model} used up its tokens before it wrote anything: {remedy}")
        if not isinstance(text, str):
            raise ServerError(f"{self._address.url} answers without a text: try again, or another model")
        return self._connection.check_answer(text)


def _in_order(arriving: Iterator[tuple[int, T]]) -> list[T]:
    return [item for _, item in sorted(arriving, key=lambda pair: pair[0])]
