"""The CRD changes while a run is at work: what the run decided by the CRD of its start is judged by the one of now."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import pytest

from restow.controlplane.etcd import Etcd
from restow.controlplane.plane import ControlPlane
from restow.kube import connect
from restow.kube.client import HttpCluster
from restow.migrator import CrdReport, Migration, Options, Phase, read_crd, ready
from restow.migrator.model.callbacks import Moment
from tests.apiserver.kind import Document, Kind, Owned, entry_versions, owners
from tests.apiserver.lag import late_apiserver
from tests.apiserver.proxy import Fault, Proxy, Seen
from tests.apiserver.webhook import Webhook

COUNT, AT, RATE = 60, 20, 20.0
ALICE, BOB, CTRL = ("alice", "Apply", ""), ("bob", "Apply", ""), ("ctrl", "Update", "status")


def renamed(found: Document, desired: str) -> Document:
    """``a`` in v1 is ``b`` in v2."""
    was, wanted = ("b", "a") if desired.endswith("/v1") else ("a", "b")
    moved = found | {"apiVersion": desired}
    if was in found.get("spec", {}):
        moved["spec"] = {wanted if name == was else name: value for name, value in found["spec"].items()}
    return moved


class Changing(Kind):
    """Widgets whose versions both have ``a``, ``b``, ``c`` and a map ``m``, so that no field of them is ever pruned."""

    def __init__(self, cluster: HttpCluster, etcd: Etcd, group: str, webhook: Webhook) -> None:
        super().__init__(cluster, etcd, group)
        self._client = {"url": webhook.url, "caBundle": webhook.ca_bundle}
        webhook.converts = renamed
        self.canary = {"c": "c"}

    def document(self, *, storage: str, strategy: str = "None", text: str = "", **more: Any) -> Document:
        """The CRD; ``more`` are the keys of the schema of v2's ``m``, and the default of its ``d``."""
        default = {"default": more.pop("default")} if "default" in more else {}
        made = super().document(storage=storage, versions=("v1", "v2"))
        for version in made["spec"]["versions"]:
            texts = {name: {"type": "string"} for name in "abcd"}
            m: Document = {"type": "object", "additionalProperties": {"type": "string"}}
            if version["name"] == "v2":
                m, texts["d"] = m | more, texts["d"] | default
            parts = {"spec": texts | {"m": m}, "status": {"s": {"type": "string"}}}
            objects = {name: {"type": "object", "properties": each} for name, each in parts.items()}
            schema = {"type": "object", "description": text, "properties": objects}
            version["schema"] = {"openAPIV3Schema": schema}
        if strategy == "Webhook":
            webhook = {"clientConfig": self._client, "conversionReviewVersions": ["v1"]}
            made["spec"]["conversion"] = {"strategy": "Webhook", "webhook": webhook}
        return made


@pytest.fixture
async def kind(cluster: HttpCluster, etcd: Etcd, group: str, webhook: Webhook) -> AsyncIterator[Changing]:
    """Widgets that are stored at v1."""
    made = Changing(cluster, etcd, group, webhook)
    await made.create(made.document(storage="v1"))
    yield made
    await made.remove()


@pytest.fixture
def changing(proxy: Proxy, through_proxy: HttpCluster, kind: Changing) -> Callable[[Document], Awaitable[CrdReport]]:
    """Migrate, and change the CRD just before one of the writes."""

    async def migrate(after: Document) -> CrdReport:
        written = 0

        async def hook(seen: Seen) -> Fault | None:
            nonlocal written
            written += seen.is_write
            if seen.is_write and written == AT:
                await kind.change(after)
            return None

        proxy.hook = hook
        report = await Migration(through_proxy, Options(settle_s=0.0, rate=RATE)).migrate(kind.name)
        assert written >= AT
        return report

    return migrate


async def applied_at_v1(kind: Changing) -> None:
    """Every object has ``a`` of alice and ``c`` of bob."""
    for number in range(COUNT):
        name = f"w{number:02}"
        await kind.apply(kind.manifest("v1", name, spec={"a": name}), "alice")
        await kind.apply(kind.manifest("v1", name, spec={"c": "c"}), "bob")


def owned(found: Document) -> Owned:
    """Who owns which of them: alice whichever of ``a`` and ``b`` there is."""
    [field] = {"a", "b"} & set(found["spec"])
    return {ALICE: frozenset({f"/f:spec/f:{field}"}), BOB: frozenset({"/f:spec/f:c"})}


async def all_owned(kind: Changing, report: CrdReport, expected: Callable[[Document], Owned]) -> None:
    """The run did everything, ``ready`` says so, and etcd has every owner of an object as stored there."""
    assert report.pruned and not report.failures, report.to_json()
    assert (await ready(kind.cluster, await read_crd(kind.cluster, kind.name), "v1", references=False)).ready
    stored = await kind.stored()
    assert len(stored) == COUNT
    for name, found in stored.items():
        assert found["apiVersion"] == f"{kind.group}/v2" and entry_versions(found) == {"v2"}, name
        assert owners(found) == expected(found), name


