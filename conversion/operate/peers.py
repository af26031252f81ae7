"""Whether this replica should get requests although it cannot convert every kind: only if no other replica can.

A replica lacks a kind if API servers may call it for that kind, and it cannot compile the active revision: its release
is too old or too new for a rule, or the ConfigMap is spoilt. It answers requests for this kind with an error. So while
another live replica lacks nothing, this one is not ready: a Service routes to the other one, and a rollout to a release
that cannot compile the rules stops before it has replaced the last replica that can.

If no other replica is complete, this one is ready, because the other kinds need it. One broken kind thus never leaves
all kinds without a webhook, and two replicas that lack different kinds never wait for each other.

Pure.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Final

from restow.conversion.operate.revisions import RevisionRecord
from restow.kube.suggestions import few

#: The most kinds that a message lists.
_SHOWN: Final = 5


@dataclass(slots=True)
class Peers:
    """What the replicas can convert, by the records that this replica has read.

    Attributes:
        replica: the name of this replica.
        lacked: the CRDs that it lacks.
    """

    replica: str
    lacked: set[str] = field(default_factory=set)
    _served_by: dict[str, frozenset[str]] = field(default_factory=dict)  # the other replicas that convert a CRD

    def note(self, record: RevisionRecord, serves: str) -> None:
        """Note a record; ``serves`` is the revision that this replica serves, empty for none."""
        self.forget(record.crd)
        if record.wired and record.active:
            able = (name for name, report in record.reports.items() if report.serves and not report.problem)
            self._served_by[record.crd] = frozenset(able) - {self.replica}
            if serves != record.active:
                self.lacked.add(record.crd)

    def forget(self, crd: str) -> None:
        """Forget a CRD whose record is gone."""
        self._served_by.pop(crd, None)
        self.lacked.discard(crd)

    def is_served_elsewhere(self, crd: str, live: frozenset[str]) -> bool:
        """Return whether one of these replicas converts the objects of a CRD."""
        return not live.isdisjoint(self._served_by.get(crd, ()))

    def unready(self, live: frozenset[str]) -> str:
        """Return why this replica should get no requests, given the live replicas; empty if it should."""
        lacked = sorted(self.lacked)
        complete = self._complete(live) if lacked else ""
        if not complete:
            return ""
        return (
            f"the rules of {few(lacked, _SHOWN)} cannot be compiled here, the log says why; "
            f"the replica {complete} converts every kind"
        )

    def _complete(self, live: frozenset[str]) -> str:
        """Return the name of a live replica that converts every kind; empty if there is none."""
        found = live - {self.replica}
        for able in self._served_by.values():
            found &= able
        return min(found, default="")
