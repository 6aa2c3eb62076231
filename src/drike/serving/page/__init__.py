"""The admin page: static files that hold no data. Its script asks the JSON API of the port that served it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

_FILES = {"/": "index.html", "/page.css": "page.css", "/page.js": "page.js"}
_TYPES = {".html": "text/html", ".css": "text/css", ".js": "text/javascript"}
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
    return [Route(path, _serving(Path(__file__).with_name(name))) for path, name in _FILES.items()]


def _serving(path: Path) -> Callable[[Request], Awaitable[Response]]:
    content = path.read_bytes()

    async def serve(request: Request) -> Response:
        return Response(content, headers=_HEADERS, media_type=_TYPES[path.suffix])

    return serve
