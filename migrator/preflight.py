"""What makes a migration of a CRD impossible or unwise right now, found before anything is written.

Each refusal is one sentence: what is the matter, and what to do.
"""

from __future__ import annotations

import msgspec

from restow.crds import Crd
from restow.kube.cluster import Cluster
from restow.kube.errors import Forbidden, NotFound
from restow.kube.resources import CRDS, SELF_SUBJECT_ACCESS_REVIEWS, Resource
from restow.migrator.model import Options, Phase

__all__ = ["Refused", "missing_permissions", "refusal"]


class Refused(Exception):
    """A migration was not begun; the message says why and what to do."""


def refusal(crd: Crd, namespace: str | None = None) -> str:
    """Return why the objects of this CRD (in this namespace only) cannot be migrated as it is, or an empty string."""
    if namespace is not None and not crd.namespaced:
        return f"{crd.name} is cluster-scoped: its objects are in no namespace. Leave --namespace out for it"
    if crd.terminating:
        return f"{crd.name} is being deleted: there is nothing to migrate. Wait until it is gone, or apply it anew"
    if not crd.established:
        return (
            f"{crd.name} is not established{_because(crd)}: the API server does not serve it yet. Wait for its "
            "Established condition and run again"
        )
    if not crd.storage.served:
        return (
            f"the storage version {crd.storage.name} of {crd.name} is not served, so its objects cannot be listed or "
            "written at it. Set served: true for it, or make a served version the storage version"
        )
    if crd.storage_migrating:
        return (
            f"the cluster's own StorageVersionMigration is at work on {crd.name} (condition StorageMigrating). Wait "
            "for it to end, then run again"
        )
    return ""


def _because(crd: Crd) -> str:
    for kind in ("NamesAccepted", "Established"):
        condition = crd.conditions.get(kind)
        if condition is not None and condition.status is False and condition.message:
            return f" ({condition.message})"
    return ""


async def missing_permissions(cluster: Cluster, crd: Crd, options: Options) -> list[str]:
    """Ask the API server which of the needed verbs the user lacks; readable, e.g. ``patch widgets.example.com``.

    Rights on single objects (``resourceNames``) cannot be asked for in general; a refusal there shows as a failed
    object.
    """
    objects = Resource(crd.group, crd.storage.name, crd.plural, crd.namespaced)
    needed = [(objects, verb, "", "") for verb in ("list", "get", "patch")]
    if options.does(Phase.PRUNE) and not options.partial and not options.dry_run:
        needed.append((CRDS, "patch", "status", crd.name))
    missing = []
    for resource, verb, subresource, name in needed:
        namespace = (options.namespace or "") if resource is objects and crd.namespaced else ""
        if not await _allowed(cluster, resource, verb, subresource, name, namespace):
            what = resource.describe(namespace or None, name or None, subresource or None)
            missing.append(f"{verb} {what}")
    return missing


async def _allowed(
    cluster: Cluster, resource: Resource, verb: str, subresource: str, name: str, namespace: str
) -> bool:
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {
            "resourceAttributes": {
                "group": resource.group,
                "version": resource.version,
                "resource": resource.plural,
                "subresource": subresource,
                "verb": verb,
                "name": name,
                "namespace": namespace,
            }
        },
    }
    try:
        reply = await cluster.create(SELF_SUBJECT_ACCESS_REVIEWS, msgspec.json.encode(review))
    except (Forbidden, NotFound):
        return True  # the server does not let us ask; the requests themselves will tell
    return bool(reply.json().get("status", {}).get("allowed"))
