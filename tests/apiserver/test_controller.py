"""Controllers and watches on a real API server: what happens to objects reaches the reconciler, in every situation."""

from __future__ import annotations

import asyncio
import json
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest

from restow.controlplane.plane import ControlPlane
from restow.kube import Resource, connect
from restow.kube.client import HttpCluster
from restow.kube.cluster import PatchType
from restow.kube.controller import Controller, ControllerEvent, ControllerEventType, ReconcileResult, Source
from restow.kube.errors import NotFound
from restow.kube.leaderelection import LeaderElector, LeaseTiming
from restow.kube.listwatch import Key, Selection, watch
from restow.kube.resources import CONFIG_MAPS, CRDS, LEASES, NAMESPACES
from restow.kube.retry import Backoff
from restow.kube.watchevents import Added, Item, Listed, Modified
from tests.apiserver.kind import Kind

DEADLINE = 60.0
QUICK = Backoff(first=0.01, most=0.02)


class Maps:
    """ConfigMaps of one namespace, which carry a label so that a cluster's own ones are left out."""

    def __init__(self, cluster: HttpCluster, namespace: str) -> None:
        self.cluster = cluster
        self.namespace = namespace

    def key(self, name: str) -> Key:
        return Key(self.namespace, name)

    async def create(self, name: str, *, label: str = "main", **data: str) -> None:
        body = {"metadata": {"name": name, "labels": {"restow-test": label}}, "data": data}
        await self.cluster.create(CONFIG_MAPS, json.dumps(body).encode(), self.namespace)

    async def change(self, name: str, **data: str) -> None:
        body = json.dumps({"data": data}).encode()
        await self.cluster.patch(CONFIG_MAPS, name, body, self.namespace, patch_type=PatchType.MERGE)

    async def delete(self, name: str) -> None:
        await self.cluster.delete(CONFIG_MAPS, name, self.namespace)

    async def data(self, name: str) -> dict[str, str] | None:
        try:
            reply = await self.cluster.get(CONFIG_MAPS, name, self.namespace)
        except NotFound:
            return None
        found: dict[str, str] = reply.json().get("data", {})
        return found

    async def allow(self, user: str) -> None:
        """Let a user read ConfigMaps here."""
        group = "rbac.authorization.k8s.io"
        rule = {"apiGroups": [""], "resources": ["configmaps"], "verbs": ["get", "list", "watch"]}
        role = {"metadata": {"name": user}, "rules": [rule]}
        binding = {
            "metadata": {"name": user},
            "roleRef": {"apiGroup": group, "kind": "Role", "name": user},
            "subjects": [{"apiGroup": group, "kind": "User", "name": user}],
        }
        for plural, body in (("roles", role), ("rolebindings", binding)):
            resource = Resource(group, "v1", plural, namespaced=True)
            await self.cluster.create(resource, json.dumps(body).encode(), self.namespace)

    def controller(self, reconcile: Callable[[Key], Awaitable[ReconcileResult]], **options: Any) -> Controller:
        options = {"backoff": QUICK, "label_selector": "restow-test=main", "grace": 0.0} | options
        return Controller(self.cluster, CONFIG_MAPS, reconcile, namespace=self.namespace, **options)


@pytest.fixture
async def maps(cluster: HttpCluster) -> AsyncIterator[Maps]:
    """A namespace of its own for each test."""
    name = f"controller-{uuid.uuid4().hex[:8]}"
    await cluster.create(NAMESPACES, json.dumps({"metadata": {"name": name}}).encode())
    yield Maps(cluster, name)
    await cluster.delete(NAMESPACES, name)


@asynccontextmanager
async def running(controller: Controller) -> AsyncIterator[asyncio.Task[None]]:
    """Run a controller inside of the block; whatever waits in the block waits no longer than the deadline."""
    async with asyncio.timeout(DEADLINE), asyncio.TaskGroup() as group:
        task = group.create_task(controller.run())
        yield task
        task.cancel()


async def test_what_happens_to_an_object_is_reconciled(maps: Maps) -> None:
    """Objects that were there, and each create, update and delete, bring the reconciler to look at the object."""
    looks: asyncio.Queue[tuple[Key, dict[str, str] | None]] = asyncio.Queue()

    async def reconcile(key: Key) -> ReconcileResult:
        assert key.namespace == maps.namespace
        looks.put_nowait((key, await maps.data(key.name)))
        return ReconcileResult()

    await maps.create("before", x="0")
    async with running(maps.controller(reconcile)):
        assert await looks.get() == (maps.key("before"), {"x": "0"})
        await maps.create("after", x="1")
        assert await looks.get() == (maps.key("after"), {"x": "1"})
        await maps.change("after", x="2")
        assert await looks.get() == (maps.key("after"), {"x": "2"})
        await maps.delete("after")
        assert await looks.get() == (maps.key("after"), None)


