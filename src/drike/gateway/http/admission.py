"""Which requests both ports admit, by all that can be checked without their bodies: size, path, origin and key."""

import re
import unicodedata
from contextlib import suppress
from urllib.parse import unquote, urlsplit

from starlette.requests import Request
from starlette.types import Scope

from drike.gateway.errors import RequestError
from drike.gateway.http.keys import KeyRole, Keys, Principal
from drike.gateway.http.relay import Limits
from drike.gateway.requests import APIS
from drike.models.served import is_loopback

PREFIX, FEEDBACK = b"/v1", b"/feedback"
# LiteLLM appends the second; agentgateway asks for /request and /response, wherever its configuration puts them.
_ENDS = (b"", b"/beta/litellm_basic_guardrail_api", b"/request", b"/response")
WEBHOOKS = frozenset((b"/request", b"/response", *(b"/guardrail" + end for end in _ENDS)))
_METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))
# What any key may use of the upstream: requests that neither list nor change what it keeps for other clients.
_FOR_ALL = re.compile(
    rb"(GET|HEAD) /v1/models(/.*)?|POST /feedback"
    rb"|POST /v1/((chat/)?completions|embeddings|responses(/input_tokens)?|messages(/count_tokens)?|moderations"
    rb"|rerank|score|(de)?tokenize|audio/(speech|transcriptions|translations)|images/(generations|edits|variations))"
)
_OWN = WEBHOOKS | {FEEDBACK}
_READ = frozenset((*(PREFIX.decode() + path for path in APIS), *map(bytes.decode, _OWN)))
_ESCAPE = re.compile(rb"%([0-9a-fA-F]{2})?")
_IGNORED = " "  # by some servers, at the ends of a part of a path, as dots are
_AMBIGUOUS = re.compile(r"[\\;?#%\0-\x1f\x7f]")


def admit(scope: Scope, keys: Keys | None, limits: Limits, in_flight: int) -> Principal:
    """Who sent a request, of a `normal_path`. Raises RequestError. in_flight: requests now, with this one.

    keys: None admits everyone as the default tenant's administrator, but no web pages of other sites.
    """
    path = bytes(scope["raw_path"])
    if in_flight > limits.at_once:
        raise RequestError(
            429, "busy", f"{limits.at_once:,} requests are in flight: try again in a second"
        )
    if sum(len(name) + len(value) + 4 for name, value in scope["headers"]) > limits.headers:
        raise RequestError(
            431, "headers_too_large", f"the headers have more than {limits.headers >> 10} KB"
        )
    if scope["method"] not in _METHODS:
        raise RequestError(
            405, "no_such_method", f"{scope['method']} is not passed on: use POST or GET"
        )
    if not path.startswith(PREFIX + b"/") and path not in _OWN:
        raise RequestError(
            404, "no_such_path", "there is nothing here: let the base URL end in /v1"
        )
    if keys is None:
        _check_site(scope)
    principal = principal_of(scope, keys)
    if principal is None:
        raise RequestError(
            401, "invalid_api_key", "the key is not one of this gateway's: send a valid one"
        )
    action = scope["method"].encode() + b" " + path
    if path == FEEDBACK and scope["method"] != "POST":
        raise RequestError(405, "no_such_method", "reports are sent by POST")
    if not principal.role.includes(KeyRole.USE) and path != FEEDBACK:
        raise RequestError(403, "not_permitted", "this key is for reports of wrong answers alone")
    if not (
        principal.role.includes(KeyRole.ADMIN) or path in WEBHOOKS or _FOR_ALL.fullmatch(action)
    ):
        raise RequestError(
            403, "not_permitted", "files, batches and the like need a key with the role admin"
        )
    return principal


def normal_path(path: bytes) -> bytes:
    """A path in the one form that is admitted and sent upstream: no needless escape, no empty part.

    Raises RequestError for one that the upstream could read as another, with or without edits: one with . or .., with
    characters that part of the servers give a meaning, or that a lenient server takes for one that is edited.
    """
    normal = re.sub(rb"/+", b"/", _ESCAPE.sub(_unescaped, path)).rstrip(b"/") or b"/"
    text = unicodedata.normalize("NFKC", unquote(normal.decode("latin-1"))).casefold()
    parts = [part.strip(_IGNORED) for part in text.split("/")]
    if _AMBIGUOUS.search(text) or any(part in (".", "..") for part in parts):
        raise RequestError(
            400,
            "bad_path",
            "the path has . or .. or %, \\ ; ? # or control characters: leave them out",
        )
    read = "/" + "/".join(stripped for part in parts if (stripped := part.rstrip("." + _IGNORED)))
    if read in _READ and read.encode() != normal:
        raise RequestError(
            400, "bad_path", f"the path could be read as {read}: write that, or another one"
        )
    return normal


def _unescaped(escape: re.Match[bytes]) -> bytes:
    """A character that needs no escape, or the escape in capitals."""
    if escape[1] is None:
        raise RequestError(400, "bad_path", "the path has a % that escapes nothing: leave it out")
    character = bytes.fromhex(escape[1].decode())
    return character if re.fullmatch(rb"[\w.~-]", character) else escape[0].upper()


def permit(request: Request, role: KeyRole, keys: Keys | None) -> Principal:
    """The sender of a request to the admin port. Checks host, origin, content type and key. Raises RequestError."""
    host = request.headers.get("host", "")
    if keys is None and not is_loopback(request.url.hostname):
        raise RequestError(
            403, "wrong_host", "without keys this port answers on localhost and 127.0.0.1 only"
        )
    origin = request.headers.get("origin")
    embedded = (
        request.headers.get("sec-fetch-site") == "cross-site"
    )  # as an image: such a GET has no Origin
    if embedded or (origin and origin.partition("://")[2] != host):
        raise RequestError(403, "wrong_origin", "pages of other sites may not use this port")
    if request.method == "POST" and not request.headers.get("content-type", "").startswith(
        "application/json"
    ):
        raise RequestError(415, "wrong_type", "send Content-Type: application/json")
    principal = principal_of(request.scope, keys)
    if principal is None or not principal.role.includes(role):
        status, code = (401, "invalid_api_key") if principal is None else (403, "forbidden")
        raise RequestError(
            status, code, f"this needs a key for {role}: send it as Authorization: Bearer KEY"
        )
    return principal


def principal_of(scope: Scope, keys: Keys | None) -> Principal | None:
    """Who sent a request: the holder of its key, or anyone where there are no keys; None for an unknown key."""
    if keys is None:
        return Principal()
    headers: dict[bytes, bytes] = dict(scope["headers"])
    kind, _, key = headers.get(b"authorization", b"").decode("latin-1").partition(" ")
    webhook_key = headers.get(b"x-api-key", b"").decode("latin-1")
    return keys.principal(key.strip() if kind.casefold() == "bearer" else webhook_key)


def _check_site(scope: Scope) -> None:
    """Refuse pages of other sites, which could use the upstream's key, also where their name leads to this machine."""
    for header, prefix in (("origin", ""), ("host", "http://")):
        for site in (
            value.decode("latin-1") for name, value in scope["headers"] if name == header.encode()
        ):
            host = None
            with suppress(ValueError):
                host = urlsplit(prefix + site).hostname
            if not is_loopback(host):
                sentence = "without keys only this machine's own addresses are answered: make a key (drike keys add)"
                raise RequestError(403, f"wrong_{header}", sentence)
