"""End to end with a third-party server: `transformers serve` over the embedded model, directly and behind the gateway.

`make server` installs what it needs.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path

import openai
import pytest

from drike import tinyfacts
from drike.encoders import HashingEncoder
from drike.gateway.start import EXAMPLE
from drike.models.local.huggingface import load
from drike.research.datasets import load as load_rows
from drike.research.editors.budgets import Fraction
from drike.research.editors.in_context import InContextEditor
from drike.research.editors.pool import Pool
from drike.research.editors.rankings import Similarity
from drike.research.editors.selectors import RankAndCut
from drike.research.evaluation.evaluate import evaluate
from tests.fakes.gateways import Running, ask, is_up, running
from tests.fakes.ports import free_port
from tests.fakes.servers import connect

pytestmark = pytest.mark.server
SECONDS = 120.0


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The embedded model with a chat template, by which it continues the messages."""
    copied = tmp_path_factory.mktemp("model") / "embedded"
    shutil.copytree(tinyfacts.MODEL, copied)
    settings = json.loads((copied / "tokenizer_config.json").read_text())
    settings["chat_template"] = "{% for message in messages %}{{ message['content'] }}{% endfor %}"
    (copied / "tokenizer_config.json").write_text(json.dumps(settings))
    return copied


@pytest.fixture(scope="module")
def url(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start the server and yield its address; skip if its extras are missing or it does not start."""
    missing = [name for name in ("fastapi", "uvicorn", "accelerate") if find_spec(name) is None]
    if missing:
        pytest.skip(f"transformers serve needs {', '.join(missing)}")
    port = free_port()
    command = [str(Path(sys.executable).with_name("transformers")), "serve", str(folder)]
    command += ["--host", "127.0.0.1", "--port", str(port), "--device", "cpu"]
    place = tmp_path_factory.mktemp("serve")
    (place / "hub").mkdir()  # its list of models is that of its cache, which must exist
    offline = {"HF_HOME": str(place), "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
    with (place / "log").open("w") as out:
        running = subprocess.Popen(command, stdout=out, stderr=out, env={**os.environ, **offline})
        try:
            began = time.monotonic()
            while not is_up(f"http://127.0.0.1:{port}/health"):
                if running.poll() is not None or time.monotonic() - began > SECONDS:
                    pytest.skip(
                        f"transformers serve does not come up: {(place / 'log').read_text()[-300:]}"
                    )
                time.sleep(0.5)
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            running.terminate()
            running.wait(20)


def test_a_third_party_server_gives_the_local_models_answers(url: str, folder: Path) -> None:
    rows = load_rows("tinyfacts")
    parts = rows.split(train=0, test=4, seed=0)
    editor = InContextEditor(
        "IKE", Pool(parts.demonstrations, HashingEncoder()), RankAndCut(Similarity(), Fraction(1.0))
    )
    local = load(str(tinyfacts.MODEL), device="cpu")
    with closing(
        connect(f"transformers:{folder}@{url}", template="plain", concurrency=2)
    ) as served:
        assert served.score is None, "it takes echo and logprobs, and ignores them"
        through = list(evaluate(editor, served, parts.test))
        assert served.usage.estimated == 0
    direct = list(evaluate(editor, local, parts.test, write=True))
    assert [(o.query, o.answer, o.matched) for o in through] == [
        (o.query, o.answer, o.matched) for o in direct
    ]
    assert [o.prompt_tokens for o in through] == [o.prompt_tokens for o in direct]


ABOUT, OTHER = EXAMPLE.edit.query, "Episodes of Big Monday ran on"


@pytest.fixture(scope="module")
def gateway(url: str, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(url, tmp_path_factory.mktemp("gateway"), EXAMPLE) as found:
        yield found


def asked(folder: Path, text: str, **more: object) -> bytes:
    body = {
        "model": str(folder),
        "max_tokens": 3,
        "messages": [{"role": "user", "content": text}],
        **more,
    }
    return json.dumps(body).encode()


@pytest.mark.parametrize("stream", [False, True])
def test_what_concerns_no_edit_is_answered_byte_for_byte(
    gateway: Running, url: str, folder: Path, stream: bool
) -> None:
    body, path = asked(folder, OTHER, stream=stream), "/chat/completions"
    found = []
    for place in (url, gateway.url):
        status, headers, answer = ask(
            f"{place}{path}", "POST", body, Content_Type="application/json", X_Request_Id="1"
        )
        found.append((status, headers["content-type"], re.sub(rb'"created":\d+', b"", answer)))
    assert found[0] == found[1] and b"ESPN" in found[0][2] and (b"data: " in found[0][2]) == stream


@pytest.mark.parametrize("stream", [False, True])
def test_an_edit_reaches_the_model_with_its_block(
    gateway: Running, url: str, folder: Path, stream: bool
) -> None:
    read = {}
    for place in (url, gateway.url):
        with openai.OpenAI(base_url=place, api_key="none", max_retries=0) as client:
            raw = client.chat.completions.with_raw_response.create(
                **json.loads(asked(folder, ABOUT, stream=stream))
            )
            *_, last = raw.parse() if stream else [raw.parse()]
            read[place] = last.usage.prompt_tokens
    assert raw.headers["x-drike-edits"] == "1@1" and read[gateway.url] > read[url] + 50


def test_a_prompt_to_complete_is_answered_with_the_edit(
    gateway: Running, url: str, folder: Path
) -> None:
    said = []
    for place in (url, gateway.url):
        with openai.OpenAI(base_url=place, api_key="none", max_retries=0) as client:
            said.append(
                client.completions.create(model=str(folder), prompt=ABOUT, max_tokens=2)
                .choices[0]
                .text
            )
    assert [text.split()[0] for text in said] == [EXAMPLE.edit.target_true, EXAMPLE.edit.target_new]


def test_its_models_are_passed_on(gateway: Running, url: str) -> None:
    assert ask(f"{gateway.url}/models", "GET")[::2] == ask(f"{url}/models", "GET")[::2]
    assert json.loads(ask(f"{gateway.url}/models", "GET")[2])["object"] == "list"
