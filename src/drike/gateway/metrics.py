"""What a gateway counts, for Prometheus."""

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

_OVERHEAD_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 1.0)  # seconds


class Metrics:
    """The counters of a gateway.

    No label holds a tenant, an edit or anything of a request's content.
    """

    def __init__(self) -> None:
        registry = CollectorRegistry()
        self.registry = registry
        self.requests = Counter(
            "drike_requests",
            "Requests by status and by what the gate decided",
            ["status", "scope"],
            registry=registry,
        )
        self.overhead = Histogram(
            "drike_overhead_seconds",
            "Time a request spent in the gateway before it was passed on",
            buckets=_OVERHEAD_BUCKETS,
            registry=registry,
        )
        self.unread = Counter(
            "drike_unread",
            "Bodies whose texts could not be read, by why",
            ["reason"],
            registry=registry,
        )
        self.defused = Counter(
            "drike_defused",
            "Texts of edited requests in which an imitation of the block of facts was defused",
            registry=registry,
        )
        self.conflicts = Counter(
            "drike_conflicts",
            "Tool results and documents that state the old object of an edit",
            registry=registry,
        )
        self.answers = Counter(
            "drike_answers",
            "Edits that requests concern, by what the answer states of each, and whether "
            "they were on",
            ["stated", "mode"],
            registry=registry,
        )
        self.in_flight = Gauge("drike_in_flight", "Requests in flight", registry=registry)
        self.edits = Gauge(
            "drike_edits_in_force", "Edits in force, of all tenants", registry=registry
        )
        self.proposed = Gauge(
            "drike_edits_proposed", "Proposals that wait for approval", registry=registry
        )
        self.due = Gauge("drike_edits_due", "Edits in use whose review is due", registry=registry)
