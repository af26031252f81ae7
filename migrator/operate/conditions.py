"""The conditions that restow keeps in the status of a CRD.

They are written by server-side apply, each by a field manager of its own, so that the conditions of the API server and
of others stay. They survive an apply and a replacement of the CRD, neither of which changes its status, unlike an
annotation, which a replacement drops.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import msgspec

from restow.crds import Crd
from restow.kube.cluster import Cluster, PatchType
from restow.kube.errors import Forbidden, KubeError, NotFound, ServerError
from restow.kube.resources import CRDS
from restow.migrator.operate.hooks import MigrationDetails, MigrationEvent

MIGRATED: Final = "restow.dev/Migrated"
"""The type of the condition: nothing is due for this CRD."""

_MANAGER: Final = "restow-migrated"
_LONGEST: Final = 4000
"""The most characters of a message."""
_AGAIN_S: Final = 10.0
"""Seconds after which a condition is written again that could not be written."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class CrdCondition:
    """What a condition says."""

    type: str
    status: str
    reason: str
    message: str


def changed(before: Mapping[str, Any], now: CrdCondition, at: datetime) -> dict[str, Any] | None:
    """Return the condition to write; None if the CRD has it already.

    Args:
        before: the condition as it is (``present``).
        now: what it has to say.
        at: the time of a transition.
    """
    message = now.message if len(now.message) <= _LONGEST else f"{now.message[: _LONGEST - 1]}…"
    if (before.get("status"), before.get("reason"), before.get("message")) == (now.status, now.reason, message):
        return None
    since = before.get("lastTransitionTime") if before.get("status") == now.status else None
    return {
        "type": now.type,
        "status": now.status,
        "reason": now.reason,
        "message": message,
        "lastTransitionTime": since or at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
    }


def present(crd: Crd, kind: str) -> dict[str, Any]:
    """Return a condition of a CRD as it was read; empty if there is none of this type."""
    conditions = (crd.document.get("status") or {}).get("conditions") or ()
    return next((dict(each) for each in conditions if each.get("type") == kind), {})


async def apply(cluster: Cluster, crd: Crd, conditions: Sequence[Mapping[str, Any]], manager: str) -> Crd:
    """Apply all conditions of a field manager, and remove the others that it has written; return the CRD.

    Raises:
        KubeError: the API server refuses it, or cannot be reached.
    """
    body = {
        "apiVersion": CRDS.api_version,
        "kind": "CustomResourceDefinition",
        "metadata": {"name": crd.name, "uid": crd.uid},
        "status": {"conditions": conditions},
    }
    params = {"fieldManager": manager, "force": "true"}
    encoded = msgspec.json.encode(body)
    reply = await cluster.patch(
        CRDS, crd.name, encoded, patch_type=PatchType.APPLY, subresource="status", params=params
    )
    return Crd.from_document(reply.json())


_STANDINGS: Final[Mapping[MigrationEvent, tuple[str, str]]] = {
    MigrationEvent.IDLE: ("True", "Migrated"),
    MigrationEvent.FINISHED: ("True", "Migrated"),
    MigrationEvent.SETTLING: ("False", "Settling"),
    MigrationEvent.WAITING: ("False", "OutsideWindow"),
    MigrationEvent.STARTED: ("False", "Migrating"),
    MigrationEvent.FAILED: ("False", "Failed"),
    MigrationEvent.REFUSED: ("False", "Refused"),
}
_FAILURES: Final = ("Failed", "Refused")


class MigratedCondition:
    """Keeps the condition ``restow.dev/Migrated`` of CRDs.

    It names the generation that it is about (``observedGeneration``), so that ``kubectl wait`` does not take the
    condition of the former spec for that of a changed one. API servers older than that field refuse or drop it; there
    the condition is written without it.

    It says ``Failed`` or ``Refused`` until something else comes out, also while a further try is running. A try that
    changed the condition would end its own wait, because each change of a CRD is reconciled.

    A condition that could not be written is owed (``owes``): without it, waiting clients would wait forever.
    """

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._last: dict[str, tuple[str, dict[str, Any]]] = {}
        self._owed: set[str] = set()
        self._generations = True

    async def tell(self, crd: Crd, details: MigrationDetails) -> None:
        """Write the condition for an event of a migration, if it changes anything."""
        said = _STANDINGS.get(details.event)
        if said is None or (details.event is MigrationEvent.FINISHED and details.requeue_after is not None):
            return  # more is due already
        before, generation = self._before(crd), crd.generation if self._generations else None
        as_before = before.get("observedGeneration") == generation
        reason, trying = before.get("reason"), details.event in (MigrationEvent.SETTLING, MigrationEvent.STARTED)
        if as_before and (reason in _FAILURES if trying else reason == said[1] == "Migrated"):
            return
        now = CrdCondition(type=MIGRATED, status=said[0], reason=said[1], message=details.message)
        told = changed(before, now, details.at) or (None if as_before else before)
        if told is not None:
            await self._write(crd, [told])

    async def remove(self, crd: Crd) -> None:
        """Remove the condition from a CRD that is no target any more."""
        if self._before(crd):
            await self._write(crd, [])

    def owes(self, name: str, after: float | None) -> float | None:
        """Return when to reconcile a CRD again: as planned (``after``), or soon if its condition was not written."""
        if name not in self._owed:
            return after
        return _AGAIN_S if after is None else min(after, _AGAIN_S)

    def forget(self, name: str) -> None:
        """Forget a CRD that is gone."""
        self._last.pop(name, None)
        self._owed.discard(name)

    def _before(self, crd: Crd) -> dict[str, Any]:
        """Return the condition as it is: as read, or as written since the CRD was read."""
        version, written = self._last.get(crd.name, ("", {}))
        return dict(written) if version == crd.resource_version else present(crd, MIGRATED)

    async def _write(self, crd: Crd, conditions: list[dict[str, Any]]) -> None:
        try:
            now = await self._applied(crd, conditions)
        except NotFound:
            self.forget(crd.name)
        except KubeError as error:
            _log.warning("the condition %s could not be written on %s: %s", MIGRATED, crd.name, error)
            if not isinstance(error, Forbidden):
                self._owed.add(crd.name)
        else:
            self._owed.discard(crd.name)
            self._last[crd.name] = (crd.resource_version, present(now, MIGRATED))

    async def _applied(self, crd: Crd, conditions: list[dict[str, Any]]) -> Crd:
        if self._generations:
            numbered = [each | {"observedGeneration": crd.generation} for each in conditions]
            try:
                now = await apply(self._cluster, crd, numbered, _MANAGER)
            except ServerError as error:
                if "observedGeneration" not in str(error):
                    raise
                self._generations = False
            else:
                self._generations = not conditions or "observedGeneration" in present(now, MIGRATED)
                return now
        plain = [{key: value for key, value in each.items() if key != "observedGeneration"} for each in conditions]
        return await apply(self._cluster, crd, plain, _MANAGER)
