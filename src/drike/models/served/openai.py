"""Models behind an OpenAI-compatible API: no weights, often no log-probabilities, money per token.

With template "chat" a prompt is one user turn of chat/completions, or several turns, with "plain"
the text of completions. Answers are cut here: the server is not asked to stop at a line break, as
chat models may begin with one.

Many servers do not rate a given text, or rate only what they write themselves (llama.cpp, all
chats), so each of three forms is used only after a probe, two short requests: an obvious
continuation must be far more probable than an odd one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from importlib.metadata import version
from typing import Any, TypeVar

from drike.errors import ModelError, RefusedError, ServerError
from drike.models.protocols import (
    ANSWER_TOKENS,
    Completion,
    ModelInfo,
    Prompts,
    Request,
    Score,
    Template,
    Turns,
    Usage,
    cut,
)
from drike.models.served.addresses import KEY, key_in, parse_address
from drike.models.served.answer_texts import answer_text
from drike.models.served.client import ApiCall, Connection
from drike.models.served.rated_texts import FORMS, ScoreForm, score_of
from drike.models.served.spending import ApiOptions
from drike.models.served.token_counts import token_counts
from drike.prompts import chat_messages
from drike.support.records import encodable

T = TypeVar("T")

ATTEMPTS = 4  # at most, for an answer
# Any language model continues a repeated text.
PROBE = "red green blue, red green blue, red green blue, red green blue, red green"
OBVIOUS, ODD = " blue", " Wednesday"
_LEAD = 1.0  # nats by which the obvious continuation of a probe must lead
# Statuses with which servers refuse a form of request that they do not know, but might know
# another.
_UNKNOWN_FORM: tuple[int, ...] = (400, 405, 422, 501)
_UNREADABLE = (ValueError, KeyError, TypeError, IndexError, AttributeError)


class ServedModel:
    """A model behind an API; threads may share it. name: as `parse_address` reads it.

    Raises ModelError.
    """

    def __init__(
        self, name: str, options: ApiOptions | None = None, *, template: Template = "chat"
    ) -> None:
        options = options or ApiOptions()
        address = parse_address(name, allow_http=options.allow_http)
        key = key_in(address.key_variable)
        if key is None and address.key_variable != KEY:
            raise ModelError(f"{address.service} needs a key: set ${address.key_variable}")
        self._options = options
        self._address = address
        self._template = template
        self._connection = Connection(address, key, options, ATTEMPTS)
        self.close = self._connection.close
        self.count_tokens = None

        self._form: ScoreForm | None = None
        if options.text_only:
            scoring = "text only: asked for"
        elif template == "chat":
            scoring = "text only: a chat gives no scores"
        else:
            self._form, scoring = self._probe()
        identity = {
            "name": address.model,
            "server": address.url,
            "template": template,
            "scoring": scoring,
            "thinking_tokens": options.thinking_tokens,
            "effort": options.reasoning_effort,
            "openai": version("openai"),
        }
        self.info = ModelInfo(
            address.model,
            # As many edits at a time as requests: each has one in flight at any time, and often
            # more.
            calls_at_once=options.concurrency,
            scoring=scoring,
            identity=identity,
            turns=template == "chat",
        )

    @property
    def score(self) -> Callable[[Sequence[Request]], list[Score]] | None:
        """Score requests; None if the server does not rate given continuations."""
        if self._form is None:
            return None
        return lambda requests: _in_order(self.scores(requests))

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
        """Yield completions and their index as they arrive, so that a later failure loses none."""

        def read(i: int, answer: Mapping[str, Any]) -> Completion:
            counts = token_counts(answer, self._address.url)
            text = self._text(answer)
            if self._template == "plain":
                text = text.removeprefix(calls[i].text)  # which some servers give back before it
            return Completion(cut(text, stop), counts.prompt, counts.completion)

        token_limit = max_tokens + self._options.thinking_tokens
        calls = [self._completion_call(prompt, token_limit) for prompt in prompts]
        return self._connection.send(calls, read)

    def scores(
        self, requests: Sequence[Request], form: ScoreForm | None = None
    ) -> Iterator[tuple[int, Score]]:
        """Yield scores as they arrive, with the index of their request.

        Raises ModelError if tokens do not align. form: of the requests; None is the one that this
        server knows, of a model that scores.
        """
        used_form: Any = form or self._form

        def read(i: int, answer: Mapping[str, Any]) -> Score:
            request = requests[i]
            try:
                rated = used_form.read(answer, request.prompt + request.continuation)
                score = score_of(rated, request)
            except _UNREADABLE as problem:
                what = f"the server cannot rate {request.continuation!r} by {used_form.name}"
                raise ModelError(
                    f"{what} ({_fault(problem)}): judge by text alone, `text_only`"
                ) from problem
            following = self._connection.check_answer(score.following or "")
            return replace(score, following=following)

        calls = [self._score_call(request, used_form) for request in requests]
        return self._connection.send(calls, read)

    def forget(self) -> None:
        """Do nothing: this model keeps no cache in memory."""

    def _probe(self) -> tuple[ScoreForm | None, str]:
        """Find the form of request by which the server rates continuations, or None and why not.

        Raises ModelError.
        """
        reasons = []
        for form in FORMS:
            if form.path.startswith("../") and self._address.service != "sglang":
                continue
            problem = self._problem_with(form)
            if problem is None:
                return form, form.name
            reasons.append(f"{form.name}: {problem}")
        return None, "text only: " + "; ".join(reasons)

    def _problem_with(self, form: ScoreForm) -> str | None:
        """Why the server's scores by a form of request cannot be used; None if they can.

        Raises ModelError. A failure that may pass says nothing about the form, and is raised.
        """
        unknown_form = _UNKNOWN_FORM
        if form.path != "completions":
            unknown_form += (404,)  # for `completions` this means that there is no such model
        probes = [Request(PROBE, OBVIOUS), Request(PROBE, ODD)]
        try:
            obvious, odd = _in_order(self.scores(probes, form))
        except RefusedError as error:
            if error.status not in unknown_form:
                raise
            return f"refused ({error.status})"
        except ServerError:
            raise
        except ModelError as error:
            return _fault(error.__cause__)
        if obvious.logprob < odd.logprob + _LEAD or odd.greedy:
            return "it does not find the obvious continuation more probable than an odd one"
        return None

    def _score_call(self, request: Request, form: ScoreForm) -> ApiCall:
        """The call by which a server rates a prompt with its continuation.

        Raises ModelError for an empty one.
        """
        if not request.continuation.strip():
            raise ModelError(
                f"the continuation {request.continuation!r} is empty: give the words to be scored"
            )
        path = form.path
        if path.startswith("../"):  # beside the API, not below it
            path = self._address.url.removesuffix("v1/") + path.removeprefix("../")
        text = encodable(request.prompt + request.continuation)
        return ApiCall(path, form.body(self._address.model, text), text, max_tokens=1)

    def _completion_call(self, prompt: str | Turns, max_tokens: int) -> ApiCall:
        """The call that completes a prompt: of `completions`, or of `chat/completions`."""
        body: dict[str, object] = {
            "model": self._address.model,
            "max_tokens": max_tokens,
            "temperature": 0,
            "reasoning_effort": self._options.reasoning_effort,  # None is not sent
        }
        if isinstance(prompt, str) and self._template == "plain":
            text = encodable(prompt)
            return ApiCall("completions", {**body, "prompt": text}, text, max_tokens)
        messages = [
            {**message, "content": encodable(message["content"])}
            for message in chat_messages(prompt)
        ]
        text = "\n".join(message["content"] for message in messages)
        return ApiCall("chat/completions", {**body, "messages": messages}, text, max_tokens)

    def _text(self, answer: Mapping[str, Any]) -> str:
        """The text of an answer.

        Raises ServerError for another form, and for thoughts without an answer.
        """
        is_chat = self._template == "chat"
        text = answer_text(answer, self._address.url, chat=is_chat)
        return self._connection.check_answer(text)


def _in_order(arriving: Iterator[tuple[int, T]]) -> list[T]:
    """What arrived, in the order of the indices that came with it."""
    item_by_index = dict(arriving)
    return [item_by_index[i] for i in sorted(item_by_index)]


def _fault(problem: BaseException | None) -> str:
    """Why an answer contains no score, in words."""
    if type(problem) is ValueError:
        return str(problem)
    return "it gives no log-probabilities in this form"
