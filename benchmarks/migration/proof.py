"""The cost of proof: a run on objects that are current, compared with the migration before it."""

from __future__ import annotations

import hashlib

import msgspec

from benchmarks.migration.contenders import measure, restow_command, restow_proof
from benchmarks.migration.course import Course, Herd, Section, say
from benchmarks.migration.manifests import Variant
from benchmarks.migration.meters import quiet
from benchmarks.migration.results import Run, costs_table, rates_table, summary
from benchmarks.migration.subject import Subject
from benchmarks.tables import Result, at_most, exactly

__all__ = ["PROOF"]

_PLURAL = "provens"
_MANY = 50_000
"""From this number of objects one round has to suffice, because it takes minutes."""


async def _resource_versions(subject: Subject) -> str:
    """Return a digest of every object's resourceVersion, which changes with every write that stores something."""
    digest = hashlib.sha256()
    async for name, version in subject.resource_versions():
        digest.update(msgspec.json.encode([name, version]))
    return digest.hexdigest()


async def _measure(course: Course) -> Result:
    subject = course.subjects[_PLURAL]
    say(f"the cost of proof: {subject.count} objects")
    full, proof = restow_command(), restow_proof()
    migrations: list[Run] = []
    proofs: list[Run] = []
    stored = 0
    for _ in range(min(course.plan.runs, 3) if subject.count < _MANY else 1):
        migrations.append(await course.run(_PLURAL, full))
        await subject.unprove()
        before = await _resource_versions(subject)
        await quiet(course.stage.plane, course.plan.patience)
        proofs.append(await measure(course.stage, subject, proof))
        say(f"  {_PLURAL}: {proof.name}: {proofs[-1].rate:.0f}/s")
        stored += before != await _resource_versions(subject)
    course.runs += proofs
    whole, again = summary(migrations), summary(proofs)
    return Result(
        f"The cost of proof: {subject.count} objects",
        [
            rates_table(
                "A migration, and a run that only proves",
                [whole, again],
                "of the migration",
                whole.rate,
                whole.server_cores,
                others=(again.contender,),
            ),
            costs_table("CPU, milliseconds per object", [whole, again]),
        ],
        [
            exactly("runs that proved and changed what is stored", float(stored), 0.0),
            exactly("writes per object of a run that proves", again.writes, 1.0),
            at_most("CPU of the API server, proof / migration", again.server_ms / whole.server_ms, 2.5),
            at_most("CPU of etcd, proof / migration", again.etcd_ms / whole.etcd_ms, 1.0),
        ],
    )


PROOF = Section(lambda plan: [Herd(_PLURAL, Variant.PLAIN, plan.scale[-1][0])], _measure)
