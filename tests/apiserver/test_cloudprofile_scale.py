"""Time and numbers: statuses that change on the second, and many profiles that cost no more than they must.

v1beta2 stands alone here: what is counted is what the controllers ask of the API server. A count per profile shows
with a hundred of them; what a thousand cost is measured by the benchmark of the operator.
"""

from __future__ import annotations

import asyncio
import base64
import json
import uuid
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import aiohttp
import pytest
import pytest_asyncio

from restow.cloudprofile.controllers import ControllerOptions, run
from restow.controlplane.etcd import Etcd
from restow.kube import connect
from restow.kube.clock import SYSTEM_CLOCK
from restow.kube.controller import ControllerEvent, ControllerEventType
from tests.apiserver.kind import Document, until
from tests.apiserver.profile_api import GROUP, alone, install, uninstall
from tests.apiserver.profile_controllers import BELL, Watched
from tests.apiserver.profile_world import CLOUD_PROFILE, NAMESPACED, REST, Family, MovedTime, lifecycle, stage

pytestmark = pytest.mark.asyncio(loop_scope="module")

PROFILES, VERSIONS = 100, 40
STATUSES = "patch cloudprofiles/status"
EVENTS = "create events"

_STUCK = 30.0  # seconds without progress
_PUTS = 20  # in one transaction, for aiohttp warns of bodies above 1 MiB


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def family(kubeconfig: Path, etcd: Etcd) -> AsyncIterator[Family]:
    """The family at v1beta2, without webhooks."""
    crds = alone("v1beta2")
    async with connect(kubeconfig) as cluster:
        await install(cluster, crds)
        made = Family(cluster, etcd, MovedTime())
        await made.hang_bell()
        async with made.controlled():
            await made.settles(CLOUD_PROFILE, BELL)
            await made.settles(NAMESPACED, BELL)
        yield made
        await forget(etcd)
        await uninstall(cluster, list(crds))


async def multiply(family: Family, name: str, count: int) -> None:
    """Put copies of a stored profile into etcd, which takes seconds where the API server takes minutes.

    A transaction gives all its objects one resourceVersion, by which the API server's cache believes to be up to date
    when it has seen the first: so wait until it lists all.
    """
    template = await family.etcd.stored_object(GROUP, "cloudprofiles", None, name)

    def puts() -> Iterator[Document]:
        for number in range(count):
            metadata = template["metadata"] | {"name": f"{name}-{number}", "uid": str(uuid.uuid4())}
            key, value = f"/registry/{GROUP}/cloudprofiles/{metadata['name']}", template | {"metadata": metadata}
            yield {"requestPut": {"key": _base64(key), "value": _base64(json.dumps(value))}}

    ready = list(puts())
    for start in range(0, len(ready), _PUTS):
        await _ask(family.etcd, "txn", {"success": ready[start : start + _PUTS]})

    async def all_listed() -> bool:
        page = await family.cluster.list_page(family.new.at(CLOUD_PROFILE), metadata_only=True)
        listed: list[Document] = page.json()["items"]
        return len(listed) > count + 1  # the copies, what they are copies of, and the bell

    await until(all_listed, "the copies are not listed")


async def forget(etcd: Etcd) -> None:
    """Take all objects out of etcd, finalizers or not."""
    prefix = f"/registry/{GROUP}/"
    await _ask(etcd, "deleterange", {"key": _base64(prefix), "range_end": _base64(prefix[:-1] + chr(ord("/") + 1))})


async def _ask(etcd: Etcd, what: str, body: Document) -> None:
    async with (
        aiohttp.ClientSession(etcd.url, raise_for_status=True) as session,
        session.post(f"/v3/kv/{what}", json=body) as response,
    ):
        await response.read()


