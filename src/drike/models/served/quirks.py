"""How servers with an OpenAI-compatible API differ in the parameters they accept.

No limit on the tokens of an answer suits every server: newer models of OpenAI, those that think
before they answer, refuse `max_tokens` and a temperature with status 400, and many other servers do
not know `max_completion_tokens`. So a request goes out with `max_tokens` first, unless its author
wrote the newer name; status 400 leads to the other one.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping

OLDER_LIMIT = "max_tokens"
NEWER_LIMIT = "max_completion_tokens"  # includes what the model thinks

# Parameters that newer models refuse, and what they are sent instead (None: nothing).
REPLACEMENTS: Mapping[str, str | None] = {OLDER_LIMIT: NEWER_LIMIT, "temperature": None}


def for_newer_models(
    request: Mapping[str, object], refused: Collection[str] = tuple(REPLACEMENTS)
) -> dict[str, object]:
    """A request with its `refused` parameters under their newer names, or without them.

    Order stays the same.
    """
    renamed: dict[str, object] = {}
    for name, value in request.items():
        newer_name = REPLACEMENTS[name] if name in refused else name
        if newer_name is not None:
            renamed[newer_name] = value
    return renamed


def refused_parameters(request: Mapping[str, object], parameter: object, code: object) -> set[str]:
    """The parameters of a request that a server has just refused, of those that can be replaced.

    parameter, code: of the error that came with status 400, as the server wrote them.
    """
    if "unsupported" not in str(code):
        return set()
    return {name for name in REPLACEMENTS if name == parameter and name in request}


def token_limit_of(request: Mapping[str, object], default: int) -> int:
    """The most tokens that a request wants for its answer, under either name.

    `default` if it does not say.
    """
    for name in (NEWER_LIMIT, OLDER_LIMIT):
        limit = request.get(name)
        if isinstance(limit, int):
            return limit
    return default
