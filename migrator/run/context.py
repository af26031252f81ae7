"""The context that the steps of one CRD's migration share."""

from __future__ import annotations

from dataclasses import dataclass

from restow.kube.retry import RetryingCluster, with_retries
from restow.migrator.model.callbacks import Callbacks, Moment
from restow.migrator.model.options import Options
from restow.migrator.model.report import CrdReport
from restow.migrator.model.watermark import FirstSeen
from restow.migrator.requests.passes import Environment
from restow.migrator.requests.stop import RunStop

__all__ = ["CrdRun"]


@dataclass(frozen=True, slots=True)
class CrdRun:
    """The migration of one CRD.

    Attributes:
        environment: the API server, the clock, the converters, and the stop of this CRD: a webhook that is down ends
            only the run of its own CRD.
        options: the caller's options.
        callbacks: the caller's observer and converters.
        first_seen: the times at which this process first saw the CRD in each generation.
        report: the report of the run so far.
    """

    environment: Environment
    options: Options
    callbacks: Callbacks
    first_seen: FirstSeen
    report: CrdReport

    @property
    def cluster(self) -> RetryingCluster:
        """The API server; requests with temporary failures are retried."""
        return with_retries(self.environment.cluster)

    @property
    def stop(self) -> RunStop:
        """Set when the run has to end early."""
        return self.environment.stop

    def at(self, moment: Moment) -> None:
        """Report a moment to the observer."""
        self.callbacks.at(moment, self.report)
