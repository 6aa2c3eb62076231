"""Ask a gateway, and show what is always the same of what came of it."""

from __future__ import annotations

import json
import re

from tests.fakes.gateways import Running
from tests.fakes.upstreams import Recorded
from tests.golden.compare import rounded, without_chance


def user(content: object) -> dict[str, object]:
    return {"role": "user", "content": content}


def shown(value: object) -> object:
    """A JSON value with rounded numbers, and texts without times and random numbers."""
    if isinstance(value, dict):
        return {key: shown(one) for key, one in value.items()}
    if isinstance(value, list):
        return [shown(one) for one in value]
    return without_chance(value) if isinstance(value, str) else rounded(value)


def headers_of(headers: dict[str, str]) -> dict[str, str]:
    """The gateway's own headers; of those that change, that they are there."""
    found = {name: value for name, value in headers.items() if name.startswith("x-")}
    assert re.fullmatch(r"\d+\.\d\d", found.get("x-drike-overhead-ms", "0.00"))
    return {
        name: "SOME" if name in ("x-drike-overhead-ms", "x-request-id") else value
        for name, value in found.items()
    }


def passed(
    gateway: Running, above: Recorded, path: str, body: dict[str, object]
) -> dict[str, object]:
    """What a request led to: status, headers, and the method, path and body that reached the upstream."""
    before = len(above.calls)
    status, headers, answer = gateway.ask(
        "POST", path, json.dumps(body).encode(), Content_Type="application/json"
    )
    calls = [[one.method, one.path, json.loads(one.body)] for one in above.calls[before:]]
    found: dict[str, object] = {"status": status, "headers": headers_of(headers), "upstream": calls}
    if not calls:
        found["answer"] = json.loads(answer)
    return found