@pytest.mark.parametrize("strategies", [("None", "Webhook"), ("Webhook", "None")], ids=" to ".join)
async def test_the_strategy_changes_in_mid_run(
    kind: Changing, changing: Callable[[Document], Awaitable[CrdReport]], strategies: tuple[str, str]
) -> None:
    """alice would own a field that is not there, and no one the one that is; her next apply leaves it for ever."""
    before, after = strategies
    await kind.change(kind.document(storage="v1", strategy=before))
    await applied_at_v1(kind)
    await kind.change(kind.document(storage="v2", strategy=before))
    report = await changing(kind.document(storage="v2", strategy=after))
    await all_owned(kind, report, owned)
    fields = {frozenset(found["spec"]) for found in (await kind.stored()).values()}
    assert fields == {frozenset("ac"), frozenset("bc")}, "the change came before the first object, or after the last"


async def test_the_strategy_changes_in_mid_run_and_back(
    kind: Changing, proxy: Proxy, through_proxy: HttpCluster
) -> None:
    """A CRD that is as it was at the start says nothing about the objects that were converted in between."""
    await applied_at_v1(kind)
    await kind.change(kind.document(storage="v2"))
    written = back_at = 0

    async def hook(seen: Seen) -> Fault | None:
        nonlocal written, back_at
        written += seen.is_write
        if seen.is_write and written == AT:
            await kind.change(kind.document(storage="v2", strategy="Webhook"))
            back_at = max(written, AT + 1)
        elif back_at > 0 and (written > back_at or not seen.is_write):
            back_at = -1
            await kind.change(kind.document(storage="v2"))
        return None

    proxy.hook = hook
    report = await Migration(through_proxy, Options(settle_s=0.0, rate=RATE)).migrate(kind.name)
    proxy.hook = None
    wrong = {name for name, found in (await kind.stored()).items() if owners(found) != owned(found)}
    assert back_at == -1 and any("b" in found["spec"] for found in (await kind.stored()).values())
    assert wrong <= {f"default/{each.name}" for each in report.failures}, "an owner is lost, and no one hears of it"
    assert not (wrong and report.pruned)


@pytest.mark.parametrize(
    "change",
    [
        {"x-kubernetes-map-type": "atomic"},
        {"default": "d"},
        {"x-kubernetes-map-type": "atomic", "default": "d"},
        {"text": "described"},
    ],
    ids=["a map turns atomic", "a default appears", "both", "a description changes"],
)
async def test_the_schema_changes_in_mid_run(
    kind: Changing, changing: Callable[[Document], Awaitable[CrdReport]], change: Document
) -> None:
    """Ten writes an object, and then the owners, who are all there, would be said to be lost."""
    for number in range(COUNT):
        name = f"w{number:02}"
        await kind.apply(kind.manifest("v1", name, spec={"a": "a", "m": {"x": "x"}}), "alice")
        await kind.apply(kind.manifest("v1", name, spec={"b": "b", "m": {"y": "y"}}), "bob")
        await kind.merge("v1", name, {"status": {"s": "s"}}, "ctrl", subresource="status")
    await kind.change(kind.document(storage="v2"))
    report = await changing(kind.document(storage="v2", **change))

    def expected(found: Document) -> Owned:
        whole = {"/f:spec/f:m"} & owners(found)[ALICE]
        return {
            ALICE: frozenset({"/f:spec/f:a"} | (whole or {"/f:spec/f:m/f:x"})),
            BOB: frozenset({"/f:spec/f:b"} | (whole or {"/f:spec/f:m/f:y"})),
            CTRL: frozenset({"/f:status", "/f:status/f:s"}),
        }

    await all_owned(kind, report, expected)
    assert report.requests.write < 4 * COUNT, report.requests
    for name in ("w00", f"w{COUNT - 1}"):  # one that was written before the change, and one after it: no conflict
        for manager, fields in (("alice", {"a": "a", "m": {"x": "x"}}), ("bob", {"b": "b", "m": {"y": "y"}})):
            whole = {"m": {"x": "x", "y": "y"}} if "x-kubernetes-map-type" in change else {}
            await kind.apply(kind.manifest("v2", name, spec=fields | whole), manager)


async def test_without_the_storage_phase_a_server_that_lags_is_waited_for(
    kind: Changing, webhook: Webhook, control_plane: ControlPlane
) -> None:
    """That server converts by the strategy of before, so owners that the run writes through it are of other fields."""
    waited: list[str] = []
    async with late_apiserver(control_plane) as (server, line), connect(server.admin.kubeconfig) as behind:

        class Watcher:
            def at(self, moment: Moment, report: CrdReport) -> None:
                if moment is Moment.LAGGING:
                    waited.append(report.lagging)
                    line.release()

        both = kind.document(storage="v2")
        await kind.change(both)
        await kind.apply(kind.manifest("v2", "w00", spec={"b": "w00"}), "alice")
        await kind.apply(kind.manifest("v2", "w00", spec={"c": "c"}), "bob")
        await Changing(behind, kind.etcd, kind.group, webhook).serves(both)
        line.hold()
        await kind.change(kind.document(storage="v1", strategy="Webhook"))
        options = Options(settle_s=0.0, skip=frozenset({Phase.STORAGE}))
        report = await Migration(behind, options, observer=Watcher()).migrate(kind.name)
        [found] = (await kind.stored()).values()
        line.release()
    assert report.objects.rewritten == 1 and not report.failures, report.to_json()
    assert waited and entry_versions(found) == {"v1"}
    assert owners(found) == owned(found)
