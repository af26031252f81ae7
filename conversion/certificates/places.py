"""The objects by which API servers find the webhook and verify it: CRDs, and webhook configurations of admission.

Each holds a CA bundle. A rotation waits until all of them have it, and none is left behind.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime
from typing import Any, Protocol

from restow.conversion.certificates.schedule import Sighting
from restow.conversion.wiring.address import Address, address_of
from restow.conversion.wiring.bundle import Bundle
from restow.conversion.wiring.configuration import bundles_of, plan_configuration
from restow.conversion.wiring.installing import HookProbe, install, read_configuration
from restow.conversion.wiring.plan import Wiring, bundle_of, injector_of, plan_wiring
from restow.conversion.wiring.wire import Probe, read_crd, wire
from restow.crds import Crd
from restow.kube import Cluster

__all__ = ["ConfigurationPlace", "CrdPlace", "Place"]

_log = logging.getLogger(__name__)


class Place(Protocol):
    """One object that names the webhook."""

    @property
    def name(self) -> str:
        """What messages call it."""
        ...

    async def look(self) -> tuple[Sighting, ...]:
        """Read it; return the bundles in it that are ours to keep, and by which this webhook is verified.

        Raises WiringError, CrdError where it cannot be used, KubeError.
        """
        ...

    async def wire(self, wanted: Bundle, dropped: Bundle) -> bool:
        """Make what was read last, without an error, say what it should; return whether that was a change.

        Raises WiringError, CrdError, KubeError.
        """
        ...


class CrdPlace:
    """A CRD. `address` is where its webhook is; None for where the CRD says already."""

    def __init__(
        self, cluster: Cluster, name: str, address: Address | None, *, probe: Probe, now: Callable[[], datetime]
    ) -> None:
        self.name = name
        self._cluster = cluster
        self._address = address
        self._probe = probe
        self._changes = _Changes("f:spec", now)
        self._notes = _Notes()
        self._crd: Crd | None = None

    async def look(self) -> tuple[Sighting, ...]:
        self._crd = crd = await read_crd(self._cluster, self.name)
        changed_at = self._changes.last(crd.uid, crd.generation, crd.managed_fields)
        return (Sighting(bundle_of(crd), changed_at),) if self._counts(crd) else ()

    async def wire(self, wanted: Bundle, dropped: Bundle) -> bool:
        wiring = Wiring(wanted, self._address, dropped)
        assert self._crd is not None
        plan = plan_wiring(self._crd, wiring)
        self._notes.tell(plan.notes)
        if plan.body is None:
            return False
        return (await wire(self._cluster, self.name, wiring, probe=self._probe)).changed

    def _counts(self, crd: Crd) -> bool:
        """Whether API servers verify this webhook by the CRD's bundle, and the bundle is ours to keep."""
        if crd.webhook is None or injector_of(crd.annotations):
            return False
        try:
            return self._address is None or address_of(crd.webhook.get("clientConfig") or {}) == self._address
        except ValueError:
            return False


class ConfigurationPlace:
    """A webhook configuration, installed where it is missing.

    `wanted` is its document, each webhook with its address and without `caBundle`.
    """

    def __init__(
        self, cluster: Cluster, wanted: Mapping[str, Any], *, probe: HookProbe, now: Callable[[], datetime]
    ) -> None:
        self.name = f"{wanted['kind']} {wanted['metadata']['name']}"
        self._cluster = cluster
        self._wanted = wanted
        self._probe = probe
        self._changes = _Changes("f:webhooks", now)
        self._notes = _Notes()
        self._live: Mapping[str, Any] | None = None

    async def look(self) -> tuple[Sighting, ...]:
        self._live = await read_configuration(self._cluster, self._wanted)
        if self._live is None:
            return ()
        metadata = self._live["metadata"]
        managers = metadata.get("managedFields") or ()
        changed_at = self._changes.last(metadata["uid"], metadata.get("generation") or 0, managers)
        return tuple(Sighting(bundle, changed_at) for bundle in bundles_of(self._wanted, self._live))

    async def wire(self, wanted: Bundle, dropped: Bundle) -> bool:
        plan = plan_configuration(self._wanted, self._live, wanted, dropped)
        self._notes.tell(plan.notes)
        if plan.body is None:
            return False
        return await install(self._cluster, self._wanted, wanted, dropped, probe=self._probe)


class _Notes:
    """Logs what a person should know, each sentence once for as long as it holds."""

    def __init__(self) -> None:
        self._told: tuple[str, ...] = ()

    def tell(self, notes: tuple[str, ...]) -> None:
        for note in notes:
            if note not in self._told:
                _log.info("%s", note)
        self._told = notes


class _Changes:
    """When an object was changed last: its managers tell; without any, when this replica saw it first."""

    def __init__(self, field: str, now: Callable[[], datetime]) -> None:
        self._field = field
        self._now = now
        self._first_seen: dict[tuple[str, int], datetime] = {}

    def last(self, uid: str, generation: int, managers: Iterable[Mapping[str, Any]]) -> datetime:
        times = [
            datetime.fromisoformat(str(entry["time"]))
            for entry in managers
            if self._field in (entry.get("fieldsV1") or {}) and "time" in entry
        ]
        return max(times, default=self._first_seen.setdefault((uid, generation), self._now()))
