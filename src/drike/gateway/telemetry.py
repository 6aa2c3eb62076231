"""Sends traces of requests to a collector, by OpenTelemetry (docs/how-to/trace-requests.md).

A request has three spans: the gateway's part, the decision within it, and the model's call, whose
attributes are those of OpenTelemetry's GenAI conventions. They end once the answer is judged, but
with the time at which it had passed. All sending is done in a thread of its own: a collector that
hangs or fails delays no request.
"""

from __future__ import annotations

import json
import logging
import os
import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any
from urllib.parse import urlsplit

from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import SERVICE_NAME, Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult
from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, set_span_in_context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from starlette.datastructures import MutableHeaders

from drike.answers.statements import Stated
from drike.conversations.turns import Api, UnreadError
from drike.errors import UsageError
from drike.gateway.answer_details import AnswerDetails
from drike.gateway.calls import UpstreamCall, header_text
from drike.gateway.edited import EditedRequest
from drike.gateway.options import GatewayOptions
from drike.gateway.redaction import redacted
from drike.gateway.requests import APIS, COUNTS_TOKENS, read_request
from drike.gateway.traces import NO_TRACE, RequestTrace, Traces
from drike.live.trace_values import DECISION, TraceValue, decision_values, edit_name, model_in
from drike.models.served.addresses import has_more_than_a_path, is_exposed, is_http
from drike.stores.inbox import LONGEST
from drike.support.records import encodable

_LOG = logging.getLogger(__name__)
_PATH = "/v1/traces"
_SECONDS_TO_SEND = 5.0  # a batch, with all tries
_SECONDS_TO_CLOSE = 3.0
_LONGEST_BODY = 64 << 10  # bytes of a request whose texts are traced
_MOST_HELD = 8 << 20  # bytes of such requests that wait for their answers
_JUDGED = frozenset(Stated)
_PROVIDERS = {
    "api.openai.com": "openai",
    "api.anthropic.com": "anthropic",
    "generativelanguage.googleapis.com": "gcp.gemini",
    "api.mistral.ai": "mistral_ai",
    "api.deepseek.com": "deepseek",
    "api.groq.com": "groq",
    "api.x.ai": "x_ai",
    "api.perplexity.ai": "perplexity",
    "api.cohere.com": "cohere",
}
_AZURE = ".openai.azure.com"
_PARAMETERS = {  # of requests, by the names that the conventions have for them
    "max_tokens": ("gen_ai.request.max_tokens", int),
    "max_completion_tokens": ("gen_ai.request.max_tokens", int),
    "max_output_tokens": ("gen_ai.request.max_tokens", int),
    "temperature": ("gen_ai.request.temperature", float),
    "top_p": ("gen_ai.request.top_p", float),
    "seed": ("gen_ai.request.seed", int),
    "stream": ("gen_ai.request.stream", bool),
}
_CONTEXT = TraceContextTextMapPropagator()


def opened_traces(options: GatewayOptions) -> Traces:
    """What sends traces to the collector of the options. Raises UsageError."""
    assert options.traces  # noqa: S101 - the caller has looked
    endpoint = traces_endpoint(options.traces, options.allow_http)
    logging.getLogger("opentelemetry.exporter").setLevel(logging.CRITICAL)  # `_Sender` says it once
    sender = _Sender(OTLPSpanExporter(endpoint=endpoint, timeout=_SECONDS_TO_SEND))
    return TelemetryTraces(
        sender, options.upstream, texts=options.trace_texts, redact=options.redact
    )


def traces_endpoint(address: str, allow_http: str | None = None) -> str:
    """Where a collector takes traces: below its address, unless that says so itself.

    Raises UsageError for an address that is none, that may hold a key, or to which traces would go
    unencrypted.
    """
    try:
        url = urlsplit(address)
        is_address = is_http(url) and url.port != 0
    except ValueError:
        is_address = False
    if not is_address:
        raise UsageError("--traces is no address of a collector: give it as https://host")
    if has_more_than_a_path(url):
        raise UsageError("--traces has more than a path: put keys into $OTEL_EXPORTER_OTLP_HEADERS")
    if is_exposed(url, allow_http):
        raise UsageError(
            f"http://{url.hostname} is not encrypted: use https, or --allow-http {url.hostname} "
            "in your own network"
        )
    base = address.rstrip("/")
    return base if base.endswith(_PATH) else base + _PATH


