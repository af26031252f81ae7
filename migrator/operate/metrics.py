"""Prometheus metrics of a migration. Needs the extra ``restow[operator]``; nothing else imports this module.

The module removes the series of a CRD that was deleted or is no longer a target.
"""

from __future__ import annotations

from typing import TypeVar

from prometheus_client import REGISTRY, CollectorRegistry, Counter, Gauge, Histogram

from restow.kube.leaderelection import ElectionEvent
from restow.migrator.operate.hooks import MigrationDetails, MigrationEvent

__all__ = ["MigrationMetrics"]


_M = TypeVar("_M", Counter, Gauge, Histogram)

_BUCKETS = (1.0, 5.0, 15.0, 60.0, 300.0, 900.0, 3600.0, 14400.0)
_ENDS = (MigrationEvent.FINISHED, MigrationEvent.FAILED, MigrationEvent.STOPPED)
_OUTCOMES = ("rewritten", "current", "translated", "stripped", "gone", "failed", "repaired")


class MigrationMetrics:
    """A hook that counts in a registry; create one per registry, for any number of migrators.

    ====================================================  ==================================================
    ``restow_migrator_runs_total{crd,result}``            finished, failed, stopped or refused
    ``restow_migrator_objects_total{crd,outcome}``        rewritten, current, stripped, …; grows during a run
    ``restow_migrator_requests_total{crd,kind}``          list, read, write, retried, review; grows during a run
    ``restow_migrator_prunes_total{crd}``                 times that storedVersions was trimmed
    ``restow_migrator_run_duration_seconds{crd}``         of finished, failed and stopped runs
    ``restow_migrator_due{crd}``                          1 while something is due
    ``restow_migrator_objects_remaining{crd}``            not finished yet in the run under way, or in the last one
    ``restow_migrator_stored_versions{crd}``              how many names status.storedVersions holds
    ``restow_migrator_last_success_timestamp_seconds``    (by crd) when a run last finished, in Unix time
    ``restow_migrator_references{crd,version,step}``      what stands against ``unserving`` or ``removal``
    ``restow_migrator_references_not_looked_at{crd}``     resources that the last search could not look at
    ``restow_migrator_references_timestamp_seconds``      (by crd) when that search ended, in Unix time
    ``restow_migrator_leading{lease}``                    1 while this process leads; see ``elected``
    ====================================================  ==================================================
    """

    def __init__(self, registry: CollectorRegistry = REGISTRY) -> None:
        def counter(name: str, text: str, *labels: str) -> Counter:
            return self._of_crd(Counter(f"restow_migrator_{name}", text, ("crd", *labels), registry=registry))

        def gauge(name: str, text: str, *labels: str) -> Gauge:
            return self._of_crd(Gauge(f"restow_migrator_{name}", text, ("crd", *labels), registry=registry))

        self._by_crd: list[Counter | Gauge | Histogram] = []
        # The counts of the current run that were already added, by CRD.
        self._counted: dict[str, dict[tuple[Counter, str], int]] = {}
        self._runs = counter("runs_total", "Migrations of a CRD, by how they ended.", "result")
        self._objects = counter("objects_total", "Objects, by what a run did with them.", "outcome")
        self._requests = counter("requests_total", "Requests about objects.", "kind")
        self._prunes = counter("prunes_total", "Times that status.storedVersions was trimmed.")
        self._due = gauge("due", "Whether something is due.")
        self._remaining = gauge("objects_remaining", "Objects that the run under way, or the last one, did not finish.")
        self._stored = gauge("stored_versions", "How many versions status.storedVersions names.")
        self._success = gauge("last_success_timestamp_seconds", "When a run last finished, in Unix time.")
        self._references = gauge(
            "references", "References that stand against a step of a version's removal.", "version", "step"
        )
        self._not_looked_at = gauge("references_not_looked_at", "Resources that the last search could not look at.")
        self._searched = gauge("references_timestamp_seconds", "When that search ended, in Unix time.")
        self._leading = Gauge("restow_migrator_leading", "Whether this process leads.", ("lease",), registry=registry)
        name, text = "restow_migrator_run_duration_seconds", "How long runs took."
        self._duration = self._of_crd(Histogram(name, text, ("crd",), buckets=_BUCKETS, registry=registry))

    def _of_crd(self, metric: _M) -> _M:
        self._by_crd.append(metric)
        return metric

    def __call__(self, details: MigrationDetails) -> None:
        """Count an event."""
        crd, event = details.crd, details.event
        if event is MigrationEvent.FORGOTTEN:
            self._forget(crd)
            return
        if event in (*_ENDS, MigrationEvent.REFUSED):
            self._runs.labels(crd, event.value).inc()
        if not details.uid:
            return  # the CRD could not be read, so nothing is known about it
        self._due.labels(crd).set(bool(details.due) and event is not MigrationEvent.FINISHED)
        if details.stored_versions:
            self._stored.labels(crd).set(len(details.stored_versions))
        if event in (*_ENDS, MigrationEvent.PROGRESS, MigrationEvent.IDLE):
            self._remaining.labels(crd).set(details.remaining)
        if event is MigrationEvent.REFERENCES:
            self._found(details)
        if event is MigrationEvent.STARTED:
            self._counted.pop(crd, None)
        if event in (*_ENDS, MigrationEvent.PROGRESS):
            self._count(details)
        if event in _ENDS:
            self._counted.pop(crd, None)
            self._ended(details)

    def elected(self, details: ElectionEvent) -> None:
        """Record a change of leadership, as the ``election_hook`` of a migrator."""
        self._leading.labels(details.lease).set(details.leading)

    def _count(self, details: MigrationDetails) -> None:
        """Add the counts since the previous event of this run.

        Some numbers of a run restart with another pass. A counter keeps its previous count.
        """
        crd = details.crd
        before = self._counted.setdefault(crd, {})
        told = [(self._objects, outcome, details.objects.get(outcome, 0)) for outcome in _OUTCOMES]
        told += [(self._requests, kind, count) for kind, count in details.requests.items()]
        for counter, label, count in told:
            known = before.get((counter, label), 0)
            counter.labels(crd, label).inc(max(0, count - known))
            before[counter, label] = max(count, known)

    def _ended(self, details: MigrationDetails) -> None:
        crd = details.crd
        self._prunes.labels(crd).inc(details.pruned)
        self._duration.labels(crd).observe(details.duration_s)
        if details.event is MigrationEvent.FINISHED:
            self._success.labels(crd).set(details.at.timestamp())

    def _found(self, details: MigrationDetails) -> None:
        self._references.remove_by_labels({"crd": details.crd})
        for each in details.references:
            for step, against in (("unserving", each.against_unserving), ("removal", each.against_removal)):
                self._references.labels(details.crd, each.of.version, step).set(sum(against.values()))
        unseen = {missed for each in details.references for missed in each.not_looked_at}
        self._not_looked_at.labels(details.crd).set(len(unseen))
        self._searched.labels(details.crd).set(details.at.timestamp())

    def _forget(self, crd: str) -> None:
        self._counted.pop(crd, None)
        for metric in self._by_crd:
            metric.remove_by_labels({"crd": crd})
