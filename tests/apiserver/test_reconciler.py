"""The migrator inside of an operator: what it starts by itself, what it leaves alone, and what it costs."""

from __future__ import annotations

import asyncio
import json
from base64 import b64decode, b64encode
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from pathlib import Path

import pytest

from restow.controlplane.etcd import Etcd
from restow.kube import ReconcileResult
from restow.kube.client import HttpCluster
from restow.kube.cluster import PatchType
from restow.kube.errors import Conflict, NotFound
from restow.kube.leaderelection import LeaseTiming
from restow.kube.resources import CONFIG_MAPS, CRDS, EVENTS, LEASES
from restow.kube.retry import Backoff
from restow.migrator import Events, MigrationDetails, MigrationEvent, Migrator, Options, Phase, in_group, read_crd
from restow.migrator.operate.references import NO_REFERENCES
from tests.apiserver.kind import Document, Kind, entry_versions, owners, until
from tests.apiserver.proxy import Answer, Fault, Proxy, Reset, Seen
from tests.apiserver.webhook import ConvertedKind, conversion_webhook

COUNT = 12
DEADLINE = 60.0
QUICK = LeaseTiming(lease_duration=3, renew_deadline=2.4, retry_period=0.2)
SOON = Options(settle_s=1.0, resume=True)
AT_ONCE = Options(settle_s=0.0, resume=True)


class Story:
    """A hook that remembers; ``of`` are the events so far, without progress."""

    def __init__(self) -> None:
        self.told: list[MigrationDetails] = []
        self._news = asyncio.Condition()

    async def __call__(self, details: MigrationDetails) -> None:
        async with self._news:
            self.told.append(details)
            self._news.notify_all()

    @property
    def of(self) -> list[str]:
        return [each.event.value for each in self.told if each.event is not MigrationEvent.PROGRESS]

    async def comes_to(self, meant: Callable[[MigrationDetails], bool]) -> MigrationDetails:
        """Wait for something to be told; return it."""
        async with asyncio.timeout(DEADLINE), self._news:
            await self._news.wait_for(lambda: any(meant(each) for each in self.told))
        return next(each for each in self.told if meant(each))

    async def comes_to_rest(self) -> None:
        """Wait until nothing is due after a run, and forget what was told before."""
        await self.comes_to(lambda each: each.event is MigrationEvent.FINISHED)
        await self.comes_to(lambda each: each.event is MigrationEvent.IDLE)
        self.told.clear()


@pytest.fixture
def story() -> Story:
    return Story()


@pytest.fixture
async def settled(kind: Kind) -> Kind:
    """Objects that alice applied at v1alpha1; v1beta1 is served, and not the storage version yet."""
    await kind.change(kind.document(storage="v1alpha1"))
    async with asyncio.TaskGroup() as group:
        for number in range(COUNT):
            manifest = kind.manifest("v1alpha1", f"w{number:02}", spec={"size": number})
            group.create_task(kind.apply(manifest, "alice"))
    return kind


@asynccontextmanager
async def running(migrator: Migrator) -> AsyncIterator[asyncio.Task[None]]:
    """A migrator that runs inside of the block and is cancelled after it."""
    async with asyncio.TaskGroup() as group:
        task = group.create_task(migrator.run_forever())
        yield task
        task.cancel()


@pytest.fixture
async def converted(cluster: HttpCluster, etcd: Etcd, group: str, tmp_path: Path) -> AsyncIterator[ConvertedKind]:
    """A CRD with a conversion webhook, and an object."""
    async with conversion_webhook(tmp_path) as webhook:
        made = ConvertedKind(cluster, etcd, group, webhook)
        await made.create(made.document(storage="v2"))
        await made.apply(made.manifest("v1", "w", spec={"host": "a"}), "alice")
        yield made
        await made.remove()


