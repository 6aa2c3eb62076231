"""Names of models behind an API, SERVICE:MODEL or SERVICE:MODEL@ADDRESS, and whose key goes where.

A key is read from the environment: the service's own variable where its own address is asked, DRIKE_API_KEY anywhere
else, so that no server is ever sent another one's key.
"""

from __future__ import annotations

from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import SplitResult, urlsplit

from drike.errors import ModelError

# Service -> where its API begins, and the variable that holds its key ("" for servers one runs oneself).
SERVICES = {
    "openai": ("https://api.openai.com/v1", "OPENAI_API_KEY"),
    "gemini": ("https://generativelanguage.googleapis.com/v1beta/openai", "GEMINI_API_KEY"),
    "openrouter": ("https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
    "transformers": ("http://localhost:8000/v1", ""),
    "vllm": ("http://localhost:8000/v1", ""),
    "sglang": ("http://localhost:30000/v1", ""),
    "llamacpp": ("http://localhost:8080/v1", ""),
    "ollama": ("http://localhost:11434/v1", ""),
}
KEY = "DRIKE_API_KEY"
_BEGINNINGS = {
    "gpt-": "openai",
    "chatgpt-": "openai",
    "o1": "openai",
    "o3": "openai",
    "o4": "openai",
    "gemini-": "gemini",
}


@dataclass(frozen=True)
class Address:
    """Where a model is: its service, its name there, where the API begins (a slash behind), and whose key to use."""

    service: str
    model: str
    url: str
    key_variable: str


def is_served(name: str) -> bool:
    """Whether a model's name is that of one behind an API."""
    service, colon, _ = name.partition(":")
    return bool(colon) and service.casefold() in SERVICES


def service_for(name: str) -> str | None:
    """The service whose models are called like `name`, given without its service."""
    if "/" in name:
        return None
    return next((service for start, service in _BEGINNINGS.items() if name.casefold().startswith(start)), None)


def is_loopback(host: str | None) -> bool:
    """Whether a host is this machine."""
    try:
        return host == "localhost" or ip_address(host or "").is_loopback
    except ValueError:
        return False


def parse_address(name: str, *, allow_http: bool = False) -> Address:
    """Read SERVICE:MODEL[@ADDRESS]. Raises ModelError.

    allow_http: let prompts and key go over the network unencrypted. On this machine they may anyway.
    """
    service, _, rest = name.partition(":")
    service = service.casefold()
    if service not in SERVICES:
        raise ModelError(f"{service!r} is no service: choose of {', '.join(SERVICES)}")
    home, variable = SERVICES[service]
    model, at, where = rest.rpartition("@http")
    model, where = (model, f"http{where}") if at else (rest, home)
    if "://" in model:
        raise ModelError(f"{name!r} has no address of a server: write {service}:MODEL@https://host/v1")
    try:
        url = urlsplit(where)
        own = _origin(url) == _origin(urlsplit(home))
    except ValueError as error:
        raise ModelError(f"{where} is no address ({error}): give it as https://host/v1") from None
    if not model or not url.hostname or url.scheme not in ("http", "https"):
        raise ModelError(f"{name!r} names no model: write {service}:MODEL, or {service}:MODEL@https://host/v1")
    if url.username or url.password or url.query or url.fragment:
        raise ModelError(f"the address of {service}:{model} holds more than a path: put the key into ${KEY}")
    if url.scheme == "http" and not is_loopback(url.hostname) and not allow_http:
        raise ModelError(f"http://{url.hostname} is not encrypted: use https, or --allow-http if the network is yours")
    return Address(service, model, where.rstrip("/") + "/", (own and variable) or KEY)


def _origin(url: SplitResult) -> tuple[str, str | None, int | None]:
    return url.scheme, url.hostname, url.port
