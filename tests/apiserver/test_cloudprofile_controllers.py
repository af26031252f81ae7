"""The controllers of the CloudProfile family on a real API server, with the shipped CRDs and a clock moved by hand."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest

from restow.cloudprofile.admission import webhook_configurations
from restow.cloudprofile.admission.steps import review_verb
from restow.cloudprofile.controllers import ControllerOptions, run
from restow.cloudprofile.management import VersionManagement
from restow.cloudprofile.objects import CLOUD_PROFILE, NAMESPACED_CLOUD_PROFILE, ProfileReference
from restow.cloudprofile.queries import children_of, find_profile, shoots_of, shoots_of_family
from restow.controlplane.binaries import find_binaries
from restow.controlplane.plane import ControlPlane
from restow.conversion.reviews.admission import AdmissionRequest, GroupVersionKind, GroupVersionResource, UserInfo
from restow.kube.client import HttpCluster
from restow.kube.clock import SYSTEM_CLOCK
from restow.kube.cluster import Reply, Request
from restow.kube.controller import ControllerEvent, ControllerEventType
from restow.kube.errors import ApiError, NotFound
from restow.kube.resources import Resource
from tests.apiserver.access import Access, Right
from tests.apiserver.kind import Document, until
from tests.apiserver.profile_api import GROUP, alone, install, uninstall, with_cluster
from tests.apiserver.profile_controllers import BELL, FixedTime, Watched, World, running

FINALIZER = ["gardener"]


@pytest.fixture(scope="module")
def _installed(kubeconfig: Path) -> Iterator[None]:
    crds = alone("v1beta2")
    with_cluster(kubeconfig, lambda cluster: install(cluster, crds))
    yield
    with_cluster(kubeconfig, lambda cluster: uninstall(cluster, list(crds)))


@pytest.fixture
async def world(cluster: HttpCluster, _installed: None) -> AsyncIterator[World]:
    """An empty landscape, but for a bell."""
    made = World(cluster)
    await made.hang_bell()
    yield made
    await made.clear()


@pytest.fixture
def time() -> FixedTime:
    """A clock that stands at the beginning of 2026."""
    return FixedTime()


@pytest.fixture
def watched(cluster: HttpCluster) -> Watched:
    """The API server as the controllers see it."""
    return Watched(cluster)


def version(name: str, *stages: tuple[str, str | None]) -> Document:
    """A version with stages, each with its start."""
    lifecycle = [{"classification": what} | ({"startTime": start} if start else {}) for what, start in stages]
    return {"version": name} | ({"lifecycle": lifecycle} if lifecycle else {})


async def test_the_status_follows_each_stage(world: World, watched: Watched, time: FixedTime) -> None:
    """At every stage start, and at no other time, exactly one status is written."""
    stages = [
        ("preview", time.after(hours=1)),
        ("supported", time.after(days=1)),
        ("deprecated", time.after(days=90)),
        ("expired", time.after(days=120)),
    ]
    await world.profile("a", version("1.30.1", *stages), version("1.29.0"))
    async with running(watched, time):
        await world.says("CloudProfile", "a", v1_30_1="unavailable", v1_29_0="supported")
        found = await world.get("CloudProfile", "a")
        assert found["metadata"]["finalizers"] == FINALIZER
        assert found["status"]["observedGeneration"] == found["metadata"]["generation"] == 1
        assert watched.patched["cloudprofiles/status", "a"] == 1
        for move, becomes in (
            ({"hours": 1}, "preview"),
            ({"hours": 23}, "supported"),
            ({"days": 89}, "deprecated"),
            ({"days": 30}, "expired"),
        ):
            time.move(**move)
            await world.ring()
            await world.says("CloudProfile", "a", v1_30_1=becomes, v1_29_0="supported")
    assert watched.patched["cloudprofiles/status", "a"] == 1 + 4  # the bell's status may be refused and written twice
    assert watched.patched["cloudprofiles", "a"] == 1  # its finalizer
    assert watched.asked["get cloudprofiles"] == 0


async def test_stages_that_start_are_events(world: World, watched: Watched, time: FixedTime, kubeconfig: Path) -> None:
    """`kubectl describe` would not show when a version changed, or would show it again after each restart."""
    stages = ("preview", None), ("supported", time.after(days=1)), ("deprecated", time.after(days=2))
    images = [{"name": "ubuntu", "versions": [version("1.0.0", *stages[:2])]}]
    await world.profile("a", version("1.30.1", *stages), version("1.29.0"), machineImages=images)
    await world.child("b", "a", kubernetes={"versions": [version("1.30.1", ("deprecated", time.after(days=3)))]})
    kubectl = str((await find_binaries(("kubectl",)))["kubectl"])
    wait = (kubectl, f"--kubeconfig={kubeconfig}", "wait", "--for=condition=UpdatePathComplete", "--timeout=60s")
    waiting = await asyncio.create_subprocess_exec(*wait, "cpfl/a", stdout=asyncio.subprocess.DEVNULL)
    one, two, three = (time.after(days=day) for day in (1, 2, 3))
    async with running(watched, time):
        assert await waiting.wait() == 0
        await world.says("NamespacedCloudProfile", "b", v1_30_1="preview", v1_29_0="supported")
        assert await world.events("a") == []
        time.move(days=1)
        await world.ring()
        await world.says("NamespacedCloudProfile", "b", v1_30_1="supported", v1_29_0="supported")
        expected = [
            ("Normal", "StageStarted", f"Kubernetes 1.30.1: the stage supported started at {one}"),
            ("Normal", "StageStarted", f"ubuntu 1.0.0: the stage supported started at {one}"),
        ]
        await until(lambda: _has_events(world, "a", expected), "the first stages are no events")
    time.move(days=2)
    async with running(watched, time):
        await world.says("NamespacedCloudProfile", "b", v1_30_1="deprecated", v1_29_0="supported")
        expected.append(("Normal", "StageStarted", f"Kubernetes 1.30.1: the stage deprecated started at {two}"))
        await until(lambda: _has_events(world, "a", expected), "the stage deprecated is no event")
        own = [expected[0], ("Normal", "StageStarted", f"Kubernetes 1.30.1: the stage deprecated started at {three}")]
        await until(lambda: _has_events(world, "b", own), "the stage of the override is no event")
    assert watched.patched["cloudprofiles/status", "a"] == 3
    assert watched.patched["namespacedcloudprofiles/status", "b"] == 3


async def _has_events(world: World, name: str, expected: list[tuple[str, str, str]]) -> bool:
    return sorted(await world.events(name)) == sorted(expected)


async def test_a_stage_start_needs_no_event(world: World, watched: Watched) -> None:
    """Nothing happens in the cluster when a stage begins: the controller comes by itself, at that time and once."""
    start = (datetime.now(UTC) + timedelta(seconds=3)).replace(microsecond=0)
    looked: list[datetime] = []

    def note(details: ControllerEvent) -> None:
        if details.type is ControllerEventType.RECONCILED and details.key and details.key.name == "a":
            looked.append(datetime.now(UTC))

    await world.profile("a", version("1.30.1", ("supported", start.strftime("%Y-%m-%dT%H:%M:%SZ"))))
    async with asyncio.TaskGroup() as group:
        task = group.create_task(run(watched, SYSTEM_CLOCK, ControllerOptions(hook=note, resync=None)))
        await world.says("CloudProfile", "a", v1_30_1="unavailable")
        await world.says("CloudProfile", "a", v1_30_1="supported")
        task.cancel()
    after = [at for at in looked if at >= start]
    assert after
    assert after[0] - start < timedelta(seconds=1)  # what the project promises, and so no matter of a busy machine
    assert watched.patched["cloudprofiles/status", "a"] == 2


async def test_a_restart_loses_no_stage(world: World, watched: Watched, time: FixedTime) -> None:
    """Stages that begin while nothing runs are told as soon as something does; what was told is not written again."""
    await world.profile("a", version("1.30.1", ("supported", None), ("deprecated", time.after(days=2))))
    async with running(watched, time):
        await world.says("CloudProfile", "a", v1_30_1="supported")
    time.move(days=3)
    async with running(watched, time):
        await world.says("CloudProfile", "a", v1_30_1="deprecated")
    assert watched.patched["cloudprofiles/status", "a"] == 2
    assert watched.patched["cloudprofiles", "a"] == 1  # its finalizer


async def test_rendering_follows_the_parent(world: World, watched: Watched, time: FixedTime) -> None:
    """A NamespacedCloudProfile waits for its parent, and is rendered again when the parent or time changes it."""
    override = {"versions": [version("1.30.1", ("expired", time.after(days=60)))]}
    await world.child("b", "a", kubernetes=override)
    async with running(watched, time):
        await until(lambda: _has_finalizer(world, "NamespacedCloudProfile", "b"), "b has no finalizer")
        assert "cloudProfileSpec" not in (await world.get("NamespacedCloudProfile", "b")).get("status", {})
        parent = await world.profile("a", version("1.30.1", ("supported", None), ("expired", time.after(days=30))))
        await world.says("NamespacedCloudProfile", "b", v1_30_1="supported")
        status = (await world.get("NamespacedCloudProfile", "b"))["status"]
        assert status["cloudProfileSpec"]["kubernetes"]["versions"] == [
            version("1.30.1", ("supported", None), ("expired", time.after(days=60)))
        ]
        versions = [*parent["spec"]["kubernetes"]["versions"], version("1.31.0")]
        await world.api.change(parent, kubernetes={"versions": versions})
        await world.says("NamespacedCloudProfile", "b", v1_30_1="supported", v1_31_0="supported")
        time.move(days=40)
        await world.ring()
        await world.says("CloudProfile", "a", v1_30_1="expired", v1_31_0="supported")
        await world.says("NamespacedCloudProfile", "b", v1_30_1="supported", v1_31_0="supported")
        time.move(days=20)
        await world.ring()
        await world.says("NamespacedCloudProfile", "b", v1_30_1="expired", v1_31_0="supported")


async def _has_finalizer(world: World, kind: str, name: str) -> bool:
    return bool((await world.get(kind, name))["metadata"].get("finalizers") == FINALIZER)


async def test_a_profile_stays_while_it_is_used(world: World, watched: Watched, time: FixedTime) -> None:
    """Neither profile goes before its last user, a child counts as one, and then both go by themselves."""
    parent = await world.profile("a", version("1.30.1"))
    child = await world.child("b", "a")
    shoot = await world.shoot("s", "NamespacedCloudProfile", "b")
    async with running(watched, time):
        await world.says("NamespacedCloudProfile", "b", v1_30_1="supported")
        await until(lambda: _has_finalizer(world, "CloudProfile", "a"), "a has no finalizer")
        await world.api.delete(parent)
        await world.api.delete(child)
        await until(lambda: world.events("b"), "no event about b")
        await until(lambda: world.events("a"), "no event about a")
        assert await world.events("b") == [
            (
                "Warning",
                "ResourceReferenced",
                (
                    'Cannot delete NamespacedCloudProfile "default/b", because the following Shoots are still '
                    "referencing it: [default/s]"
                ),
            )
        ]
        assert "NamespacedCloudProfiles are still referencing it: [default/b]" in (await world.events("a"))[0][2]
        assert await world.exists("CloudProfile", "a")
        assert await world.exists("NamespacedCloudProfile", "b")
        await world.api.delete(shoot)
        await until(lambda: _is_gone(world, "NamespacedCloudProfile", "b"), "b is still there")
        await until(lambda: _is_gone(world, "CloudProfile", "a"), "a is still there")


async def _is_gone(world: World, kind: str, name: str) -> bool:
    return not await world.exists(kind, name)


async def test_a_shoot_of_the_last_moment_holds_its_profile(world: World, watched: Watched, time: FixedTime) -> None:
    """Before the finalizer goes the API server itself is asked, since the memory may not know the newest Shoot."""
    parent = await world.profile("a", version("1.30.1"))
    send = watched.send

    async def blind(request: Request) -> Reply:
        """What the informer lists of Shoots is old: there are none."""
        shoots = request.resource is not None and request.resource.plural == "shoots"
        if shoots and request.verb == "list" and "fieldSelector" not in (request.params or {}):
            request = msgspec.structs.replace(request, namespace="kube-system")
        return await send(request)

    watched.send = blind  # type: ignore[method-assign]
    await world.shoot("s", "CloudProfile", "a")
    async with running(watched, time):
        await until(lambda: _has_finalizer(world, "CloudProfile", "a"), "a has no finalizer")
        await world.api.delete(parent)
        await until(lambda: world.events("a"), "no event about a")
        assert await world.exists("CloudProfile", "a")


async def test_a_changed_object_is_looked_at_again(world: World, watched: Watched, time: FixedTime) -> None:
    """A status decided on an object that changed meanwhile is refused by the server, and decided again."""
    found = await world.profile("a", version("1.30.1"))
    left = 2

    async def interfere(_resource: Resource, name: str, subresource: str | None) -> None:
        nonlocal left
        if name == "a" and subresource == "status" and left:
            left -= 1
            await world.api.change(found, kubernetes={"versions": [version("1.30.1"), version(f"1.3{left}.7")]})

    watched.before_patch = interfere
    async with running(watched, time):
        await world.says("CloudProfile", "a", v1_30_1="supported", v1_30_7="supported")
    assert (left, watched.conflicts) == (0, 2)


async def test_an_object_that_goes_is_no_failure(world: World, watched: Watched, time: FixedTime) -> None:
    """A profile that vanishes before its status is written is forgotten, and no failure is told."""
    found = await world.profile("a", version("1.30.1"))
    told: list[ControllerEvent] = []
    gone = asyncio.Event()

    async def vanish(_resource: Resource, name: str, subresource: str | None) -> None:
        if name == "a" and subresource == "status" and not gone.is_set():
            await world.release(found)
            await world.api.delete(found)
            gone.set()

    watched.before_patch = vanish
    async with running(watched, time, hook=told.append):
        await gone.wait()
        await world.profile("c", version("1.30.1"))
        await world.says("CloudProfile", "c", v1_30_1="supported")
    assert not [details for details in told if details.type is ControllerEventType.FAILED]
    assert not await world.exists("CloudProfile", "a")


PROFILES = 60


async def test_many_profiles_settle_without_a_storm(world: World, watched: Watched, time: FixedTime) -> None:
    """One finalizer and one status per profile, nothing read one by one, and nothing at all on a resync."""
    lifecycle = ("supported", None), ("deprecated", time.after(days=30)), ("expired", time.after(days=60))
    versions = [version(f"1.{minor}.{patch}", *lifecycle) for minor in range(20, 30) for patch in range(4)]
    for number in range(PROFILES):
        await world.profile(f"p{number}", *versions)
    looks = 0

    def note(details: ControllerEvent) -> None:
        nonlocal looks
        looks += details.type is ControllerEventType.RECONCILED

    async with running(watched, time, hook=note):
        statuses = "patch cloudprofiles/status"
        await until(lambda: _more_than(lambda: watched.asked[statuses], PROFILES), "not all profiles have a status")
    assert await _settled(world)
    assert watched.asked[statuses] == PROFILES + 1
    assert watched.asked["patch cloudprofiles"] == PROFILES + 1
    assert watched.asked["get cloudprofiles"] == 0
    assert sum(watched.asked.values()) <= 2 * PROFILES + 15  # lists, watches and the bell: a few for all
    before, looks = watched.writes(), 0
    async with running(watched, time, hook=note, resync=0.2):
        await until(lambda: _more_than(lambda: looks, 3 * PROFILES), "no resync")
    assert watched.writes() == before


async def _settled(world: World) -> bool:
    items = (await world.cluster.list_page(world.api.at("CloudProfile"))).json()["items"]
    return all("status" in item for item in items)


async def _more_than(count: Any, least: int) -> bool:
    return bool(count() > least)


MANAGED = VersionManagement.model_validate({"kubernetesVersionManagement": {"enabled": True}})


async def test_version_management_proposes(world: World, watched: Watched, time: FixedTime) -> None:
    """Without being told to apply it, management writes an event, once, and leaves the spec alone."""
    made = await world.profile("a", version("1.30.1"), version("1.30.0"))
    async with running(watched, time, management=MANAGED, resync=0.2):
        await until(lambda: world.events("a"), "no proposal")
        time.move(days=1)
        await world.ring()
        await world.says("CloudProfile", BELL)
        await asyncio.sleep(0.5)  # for what must not happen
        proposals = await world.events("a")
    assert [each[:2] for each in proposals] == [("Normal", "VersionManagementProposed")]
    assert "Kubernetes 1.30.0: deprecated, expires 2026-05-01T00:00:00Z" in proposals[0][2]
    assert (await world.get("CloudProfile", "a"))["spec"] == made["spec"]


async def test_version_management_applies(world: World, watched: Watched, time: FixedTime) -> None:
    """Told to apply, management writes the stages once; the status follows, and nothing else is touched."""
    await world.profile("a", version("1.30.1"), version("1.30.0"), regions=[{"name": "r"}])
    async with running(watched, time, management=MANAGED, applies_management=True):
        await world.says("CloudProfile", "a", v1_30_1="supported", v1_30_0="deprecated")
        time.move(days=120)
        await world.ring()
        await world.says("CloudProfile", "a", v1_30_1="supported", v1_30_0="expired")
    spec = (await world.get("CloudProfile", "a"))["spec"]
    assert spec["kubernetes"]["versions"] == [
        version("1.30.1", ("supported", None)),
        version(
            "1.30.0",
            ("supported", None),
            ("deprecated", "2026-01-01T00:00:00Z"),
            ("expired", "2026-05-01T00:00:00Z"),
        ),
    ]
    assert spec["regions"] == [{"name": "r"}]


async def test_maintenance_forces_expired_versions(world: World, watched: Watched, time: FixedTime) -> None:
    """A Shoot that opted out is moved on in its window all the same, one step a window, and its status says why."""
    ended = ("supported", None), ("expired", time.after(days=-1))
    await world.profile("a", version("1.29.0", *ended), version("1.30.4", *ended), version("1.31.2"))
    window = {"begin": "220000+0000", "end": "230000+0000"}
    auto = {"kubernetesVersion": False, "machineImageVersion": False}
    maintenance = {"autoUpdate": auto, "timeWindow": window}
    await world.shoot("s", "CloudProfile", "a", kubernetes={"version": "1.29.0"}, maintenance=maintenance)
    async with running(watched, time, maintenance=True):
        await world.says("CloudProfile", "a", v1_29_0="expired", v1_30_4="expired", v1_31_2="supported")
        time.move(hours=12)
        await world.ring()
        assert (await world.get("Shoot", "s"))["spec"]["kubernetes"]["version"] == "1.29.0"
        for expected in ("1.30.4", "1.31.2"):
            time.move(hours=11) if expected == "1.30.4" else time.move(days=1)
            await world.ring()
            await until(lambda to=expected: _maintained(world, to), f"s is not moved to {expected}")
        found = await world.get("Shoot", "s")
        assert found["status"]["lastMaintenance"] == {
            "description": (
                "All maintenance operations successful. Control Plane: Updated Kubernetes version from "
                '"1.30.4" to "1.31.2". Reason: Kubernetes version expired - force update required'
            ),
            "state": "Succeeded",
            "triggeredTime": "2026-01-02T23:00:00Z",
        }
        assert found["spec"]["maintenance"] == maintenance
        assert {each[1] for each in await world.events("s")} == {"KubernetesVersionMaintenance"}


async def _maintained(world: World, to: str) -> bool:
    found = await world.get("Shoot", "s")
    state = found.get("status", {}).get("lastMaintenance", {}).get("state")
    return bool(found["spec"]["kubernetes"]["version"] == to and state == "Succeeded")


async def test_usage_is_read_live(world: World, cluster: HttpCluster) -> None:
    """Who uses a profile is found by the server's selectors: the right Shoots and children, and no others."""
    await world.profile("a")
    child = await world.child("b", "a")
    await world.child("other", "z")
    await world.shoot("s1", "CloudProfile", "a", kubernetes={"version": "1.30.1"})
    await world.shoot("s2", "NamespacedCloudProfile", "b")
    await world.shoot("s3", "CloudProfile", "b")
    assert [each["metadata"]["name"] for each in await children_of(cluster, "a")] == ["b"]
    assert await shoots_of(cluster, ProfileReference(NAMESPACED_CLOUD_PROFILE, "b", "default")) == [
        {
            "metadata": {"name": "s2", "namespace": "default"},
            "spec": {"cloudProfile": {"kind": "NamespacedCloudProfile", "name": "b"}},
        }
    ]
    family = await shoots_of_family(cluster, "a", [child])
    assert sorted(each["metadata"]["name"] for each in family) == ["s1", "s2"]
    assert await find_profile(cluster, ProfileReference(CLOUD_PROFILE, "nowhere")) is None


