"""The common base of all keepers of a webhook's certificates: a loop that wires CRDs and reports the state."""

from __future__ import annotations

import asyncio
import logging
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from restow.conversion.certificates.apply import HookProbe, Probe, resource_of
from restow.conversion.certificates.ca.authority import CertificateError
from restow.conversion.certificates.ca.places import Places
from restow.conversion.certificates.ca.rotation import RotationStep
from restow.conversion.certificates.ca.targets import ConfigurationTarget, CrdTarget, WiringTarget
from restow.conversion.certificates.wiring.clientconfig import Address
from restow.conversion.certificates.wiring.crd import resource_of_definition
from restow.conversion.model.errors import WiringProblem
from restow.kube import Cluster, Resource
from restow.kube.clock import Clock
from restow.kube.errors import describe_failure
from restow.kube.retry import Backoff

_log = logging.getLogger(__name__)

BACKOFF: Final = Backoff(first=1.0, most=30.0)
"""The back-off after failed looks."""


@dataclass(frozen=True, slots=True)
class CertificateDetails:
    """The state after one look, for metrics and readiness.

    Attributes:
        taken: the steps that this replica took.
        leaf_ends, authority_ends: the end of validity of the served certificate and of the signing CA; None if
            unknown.
        wired: CRDs, and webhook configurations (``<kind> <name>``), whose bundle is correct.
        problems: why objects could not be wired.
        unwired: CRDs and webhook configurations whose bundle is not known to be correct.
        in_conflict: those whose wiring another writer undoes repeatedly.
        writes: how often this replica has written one of them since it started.
        failure: why the certificates could not be kept, a sentence; empty if they could.
    """

    taken: tuple[RotationStep, ...]
    leaf_ends: datetime | None
    authority_ends: datetime | None
    wired: tuple[str, ...]
    problems: tuple[WiringProblem, ...]
    unwired: tuple[str, ...] = ()
    in_conflict: tuple[str, ...] = ()
    writes: int = 0
    failure: str = ""


def ignore_details(_details: CertificateDetails) -> None:
    """Do nothing: the hook of a keeper that has none."""


class CertificateKeeper(ABC):
    """Keeps the certificates of one webhook, and wires its CRDs and webhook configurations.

    Args:
        cluster: the API server with the CRDs and webhook configurations.
        name: the name of the certificate, for the log.
        targets: the objects to wire from the start on.
        every: the resources of which all objects may be listed and watched (CRDs, or webhook configurations); for many
            objects this is far cheaper than one by one.
        poll: the most seconds between two looks.
        probe, hook_probe: probe the webhook before a CRD, or a webhook configuration, is written.
        hook: called after each look, also after failed ones; must not block or raise.
        clock: its ``now`` and ``sleep``.
        chance: random numbers from [0, 1), for back-off.
    """

    def __init__(
        self,
        cluster: Cluster,
        name: str,
        targets: Iterable[WiringTarget],
        *,
        every: Collection[Resource],
        poll: float,
        probe: Probe,
        hook_probe: HookProbe,
        hook: Callable[[CertificateDetails], None],
        clock: Clock,
        chance: Callable[[], float],
    ) -> None:
        self._cluster = cluster
        self._name = name
        self._poll = poll
        self._probe = probe
        self._hook_probe = hook_probe
        self._hook = hook
        self._clock = clock
        self._chance = chance
        self._places = Places(cluster, name, targets, every=every, poll=poll, clock=clock, chance=chance)
        self._told: tuple[str, ...] = ()

    @abstractmethod
    async def prepare(self) -> None:
        """Return once the folder holds a certificate; a server has to wait for this before it can listen."""

    @abstractmethod
    async def reconcile(self) -> float:
        """Do everything that is due now; return the seconds until more is due, unless the cluster changes."""

    @abstractmethod
    def _failed(self, error: Exception) -> None:
        """Report that ``reconcile`` raised an error."""

    async def run_forever(self) -> None:
        """Look, act and wait, until cancelled. Failures are reported and retried."""
        failures = 0
        async with asyncio.TaskGroup() as group:
            group.create_task(self._places.watch_forever(), name="watch what is wired")
            while True:
                try:
                    delay = await self.reconcile()
                    failures = 0
                except Exception as error:  # noqa: BLE001 - whatever it is, the next look may go well
                    failures += 1
                    delay = BACKOFF.delay(failures, self._chance())
                    self._failed(error)
                await self._places.pause(min(delay, self._poll))

    def keep(
        self, crd: str, address: Address | None, composite: str = "", replaces: Mapping[str, Any] | None = None
    ) -> None:
        """Wire one more CRD from now on.

        ``composite`` is the apiVersion of the CompositeResourceDefinition from which Crossplane makes it, if it does.
        ``replaces`` is the ``spec.conversion`` with another project's webhook that may be replaced, whole.
        """
        target = CrdTarget(
            self._cluster,
            crd,
            address,
            composite=composite,
            replaces=replaces,
            probe=self._probe,
            now=self._clock.now,
        )
        self._places.add(target)

    async def release(self, crd: str, composite: str = "") -> None:
        """Stop wiring a CRD; return once no write to it is in progress. Its current fields stay."""
        await self._places.remove(resource_of_definition(composite), crd)

    def keep_configuration(self, wanted: Mapping[str, Any]) -> None:
        """Keep one more webhook configuration from now on; ``wanted`` is a document as in ``configurations``."""
        self._places.add(ConfigurationTarget(self._cluster, wanted, probe=self._hook_probe, now=self._clock.now))

    async def release_configuration(self, wanted: Mapping[str, Any]) -> None:
        """Stop keeping a configuration; return once no write to it is in progress. Its current fields stay."""
        await self._places.remove(resource_of(wanted["kind"]), wanted["metadata"]["name"])

    def _not_kept(self, error: Exception) -> str:
        told = str(error) if isinstance(error, CertificateError | OSError) else describe_failure(error)
        return f"the certificate {self._name} cannot be kept: {told}"

    def _log_problems(self, sentences: Iterable[str]) -> None:
        """Log new problems only: the same sentence every few seconds does not help."""
        before, self._told = self._told, tuple(sentences)
        for sentence in self._told:
            if sentence not in before:
                _log.warning("%s: %s", self._name, sentence)

    def _call_hook(
        self,
        wired: tuple[str, ...],
        problems: tuple[WiringProblem, ...],
        *,
        leaf_ends: datetime | None,
        authority_ends: datetime | None = None,
        taken: tuple[RotationStep, ...] = (),
        failure: str = "",
    ) -> None:
        """Call the hook with the state after a look."""
        targets, named = self._places.targets, frozenset(wired)
        details = CertificateDetails(
            taken,
            leaf_ends,
            authority_ends,
            wired,
            problems,
            unwired=tuple(each.name for each in targets if each.name not in named),
            in_conflict=tuple(each.name for each in targets if each.is_in_conflict),
            writes=sum(each.writes for each in targets),
            failure=failure,
        )
        self._hook(details)