async def test_requeue_after(maps: Maps) -> None:
    """A reconciler that asks to look again is called again without any event, until it asks no more."""
    looked, done = 0, asyncio.Event()

    async def reconcile(_key: Key) -> ReconcileResult:
        nonlocal looked
        looked += 1
        if looked == 3:
            done.set()
            return ReconcileResult()
        return ReconcileResult(requeue_after=0.01)

    await maps.create("a")
    async with running(maps.controller(reconcile)):
        await done.wait()
    assert looked == 3


async def test_resync(maps: Maps) -> None:
    """With a resync every object is looked at again and again although nothing happens."""
    looks: asyncio.Queue[Key] = asyncio.Queue()

    async def reconcile(key: Key) -> ReconcileResult:
        looks.put_nowait(key)
        return ReconcileResult()

    await maps.create("a")
    await maps.create("b")
    async with running(maps.controller(reconcile, resync=0.05)):
        seen = [await looks.get() for _ in range(6)]
    assert seen.count(maps.key("a")) >= 2
    assert seen.count(maps.key("b")) >= 2


async def test_failures_are_retried_and_told(maps: Maps, caplog: pytest.LogCaptureFixture) -> None:
    """An exception neither stops the controller nor loses the key, and its values stay out of the log."""
    told: list[ControllerEvent] = []
    done = asyncio.Event()

    def hook(details: ControllerEvent) -> None:
        told.append(details)
        if details.type is ControllerEventType.RECONCILED:
            done.set()
        raise RuntimeError("a broken hook")

    async def reconcile(_key: Key) -> ReconcileResult:
        failures = sum(details.type is ControllerEventType.FAILED for details in told)
        if failures == 0:
            raise ValueError("hunter2")
        if failures == 1:
            raise asyncio.CancelledError  # of something that it awaited, not of the worker
        if failures == 2:
            return None  # type: ignore[return-value] # what a careless reconciler does
        return ReconcileResult(requeue_after=3600.0)

    await maps.create("a")
    async with running(maps.controller(reconcile, hook=hook, name="fickle")):
        await done.wait()
    assert told[0].type is ControllerEventType.LISTED
    about = [details for details in told if details.key == maps.key("a")]
    assert [(details.type, details.failures) for details in about] == [
        (ControllerEventType.FAILED, 1),
        (ControllerEventType.FAILED, 2),
        (ControllerEventType.FAILED, 3),
        (ControllerEventType.RECONCILED, 0),
    ]
    assert [type(details.error) for details in about[:2]] == [ValueError, asyncio.CancelledError]
    assert (about[3].requeue_after, about[3].controller, about[3].running) == (3600.0, "fickle", 1)
    assert "hunter2" not in caplog.text
    assert "ValueError (" in caplog.text


async def test_a_key_is_in_one_worker_at_a_time_and_no_event_is_lost(maps: Maps) -> None:
    """What happens during a reconcile is reconciled after it, by whichever worker, and never at the same time."""
    entered, leave = asyncio.Queue[str | None](), asyncio.Semaphore(0)
    inside = 0

    async def reconcile(key: Key) -> ReconcileResult:
        nonlocal inside
        inside += 1
        assert inside == 1
        entered.put_nowait((await maps.data(key.name) or {}).get("x"))
        await leave.acquire()
        inside -= 1
        return ReconcileResult()

    failures: list[ControllerEvent] = []

    def hook(details: ControllerEvent) -> None:
        if details.type is ControllerEventType.FAILED:
            failures.append(details)

    await maps.create("a", x="1")
    async with running(maps.controller(reconcile, workers=3, hook=hook)):
        assert await entered.get() == "1"
        for value in ("2", "3", "4"):
            await maps.change("a", x=value)
        leave.release()
        seen = await entered.get()
        while seen != "4":
            leave.release()
            seen = await entered.get()
        leave.release()
    assert failures == []


async def test_workers_reconcile_different_keys_at_once(maps: Maps) -> None:
    """With two workers one slow object does not hold up another."""
    both = asyncio.Barrier(2)
    met = asyncio.Event()

    async def reconcile(_key: Key) -> ReconcileResult:
        await both.wait()
        met.set()
        return ReconcileResult()

    await maps.create("a")
    await maps.create("b")
    async with running(maps.controller(reconcile, workers=2)):
        await met.wait()


