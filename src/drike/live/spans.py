"""Spans in the traces of a program that decides on edits itself, without a gateway."""

from __future__ import annotations

from collections.abc import Callable

from opentelemetry import trace

from drike.conversations.following import Followed
from drike.live.trace_values import DECISION, decision_values


def span_of_decision(work: Callable[[], Followed]) -> Followed:
    """What work returns, done within a span that says what was decided."""
    with trace.get_tracer("drike").start_as_current_span(DECISION) as span:
        followed = work()
        span.set_attributes(dict(decision_values(followed.decision, followed.edits)))
        return followed
