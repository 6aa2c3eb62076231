"""Which requests both ports admit, by what can be checked without their bodies.

This is their size, path, origin and key.
"""

import re
import unicodedata
from contextlib import suppress
from typing import NamedTuple
from urllib.parse import unquote, urlsplit

from starlette.datastructures import Headers
from starlette.requests import Request
from starlette.types import Scope

from drike.gateway.errors import RequestError
from drike.gateway.http.keys import KeyRole, Keys, Principal
from drike.gateway.http.relay import Limits
from drike.gateway.http.server import tell_known
from drike.gateway.requests import APIS
from drike.models.served import is_loopback
from drike.stores.opening import TENANT

PREFIX = b"/v1"
FEEDBACK = b"/feedback"
CAPTURE = b"/capture"  # a draft and what was sent instead
_OF_REPORTERS = (FEEDBACK, CAPTURE)
# LiteLLM appends the second; agentgateway asks for /request and /response, wherever its
# configuration puts them.
_ENDS_OF_WEBHOOKS = (b"", b"/beta/litellm_basic_guardrail_api", b"/request", b"/response")
WEBHOOKS = frozenset(
    (b"/request", b"/response", *(b"/guardrail" + end for end in _ENDS_OF_WEBHOOKS))
)
_OWN_PATHS = WEBHOOKS | {*_OF_REPORTERS}
_METHODS = frozenset(("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"))
# What any key may use of the upstream: requests that neither list nor change what it keeps for
# other clients.
_FOR_ALL_KEYS = re.compile(
    rb"""
    (GET | HEAD) \ /v1/models (/.*)?
    | POST \ /(feedback | capture)
    | POST \ /v1/ (
        (chat/)? completions
        | embeddings
        | responses (/input_tokens)?
        | messages (/count_tokens)?
        | moderations
        | rerank
        | score
        | (de)? tokenize
        | audio/ (speech | transcriptions | translations)
        | images/ (generations | edits | variations)
    )
    """,
    re.VERBOSE,
)
# Paths that are read here; another one must not be taken for one of these by the upstream.
_READ_PATHS = frozenset(
    (*(PREFIX.decode() + path for path in APIS), *map(bytes.decode, _OWN_PATHS))
)
_ESCAPE = re.compile(rb"%([0-9a-fA-F]{2})?")
_NEEDS_NO_ESCAPE = re.compile(rb"[\w.~-]")
_IGNORED = " "  # by some servers, at the ends of a part of a path, as dots are
_AMBIGUOUS = re.compile(r"[\\;?#%\0-\x1f\x7f]")
_BYTES_BESIDE_HEADER = 4  # its colon, a space, and the end of its line


def admit(scope: Scope, keys: Keys | None, limits: Limits) -> Principal:
    """Who sent a request, of a `normal_path`. Raises RequestError.

    keys: None admits everyone as the default tenant's administrator, but no web pages of other
    sites.
    """
    _check_headers(scope, limits)
    method: str = scope["method"]
    path = bytes(scope["raw_path"])
    if method not in _METHODS:
        raise RequestError(405, "no_such_method", f"{method} is not passed on: use POST or GET")
    if not path.startswith(PREFIX + b"/") and path not in _OWN_PATHS:
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
    if path in _OF_REPORTERS and method != "POST":
        raise RequestError(405, "no_such_method", "reports are sent by POST")
    _check_role(principal, method, path)
    return principal


class ReportReader(NamedTuple):
    """Who asks what became of a report. token: of its link; "" for who has a key."""

    principal: Principal
    number: int
    token: str = ""


_REPORT = re.compile(
    rb"/feedback/(?:(?P<tenant>[\w-]{1,64})\.(?P<linked>\d{1,18})\.(?P<token>[0-9a-f]{32})"
    rb"|(?P<number>\d{1,18}))"
)


def no_such_report() -> RequestError:
    """The error of a report that is not there, or not to be read by who asks."""
    return RequestError(
        404, "no_such_report", "there is no such report: use its link, or the key that sent it"
    )


def admit_reader(scope: Scope, keys: Keys | None, limits: Limits) -> ReportReader:
    """Who asks what became of a report, by a link or by a key. Raises RequestError.

    Whether a link's token is right, the store of its tenant says.
    """
    _check_headers(scope, limits)
    if scope["method"] not in ("GET", "HEAD"):
        raise RequestError(405, "no_such_method", "what became of a report is read by GET")
    asked = _REPORT.fullmatch(bytes(scope["raw_path"]))
    if asked is None:
        raise no_such_report()
    if keys is None:
        _check_site(scope)
    if asked["token"]:
        tenant = asked["tenant"].decode()
        if tenant != TENANT and (keys is None or tenant not in keys.tenants):
            raise no_such_report()
        reader = Principal(tenant, KeyRole.REPORT)
        return ReportReader(reader, int(asked["linked"]), asked["token"].decode())
    principal = principal_of(scope, keys)
    if principal is None:
        raise RequestError(
            401, "invalid_api_key", "give the report's link, or a key of this gateway"
        )
    return ReportReader(principal, int(asked["number"]))


