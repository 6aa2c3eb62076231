"""Traces of requests, as a collector gets them; and what requests are spared where it fails."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("opentelemetry.exporter.otlp.proto.http")

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from drike.errors import UsageError
from drike.gateway.options import GatewayOptions
from drike.gateway.telemetry import TelemetryTraces, _Sender, opened_traces, traces_endpoint
from drike.live.corrections import Corrections
from drike.stores.opening import open_store
from tests.fakes.gateways import ENTRY, Running, running
from tests.fakes.upstreams import RawHandler, Received, Recorded, upstream
from tests.fakes.waiting import wait_until

PARENT = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
QUESTION = "The capital of Peru is"
ANSWER = {
    "id": "chatcmpl-7",
    "model": "gpt-5-2026",
    "choices": [{"finish_reason": "stop", "message": {"content": "It is Oslo."}}],
    "usage": {"prompt_tokens": 90, "completion_tokens": 4},
}


def answering(value: object, status: int = 200) -> Callable[[RawHandler, Received], None]:
    def respond(handler: RawHandler, call: Received) -> None:
        handler.reply(status, json.dumps(value).encode(), Content_Type="application/json")

    return respond


class Collector:
    """Spans that arrived, by name: attributes, and ids as hex."""

    def __init__(self) -> None:
        self.spans: list[dict[str, Any]] = []

    def __call__(self, handler: RawHandler, call: Received) -> None:
        sent = ExportTraceServiceRequest.FromString(call.body)
        for resource in sent.resource_spans:
            for scope in resource.scope_spans:
                self.spans += [read_span(span) for span in scope.spans]
        handler.reply(200, b"", Content_Type="application/x-protobuf")

    def named(self, name: str, traces: TelemetryTraces) -> dict[str, Any]:
        def has_come() -> bool:
            traces._provider.force_flush()
            return any(span["name"] == name for span in self.spans)

        wait_until(has_come)
        return next(span for span in self.spans if span["name"] == name)


def read_span(span: Any) -> dict[str, Any]:
    return {
        "name": span.name,
        "kind": span.kind,
        "trace": span.trace_id.hex(),
        "id": span.span_id.hex(),
        "parent": span.parent_span_id.hex(),
        "seconds": (span.end_time_unix_nano - span.start_time_unix_nano) / 1e9,
        "status": span.status.code,
        "events": [(event.name, values_of(event.attributes)) for event in span.events],
        **values_of(span.attributes),
    }


def values_of(attributes: Any) -> dict[str, Any]:
    def value_of(value: Any) -> Any:
        kind = value.WhichOneof("value")
        if kind == "array_value":
            return [value_of(inner) for inner in value.array_value.values]
        return getattr(value, kind)

    return {attribute.key: value_of(attribute.value) for attribute in attributes}


@contextmanager
def traced(
    above: str, place: Path, exporter: Any, **options: Any
) -> Iterator[tuple[Running, TelemetryTraces]]:
    traces = TelemetryTraces(exporter, above, **options)
    with running(above, place, replace(ENTRY, target_true="Lima")) as gateway:
        gateway.gateway.traces = traces
        try:
            yield gateway, traces
        finally:
            traces.close()


@pytest.fixture
def collector() -> Iterator[tuple[Collector, str]]:
    gathered = Collector()
    with upstream(gathered) as receiving:
        yield gathered, receiving.url.removesuffix("/v1") + "/v1/traces"


def test_a_request_arrives_as_three_spans_without_a_text(
    collector: tuple[Collector, str], tmp_path: Path
) -> None:
    gathered, endpoint = collector
    with upstream(answering(ANSWER)) as above:
        with traced(above.url, tmp_path, OTLPSpanExporter(endpoint=endpoint)) as (gateway, traces):
            body = {
                "model": "gpt-5",
                "max_tokens": 9,
                "messages": [{"role": "user", "content": QUESTION}],
            }
            status, _, _ = gateway.ask(
                "POST", "/v1/chat/completions", json.dumps(body).encode(), traceparent=PARENT
            )
            request = gathered.named("POST /v1/chat/completions", traces)
            decision = gathered.named("drike.decide", traces)
            call = gathered.named("chat gpt-5", traces)
        [passed] = above.calls[-1].header("traceparent")

    assert status == 200
    assert {span["trace"] for span in (request, decision, call)} == {PARENT.split("-")[1]}
    assert request["parent"] == PARENT.split("-")[2]
    assert decision["parent"] == call["parent"] == request["id"]
    assert passed == f"00-{call['trace']}-{call['id']}-01"  # the upstream's parent is the call

    assert request["drike.edits"] == ["1@1"]
    assert request["drike.scope"] == "fired"
    assert request["drike.outcomes"] == ["new"] and request["drike.heeded"] is True
    assert request["http.response.status_code"] == 200
    assert decision["drike.candidates"] == ["1@1"]
    assert decision["drike.candidates.probability"] == [1.0]

    expected = {
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": "openai",
        "gen_ai.request.model": "gpt-5",
        "gen_ai.request.max_tokens": 9,
        "gen_ai.response.id": "chatcmpl-7",
        "gen_ai.response.model": "gpt-5-2026",
        "gen_ai.response.finish_reasons": ["stop"],
        "gen_ai.usage.input_tokens": 90,
        "gen_ai.usage.output_tokens": 4,
        "server.address": "127.0.0.1",
    }
    assert {name: call[name] for name in expected} == expected
    assert "gen_ai.response.time_to_first_chunk" not in call  # no stream was asked for
    assert call["kind"] == 3  # CLIENT
    assert call["events"] == [
        (
            "gen_ai.evaluation.result",
            {"gen_ai.evaluation.name": "drike.states.1@1", "gen_ai.evaluation.score.label": "new"},
        )
    ]
    everything = json.dumps(gathered.spans)
    assert "Peru" not in everything and "Oslo" not in everything


@pytest.mark.parametrize(
    ("answer", "outcome", "heeded"),
    [
        ("It is Lima.", "old", False),
        pytest.param("I cannot say.", "refused", False, marks=pytest.mark.slow),
    ],
)
def test_an_edit_that_is_not_heeded_is_seen(
    answer: str, outcome: str, heeded: bool, tmp_path: Path
) -> None:
    spans = InMemorySpanExporter()
    said = {"choices": [{"message": {"content": answer}}]}
    with (
        upstream(answering(said)) as above,
        traced(above.url, tmp_path, spans) as (gateway, traces),
    ):
        gateway.chat(QUESTION)
        [request] = finished(spans, traces, "POST")
    assert (request["drike.outcomes"], request["drike.heeded"]) == ((outcome,), heeded)


def finished(spans: InMemorySpanExporter, traces: TelemetryTraces, name: str) -> list[Any]:
    """The attributes of finished spans whose names begin so."""

    def found() -> list[Any]:
        traces._provider.force_flush()
        return [span for span in spans.get_finished_spans() if span.name.startswith(name)]

    wait_until(lambda: bool(found()))
    return [
        dict(span.attributes) | {"events": span.events, "status": span.status} for span in found()
    ]


@pytest.mark.slow
def test_texts_come_where_they_are_asked_for_and_are_redacted(tmp_path: Path) -> None:
    spans = InMemorySpanExporter()
    with (
        upstream(answering(ANSWER)) as above,
        traced(above.url, tmp_path, spans, texts=True) as (gateway, traces),
    ):
        gateway.chat(f"I am ann@example.org. {QUESTION}", model="gpt-5")
        [call] = finished(spans, traces, "chat gpt-5")
        assert traces.held == 0
    [sent] = json.loads(call["gen_ai.input.messages"])
    assert sent["role"] == "user"
    assert "The capital of Peru is" in sent["parts"][0]["content"]
    assert "Oslo" in sent["parts"][0]["content"]  # the request as the model got it
    assert "ann@example.org" not in call["gen_ai.input.messages"]
    [said] = json.loads(call["gen_ai.output.messages"])
    assert said["parts"] == [{"type": "text", "content": "It is Oslo."}]
    assert said["finish_reason"] == "stop"


STREAM = [
    {"id": "c-1", "model": "m-1", "choices": [{"delta": {"content": "It is "}}]},
    {
        "id": "c-1",
        "model": "m-1",
        "choices": [{"delta": {"content": "Oslo."}, "finish_reason": "stop"}],
    },
    {"id": "c-1", "choices": [], "usage": {"prompt_tokens": 5, "completion_tokens": 3}},
]
MESSAGES = [
    {
        "type": "message_start",
        "message": {"id": "msg_1", "model": "m-2", "usage": {"input_tokens": 7}},
    },
    {"type": "content_block_delta", "delta": {"type": "text_delta", "text": "It is Oslo."}},
    {"type": "message_delta", "delta": {"stop_reason": "end_turn"}, "usage": {"output_tokens": 5}},
    {"type": "message_stop"},
]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("path", "events", "expected"),
    [
        ("/v1/chat/completions", STREAM, ("c-1", "m-1", ("stop",), 5, 3, "openai")),
        ("/v1/messages", MESSAGES, ("msg_1", "m-2", ("end_turn",), 7, 5, "anthropic")),
    ],
)
def test_streams_say_what_answers_in_one_piece_say(
    path: str, events: list[Any], expected: tuple[Any, ...], tmp_path: Path
) -> None:
    raw = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in events)

    def respond(handler: RawHandler, call: Received) -> None:
        handler.reply(200, raw, Content_Type="text/event-stream")

    spans = InMemorySpanExporter()
    body = {
        "model": "m",
        "stream": True,
        "max_tokens": 5,
        "messages": [{"role": "user", "content": QUESTION}],
    }
    with upstream(respond) as above, traced(above.url, tmp_path, spans) as (gateway, traces):
        gateway.ask("POST", path, json.dumps(body).encode())
        [call] = finished(spans, traces, "chat m")
        [request] = finished(spans, traces, "POST")
    names = ("response.id", "response.model", "response.finish_reasons", "usage.input_tokens",
             "usage.output_tokens", "provider.name")  # fmt: skip
    assert tuple(call[f"gen_ai.{name}"] for name in names) == expected
    assert call["gen_ai.request.stream"] is True
    assert call["gen_ai.response.time_to_first_chunk"] > 0
    assert request["drike.heeded"] is True


@pytest.mark.slow
@pytest.mark.parametrize("value", [10**400, -(10**400), 2**70, True, "9", None, [1], {}])
def test_no_number_of_a_request_keeps_it_or_its_trace_from_passing(
    value: object, collector: tuple[Collector, str], tmp_path: Path
) -> None:
    gathered, endpoint = collector
    exporter = OTLPSpanExporter(endpoint=endpoint)
    names = ("max_tokens", "temperature", "top_p", "seed")
    body = {
        "model": "gpt-5",
        "messages": [{"role": "user", "content": QUESTION}],
        **dict.fromkeys(names, value),
    }
    with (
        upstream(answering(ANSWER)) as above,
        traced(above.url, tmp_path, exporter, texts=True) as (gateway, traces),
    ):
        status, _, _ = gateway.ask("POST", "/v1/chat/completions", json.dumps(body).encode())
        call = gathered.named("chat gpt-5", traces)
        assert traces.held == 0
    assert status == 200 and json.loads(above.calls[-1].body)["seed"] == value
    given = {name.rpartition(".")[2] for name in call if name.startswith("gen_ai.request.")}
    assert given == ({"model", "temperature", "top_p"} if value == 2**70 else {"model"})


def test_failures_are_errors_of_the_right_span(tmp_path: Path) -> None:
    spans = InMemorySpanExporter()
    refusing = answering({"error": {"message": "no"}}, 429)
    with upstream(refusing) as above, traced(above.url, tmp_path, spans) as (gateway, traces):
        gateway.chat("Hello")
        [call] = finished(spans, traces, "chat")
        [request] = finished(spans, traces, "POST")
    assert call["error.type"] == request["error.type"] == "429"
    assert call["status"].status_code.name == "ERROR"
    assert request["status"].status_code.name == "UNSET"  # as of a server that is asked too much
    assert request["drike.scope"] == "abstained" and request["drike.edits"] == ()


@pytest.mark.slow
def test_what_looks_like_a_text_is_no_models_name(tmp_path: Path) -> None:
    spans = InMemorySpanExporter()
    with (
        upstream(answering(ANSWER)) as above,
        traced(above.url, tmp_path, spans) as (gateway, traces),
    ):
        gateway.chat("Hello", model="call me on 0171 5550")
        [call] = finished(spans, traces, "chat")
    assert "0171" not in json.dumps(str(call))


@pytest.mark.slow
def test_a_collector_that_hangs_delays_no_request_and_no_end(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:  # it accepts, and never answers
        port = silent.getsockname()[1]
        exporter = _Sender(OTLPSpanExporter(endpoint=f"http://127.0.0.1:{port}/v1/traces"))
        with upstream(answering(ANSWER)) as above:
            traces = TelemetryTraces(exporter, above.url)
            with running(above.url, tmp_path, ENTRY) as gateway:
                gateway.chat("Hello")
                gateway.gateway.traces = traces
                began = time.monotonic()
                statuses = [gateway.chat(QUESTION)[0] for _ in range(20)]
                asked = time.monotonic() - began
        closing = time.monotonic()
        traces.close()
        closed = time.monotonic() - closing
    assert statuses == [200] * 20
    assert asked < 5 and closed < 5


def test_a_collector_that_fails_is_complained_of_once(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    class Failing:
        def export(self, spans: Any) -> Any:
            raise ConnectionError("http://user:secret@collector")

        def shutdown(self) -> None:
            return

    sender = _Sender(Failing())
    for _ in range(3):
        sender.export([])
    [line] = [record for record in caplog.records if "traces" in record.getMessage()]
    assert "secret" not in line.getMessage()


def test_a_request_without_traces_keeps_its_traceparent(gateway: Running, above: Recorded) -> None:
    gateway.ask("POST", "/v1/chat/completions", b'{"messages": []}', traceparent=PARENT)
    assert above.calls[-1].header("traceparent") == [PARENT]


@pytest.mark.parametrize(
    ("address", "endpoint"),
    [
        ("http://127.0.0.1:4318", "http://127.0.0.1:4318/v1/traces"),
        ("https://host/api/public/otel/", "https://host/api/public/otel/v1/traces"),
        ("https://host/v1/traces", "https://host/v1/traces"),
    ],
)
def test_a_collectors_address_may_be_given_with_its_path(address: str, endpoint: str) -> None:
    assert traces_endpoint(address) == endpoint


@pytest.mark.parametrize(
    ("address", "sentence"),
    [
        ("collector:4318", "no address"),
        ("https://user:key@host", "OTEL_EXPORTER_OTLP_HEADERS"),
        ("https://host/?key=1", "OTEL_EXPORTER_OTLP_HEADERS"),
        ("http://collector", "not encrypted"),
        ("https://host:port", "no address"),
    ],
)
def test_other_addresses_are_refused_without_showing_a_key(address: str, sentence: str) -> None:
    with pytest.raises(UsageError, match=sentence) as refusal:
        traces_endpoint(address)
    assert "user:key" not in str(refusal.value)


def test_an_own_network_may_be_allowed() -> None:
    options = GatewayOptions(traces="http://collector", allow_http="collector")
    assert traces_endpoint("http://collector", options.allow_http).startswith("http://collector/")
    traces = opened_traces(options)
    traces.close()
    assert "collector" not in repr(replace(options, allow_http=None))


@pytest.mark.slow  # it reads the encoder
def test_corrections_trace_decisions_within_the_programs_own_span(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spans = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(spans))
    monkeypatch.setattr("opentelemetry.trace.get_tracer", provider.get_tracer)
    with closing(open_store(tmp_path / "edits.db")) as store:
        store.put(ENTRY)
    request = {"messages": [{"role": "user", "content": QUESTION}]}
    with (
        Corrections(tmp_path / "edits.db", traces=True) as edits,
        provider.get_tracer("app").start_as_current_span("work") as work,
    ):
        corrected = edits.apply(request)
    [decision] = [span for span in spans.get_finished_spans() if span.name == "drike.decide"]
    assert decision.parent.span_id == work.get_span_context().span_id
    assert decision.attributes["drike.edits"] == ("1@1",)
    assert corrected.edits[0].id == 1


@pytest.mark.slow
def test_nothing_of_it_is_imported_where_it_is_off() -> None:
    code = (
        "import sys, drike.gateway.start, drike.cli.serve, drike.live.corrections; "
        "sys.exit(any(name.startswith('opentelemetry') for name in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
