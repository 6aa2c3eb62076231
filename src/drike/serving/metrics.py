"""What a gateway counts, for Prometheus. No label holds a tenant, an edit or anything of a request's content."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)


class Metrics:
    """Counters of one gateway, in a registry of their own."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "drike_requests", "Requests by status and by what the gate decided", ["status", "scope"],
            registry=self.registry,
        )  # fmt: skip
        self._overhead = Histogram(
            "drike_overhead_seconds", "Time a request spent in the gateway before it was passed on",
            buckets=_SECONDS, registry=self.registry,
        )  # fmt: skip
        self.questions = Counter(
            "drike_questions", "Questions to the upstream whether an edit is concerned, by its answer", ["answer"],
            registry=self.registry,
        )  # fmt: skip
        self.unread = Counter(
            "drike_unread", "Bodies whose texts could not be read, by why", ["reason"], registry=self.registry
        )
        self.defused = Counter(
            "drike_defused", "Texts of edited requests in which an imitation of the block of facts was defused",
            registry=self.registry,
        )  # fmt: skip
        self.in_flight = Gauge("drike_in_flight", "Requests in flight", registry=self.registry)
        self.edits = Gauge("drike_edits_in_force", "Edits in force, of all tenants", registry=self.registry)

    def count(self, status: int, scope: str, overhead: float | None) -> None:
        """Count a request that ends with this status. overhead: in seconds, if it was passed on."""
        self._requests.labels(str(status), scope).inc()
        if overhead is not None:
            self._overhead.observe(overhead)

    def text(self) -> bytes:
        """All metrics, as Prometheus reads them."""
        return generate_latest(self.registry)
