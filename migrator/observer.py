"""What a run tells while it is under way: moments, with the report as it stands."""

from __future__ import annotations

from enum import StrEnum
from typing import Protocol

from restow.migrator.report import CrdReport

__all__ = ["Moment", "Observer", "Silent"]


class Moment(StrEnum):
    """Where the migration of a CRD is.

    - ``settling``: waiting until the last change of the CRD is long enough ago (``report.settle_s``).
    - ``lagging``: waiting for an API server that has not seen that change; ``report.lagging`` says which.
    - ``native``: the cluster's own migration is at work, and is waited for.
    - ``writing``: a pass begins; its counts grow in the report.
    - ``pruning``: all objects are done.
    - ``ended``: with this CRD.
    """

    SETTLING = "settling"
    LAGGING = "lagging"
    NATIVE = "native"
    WRITING = "writing"
    PRUNING = "pruning"
    ENDED = "ended"


class Observer(Protocol):
    """Is told of every moment, in the run's own event loop; must not block. The report is the run's: read only."""

    def at(self, moment: Moment, report: CrdReport) -> None:
        """Take note."""
        ...


class Silent:
    """Observes nothing."""

    def at(self, moment: Moment, report: CrdReport) -> None:
        """Do nothing."""
