"""Keys of gateways in what goes upstream, where none may come, however it is written."""

from __future__ import annotations

import base64
import binascii
import re
from urllib.parse import unquote_to_bytes

from drike.conversations.turns import UnreadError
from drike.gateway.bodies import decoded

# As `keys.KEY` has it. In what follows "drike" is looked for first, which takes no time.
_WORD = b"drike"
_KEY = re.compile(rb"drike-[0-9a-f]{8}-[\w-]{32}")
_ASCII_ESCAPE = re.compile(rb"\\u00([2-7][0-9a-fA-F])")  # of JSON
_BASE64 = re.compile(rb"[\w+/-]{40,}")
# "drike" plain and in Base64, by its place in three bytes; and what may hide it otherwise.
_MAY_HAVE_KEY = re.compile(rb"drike|ZHJpa2|RyaWtl|kcmlrZ|%")
_TIMES_QUOTED = 3  # a server behind a proxy may read what is percent-encoded twice


def has_key(text: bytes) -> bool:
    """Whether a header, a path or a part of a query has a key: plain, percent-encoded, in Base64.

    So are a name and a password sent (Basic).
    """
    for _ in range(_TIMES_QUOTED):
        if not _MAY_HAVE_KEY.search(text):
            return False
        words = _BASE64.findall(text) + _BASE64.findall(text.replace(b"+", b" "))
        if any(map(_is_in, (text, *map(_from_base64, words)))):
            return True
        unquoted = unquote_to_bytes(text)
        if unquoted == text:
            return False
        text = unquoted
    return False


def query_without_keys(query: str) -> str:
    """A query without the parameters that have a key."""
    if not query:
        return query
    return "&".join(part for part in query.split("&") if not has_key(part.encode("latin-1")))


def body_has_key(body: bytes, content_encoding: str) -> bool:
    """Whether a body has a key, also where JSON escapes it; not where it cannot be unpacked."""
    try:
        text = decoded(body, content_encoding)
    except UnreadError:
        return False
    if b"\0" in text:  # UTF-16 or UTF-32
        text = text.replace(b"\0", b"")
    if b"\\u00" in text:
        text = _ASCII_ESCAPE.sub(lambda escape: bytes.fromhex(escape[1].decode()), text)
    if _WORD not in text:
        return False
    return _is_in(text) or (b"drike%2" in text and _is_in(unquote_to_bytes(text)))


def _is_in(text: bytes) -> bool:
    return _WORD in text and _KEY.search(text) is not None


def _from_base64(word: bytes) -> bytes:
    """What a word stands for; b"" where it is no Base64."""
    padded = word + b"=" * (-len(word) % 4)
    try:
        return base64.b64decode(padded, altchars=b"-_" if b"+" not in word else None)
    except (binascii.Error, ValueError):
        return b""
