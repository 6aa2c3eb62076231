"""Models behind an API: what is known of servers, and a client within limits on calls and money."""

from drike.models.served.addresses import (
    KEY,
    SERVICES,
    checked_address,
    is_exposed,
    is_http,
    is_loopback,
    is_served,
    key_in,
    key_variable_at,
    parse_address,
)
from drike.models.served.failures import error_message, may_pass
from drike.models.served.spending import ApiOptions, Meter
from drike.models.served.token_counts import (
    CHARACTERS_PER_TOKEN,
    TokenCounts,
    estimated_tokens,
    longest_answer,
    token_counts,
)

__all__ = [
    "CHARACTERS_PER_TOKEN",
    "KEY",
    "SERVICES",
    "ApiOptions",
    "Meter",
    "TokenCounts",
    "checked_address",
    "error_message",
    "estimated_tokens",
    "is_exposed",
    "is_http",
    "is_loopback",
    "is_served",
    "key_in",
    "key_variable_at",
    "longest_answer",
    "may_pass",
    "parse_address",
    "token_counts",
]
