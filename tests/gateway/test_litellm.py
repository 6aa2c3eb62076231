"""LiteLLM's proxy asks the gateway for edits, by the documented settings; and as the gateway's upstream.

It needs another version of the `openai` package than drike: install it apart, and put `litellm` into the PATH.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import openai
import pytest
import yaml

from tests.fakes.gateways import ENTRY, Running, is_up, running
from tests.fakes.ports import free_port
from tests.fakes.upstreams import Recorded, upstream
from tests.gateway.test_openai_client import ABOUT, TOOLS, answer, asked

pytestmark = [
    pytest.mark.server,
    pytest.mark.skipif(shutil.which("litellm") is None, reason="litellm[proxy] is not installed"),
]
DOCS = (Path(__file__).parents[2] / "docs" / "how-to" / "operate-the-gateway.md").read_text()
GUARDRAILS = re.search(r"```yaml\n(guardrails:.*?)```", DOCS, re.DOTALL)[1]  # type: ignore[index]
KEY = "sk-litellm-0123"


@contextmanager
def proxy(above: str, place: Path, guardrails: str = "") -> Iterator[str]:
    """LiteLLM's proxy over an upstream; yields its address."""
    port = free_port()
    model = {"model": "openai/tiny", "api_base": above, "api_key": "k"}
    settings = {
        "model_list": [{"model_name": "tiny", "litellm_params": model}],
        "general_settings": {"master_key": KEY},
    }
    (place / "config.yaml").write_text(yaml.safe_dump(settings) + guardrails)
    command = [
        "litellm",
        "--config",
        str(place / "config.yaml"),
        "--host",
        "127.0.0.1",
        "--port",
        str(port),
    ]
    own = {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "PYTHONPATH": ""}
    with (place / "litellm.log").open("wb") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=log, env={**os.environ, **own}, cwd=place
        )
    try:
        end = time.monotonic() + 120
        while not is_up(f"http://127.0.0.1:{port}/health/liveliness"):
            assert process.poll() is None and time.monotonic() < end, (
                place / "litellm.log"
            ).read_text()
            time.sleep(0.2)
        yield f"http://127.0.0.1:{port}/v1"
    finally:
        process.terminate()
        process.wait(30)


def json_of(above: Recorded) -> dict:
    found: dict = json.loads(above.body)
    return found


@pytest.fixture(scope="module")
def above() -> Iterator[Recorded]:
    with upstream(answer) as found:
        yield found


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running("http://127.0.0.1:9/v1", tmp_path_factory.mktemp("gateway"), ENTRY) as found:
        yield found


@pytest.fixture(scope="module")
def client(
    above: Recorded, gateway: Running, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[openai.OpenAI]:
    """A client of the proxy."""
    guardrails = GUARDRAILS.replace("http://127.0.0.1:8800", gateway.url.removesuffix("/v1"))
    with (
        proxy(above.url, tmp_path_factory.mktemp("proxy"), guardrails) as url,
        openai.OpenAI(base_url=url, api_key=KEY, max_retries=0) as found,
    ):
        yield found


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    "content", [ABOUT, [{"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
                        {"type": "text", "text": ABOUT}]]
)  # fmt: skip
def test_the_block_reaches_the_upstream(
    client: openai.OpenAI, above: Recorded, content: object, stream: bool
) -> None:
    made = client.chat.completions.create(**asked(content, stream=stream, tools=TOOLS))
    assert list(made)
    [message] = json_of(above)["messages"]
    text = message["content"] if isinstance(content, str) else message["content"][1]["text"]
    assert text.endswith(ABOUT) and "Oslo" in text and json_of(above)["tools"] == TOOLS


def test_what_concerns_no_edit_reaches_it_unchanged(client: openai.OpenAI, above: Recorded) -> None:
    client.chat.completions.create(**asked("Hello"))
    assert json_of(above)["messages"] == asked("Hello")["messages"]
    client.embeddings.create(model="tiny", input=ABOUT, encoding_format="float")
    assert json_of(above)["input"] == ABOUT


def test_without_drike_questions_are_answered_unedited(above: Recorded, tmp_path: Path) -> None:
    with proxy(above.url, tmp_path, GUARDRAILS.replace(":8800", ":9")) as url:
        with openai.OpenAI(base_url=url, api_key=KEY, max_retries=0) as alone:
            assert (
                alone.chat.completions.create(**asked(ABOUT)).choices[0].message.content == "Oslo"
            )
        assert json_of(above)["messages"] == asked(ABOUT)["messages"]


def test_behind_drike_it_is_an_upstream_like_any_other(above: Recorded, tmp_path: Path) -> None:
    with (
        proxy(above.url, tmp_path) as url,
        running(url, tmp_path, ENTRY) as gateway,
        openai.OpenAI(base_url=gateway.url, api_key=KEY, max_retries=0) as client,
    ):
        raw = client.chat.completions.with_raw_response.create(**asked(ABOUT))
        assert raw.headers["x-drike-edits"] == "1@1"
        assert "Oslo" in json_of(above)["messages"][0]["content"]
        assert [model.id for model in client.models.list()] == ["tiny"]
