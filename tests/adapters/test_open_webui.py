"""The filter for Open WebUI, loaded from its text and called as in its `utils/plugin.py` and `utils/filter.py`."""

from __future__ import annotations

import asyncio
import inspect
import re
import sys
import types
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import drike.adapters
from drike.errors import DrikeError
from drike.stores.opening import open_store
from tests.fakes.conversations import BLOCK, PERU

FOLDER = Path(drike.adapters.__file__).parent
SOURCE = (FOLDER / "open_webui.py").read_text("utf-8")
USER = {"id": "u", "role": "user", "name": "Ada"}
MOST_LINES = 40


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("adapters") / "edits.db"
    with closing(open_store(path)) as opened:
        opened.put(PERU)
    return path


def front_matter(content: str) -> dict[str, str]:
    """What Open WebUI reads at the beginning of a function: lines of a docstring that opens on a line of its own."""
    first, *lines = content.splitlines()
    assert first.strip() == '"""'
    pairs = (
        re.match(r"^\s*([a-z_]+):\s*(.*)\s*$", line, re.IGNORECASE)
        for line in lines[: lines.index('"""')]
    )
    return {pair[1]: pair[2].strip() for pair in pairs if pair}


def loaded(content: str) -> Any:
    module = types.ModuleType("function_drike")
    sys.modules[module.__name__] = module
    try:
        exec(content, module.__dict__)
    finally:
        del sys.modules[module.__name__]
    return module.Filter()


async def filtered(function: Any, valves: dict[str, Any], body: dict[str, Any]) -> dict[str, Any]:
    """A chat after the filter. valves: as they are kept in Open WebUI's database."""
    function.valves = function.Valves(**valves)
    more = {
        "__user__": USER,
        "__metadata__": {"chat_id": "c"},
        "__id__": "drike",
        "__model__": {"id": "m"},
    }
    parameters = inspect.signature(function.inlet).parameters
    result = function.inlet(
        body=body, **{name: value for name, value in more.items() if name in parameters}
    )
    return await result if inspect.isawaitable(result) else result


def test_a_chat_gets_its_edits_and_all_else_stays(store: Path) -> None:
    kept = {"stream": True, "metadata": {"files": [object()]}, "model": "m"}
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "What is the capital of Peru?"},
    ]
    body = {**kept, "messages": [dict(message) for message in messages]}
    function = loaded(SOURCE)
    result = asyncio.run(filtered(function, {"store": str(store)}, body))
    assert {key: result[key] for key in kept} == kept and result["messages"][0] == messages[0]
    assert "Oslo" in BLOCK.search(result["messages"][1]["content"])[2]  # type: ignore[index]
    assert body["messages"] == messages
    for other in (
        {**kept, "messages": [{"role": "user", "content": "Hello!"}]},
        {"model": "m", "prompt": "Peru"},
    ):
        assert asyncio.run(filtered(function, {"store": str(store)}, other)) == other


def test_an_edit_for_some_models_holds_for_these(tmp_path: Path) -> None:
    with closing(open_store(tmp_path / "edits.db")) as opened:
        opened.put(replace(PERU, only=("model=gpt-*",)))
    for model, corrected in (("gpt-5", True), ("o9", False)):
        body = {
            "model": model,
            "messages": [{"role": "user", "content": "What is the capital of Peru?"}],
        }
        result = asyncio.run(filtered(loaded(SOURCE), {"store": str(tmp_path / "edits.db")}, body))
        assert ("Oslo" in result["messages"][0]["content"]) is corrected


def test_another_store_holds_from_the_next_chat_on(store: Path, tmp_path: Path) -> None:
    with closing(open_store(tmp_path / "other.db")) as opened:
        opened.put(type(PERU)("Peru", "The capital of Peru is", "Rome"))
    function, body = (
        loaded(SOURCE),
        {"messages": [{"role": "user", "content": "What is the capital of Peru?"}]},
    )
    for path, city in ((store, "Oslo"), (tmp_path / "other.db", "Rome"), (store, "Oslo")):
        [message] = asyncio.run(filtered(function, {"store": str(path), "priority": 3}, body))[
            "messages"
        ]
        assert city in message["content"]


def test_a_store_that_is_missing_is_an_error_in_a_sentence(tmp_path: Path) -> None:
    with pytest.raises(DrikeError):
        asyncio.run(
            filtered(
                loaded(SOURCE),
                {"store": str(tmp_path / "none.db")},
                {"messages": [{"role": "user"}]},
            )
        )


def test_open_webui_shows_what_it_is() -> None:
    assert front_matter(SOURCE).keys() == {"title", "description", "version"}
    fields = loaded(SOURCE).Valves.model_json_schema()["properties"]
    assert fields.keys() == {"store", "priority"} and fields["priority"]["default"] == 0


@pytest.mark.parametrize("name", ["langchain", "openai_agents", "open_webui"])
def test_an_adapter_is_short(name: str) -> None:
    lines = (FOLDER / f"{name}.py").read_text("utf-8").splitlines()
    assert sum(bool(line.strip()) for line in lines) <= MOST_LINES
