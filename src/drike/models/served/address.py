"""Names of models behind an API: SERVICE:MODEL or SERVICE:MODEL@ADDRESS, and which key is sent where.

A key is read from the environment: from the service's own variable if the request goes to the service's own address,
from DRIKE_API_KEY otherwise, so that no server is ever sent another one's key.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from ipaddress import ip_address
from urllib.parse import SplitResult, urlsplit

from drike.errors import ModelError

# Service -> where its API begins, and the variable that holds its key ("" for servers that users run themselves).
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
_FIRST_LETTERS = {"openai": ("gpt-", "chatgpt-", "o1", "o3", "o4"), "gemini": ("gemini-",)}


@dataclass(frozen=True)
class Address:
    """A model's service, its name there, the API's URL (with a slash at the end), and the variable with the key."""

    service: str
    model: str
    url: str
    key_variable: str


def is_served(name: str) -> bool:
    """Whether a name is that of a model behind an API."""
    service, colon, _ = name.partition(":")
    return bool(colon) and service.casefold() in SERVICES


def service_for(name: str) -> str | None:
    """The service that has models with names like `name`; None if no such service is known."""
    known = {} if "/" in name else _FIRST_LETTERS
    return next((service for service, starts in known.items() if name.casefold().startswith(starts)), None)


def is_loopback(host: str | None) -> bool:
    """Whether a host is this machine."""
    try:
        return host == "localhost" or ip_address(host or "").is_loopback
    except ValueError:
        return False


def key_in(variable: str) -> str | None:
    """The key in a variable of the environment; None if it is not set. Raises ModelError for what is no key."""
    key = os.environ.get(variable) or None
    if key is not None and not (key.isascii() and key.isprintable() and " " not in key):
        raise ModelError(f"${variable} holds characters that no key has: set it again")
    return key


def parse_address(name: str, *, allow_http: bool = False) -> Address:
    """Parse SERVICE:MODEL[@ADDRESS]. Raises ModelError, also for unencrypted ones elsewhere unless `allow_http`."""
    service, _, rest = name.partition(":")
    service = service.casefold()
    if service not in SERVICES:
        raise ModelError(f"{service!r} is no service: choose one of {', '.join(SERVICES)}")
    home, variable = SERVICES[service]
    model, at, where = rest.rpartition("@http")
    model, where = (model, f"http{where}") if at else (rest, home)
    if "://" in model:
        raise ModelError(f"{name!r} contains no address of a server: write {service}:MODEL@https://host/v1")
    try:
        url = urlsplit(where)
        own = _origin(url) == _origin(urlsplit(home))
    except ValueError as error:
        raise ModelError(f"{where} is no address ({error}): give it as https://host/v1") from None
    if not model or not url.hostname or url.scheme not in ("http", "https"):
        raise ModelError(f"{name!r} names no model: write {service}:MODEL, or {service}:MODEL@https://host/v1")
    if url.username or url.password or url.query or url.fragment:
        raise ModelError(f"the address of {service}:{model} contains more than a path: put the key into ${KEY}")
    if url.scheme == "http" and not is_loopback(url.hostname) and not allow_http:
        raise ModelError(f"http://{url.hostname} is not encrypted: use https, or `allow_http` if the network is yours")
    return Address(service, model, where.rstrip("/") + "/", (own and variable) or KEY)


def _origin(url: SplitResult) -> tuple[str, str | None, int | None]:
    return url.scheme, url.hostname, url.port