async def test_references_become_a_condition(settled: Kind, story: Story, cluster: HttpCluster) -> None:
    """What keeps an old version alive has to be seen where the CRD is, before someone removes the version."""
    reference = {"apiVersion": f"{settled.group}/v1alpha1", "kind": "Widget", "name": "w", "uid": "1-2"}
    name = f"a.{settled.group}"
    body = json.dumps({"metadata": {"name": name, "ownerReferences": [reference]}}).encode()
    await settled.change(settled.document(storage="v1beta1"))
    await cluster.create(CONFIG_MAPS, body, "default")
    try:
        migrator = Migrator(cluster, [settled.name], AT_ONCE, hooks=[story], lease=None, references_s=1.0)
        async with running(migrator):
            told = await story.comes_to(lambda each: each.event is MigrationEvent.REFERENCES)
            (found,) = told.references
            assert (found.of.version, found.count) == ("v1alpha1", 1)
            crd = await read_crd(cluster, settled.name)
            assert (crd.conditions[NO_REFERENCES].status, crd.conditions[NO_REFERENCES].reason) == (
                False,
                "ReferencesFound",
            )
            assert crd.established, "a condition of restow's must not take those of the API server"
            assert f"restow references {settled.name} --version v1alpha1" in crd.conditions[NO_REFERENCES].message
            await cluster.delete(CONFIG_MAPS, name, "default")
            await story.comes_to(
                lambda each: each.event is MigrationEvent.REFERENCES and not each.references[0].against_removal
            )
        crd = await read_crd(cluster, settled.name)
        assert (crd.conditions[NO_REFERENCES].status, crd.stored_versions) == (True, ("v1beta1",))
        assert story.of.count("started") == 1, "the condition must not make anything due"
    finally:
        with suppress(NotFound):
            await cluster.delete(CONFIG_MAPS, name, "default")


def requests_about_objects(proxy: Proxy, kind: Kind) -> list[Seen]:
    return [seen for seen in proxy.seen if f"/apis/{kind.group}/" in seen.path and seen.path.count("/") > 3]


async def edit(kind: Kind, document: Document) -> None:
    """Change the CRD as ``Kind.change`` does, but without an object that the migrator would find."""

    async def replaced() -> bool:
        now = (await kind.cluster.get(CRDS, kind.name)).json()
        try:
            await kind.cluster.replace(CRDS, kind.name, json.dumps(now | {"spec": document["spec"]}).encode())
        except Conflict:
            return False
        return True

    await until(replaced, f"{kind.name} could not be replaced")


def flip(kind: Kind, *, served: tuple[str, ...] | None = None) -> Document:
    return kind.document(storage="v1beta1", served=served)


