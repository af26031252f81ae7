"""Who names the objects of a CRD as owners at a version: found in every resource, by metadata alone, in one search.

That these objects need the version served is the matter of test_garbage_collection.py.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Any

import pytest

from restow.controlplane.plane import ControlPlane
from restow.kube import connect
from restow.kube.client import HttpCluster
from restow.kube.cluster import PatchType
from restow.kube.errors import NotFound, TooManyRequests
from restow.kube.resources import CONFIG_MAPS, CRDS, EVENTS, NAMESPACES, Resource
from restow.migrator import Migration, MigrationRefused, Options, find_references, read_crd, sought
from restow.migrator import ready as ask_ready
from restow.migrator.planning.ready import Readiness
from restow.migrator.references.reference import FoundReferences, NotLookedAt, ReferenceKind
from tests.apiserver.access import Access, on_crd, on_objects
from tests.apiserver.kind import Kind, until
from tests.apiserver.proxy import Answer, Fault, Proxy, Seen, Truncate
from tests.apiserver.webhook import ConvertedKind, Webhook
from tests.restow.commandline import Cli

OLD, NEW = "v1alpha1", "v1beta1"
SECRETS = Resource("", "v1", "secrets", namespaced=True)
SCALERS = Resource("autoscaling", "v2", "horizontalpodautoscalers", namespaced=True)
API_SERVICES = Resource("apiregistration.k8s.io", "v1", "apiservices", namespaced=False)


class Dependent:
    """Makes objects with an ownerReference; takes them away."""

    def __init__(self, cluster: HttpCluster, group: str) -> None:
        self._cluster = cluster
        self._made: list[tuple[Resource, str, str | None]] = []
        self.group = group

    def reference(self, version: str = OLD, kind: str = "Widget") -> dict[str, str]:
        """An ownerReference to some widget."""
        return {"apiVersion": f"{self.group}/{version}", "kind": kind, "name": "w", "uid": "1-2-3"}

    async def made(self, resource: Resource, name: str, *references: dict[str, str], **content: Any) -> None:
        """An object with these references, at the old version unless others are given."""
        namespace = "default" if resource.namespaced else None
        metadata = {"name": name, "ownerReferences": list(references) or [self.reference()]}
        await self._cluster.create(resource, json.dumps({"metadata": metadata} | content).encode(), namespace)
        self._made.append((resource, name, namespace))

    async def remove(self) -> None:
        """Delete all."""
        for each in self._made:
            with suppress(NotFound):
                await self._cluster.delete(*each)


@pytest.fixture
async def dependent(cluster: HttpCluster, group: str) -> AsyncIterator[Dependent]:
    """Dependents of the test's widgets."""
    making = Dependent(cluster, group)
    yield making
    await making.remove()


@pytest.fixture
async def old(kind: Kind) -> Kind:
    """A migrated CRD, whose old version only dependents can still need."""
    await kind.change(kind.document(storage=NEW))
    await Migration(kind.cluster, Options(settle_s=0.0)).migrate(kind.name)
    return kind


async def ready(cluster: HttpCluster, kind: Kind, version: str = OLD) -> Readiness:
    """Look, as ``restow ready`` does."""
    return await ask_ready(cluster, await read_crd(cluster, kind.name), version)


OWNERS = (ReferenceKind.OWNER_REFERENCES,)


async def search(cluster: HttpCluster, kind: Kind, version: str = OLD) -> FoundReferences:
    """The search for ownerReferences alone."""
    of = sought(await read_crd(kind.cluster, kind.name), version)
    return (await find_references(cluster, [of], kinds=OWNERS))[of]


def dependents(found: FoundReferences) -> list[str]:
    """The objects with ownerReferences, by resource."""
    return [
        f"{resource}: {objects}, {', '.join(each.key for each in kept)}"
        for resource, objects, kept in found.of_kind(ReferenceKind.OWNER_REFERENCES)
    ]


