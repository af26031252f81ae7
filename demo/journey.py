"""The story: one API version, from its first object to its removal, and everything that is checked on the way."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence

from demo import applying, cast, checks, endings
from demo.answers import Answer
from demo.applying import Apply
from demo.cast import Database
from demo.checks import Check
from demo.crd import DEFAULT_POLICY, GROUP, NEW, OLD, TROUBLE_GROUP, Life, crd_name
from demo.deeds import Deeds
from demo.narration import Story
from demo.population import members, populate, writes_due
from demo.traffic import Traffic
from demo.trouble import show_trouble
from demo.truth import Stored, key_prefix, stored
from demo.writing import Writer
from restow.cli.progress import Progress
from restow.commands import migrate as migrate_command
from restow.commands import plan as plan_command
from restow.commands import ready as ready_command
from restow.controlplane import ControlPlane
from restow.kube import Cluster
from restow.migrator import CrdReport, Migration, Moment, Options, plan, read_crd, ready

__all__ = ["Journey"]

_CRD = crd_name(GROUP)
_MIGRATED = "migrated"
_SETTLE_S = 5.0
"""Less than a migration waits elsewhere: no admission webhook holds a request on this cluster."""
_SERVED = f"{OLD} still served"
_UNSERVED = f"{OLD} unserved"
_REMOVED = f"{OLD} removed"


class Journey:
    """Tells the story on a control plane, and collects the checks.

    Args:
        story: where it is told.
        plane: a control plane of one's own, running.
        cluster: a client of it.
        count: how many databases there are to be.
    """

    def __init__(self, story: Story, plane: ControlPlane, cluster: Cluster, count: int) -> None:
        self._story = story
        self._etcd = plane.etcd
        self._cluster = cluster
        self._writer = Writer(cluster, GROUP)
        self._databases = members(count)
        self._before: dict[str, Stored] = {}
        self._now: dict[str, Stored] = {}
        self._deeds = Deeds()
        self.checks: list[Check] = []

    async def tell(self) -> None:
        """Tell it from the beginning to the end."""
        await self._first_version()
        await self._second_version()
        with self._story.step("What goes wrong without restow"):
            await show_trouble(self._story, Writer(self._cluster, TROUBLE_GROUP), self._etcd)
        await self._plan()
        await self._migrate()
        await self._old_clients()
        await self._unserve()
        await self._remove()
        await self._owners_act()

    async def _first_version(self) -> None:
        story, databases = self._story, self._databases
        with story.step(f"A CRD with {OLD}, and clients that use it"):
            await self._writer.create_namespaces(cast.NAMESPACES)
            story.types(f"kubectl apply --server-side -f {_CRD}.yaml")
            (await self._writer.apply_crd(Life.ALONE)).accepted()
            with story.counting("writing databases", writes_due(databases)) as done:
                made = await populate(self._writer, databases, done=done)
            self._before = await self._look()
            story.tell(
                f"{made.platform} databases in {len(cast.NAMESPACES)} namespaces, written at {OLD} by four managers:"
            )
            story.tell(f"- {cast.PLATFORM} applies each of them, with its item of the keyed list spec.users;")
            story.tell(f"- {cast.BACKUP} applies spec.backup and another item of spec.users, on {made.backup};")
            story.tell(f"- {cast.CONTROLLER} applies the status with its (atomic) conditions, on {made.controller};")
            story.tell(f"- {cast.EDITOR} sends merge patches, on {made.editor}.")
            protected = len(cast.PROTECTED.of(databases))
            story.tell(f"{protected} have a finalizer; {made.deleting} of those are being deleted and wait for it.")

    async def _second_version(self) -> None:
        story = self._story
        with story.step(f"The CRD gets {NEW}, the new storage version; {OLD} is still served"):
            story.tell(
                f"{NEW} has spec.deletionPolicy, by default {DEFAULT_POLICY}, and status.conditions keyed by type."
            )
            story.types(f"kubectl apply --server-side -f {_CRD}.yaml")
            answer = (await self._writer.apply_crd(Life.SUCCEEDED)).accepted()
            versions = ", ".join(answer.object["status"]["storedVersions"])
            story.tell(
                f"status.storedVersions is now {versions}. No object was touched: etcd holds {await self._versions()}."
            )

    async def _plan(self) -> None:
        story = self._story
        with story.step("With restow: look first"):
            story.types(f"restow plan {_CRD}")
            crd = (await read_crd(self._cluster, _CRD)).crd
            plan_command.show([await plan(self._cluster, crd, Options())], "table")

    async def _migrate(self) -> None:
        story = self._story
        with story.step("Migrate, while clients keep writing"):
            story.tell(
                f"Clients at {OLD} write meanwhile, one write at a time each: {cast.PLATFORM} resizes databases, "
                f"{cast.EDITOR} tunes some, one creates some, one deletes some."
            )
            story.types(f"restow migrate {_CRD}")
            traffic, ended = Traffic(self._writer, self._databases), asyncio.Event()
            async with asyncio.TaskGroup() as group:
                group.create_task(traffic.run(ended))
                try:
                    report = await self._run_migration(_MIGRATED)
                finally:
                    ended.set()
            self._deeds = traffic.deeds
            self._tell_traffic(report)
            self.checks.append(checks.pruned(_MIGRATED, await self._writer.stored_versions()))
            self.checks.append(checks.client_writes(_MIGRATED, self._deeds))
            await self._check_migration(_MIGRATED, clients_of_old=True)
            self._tell_checks(_MIGRATED)

    def _tell_traffic(self, report: CrdReport) -> None:
        deeds = self._deeds
        self._story.tell(
            f"Clients made {deeds.writes} writes meanwhile: {sum(deeds.spec_writes.values())} changes, "
            f"{len(deeds.created)} databases created, {len(deeds.deleted)} deleted. Requests of restow that "
            f"met one of them at the same object, and were decided anew: {report.requests.retried}."
        )

    async def _old_clients(self) -> None:
        story = self._story
        old = cast.OLD_MANIFESTS.of(self._present())
        with story.step(f"{OLD} is still served: whoever has old manifests applies them as ever"):
            await self._apply(old, OLD, _SERVED, f"old manifests apply at {OLD}, no force, no conflict")
            story.tell(
                f"That turned their entries back to {OLD}, as it has to: an entry is at the version of its manager's "
                "last write. So it is too early to let the version go:"
            )
            self.checks.append(checks.readiness(_SERVED, await self._ready(), wanted=False))
            self._tell_checks(_SERVED)

    async def _unserve(self) -> None:
        story = self._story
        with story.step(f"{OLD} is not served any more, and restow finishes what its last clients left"):
            story.types(f"kubectl apply --server-side -f {_CRD}.yaml")
            (await self._writer.apply_crd(Life.UNSERVED)).accepted()
            story.types(f"restow migrate {_CRD}")
            await self._run_migration(_UNSERVED)
            await self._check_migration(_UNSERVED, clients_of_old=False)
            self.checks.append(checks.readiness(_UNSERVED, await self._ready(), wanted=True))
            self._tell_checks(_UNSERVED)

    async def _remove(self) -> None:
        story = self._story
        with story.step(f"{OLD} is removed from the CRD; every manager applies again"):
            story.types(f"kubectl apply --server-side -f {_CRD}.yaml")
            answer = await self._writer.apply_crd(Life.REMOVED)
            self.checks.append(checks.accepted(_REMOVED, f"the API server lets {OLD} go", answer.refusal))
            again = [*cast.APPLIED_AGAIN.of(self._present()), *self._deeds.created]
            story.tell(
                f"Every manager applies every third database, and those created meanwhile: {len(again)} of them."
            )
            wanted = await self._apply(again, NEW, _REMOVED, f"every manager applies at {NEW}, no force, no conflict")
            what = "and these applies changed not one byte in etcd"
            self.checks.append(applying.nothing_written(_REMOVED, what, wanted, self._now, await self._look()))
            self._tell_checks(_REMOVED)

    async def _owners_act(self) -> None:
        story = self._story
        with story.step("Owners do what only owners can"):
            for ending in endings.ENDINGS:
                story.tell(ending.story)
                wanted = endings.applies_of(ending, self._present(), self._deeds.storage)
                answers = await self._writer.apply_all(wanted)
                self._hear_a_refusal(answers)
                self._conclude(endings.judge(_REMOVED, ending, wanted, answers))
            story.tell(f"{cast.PLATFORM} drops its finalizer from the databases that are being deleted.")
            released = cast.DELETING.of(self._present())
            await self._writer.apply_all(endings.releases(released))
            self._conclude(endings.deletions_ended(_REMOVED, released, await self._look()))

    async def _run_migration(self, when: str) -> CrdReport:
        async with Progress() as progress:
            observer = _Narrator(self._story, progress)
            report = await Migration(self._cluster, Options(settle_s=_SETTLE_S), observer=observer).run([_CRD])
        migrate_command.show(report, "table")
        crd = report.crds[0]
        problem = crd.refused or crd.unfinished or "".join(failure.message for failure in crd.failures[:1])
        self.checks.append(checks.accepted(when, "restow migrate reports success", problem))
        return crd

    async def _ready(self) -> bool:
        self._story.types(f"restow ready {_CRD} --drop {OLD}")
        crd = (await read_crd(self._cluster, _CRD)).crd
        answer = await ready(self._cluster, crd, OLD)
        ready_command.show(answer, "table")
        return answer.ready

    async def _apply(self, databases: Sequence[Database], version: str, when: str, what: str) -> list[Apply]:
        """Let every manager apply what it owns, without force, and return these applies."""
        wanted = list(applying.applies(databases, version, self._deeds.storage))
        self._story.types("kubectl apply --server-side --field-manager=… -f …    (each manager, all it owns)")
        with self._story.counting("applying", len(wanted)) as done:
            answers = await self._writer.apply_all(wanted, done=done)
        self.checks.append(applying.no_conflicts(when, what, wanted, answers))
        return wanted

    async def _check_migration(self, when: str, *, clients_of_old: bool) -> None:
        now = self._now = await self._look()
        self.checks += checks.after_migration(when, self._before, now, self._deeds, clients_of_old=clients_of_old)

    async def _versions(self) -> str:
        """Say how many objects etcd holds at which version."""
        counted = Counter(each.api_version.rpartition("/")[2] for each in (await self._look()).values())
        return " and ".join(f"{count} at {version}" for version, count in sorted(counted.items()))

    async def _look(self) -> dict[str, Stored]:
        """Read all databases from etcd."""
        prefix = key_prefix(GROUP)
        return {key.removeprefix(prefix): stored(value) async for key, value in self._etcd.prefix(prefix)}

    def _present(self) -> list[Database]:
        """Return the databases that were there from the beginning and that no client deleted."""
        deleted = set(self._deeds.deleted)
        return [database for database in self._databases if database not in deleted]

    def _hear_a_refusal(self, answers: Sequence[Answer]) -> None:
        refusal = next((answer.refusal for answer in answers if answer.refusal), "")
        if refusal:
            self._story.hears(refusal)

    def _conclude(self, check: Check) -> None:
        self.checks.append(check)
        self._story.hears(check.verdict, good=check.passed)

    def _tell_checks(self, when: str) -> None:
        """Say in a line how a step's checks came out; the table at the end has each of them."""
        these = [check for check in self.checks if check.when == when]
        for check in these:
            if not check.passed:
                self._story.hears(f"{check.what}: {check.verdict}", good=False)
        passed = sum(check.passed for check in these)
        self._story.hears(f"{passed} of {len(these)} checks passed.", good=passed == len(these))


class _Narrator:
    """Passes a migration's moments on to the progress bar, and says why it waits."""

    def __init__(self, story: Story, progress: Progress) -> None:
        self._story = story
        self._progress = progress

    def at(self, moment: Moment, report: CrdReport) -> None:
        """Take note."""
        if moment is Moment.SETTLING:
            self._story.tell(
                f"It waits {report.settle_s:.1f} s: for some moments after a change of the CRD, another API server may "
                "still store objects at the old version, so 5 s have to pass before it lists them."
            )
        else:
            self._progress.at(moment, report)
