"""The admin page: static files that hold no data. Its script asks the JSON API of the port that served it."""

from __future__ import annotations

from pathlib import Path

from starlette.responses import Response
from starlette.routing import Route

_FOLDER = Path(__file__).parent
_FILES = (
    ("/", "index.html", "html"),
    ("/page.css", "page.css", "css"),
    ("/page.js", "page.js", "javascript"),
    ("/edit.js", "edit.js", "javascript"),
    ("/inbox.js", "inbox.js", "javascript"),
)
_HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src data:; form-action 'none'; base-uri 'none'; frame-ancestors 'none'",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cache-Control": "no-cache",
}


def routes() -> list[Route]:
    """The routes of the page's files; they need no key."""
    return [
        Route(path, Response((_FOLDER / name).read_bytes(), 200, _HEADERS, f"text/{kind}"), methods=["GET"])
        for path, name, kind in _FILES
    ]
