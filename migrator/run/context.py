"""The context that the steps of one CRD's migration share."""

from __future__ import annotations

from dataclasses import dataclass, field

from restow.kube.retry import RetryingCluster, with_retries
from restow.migrator.decide.premise import Followers
from restow.migrator.model.callbacks import Callbacks, Moment
from restow.migrator.model.options import Options
from restow.migrator.model.report import CrdReport
from restow.migrator.requests.environment import Environment, RunStop
from restow.migrator.requests.premisecheck import Unconfirmed


@dataclass(frozen=True, slots=True)
class CrdRun:
    """The migration of one CRD.

    Attributes:
        environment: the API server, the clock, the converters, and the stop of this CRD: a webhook that is down ends
            only the run of its own CRD.
        options: the caller's options.
        callbacks: the caller's observer and converters.
        followers: since when this process knows each API server to follow the CRD.
        report: the report of the run so far.
        unconfirmed: the objects that earlier passes wrote while the CRD may have changed.
    """

    environment: Environment
    options: Options
    callbacks: Callbacks
    followers: Followers
    report: CrdReport
    unconfirmed: list[Unconfirmed] = field(default_factory=list)

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
