"""Explains why a namespace stays in the phase Terminating: diagnoses the CRDs of its remaining objects, and the rest.

The namespace controller writes the reasons into the conditions of the namespace. Each reason that concerns objects of a
CRD leads to a diagnosis of this CRD (``doctor``); the other reasons are shown with the command that leads to their
cause.

Rights: get on the namespace, list on customresourcedefinitions, and those of ``doctor`` for each CRD that is named.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from restow.conversion.certificates.unwire import MayBeStored
from restow.conversion.diagnosis.doctor import MOST_OBJECTS, Examine, diagnose
from restow.conversion.diagnosis.problems import names, namespace_waits
from restow.crds import Crd
from restow.crds.problems import CrdDiagnosis, CrdProblem, ProblemKind
from restow.kube import Cluster
from restow.kube.pager import list_pages
from restow.kube.resources import CRDS, NAMESPACES

_DISCOVERY: Final = "NamespaceDeletionDiscoveryFailure"
_PAGE: Final = 100
_TYPE: Final = {"apiVersion": CRDS.api_version, "kind": "CustomResourceDefinition"}
"""List items have no apiVersion and kind of their own."""


@dataclass(frozen=True, slots=True)
class NamespaceDiagnosis:
    """The diagnosis of a namespace.

    Attributes:
        namespace: its name.
        deleting: whether it is being deleted.
        crds: the CRDs whose objects block its deletion.
        problems: the other obstacles to its deletion.
    """

    namespace: str
    deleting: bool
    crds: tuple[CrdDiagnosis, ...]
    problems: tuple[CrdProblem, ...]

    @property
    def well(self) -> bool:
        """Whether nothing blocks the deletion."""
        return not self.problems and not any(each.problems for each in self.crds)

    def to_json(self) -> dict[str, Any]:
        """Return the diagnosis as data."""
        return {
            "namespace": self.namespace,
            "deleting": self.deleting,
            "crds": [each.to_json() for each in self.crds],
            "problems": [each.to_json() for each in self.problems],
        }


async def diagnose_namespace(
    cluster: Cluster, name: str, may_be_stored: MayBeStored, examine: Examine, *, most: int = MOST_OBJECTS
) -> NamespaceDiagnosis:
    """Find out why a namespace is not deleted.

    Args:
        cluster: the API server.
        name: the name of the namespace.
        may_be_stored, examine: see ``diagnose``.
        most: the most objects of a CRD to read one by one at each version.

    Raises:
        NotFound: there is no such namespace.
        CrdError: a CRD is malformed.
        KubeError: the API server cannot be reached, or refuses to show the namespace or the CRDs.
    """
    namespace = (await cluster.get(NAMESPACES, name)).json()
    deleting = (namespace.get("status") or {}).get("phase") == "Terminating"
    waits = namespace_waits(namespace)
    found: list[Crd] = []
    if waits:
        async for page in list_pages(cluster, CRDS, limit=_PAGE):
            crds = [Crd.from_document(item | _TYPE) for item in page]
            found += [crd for crd in crds if any(names(crd, message) for message in waits.values())]
    diagnosed = [await diagnose(cluster, crd.name, may_be_stored, examine, most=most) for crd in found]
    return NamespaceDiagnosis(name, deleting, tuple(diagnosed), tuple(unattributed(name, waits, found)))


def unattributed(namespace: str, waits: Mapping[str, str], crds: Sequence[Crd]) -> Iterator[CrdProblem]:
    """Yield the obstacles to a namespace's deletion that concern none of these CRDs."""
    left = {condition: _without(message, crds) for condition, message in waits.items()}
    discovery = left.pop(_DISCOVERY, "")
    if discovery:
        yield _stuck(
            namespace,
            discovery,
            "kubectl get apiservices",
            "Repair or delete the APIService that is not available.",
        )
    if said := "; ".join(filter(None, left.values())):
        lists = "kubectl api-resources --verbs=list --namespaced -o name"
        yield _stuck(
            namespace,
            said,
            f"{lists} | xargs -n 1 kubectl get --ignore-not-found --show-kind -n {namespace}",
            "It lists what is left. Objects with finalizers wait for their controllers.",
        )


def _without(message: str, crds: Sequence[Crd]) -> str:
    """Return a message without its parts about these CRDs; empty if nothing remains.

    The message of NamespaceContentRemaining lists all remaining resources, "pods. has 1 resource instances, …".
    """
    head, colon, resources = message.partition(": ")
    if " has " not in resources:
        return "" if any(names(crd, message) for crd in crds) else message
    others = [each for each in resources.split(", ") if not any(names(crd, each) for crd in crds)]
    return f"{head}{colon}{', '.join(others)}" if others else ""


def _stuck(namespace: str, why: str, command: str, remedy: str) -> CrdProblem:
    return CrdProblem(
        ProblemKind.NAMESPACE_STUCK,
        f"the namespace {namespace} cannot be deleted: {why}",
        "It stays in the phase Terminating, and nothing can be created in it.",
        command,
        remedy,
    )