async def test_objects_of_every_resource_are_found(
    old: Kind, cluster: HttpCluster, dependent: Dependent, control_plane: ControlPlane
) -> None:
    """One kind that is not looked at is one kind whose objects stay behind."""
    await dependent.made(CONFIG_MAPS, f"a.{old.group}")
    await dependent.made(CONFIG_MAPS, f"b.{old.group}", dependent.reference(NEW), dependent.reference(kind="Gadget"))
    await dependent.made(NAMESPACES, old.group.replace(".", "-"))
    target = {"scaleTargetRef": {"apiVersion": "apps/v1", "kind": "Deployment", "name": "d"}, "maxReplicas": 1}
    await dependent.made(SCALERS, f"a.{old.group}", spec=target)  # autoscaling serves it at v1, too
    regarding = {"involvedObject": {"namespace": "default"}, "regarding": {"namespace": "default"}}
    told = {"eventTime": "2026-01-01T00:00:00.000000Z", "reportingController": "t.dev/c", "reportingInstance": "i"}
    said = {"action": "A", "reason": "R", "type": "Normal"}
    await dependent.made(EVENTS, f"a.{old.group}", **regarding, **told, **said)  # which is never collected
    await old.apply(old.manifest(NEW, "child", metadata={"ownerReferences": [dependent.reference()]}), "alice")
    found = await search(cluster, old)
    assert sorted(dependents(found)) == sorted(
        [
            f"configmaps: 1, default/a.{old.group}",
            f"namespaces: 1, {old.group.replace('.', '-')}",
            f"horizontalpodautoscalers.autoscaling: 1, default/a.{old.group}",
            f"{old.name}: 1, default/child",
        ]
    )
    assert found.not_looked_at == ()


async def test_a_resource_at_another_version_of_its_group_is_found(
    old: Kind, cluster: HttpCluster, dependent: Dependent
) -> None:
    """The group's preferred version is v1beta1, at which gadgets are not served."""
    document = old.document(storage=OLD, versions=(OLD,))
    document["metadata"]["name"] = f"gadgets.{old.group}"
    document["spec"]["names"] = {"plural": "gadgets", "kind": "Gadget"}
    gadgets = Resource(old.group, OLD, "gadgets", namespaced=True)
    await cluster.create(CRDS, json.dumps(document).encode())
    try:

        async def served() -> bool:
            with suppress(NotFound, TooManyRequests):
                await cluster.list_page(gadgets)
                listed = (await cluster.discover(f"/apis/{old.group}/{OLD}")).json()["resources"]
                return any(each["name"] == "gadgets" for each in listed)
            return False

        await until(served, "gadgets are not served")
        await dependent.made(gadgets, "g", apiVersion=gadgets.api_version, kind="Gadget")
        assert dependents(await search(cluster, old)) == [f"gadgets.{old.group}: 1, default/g"]
    finally:
        await cluster.delete(CRDS, f"gadgets.{old.group}")


async def test_the_verdict_follows_the_references(old: Kind, cluster: HttpCluster, dependent: Dependent) -> None:
    """A no that stays after the references were written blocks a release; a yes before loses objects."""
    assert (await ready(cluster, old)).ready
    name = f"a.{old.group}"
    await dependent.made(CONFIG_MAPS, name)
    answer = await ready(cluster, old)
    assert not answer.ready
    assert answer.against_unserving == answer.against_removal
    assert f"Write these references at {NEW}, with the same uid, before {OLD} is unserved" in answer.against_removal[0]
    body = json.dumps({"metadata": {"ownerReferences": [dependent.reference(NEW)]}}).encode()
    await cluster.patch(CONFIG_MAPS, name, body, "default", patch_type=PatchType.MERGE)
    assert (await ready(cluster, old)).ready


