"""Parameters that some servers refuse, and what these are sent instead."""

from __future__ import annotations

import pytest

from drike.models.served.quirks import for_newer_models, refused_parameters, token_limit_of


def test_newer_models_get_a_limit_under_its_newer_name_and_no_temperature() -> None:
    request = {"max_tokens": 16, "temperature": 0, "model": "m"}
    assert for_newer_models(request) == {"max_completion_tokens": 16, "model": "m"}
    assert list(for_newer_models(request)) == ["max_completion_tokens", "model"]
    assert for_newer_models(request, {"temperature"}) == {"max_tokens": 16, "model": "m"}
    assert for_newer_models(request, ()) == request


@pytest.mark.parametrize(
    ("parameter", "code", "refused"),
    [
        ("max_tokens", "unsupported_parameter", {"max_tokens"}),
        ("temperature", "unsupported_value", {"temperature"}),
        ("model", "unsupported_value", set()),
        ("max_tokens", "invalid_value", set()),
        ("max_tokens", None, set()),
        (["max_tokens"], "unsupported_parameter", set()),
        (None, "unsupported_parameter", set()),
    ],
)
def test_a_parameter_is_replaced_only_if_it_is_what_the_server_refuses(
    parameter: object, code: object, refused: set[str]
) -> None:
    request = {"model": "m", "max_tokens": 16, "temperature": 0}
    assert refused_parameters(request, parameter, code) == refused
    assert refused_parameters({"model": "m"}, parameter, code) == set()


def test_a_requests_own_limit_is_read_under_either_name() -> None:
    assert token_limit_of({"max_tokens": 5}, 256) == 5
    assert token_limit_of({"max_tokens": 5, "max_completion_tokens": 7}, 256) == 7
    assert token_limit_of({"max_tokens": None, "max_completion_tokens": "7"}, 256) == 256
