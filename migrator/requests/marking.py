"""A run's own writes of the CRD: try them as dry runs, and say what to do if the API server refuses one.

Without its last write, the mark, a migration proves nothing to ``restow ready``. A CRD whose annotations are full, or a
policy that guards CRDs, refuses the mark of every run.
"""

from __future__ import annotations

from collections.abc import Awaitable, Iterator
from typing import TypeAlias

from restow.crds import Crd
from restow.kube.cluster import Cluster
from restow.kube.errors import Conflict, KubeError
from restow.kube.resources import CRDS
from restow.migrator.decide.proof import annotations_of_mark, proof_of_run, reencoding_due, unprotected_versions
from restow.migrator.model.findings import PlanCheck, PlanFinding, cannot_be_tried, is_denial, of_failure
from restow.migrator.model.options import Options
from restow.migrator.model.report import ObjectFailure
from restow.migrator.model.watermark import ANNOTATION as WATERMARK
from restow.migrator.model.watermark import RUNS, TOKEN_LENGTH, Watermark, valid_watermark, with_token
from restow.migrator.requests.crdaccess import annotate, patch_stored_versions
from restow.migrator.requests.preflight import Permission, missing

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