async def test_references_at_a_version_that_has_gone_are_found(
    old: Kind, cluster: HttpCluster, dependent: Dependent
) -> None:
    """Whoever removed a version too early has to find what is left; a name that never was stays refused."""
    await old.change(old.document(storage=NEW, versions=(NEW,)))
    with pytest.raises(MigrationRefused, match=f"has no version {OLD}"):
        await ready(cluster, old)
    await dependent.made(CONFIG_MAPS, f"a.{old.group}")
    answer = await ready(cluster, old)
    assert answer.references is not None
    assert len(dependents(answer.references)) == 1
    assert not answer.ready


async def test_one_search_reads_each_resource_once_by_metadata(
    old: Kind, through_proxy: HttpCluster, proxy: Proxy, dependent: Dependent
) -> None:
    """The content of Secrets must not travel, and a large cluster must not be listed once for each question."""
    await dependent.made(SECRETS, f"a.{old.group}", stringData={"a": "hidden"})
    crd = await read_crd(old.cluster, old.name)
    versions = [sought(crd, version) for version in (OLD, NEW)]
    found = await find_references(through_proxy, versions, kinds=OWNERS)
    assert [found[of].count for of in versions] == [1, 0]
    lists = [seen for seen in proxy.seen if seen.is_list and "continue" not in seen.query]  # the first page of each
    built_in = [
        seen.path for seen in lists if "example.com" not in seen.path
    ]  # kinds that other tests delete are retried
    assert sorted(set(built_in)) == sorted(built_in)
    assert len(lists) > 30
    assert {"/api/v1/secrets", f"/apis/{old.group}/{NEW}/widgets"} <= {seen.path for seen in lists}
    assert {seen.accept for seen in lists} == {"application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1"}
    assert {seen.path for seen in proxy.seen if seen.method != "GET"} == {
        "/apis/authorization.k8s.io/v1/selfsubjectaccessreviews"
    }


