"""What ``restow ready`` and ``restow migrate`` make of storedVersions that say more than is so; etcd has the truth."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml

from restow.controlplane.plane import ApiServer, ControlPlane
from restow.kube import connect
from restow.kube.client import HttpCluster
from restow.kube.cluster import PatchType
from restow.kube.resources import CRDS, NAMESPACES
from restow.migrator import CrdReport, Migration, Options, Phase, read_crd
from restow.migrator import ready as ask_ready
from restow.migrator.decide.proof import what_is_proved
from restow.migrator.model.callbacks import Moment
from restow.migrator.planning.ready import Readiness
from restow.migrator.requests.apiservers import ApiServers, View
from tests.apiserver.admission import holding
from tests.apiserver.balancer import balancing
from tests.apiserver.kind import Kind, until
from tests.apiserver.lag import LateLine, late_apiserver

COUNT = 4


async def ready(cluster: HttpCluster, kind: Kind, version: str = "v1alpha1", **more: object) -> Readiness:
    """Ask as the command does."""
    return await ask_ready(cluster, await read_crd(cluster, kind.name), version, **more)  # type: ignore[arg-type]


async def migrate(cluster: HttpCluster, kind: Kind, **options: object) -> CrdReport:
    """Migrate; ``Kind`` has waited for the CRD to settle already."""
    return await Migration(cluster, Options(settle_s=0.0, **options)).migrate(kind.name)  # type: ignore[arg-type]


async def trim(cluster: HttpCluster, kind: Kind, *versions: str) -> None:
    """Set storedVersions, as a person does with kubectl."""
    body = json.dumps({"status": {"storedVersions": list(versions)}}).encode()
    await cluster.patch(
        CRDS, kind.name, body, patch_type=PatchType.MERGE, subresource="status", params={"fieldManager": "kubectl"}
    )


async def stored_at(kind: Kind) -> set[str]:
    """The versions at which etcd has the objects."""
    return {found["apiVersion"].rpartition("/")[2] for found in (await kind.stored()).values()}


@pytest.fixture(autouse=True)
async def both_served(kind: Kind) -> None:
    """Clients have moved to v1beta1 before it is stored, so that no managedFields entry gives anything away."""
    await kind.change(kind.document(storage="v1alpha1", keyed_conditions=False))


@pytest.fixture
async def trimmed(kind: Kind, cluster: HttpCluster) -> Kind:
    """Objects that were written through v1beta1 while v1alpha1 was stored; flipped; trimmed by a stranger."""
    for number in range(COUNT):
        await kind.apply(kind.manifest("v1beta1", f"w{number}", spec={"size": number}), "alice")
    await kind.change(kind.document(storage="v1beta1", keyed_conditions=False))
    await trim(cluster, kind, "v1beta1")
    assert await stored_at(kind) == {"v1alpha1"}
    return kind


async def test_a_trim_by_a_stranger_is_not_believed(trimmed: Kind, cluster: HttpCluster) -> None:
    """Whoever obeys a yes here loses the whole kind."""
    answer = await ready(cluster, trimmed)
    assert not answer.ready
    assert any("no run of restow has proved" in reason for reason in answer.against_removal)
    report = await migrate(cluster, trimmed)
    assert (report.objects.rewritten, report.put_back) == (COUNT, ("v1alpha1",))
    assert await stored_at(trimmed) == {"v1beta1"}
    assert (await ready(cluster, trimmed)).ready
    await trimmed.change(trimmed.document(storage="v1beta1", versions=("v1beta1",), keyed_conditions=False))
    assert {await trimmed.get("v1beta1", f"w{n}") is not None for n in range(COUNT)} == {True}


async def test_the_guard_of_the_api_server_holds_before_the_first_write(trimmed: Kind, cluster: HttpCluster) -> None:
    """A run that is killed in the middle must leave a CRD whose old version cannot be removed."""
    seen: list[tuple[str, ...]] = []

    class Watcher:
        def at(self, _moment: object, report: CrdReport) -> None:
            seen.append(report.stored_after)

    await Migration(cluster, Options(settle_s=0.0), observer=Watcher()).migrate(trimmed.name)
    assert ("v1alpha1", "v1beta1") in seen


async def test_an_own_mark_is_worth_nothing_after_two_flips_and_a_trim(kind: Kind, cluster: HttpCluster) -> None:
    """Flags that look untouched are no proof: the generation is."""
    await kind.apply(kind.manifest("v1beta1", "w0", spec={"size": 1}), "alice")
    await kind.change(kind.document(storage="v1beta1", keyed_conditions=False))
    assert (await migrate(cluster, kind)).pruned
    assert (await ready(cluster, kind)).ready
    await kind.change(kind.document(storage="v1alpha1", keyed_conditions=False))
    await kind.apply(kind.manifest("v1beta1", "w0", spec={"size": 2}), "alice")
    await kind.change(kind.document(storage="v1beta1", keyed_conditions=False))
    await trim(cluster, kind, "v1beta1")
    assert await stored_at(kind) == {"v1alpha1"}
    answer = await ready(cluster, kind)
    assert not answer.ready
    assert any("changed 2 times" in reason for reason in answer.against_removal)
    assert (await migrate(cluster, kind)).objects.rewritten == 1
    assert await stored_at(kind) == {"v1beta1"}
    assert (await ready(cluster, kind)).ready


async def test_ignore_mark_writes_every_object(trimmed: Kind, cluster: HttpCluster) -> None:
    """The flag is the remedy that people try first; a proof that holds must not stop it."""
    assert (await migrate(cluster, trimmed, ignore_mark=True)).objects.rewritten == COUNT
    again = await migrate(cluster, trimmed, ignore_mark=True)
    assert (again.objects.current, again.requests.write, again.put_back) == (COUNT, COUNT, ())


async def test_a_harmless_change_of_the_crd_keeps_the_proof(kind: Kind, cluster: HttpCluster) -> None:
    """A label, a description and a CA bundle must not have 100,000 objects written again, nor turn a yes into a no."""
    await kind.apply(kind.manifest("v1beta1", "w0", spec={"size": 1}), "alice")
    await kind.change(kind.document(storage="v1beta1", keyed_conditions=False))
    await migrate(cluster, kind)
    crd = await read_crd(cluster, kind.name)
    body = json.dumps({"spec": {"names": {"shortNames": ["wd"]}}}).encode()
    await cluster.patch(CRDS, kind.name, body, patch_type=PatchType.MERGE, params={"fieldManager": "other"})
    changed = await read_crd(cluster, kind.name)
    assert changed.generation == crd.generation + 1
    assert (await ready(cluster, kind)).ready
    report = await migrate(cluster, kind)
    assert (report.requests.list, report.requests.write) == (0, 0)
    extended = what_is_proved(await read_crd(cluster, kind.name)).proof
    assert extended is not None and extended.generation == changed.generation


async def test_without_the_prune_phase_a_run_proves_as_much(kind: Kind, cluster: HttpCluster) -> None:
    """``restow migrate --only prune`` after it would otherwise write every object once more."""
    await kind.apply(kind.manifest("v1beta1", "w0", spec={"size": 1}), "alice")
    await kind.change(kind.document(storage="v1beta1", keyed_conditions=False))
    await migrate(cluster, kind, skip=frozenset({Phase.PRUNE}))
    assert not (await ready(cluster, kind)).ready
    report = await migrate(cluster, kind, skip=frozenset({Phase.MANAGED_FIELDS}))
    assert (report.pruned, report.requests.write) == (True, 0)
    assert (await ready(cluster, kind)).ready


@pytest.fixture
async def late(control_plane: ControlPlane) -> AsyncIterator[tuple[ApiServer, LateLine]]:
    """A second API server that can be made to hear of CRDs late."""
    async with late_apiserver(control_plane) as found:
        yield found


async def test_a_server_that_lags_is_waited_for(kind: Kind, late: tuple[ApiServer, LateLine]) -> None:
    """Through a server that has not seen the flip every write is a no-op, and looks like an object that is current."""
    server, line = late
    waited: list[str] = []

    class Watcher:
        def at(self, moment: Moment, report: CrdReport) -> None:
            if moment is Moment.LAGGING:
                waited.append(report.lagging)
                line.release()

    await kind.apply(kind.manifest("v1beta1", "w0", spec={"size": 1}), "alice")
    async with connect(server.admin.kubeconfig) as behind:
        line.hold()
        await kind.change(kind.document(storage="v1beta1", keyed_conditions=False))
        report = await Migration(behind, Options(settle_s=0.0), observer=Watcher()).migrate(kind.name)
    assert report.pruned, report.to_json()
    assert "has not seen the last change" in waited[0]
    assert await stored_at(kind) == {"v1beta1"}


async def test_ready_says_no_while_a_server_that_it_can_see_lags(
    kind: Kind, cluster: HttpCluster, late: tuple[ApiServer, LateLine]
) -> None:
    """A client of that server may store at the old version until it follows, whatever the others know."""
    server, line = late
    await kind.change(kind.document(storage="v1beta1", keyed_conditions=False))
    await kind.apply(kind.manifest("v1beta1", "w0", spec={"size": 1}), "alice")
    assert (await migrate(cluster, kind)).pruned
    line.hold()
    await kind.change(kind.document(storage="v1beta1", served=("v1beta1",), keyed_conditions=False))
    await migrate(cluster, kind)
    assert (await ready(cluster, kind)).ready, "the server of this address has followed"
    answer = await ready(cluster, kind, api_servers=[server.admin.server])
    assert not answer.ready
    assert any(server.admin.server in reason for reason in answer.against_removal)
    line.release()
    async with asyncio.timeout(30):
        while not (answer := await ready(cluster, kind, api_servers=[server.admin.server])).ready:
            assert any(server.admin.server in reason for reason in answer.against_removal)


async def test_behind_a_balancer_each_server_is_asked(
    kind: Kind, cluster: HttpCluster, control_plane: ControlPlane, late: tuple[ApiServer, LateLine], tmp_path: Path
) -> None:
    """The server that lags is behind the same address, and the next connection may reach it."""
    server, line = late

    async def is_ready() -> bool:
        return True

    async with balancing() as balancer:
        for each in (control_plane.apiservers[0], server):
            balancer.add(int(each.admin.server.rpartition(":")[2]), is_ready)
        config = yaml.safe_load(control_plane.kubeconfig.read_text())
        config["clusters"][0]["cluster"]["server"] = f"https://127.0.0.1:{balancer.port}"
        (tmp_path / "kubeconfig").write_text(yaml.safe_dump(config))
        line.hold()
        await kind.change(kind.document(storage="v1beta1", keyed_conditions=False))
        async with connect(tmp_path / "kubeconfig") as either, ApiServers(either) as servers:
            crd = await read_crd(cluster, kind.name)
            views = await servers.views(crd)
            assert {view.generation for view in views} == {crd.generation - 1, crd.generation}
            assert await servers.behind(crd)
        line.release()


async def test_a_write_that_a_webhook_holds_over_the_flip_is_waited_for(
    kind: Kind, cluster: HttpCluster, tmp_path: Path
) -> None:
    """An API server chooses the version to store at when a request arrives, so the object comes after the last look."""
    async with holding(kind, tmp_path, "v1beta1", "held") as held, asyncio.TaskGroup() as group:

        class Watcher:
            def at(self, moment: Moment, _report: CrdReport) -> None:
                if moment is Moment.SETTLING:
                    held.free.set()

        group.create_task(kind.apply(kind.manifest("v1beta1", "held", spec={"size": 1}), "alice"))
        await held.came.wait()
        await kind.change(kind.document(storage="v1beta1", keyed_conditions=False))
        report = await Migration(cluster, Options(settle_s=10.0), observer=Watcher()).migrate(kind.name)
    assert report.objects.rewritten == 1, report.to_json()
    assert await stored_at(kind) == {"v1beta1"}
    assert (await ready(cluster, kind)).ready


async def test_objects_that_no_write_changed_are_a_sign(
    kind: Kind, late: tuple[ApiServer, LateLine], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where no look shows that a server lags, the objects that it takes for current are all that does."""

    async def sees_nothing(_servers: ApiServers, _crd: object) -> list[View]:
        return []

    server, line = late
    await kind.apply(kind.manifest("v1beta1", "w0", spec={"size": 1}), "alice")
    written = (await kind.get("v1beta1", "w0"))["metadata"]["managedFields"][0]["time"]
    await until(lambda: _later_than(written), "the clock does not go on")
    monkeypatch.setattr(ApiServers, "views", sees_nothing)
    async with connect(server.admin.kubeconfig) as behind:
        line.hold()
        await kind.change(kind.document(storage="v1beta1", keyed_conditions=False))
        report = await Migration(behind, Options(settle_s=0.0)).migrate(kind.name)
        line.release()
    assert await stored_at(kind) == {"v1alpha1"}
    assert report.unchanged == 1
    assert any("an API server that lags takes them for current" in warning for warning in report.warnings)


