"""Check before the first write whether the objects of a CRD can be migrated, and whether the user has the rights.

Each refusal is one sentence with the problem and the next step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import msgspec

from restow.crds import Crd
from restow.kube.cluster import Cluster
from restow.kube.errors import Forbidden, KubeError, NotFound
from restow.kube.resources import CRDS, NAMESPACES, SELF_SUBJECT_ACCESS_REVIEWS, Resource
from restow.kube.retry import with_retries
from restow.kube.suggestions import did_you_mean
from restow.migrator.model.findings import PlanCheck, PlanFinding
from restow.migrator.model.options import Options, Phase
from restow.migrator.requests.crdaccess import known_names


def refusal(crd: Crd, namespace: str | None = None) -> str:
    """Return why the objects of a CRD, or those of one namespace, cannot be migrated; empty if they can."""
    if namespace is not None and not crd.namespaced:
        return f"{crd.name} is cluster-scoped: its objects are in no namespace. Leave --namespace out for it"
    if crd.terminating:
        return f"{crd.name} is being deleted: there is nothing to migrate. Wait until it is gone, or apply it again"
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
            "for it to end, then run again, or run with --engine auto, which waits. If none of it is at work (kubectl "
            "get storageversionmigrations), give this user the right to list them: restow then sees that, and goes on"
        )
    return ""


def _because(crd: Crd) -> str:
    for kind in ("NamesAccepted", "Established"):
        condition = crd.conditions.get(kind)
        if condition is not None and condition.status is False and condition.message:
            return f" ({condition.message})"
    return ""


@dataclass(frozen=True, slots=True)
class Permission:
    """A right that a migration uses.

    Attributes:
        resource, verb, subresource, name, namespace: the fields of the review; empty means "any", or "none".
        without: the effect of its absence; empty if the migration cannot start without it.
    """

    resource: Resource
    verb: str
    subresource: str = ""
    name: str = ""
    namespace: str = ""
    without: str = ""

    def __str__(self) -> str:
        what = self.resource.describe(self.namespace or None, self.name or None, self.subresource or None)
        return f"{self.verb} {what}"


def permissions(crd: Crd, options: Options) -> tuple[Permission, ...]:
    """Return the rights that a migration of this CRD with these options uses, the required ones first.

    Rights on single objects (``resourceNames``) cannot be checked in general; their refusal appears as a failed object.
    """
    objects = crd.resource_at(crd.storage.name)
    namespace = (options.namespace or "") if crd.namespaced else ""
    found = [Permission(objects, verb, namespace=namespace) for verb in ("list", "get", "patch")]
    if options.does(Phase.PRUNE) and not options.partial and not options.dry_run:
        found.append(Permission(CRDS, "patch", "status", crd.name))
        found += [Permission(CRDS, verb, name=crd.name, without=_NOT_WATCHED) for verb in ("list", "watch")]
        found.append(Permission(CRDS, "patch", name=crd.name, without=_NOT_MARKED))
    return tuple(found)


async def missing_permissions(cluster: Cluster, crd: Crd, options: Options) -> list[str]:
    """Ask the API server which required rights the user lacks; return them as text (``patch widgets.example.com``)."""
    needed = [each for each in permissions(crd, options) if not each.without]
    return [str(each) for each in await missing(cluster, needed)]


async def missing(cluster: Cluster, asked: Sequence[Permission]) -> list[Permission]:
    """Ask the API server which of these rights the user lacks (SelfSubjectAccessReview)."""
    return [each for each in asked if not await _allowed(cluster, each)]


class _ReviewStatus(msgspec.Struct, frozen=True):
    allowed: bool


class _Review(msgspec.Struct, frozen=True):
    status: _ReviewStatus


_review = msgspec.json.Decoder(_Review)


async def _allowed(cluster: Cluster, asked: Permission) -> bool:
    review = {
        "apiVersion": "authorization.k8s.io/v1",
        "kind": "SelfSubjectAccessReview",
        "spec": {
            "resourceAttributes": {
                "group": asked.resource.group,
                "version": asked.resource.version,
                "resource": asked.resource.plural,
                "subresource": asked.subresource,
                "verb": asked.verb,
                "name": asked.name,
                "namespace": asked.namespace,
            }
        },
    }
    try:
        reply = await with_retries(cluster).create(SELF_SUBJECT_ACCESS_REVIEWS, msgspec.json.encode(review))
    except (Forbidden, NotFound):
        return True  # the server does not allow the question; the requests themselves will show it
    return reply.decode(_review).status.allowed


async def missing_namespace(cluster: Cluster, namespace: str) -> str:
    """Return a sentence if a namespace does not exist; empty if it exists or the check is not possible."""
    try:
        await with_retries(cluster).get(NAMESPACES, namespace, metadata_only=True)
    except NotFound:
        known = await known_names(cluster, NAMESPACES)
        advice = did_you_mean(namespace, known) or "check the name (kubectl get namespaces)"
        return f"there is no namespace {namespace!r} on {cluster.host}: {advice}"
    except KubeError:
        return ""
    return ""


def of_missing(permission: Permission) -> PlanFinding:
    """Return the finding about a migration by this user without a right."""
    if permission.without:
        message = f"permission is missing to {permission}: {permission.without}. Grant it to spare that"
    else:
        message = (
            f"permission is missing to {permission}: a migration by this user would be refused. Grant it to the user "
            "that migrates"
        )
    return PlanFinding(check=PlanCheck.PERMISSIONS, message=message, reason="Forbidden")


_NOT_WATCHED = (
    "a CRD that is edited more than once in mid-run cannot be proven to have kept its storage version, so all objects "
    "are then looked at again"
)

_NOT_MARKED = (
    "neither the watermark nor the mark can be left on it, so restow migrate ends with exit code 1, and restow ready "
    "cannot say yes"
)
