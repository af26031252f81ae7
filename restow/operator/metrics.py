"""The operator's metrics in addition to those of its webhook: controllers, migrations, leadership."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

from restow.kube import ControllerEvent, ControllerEventType, ElectionEvent
from restow.kube.clockcheck import ClockCheck
from restow.kube.listwatch import Key
from restow.migrator.operate.metrics import MigrationMetrics

_MIGRATOR: Final = "migrator"
_BUCKETS: Final = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 30.0)


class OperatorMetrics:
    """Counts what the hooks report. No label has values that a user of the cluster can choose."""

    def __init__(self, clocks: ClockCheck) -> None:
        self.registry = registry = CollectorRegistry()
        """The registry, to which callers may add their own metrics."""
        self.migration = MigrationMetrics(registry)
        """The metrics of the migrator, for use as its hook."""
        self._seen: set[str] = set()
        self._reconciles = Counter(
            "restow_controller_reconciles",
            "Reconciles by how they ended.",
            ("controller", "result"),
            registry=registry,
        )
        self._seconds = Histogram(
            "restow_controller_reconcile_seconds",
            "Time that a reconcile took.",
            ("controller",),
            buckets=_BUCKETS,
            registry=registry,
        )
        self._queued = Gauge(
            "restow_controller_queued", "Objects that wait, due now or later.", ("controller",), registry=registry
        )
        self._running = Gauge(
            "restow_controller_running", "Objects that are being reconciled.", ("controller",), registry=registry
        )
        self._interruptions = Counter(
            "restow_controller_watch_interruptions",
            "Watches that ended before their time.",
            ("controller", "resource"),
            registry=registry,
        )
        self._ends = Counter(
            "restow_operator_work_ended",
            "Times that the controllers, the migrator or another continuous work ended as a whole.",
            ("work",),
            registry=registry,
        )
        for work in (
            "controllers",
            "migrator",
            "certificates",
            "clock",
            "conversions",
            "replica",
            "workers",
        ):  # start at 0, or an alert misses the first increment
            self._ends.labels(work)
        self._statuses: dict[str, Mapping[str, str]] = {}
        self._rules = Gauge(
            "restow_conversionrules",
            "ConversionRules objects by the status of a condition, as the leader last saw them.",
            ("condition", "status"),
            registry=registry,
        )
        self._unmanaged: dict[Key, int] = {}
        self._refused = Gauge(
            "restow_version_management_refused",
            "Changes of automatic version management that admission refuses, of all CloudProfiles.",
            registry=registry,
        )
        difference = Gauge(
            "restow_clock_difference_seconds",
            "By how much the clock of this process is certainly ahead of the API servers, negative if it is behind.",
            ("answer",),
            registry=registry,
        )
        difference.labels("closest").set_function(lambda: clocks.closest)
        difference.labels("farthest").set_function(lambda: clocks.farthest)
        wrong = Gauge(
            "restow_clock_wrong", "Whether the clock differs so much that controllers must not run.", registry=registry
        )
        wrong.set_function(lambda: bool(clocks.obstacle))
        self._leading = Gauge("restow_leader", "Whether this process leads.", ("lease",), registry=registry)
        self._transitions = Gauge(
            "restow_leader_transitions", "How often the lease changed its holder.", ("lease",), registry=registry
        )

    def controller(self, details: ControllerEvent) -> None:
        """Count an event of a controller."""
        name = details.controller
        if name not in self._seen:
            self._seen.add(name)
            self._reconciles.labels(name, "failed")
        self._queued.labels(name).set(details.queued)
        match details.type:
            case ControllerEventType.RECONCILED | ControllerEventType.FAILED:
                result = "succeeded" if details.type is ControllerEventType.RECONCILED else "failed"
                self._reconciles.labels(name, result).inc()
                self._seconds.labels(name).observe(details.seconds)
                self._running.labels(name).set(details.running - 1)  # the event counts the run that just ended
            case ControllerEventType.INTERRUPTED if details.source is not None:
                self._interruptions.labels(name, details.source.resource.full_name).inc()

    def managed(self, profile: Key, refused: int) -> None:
        """Record how many of version management's changes to a CloudProfile admission refuses."""
        self._unmanaged[profile] = refused
        self._refused.set(sum(self._unmanaged.values()))

    def ended(self, work: str) -> None:
        """Count an end of the controllers, the migrator or the keeper of certificates."""
        self._ends.labels(work).inc()

    def election(self, details: ElectionEvent) -> None:
        """Record who leads; a replica that does not lead reports neither refused changes nor rules."""
        self._leading.labels(details.lease).set(details.leading)
        self._transitions.labels(details.lease).set(details.transitions)
        if not details.leading:
            self._unmanaged.clear()
            self._refused.set(0)
            for rules in list(self._statuses):
                self.rules(rules, {})
            for name in self._seen:
                if (name == _MIGRATOR) == details.lease.endswith(f"-{_MIGRATOR}"):
                    self._queued.labels(name).set(0)
                    self._running.labels(name).set(0)

    def rules(self, name: str, statuses: Mapping[str, str]) -> None:
        """Count ``ConversionRules`` by the statuses of their conditions; no statuses mean that the object is gone."""
        for condition, status in self._statuses.pop(name, {}).items():
            self._rules.labels(condition, status).dec()
        if statuses:
            self._statuses[name] = statuses
        for condition, status in statuses.items():
            self._rules.labels(condition, status).inc()

    def text(self) -> bytes:
        """Return all metrics as Prometheus text."""
        return generate_latest(self.registry)