async def test_other_sources(maps: Maps) -> None:
    """Events of other objects bring the keys that they stand for, now and before; unreadable ones bring none."""
    looks: asyncio.Queue[str] = asyncio.Queue()

    async def reconcile(key: Key) -> ReconcileResult:
        looks.put_nowait(key.name)
        return ReconcileResult()

    def owner(item: Item) -> list[Key]:
        return [maps.key(item.json()["data"]["owner"])]

    other = Source(Selection(CONFIG_MAPS, maps.namespace, label_selector="restow-test=other"), owner)
    async with running(maps.controller(reconcile, sources=[other])):
        await maps.create("broken", label="other")
        await maps.create("child", label="other", owner="x")
        assert await looks.get() == "x"
        await maps.change("child", owner="y")
        assert {await looks.get(), await looks.get()} == {"x", "y"}
        await maps.delete("child")
        assert await looks.get() == "y"
        assert looks.empty()


@pytest.mark.parametrize("ends_in_time", [True, False])
async def test_cancellation_lets_running_reconciles_finish(maps: Maps, ends_in_time: bool) -> None:
    """On cancellation what runs may finish within the grace, and is cancelled after it; nothing new starts."""
    started, release = asyncio.Event(), asyncio.Event()
    ended: list[str] = []

    async def reconcile(key: Key) -> ReconcileResult:
        started.set()
        try:
            await release.wait()
        except asyncio.CancelledError:
            ended.append(f"{key.name} cancelled")
            raise
        ended.append(key.name)
        return ReconcileResult()

    await maps.create("a")
    await maps.create("b")
    task = asyncio.create_task(maps.controller(reconcile, grace=DEADLINE if ends_in_time else 0.01).run())
    await asyncio.wait_for(started.wait(), DEADLINE)
    task.cancel()
    for _ in range(5):  # turns of the event loop, in which the cancellation arrives
        await asyncio.sleep(0)
    if ends_in_time:
        assert not task.done()
        release.set()
    await asyncio.wait({task}, timeout=DEADLINE)
    assert task.cancelled()
    assert ended == ["a" if ends_in_time else "a cancelled"]


async def test_a_second_cancellation_hurries(maps: Maps) -> None:
    """A leader whose lease others may take cannot wait for the grace: the second cancellation ends it at once."""
    started, ended = asyncio.Event(), asyncio.Event()

    async def reconcile(_key: Key) -> ReconcileResult:
        started.set()
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()
        raise AssertionError

    await maps.create("a")
    task = asyncio.create_task(maps.controller(reconcile, grace=10 * DEADLINE).run())
    await asyncio.wait_for(started.wait(), DEADLINE)
    task.cancel()
    await asyncio.sleep(0)
    assert not ended.is_set()
    task.cancel()
    await asyncio.wait({task}, timeout=DEADLINE)
    assert task.cancelled()
    assert ended.is_set()


async def test_a_controller_can_run_again(maps: Maps) -> None:
    """A leader that lost and won again runs its controllers again, and they look at everything again."""
    looks: asyncio.Queue[Key] = asyncio.Queue()

    async def reconcile(key: Key) -> ReconcileResult:
        looks.put_nowait(key)
        return ReconcileResult()

    await maps.create("a")
    controller = maps.controller(reconcile)
    for _ in range(2):
        async with running(controller):
            assert await looks.get() == maps.key("a")


async def test_a_controller_under_an_elector(maps: Maps) -> None:
    """A controller is a leader's body as it is: stopped when the lease is lost, run again when it is won again."""
    looks: asyncio.Queue[Key] = asyncio.Queue()

    async def reconcile(key: Key) -> ReconcileResult:
        looks.put_nowait(key)
        return ReconcileResult()

    await maps.create("a")
    timing = LeaseTiming(lease_duration=60, renew_deadline=40.0, retry_period=0.1)
    elector = LeaderElector(maps.cluster, "lead", maps.namespace, identity="one", timing=timing)
    async with asyncio.timeout(DEADLINE), asyncio.TaskGroup() as group:
        task = group.create_task(elector.run(maps.controller(reconcile).run))
        assert await looks.get() == maps.key("a")
        usurped = json.dumps({"spec": {"holderIdentity": "two", "leaseDurationSeconds": 1}}).encode()
        await maps.cluster.patch(LEASES, "lead", usurped, maps.namespace, patch_type=PatchType.MERGE)
        assert await looks.get() == maps.key("a")
        task.cancel()
    lease = (await maps.cluster.get(LEASES, "lead", maps.namespace)).json()["spec"]
    assert (lease.get("holderIdentity", ""), lease["leaseTransitions"]) == ("", 1)


