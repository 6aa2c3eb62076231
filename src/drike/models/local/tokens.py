"""Tokenise prompts and continuations, and find where each continuation begins.

Both are tokenised as one string: apart, merges across the boundary, beginning-of-text tokens and
marks of word starts would be wrong. The continuation's tokens are those that end after the prompt,
by the offsets of the whole string; without offsets, those after the prompt's own tokens. A chat's
text gets no special tokens beside the template's own.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

from drike.errors import ModelError, reason, require_unicode
from drike.models.local.shared_tokens import shared_tokens
from drike.models.protocols import Prompts, Request, Template, Turns
from drike.prompts import chat_messages
from drike.support.parallel import run_with_timeout

if TYPE_CHECKING:
    from transformers import PreTrainedTokenizerBase as Tokenizer

Tokens = tuple[int, ...]
Offsets = Sequence[tuple[int, int]]  # of tokens: begin and end in the text

_TEMPLATE_SECONDS = 5.0
_DECODED = 1 << 14  # texts of tokens that are remembered


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
    all_ids, all_offsets = encode(tokenizer, texts, template, offsets=tokenizer.is_fast)
    starts: list[int | None]
    if tokenizer.is_fast:
        starts = [
            _start_by_offsets(tokenizer, request, ids, offsets)
            for request, ids, offsets in zip(rendered, all_ids, all_offsets, strict=True)
        ]
    else:
        prompts = [request.prompt for request in rendered]
        prompt_ids, _ = encode(tokenizer, prompts, template)
        starts = [
            _start_by_prompt(before, ids) for before, ids in zip(prompt_ids, all_ids, strict=True)
        ]
    return [
        _checked(request, ids, start)
        for request, ids, start in zip(rendered, all_ids, starts, strict=True)
    ]


def encode(
    tokenizer: Tokenizer, texts: Sequence[str], template: Template, *, offsets: bool = False
) -> tuple[list[Tokens], list[Offsets]]:
    """Tokenise rendered texts; `offsets` asks for those of the tokens, too.

    Raises UsageError for half a character.
    """
    if not texts:
        return [], []
    require_unicode(texts)
    is_plain = template == "plain"
    all_offsets: list[Offsets] = []
    if offsets:
        tokenised = shared_tokens(tokenizer).tokenise(texts, special=is_plain)
        batch_ids = [each.ids for each in tokenised]
        all_offsets = [each.offsets for each in tokenised]
    else:
        batch_ids = tokenizer(
            texts, add_special_tokens=is_plain, return_attention_mask=False, verbose=False
        )["input_ids"]
    closing_ids: set[int] = set()  # some tokenizers end a text with special tokens
    if is_plain:
        closing_ids = set(tokenizer.all_special_ids) - {tokenizer.bos_token_id}
    all_ids = []
    for ids in batch_ids:
        end = len(ids)
        while end and ids[end - 1] in closing_ids:
            end -= 1
        all_ids.append(tuple(ids[:end]))
    return all_ids, all_offsets


def text_after(tokenizer: Tokenizer, written: Sequence[int], token: int) -> str:
    """The text that `token` adds to the tokens before it.

    "" for a special token, as those end the text.
    """
    # Decoded together: alone, a token of a tokenizer that marks word starts would lose its space.
    return decode(tokenizer, [*written, token])[len(decode(tokenizer, written)) :]


def decode(tokenizer: Tokenizer, ids: Sequence[int]) -> str:
    """Decode tokens to text, without special tokens and without clean-up."""
    return _decoded(tokenizer, tuple(ids))


@lru_cache(_DECODED)  # one continuation follows many prompts
def _decoded(tokenizer: Tokenizer, ids: Tokens) -> str:
    return str(
        tokenizer.decode(list(ids), skip_special_tokens=True, clean_up_tokenization_spaces=False)
    )


def _rendered(tokenizer: Tokenizer, request: Request, template: Template) -> Request:
    """The request as the model reads it, in its chat template if need be. Raises ModelError."""
    if not request.continuation.strip():
        raise ModelError(
            f"the continuation {request.continuation!r} is empty: give the words to be scored"
        )
    users_end = len(request.prompt) - request.own
    user_text = request.prompt[:users_end]
    turns = (*request.earlier, user_text) if request.earlier else user_text
    prompt = render(tokenizer, turns, template) + request.prompt[users_end:]
    continuation = request.continuation
    if template == "chat" and prompt[-1:].isspace():
        # It begins the reply, before which its leading space has its place already.
        continuation = continuation.lstrip()
    return Request(prompt, continuation)


def _start_by_offsets(
    tokenizer: Tokenizer, request: Request, ids: Tokens, offsets: Offsets
) -> int | None:
    """Where the continuation's tokens start; None if its first one begins in the prompt."""
    boundary = len(request.prompt)
    start = len(ids)
    while start and offsets[start - 1][1] > boundary:
        start -= 1
    if start < len(ids) and offsets[start][0] < boundary:
        return None
    # Byte-level tokenizers leave white space out of a token's offsets, so a merged space shows only
    # in its text.
    if _indent(decode(tokenizer, ids[start:])) > _indent(request.continuation):
        return None
    return start


def _start_by_prompt(prompt_ids: Tokens, ids: Tokens) -> int | None:
    """Where the continuation's tokens start.

    None if the tokens do not begin with the prompt's own.
    """
    if ids[: len(prompt_ids)] != prompt_ids:
        return None
    return len(prompt_ids)


def _checked(request: Request, ids: Tokens, start: int | None) -> Encoded:
    """The encoded request.

    Raises ModelError if its continuation has no tokens of its own, or no prompt.
    """
    prompt = request.prompt
    continuation = request.continuation
    if start is None:
        ends = f"merges with the end of its prompt {prompt[-24:]!r} into one token"
        remedy = "end the prompt without white space and start the continuation with its space"
        raise ModelError(f"the continuation {continuation!r} {ends}: {remedy}")
    if start == len(ids):
        raise ModelError(f"the tokenizer makes no token of the continuation {continuation!r}")
    if start == 0:
        raise ModelError(
            f"the continuation {continuation!r} follows an empty prompt {prompt!r}: nothing"
            " predicts it"
        )
    return Encoded(ids, start)


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip())