async def test_custom_verbs_are_asked_of_the_server(
    world: World, control_plane: ControlPlane, cluster: HttpCluster
) -> None:
    """Only who holds the verb by RBAC may change the Kubernetes versions of a NamespacedCloudProfile."""
    del world
    access = Access(control_plane, cluster)
    try:
        verb = "modify-spec-kubernetes"
        operator = await access.user("operator", Right(GROUP, "namespacedcloudprofiles", (verb,)), namespace="default")
        for user, allowed in ((operator.name, True), ("somebody", False)):
            kind = GroupVersionKind(GROUP, "v1beta2", "NamespacedCloudProfile")
            request = AdmissionRequest(
                uid="1",
                kind=kind,
                resource=GroupVersionResource(GROUP, "v1beta2", "namespacedcloudprofiles"),
                operation="UPDATE",
                name="b",
                namespace="default",
                user_info=UserInfo(username=user, groups=("system:authenticated",)),
            )
            assert (await review_verb(cluster, request, verb)).allowed is allowed
    finally:
        await access.remove()


async def test_the_webhook_configurations_are_taken(world: World, cluster: HttpCluster) -> None:
    """With the webhook down, changes of a spec are refused, and everything that leaves the spec alone goes on."""
    found = await world.profile("a", version("1.30.1"))
    group = "admissionregistration.k8s.io"
    plurals = {
        "MutatingWebhookConfiguration": "mutatingwebhookconfigurations",
        "ValidatingWebhookConfiguration": "validatingwebhookconfigurations",
    }
    documents = webhook_configurations("restow", lambda path: {"url": f"https://127.0.0.1:1{path}"}, timeout_seconds=2)
    resources = [Resource(group, "v1", plurals[each["kind"]], namespaced=False) for each in documents]
    strict = {"fieldValidation": "Strict"}
    try:
        for resource, document in zip(resources, documents, strict=True):
            # The stash is restored whatever changes; here there is nobody to do it.
            document["webhooks"] = [each for each in document["webhooks"] if "matchConditions" in each]
            await cluster.create(resource, json.dumps(document).encode(), params=strict)

        async def refused() -> bool:
            try:
                await world.api.change(found, kubernetes={"versions": [version("1.30.2")]})
            except ApiError as error:
                return "failed calling webhook" in error.message
            return False

        await until(refused, "the configuration is not in force")
        await world.ring()
        await world.api.put_status(await world.get("CloudProfile", "a"), {"observedGeneration": 1})
    finally:
        for resource in resources:
            await cluster.delete(resource, "restow")

    async def accepted() -> bool:
        try:
            await world.api.change(found, kubernetes={"versions": [version("1.30.2")]})
        except ApiError:
            return False
        return True

    await until(accepted, "the configuration is still in force")


