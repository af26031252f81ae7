"""The scenario: one API version from its first object to its removal, with a check after each step."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from demo import checks, fixtures, outcomes
from demo.checks import Check, ClientWrites
from demo.client import DatabaseClient, Response
from demo.faults import show_faults
from demo.fixtures import DEFAULT_POLICY, FAULTS_GROUP, GROUP, NEW, OLD, Apply, CrdStage, Database, crd_name
from demo.narration import Narration
from demo.state import StoredObject, key_prefix, stored
from demo.workload import ConcurrentClients, databases_numbered, populate, writes_due
from restow.cli.progress import Progress
from restow.commands import migrate as migrate_command
from restow.commands import plan as plan_command
from restow.commands import ready as ready_command
from restow.commands import references as references_command
from restow.controlplane import ControlPlane
from restow.kube import Cluster
from restow.kube.resources import qualified_name
from restow.migrator import CrdReport, Migration, Options, find_references, plan, read_crd, ready, sought
from restow.migrator.model.callbacks import Moment
from restow.migrator.planning.ready import Readiness
from restow.migrator.references.move import move_references
from restow.migrator.references.reference import ReferenceKind

__all__ = ["Scenario"]

_CRD = crd_name(GROUP)
_MIGRATED = "migrated"
_SETTLE_S = 5.0
"""Shorter than the default, because no admission webhook delays requests on this cluster."""
_SERVED = f"{OLD} still served"
_UNSERVED = f"{OLD} unserved"
_MOVED = "references moved"
_REMOVED = f"{OLD} removed"


class Scenario:
    """Runs the scenario on a control plane, and collects the checks.

    Args:
        narration: receives the output.
        plane: a running control plane, which the demo owns.
        cluster: a client of the control plane.
        count: the number of databases.
    """

    def __init__(self, narration: Narration, plane: ControlPlane, cluster: Cluster, count: int) -> None:
        self._narration = narration
        self._etcd = plane.etcd
        self._cluster = cluster
        self._client = DatabaseClient(cluster, GROUP)
        self._databases = databases_numbered(count)
        self._before: dict[str, StoredObject] = {}
        self._now: dict[str, StoredObject] = {}
        self._config_maps: list[Mapping[str, Any]] = []
        self._writes = ClientWrites()
        self.checks: list[Check] = []

    async def run(self) -> None:
        """Run all steps."""
        await self._first_version()
        await self._second_version()
        with self._narration.step("What goes wrong without restow"):
            await show_faults(self._narration, DatabaseClient(self._cluster, FAULTS_GROUP), self._etcd)
        await self._plan()
        await self._migrate()
        await self._old_clients()
        await self._references()
        await self._unserve()
        await self._remove()
        await self._owners_act()

    async def _first_version(self) -> None:
        narration, databases = self._narration, self._databases
        with narration.step(f"A CRD with {OLD}, and clients that use it"):
            await self._client.create_namespaces(fixtures.NAMESPACES)
            narration.command(f"kubectl apply --server-side -f {_CRD}.yaml")
            (await self._client.apply_crd(CrdStage.ALONE)).or_raise()
            with narration.counting("writing databases", writes_due(databases)) as done:
                made = await populate(self._client, databases, done=done)
            self._before = await self._stored_objects()
            configured = fixtures.CONFIGURED.of(databases)
            manifests = [fixtures.config_map(each, self._before[each.key].uid) for each in configured]
            applied = [(await self._client.apply(each, fixtures.CONTROLLER)).or_raise() for each in manifests]
            self._config_maps = [each.object for each in applied]
            narration.say(
                f"{made.platform} databases in {len(fixtures.NAMESPACES)} namespaces, "
                f"written at {OLD} by four managers:"
            )
            narration.say(f"- {fixtures.PLATFORM} applies each of them, with its item of the keyed list spec.users;")
            narration.say(f"- {fixtures.BACKUP} applies spec.backup and another item of spec.users, on {made.backup};")
            narration.say(
                f"- {fixtures.CONTROLLER} applies the status with its (atomic) conditions, on {made.controller}; "
                f"{len(configured)} of them own a ConfigMap that it wrote;"
            )
            narration.say(f"- {fixtures.EDITOR} sends merge patches, on {made.editor}.")
            protected = len(fixtures.PROTECTED.of(databases))
            narration.say(f"{protected} have a finalizer; {made.deleting} of those are being deleted and wait for it.")

    async def _second_version(self) -> None:
        narration = self._narration
        with narration.step(f"The CRD gets {NEW}, the new storage version; {OLD} is still served"):
            narration.say(
                f"{NEW} has spec.deletionPolicy, by default {DEFAULT_POLICY}, and status.conditions keyed by type."
            )
            narration.command(f"kubectl apply --server-side -f {_CRD}.yaml")
            response = (await self._client.apply_crd(CrdStage.SUCCEEDED)).or_raise()
            versions = ", ".join(response.object["status"]["storedVersions"])
            narration.say(
                f"status.storedVersions is now {versions}. No object was touched: etcd holds {await self._versions()}."
            )

    async def _plan(self) -> None:
        narration = self._narration
        with narration.step("With restow: look first"):
            narration.command(f"restow plan {_CRD}")
            crd = await read_crd(self._cluster, _CRD)
            plan_command.show([await plan(self._cluster, crd, Options())], "table")

    async def _migrate(self) -> None:
        narration = self._narration
        with narration.step("Migrate, while clients keep writing"):
            narration.say(
                f"Clients at {OLD} write meanwhile, one write at a time each: {fixtures.PLATFORM} resizes databases, "
                f"{fixtures.EDITOR} tunes some, one creates some, one deletes some."
            )
            narration.command(f"restow migrate {_CRD}")
            clients, ended = ConcurrentClients(self._client, self._databases), asyncio.Event()
            async with asyncio.TaskGroup() as group:
                group.create_task(clients.run(ended))
                try:
                    report = await self._run_migration(_MIGRATED)
                finally:
                    ended.set()
            self._writes = clients.writes
            self._show_writes(report)
            self.checks.append(checks.pruned(_MIGRATED, await self._client.stored_versions()))
            self.checks.append(checks.client_writes(_MIGRATED, self._writes))
            await self._check_migration(_MIGRATED, clients_of_old=True)
            self._show_checks(_MIGRATED)

    def _show_writes(self, report: CrdReport) -> None:
        writes = self._writes
        self._narration.say(
            f"Clients made {writes.total} writes meanwhile: {sum(writes.spec_writes.values())} changes, "
            f"{len(writes.created)} databases created, {len(writes.deleted)} deleted. restow met one of them at "
            f"the same object and decided again {report.requests.retried} times."
        )

    async def _old_clients(self) -> None:
        narration = self._narration
        old = fixtures.OLD_MANIFESTS.of(self._present())
        with narration.step(f"{OLD} is still served: users of old manifests apply them as before"):
            await self._apply(old, OLD, _SERVED, f"old manifests apply at {OLD}, no force, no conflict")
            narration.say(
                f"That turned their entries back to {OLD}, as it has to: an entry is at the version of its manager's "
                "last write. So it is too early to let the version go:"
            )
            self.checks.append(checks.readiness(_SERVED, await self._ready(), wanted=False))
            self._show_checks(_SERVED)

    async def _references(self) -> None:
        """Find and move references to the old version, while it is still served."""
        narration = self._narration
        with narration.step(f"Before {OLD} is unserved: what else in the cluster names it?"):
            narration.say(
                f"{len(self._config_maps)} ConfigMaps have an ownerReference at {OLD}. The garbage collector looks an "
                f"owner up at that version: without {OLD} it leaves them behind when their database is deleted."
            )
            name = f"{_CRD} --version {OLD} --kinds owner-references"
            narration.command(f"restow references {name}")
            crd = await read_crd(self._cluster, _CRD)
            of, kinds = sought(crd, OLD), {ReferenceKind.OWNER_REFERENCES}
            found = (await find_references(self._cluster, [of], kinds=kinds))[of]
            references_command.show([found], "table")
            made = [
                qualified_name(each["metadata"]["namespace"], each["metadata"]["name"]) for each in self._config_maps
            ]
            self.checks.append(checks.references_found(_MOVED, made, [each.key for each in found.references]))
            narration.command(f"restow references {name} --move {NEW}")
            references_command.show_moves([await move_references(self._cluster, crd, OLD, NEW, kinds=kinds)], "table")
            now = [
                (await self._client.config_map(each["metadata"]["namespace"], each["metadata"]["name"])).or_raise()
                for each in self._config_maps
            ]
            self.checks.append(checks.references_moved(_MOVED, self._config_maps, [each.object for each in now]))
            narration.say(f"Now {OLD} may be unserved. To be removed, it still has to lose the entries of its clients:")
            self.checks.append(checks.unserving(_MOVED, not (await self._readiness()).against_unserving))
            self._show_checks(_MOVED)

    async def _unserve(self) -> None:
        narration = self._narration
        with narration.step(f"{OLD} is not served any more, and restow finishes what its last clients left"):
            narration.command(f"kubectl apply --server-side -f {_CRD}.yaml")
            (await self._client.apply_crd(CrdStage.UNSERVED)).or_raise()
            narration.command(f"restow migrate {_CRD}")
            await self._run_migration(_UNSERVED)
            await self._check_migration(_UNSERVED, clients_of_old=False)
            self.checks.append(checks.readiness(_UNSERVED, await self._ready(), wanted=True))
            self._show_checks(_UNSERVED)

    async def _remove(self) -> None:
        narration = self._narration
        with narration.step(f"{OLD} is removed from the CRD; every manager applies again"):
            narration.command(f"kubectl apply --server-side -f {_CRD}.yaml")
            response = await self._client.apply_crd(CrdStage.REMOVED)
            self.checks.append(checks.accepted(_REMOVED, f"the API server lets {OLD} go", response.refusal))
            await self._show_owner(fixtures.APPLIED_AGAIN.of(self._present())[0])
            again = [*fixtures.APPLIED_AGAIN.of(self._present()), *self._writes.created]
            narration.say(
                f"Every manager applies every third database, and those created meanwhile: {len(again)} of them."
            )
            wanted = await self._apply(again, NEW, _REMOVED, f"every manager applies at {NEW}, no force, no conflict")
            what = "and these applies changed not one byte in etcd"
            self.checks.append(checks.nothing_written(_REMOVED, what, wanted, self._now, await self._stored_objects()))
            self._show_checks(_REMOVED)

    async def _show_owner(self, database: Database) -> None:
        """Let an owner apply what it always applied; without restow this is the apply that fails."""
        narration, manager = self._narration, fixtures.PLATFORM
        narration.command(f"kubectl apply --server-side --field-manager={manager} -f {database.key}.yaml")
        manifest = fixtures.platform_manifest(database, NEW, storage=self._writes.storage.get(database.number))
        applied = await self._client.apply(manifest, manager)
        owners = ", ".join(sorted({each["manager"] for each in applied.entries}))
        narration.output(applied.refusal or f"200 OK; owners: {owners}", good=not applied.refusal)

    async def _owners_act(self) -> None:
        narration = self._narration
        with narration.step("Owners do what only owners can"):
            for outcome in outcomes.OUTCOMES:
                narration.say(outcome.narration)
                wanted = outcomes.applies_of(outcome, self._present(), self._writes.storage)
                responses = await self._client.apply_all(wanted)
                self._show_refusal(responses)
                self._conclude(outcomes.judge(_REMOVED, outcome, wanted, responses))
            narration.say(f"{fixtures.PLATFORM} drops its finalizer from the databases that are being deleted.")
            released = fixtures.DELETING.of(self._present())
            await self._client.apply_all(outcomes.releases(released))
            self._conclude(outcomes.deletions_ended(_REMOVED, released, await self._stored_objects()))

    async def _run_migration(self, when: str) -> CrdReport:
        async with Progress() as progress:
            observer = _MigrationObserver(self._narration, progress)
            report = await Migration(self._cluster, Options(settle_s=_SETTLE_S), observer=observer).run([_CRD])
        migrate_command.show(report, "table")
        crd = report.crds[0]
        problem = crd.refused or crd.unfinished or "".join(failure.message for failure in crd.failures[:1])
        self.checks.append(checks.accepted(when, "restow migrate reports success", problem))
        return crd

    async def _ready(self) -> bool:
        return (await self._readiness()).ready

    async def _readiness(self) -> Readiness:
        self._narration.command(f"restow ready {_CRD} --drop {OLD}")
        crd = await read_crd(self._cluster, _CRD)
        readiness = await ready(self._cluster, crd, OLD)
        ready_command.show(readiness, "table")
        return readiness

    async def _apply(self, databases: Sequence[Database], version: str, when: str, what: str) -> list[Apply]:
        """Let every manager apply its own fields without force, and return these applies."""
        wanted = list(fixtures.applies(databases, version, self._writes.storage))
        self._narration.command("kubectl apply --server-side --field-manager=… -f …    (each manager, all it owns)")
        with self._narration.counting("applying", len(wanted)) as done:
            responses = await self._client.apply_all(wanted, done=done)
        self.checks.append(checks.no_conflicts(when, what, wanted, responses))
        return wanted

    async def _check_migration(self, when: str, *, clients_of_old: bool) -> None:
        now = self._now = await self._stored_objects()
        self.checks += checks.after_migration(when, self._before, now, self._writes, clients_of_old=clients_of_old)

    async def _versions(self) -> str:
        """Return the number of objects at each version in etcd."""
        counted = Counter(each.api_version.rpartition("/")[2] for each in (await self._stored_objects()).values())
        return " and ".join(f"{count} at {version}" for version, count in sorted(counted.items()))

    async def _stored_objects(self) -> dict[str, StoredObject]:
        """Read all databases from etcd."""
        prefix = key_prefix(GROUP)
        return {key.removeprefix(prefix): stored(value) async for key, value in self._etcd.prefix(prefix)}

    def _present(self) -> list[Database]:
        """Return the initial databases that no client has deleted."""
        deleted = set(self._writes.deleted)
        return [database for database in self._databases if database not in deleted]

    def _show_refusal(self, responses: Sequence[Response]) -> None:
        refusal = next((response.refusal for response in responses if response.refusal), "")
        if refusal:
            self._narration.output(refusal)

    def _conclude(self, check: Check) -> None:
        self.checks.append(check)
        self._narration.output(check.verdict, good=check.passed)

    def _show_checks(self, when: str) -> None:
        """Summarize a step's checks in one line; the table at the end lists them."""
        these = [check for check in self.checks if check.when == when]
        for check in these:
            if not check.passed:
                self._narration.output(f"{check.what}: {check.verdict}", good=False)
        passed = sum(check.passed for check in these)
        self._narration.output(f"{passed} of {len(these)} checks passed.", good=passed == len(these))


class _MigrationObserver:
    """Forwards the moments of a migration to the progress bar, and explains the settle time."""

    def __init__(self, narration: Narration, progress: Progress) -> None:
        self._narration = narration
        self._progress = progress

    def at(self, moment: Moment, report: CrdReport) -> None:
        """Handle a moment of the migration."""
        if moment is Moment.SETTLING:
            self._narration.say(
                f"It waits {report.settle_s:.1f} s: for some moments after a change of the CRD, another API server may "
                "still store objects at the old version, so 5 s have to pass before it lists them."
            )
        else:
            self._progress.at(moment, report)