async def test_each_step_of_an_upgrade_starts_exactly_what_is_due(
    settled: Kind, proxy: Proxy, through_proxy: HttpCluster, story: Story
) -> None:
    """Under a running reconciler: the flip writes each object once and prunes; unserving only looks; a rotation of
    the CA bundle, or any other edit, costs no request about an object.
    """
    kind = settled
    migrator = Migrator(through_proxy, [kind.name], SOON, hooks=[story], lease=None)
    async with running(migrator):
        await story.comes_to_rest()
        assert len(written(proxy, kind)) == COUNT, "nothing was proved yet"

        await edit(kind, flip(kind))
        done = await story.comes_to(lambda each: each.event is MigrationEvent.FINISHED)
        assert done.due == (Phase.STORAGE, Phase.MANAGED_FIELDS, Phase.PRUNE) and done.pruned
        assert (done.objects["listed"], done.objects["rewritten"], done.requests["write"]) == (COUNT, COUNT, COUNT)
        await story.comes_to_rest()
        stored = await kind.stored()
        assert all(found["apiVersion"] == f"{kind.group}/v1beta1" for found in stored.values())
        assert all(entry_versions(found) == {"v1beta1"} for found in stored.values())
        assert await kind.stored_versions() == ["v1beta1"]

        proxy.seen.clear()
        await kind.cluster.patch(
            CRDS,
            kind.name,
            json.dumps({"metadata": {"labels": {"touched": "yes"}}}).encode(),
            patch_type=PatchType.MERGE,
        )
        described = flip(kind)
        described["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["description"] = "edited"
        await edit(kind, described)
        await migrator.reconcile(kind.name)
        assert set(story.of) == {"idle"} and requests_about_objects(proxy, kind) == []

        # A client of the old version, which is served still: its entry is its own, and nobody's business yet.
        await kind.apply(kind.manifest("v1alpha1", "w03", spec={"size": 33}), "alice")
        await migrator.reconcile(kind.name)
        assert requests_about_objects(proxy, kind) == []
        story.told.clear()
        await edit(kind, flip(kind, served=("v1beta1",)))
        done = await story.comes_to(lambda each: each.event is MigrationEvent.FINISHED)
        assert done.due == (Phase.MANAGED_FIELDS,) and not done.pruned
        assert (done.objects["listed"], done.objects["translated"], done.requests["write"]) == (COUNT, 1, 1)
        await story.comes_to_rest()
        one = await kind.get("v1beta1", "w03")
        assert owners(one) == {("alice", "Apply", ""): frozenset({"/f:spec/f:size"})} and one["spec"]["size"] == 33

        proxy.seen.clear()
        await edit(kind, kind.document(storage="v1beta1", versions=("v1beta1",)))
        await story.comes_to_rest()
        assert written(proxy, kind) == []


async def test_a_rotation_of_the_ca_bundle_costs_no_request_about_an_object(
    converted: ConvertedKind, proxy: Proxy, through_proxy: HttpCluster, story: Story
) -> None:
    """cert-manager rotates a bundle every few weeks, and each rotation is a new generation of the CRD."""
    kind = converted
    migrator = Migrator(through_proxy, [kind.name], SOON, hooks=[story], lease=None)
    async with running(migrator):
        await story.comes_to_rest()
        proxy.seen.clear()
        before = (await kind.cluster.get(CRDS, kind.name)).json()
        client = before["spec"]["conversion"]["webhook"]["clientConfig"]
        pem = b64decode(client["caBundle"])
        rotated = b64encode(pem + pem).decode()
        body = {"spec": {"conversion": {"webhook": {"clientConfig": {"caBundle": rotated}}}}}
        await kind.cluster.patch(CRDS, kind.name, json.dumps(body).encode(), patch_type=PatchType.MERGE)
        after = (await kind.cluster.get(CRDS, kind.name)).json()
        assert after["metadata"]["generation"] == before["metadata"]["generation"] + 1
        await migrator.reconcile(kind.name)
        assert set(story.of) == {"idle"} and requests_about_objects(proxy, kind) == []


async def test_nothing_due_costs_one_read_of_the_crd(
    settled: Kind, proxy: Proxy, through_proxy: HttpCluster, story: Story
) -> None:
    """A look that lists objects cannot be afforded at each event; a name that is no target's costs nothing at all."""
    kind = settled
    await kind.change(flip(kind))
    migrator = Migrator(through_proxy, [kind.name], SOON, hooks=[story], lease=None)
    waits = (await migrator.reconcile(kind.name)).requeue_after
    assert story.of == ["settling"] and waits is not None and 0 < waits <= 1
    assert requests_about_objects(proxy, kind) == []
    await asyncio.sleep(waits)
    both = await asyncio.gather(migrator.reconcile(kind.name), migrator.reconcile(kind.name))
    assert [each.requeue_after for each in both] == [None, None]
    assert story.of == ["settling", "started", "finished", "idle"], "two at once are one after the other"
    proxy.seen.clear()
    for again in (migrator, Migrator(through_proxy, in_group(kind.group), SOON, hooks=[story])):
        assert (await again.reconcile(kind.name)).requeue_after is None
    assert [(seen.method, seen.path.rpartition("/")[2]) for seen in proxy.seen] == [("GET", kind.name)] * 2
    proxy.seen.clear()
    await migrator.reconcile("gadgets.example.org")
    assert proxy.seen == []


@pytest.mark.parametrize("off", [*([phase] for phase in Phase), [Phase.STORAGE, Phase.MANAGED_FIELDS]], ids="+".join)
async def test_a_phase_switched_off_is_left_alone_and_the_others_end(
    off: list[Phase], settled: Kind, proxy: Proxy, through_proxy: HttpCluster, story: Story
) -> None:
    """Where a phase is off storedVersions may name the old version for good: that must not set off runs for ever."""
    kind = settled
    await kind.change(flip(kind))
    options = Options(settle_s=0.0, skip=frozenset(off))
    migrator = Migrator(through_proxy, [kind.name], options, hooks=[story], lease=None)
    assert (await migrator.reconcile(kind.name)).requeue_after is None
    stored = await kind.stored()
    storages = {found["apiVersion"].rpartition("/")[2] for found in stored.values()}
    entries = {version for found in stored.values() for version in entry_versions(found)}
    # Translating entries is a write, and every write stores an object at the storage version.
    unwritten = Phase.STORAGE in off and Phase.MANAGED_FIELDS in off
    assert storages == ({"v1alpha1"} if unwritten else {"v1beta1"})
    assert entries == ({"v1alpha1"} if Phase.MANAGED_FIELDS in off else {"v1beta1"})
    pruned = not {Phase.STORAGE, Phase.PRUNE} & set(off)
    assert await kind.stored_versions() == (["v1beta1"] if pruned else ["v1alpha1", "v1beta1"])
    assert story.of == (["idle"] if unwritten else ["started", "finished"])
    proxy.seen.clear()
    fresh = Migrator(through_proxy, [kind.name], options, hooks=[story], lease=None)
    assert (await fresh.reconcile(kind.name)).requeue_after is None
    assert requests_about_objects(proxy, kind) == []
    # Once everything is asked for, what was left is due.
    everything = Migrator(through_proxy, {kind.name: Options(settle_s=0.0)}, hooks=[story], lease=None)
    await everything.reconcile(kind.name)
    assert await kind.stored_versions() == ["v1beta1"]
    assert all(entry_versions(found) == {"v1beta1"} for found in (await kind.stored()).values())


async def test_what_is_refused_is_looked_at_again_and_begins_when_it_can(
    settled: Kind, proxy: Proxy, through_proxy: HttpCluster, story: Story
) -> None:
    """A CRD in no state to be migrated is told of once, not asked for again and again, and not given up either."""
    kind = settled
    await kind.change(kind.document(storage="v1beta1", served=("v1alpha1",)))
    backoff = Backoff(first=60.0, most=3600.0)
    migrator = Migrator(through_proxy, [kind.name], SOON, hooks=[story], lease=None, backoff=backoff)
    async with running(migrator):
        refused = await story.comes_to(lambda each: each.event is MigrationEvent.REFUSED)
        assert "is not served" in refused.message and (refused.requeue_after or 0) >= 30
        assert requests_about_objects(proxy, kind) == []
        await kind.change(flip(kind))
        await story.comes_to_rest()
    assert await kind.stored_versions() == ["v1beta1"]


async def test_a_failed_run_is_left_alone_for_a_while_whoever_writes_the_crd(
    settled: Kind, proxy: Proxy, through_proxy: HttpCluster, story: Story
) -> None:
    """One object that cannot be written must not cost a pass over all of them at each event of the CRD."""
    kind = settled
    await kind.change(flip(kind))

    async def refuse_one(seen: Seen) -> Fault | None:
        if seen.is_write and seen.path.endswith("/w07"):
            return Answer.of(422, "Invalid", "spec.size: the secret value is refused")
        return None

    proxy.hook = refuse_one
    backoff = Backoff(first=600.0, most=3600.0)
    migrator = Migrator(through_proxy, [kind.name], SOON, hooks=[story], lease=None, backoff=backoff)
    async with running(migrator):
        failed = await story.comes_to(lambda each: each.event is MigrationEvent.FAILED)
        assert failed.message.endswith("default/w07 (Invalid): the API server says that it is invalid")
        assert (failed.failures, failed.remaining) == (1, 1) and 300 <= (failed.requeue_after or 0) <= 600
        assert await kind.stored_versions() == ["v1alpha1", "v1beta1"]
        proxy.seen.clear()
        body = json.dumps({"metadata": {"annotations": {"touched": "yes"}}}).encode()
        await kind.cluster.patch(CRDS, kind.name, body, patch_type=PatchType.MERGE)
        await until(lambda: read_again(proxy, kind), "the event was not noticed")
        assert 0 < ((await migrator.reconcile(kind.name)).requeue_after or 0) <= 600
        assert requests_about_objects(proxy, kind) == []
        # A change of the spec may be what was missing.
        proxy.hook = None
        changed = flip(kind)
        changed["spec"]["versions"][0]["schema"]["openAPIV3Schema"]["description"] = "edited"
        await edit(kind, changed)
        done = await story.comes_to(lambda each: each.event is MigrationEvent.FINISHED)
        assert (done.requests["write"], done.objects["failed"], done.failures) == (1, 0, 0)


async def read_again(proxy: Proxy, kind: Kind) -> bool:
    """Whether the CRD was read since."""
    return any(seen.path.endswith(kind.name) and seen.method == "GET" for seen in proxy.seen)


@pytest.mark.parametrize(
    ("fault", "told", "message"),
    [
        (Answer.of(403, "Forbidden", "not now"), "refused", "no permission to get"),
        (Reset(), "failed", "get customresourcedefinitions"),
    ],
    ids=["forbidden", "unreachable"],
)
async def test_an_api_server_that_fails_is_waited_for_without_an_exception(
    fault: Fault, told: str, message: str, settled: Kind, proxy: Proxy, through_proxy: HttpCluster, story: Story
) -> None:
    """An outage is told with its reason and its delay; no traceback, and no loop without a pause."""

    async def broken(_seen: Seen) -> Fault | None:
        return fault

    proxy.hook = broken
    migrator = Migrator(through_proxy, [settled.name], AT_ONCE, hooks=[story], lease=None)
    waits = [(await migrator.reconcile(settled.name)).requeue_after or 0 for _ in range(3)]
    assert story.of == [told] * 3
    assert [each.failures for each in story.told] == [1, 2, 3]
    assert 2.5 <= waits[0] <= 5 <= waits[1] <= 10 <= waits[2] <= 20
    assert message in story.told[0].message
    proxy.hook = None
    assert (await migrator.reconcile(settled.name)).requeue_after is None
    assert story.told[-1].failures == 0


class Watched(Migrator):
    """Lets the test see when the runs of ``run_forever`` are asked to stop."""

    stop: asyncio.Event

    async def reconcile(self, crd_name: str, *, stop: asyncio.Event | None = None) -> ReconcileResult:
        assert stop is not None
        self.stop = stop
        return await super().reconcile(crd_name, stop=stop)


class Held:
    """A proxy's hook that holds writes of objects from some number on, until it lets go.

    With ``no_lease`` set the lease can be neither read nor written.
    """

    def __init__(self, proxy: Proxy, kind: Kind, number: int) -> None:
        self._proxy = proxy
        self._kind = kind
        self._number = number
        self.reached = asyncio.Event()
        self.go = asyncio.Event()
        self.no_lease = False
        proxy.hook = self

    async def __call__(self, seen: Seen) -> Fault | None:
        if self.no_lease and "/leases" in seen.path:
            return Answer.of(503, "ServiceUnavailable", "not now")
        if seen.is_write and len(written(self._proxy, self._kind)) >= self._number:
            self.reached.set()
            await self.go.wait()
        return None


def written(proxy: Proxy, kind: Kind) -> list[str]:
    """The paths of objects that were written, in order."""
    return [seen.path for seen in requests_about_objects(proxy, kind) if seen.is_write]


@pytest.mark.parametrize("how", ["usurped", "cut off from its lease"])
async def test_a_leader_that_is_deposed_in_the_middle_writes_no_more_and_does_not_prune(
    how: str, settled: Kind, proxy: Proxy, through_proxy: HttpCluster, story: Story
) -> None:
    """Two leaders that migrate the same CRD write everything twice, and the loser judges by what is no longer so."""
    kind = settled
    await kind.change(flip(kind))
    held = Held(proxy, kind, 5)
    options = Options(settle_s=0.0, concurrency=2)
    migrator = Watched(
        through_proxy, [kind.name], options, hooks=[story], lease=kind.group, timing=QUICK, lease_namespace="default"
    )
    async with running(migrator):
        await held.reached.wait()
        if how == "usurped":
            await usurp(kind, "another")
        else:
            held.no_lease = True
        stopped = asyncio.create_task(story.comes_to(lambda each: each.event is MigrationEvent.STOPPED))
        await migrator.stop.wait()
        held.go.set()
        told = await stopped
        assert "asked to stop" in told.message and not told.pruned
        assert len(written(proxy, kind)) <= 7, "no object was begun after the loss"
        assert await kind.stored_versions() == ["v1alpha1", "v1beta1"]
        proxy.hook = None
        if how == "usurped":
            await usurp(kind, "")
        await story.comes_to(lambda each: each.event is MigrationEvent.FINISHED)
    assert await kind.stored_versions() == ["v1beta1"]
    assert len(set(written(proxy, kind))) == COUNT
    assert (await kind.cluster.get(LEASES, kind.group, "default")).json()["spec"].get("holderIdentity", "") == ""


async def test_nothing_is_pruned_once_a_run_was_asked_to_stop(
    settled: Kind, proxy: Proxy, through_proxy: HttpCluster, story: Story
) -> None:
    """All objects are done, the prune is about to happen, and leadership goes: the next leader is to decide."""
    kind = settled
    await kind.change(flip(kind))
    stop = asyncio.Event()

    async def stop_before_the_prune(seen: Seen) -> Fault | None:
        if seen.of_crd and seen.method == "GET" and "watch" not in seen.query and written(proxy, kind)[COUNT - 1 :]:
            stop.set()
        return None

    proxy.hook = stop_before_the_prune
    migrator = Migrator(through_proxy, [kind.name], Options(settle_s=0.0), hooks=[story], lease=None)
    await migrator.reconcile(kind.name, stop=stop)
    assert stop.is_set() and story.of == ["started", "stopped"]
    assert await kind.stored_versions() == ["v1alpha1", "v1beta1"]
    proxy.hook = None
    await migrator.reconcile(kind.name)
    assert await kind.stored_versions() == ["v1beta1"]


async def test_cancelling_finishes_what_is_in_flight_and_releases_the_lease(
    settled: Kind, proxy: Proxy, through_proxy: HttpCluster, story: Story
) -> None:
    """A pod that is stopped leaves no write half done, and its successor need not wait for the lease to expire."""
    kind = settled
    await kind.change(flip(kind))
    held = Held(proxy, kind, 5)
    options = Options(settle_s=0.0, concurrency=2)
    patient = LeaseTiming(lease_duration=3600, renew_deadline=1800.0, retry_period=0.1)
    migrator = Watched(
        through_proxy, [kind.name], options, hooks=[story], lease=kind.group, lease_namespace="default", timing=patient
    )
    async with running(migrator) as task:
        await held.reached.wait()
        task.cancel()
        await migrator.stop.wait()
        held.go.set()
        await asyncio.wait([task])
        assert proxy.in_flight == 0 and story.of == ["started", "stopped"]
        stored = await kind.stored()
        names = {path.rpartition("/")[2] for path in written(proxy, kind)}
        assert 0 < len(names) <= 7
        assert {name for name in names if entry_versions(stored[f"default/{name}"]) == {"v1beta1"}} == names
    proxy.hook = None
    after = Migrator(
        through_proxy, [kind.name], options, hooks=[story], lease=kind.group, lease_namespace="default", timing=patient
    )
    async with running(after):
        await story.comes_to_rest()
    assert await kind.stored_versions() == ["v1beta1"]


async def test_a_second_cancellation_does_not_wait_for_anything(
    settled: Kind, proxy: Proxy, through_proxy: HttpCluster, story: Story
) -> None:
    """It comes when another process may lead: whatever hangs then must not write any more."""
    kind = settled
    await kind.change(flip(kind))
    held = Held(proxy, kind, 5)
    options = Options(settle_s=0.0, concurrency=2)
    migrator = Watched(through_proxy, [kind.name], options, hooks=[story], lease=None, grace=3600.0)
    async with running(migrator) as task:
        await held.reached.wait()
        task.cancel()
        await migrator.stop.wait()
        task.cancel()
        async with asyncio.timeout(DEADLINE):
            await asyncio.wait([task])
        assert task.cancelled() and len(written(proxy, kind)) <= 7
        assert story.of == ["started"], "it was waited for"
    held.go.set()
    assert await kind.stored_versions() == ["v1alpha1", "v1beta1"]


async def usurp(kind: Kind, identity: str) -> None:
    """Write another holder into the lease, as no well-behaved process would."""
    body = {"spec": {"holderIdentity": identity, "leaseDurationSeconds": 3600 if identity else 1}}
    await kind.cluster.patch(LEASES, kind.group, json.dumps(body).encode(), "default", patch_type=PatchType.MERGE)


async def test_events_tell_the_story_on_the_crd(settled: Kind, through_proxy: HttpCluster, proxy: Proxy) -> None:
    """``kubectl describe crd`` is where people look; what is found again as before is not said again."""
    kind = settled
    await kind.change(flip(kind))

    async def refuse_one(seen: Seen) -> Fault | None:
        return Answer.of(422, "Invalid", "no") if seen.is_write and seen.path.endswith("/w07") else None

    proxy.hook = refuse_one
    at_once = Backoff(first=0.01, most=0.01)
    migrator = Migrator(through_proxy, [kind.name], Options(settle_s=0.0), lease=None, backoff=at_once)
    for _ in range(3):
        await asyncio.sleep((await migrator.reconcile(kind.name)).requeue_after or 0)
    proxy.hook = None
    await migrator.reconcile(kind.name)
    params = {"fieldSelector": f"regarding.name={kind.name}"}
    found = (await kind.cluster.list_page(EVENTS, "default", params=params)).json()["items"]
    found.sort(key=lambda each: each["eventTime"])
    assert [(each["type"], each["reason"]) for each in found] == [
        ("Normal", "MigrationStarted"),
        ("Warning", "MigrationFailed"),
        ("Normal", "MigrationFinished"),
    ]
    assert found[0]["note"] == ("due: storage, managed-fields, prune; stored at v1alpha1, v1beta1, to be at v1beta1")
    assert found[1]["note"].startswith(f"1 of {COUNT} objects failed, the first: default/w07 (Invalid): ")
    assert found[2]["note"].startswith(f"{COUNT} objects: 1 rewritten, 1 translated, ")
    crd = (await kind.cluster.get(CRDS, kind.name)).json()
    assert {each["regarding"]["uid"] for each in found} == {crd["metadata"]["uid"]}


async def test_a_crd_that_is_deleted_is_forgotten(settled: Kind, cluster: HttpCluster, story: Story) -> None:
    """Its metrics must not stand for ever, nor its name be asked for again and again."""
    kind = settled
    async with running(Migrator(cluster, in_group(kind.group), SOON, hooks=[story], lease=None)):
        await story.comes_to_rest()
        await kind.remove()
        gone = await story.comes_to(lambda each: each.event is MigrationEvent.FORGOTTEN)
        assert gone.crd == kind.name
    assert (await Migrator(cluster, [kind.name], hooks=[story]).reconcile(kind.name)).requeue_after is None


@pytest.mark.parametrize("workers", [1, 2])
async def test_crds_are_migrated_one_after_the_other_or_as_many_at_once_as_asked_for(
    workers: int, settled: Kind, cluster: HttpCluster, etcd: Etcd, story: Story
) -> None:
    """An operator with thirty CRDs must not start all of them at once, nor take thirty times as long."""
    other = Kind(cluster, etcd, f"sub.{settled.group}")
    await other.create(other.document(storage="v1alpha1"))
    await other.apply(other.manifest("v1alpha1", "w", spec={"size": 1}), "alice")
    both = asyncio.Event()

    async def meet(details: MigrationDetails) -> None:
        """Hold each run, where two may be under way, until both are."""
        begun = [each.crd for each in story.told if each.event is MigrationEvent.STARTED]
        if details.event is MigrationEvent.STARTED and workers == 2:
            if len(begun) == 2:
                both.set()
            await both.wait()

    migrator = Migrator(cluster, in_group(settled.group), SOON, hooks=[story, meet], lease=None, workers=workers)
    async with running(migrator):
        for kind in (settled, other):
            await story.comes_to(
                lambda each, kind=kind: each.event is MigrationEvent.FINISHED and each.crd == kind.name
            )
    order = [each.event for each in story.told if each.event in (MigrationEvent.STARTED, MigrationEvent.FINISHED)]
    started, finished = MigrationEvent.STARTED, MigrationEvent.FINISHED
    assert order == ([started, finished] * 2 if workers == 1 else [started, started, finished, finished])
    await other.remove()


async def test_a_hook_that_fails_disturbs_nobody(
    settled: Kind, proxy: Proxy, through_proxy: HttpCluster, story: Story
) -> None:
    """Metrics that raise, or Events that may not be written, must not end a migration nor silence the other hooks."""

    def broken(_details: MigrationDetails) -> None:
        raise KeyError("a secret")

    async def no_events(seen: Seen) -> Fault | None:
        return Answer.of(403, "Forbidden", "no") if seen.path.endswith("/events") else None

    proxy.hook = no_events
    hooks = [broken, Events(through_proxy), story]
    migrator = Migrator(through_proxy, [settled.name], AT_ONCE, hooks=hooks, lease=None)
    assert (await migrator.reconcile(settled.name)).requeue_after is None
    assert story.of == ["started", "finished"]
    assert sum(seen.path.endswith("/events") for seen in proxy.seen) == 2