class TelemetryTraces(Traces):
    """Traces of requests as spans.

    exporter: takes them, in a thread of its own. upstream: the address of the API; None for a model
    of this process. texts: whether the texts of requests and answers are in them, too. redact: hide
    what may be private in these.
    """

    def __init__(
        self,
        exporter: SpanExporter,
        upstream: str | None,
        *,
        texts: bool = False,
        redact: bool = True,
    ) -> None:
        name = os.environ.get("OTEL_SERVICE_NAME") or "drike"
        self._provider = TracerProvider(
            resource=Resource.create({SERVICE_NAME: name}), shutdown_on_exit=False
        )
        self._processor = BatchSpanProcessor(exporter, schedule_delay_millis=1000)
        self._provider.add_span_processor(self._processor)
        self.tracer: Tracer = self._provider.get_tracer("drike")
        self.upstream = urlsplit(upstream) if upstream else None
        self.texts = texts
        self.redact = redact
        self.held = 0  # bytes of requests whose texts wait for their answers
        self._holding = threading.Lock()  # requests come in one thread, and are judged in another

    def begin(self, call: UpstreamCall, path: str, began: float) -> RequestTrace:
        """As `Traces` says; requests whose texts are not read have none."""
        api = APIS.get(call.endpoint)
        is_guardrail = not path.endswith(call.endpoint)
        if (api is None and not is_guardrail) or call.endpoint in COUNTS_TOKENS:
            return NO_TRACE
        return _Spans(self, call, path, api or Api.CHAT, began)

    def hold(self, size: int) -> bool:
        """Whether there is room for so many bytes of a request, which then are held."""
        with self._holding:
            if self.held + size > _MOST_HELD:
                return False
            self.held += size
            return True

    def release(self, size: int) -> None:
        """Let go of so many bytes."""
        with self._holding:
            self.held -= size

    def close(self) -> None:
        """As `Traces` says; a collector that hangs is left behind."""
        closing = threading.Thread(target=self._provider.shutdown, daemon=True)
        closing.start()
        closing.join(_SECONDS_TO_CLOSE)


