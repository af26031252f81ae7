"""One CRD, and everybody but restow who has to do with it: its clients, its authors, other tools, the cluster.

Each waits until what it did is in force on every API server that hears of it, so that what happens next is what the
history says. Nothing here uses the migrator.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import hashlib
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from restow.controlplane.errors import NotStoredError
from restow.kube.client import HttpCluster
from restow.kube.cluster import PatchType
from restow.kube.errors import ApiError, Conflict, NotFound
from restow.kube.resources import CRDS, Resource
from restow.kube.retry import with_retries
from tests.apiserver.kind import CANARY, Document, Kind, until
from tests.faults.history import History
from tests.histories import edits
from tests.histories.drawing import Act, Step, Way
from tests.histories.edits import is_wired, restows, storage_of
from tests.histories.owners import field_of, rotated
from tests.histories.world import GROUP, HELD, World

_CONTROLLER = "migration-runner-controller"
NATIVE = Resource("storagemigration.k8s.io", "v1beta1", "storageversionmigrations", namespaced=False)
_AUTHOR, _TOOL = {"fieldManager": "kubectl-edit"}, {"fieldManager": "kubectl-patch"}
_NOBODY = {"metadata": {"managedFields": [{}]}}
_HELD_S = 0.5


class Life(Kind):
    """The CRD of one history.

    Attributes:
        second: a session to the second API server.
        past: the CRD after each step; ``objects``: those that etcd had then, ``backups``: everything.
        under_way: a create that an API server has begun.
    """

    def __init__(self, world: World, number: int, versions: Sequence[str]) -> None:
        self.plural = f"lives{number:05}"  # of one length: none is the beginning of another
        super().__init__(world.first, world.plane.etcd, GROUP)
        self.second = world.second
        self.past: list[Document] = []
        self.backups: list[dict[str, str]] = []
        self.objects: list[dict[str, Document]] = []
        self.under_way: asyncio.Task[object] | None = None
        self._history = History(self.etcd.url, self.group, self.plural)
        self._world = world
        self._versions = tuple(versions)
        self._kind = self.plural.capitalize()
        self._edits = 0
        self._size = 0
        self._running = ""
        self._known_to_second = 0

    def manifest(self, version: str, name: str, namespace: str = "default", **parts: Any) -> Document:
        """As in the base, of a kind of its own."""
        return super().manifest(version, name, namespace, **parts) | {"kind": self._kind}

    async def begin(self) -> None:
        """Create the CRD."""
        names = {"plural": self.plural, "singular": self.plural, "kind": self._kind, "listKind": f"{self._kind}List"}
        versions = [
            {"name": each, "served": True, "storage": each == self._versions[0], "schema": edits.schema()}
            for each in self._versions
        ]
        document = {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": self.name},
            "spec": {"group": self.group, "scope": "Namespaced", "names": names, "versions": versions},
        }
        await self.cluster.create(CRDS, json.dumps(document).encode())
        await self.in_force()

    async def happens(self, step: Step) -> None:
        """Let something happen that restow does not do."""
        through = self.second if step.second else self.cluster
        match step.act:
            case Act.WRITE:
                # What is drawn for a server that lags may have caught up meanwhile; then there is no such client.
                with contextlib.suppress(NotFound):
                    await self._write(through, step.version, step.names[0], step.way)
            case Act.DELETE:
                with contextlib.suppress(NotFound):
                    await self.delete(await self._served(), step.names[0])
            case Act.FLIP:
                await self._store_at(step.version)
            case Act.THERE_AND_BACK:
                before = storage_of(await self.crd())
                await self._store_at(step.version)
                newest = max(each["name"] for each in (await self.crd())["spec"]["versions"] if each["served"])
                for name in step.names:
                    await self._write(self.cluster, newest, name, Way.APPLY)
                await self._store_at(before)
            case Act.DESCRIBE:
                self._edits += 1
                await self._edit(lambda crd: edits.describe(crd, f"edited {self._edits} times"))
            case Act.WIRE | Act.NO_WEBHOOK:
                client = self._world.converter if step.act is Act.WIRE else None
                await self._edit(lambda crd: edits.wire(crd, client))
            case Act.ATOMIC:
                await self._edit(lambda crd: edits.make_atomic(crd, step.version))
            case Act.DEFAULT:
                await self._edit(lambda crd: edits.add_default(crd, step.version))
            case Act.SHORTEN:
                self._edits += 1
                names = [f"{self.plural}-{self._edits}"]
                await self._edit(lambda crd: crd["spec"]["names"].update(shortNames=names))
            case Act.UNSERVE | Act.SERVE:
                await self._edit(lambda crd: edits.serve(crd, step.version, served=step.act is Act.SERVE))
            case Act.ANNOTATE:
                self._edits += 1
                await self._annotate({"example.com/edited": str(self._edits)})
            case Act.LOSE_MARK:
                await self._annotate(dict.fromkeys(restows(await self.crd())))
            case Act.STALE_MARK:
                await self._annotate(restows(self.past[step.back]))
            case Act.ROLL_BACK:
                await self._edit(lambda crd: edits.roll_back(crd, self.past[step.back]))
            case Act.RESTORE:
                await self._history.restore(self.backups[step.back])
                await self.in_force()
            case Act.RECREATE:
                await self._recreate()
            case Act.TRIM:
                await self.set_stored_versions([storage_of(await self.crd())])
            case Act.FILL:
                await self.set_stored_versions([each["name"] for each in (await self.crd())["spec"]["versions"]])
            case Act.NATIVE_BEGINS | Act.NATIVE_SUCCEEDED | Act.NATIVE_FAILED | Act.NATIVE_LEFT:
                await self._native(through, step)
            case Act.HOLD:
                self._known_to_second = (await self.crd())["metadata"]["generation"]
                self._world.hold()
            case Act.RELEASE:
                self._world.release()
                await self.in_force()
            case Act.HELD:
                await self._held(step.version, step.names[0])
            case _:
                raise AssertionError(step)

    async def remember(self) -> None:
        """Keep what is so after a step."""
        self.past.append(await self.crd())
        self.backups.append(await self._history.backup())
        self.objects.append(await self.stored())

    async def crd(self) -> Document:
        """The CRD as it is now; every API server reads one from etcd."""
        found: Document = (await self.cluster.get(CRDS, self.name)).json()
        return found

    async def stored(self) -> dict[str, Document]:
        """The objects as etcd holds them, by name."""
        return {key.partition("/")[2]: found for key, found in (await super().stored()).items()}

    async def set_stored_versions(self, versions: Sequence[str]) -> None:
        """Write ``status.storedVersions``, as kubectl would."""
        body = json.dumps({"status": {"storedVersions": list(versions)}}).encode()
        await self.cluster.patch(CRDS, self.name, body, patch_type=PatchType.MERGE, subresource="status", params=_TOOL)

    async def unserve_all_but_storage(self) -> None:
        """Serve the storage version, and no other."""
        await self._edit(edits.serve_storage_only)

    async def without(self, versions: Sequence[str]) -> None:
        """Take versions out of the CRD, and wait until no API server serves them."""

        def change(crd: Document) -> None:
            crd["spec"]["versions"] = [each for each in crd["spec"]["versions"] if each["name"] not in versions]

        await self._replace(change)
        for cluster in self._hearing:
            for version in versions:
                await until(lambda c=cluster, v=version: self._unserved(c, v), f"{cluster.host} still serves {version}")

    async def _unserved(self, cluster: HttpCluster, version: str) -> bool:
        return await self._lists(cluster, version) is False

    async def in_force(self) -> None:
        """Wait until every API server that hears of changes serves and stores what the CRD says."""
        crd = await self.crd()
        for cluster in self._hearing:
            await until(lambda c=cluster: self._serves(c, crd), f"{self.name} is not in force on {cluster.host}")

    @property
    def _hearing(self) -> tuple[HttpCluster, ...]:
        return (self.cluster,) if self._world.holding else (self.cluster, self.second)

    async def _serves(self, cluster: HttpCluster, crd: Document) -> bool:
        """Whether an API server does what the CRD says; the cheapest question first."""
        served = {each["name"]: each["served"] for each in crd["spec"]["versions"]}
        storage = storage_of(crd)
        try:
            if not await self._knows(cluster) or (served[storage] and not await self._announces(cluster, crd)):
                return False
        except ApiError:
            return False
        for version, wanted in served.items():
            if await self._lists(cluster, version) != wanted:
                return False
        writable = next((version for version, is_served in served.items() if is_served), None)
        return writable is None or await self._stores(cluster, writable, storage, wired=is_wired(crd))

    async def _lists(self, cluster: HttpCluster, version: str) -> bool | None:
        """Whether a version is served; None where the answer has to be waited for."""
        try:
            await cluster.list_page(self.at(version), params={"limit": "1"})
        except NotFound:
            return False
        except ApiError:
            return None
        return True

    async def _knows(self, cluster: HttpCluster) -> bool:
        """Whether the CRD has arrived in the cache of an API server, as it is now."""
        cached = (await cluster.get(CRDS, self.name, cached=True)).json()["metadata"]["resourceVersion"]
        return bool(cached == (await self.crd())["metadata"]["resourceVersion"])

    async def _announces(self, cluster: HttpCluster, crd: Document) -> bool:
        """Whether discovery shows the storage version."""
        storage = storage_of(crd)
        wanted = hashlib.sha256(f"{self.group}/{storage}/{self._kind}".encode()).digest()[:8]
        listed = (await cluster.discover(f"/apis/{self.group}/{storage}")).json()["resources"]
        hashes = [each.get("storageVersionHash") for each in listed if each["name"] == self.plural]
        return hashes == [base64.b64encode(wanted).decode()]

    async def _stores(self, cluster: HttpCluster, version: str, storage: str, *, wired: bool) -> bool:
        spec: Document = {"size": 1, field_of(version): "canary"}
        body = self.manifest(version, CANARY, spec=spec)
        try:
            await cluster.create(self.at(version), json.dumps(body).encode(), "default")
            stored = await self.etcd.stored_object(self.group, self.plural, "default", CANARY)
            await cluster.delete(self.at(version), CANARY, "default")
        except (ApiError, NotStoredError):
            with contextlib.suppress(ApiError):
                await cluster.delete(self.at(version), CANARY, "default")
            return False
        wanted = rotated(spec, version, storage) if wired else spec
        return bool(stored["apiVersion"] == f"{self.group}/{storage}" and wanted.items() <= stored["spec"].items())

    async def _served(self) -> str:
        return next(each["name"] for each in (await self.crd())["spec"]["versions"] if each["served"])

    async def _store_at(self, version: str) -> None:
        await self._edit(lambda crd: edits.store_at(crd, version))

    async def _edit(self, change: Any) -> None:
        """Change the CRD, and wait until that is in force."""
        await self._replace(change)
        await self.in_force()

    async def _replace(self, change: Any) -> None:

        async def replaced() -> bool:
            crd = (await self.cluster.get(CRDS, self.name)).json()
            change(crd)
            try:
                await self.cluster.replace(CRDS, self.name, json.dumps(crd).encode(), params=_AUTHOR)
            except Conflict:
                return False
            return True

        await until(replaced, f"{self.name} could not be changed")

    async def _annotate(self, annotations: dict[str, str | None]) -> None:
        body = json.dumps({"metadata": {"annotations": annotations}}).encode()
        await self.cluster.patch(CRDS, self.name, body, patch_type=PatchType.MERGE, params=_AUTHOR)

    async def _write(self, cluster: HttpCluster, version: str, name: str, way: Way) -> None:
        self._size += 1
        spec = {
            "size": self._size,
            "color": "red",
            field_of(version): f"{name}-{self._size}",
            "notes": {"alice": "was here"},
        }
        body = self.manifest(version, name, spec=spec)
        if way is Way.APPLY:
            await self._apply(cluster, body, "alice")
            return
        change = {"color": f"c{self._size}", "notes": {"erin": f"{self._size}"}}
        target, color = self.at(version), json.dumps({"spec": change}).encode()
        manager = {"fieldManager": "erin"}
        try:
            await cluster.patch(target, name, color, "default", patch_type=PatchType.MERGE, params=manager)
        except NotFound:
            await cluster.create(target, json.dumps(body).encode(), "default", params=manager)
        if way is Way.UNTRACKED:
            await cluster.patch(
                target, name, json.dumps(_NOBODY).encode(), "default", patch_type=PatchType.MERGE, params=manager
            )

    async def _apply(self, cluster: HttpCluster, body: Document, manager: str) -> None:
        version, name = body["apiVersion"].split("/")[1], body["metadata"]["name"]
        await cluster.patch(
            self.at(version),
            name,
            json.dumps(body).encode(),
            "default",
            patch_type=PatchType.APPLY,
            params={"fieldManager": manager, "force": "true"},
        )

    async def _held(self, version: str, name: str) -> None:
        """A create begins on the server that lags, which then catches up; the create ends a moment later."""
        if not self._world.holding:  # a run has waited for that
            return
        labels = {"labels": HELD, "name": name}
        body = self.manifest(version, name, metadata=labels, spec={"size": 1, field_of(version): name})
        probe = json.dumps(self.manifest(version, "probe", metadata=labels | {"name": "probe"})).encode()

        async def asked() -> bool:
            await self.second.create(self.at(version), probe, "default", params={"dryRun": "All"})
            return self._world.asked

        await until(asked, "the admission webhook is not in force")
        held = self._world.holds(name)
        creating = self.second.create(self.at(version), json.dumps(body).encode(), "default")
        self.under_way = asyncio.ensure_future(creating)
        await held.came.wait()
        self._world.release()
        await self.in_force()
        asyncio.get_running_loop().call_later(_HELD_S, held.free.set)

    async def ended(self) -> None:
        """Wait for the end of a create that is under way."""
        if self.under_way is not None:
            await self.under_way
            self.under_way = None

    async def _recreate(self) -> None:
        """Delete the CRD with its objects, and create both again from a copy without uids, as a backup tool does."""
        crd, version = await self.crd(), await self._served()
        objects = (await with_retries(self.cluster).list_page(self.at(version))).json()["items"]
        await self.cluster.delete(CRDS, self.name)
        await until(self.gone, f"{self.name} is not gone")
        kept = {"name": self.name, "annotations": crd["metadata"].get("annotations") or {}}
        copy = {key: crd[key] for key in ("apiVersion", "kind", "spec")} | {"metadata": kept}
        await self.cluster.create(CRDS, json.dumps(copy).encode())
        await self.in_force()
        for each in objects:
            metadata = {key: each["metadata"][key] for key in ("name", "namespace")}
            body = json.dumps(each | {"metadata": metadata}).encode()
            await self.cluster.create(self.at(version), body, "default", params={"fieldManager": "backup"})

    async def gone(self) -> bool:
        """Whether the CRD is gone."""
        try:
            await self.crd()
        except NotFound:
            return True
        return False

    async def leave(self) -> None:
        """Delete the CRD with its objects, also with those that no API server can read any more."""
        await self._history.forget()
        with contextlib.suppress(ApiError):
            await self.cluster.delete(CRDS, self.name)

    async def end_native(self) -> None:
        """Let a StorageVersionMigration that is at work succeed."""
        if self._running:
            await self._native(self.cluster, Step(act=Act.NATIVE_SUCCEEDED))

    @property
    def native_at_work(self) -> bool:
        """Whether there is a StorageVersionMigration that is not over."""
        return bool(self._running)

    async def second_lags(self) -> bool:
        """Whether the second API server has not heard of the last change of the CRD."""
        return self._world.holding and (await self.crd())["metadata"]["generation"] != self._known_to_second

    async def _native(self, through: HttpCluster, step: Step) -> None:
        """A StorageVersionMigration, or the end of one that is at work, as the controllers of Kubernetes 1.36 do it.

        Its first refused object fails it. It prunes if the CRD's generation is still the one that it began with.
        """
        if not self._running:
            self._running = await self._native_begins()
        running, began = self._running, (await self.crd())["status"]
        if step.act is Act.NATIVE_BEGINS:
            return
        self._running = ""
        if step.act is Act.NATIVE_LEFT:
            await self.cluster.delete(NATIVE, running)
            return
        failed = step.act is Act.NATIVE_FAILED
        for name, stored in sorted((await self.stored()).items()):
            if failed and (name in step.names or not step.names):
                break
            await self._native_writes(through, name, stored["metadata"]["uid"])
        crd = await self.crd()
        conditions = {each["type"]: each for each in began["conditions"]}
        at_work = conditions.get("StorageMigrating", {})  # gone where a backup was restored meanwhile
        same = at_work.get("observedGeneration") == crd["metadata"]["generation"]
        ended, reason = ("Failed", "MigrationFailed") if failed else ("Succeeded", "MigrationSucceeded")
        await self._native_is(running, {"Running": "True", ended: "True"})
        await self._condition(crd, "False", reason, "The migration has ended", [storage_of(crd)] if same else [])
        await self._native_is(running, {"Running": "False", ended: "True"})

    async def _native_begins(self) -> str:
        self._edits += 1
        name = f"{self.plural}-{self._edits}"
        body = {"apiVersion": NATIVE.api_version, "kind": "StorageVersionMigration", "metadata": {"name": name}}
        resource = {"group": self.group, "resource": self.plural}
        await self.cluster.create(NATIVE, json.dumps(body | {"spec": {"resource": resource}}).encode())
        await self._condition(await self.crd(), "True", "MigrationRunning", f"Migration {name} is running")
        await self._native_is(name, {"Running": "True"})
        return name

    async def _native_is(self, name: str, conditions: dict[str, str]) -> None:
        now = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        said = [
            {"type": kind, "status": status, "reason": kind, "message": kind, "lastTransitionTime": now}
            for kind, status in conditions.items()
        ]
        body = json.dumps({"status": {"conditions": said, "resourceVersion": "1"}}).encode()
        await self.cluster.patch(NATIVE, name, body, patch_type=PatchType.MERGE, subresource="status")

    async def _native_writes(self, through: HttpCluster, name: str, uid: str) -> None:
        """Apply nothing but an object's identity."""
        revision = await self._revision(name)
        identity = {"name": name, "namespace": "default", "uid": uid, "resourceVersion": revision}
        version = storage_of(await self.crd())
        body = {"apiVersion": f"{self.group}/{version}", "kind": self._kind, "metadata": identity}
        with contextlib.suppress(ApiError):
            await self._apply(through, body, "storage-version-migrator-controller")

    async def _revision(self, name: str) -> str:
        found = await self.cluster.get(self.at(await self._served()), name, "default")
        return str(found.json()["metadata"]["resourceVersion"])

    async def _condition(
        self, crd: Document, status: str, reason: str, message: str, pruned: Sequence[str] = ()
    ) -> None:
        condition = {
            "type": "StorageMigrating",
            "status": status,
            "reason": reason,
            "message": message,
            "lastTransitionTime": datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
            "observedGeneration": crd["metadata"]["generation"],
        }
        said = {"conditions": [condition]} | ({"storedVersions": list(pruned)} if pruned else {})
        body = {"apiVersion": CRDS.api_version, "kind": "CustomResourceDefinition", "metadata": {"name": self.name}}
        await self.cluster.patch(
            CRDS,
            self.name,
            json.dumps(body | {"status": said}).encode(),
            patch_type=PatchType.APPLY,
            subresource="status",
            params={"fieldManager": _CONTROLLER, "force": "true"},
        )
