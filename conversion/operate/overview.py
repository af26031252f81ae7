"""The progress of a cluster's ``ConversionRules``, as ``restow status`` and the report show it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, Final

from restow.conversion.operate.gates import CONFLICT, GATES, READY, target_of
from restow.crds.conversionrules import CONVERSION_RULES
from restow.kube import Cluster
from restow.kube.errors import Forbidden, NotFound
from restow.kube.pager import list_pages

_PAGE: Final = 200


@dataclass(frozen=True, slots=True)
class RulesOverview:
    """One ``ConversionRules`` object.

    Attributes:
        name: the object's name.
        group, kind: the group and kind that it converts.
        crd: the name of that kind's CRD; empty while there is none.
        generation: the object's generation.
        served: the generation that the replicas convert by; None for none.
        revision: the hash of the revision that they convert by; empty for none.
        gates: status (``True``, ``False`` or ``Unknown``) and reason of each gate, in their order.
        ready: whether the current generation has passed all of them.
        deleting: whether the object is being deleted.
        failure: the first failed gate, its reason and its message; empty while all are passed or in progress.
    """

    name: str
    group: str
    kind: str
    crd: str
    generation: int
    served: int | None
    revision: str
    gates: tuple[tuple[str, str, str], ...]
    ready: bool
    deleting: bool
    failure: str

    @classmethod
    def of(cls, document: Mapping[str, Any]) -> RulesOverview:
        """Read a document as an API server returned it."""
        metadata, status = document["metadata"], document.get("status") or {}
        generation = metadata.get("generation") or 0
        conditions = {each["type"]: each for each in status.get("conditions") or ()}
        group, kind = target_of(document) or ("", "")
        served = status.get("served") or {}
        none = {"status": "Unknown", "reason": "NotLookedAt"}
        gates = [(name, conditions.get(name, none)) for name in GATES]
        current = status.get("observedGeneration") == generation
        closed = next((name for name, each in gates if each["status"] == "False"), "")
        if conditions.get(CONFLICT, none)["status"] == "True":
            closed = CONFLICT
        failure = f"{closed}, {conditions[closed]['reason']}: {conditions[closed]['message']}" if closed else ""
        return cls(
            name=metadata["name"],
            group=group,
            kind=kind,
            crd=status.get("crd") or "",
            generation=generation,
            served=served.get("generation"),
            revision=served.get("revision") or "",
            gates=tuple((name, each["status"], each["reason"]) for name, each in gates),
            ready=current and conditions.get(READY, none)["status"] == "True",
            deleting=bool(metadata.get("deletionTimestamp")),
            failure=failure,
        )

    @property
    def state(self) -> str:
        """The state of the object, in a word or two."""
        if self.deleting:
            return "deleting"
        if self.ready:
            return "ready"
        return "failed" if self.failure else "in progress"

    def to_json(self) -> dict[str, Any]:
        """Return the object as ``restow status -o json`` prints it."""
        return {
            "name": self.name,
            "target": {"group": self.group, "kind": self.kind},
            "crd": self.crd,
            "generation": self.generation,
            "served": {"generation": self.served, "revision": self.revision} if self.revision else None,
            "gates": [{"type": name, "status": status, "reason": reason} for name, status, reason in self.gates],
            "state": self.state,
            "failure": self.failure,
        }


async def rules_overview(cluster: Cluster, crds: Collection[str] = ()) -> list[RulesOverview]:
    """Return the ``ConversionRules`` of a cluster, sorted by name; with ``crds`` only those for these CRDs.

    The result is empty if the cluster lacks their CRD, or if the right to list them is missing.

    Raises:
        KubeError: the API server refuses a request, or cannot be reached.
    """
    found: list[RulesOverview] = []
    try:
        async for page in list_pages(cluster, CONVERSION_RULES, limit=_PAGE):
            found += map(RulesOverview.of, page)
    except (NotFound, Forbidden):
        return []
    wanted = [each for each in found if not crds or each.crd in crds]
    return sorted(wanted, key=lambda each: each.name)
