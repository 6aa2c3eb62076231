"""The gateway: headers, what reaches the upstream, the admin port's JSON, metrics, and the webhooks."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

import drike
from tests.fakes.commands import run
from tests.fakes.gates import Doubting, Failing
from tests.fakes.gateways import ENTRY, Keys, Mode, Running, ask, running
from tests.fakes.models import ScriptedModel
from tests.fakes.upstreams import Recorded, upstream
from tests.golden.asking import headers_of, passed, shown, user
from tests.golden.compare import matches_golden

ABOUT, OTHER = "What is the capital of Peru?", "Hello"
CHAD = drike.EditRecord(
    "Chad", "The capital of Chad is", "Rome", relation="P36", paraphrases=("Chad is governed from",)
)
IMAGE = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}


CHATS: dict[str, dict[str, object]] = {
    "fires": {"messages": [user(ABOUT)], "model": "m", "temperature": 0},
    "does not": {"messages": [user(OTHER)]},
    "two edits": {"messages": [user("Are Peru's capital and the capital of Chad far apart?")]},
    "alias": {"messages": [user("The capital of the Republic of Peru is")]},
    "list": {"messages": [user([{"type": "text", "text": "Look:"}, IMAGE, {"type": "text", "text": ABOUT}])]},
    "system": {"messages": [{"role": "system", "content": "Be brief."}, user(ABOUT)], "tools": [{"type": "function"}]},
    "turns": {
        "messages": [user("Tell me about Peru."), {"role": "assistant", "content": "It is nice."},
                     user("What is its capital?")]
    },
    "tool": {"messages": [user(ABOUT), {"role": "tool", "content": ABOUT, "tool_call_id": "1"}]},
    "streamed": {"messages": [user(ABOUT)], "stream": True},
}  # fmt: skip
COMPLETIONS: dict[str, dict[str, object]] = {
    "completion": {"prompt": "The capital of Peru is", "max_tokens": 3, "logprobs": 2},
    "several": {"prompt": ["The capital of Peru is", "Hi"]},
    "other": {"prompt": OTHER},
}


@pytest.fixture(scope="module")
def above() -> Iterator[Recorded]:
    with upstream() as found:
        yield found


@pytest.fixture(scope="module")
def gateway(above: Recorded, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with running(above.url, tmp_path_factory.mktemp("gateway"), ENTRY, CHAD) as found:
        yield found


def test_requests_and_what_reaches_the_upstream(gateway: Running, above: Recorded) -> None:
    found = {
        name: passed(gateway, above, "/v1/chat/completions", body) for name, body in CHATS.items()
    }
    found |= {
        name: passed(gateway, above, "/v1/completions", body) for name, body in COMPLETIONS.items()
    }
    found["embeddings"] = passed(gateway, above, "/v1/embeddings", {"input": ABOUT})
    matches_golden("gateway_requests", shown(found))


def test_modes_and_failures_of_the_gate(above: Recorded, tmp_path: Path) -> None:
    enforced = replace(ENTRY, enforce=True)
    cases = {
        "off": ((ENTRY,), {"mode": Mode.OFF}),
        "shadow": ((ENTRY,), {"mode": Mode.SHADOW}),
        "on": ((ENTRY,), {"mode": Mode.ON}),
        "edit in shadow": ((replace(ENTRY, status=drike.Status.SHADOW),), {}),
        "draft": ((replace(ENTRY, status=drike.Status.DRAFT),), {}),
        "gate fails": ((ENTRY,), {"gate": Failing()}),
        "gate fails, enforced": ((enforced,), {"gate": Failing()}),
        "gate fails in shadow, enforced": ((enforced,), {"gate": Failing(), "mode": Mode.SHADOW}),
        "in doubt": ((ENTRY,), {"gate": Doubting()}),
        "in doubt, fires": ((ENTRY,), {"gate": Doubting(fires=True)}),
    }
    found = {}
    for i, (name, (entries, options)) in enumerate(cases.items()):
        place = tmp_path / str(i)
        place.mkdir()
        with running(above.url, place, *entries, **options) as gateway:  # type: ignore[arg-type]
            found[name] = {
                text: passed(gateway, above, "/v1/chat/completions", {"messages": [user(text)]})
                for text in (ABOUT, OTHER)
            }
            counts = ask(f"{gateway.admin}/metrics", "GET")[2].decode().splitlines()
            found[name]["counted"] = sorted(
                one for one in counts if one.startswith("drike_requests_total")
            )
    matches_golden("gateway_modes", shown(found))


def test_the_admin_port(above: Recorded, tmp_path: Path) -> None:
    with running(above.url, tmp_path, ENTRY, CHAD) as gateway:
        for text in (ABOUT, "Is Peru large?"):
            gateway.ask("POST", "/v1/chat/completions", json.dumps({"messages": [user(text)]}).encode(),
                        X_Request_Id=f"request-{len(text)}")  # fmt: skip
        mali = {"subject": "Mali", "query": "The capital of Mali is", "target_new": "Kyiv", "author": "ann",
                "aliases": ["Republic of Mali"], "priority": 2, "reason": "why"}  # fmt: skip
        oslo = {"subject": "Mali", "query": "The capital of Mali is", "target_new": "Oslo"}
        edits = "/admin/v1/edits"
        asked: list[tuple[str, str, object]] = [
            ("GET", "/admin/v1/status", None),
            ("GET", edits, None),
            ("POST", edits, mali),
            ("POST", edits, mali),
            ("POST", edits, oslo),
            ("POST", edits, {**oslo, "supersede": True}),
            ("POST", edits, {"subject": "Mali"}),
            ("POST", f"{edits}/4/retire", {"reason": "wrong"}),
            ("POST", f"{edits}/4/rollback", {"version": 1, "reason": "right"}),
            ("POST", f"{edits}/1/negatives", {"text": "Who lives in Peru?"}),
            ("POST", f"{edits}/1/wordings", {"text": "Peru is governed from", "reason": "seen"}),
            ("POST", f"{edits}/1/renamed", {"text": "Peru"}),
            ("GET", f"{edits}/1", None),
            ("GET", f"{edits}/9", None),
            ("GET", f"{edits}?q=mali&status=all&limit=1&after=1", None),
            ("GET", f"{edits}?status=maybe", None),
            ("GET", "/admin/v1/decide?q=What%20is%20the%20capital%20of%20Peru%3F", None),
            ("GET", "/admin/v1/decide?q=Hello", None),
            ("POST", "/admin/v1/try", {"query": ABOUT, "max_tokens": 5}),
            ("POST", "/admin/v1/try", {"query": OTHER, "model": "m"}),
            ("POST", "/admin/v1/try", {}),
            ("GET", "/admin/v1/fired?limit=1", None),
            ("GET", "/admin/v1/calibration", None),
            ("GET", "/healthz", None),
            ("GET", "/readyz", None),
            ("GET", "/admin/v1/nothing", None),
        ]  # fmt: skip
        found = [
            [f"{method} {path}", value, *gateway.manage(method, path, value)]
            for method, path, value in asked
        ]
    matches_golden("gateway_admin", shown(found))


def test_keys_and_what_they_permit(
    above: Recorded,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.chdir(tmp_path)
    given = {"none": "", "unknown": "drike-00000000-00000000000000000000000000000000"}
    for role in ("use", "edit", "admin"):
        assert run("keys", "add", "--role", role) == 0
        given[role] = capsys.readouterr().out.strip()
    found = {}
    with running(above.url, tmp_path, ENTRY, keys=Keys(tmp_path / "edits.keys.json")) as gateway:
        chat = json.dumps({"messages": [user(ABOUT)]}).encode()
        for name, key in given.items():
            bearer = {"Authorization": f"Bearer {key}"} if key else {}
            status, headers, answer = gateway.ask("POST", "/v1/chat/completions", chat, **bearer)
            reached = (
                above.calls[-1].header("authorization") if status == 200 else json.loads(answer)
            )
            managed = [
                gateway.manage("GET", f"/admin/v1/{path}", **bearer)
                for path in ("status", "edits/1")
            ]
            status_of_metrics = ask(f"{gateway.admin}/metrics", "GET", **bearer)[0]
            files = gateway.ask("GET", "/v1/files", **bearer)[0]
            found[name] = [status, headers_of(headers), reached, managed, status_of_metrics, files]
    matches_golden("gateway_keys", shown(json.loads(json.dumps(found))))


def test_the_names_of_metrics(gateway: Running) -> None:
    gateway.chat(ABOUT)
    gateway.ask("POST", "/v1/chat/completions", b"no JSON")  # counted by a reason
    until = time.monotonic() + 10  # answers are judged beside the requests
    while (
        b"drike_answers_total{" not in (text := ask(f"{gateway.admin}/metrics", "GET")[2])
        and time.monotonic() < until
    ):
        time.sleep(0.05)
    _, headers, text = ask(f"{gateway.admin}/metrics", "GET")
    lines = [
        line for line in text.decode().splitlines() if "_created" not in line
    ]  # which can be turned off
    described = [line for line in lines if line.startswith("#")]
    samples = {
        re.sub(r'="[^"]*"', "", line.rpartition(" ")[0])
        for line in lines
        if not line.startswith("#")
    }
    buckets = [
        one for line in lines for one in re.findall(r'overhead_seconds_bucket\{le="([^"]+)"', line)
    ]
    found = {
        "type": headers["content-type"], "described": described, "samples": sorted(samples), "buckets": buckets,
    }  # fmt: skip
    matches_golden("gateway_metrics", found)


def test_the_webhooks(gateway: Running, tmp_path: Path) -> None:
    litellm, agent = "/guardrail/beta/litellm_basic_guardrail_api", "/guardrail/request"
    asked: list[tuple[str, dict[str, object]]] = []
    for text in (ABOUT, OTHER):
        messages = [{"role": "system", "content": "Be brief."}, user(text)]
        asked += [
            (
                litellm,
                {
                    "texts": ["Be brief.", text],
                    "structured_messages": messages,
                    "input_type": "request",
                },
            ),
            (agent, {"body": {"messages": messages}}),
        ]
    asked += [
        (litellm, {"texts": [ABOUT], "input_type": "response"}),
        (
            agent.replace("request", "response"),
            {"body": {"choices": [{"message": {"content": ABOUT}}]}},
        ),
        (litellm, {}),
    ]

    def answered(gateway: Running) -> list[object]:
        found: list[object] = []
        for path, body in asked:
            status, headers, answer = gateway.ask("POST", path, json.dumps(body).encode())
            found.append([path, status, headers_of(headers), json.loads(answer)])
        return found

    found = {"on": answered(gateway)}
    enforced = replace(ENTRY, enforce=True)
    for name, (entry, options) in {
        "shadow": (ENTRY, {"mode": Mode.SHADOW}), "enforced": (enforced, {"gate": Failing()}),
    }.items():  # fmt: skip
        (tmp_path / name).mkdir()
        with running("http://127.0.0.1:9/v1", tmp_path / name, entry, **options) as other:  # type: ignore[arg-type]
            found[name] = answered(other)
    matches_golden("gateway_webhooks", shown(found))


def test_an_edited_model_decides_and_asks_as_it_did() -> None:
    """The same gate and prompts without a server."""
    edits = [entry.edit for entry in (ENTRY, CHAD)]
    model = ScriptedModel(lambda prompt: f"Answer {len(prompt)}")
    edited = drike.EditedModel(model, drike.FactPrompt(), edits, gate=drike.Named())
    queries = ["The capital of Peru is", "Peru borders", "The capital of Chad and Peru is", OTHER]
    matches_golden("edited_model", [[q, edited.ask(q), str(edited.explain(q))] for q in queries])


def test_what_a_served_model_is_asked(above: Recorded) -> None:
    """The requests to an API: chats and turns of a conversation."""
    address = f"openai:m@{above.url}"
    model = drike.load_model(address, api=drike.ApiOptions(no_cache=True, concurrency=1))
    begun = len(above.calls)
    edit = CHAD.edit
    prompt = drike.FactPrompt().prompts([edit], [edit.query])[0]
    reasoned = drike.EditCoT().prompts([edit], [edit.query])[0]
    model.generate([prompt.text])
    model.generate([reasoned.text], 32, None)
    calls = [[one.method, one.path, json.loads(one.body)] for one in above.calls[begun:]]
    matches_golden("served_requests", shown(calls))
