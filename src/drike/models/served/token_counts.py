"""The tokens of requests and answers: as servers report them, or estimated from a text's length."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from drike.errors import ServerError

CHARACTERS_PER_TOKEN = 4
CAUTIOUS_CHARACTERS_PER_TOKEN = 3  # while an answer is awaited, so that a limit is not exceeded
_MOST_TOKENS = 10**9  # that a server's count may be


class TokenCounts(NamedTuple):
    """Tokens read, written, and found in the server's own prefix cache.

    None if the response does not say.
    """

    prompt: int | None = None
    completion: int | None = None
    cached: int | None = None


def token_counts(body: Mapping[str, Any], url: str) -> TokenCounts:
    """The token counts of an answer. Raises ServerError for one that cannot be right."""
    usage = _usage_in(body)
    details = usage.get("prompt_tokens_details")
    if not isinstance(details, dict):  # SGLang reports cached tokens beside the others
        details = usage
    counts = TokenCounts(
        usage.get("prompt_tokens"), usage.get("completion_tokens"), details.get("cached_tokens")
    )
    for name, value in counts._asdict().items():
        if value is not None and not _is_count(value):
            shown = value if isinstance(value, int | float) else type(value).__name__
            raise ServerError(f"{url} reports {shown} {name} tokens: is it the address of an API?")
    return counts


def estimated_tokens(text: str) -> int:
    """Tokens of a text at four characters each, rounded up."""
    return math.ceil(len(text) / CHARACTERS_PER_TOKEN)


def longest_answer(max_tokens: int, beginning: str = "") -> str:
    """An answer that is estimated to have `max_tokens` tokens."""
    words = beginning + "word " * max_tokens
    return words[: CHARACTERS_PER_TOKEN * max_tokens]


def _usage_in(body: Mapping[str, Any]) -> dict[str, Any]:
    """The part of an answer that counts tokens: `usage`, or `meta_info` of SGLang's own API."""
    for name in ("usage", "meta_info"):
        part = body.get(name)
        if isinstance(part, dict):
            return part
    return {}


def _is_count(value: object) -> bool:
    return type(value) is int and 0 <= value <= _MOST_TOKENS