class _Spans(RequestTrace):
    """The spans of a request. What judges answers ends them from another thread."""

    reads = True

    def __init__(
        self, traces: TelemetryTraces, call: UpstreamCall, path: str, api: Api, began: float
    ) -> None:
        self._traces = traces
        self._api = api
        self._details = AnswerDetails()
        self._lock = threading.Lock()
        self._body = b""  # of the request as it was sent, where its texts are traced
        self._asked: tuple[str, ...] = ()
        self._sent_at = 0
        self._answered_at = 0
        self._ended_at = 0
        self._waits = False
        self._is_done = False
        self._streams = False
        self._model_call: Span | None = None
        carrier = {
            name.decode("latin-1").lower(): header_text(value) for name, value in call.headers
        }
        self._began = time.time_ns() - round(1e9 * (time.perf_counter() - began))
        self._request = traces.tracer.start_span(
            f"{call.method} {path}",
            _CONTEXT.extract(carrier),
            SpanKind.SERVER,
            {"http.request.method": call.method, "http.route": path, "url.path": path},
            start_time=self._began,
        )

    def decided(self, edited: EditedRequest) -> None:
        """As `RequestTrace` says."""
        now = time.time_ns()
        values = decision_values(edited.decision, edited.edits)
        decision = self._traces.tracer.start_span(
            DECISION,
            set_span_in_context(self._request),
            attributes=dict(values),
            start_time=self._began,
        )
        decision.end(now)
        self._asked = tuple(map(edit_name, edited.asked))
        self._request.set_attributes(
            {
                "drike.mode": str(edited.mode),
                "drike.edits": values["drike.edits"],
                "drike.asked": self._asked,
                "drike.conflicts": [str(edit_id) for edit_id in edited.contradicted],
                "drike.tokens": edited.tokens,
                "drike.overhead_ms": (now - self._began) / 1e6,
            }
        )

    def sent(self, call: UpstreamCall, edited: EditedRequest) -> UpstreamCall:
        """As `RequestTrace` says."""
        model = model_in(edited.model)
        values = self._values_of_call(edited)
        operation = values["gen_ai.operation.name"]
        self._sent_at = time.time_ns()
        self._model_call = self._traces.tracer.start_span(
            f"{operation} {model}" if model else str(operation),
            set_span_in_context(self._request),
            SpanKind.CLIENT if self._traces.upstream else SpanKind.INTERNAL,
            values,
            start_time=self._sent_at,
        )
        if self._traces.texts and self._model_call.is_recording():
            self._hold(edited.body)
        headers = MutableHeaders(raw=list(call.headers))
        carrier: dict[str, str] = {}
        _CONTEXT.inject(carrier, set_span_in_context(self._model_call))
        for name, value in carrier.items():
            headers[name] = value
        return UpstreamCall(
            call.method, call.path, headers.raw, call.body, call.tenant, call.unedited
        )

    def _values_of_call(self, edited: EditedRequest) -> dict[str, TraceValue]:
        """What the conventions want to be known of a model's call."""
        is_completion = self._api is Api.COMPLETIONS
        values: dict[str, TraceValue] = {
            "gen_ai.operation.name": "text_completion" if is_completion else "chat",
            "gen_ai.provider.name": _provider(self._traces.upstream, self._api),
        }
        model = model_in(edited.model)
        if model:
            values["gen_ai.request.model"] = model
        if self._traces.upstream:
            url = self._traces.upstream
            values["server.address"] = url.hostname or ""
            values["server.port"] = url.port or (443 if url.scheme == "https" else 80)
        given = edited.request.values if edited.request else {}
        self._streams = given.get("stream") is True
        for name, (attribute, kind) in _PARAMETERS.items():
            value = _as_kind(given.get(name), kind)
            if value is not None:
                values[attribute] = value
        return values

    def _hold(self, body: bytes) -> None:
        """Keep a request's body until its answer is judged, if there is room for it."""
        if len(body) <= _LONGEST_BODY and self._traces.hold(len(body)):
            self._body = body

    def first_chunk(self) -> None:
        """As `RequestTrace` says; the conventions want it of streams alone."""
        if self._model_call and self._streams:
            seconds = (time.time_ns() - self._sent_at) / 1e9
            self._model_call.set_attribute("gen_ai.response.time_to_first_chunk", seconds)

    def take(self, values: object) -> None:
        """As `RequestTrace` says."""
        self._details.take(values)

    def judged(self, text: str | None, outcomes: Sequence[str]) -> None:
        """As `RequestTrace` says."""
        model_call = self._model_call
        if model_call:
            model_call.set_attributes(self._values_of_answer(text))
            for name, outcome in zip(self._asked, outcomes, strict=False):
                result = {
                    "gen_ai.evaluation.name": f"drike.states.{name}",
                    "gen_ai.evaluation.score.label": str(outcome),
                }
                model_call.add_event("gen_ai.evaluation.result", result, self._answered_at or None)
        if outcomes:
            self._request.set_attribute("drike.outcomes", list(map(str, outcomes)))
        if outcomes and _JUDGED.issuperset(outcomes):
            is_heeded = all(outcome == Stated.NEW for outcome in outcomes)
            self._request.set_attribute("drike.heeded", is_heeded)
        with self._lock:
            self._waits = False
        self._end_if_done()

    def answered(self, *, waits: bool) -> None:
        """As `RequestTrace` says."""
        with self._lock:
            self._answered_at = time.time_ns()
            self._waits = waits

    def ended(self, status: int, outcome: str) -> None:
        """As `RequestTrace` says."""
        self._request.set_attributes({"http.response.status_code": status, "drike.scope": outcome})
        spans = [self._request]
        if self._model_call:
            spans.append(self._model_call)
        if status >= 400:
            for span in spans:
                span.set_attribute("error.type", str(status))
        if status >= 500:
            self._request.set_status(Status(StatusCode.ERROR))
        if status >= 400 and self._model_call:
            self._model_call.set_status(Status(StatusCode.ERROR))
        with self._lock:
            self._ended_at = time.time_ns()
        self._end_if_done()

    def _end_if_done(self) -> None:
        """End the spans once the request is answered and, if it is to be, its answer judged."""
        with self._lock:
            if self._waits or self._is_done or not self._ended_at:
                return
            self._is_done = True
        if self._model_call:
            self._model_call.end(self._answered_at or self._ended_at)
        self._request.end(self._ended_at)
        self._traces.release(len(self._body))
        self._body = b""

    def _values_of_answer(self, text: str | None) -> dict[str, TraceValue]:
        details = self._details
        values: dict[str, TraceValue | None] = {
            "gen_ai.response.id": details.id,
            "gen_ai.response.model": details.model,
            "gen_ai.response.finish_reasons": details.finish_reasons or None,
            "gen_ai.usage.input_tokens": details.input_tokens,
            "gen_ai.usage.output_tokens": details.output_tokens,
        }
        if self._body:
            values["gen_ai.input.messages"] = self._messages_sent()
        if self._traces.texts and text is not None:
            reason = details.finish_reasons[0] if details.finish_reasons else "stop"
            message = {**self._message("assistant", text), "finish_reason": reason}
            values["gen_ai.output.messages"] = json.dumps([message])
        return {name: value for name, value in values.items() if value is not None}

    def _messages_sent(self) -> str | None:
        """The turns of the request as it was sent, in the form of the conventions."""
        try:
            turns = read_request(self._api, self._body).conversation.turns
        except (ValueError, UnreadError):  # compressed, or not read
            return None
        return json.dumps([self._message(str(turn.speaker), turn.said) for turn in turns])

    def _message(self, role: str, text: str) -> Mapping[str, Any]:
        shown = redacted(text, LONGEST) if self._traces.redact else text
        return {"role": role, "parts": [{"type": "text", "content": encodable(shown)}]}