async def test_it_goes_on_page_by_page_through_faults(
    old: Kind, through_proxy: HttpCluster, proxy: Proxy, dependent: Dependent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An API server that is busy for a moment must not hide a page."""
    monkeypatch.setattr("restow.migrator.references.scan._PAGE", 2)
    for number in range(5):
        await dependent.made(CONFIG_MAPS, f"a{number}.{old.group}")

    async def faults(seen: Seen) -> Fault | None:
        if seen.path not in ("/apis", "/api/v1", "/api/v1/configmaps") or seen.path in spoilt:
            return None
        spoilt.add(seen.path)
        return Truncate() if seen.path == "/api/v1" else Answer.of(503, "ServiceUnavailable", "busy")

    spoilt: set[str] = set()
    proxy.hook = faults
    found = await search(through_proxy, old)
    assert spoilt == {"/apis", "/api/v1", "/api/v1/configmaps"}
    assert (found.count, found.not_looked_at) == (5, ())
    assert len(found.references) == 5


async def test_what_may_not_be_listed_is_named(
    old: Kind, access: Access, dependent: Dependent, cluster: HttpCluster
) -> None:
    """Who may see the CRD's objects alone gets an answer about these, and is told that it is about these alone."""
    await dependent.made(CONFIG_MAPS, f"a.{old.group}")
    user = await access.user(f"narrow-{old.group}", on_crd(old, "get"), on_objects(old, "list"))
    async with connect(user.kubeconfig) as narrow:
        answer = await ready(narrow, old)
    assert answer.ready
    assert answer.references is not None
    missed = answer.references.not_looked_at
    assert NotLookedAt("configmaps", "not allowed to list it") in missed
    assert old.name not in {each.resource for each in missed}
    (note,) = (note for note in answer.notes if "restow has not looked for references" in note)
    assert "there may be more of them" in note


async def test_without_rights_nothing_is_refused(old: Kind, proxy: Proxy, through_proxy: HttpCluster) -> None:
    """Refused lists fill an audit log, and each is tried again for seconds; so rights are asked for first."""

    async def denies(seen: Seen) -> Fault | None:
        if not seen.path.endswith("selfsubjectaccessreviews"):
            return None
        return Answer(201, b'{"status": {"allowed": false}}')

    proxy.hook = denies
    found = await search(through_proxy, old)
    assert {each.reason for each in found.not_looked_at} == {"not allowed to list it"}
    assert not any(seen.is_list for seen in proxy.seen)


async def test_an_aggregated_api_that_is_down_is_named(
    old: Kind, cluster: HttpCluster, dependent: Dependent, group: str
) -> None:
    """Its objects may be dependents, and no list of its resources is to be had; the others are looked at."""
    await dependent.made(CONFIG_MAPS, f"a.{old.group}")
    name = f"v1.down.{group}"
    spec = {
        "group": f"down.{group}",
        "version": "v1",
        "service": {"namespace": "default", "name": "nowhere"},
        "groupPriorityMinimum": 1000,
        "versionPriority": 10,
        "insecureSkipTLSVerify": True,
    }
    await cluster.create(API_SERVICES, json.dumps({"metadata": {"name": name}, "spec": spec}).encode())
    try:

        async def announced() -> bool:
            groups = (await cluster.discover("/apis")).json()["groups"]
            return any(each["name"] == f"down.{group}" for each in groups)

        await until(announced, "the aggregated API is not announced")
        found = await search(cluster, old)
        (missed,) = found.not_looked_at
        assert missed.resource == f"/apis/down.{group}/v1"
        assert missed.reason.startswith("503: ")
        assert found.count == 1
    finally:
        await cluster.delete(API_SERVICES, name)


async def test_objects_that_cannot_be_converted_are_named(
    old: Kind, cluster: HttpCluster, webhook: Webhook, dependent: Dependent, control_plane: ControlPlane
) -> None:
    """Another project's webhook that is down must neither fail this answer nor be left out of it."""
    await dependent.made(CONFIG_MAPS, f"a.{old.group}")
    other = ConvertedKind(cluster, control_plane.etcd, f"converted.{old.group}", webhook)
    await other.create(other.document(storage="v1", versions=("v1", "v2")))
    try:
        webhook.fails = lambda _found, desired: desired == "v2"
        await other.apply(other.manifest("v1", "w", spec={"size": 1}), "alice")
        found = await search(cluster, old)
        (missed,) = found.not_looked_at
        assert missed.resource == other.name
        assert "the converter is out of order" in missed.reason
        assert found.count == 1
    finally:
        webhook.fails = lambda _found, _desired: False
        await other.remove()


async def test_discovery_that_does_not_answer_is_named(
    old: Kind, through_proxy: HttpCluster, proxy: Proxy, dependent: Dependent
) -> None:
    """Without discovery nothing is known of the rest; what is known is still looked at."""
    await dependent.made(CONFIG_MAPS, f"a.{old.group}")

    async def refuses(seen: Seen) -> Fault | None:
        return Answer.of(403, "Forbidden", "discovery is for members") if seen.path == "/apis" else None

    proxy.hook = refuses
    found = await search(through_proxy, old)
    assert found.not_looked_at == (NotLookedAt("/apis", "403: discovery is for members"),)
    assert found.count == 1


async def test_the_command_shows_it(old: Kind, cli: Cli, dependent: Dependent) -> None:
    """Pipelines branch on the exit code and read the JSON; people read the sentence."""
    await dependent.made(CONFIG_MAPS, f"a.{old.group}")
    ran = await cli("ready", old.name, "--drop", OLD, "-o", "json")
    assert (ran.code, ran.json["mayBeUnserved"], ran.json["mayBeRemoved"]) == (3, False, False)
    example = f"default/a.{old.group}"
    assert ran.json["dependents"] == [{"resource": "configmaps", "count": 1, "examples": [example]}]
    assert ran.json["notLookedAt"] == []
    shown = await cli("ready", old.name, "--drop", OLD)
    assert shown.out.startswith(f"{OLD} of {old.name} cannot be unserved or removed yet: ")
    assert shown.err.count(f"1 object has ownerReferences at {old.group}/{OLD} (configmaps: 1, for example") == 1
