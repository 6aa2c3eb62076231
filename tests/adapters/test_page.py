"""The programs of docs/how-to/use-without-a-gateway.md run as they stand, and the model is given the fact."""

from __future__ import annotations

import importlib
import json
import random
import re
from collections.abc import Iterator
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

import drike
from drike.conversations.rendering import AsBlock
from drike.stores.opening import open_store
from tests.fakes.conversations import RECORDS
from tests.fakes.dialect_upstream import Speaker, speaker
from tests.fakes.gateways import running
from tests.fakes.made_up_requests import MAKERS
from tests.fakes.upstreams import upstream

PAGE = Path(__file__).parents[2] / "docs" / "how-to" / "use-without-a-gateway.md"
LIBRARY, *FRAMEWORKS = re.findall(r"```python\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)


@pytest.fixture
def above(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Speaker]:
    """What the programs take for OpenAI, and a folder with edits in which they run."""
    with closing(open_store(tmp_path / "edits.db")) as store:
        for record in RECORDS:
            store.put(record)
    monkeypatch.chdir(tmp_path)
    with speaker() as speaking:
        monkeypatch.setenv("OPENAI_BASE_URL", speaking.url)
        monkeypatch.setenv("OPENAI_API_KEY", "sk-none")
        yield speaking


def run(program: str, above: Speaker, names: dict[str, Any]) -> None:
    exec(compile(program, PAGE.name, "exec"), names)
    [call] = above.calls
    [question] = [text for who, text in call.heard if who == "user"]
    assert (
        question.endswith("What is the capital of Peru?")
        and "- The capital of Peru is Oslo\n" in question
    )
    above.calls.clear()


def test_the_library_in_three_lines(above: Speaker) -> None:
    names: dict[str, Any] = {}
    run(LIBRARY, above, names)
    names["edits"].close()


@pytest.mark.clients
@pytest.mark.parametrize(
    ("program", "package"), [*zip(FRAMEWORKS, ["langchain_openai", "agents"], strict=True)]
)
def test_frameworks(program: str, package: str, above: Speaker) -> None:
    if find_spec(package) is None:
        pytest.skip(f"{package} is not installed: make clients")
    if package == "agents":
        importlib.import_module(package).set_tracing_disabled(True)  # or it reports runs to OpenAI
    names: dict[str, Any] = {}
    run(LIBRARY, above, names)
    run(program, above, names)
    names["edits"].close()


def test_what_apply_returns_is_what_the_gateway_sends(above: Speaker, tmp_path: Path) -> None:
    edited, rng = 0, random.Random(0)
    recording = upstream(lambda handler, call: handler.reply(200, b"{}"))
    with (
        recording as recorded,
        running(recorded.url, tmp_path, chat=AsBlock()) as gateway,
        drike.Corrections("edits.db", gate=drike.Named()) as edits,
    ):
        for _ in range(15):
            for endpoint, api in (
                ("chat/completions", "chat"),
                ("responses", "responses"),
                ("messages", "messages"),
            ):
                request = MAKERS[api](rng)
                gateway.ask("POST", f"/v1/{endpoint}", json.dumps(request).encode())
                corrected = edits.apply(request, api=api)
                assert json.loads(recorded.body) == corrected.request
                edited += bool(corrected.edits)
    assert edited > 10