def _check_headers(scope: Scope, limits: Limits) -> None:
    size = sum(len(name) + len(value) + _BYTES_BESIDE_HEADER for name, value in scope["headers"])
    if size > limits.headers:
        raise RequestError(
            431, "headers_too_large", f"the headers have more than {limits.headers >> 10} KB"
        )


def _check_role(principal: Principal, method: str, path: bytes) -> None:
    """Refuse what a key is not for. Raises RequestError."""
    if not principal.role.includes(KeyRole.USE) and path not in _OF_REPORTERS:
        raise RequestError(403, "not_permitted", "this key is for reports of wrong answers alone")
    if principal.role.includes(KeyRole.ADMIN) or path in WEBHOOKS:
        return
    if not _FOR_ALL_KEYS.fullmatch(method.encode() + b" " + path):
        raise RequestError(
            403, "not_permitted", "files, batches and the like need a key with the role admin"
        )


def normal_path(path: bytes) -> bytes:
    """A path in the one form that is admitted and sent upstream: no needless escape, no empty part.

    Raises RequestError for one that the upstream could read as another, with or without edits: one
    with . or .., with characters that part of the servers give a meaning, or that a lenient server
    takes for one that is edited.
    """
    unescaped = _ESCAPE.sub(_unescaped, path)
    normal = re.sub(rb"/+", b"/", unescaped).rstrip(b"/") or b"/"

    text = unicodedata.normalize("NFKC", unquote(normal.decode("latin-1"))).casefold()
    parts = [part.strip(_IGNORED) for part in text.split("/")]
    if _AMBIGUOUS.search(text) or any(part in (".", "..") for part in parts):
        raise RequestError(
            400,
            "bad_path",
            "the path has . or .. or %, \\ ; ? # or control characters: leave them out",
        )

    lenient_parts = [part.rstrip("." + _IGNORED) for part in parts]
    leniently_read = "/" + "/".join(part for part in lenient_parts if part)
    if leniently_read in _READ_PATHS and leniently_read.encode() != normal:
        raise RequestError(
            400,
            "bad_path",
            f"the path could be read as {leniently_read}: write that, or another one",
        )
    return normal


def _unescaped(escape: re.Match[bytes]) -> bytes:
    """A character that needs no escape, or the escape in capitals."""
    if escape[1] is None:
        raise RequestError(400, "bad_path", "the path has a % that escapes nothing: leave it out")
    character = bytes.fromhex(escape[1].decode())
    return character if _NEEDS_NO_ESCAPE.fullmatch(character) else escape[0].upper()


def permit(request: Request, role: KeyRole, keys: Keys | None) -> Principal:
    """The sender of a request to the admin port.

    Checks host, origin, content type and key. Raises RequestError.
    """
    if keys is None and not is_loopback(request.url.hostname):
        raise RequestError(
            403, "wrong_host", "without keys this port answers on localhost and 127.0.0.1 only"
        )

    headers = request.headers
    origin = headers.get("origin", "")
    is_other_origin = origin != "" and origin.partition("://")[2] != headers.get("host", "")
    # As an image, for example: such a GET has no Origin.
    is_embedded = headers.get("sec-fetch-site") == "cross-site"
    if is_embedded or is_other_origin:
        raise RequestError(403, "wrong_origin", "pages of other sites may not use this port")
    is_json = headers.get("content-type", "").startswith("application/json")
    if request.method == "POST" and not is_json:
        raise RequestError(415, "wrong_type", "send Content-Type: application/json")

    principal = principal_of(request.scope, keys)
    remedy = f"this needs a key for {role}: send it as Authorization: Bearer KEY"
    if principal is None:
        raise RequestError(401, "invalid_api_key", remedy)
    if not principal.role.includes(role):
        raise RequestError(403, "forbidden", remedy)
    return principal


def principal_of(scope: Scope, keys: Keys | None) -> Principal | None:
    """Who sent a request: the holder of its key; None for an unknown key.

    Without keys, anyone is the default tenant's administrator.
    """
    if keys is None:
        principal: Principal | None = Principal()
    else:
        principal = keys.principal(_key_of(scope))
    if principal is not None:
        tell_known(scope)
    return principal


def _key_of(scope: Scope) -> str:
    """The key that a request has; "" where it has none."""
    headers = dict(Headers(scope=scope).items())  # of a header that comes twice, the last
    kind, _, bearer_key = headers.get("authorization", "").partition(" ")
    if kind.casefold() == "bearer":
        return bearer_key.strip()
    return headers.get("x-api-key", "")  # as webhooks send it


def _check_site(scope: Scope) -> None:
    """Refuse pages of other sites, which could use the upstream's key.

    They are refused also where their name leads to this machine.
    """
    headers = Headers(scope=scope)
    for origin in headers.getlist("origin"):
        _check_host("origin", origin)
    for host in headers.getlist("host"):
        _check_host("host", f"http://{host}")


def _check_host(header: str, address: str) -> None:
    """Refuse an address in a header that is not this machine's. Raises RequestError."""
    host = None
    with suppress(ValueError):
        host = urlsplit(address).hostname
    if not is_loopback(host):
        sentence = (
            "without keys only this machine's own addresses are answered: make a key (drike keys "
            "add)"
        )
        raise RequestError(403, f"wrong_{header}", sentence)
