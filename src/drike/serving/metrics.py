"""What a gateway counts, for Prometheus. No label holds a tenant, an edit or anything of a request's content."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)


class Metrics:
    """Counters of one gateway, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()

        def counter(name: str, counted: str, *labels: str) -> Counter:
            return Counter(name, counted, labels, registry=registry)

        self._requests = counter("drike_requests", "Requests by status and by what the gate decided", "status", "scope")
        text = "Time a request spent in the gateway before it was passed on"
        self._overhead = Histogram("drike_overhead_seconds", text, buckets=_SECONDS, registry=registry)
        text = "Questions to the upstream whether an edit is concerned, by its answer"
        self.questions = counter("drike_questions", text, "answer")
        self.unread = counter("drike_unread", "Bodies whose texts could not be read, by why", "reason")
        text = "Texts of edited requests in which an imitation of the block of facts was defused"
        self.defused = counter("drike_defused", text)
        text = "Tool results and documents that state the old object of an edit"
        self.conflicts = counter("drike_conflicts", text)
        text = "Edits that requests concern, by what the answer states of each, and whether they were on"
        self.answers = counter("drike_answers", text, "stated", "mode")
        self.in_flight = Gauge("drike_in_flight", "Requests in flight", registry=registry)
        self.edits = Gauge("drike_edits_in_force", "Edits in force, of all tenants", registry=registry)
        self.proposed = Gauge("drike_edits_proposed", "Proposals that wait for approval", registry=registry)
        self.due = Gauge("drike_edits_due", "Edits in use whose review is due", registry=registry)

    def count(self, status: int, scope: str, overhead: float | None) -> None:
        """Count a request that ends with this status. overhead: in seconds, if it was passed on."""
        self._requests.labels(str(status), scope).inc()
        if overhead is not None:
            self._overhead.observe(overhead)

    def text(self) -> bytes:
        """All metrics, as Prometheus reads them."""
        return generate_latest(self.registry)
