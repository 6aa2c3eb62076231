"""Where models behind an API are: their names, their servers' addresses, and the keys for these.

A name is SERVICE:MODEL or SERVICE:MODEL@ADDRESS. A key is read from the environment: from the
service's own variable if the request goes to the service's own address, from DRIKE_API_KEY
otherwise, so that no server is sent another one's. Keys and prompts go unencrypted only within this
machine, or to a host that the user has allowed.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from ipaddress import ip_address
from typing import NamedTuple
from urllib.parse import SplitResult, urlsplit

from drike.errors import ModelError, UsageError
from drike.support.secrets_in_text import without_secrets

KEY = "DRIKE_API_KEY"
_LOGIN = re.compile(r"@[^@]*:[^@]*@")  # of an address that does not begin with http


class Service(NamedTuple):
    """Where a service's API begins, and the variable that holds its key.

    The latter is "" for servers that users run themselves.
    """

    home: str
    key_variable: str = ""


SERVICES = {
    "openai": Service("https://api.openai.com/v1", "OPENAI_API_KEY"),
    "gemini": Service("https://generativelanguage.googleapis.com/v1beta/openai", "GEMINI_API_KEY"),
    "openrouter": Service("https://openrouter.ai/api/v1", "OPENROUTER_API_KEY"),
    "transformers": Service("http://localhost:8000/v1"),
    "vllm": Service("http://localhost:8000/v1"),
    "sglang": Service("http://localhost:30000/v1"),
    "llamacpp": Service("http://localhost:8080/v1"),
    "ollama": Service("http://localhost:11434/v1"),
}


@dataclass(frozen=True)
class Address:
    """A model's service and its name there, the API's URL, and the variable with the key.

    The URL has a slash at its end.
    """

    service: str
    model: str
    url: str
    key_variable: str


def is_served(name: str) -> bool:
    """Whether a name stands for a model behind an API: SERVICE:MODEL."""
    service, colon, _ = name.partition(":")
    return bool(colon) and service.casefold() in SERVICES


def parse_address(name: str, *, allow_http: bool = False) -> Address:
    """Parse a name, which must be one that `is_served`.

    Raises ModelError for an address that cannot be one or contains more than a path, and for http
    to another machine unless that is allowed.
    """
    written_service, _, rest = name.partition(":")
    service = written_service.casefold()
    home = SERVICES[service].home
    model, at, address_end = rest.rpartition("@http")
    if at:
        address = f"http{address_end}"
    else:
        model = rest
        address = home
    if "://" in model or _LOGIN.search(model):
        raise ModelError(
            f"{without_secrets(name)!r} contains no address of a server: "
            f"write {service}:MODEL@https://host/v1"
        )

    try:
        url = urlsplit(address)
        at_home = _origin(url) == _origin(urlsplit(home))
    except ValueError as error:
        raise ModelError(
            f"{without_secrets(address)} is no address{_why(address, error)}: "
            "give it as https://host/v1"
        ) from None
    if not model or not is_http(url):
        raise ModelError(
            f"{without_secrets(name)!r} names no model: "
            f"write {service}:MODEL, or {service}:MODEL@https://host/v1"
        )
    if has_more_than_a_path(url):
        raise ModelError(
            f"the address of {service}:{model} contains more than a path: put the key into ${KEY}"
        )
    if is_exposed(url) and not allow_http:
        raise ModelError(
            f"http://{url.hostname} is not encrypted: use https, or `allow_http` if the network is"
            " yours"
        )

    own_variable = SERVICES[service].key_variable
    key_variable = own_variable if at_home and own_variable else KEY
    return Address(service, model, address.rstrip("/") + "/", key_variable)


def checked_address(address: str, allow_http: str | None = None) -> str:
    """The address of a gateway's upstream: no slash at its end, and /v1 where it has no path.

    allow_http: a host that may be reached unencrypted, besides this machine. Raises UsageError for
    an address that is none, that contains more than a path, or to which requests would go
    unencrypted.
    """
    try:
        url = urlsplit(address)
        port = url.port
    except ValueError as error:
        raise UsageError(
            f"{without_secrets(address)} is not an address{_why(address, error)}: "
            "give it as https://host/v1"
        ) from None
    if not is_http(url):
        raise UsageError(
            f"{without_secrets(address)} is not an address: give it as https://host/v1"
        )
    if has_more_than_a_path(url) or port == 0:
        raise UsageError(f"{url.hostname} has more than a path: put the key into ${KEY}")
    if is_exposed(url, allow_http):
        remedy = (
            f"use https, or allow it (--allow-http; drike serve: --allow-http {url.hostname})"
            " in your own network"
        )
        raise UsageError(f"http://{url.hostname} is not encrypted: {remedy}")
    path = "" if url.path.strip("/") else "/v1"
    return address.rstrip("/") + path


def _why(address: str, error: ValueError) -> str:
    """Why an address cannot be read, where that shows nothing of a password."""
    return "" if "@" in address else f" ({error})"


def is_http(url: SplitResult) -> bool:
    """Whether a URL is one of http or https, with a host."""
    return url.scheme in ("http", "https") and bool(url.hostname)


def has_more_than_a_path(url: SplitResult) -> bool:
    """Whether a URL holds a user, password, query or fragment: places where people put keys."""
    return bool(url.username or url.password or url.query or url.fragment)


def is_exposed(url: SplitResult, allowed_host: str | None = None) -> bool:
    """Whether what is sent to a URL can be read on the way: by http to another machine.

    The user says that this does not matter for `allowed_host`, as in a network of their own.
    """
    if url.scheme != "http" or is_loopback(url.hostname):
        return False
    return url.hostname != (allowed_host or "").strip("[]").casefold()


def is_loopback(host: str | None) -> bool:
    """Whether a host is this machine."""
    try:
        return host == "localhost" or ip_address(host or "").is_loopback
    except ValueError:
        return False


def key_in(variable: str) -> str | None:
    """The key in a variable of the environment; None if it is not set.

    Raises ModelError for what is no key.
    """
    key = os.environ.get(variable) or None
    if key is not None and not (key.isascii() and key.isprintable() and " " not in key):
        raise ModelError(f"${variable} holds characters that no key has: set it again")
    return key


def key_variable_at(address: str) -> str:
    """The variable that holds the key for an address: that of a service at home there, or `KEY`."""
    origin = _origin(urlsplit(address))
    for service in SERVICES.values():
        if service.key_variable and _origin(urlsplit(service.home)) == origin:
            return service.key_variable
    return KEY


def _origin(url: SplitResult) -> tuple[str, str | None, int | None]:
    """Which server a URL leads to: scheme, host and port.

    Raises ValueError for a port that is none.
    """
    return url.scheme, url.hostname, url.port
