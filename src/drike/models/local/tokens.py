"""Tokenise prompts and continuations, and find where each continuation begins.

Both are tokenised as one string: apart, merges across the boundary, beginning-of-text tokens and
marks of word starts would be wrong. The continuation's tokens are those that end after the prompt,
by the offsets of the whole string; without offsets, those after the prompt's own tokens. A chat's
text gets no special tokens beside the template's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from drike.errors import ModelError, reason, require_unicode
from drike.models.protocols import Prompts, Request, Template, Turns
from drike.prompts import chat_messages
from drike.support.parallel import run_with_timeout

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase as Tokenizer

Tokens = tuple[int, ...]
Offsets = Sequence[tuple[int, int]]  # of tokens: begin and end in the text

_TEMPLATE_SECONDS = 5.0


class Encoded(NamedTuple):
    """Tokens of prompt and continuation.

    The continuation's are ids[start:], and start is at least 1.
    """

    ids: Tokens
    start: int


def render(tokenizer: Tokenizer, prompt: str | Turns, template: Template) -> str:
    """Apply the chat template to a prompt; a plain one stays as it is.

    Raises ModelError if the template fails.
    """
    if isinstance(prompt, str) and template == "plain":
        return prompt
    return render_chat(tokenizer, chat_messages(prompt))


def render_chat(tokenizer: Tokenizer, messages: list[dict[str, str]]) -> str:
    """Apply the chat template to messages. Raises ModelError if the template fails."""
    # Templates of reasoning models know `enable_thinking`; others ignore it.
    options: dict[str, Any] = {
        "tokenize": False,
        "add_generation_prompt": True,
        "enable_thinking": False,
    }
    try:
        return str(tokenizer.apply_chat_template(messages, **options))
    except Exception as error:  # a template is a program, and may fail in any way
        remedy = "use `template` plain, or another model"
        raise ModelError(f"the chat template fails ({reason(error)}): {remedy}") from error


def check_template(tokenizer: Tokenizer, name: str) -> None:
    """Raise ModelError if there is no chat template, or one that does not end."""
    if not tokenizer.chat_template:
        raise ModelError(
            f"{name} has no chat template: use `template` plain, or an instruction-tuned model"
        )
    try:
        with suppress(ModelError):  # one that fails for an empty turn may still work
            run_with_timeout(_TEMPLATE_SECONDS, lambda: render(tokenizer, "", "chat"))
    except TimeoutError:
        raise ModelError(
            f"the chat template of {name} does not end: use template='plain', or another model"
        ) from None


def encode_prompts(tokenizer: Tokenizer, prompts: Prompts, template: Template) -> list[Tokens]:
    """Tokenise prompts to be continued. Raises ModelError for a prompt without tokens."""
    encoded, _ = encode(
        tokenizer, [render(tokenizer, prompt, template) for prompt in prompts], template
    )
    if not all(encoded):
        raise ModelError("this model cannot continue an empty prompt: give it some text")
    return encoded


def encode_requests(
    tokenizer: Tokenizer, requests: Sequence[Request], template: Template
) -> list[Encoded]:
    """Tokenise each prompt and continuation as one string.

    Raises ModelError for an empty part, or a token of both.
    """
    rendered = [_rendered(tokenizer, request, template) for request in requests]
    texts = [request.prompt + request.continuation for request in rendered]
    ids, offsets = encode(tokenizer, texts, template, offsets=tokenizer.is_fast)
    if tokenizer.is_fast:
        starts = map(partial(_start_by_offsets, tokenizer), rendered, ids, offsets)
    else:
        before, _ = encode(tokenizer, [request.prompt for request in rendered], template)
        starts = map(lambda own, whole: len(own) if whole[: len(own)] == own else None, before, ids)
    return list(map(_checked, rendered, ids, starts))


def encode(
    tokenizer: Tokenizer, texts: Sequence[str], template: Template, *, offsets: bool = False
) -> tuple[list[Tokens], list[Offsets]]:
    """Tokenise rendered texts; `offsets` asks for those of the tokens, too.

    Raises UsageError for half a character.
    """
    if not texts:
        return [], []
    require_unicode(texts)
    plain = template == "plain"
    options = {"return_attention_mask": False, "return_offsets_mapping": offsets, "verbose": False}
    batch = tokenizer(texts, add_special_tokens=plain, **options)
    closing = {*tokenizer.all_special_ids} - {tokenizer.bos_token_id} if plain else set()
    for ids in batch["input_ids"]:
        while ids and ids[-1] in closing:  # some tokenizers end a text with special tokens
            ids.pop()
    return list(map(tuple, batch["input_ids"])), batch.get("offset_mapping", [])


def text_after(tokenizer: Tokenizer, written: Sequence[int], token: int) -> str:
    """The text that `token` adds to the tokens before it.

    "" for a special token, as those end the text.
    """
    # Decoded together: alone, a token of a tokenizer that marks word starts would lose its space.
    return decode(tokenizer, [*written, token])[len(decode(tokenizer, written)) :]


def decode(tokenizer: Tokenizer, ids: Sequence[int]) -> str:
    """Decode tokens to text, without special tokens and without clean-up."""
    return str(
        tokenizer.decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False)
    )


def _rendered(tokenizer: Tokenizer, request: Request, template: Template) -> Request:
    if not request.continuation.strip():
        raise ModelError(
            f"the continuation {request.continuation!r} is empty: give the words to be scored"
        )
    own = len(request.prompt) - request.own
    asked = request.prompt[:own]
    prompt = (
        render(tokenizer, (*request.earlier, asked) if request.earlier else asked, template)
        + request.prompt[own:]
    )
    starts_reply = (
        template == "chat" and prompt[-1:].isspace()
    )  # where its leading space has its place already
    return Request(prompt, request.continuation.lstrip() if starts_reply else request.continuation)


def _start_by_offsets(
    tokenizer: Tokenizer, request: Request, ids: Tokens, offsets: Offsets
) -> int | None:
    """Where the continuation's tokens start; None if its first one begins in the prompt."""
    start, boundary = len(ids), len(request.prompt)
    while start and offsets[start - 1][1] > boundary:
        start -= 1
    # Byte-level tokenizers leave white space out of a token's offsets, so a merged space shows only
    # in its text.
    indented = _indent(decode(tokenizer, ids[start:])) > _indent(request.continuation)
    return None if indented or (start < len(ids) and offsets[start][0] < boundary) else start


def _checked(request: Request, ids: Tokens, start: int | None) -> Encoded:
    prompt, continuation = request.prompt, request.continuation
    if start is None:
        ends = f"merges with the end of its prompt {prompt[-24:]!r} into one token"
        remedy = "end the prompt without white space and start the continuation with its space"
        raise ModelError(f"the continuation {continuation!r} {ends}: {remedy}")
    if start == len(ids):
        raise ModelError(f"the tokenizer makes no token of the continuation {continuation!r}")
    if start == 0:
        raise ModelError(
            f"the continuation {continuation!r} follows an empty prompt {prompt!r}: nothing predicts it"
        )
    return Encoded(ids, start)


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip())
