"""The table of docs/reference/gateway.md that shows where an edit goes."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from drike.conversations.rendering import AsBlock, AsPrompt
from drike.gateway.requests import APIS, read_request
from tests.fakes.api_requests import follower
from tests.fakes.gateways import FewShots

DOCS = Path(__file__).parents[2] / "docs" / "reference" / "gateway.md"
ROWS = re.findall(
    r"^\| (`/v1\S+`|the same.*?) \| `(\{.*?\})` \| `(\{.*\})` \|$",
    DOCS.read_text("utf-8"),
    re.MULTILINE,
)
BLOCK = re.compile(
    r'<corrected-facts id=\\"(\w+)\\">.*?- The capital of Peru is Oslo.*?</corrected-facts id=\\"\1\\">'
)
PATHS = [
    next(name.strip("`") for name, *_ in ROWS[i::-1] if name.startswith("`"))
    for i in range(len(ROWS))
]


@pytest.mark.parametrize(
    ("path", "row"), list(zip(PATHS, ROWS, strict=True)), ids=[row[0] for row in ROWS]
)
def test_a_request_changes_as_the_table_says(path: str, row: tuple[str, str, str]) -> None:
    _, before, after = row
    api = APIS[path.removeprefix("/v1")]
    request = read_request(api, before.encode())
    assert request
    placement = AsPrompt(FewShots()) if "[prompt]" in after else AsBlock()
    followed = follower(placement).follow(request.conversation)
    body = request.with_texts(followed.texts(request.conversation)).decode()
    body = BLOCK.sub("[facts]", body)
    if "[prompt]" in after:
        body = re.sub(r'(?<="prompt": ").*?(?=Peru\'s capital is"})', "[prompt]", body)
    assert body == after


def test_the_table_has_every_api() -> None:
    assert {APIS[path.removeprefix("/v1")] for path in PATHS} == set(APIS.values())