class Weighed(Watched):
    """The API server, with the bytes that lists of it took."""

    listed = 0

    async def send(self, request: Request) -> Reply:
        reply = await super().send(request)
        self.listed += len(reply.body) if request.as_table else 0
        return reply


async def test_children_are_read_without_their_statuses(world: World, cluster: HttpCluster) -> None:
    """A thousand rendered statuses would take admission longer than API servers wait."""
    awkward = '<a href="x">&\n\u2028\U0001f600 \\"'
    config = {"text": awkward, "large": 2**53 + 1, "part": 0.1, "none": {}, "list": [True, {"a": []}]}
    made = await world.child("b", "a", providerConfig=config, kubernetes={"versions": [version("1.30.1")]})
    rendered = [version(f"1.30.{patch}") for patch in range(2_000)]
    settled = await world.api.put_status(made, {"cloudProfileSpec": {"kubernetes": {"versions": rendered}}})
    weighed = Weighed(cluster)
    metadata = {"name": "b", "namespace": "default"}
    assert await children_of(weighed, "a") == [{"metadata": metadata, "spec": made["spec"]}]
    assert weighed.asked == {"list namespacedcloudprofiles as a table": 1}
    assert len(json.dumps(settled)) > 10 * weighed.listed
    changed = {"versions": [version("1.30.2")]}
    await world.api.change(settled, kubernetes=changed)
    (child,) = await children_of(weighed, "a")
    assert child["spec"]["kubernetes"] == changed


