"""The text of an answer of chat/completions or completions, and what is none.

A model's answer is what it says to the user: never its thoughts, and never what a server had of it
when it failed. Where a model has only thought, its tokens ran out or it gave no answer; counted as
an answer that would be wrong, so that it is refused.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from drike.answers.thoughts import has_thoughts, without_thoughts
from drike.errors import ServerError

_MORE_ROOM = (
    "give a model that thinks more room than the usual max tokens with `thinking_tokens`"
    " (--thinking-tokens), or `reasoning_effort` none"
)
# Where servers put a model's thoughts beside its answer.
_BESIDE = (
    *("reasoning", "reasoning_content", "reasoning_details", "reasoning_text"),
    *("thinking", "thinking_blocks", "thought", "thoughts"),
)
_KINDS_OF_THOUGHT = ("reasoning", "thinking", "thought", "redacted", "summary")
_FULL = ("length", "max_tokens", "max_output_tokens", "model_length")
# Ends of an answer that the model, or a filter behind it, did not want to give.
_FILTERED = (
    *("content_filter", "content_filtered", "safety", "recitation", "prohibited_content"),
    *("blocklist", "spii", "sensitive", "refusal", "guardrail_intervened"),
)
# After other ends, nothing is no answer.
_ENDS = ("stop", "eos", "eos_token", "stop_sequence", "end_turn", "complete", "completed", "")


def answer_text(body: Mapping[str, Any], name: str, *, chat: bool = True) -> str:
    """The text of the first choice, with thoughts that stand before an answer in it.

    name: of the server. chat: in the form of chat/completions. Raises ServerError for another form,
    and where there is no answer but only thoughts.
    """
    choices = body.get("choices")
    choice = choices[0] if isinstance(choices, list) and choices else None
    if not isinstance(choice, dict):
        raise ServerError(f"{name} answers without a choice: is it the address of an API?")
    message = choice.get("message") if chat else choice
    if not isinstance(message, dict):
        raise ServerError(f"{name} answers in another form: try the other `template`")

    text = text_in(message.get("content" if chat else "text"))
    finish = _finish(choice)
    if not text and (finish in _FILTERED or message.get("refusal")):
        return text_in(message.get("refusal")) or ""  # this is the model's answer
    if not without_thoughts(text or "").strip():
        if finish in _FULL:
            raise ServerError(
                f"{name} used up its tokens before the model wrote an answer: {_MORE_ROOM}"
            )
        if has_thoughts(text or "") or _thinks_beside(message, choice):
            raise ServerError(
                f"{name} gives thoughts alone, without an answer or cut before it: {_MORE_ROOM}"
            )
        if text is None or finish not in _ENDS:
            raise ServerError(f"{name} answers without a text: try again, or another model")
    return text or ""


def _finish(choice: Mapping[str, Any]) -> str:
    """Why an answer ended, in small letters; "" if that is not said."""
    finish = choice.get("finish_reason")
    return finish.casefold() if isinstance(finish, str) else ""


def text_in(content: object) -> str | None:
    """A text, or the texts of its parts that are no thoughts; None where there is none."""
    if isinstance(content, str):
        return content
    if isinstance(content, list):
        texts = [text for text in map(text_in, content) if text is not None]
        return "".join(texts) if texts or not content else None
    if isinstance(content, dict) and not is_thought(content):
        texts = [part for part in map(content.get, ("text", "refusal")) if isinstance(part, str)]
        return "".join(texts) if texts else None
    return None


def is_thought(part: Mapping[str, Any]) -> bool:
    """Whether a part of an answer is one of the model's thoughts."""
    kind = part.get("type")
    return isinstance(kind, str) and kind.startswith(_KINDS_OF_THOUGHT)


def _thinks_beside(message: Mapping[str, Any], choice: Mapping[str, Any]) -> bool:
    """Whether the model's thoughts stand beside the text, or are parts of it."""
    beside = [part.get(name) for part in (message, choice) for name in _BESIDE]
    if any(value.strip() if isinstance(value, str) else value for value in beside):
        return True
    parts = message.get("content")
    return isinstance(parts, list) and any(
        isinstance(part, dict) and is_thought(part) for part in parts
    )