def _base64(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


@asynccontextmanager
async def on_time(family: Family) -> AsyncIterator[Watched]:
    """Run the controllers by the real clock inside of the block."""
    watched = Watched(family.cluster)
    async with asyncio.TaskGroup() as group:
        task = group.create_task(run(watched, SYSTEM_CLOCK, ControllerOptions(resync=None, grace=0.5)))
        yield watched
        task.cancel()


async def told_at(family: Family, name: str) -> str:
    """The server's time, by its seconds, at which the status of a profile was written."""
    entries = (await family.get(CLOUD_PROFILE, name))["metadata"]["managedFields"]
    [at] = [entry["time"] for entry in entries if entry.get("subresource") == "status"]
    told: str = at
    return told


async def test_a_stage_is_told_on_the_second_and_no_restart_loses_one(family: Family) -> None:
    """By the server's own clock the status changes in the second in which the stage begins, or as soon as it can."""
    begin = datetime.now(UTC).replace(microsecond=0)
    starts = [(begin + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%SZ") for seconds in (5, 7, 9)]
    stages = stage("preview", starts[0]), stage("supported", starts[1]), stage("deprecated", starts[2])
    await family.profile("a", lifecycle("1.30.1", *stages))
    async with on_time(family):
        await family.says(CLOUD_PROFILE, "a", v1_30_1="unavailable")
    async with on_time(family) as watched:
        await family.says(CLOUD_PROFILE, "a", v1_30_1="preview")
        assert await told_at(family, "a") == starts[0]
    assert watched.asked[STATUSES] == 1  # the first run had told the rest
    while datetime.now(UTC) < begin + timedelta(seconds=7):
        await asyncio.sleep(0.1)
    async with on_time(family) as watched:
        await family.says(CLOUD_PROFILE, "a", v1_30_1="supported")
        await family.says(CLOUD_PROFILE, "a", v1_30_1="deprecated")
        assert await told_at(family, "a") == starts[2]
    assert watched.asked[STATUSES] == 2
    await family.clear()


async def reached(count: Callable[[], int], least: int) -> None:
    """Wait until so many things have happened, as long as any do."""
    loop = asyncio.get_running_loop()
    seen, since = -1, loop.time()
    while (now := count()) < least:
        if now > seen:
            seen, since = now, loop.time()
        assert loop.time() < since + _STUCK, f"it stays at {now} of {least}"
        await asyncio.sleep(0.05)


@pytest.mark.timeout(600)
async def test_many_profiles_settle_without_a_storm(family: Family) -> None:
    """One status each, one each again when a stage of all begins, lists and watches for all together; no more."""
    after, asked = family.time.after, family.watched.asked
    stages = stage("supported"), stage("deprecated", after(days=30)), stage("expired", after(days=60))
    numbers = [f"1.{minor}.{patch}" for minor in range(20, 30) for patch in range(VERSIONS // 10)]
    spec = REST | {"kubernetes": {"versions": [lifecycle(number, *stages) for number in numbers]}}
    made = family.new.manifest(CLOUD_PROFILE, "many", spec)
    made["metadata"]["finalizers"] = ["gardener"]
    await family.new.create(made)
    await multiply(family, "many", PROFILES - 1)
    before, looks = asked.copy(), 0

    def note(details: ControllerEvent) -> None:
        nonlocal looks
        looks += details.type is ControllerEventType.RECONCILED

    async with family.controlled(hook=note):
        await reached(lambda: asked[STATUSES] - before[STATUSES], PROFILES)
        await reached(lambda: looks, PROFILES)
        assert family.watched.writes().items() - before.items() == {(STATUSES, before[STATUSES] + PROFILES)}
        assert sum((asked - before).values()) <= PROFILES + 10  # pages of lists, and watches
        family.time.move(days=30)
        before = asked.copy()
        await family.ring()
        await reached(lambda: asked[STATUSES] - before[STATUSES], PROFILES)

        async def all_are_deprecated() -> bool:
            return await statuses(family) == {"deprecated": PROFILES * VERSIONS}

        await until(all_are_deprecated, "not every status that was sent is stored")
    # Forty stages begin in each profile: its Events are 24 stages, and the number of the others.
    assert asked - before == {STATUSES: PROFILES, EVENTS: 25 * PROFILES}

    before, looks = asked.copy(), 0
    async with family.controlled(hook=note, resync=0.2):
        await reached(lambda: looks, 2 * PROFILES)
    assert sum((asked - before).values()) <= 10
    assert family.watched.writes().items() <= before.items()


async def statuses(family: Family) -> dict[str, int]:
    """How many Kubernetes versions have which classification, over all profiles but the bell."""
    counts: dict[str, int] = {}
    for item in (await family.cluster.list_page(family.new.at(CLOUD_PROFILE))).json()["items"]:
        if item["metadata"]["name"].startswith("many"):
            for version in item["status"]["kubernetes"]["versions"]:
                counts[version["classification"]] = counts.get(version["classification"], 0) + 1
    return counts
