"""The end of a pass: prove, prune ``status.storedVersions``, mark.

Each decision is based on a fresh read of the CRD, and each write has that CRD's resourceVersion as precondition.
Therefore a write by another client in between leads to a new decision, and never to a wrong prune.
"""

from __future__ import annotations

from restow.crds import Crd, CrdError
from restow.kube.cluster import Cluster
from restow.kube.errors import Conflict, KubeError, NotFound, OutcomeUnknown
from restow.migrator.decide.proof import (
    ANNOTATION,
    Proof,
    annotations_of_mark,
    extended,
    proof_of_run,
    what_is_proved,
)
from restow.migrator.decide.prune import PruneVerdict
from restow.migrator.model.callbacks import MigrationRefused
from restow.migrator.model.options import Engine, Options, Phase
from restow.migrator.model.report import CrdReport
from restow.migrator.requests.crdaccess import DELETED, annotate, patch_stored_versions, read_crd
from restow.migrator.requests.environment import RunStop
from restow.migrator.requests.passes import unfinished
from restow.migrator.requests.preflight import no_mark
from restow.migrator.requests.premisecheck import PremiseCheck
from restow.migrator.run.shards import ShardRun

_ATTEMPTS = 10


class Pruner:
    """Proves, prunes and marks after a pass.

    Args:
        cluster: the API server.
        options: the options of the run.
        stop: once it is set, nothing is pruned any more, because another process may lead by then.
        report: the report of the pass, to which the pruner adds the end.
    """

    def __init__(self, cluster: Cluster, options: Options, stop: RunStop, report: CrdReport) -> None:
        self._cluster = cluster
        self._options = options
        self._stop = stop
        self._report = report
        self._unanswered = False

    async def prune(self, check: PremiseCheck, share: ShardRun | None) -> PruneVerdict:
        """Prune and write the proof, if both are justified; the result is in the report.

        Args:
            check: the premise of the pass, and the changes of the CRD since.
            share: the shard's share, or None for all objects.
        """
        report, start = self._report, check.premise.crd
        if (why := self._nothing_proved()) is not None:
            report.pruned_reason = why
            return PruneVerdict(prune=False)
        try:
            if share is not None:
                verdict = await share.record(check)
                if not verdict.prune:
                    report.pruned_reason = verdict.reason
                    return verdict
            return await self._prune_proved(check, share)
        except (KubeError, MigrationRefused, CrdError) as error:
            if isinstance(error.__cause__, NotFound):  # the cause of a refusal to read the CRD
                report.pruned_reason = report.unfinished = DELETED.format(name=start.name)
                return PruneVerdict(prune=False)
            said = error.said if isinstance(error, KubeError) else str(error)
            report.unreachable = self._cluster.host if isinstance(error, KubeError) and error.out_of_reach else ""
            if report.pruned:
                report.unfinished = f"the proof could not be left on {start.name}: {said}. Run again to leave it"
                return PruneVerdict(prune=False)
            report.pruned_reason = f"status.storedVersions could not be pruned: {said}"
            report.unfinished = f"{report.pruned_reason}. All objects are done; run again to prune"
            return PruneVerdict(prune=False)

    async def extend_proof(self, crd: Crd) -> None:
        """Rewrite the proof for the CRD's present generation, for which it still holds."""
        proof = extended(what_is_proved(crd))
        if proof is None:
            return
        self._report.proof = proof.encode()
        try:
            await annotate(self._cluster, crd, {ANNOTATION: proof.encode()}, unchanged=True)
        except Conflict:
            return  # it is valid until the next change

    def _nothing_proved(self) -> str | None:
        """Return why the pass proves nothing about all objects, or None."""
        report, options = self._report, self._options
        if report.objects.failed:
            return f"{report.objects.failed} objects failed"
        if report.unfinished:
            return report.unfinished
        if options.dry_run:
            return "dry run"
        if options.partial:
            return "only a part of the objects was looked at (--namespace or --selector)"
        return None

    async def _prune_proved(self, check: PremiseCheck, share: ShardRun | None) -> PruneVerdict:
        """Decide on a fresh read, and again whenever another client writes the CRD in between."""
        report, start = self._report, check.premise.crd
        conflicts = 0
        while conflicts < _ATTEMPTS:
            now = await read_crd(self._cluster, start.name)
            if self._stop:  # the process that leads now will prune
                report.pruned_reason = report.unfinished = unfinished(report, self._stop)
                report.unreachable = self._stop.unreachable
                return PruneVerdict(prune=False)
            verdict = await check.judge(now)
            if verdict.prune and share is not None:
                verdict = share.judge(now, check.generations, report)
            if not verdict.prune:
                report.pruned_reason = verdict.reason
                return verdict
            try:
                now = await self._trim(start, now)
                proof = proof_of_run(start, now, self._options)
                await self._leave(now, proof)
            except Conflict as conflict:
                # The next read shows whether a write with an unknown outcome was carried out.
                conflicts += not isinstance(conflict, OutcomeUnknown)
                continue
            report.stored_after = now.stored_versions
            if share is not None:
                await share.close()
            return verdict
        reason = f"{start.name} was written by others each time its status.storedVersions was about to be pruned"
        report.pruned_reason = reason
        return PruneVerdict(prune=False, reason=reason, again=True)

    async def _trim(self, start: Crd, now: Crd) -> Crd:
        """Set storedVersions to the storage version, if the options ask for it; return the resulting CRD."""
        report, exact = self._report, (start.storage.name,)
        if not self._options.does(Phase.PRUNE):
            report.pruned_reason = "the prune phase is switched off"
        elif not self._options.does(Phase.STORAGE):
            report.pruned_reason = "the storage phase is switched off"
        elif now.stored_versions != exact:
            try:
                now = await patch_stored_versions(self._cluster, now, exact)
            except OutcomeUnknown:
                self._unanswered = True
                raise
            report.pruned = True
            report.pruned_reason = "every object is stored at the storage version"
        elif self._unanswered:
            report.pruned, report.pruned_reason = True, "every object is stored at the storage version"
        elif not report.pruned:
            report.pruned = start.stored_versions != exact and self._options.engine is Engine.NATIVE
            report.pruned_reason = _pruned_by_others(start, ours=report.pruned)
        return now

    async def _leave(self, now: Crd, proof: Proof | None) -> None:
        """Replace the watermark and the tokens of runs by the proof; a run that was to prune fails without it.

        Raises:
            Conflict: another client wrote the CRD meanwhile; decide again.
        """
        if proof is None:
            return
        report = self._report
        report.proof = proof.encode()
        mark = annotations_of_mark(now, proof, rewritten=report.objects.rewritten > 0)
        if said := await annotate(self._cluster, now, mark, unchanged=True):
            if self._options.prunes:
                report.unmarked = no_mark(now, said)
            else:
                report.warn([no_mark(now, said)])


def _pruned_by_others(start: Crd, *, ours: bool) -> str:
    """Return why there was nothing left to prune."""
    if ours:
        return "the cluster's own migration pruned, and every object was seen to be stored at the storage version"
    if start.stored_versions != (start.storage.name,):
        return "status.storedVersions was pruned by another run meanwhile; every object is at the storage version"
    return "status.storedVersions names only the storage version already"