class _Sender(SpanExporter):
    """Sends spans by another exporter, and says once that they cannot be sent."""

    def __init__(self, exporter: SpanExporter) -> None:
        self._exporter = exporter
        self._has_failed = False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send spans. Nothing is raised."""
        try:
            result = self._exporter.export(spans)
        except Exception:  # of any kind, as nothing may end the sending
            result = SpanExportResult.FAILURE
        has_failed = result is not SpanExportResult.SUCCESS
        if has_failed and not self._has_failed:
            _LOG.warning("traces cannot be sent, and are lost: see to the collector of --traces")
        self._has_failed = has_failed
        return result

    def shutdown(self) -> None:
        """Stop sending."""
        self._exporter.shutdown()


def _as_kind(value: object, kind: type[int | float]) -> TraceValue | None:
    """A parameter of a request as a trace takes it; None for any other value."""
    if kind is float and type(value) is int:
        try:
            return float(value)
        except OverflowError:  # a client may write any number
            return None
    if isinstance(value, kind) and type(value) is kind:  # a bool is an int, too
        return value
    return None


def _provider(upstream: Any, api: Api) -> str:
    """Who runs the model, as the conventions call them; for an unknown host, whose API it has."""
    if upstream is None:
        return "drike"
    host = str(upstream.hostname or "")
    if host.endswith(_AZURE):
        return "azure.ai.openai"
    return _PROVIDERS.get(host, "anthropic" if api is Api.MESSAGES else "openai")