async def test_a_source_that_is_not_served_stops_the_controller(maps: Maps) -> None:
    """A typo or a version that is gone is an error of its own type, and what runs gets its grace all the same."""

    async def reconcile(_key: Key) -> ReconcileResult:
        return ReconcileResult()

    missing = Source(Selection(Resource("nowhere.example.com", "v1", "things", namespaced=True)), lambda _item: [])
    async with asyncio.timeout(DEADLINE):
        with pytest.raises(NotFound):
            await maps.controller(reconcile, sources=[missing]).run()


async def test_a_restart_of_the_api_server_is_survived(maps: Maps, control_plane: ControlPlane) -> None:
    """Refused connections, a 403 of a server that does not know its RBAC yet, a lost history: all pass."""
    states: dict[str, dict[str, str] | None] = {}
    changed = asyncio.Condition()

    async def reconcile(key: Key) -> ReconcileResult:
        states[key.name] = await maps.data(key.name)
        async with changed:
            changed.notify_all()
        return ReconcileResult()

    async def until(**expected: dict[str, str] | None) -> None:
        async with changed:
            await changed.wait_for(lambda: states == expected)

    await maps.allow("reader")
    await maps.create("a", x="1")
    await maps.create("b", x="1")
    async with (
        connect(control_plane.user("reader").kubeconfig) as reader,
        running(Maps(reader, maps.namespace).controller(reconcile)) as task,
    ):
        await until(a={"x": "1"}, b={"x": "1"})
        await control_plane.restart_apiserver()
        await maps.change("a", x="2")
        await maps.delete("b")
        await maps.create("c", x="3")
        await until(a={"x": "2"}, b=None, c={"x": "3"})
        assert not task.done()


async def test_the_watch_of_a_crd_shows_every_generation(kind: Kind, cluster: HttpCluster) -> None:
    """Flips of the storage version, there and back, are each seen, with no second list: the proof a prune rests on."""
    seen: list[tuple[int, str]] = []

    def note(item: Item) -> int:
        versions = item.json()["spec"]["versions"]
        seen.append((item.metadata.generation, next(each["name"] for each in versions if each["storage"])))
        return item.metadata.generation

    lists = 0
    flips = ("v1beta1", "v1alpha1", "v1beta1")
    async with asyncio.timeout(DEADLINE), asyncio.TaskGroup() as group:

        async def flip() -> None:
            for storage in flips:
                await kind.change(kind.document(storage=storage))

        async with watch(cluster, Selection(CRDS, field_selector=f"metadata.name={kind.name}")) as events:
            async for event in events:
                if isinstance(event, Listed):
                    lists += 1
                    first = note(event.items[0])
                    group.create_task(flip())
                if isinstance(event, Modified) and note(event.item) == first + len(flips):
                    break
    assert lists == 1
    assert list(dict.fromkeys(seen)) == list(enumerate(("v1alpha1", *flips), start=first))


async def test_a_watch_of_custom_resources_outlives_a_flip(kind: Kind, cluster: HttpCluster) -> None:
    """The API server ends all watches of a kind whose CRD changes, and forgets its history: the stream lists again."""
    seen: set[str] = set()

    async def flip() -> None:
        for number, storage in enumerate(("v1beta1", "v1alpha1")):
            await kind.change(kind.document(storage=storage))
            await kind.apply(kind.manifest(storage, f"new{number}", spec={"size": 1}), "alice")

    await kind.apply(kind.manifest("v1alpha1", "old", spec={"size": 1}), "alice")
    selection = Selection(kind.at("v1alpha1"), "default", metadata_only=True)
    async with asyncio.timeout(DEADLINE), watch(cluster, selection) as events:
        assert isinstance(await anext(events), Listed)
        await flip()
        async for event in events:
            match event:
                case Listed(items=items):
                    seen |= {item.metadata.name for item in items}
                case Added(item=item) | Modified(item=item):
                    assert "spec" not in item.json()
                    seen.add(item.metadata.name)
            if {"new0", "new1"} <= seen:
                break


async def test_a_list_of_many_pages(maps: Maps) -> None:
    """More objects than one page holds are all in the first Listed, once each."""
    names = [f"m{number:04}" for number in range(620)]
    for start in range(0, len(names), 31):
        async with asyncio.TaskGroup() as group:
            for name in names[start : start + 31]:
                group.create_task(maps.create(name))
    selection = Selection(CONFIG_MAPS, maps.namespace, label_selector="restow-test=main", metadata_only=True)
    async with watch(maps.cluster, selection) as events:
        listed = await anext(events)
    assert isinstance(listed, Listed)
    assert [item.metadata.name for item in listed.items] == names