async def test_children_that_are_being_deleted_are_read_as_such(world: World, cluster: HttpCluster) -> None:
    """A version that only a child in deletion has would block a change of its parent."""
    made = await world.child("b", "a")
    await world.api.apply(
        {key: made[key] for key in ("apiVersion", "kind", "spec")}
        | {"metadata": {"name": "b", "namespace": "default", "finalizers": FINALIZER}},
        "test",
    )
    await world.api.delete(made)
    (child,) = await children_of(cluster, "a")
    assert child["metadata"]["deletionTimestamp"]


async def test_the_owner_of_a_status_is_said_in_few_bytes(world: World) -> None:
    """managedFields that name every version would make a large NamespacedCloudProfile nearly too large to store."""
    made = await world.child("b", "a")
    rendered = [version(f"1.30.{patch}") for patch in range(1_000)]
    settled = await world.api.put_status(made, {"cloudProfileSpec": {"kubernetes": {"versions": rendered}}})
    (owned,) = [each["fieldsV1"] for each in settled["metadata"]["managedFields"] if "subresource" in each]
    assert owned == {"f:status": {}}


async def test_missing_crds_end_the_run(cluster: HttpCluster, time: FixedTime) -> None:
    """Without the CRDs the run ends with the server's answer, rather than to wait for ever."""

    class Elsewhere(Watched):
        async def send(self, request: Request) -> Reply:
            if (resource := request.resource) is not None and request.verb == "list":
                elsewhere = Resource("nowhere.example.com", "v1", resource.plural, namespaced=resource.namespaced)
                request = msgspec.structs.replace(request, resource=elsewhere)
            return await super().send(request)

    with pytest.raises(NotFound):
        await run(Elsewhere(cluster), time.clock, ControllerOptions())
