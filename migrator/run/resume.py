"""Resume an interrupted migration: write a watermark before the first object, and skip objects written after one.

``restow.migrator.model.watermark`` explains what a watermark proves, and why it is an annotation of the CRD.
"""

from __future__ import annotations

import logging
from dataclasses import replace

from restow.crds import Crd
from restow.migrator.model.watermark import ANNOTATION, Watermark, valid_watermark
from restow.migrator.ownership.policy import EntryPolicies
from restow.migrator.requests.crdaccess import annotate
from restow.migrator.run.context import CrdRun

__all__ = ["leave_watermark", "resume"]


_log = logging.getLogger(__name__)


def resume(run: CrdRun, crd: Crd, policies: EntryPolicies) -> EntryPolicies:
    """Return policies that skip objects written after an earlier run's watermark.

    They are unchanged if the options do not ask for this, or if no watermark is valid.
    """
    run.report.resumed_from = ""
    found = valid_watermark(crd, run.options.settle_s) if run.options.resume else None
    if found is None or not policies.reencode or policies.written_since:
        return policies
    run.report.resumed_from = found.resource_version
    return replace(policies, written_since=found.resource_version)


async def leave_watermark(run: CrdRun, crd: Crd, policies: EntryPolicies, resource_version: str) -> None:
    """Write the list's resourceVersion on the CRD, unless an older watermark is still valid, which covers more."""
    options, report = run.options, run.report
    if not policies.reencode or options.dry_run:
        return
    taken = valid_watermark(crd, options.settle_s)
    if taken is None:
        taken = Watermark.taken(crd, resource_version, options.settle_s)
    elif taken.generation == crd.generation:
        return
    else:
        taken = taken.renewed(crd)
    if taken is None:
        _log.info("%s: resourceVersion %r compares to nothing, so no run can resume", crd.name, resource_version)
    elif said := await annotate(run.cluster, crd, {ANNOTATION: taken.encode()}):
        _log.info("%s: the watermark could not be left: %s", crd.name, said)
        if options.resume:
            report.warnings.append(f"the watermark could not be left on {crd.name}, so no run can resume ({said})")
