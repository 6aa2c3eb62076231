"""Names and addresses of models behind an API, and which key goes where."""

from __future__ import annotations

import pytest

from drike.errors import ModelError
from drike.models.served import KEY, key_variable_at, parse_address


def test_each_service_gets_only_its_own_key() -> None:
    assert parse_address("openai:gpt-4o-mini").key_variable == "OPENAI_API_KEY"
    assert parse_address("gemini:gemini-2.0-flash").key_variable == "GEMINI_API_KEY"
    for other in (
        "openai:m@https://example.org/v1",
        "gemini:m@https://api.openai.com.example.org/v1",
        "vllm:m",
    ):
        assert parse_address(other).key_variable == KEY


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("vllm:m@http://example.org/v1", "use https, or `allow_http`"),
        ("vllm:m@http://127.0.0.1.example.org:8000/v1", "use https, or `allow_http`"),
        ("vllm:m@http://192.168.1.2:8000/v1", "use https, or `allow_http`"),
        ("openai:m@https://user:secret@example.org/v1", "put the key into"),
        ("openai:m@https://example.org/v1?key=secret", "put the key into"),
        ("openai:", "names no model"),
        ("openai:m@https://", "names no model"),
        ("openai:m@http://[", "is no address"),
    ],
)  # fmt: skip
def test_insecure_or_incomplete_addresses_are_refused(name: str, message: str) -> None:
    with pytest.raises(ModelError, match=message) as refused:
        parse_address(name)
    assert "secret" not in str(refused.value)


def test_model_names_may_contain_colons_slashes_and_at_signs() -> None:
    address = parse_address("ollama:library/llama3:8b@q4@http://localhost:11434/v1")
    assert (address.model, address.url) == ("library/llama3:8b@q4", "http://localhost:11434/v1/")
    assert (
        parse_address("vllm:m@http://example.org/v1", allow_http=True).url
        == "http://example.org/v1/"
    )


@pytest.mark.parametrize(
    ("address", "variable"),
    [
        ("https://api.openai.com/v1", "OPENAI_API_KEY"),
        ("https://API.OPENAI.COM/v1/", "OPENAI_API_KEY"),
        ("http://api.openai.com/v1", KEY),
        ("https://api.openai.com:8443/v1", KEY),
        ("https://api.openai.com.example.org/v1", KEY),
        ("https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
        ("http://localhost:8000/v1", KEY),
    ],
)
def test_a_services_key_is_for_its_own_address_alone(address: str, variable: str) -> None:
    assert key_variable_at(address) == variable
