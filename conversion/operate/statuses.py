"""Writes the status of ``ConversionRules`` objects, and Events for what changed in it.

A right that the operator lacks is a state of the object too: ``denied`` makes a gate of it, which names the right and
says where it comes from. Otherwise only the log of one replica would have it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from restow.conversion.operate import gates
from restow.conversion.operate.gates import FORBIDDEN, Gate, with_advice
from restow.conversion.operate.revisions import RevisionRecord
from restow.crds.conversionrules import CONVERSION_RULES
from restow.kube import Cluster, PatchType
from restow.kube.clock import Clock
from restow.kube.errors import Forbidden
from restow.kube.events import event_body, write_event

_log = logging.getLogger(__name__)

_CONTROLLER: Final = "restow.dev/conversions"
_LATER: Final = 30.0

Told = Callable[[str, Mapping[str, str]], None]
"""Called with the name of an object and the status of each condition; without conditions once the object is gone."""


@dataclass(frozen=True, slots=True)
class Assessment:
    """The result of one look at an object.

    Attributes:
        gates: the gates that were reached, in their order.
        crd: the name of the target's CRD.
        record: the record of that CRD.
        after: the seconds until the next look without an event.
        keeps: whether CRD and record were not read, so that the status keeps what it says about them.
    """

    gates: tuple[Gate, ...]
    crd: str = ""
    record: RevisionRecord | None = None
    after: float | None = None
    keeps: bool = False


def denied(error: Forbidden, passed: Sequence[Gate]) -> Assessment:
    """Return the look at an object whose next gate needs a right that the operator lacks."""
    said = with_advice(str(error)) if error.by_authorizer else str(error)
    gate = Gate(gates.GATES[len(passed)], False, FORBIDDEN, said)
    return Assessment((*passed, gate), after=_LATER, keeps=True)


class RulesStatus:
    """Writes statuses. ``told`` is called after each look; ``instance`` is the name of this process, for Events."""

    def __init__(self, cluster: Cluster, clock: Clock, instance: str, told: Told) -> None:
        self._cluster = cluster
        self._clock = clock
        self._instance = instance
        self._told = told

    def gone(self, name: str) -> None:
        """Note that an object is gone."""
        self._told(name, {})

    async def write(self, document: Mapping[str, Any], look: Assessment) -> None:
        """Write the status if it changed, and Events for its changes.

        Raises:
            KubeError: the API server refuses a request, or cannot be reached.
        """
        before = document.get("status") or {}
        crd, served = look.crd, None
        if look.keeps:
            crd, served = crd or before.get("crd") or "", before.get("served")
        elif look.record is not None and look.record.active:
            served = {"revision": look.record.active, "generation": look.record.active_generation}
        after = gates.status(document, look.gates, crd=crd, served=served, now=self._clock.now())
        metadata = document["metadata"]
        self._told(metadata["name"], {each["type"]: each["status"] for each in after["conditions"]})
        if after == before:
            return
        body = {
            "metadata": {"resourceVersion": metadata["resourceVersion"]},
            "status": after | {name: None for name in before if name not in after},
        }
        await self._cluster.patch(
            CONVERSION_RULES,
            metadata["name"],
            msgspec.json.encode(body),
            patch_type=PatchType.MERGE,
            subresource="status",
            metadata_only=True,
        )
        for condition in gates.news(before.get("conditions") or (), after["conditions"]):
            if condition["reason"] == FORBIDDEN:
                _log.warning("%s: %s: %s", metadata["name"], condition["type"], condition["message"])
            else:
                _log.info("%s: %s %s", metadata["name"], condition["type"], condition["reason"])
            await write_event(self._cluster, self._event(metadata, condition))

    def _event(self, metadata: Mapping[str, Any], condition: Mapping[str, Any]) -> dict[str, Any]:
        bad = condition["status"] == "False" or condition["type"] == gates.CONFLICT
        return event_body(
            regarding={
                "apiVersion": CONVERSION_RULES.api_version,
                "kind": "ConversionRules",
                "name": metadata["name"],
                "uid": metadata["uid"],
            },
            type="Warning" if bad else "Normal",
            reason=condition["reason"],
            action=condition["type"],
            note=condition["message"],
            at=self._clock.now(),
            controller=_CONTROLLER,
            instance=self._instance,
        )