@pytest.mark.parametrize("write", ["a delete in a namespace that terminates", "a removal"])
async def test_a_write_that_leaves_no_time_is_no_sign(kind: Kind, cluster: HttpCluster, write: str) -> None:
    """A delete under a finalizer, and a removal of another manager's field, store the object and change no time."""
    namespace = f"going-{kind.group.partition('.')[0]}"
    await kind.namespace(namespace)
    held = kind.manifest("v1beta1", "w0", namespace, metadata={"finalizers": ["a.example.com/b"]}, spec={"size": 1})
    await kind.apply(held, "alice")
    written = (await kind.get("v1beta1", "w0", namespace))["metadata"]["managedFields"][0]["time"]
    await until(lambda: _later_than(written), "the clock does not go on")
    await kind.change(kind.document(storage="v1beta1", keyed_conditions=False))
    if write == "a removal":
        await kind.merge("v1beta1", "w0", {"spec": {"size": None}}, "editor", namespace)
    else:
        await cluster.delete(NAMESPACES, namespace)
        await kind.delete("v1beta1", "w0", namespace)
        # Another client writes the CRD after that, so that no resourceVersion shows the delete.
        await cluster.patch(CRDS, kind.name, b'{"metadata":{"labels":{"a":"b"}}}', patch_type=PatchType.MERGE)
    report = await migrate(cluster, kind)
    assert await stored_at(kind) == {"v1beta1"}
    assert report.complete and report.pruned and (report.objects.current, report.unchanged) == (1, 0)
    assert not report.warnings


async def _later_than(time: str) -> bool:
    return datetime.now(UTC) > datetime.fromisoformat(time) + timedelta(seconds=1)
