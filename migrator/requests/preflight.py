"""Check before the first write whether the objects of a CRD can be migrated, and whether the user may do it.

Each refusal is one sentence with the problem and the next step.

``rehearse_writes`` tries a run's own writes of the CRD as dry runs. Without its last write, the mark, a migration
proves nothing to ``restow ready``. A CRD whose annotations are full, or a policy that guards CRDs, refuses the mark of
every run.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import msgspec

from restow.crds import Crd
from restow.kube.cluster import Cluster
from restow.kube.errors import Conflict, Forbidden, KubeError, NotFound
from restow.kube.resources import CRDS, NAMESPACES, SELF_SUBJECT_ACCESS_REVIEWS, Resource
from restow.kube.retry import with_retries
from restow.kube.suggestions import did_you_mean
from restow.migrator.decide.proof import annotations_of_mark, proof_of_run, reencoding_due, unprotected_versions
from restow.migrator.model.options import Options, Phase
from restow.migrator.model.report import ObjectFailure, PlanCheck, PlanFinding, cannot_be_tried, is_denial, of_failure
from restow.migrator.model.watermark import ANNOTATION as WATERMARK
from restow.migrator.model.watermark import RUNS, TOKEN_LENGTH, Watermark, valid_watermark, with_token
from restow.migrator.requests.crdaccess import annotate, known_names, patch_stored_versions


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


LAST_APPLIED = "kubectl.kubernetes.io/last-applied-configuration"


def no_mark(crd: Crd, said: str) -> str:
    """Return the sentence about a CRD on which the API server refuses the mark.

    Args:
        crd: the CRD.
        said: the API server's message.
    """
    return (
        f"the API server refuses restow's mark on {crd.name} ({said}), and restow ready cannot say yes without it. "
        f"{_way_out(crd, said)}, then run restow migrate {crd.name} again"
    )


def _way_out(crd: Crd, said: str) -> str:
    """Return what to do about a refused write of a CRD, as the beginning of a sentence."""
    if "cannot patch resource" in said:
        return f"Grant the user that migrates the right to patch {CRDS.describe(name=crd.name)}"
    if "metadata.annotations: Too long" in said:
        if LAST_APPLIED in crd.annotations:
            return (
                f"Remove the annotation of kubectl apply (kubectl annotate crd {crd.name} {LAST_APPLIED}-), apply the "
                "CRD with kubectl apply --server-side from then on"
            )
        largest = max(crd.annotations, key=lambda name: len(crd.annotations[name]))
        return f"Shorten the annotations of the CRD, of which {largest} is the largest"
    if is_denial(said):
        return "Exempt the user that migrates in the policy or webhook that the message names"
    return "Fix what the message names"


async def rehearse_mark(cluster: Cluster, crd: Crd) -> str:
    """Return why no run can leave its mark on a CRD, and what to do; empty if one can, or if this is not known.

    It is not known to a user who lacks the right to patch the CRD: another one may migrate.

    Args:
        cluster: the API server.
        crd: the CRD as just read.

    Raises:
        KubeError: the API server cannot be reached.
    """
    if await missing(cluster, _rights(crd)[:1]):
        return ""
    said = await _said(_mark(cluster, crd, Options(), rewritten=True))
    return no_mark(crd, said) if said and not cannot_be_tried(said) else ""


def _rights(crd: Crd) -> tuple[Permission, Permission]:
    """Return the rights to leave the mark, and to prune."""
    return Permission(CRDS, "patch", name=crd.name), Permission(CRDS, "patch", "status", crd.name)


async def rehearse_writes(cluster: Cluster, crd: Crd, options: Options, *, rewritten: bool) -> list[PlanFinding]:
    """Try the own writes of a run that prunes, in its order, and return those that the API server refuses.

    Nothing is tried without the rights, because another user may migrate.

    Args:
        cluster: the API server.
        crd: the CRD as just read.
        options: the options of the migration.
        rewritten: whether the run would rewrite an object.

    Raises:
        KubeError: the API server cannot be reached.
    """
    if not options.prunes or options.partial or await missing(cluster, _rights(crd)):
        return []
    refused: dict[str, list[str]] = {}
    for what, write in _writes(cluster, crd, options, rewritten=rewritten):
        if said := await _said(write):
            refused.setdefault(said, []).append(what)
    return [_finding(crd, writes, said) for said, writes in refused.items()]


_Write: TypeAlias = Awaitable[Crd | str]
_TOKEN, _WATERMARK, _MARK = "the token of the run", "the watermark", "the mark"


def _writes(cluster: Cluster, crd: Crd, options: Options, *, rewritten: bool) -> Iterator[tuple[str, _Write]]:
    added, exact = unprotected_versions(crd), (crd.storage.name,)
    if added:
        versions = (*added, *crd.stored_versions)
        yield "putting versions back into status.storedVersions", _stored(cluster, crd, versions)
    taken = Watermark.taken(crd, crd.resource_version, options.settle_s)
    due = reencoding_due(crd, options) and not crd.unknown_stored_versions
    if due:
        yield _TOKEN, annotate(cluster, crd, {RUNS: with_token(crd, "0" * TOKEN_LENGTH)}, dry_run=True)
    if taken is not None and due and valid_watermark(crd, options.settle_s) is None:
        yield _WATERMARK, annotate(cluster, crd, {WATERMARK: taken.encode()}, dry_run=True)
    if added or crd.stored_versions != exact:
        yield "the prune of status.storedVersions", _stored(cluster, crd, exact)
    yield _MARK, _mark(cluster, crd, options, rewritten=rewritten)


def _stored(cluster: Cluster, crd: Crd, versions: tuple[str, ...]) -> _Write:
    return patch_stored_versions(cluster, crd, versions, dry_run=True)


async def _mark(cluster: Cluster, crd: Crd, options: Options, *, rewritten: bool) -> str:
    if crd.unknown_stored_versions:  # the prune, which comes first, makes it possible
        return ""
    proof = proof_of_run(crd, crd, options)
    mark = {} if proof is None else annotations_of_mark(crd, proof, rewritten=rewritten)
    return await annotate(cluster, crd, mark, unchanged=True, dry_run=True)


async def _said(write: _Write) -> str:
    """Return the API server's message if it refuses a write; a write by another client meanwhile is no refusal."""
    try:
        said = await write
    except Conflict:
        return ""
    except KubeError as error:
        return error.said
    return said if isinstance(said, str) else ""


def _finding(crd: Crd, writes: list[str], said: str) -> PlanFinding:
    if cannot_be_tried(said):
        return of_failure(ObjectFailure("", crd.name, "", said))
    message = (
        f"the API server refuses {' and '.join(writes)} on {crd.name} ({said})"
        f"{', and restow ready cannot say yes without the mark' if _MARK in writes else ''}. "
        f"{_way_out(crd, said)}, then try again"
    )
    return PlanFinding(check=PlanCheck.CRD, message=message, fails=not {*writes} <= {_TOKEN, _WATERMARK})
