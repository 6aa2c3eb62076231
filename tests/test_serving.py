"""End to end with a third-party server: `transformers serve` over the embedded model, if it can be started."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path

import pytest

from drike import tinyfacts
from drike.datasets import load as load_rows
from drike.editors.ike import IKE
from drike.encoders import HashingEncoder
from drike.evaluation import evaluate
from drike.models.local.huggingface import load
from drike.retrieval.budget import Fraction
from drike.retrieval.pool import Pool
from drike.retrieval.retriever import Similarity
from servers import connect

pytestmark = pytest.mark.server
SECONDS = 120.0


@pytest.fixture(scope="module")
def address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Start the server and yield its address; skip if its extras are missing or it does not start."""
    missing = [name for name in ("fastapi", "uvicorn", "accelerate") if find_spec(name) is None]
    if missing:
        pytest.skip(f"transformers serve needs {', '.join(missing)}")
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    command = [str(Path(sys.executable).with_name("transformers")), "serve", str(tinyfacts.model_path())]
    command += ["--host", "127.0.0.1", "--port", str(port), "--device", "cpu"]
    log = tmp_path_factory.mktemp("serve") / "log.txt"
    with log.open("w") as out:
        running = subprocess.Popen(
            command, stdout=out, stderr=out, env={**os.environ, "HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
        )
        try:
            began = time.monotonic()
            while not _is_up(f"http://127.0.0.1:{port}/health"):
                if running.poll() is not None or time.monotonic() - began > SECONDS:
                    pytest.skip(f"transformers serve does not come up: {log.read_text()[-300:]}")
                time.sleep(0.5)
            yield f"transformers:{tinyfacts.model_path()}@http://127.0.0.1:{port}/v1"
        finally:
            running.terminate()
            running.wait(20)


def _is_up(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=2) as response:
            return bool(response.status == 200)
    except (urllib.error.URLError, OSError):
        return False


def test_a_third_party_server_gives_the_local_models_answers(address: str) -> None:
    rows = load_rows("tinyfacts")
    parts = rows.split(train=0, test=4, seed=0)
    editor = IKE("IKE", Pool(parts.demonstrations, HashingEncoder()), Similarity(), Fraction(1.0))
    local = load(str(tinyfacts.model_path()), device="cpu")
    with closing(connect(address, template="plain", concurrency=2)) as served:
        assert served.score is None, "it takes echo and logprobs, and ignores them"
        through = list(evaluate(editor, served, parts.test))
        assert served.usage.estimated == 0
    direct = list(evaluate(editor, local, parts.test, write=True))
    assert [(o.query, o.answer, o.matched) for o in through] == [(o.query, o.answer, o.matched) for o in direct]
    assert [o.prompt_tokens for o in through] == [o.prompt_tokens for o in direct]
