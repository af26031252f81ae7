"""``restow operator --conversions`` and rules, or objects, that are made to take all time and memory."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import pytest

from restow.conversion.operate.revisions import RevisionRecord, record_name
from restow.kube.client import HttpCluster
from restow.kube.errors import ApiError
from restow.kube.resources import CONFIG_MAPS, CRDS, LEASES
from tests.apiserver.kind import Document, until
from tests.apiserver.operators import Operator
from tests.apiserver.test_conversions_in_cluster import LEASE, Jobs, Replicas, installed, replicas
from tests.conversion.operate.test_workers import ENDLESS, LONG
from tests.conversion.rules.test_cel import DOUBLING

__all__ = ["replicas"]

#: The limit of the chart.
MOST_MEMORY = 1024 * 1024 * 1024
RENAME: Document = {"rename": {"spoke": "spec.note", "hub": "spec.text"}}
FILTERED: Document = {"pair": {"spoke": "spec.note", "hub": "spec.text", "up": "self", "down": "self"}}
#: The issue of each: a KiB becomes a GiB; seconds of time for a text.
GREEDY: Document = {"pair": {**FILTERED["pair"], "down": DOUBLING}}
SLOW: Document = {"pair": {**FILTERED["pair"], "down": "self.matches('((a{1,100}){1,10})b') ? self : self"}}
#: No bound on one value stops these: 24 texts, with seconds for each.
ENDLESS_ITEMS: Document = {"template": {"spoke": {"x": "note"}, "hub": "text", "pattern": ENDLESS}}
MANY = 24


def items(rule: Document | None = None) -> Document:
    """The rule of the items."""
    inner = rule or {"rename": {"spoke": "note", "hub": "text"}}
    return {"each": {"spoke": "spec.items", "key": "name", "rules": [inner]}}


class Notes(Jobs):
    """The kind with a text that may be long."""

    def crd(self, *, more: Document | None = None) -> Document:
        """The CRD, without spec.conversion."""
        found = super().crd(more=more)
        for version, name in zip(found["spec"]["versions"], ("note", "text"), strict=True):
            schema = version["schema"]["openAPIV3Schema"]["properties"]["spec"]
            text = {"type": "string"}
            item = {"type": "object", "properties": {"name": text, name: text}}
            schema["properties"] = {name: text, "items": {"type": "array", "items": item}}
        return found


@pytest.fixture
async def jobs(cluster: HttpCluster, group: str, replicas: Replicas) -> AsyncIterator[Notes]:
    """The kind, whose CRD is installed, and one replica."""
    async with installed(Notes(cluster, group), replicas) as found:
        yield found


@dataclass
class Watched:
    """What was seen of an operator while something hostile went on."""

    probes: int = 0
    most_memory: int = 0


def memory(pid: int) -> int:
    """The bytes of a process and of those that it started, pages that they share counted once."""
    found = 0
    for each in [pid, *started_by(pid)]:
        with suppress(OSError, ValueError, IndexError):
            text = Path(f"/proc/{each}/smaps_rollup").read_text()
            found += int(text.split("Pss:")[1].split()[0]) * 1024
    return found


def started_by(pid: int) -> list[int]:
    """The processes that a process started."""
    with suppress(OSError):
        tasks = Path(f"/proc/{pid}/task").iterdir()
        return [int(child) for task in tasks for child in (task / "children").read_text().split()]
    return []


@asynccontextmanager
async def watched(operator: Operator) -> AsyncIterator[Watched]:
    """Probe an operator all the time, as a kubelet does."""
    found = Watched()

    async def probe() -> None:
        while True:
            async with asyncio.timeout(10):  # three periods of a kubelet
                assert (await operator.get("/livez"))[0] == 200
            found.probes += 1
            found.most_memory = max(found.most_memory, memory(operator.process.pid))
            await asyncio.sleep(0.05)

    probing = asyncio.create_task(probe())
    try:
        yield found
    finally:
        probing.cancel()
        with suppress(asyncio.CancelledError):
            await probing


async def leadership(cluster: HttpCluster) -> tuple[str, int]:
    """Who leads, and how often that has changed."""
    spec = (await cluster.get(LEASES, LEASE, "default")).json()["spec"]
    return spec["holderIdentity"], spec.get("leaseTransitions") or 0


@pytest.mark.parametrize(
    ("hostile", "text", "said"),
    [(GREEDY, "a" * 1024, "would be too costly"), (SLOW, "a" * 100_000, "would be too costly")],
    ids=["memory", "time"],
)
async def test_an_expression_that_would_take_too_much_is_not_evaluated(
    cluster: HttpCluster, jobs: Notes, replicas: Replicas, hostile: Document, text: str, said: str
) -> None:
    """One document of one team would end the operator, and each next leader that rehearses it again."""
    (operator,) = replicas.started
    await jobs.create("v1", "evil", text=text)
    await jobs.declare(jobs.rules(RENAME, items()))
    await jobs.condition("Ready", "True")
    before = await leadership(cluster)
    async with watched(operator) as seen:
        told = await jobs.condition("Rehearsed", "False", await jobs.change(jobs.rules(hostile, items())))
    assert told["reason"] == "ObjectsFail"
    assert "default/evil: " in told["message"]
    assert "aaaa" not in told["message"]
    assert said in told["message"] or len(text) > 64 * 1024, told["message"]  # what no stash can keep changes
    assert await leadership(cluster) == before
    assert seen.probes > 1
    assert seen.most_memory < MOST_MEMORY, f"{seen.most_memory / 2**20:.0f} MiB"
    assert (await jobs.status())["served"]["generation"] == 1, "the last good rules do not go on"


async def test_a_rehearsal_that_ends_its_process_is_not_tried_again(
    cluster: HttpCluster, jobs: Notes, replicas: Replicas
) -> None:
    """Each next leader would lose its processes to the same object, again and again."""
    (operator,) = replicas.started
    await jobs.create("v1", "evil", items=[{"name": str(number), "text": LONG} for number in range(MANY)])
    await jobs.declare(jobs.rules(RENAME, items()))
    await jobs.condition("Ready", "True")
    before = await leadership(cluster)
    async with watched(operator) as seen:
        told = await jobs.condition("Rehearsed", "False", await jobs.change(jobs.rules(RENAME, items(ENDLESS_ITEMS))))
    assert told["reason"] == "TooCostly"
    assert "default/evil: its conversion takes longer than 10 s" in told["message"]
    assert "aaaa" not in told["message"]
    assert await leadership(cluster) == before
    assert seen.probes > 1
    assert seen.most_memory < MOST_MEMORY, f"{seen.most_memory / 2**20:.0f} MiB"
    assert (await jobs.status())["served"]["generation"] == 1, "the last good rules do not go on"

    await operator.stop()
    following = await replicas.start()
    await until(lambda: reconciles(following), "the next operator does not lead")
    record = RevisionRecord.read((await cluster.get(CONFIG_MAPS, record_name(jobs.name), "default")).json())
    assert record.fatal
    assert not record.rehearsing
    assert (await jobs.condition("Rehearsed", "False"))["reason"] == "TooCostly"
    assert not any("ended a process" in line for line in following.log)


async def reconciles(operator: Operator) -> bool:
    """Whether an operator has looked at the rules as their leader."""
    (_, metrics) = await operator.get("/metrics")
    return any(
        "reconciles_total" in line and 'controller="conversionrules"' in line and not line.endswith(" 0.0")
        for line in metrics.splitlines()
    )


async def test_objects_that_take_too_much_harm_only_their_kind(
    cluster: HttpCluster, jobs: Notes, replicas: Replicas
) -> None:
    """A tenant who may write some texts would silence every other kind, whenever anybody reads the object."""
    (operator,) = replicas.started
    await jobs.declare(jobs.rules(RENAME, items(ENDLESS_ITEMS)))
    await jobs.condition("Ready", "True")
    await jobs.create("v1", "fine", text="b")
    before = await leadership(cluster)
    async with watched(operator) as seen:
        await jobs.create("v1", "evil", items=[{"name": str(number), "text": LONG} for number in range(MANY)])
        with pytest.raises(ApiError, match=r"takes longer than|is not converted for some seconds") as raised:
            await jobs.spec("v1beta1", "evil")
        assert jobs.name in str(raised.value)
        assert "aaaa" not in str(raised.value)
        await cluster.delete(jobs.at("v1"), "evil", "default")
        await until(lambda: reads(jobs, "fine"), "the kind is not converted again")
    assert await leadership(cluster) == before
    assert seen.probes > 1
    assert seen.most_memory < MOST_MEMORY, f"{seen.most_memory / 2**20:.0f} MiB"


async def reads(jobs: Notes, name: str) -> bool:
    """Whether an object can be read at the old version."""
    try:
        await jobs.spec("v1beta1", name)
    except ApiError:
        return False
    return True


@pytest.mark.parametrize("text", ["before\0after", "\ufdd0\0", "a\U0010ffff"])
async def test_no_character_of_a_text_is_lost(cluster: HttpCluster, jobs: Notes, replicas: Replicas, text: str) -> None:
    """A text would be cut where it has U+0000, and stored so, or fail every list of its kind."""
    await jobs.declare(jobs.rules(FILTERED, items()))
    await jobs.condition("Ready", "True")
    await jobs.create("v1beta1", "odd", note=text)
    # What an expression cannot take is not shown at the other version.
    for version, spec in (("v1", {} if "\0" in text else {"text": text}), ("v1beta1", {"note": text})):
        found = (await cluster.list_page(jobs.at(version))).json()["items"]
        assert [each.get("spec", {}) for each in found] == [spec]


def hostile_rules(number: int) -> list[Document]:
    """Rules that take too much, each in a way of its own: growth, iterations, regular expressions, patterns."""
    size = 2 + number % 18
    doubling = "cel.bind(a0, self, " + "".join(f"cel.bind(a{n + 1}, a{n}+a{n}, " for n in range(size))
    loops = "lists.range(10000)" + ".map(x, self + 'a')" * (1 + size % 3)
    match number % 5:
        case 0:
            down = f"{doubling}a{size}{')' * (size + 1)}"
        case 1:
            down = f"{loops}.size() == 1 ? self : self"
        case 2:
            down = f"self.matches('(({'[ab]' * size}{{1,30}}){{1,30}})c') ? self : self"
        case 3:
            down = f"self.split('').map(x, self.split('').filter(y, y == x)).size() == {size} ? self : self"
        case _:
            pattern = f"(?P<x>[ab]*[ab]*[ab]{{{size},}})-"
            return [RENAME, items({"template": {"spoke": {"x": "note"}, "hub": "text", "pattern": pattern}})]
    return [{"pair": {**FILTERED["pair"], "down": down}}, items()]


#: ``benchmarks.tenants`` has nineteen kinds, 200 rules and 50 objects.
OTHERS, RULES, OBJECTS = 6, 20, 10


@pytest.mark.timeout(600)
async def test_one_hostile_kind_among_others(cluster: HttpCluster, jobs: Notes, group: str, replicas: Replicas) -> None:
    """One team's rules and objects would keep all other teams from reading theirs, or end the operator of all."""
    (operator,) = replicas.started
    others = [Notes(cluster, f"k{number}.{group}") for number in range(OTHERS)]
    failed: list[str] = []
    reads_done = dict.fromkeys((each.name for each in others), 0)

    async def set_up(each: Notes, number: int) -> None:
        await cluster.create(CRDS, json.dumps(each.crd()).encode())
        await each.served()
        await each.create("v1", "a", text="b")
        await each.declare(each.rules(FILTERED if number % 2 else RENAME, items()))
        await each.condition("Ready", "True")

    async def read(each: Notes) -> None:
        while True:
            try:
                found = (await cluster.list_page(each.at("v1beta1"))).json()["items"]
                assert [item["spec"] for item in found] == [{"note": "b"}]
            except (ApiError, AssertionError) as error:
                failed.append(str(error))
            reads_done[each.name] += 1
            await asyncio.sleep(0.05)

    async def read_evil() -> None:
        number = 0
        while True:
            await reads(jobs, f"evil-{number % OBJECTS}")
            number += 1

    try:
        async with asyncio.TaskGroup() as group_of_tasks:
            for number, each in enumerate(others):
                group_of_tasks.create_task(set_up(each, number))
        await jobs.declare(jobs.rules(RENAME, items(ENDLESS_ITEMS)))
        await jobs.condition("Ready", "True")
        before = await leadership(cluster)
        async with watched(operator) as seen:
            readers = [asyncio.create_task(read(each)) for each in others]
            readers.append(asyncio.create_task(read_evil()))
            for number in range(OBJECTS):
                texts = [{"name": str(index), "text": LONG} for index in range(1 + number % MANY)]
                await jobs.create("v1", f"evil-{number}", text="a" * 2 ** (number % 17), items=texts)
            for number in range(RULES):
                await jobs.change(jobs.rules(*hostile_rules(number)))
                await asyncio.sleep(0.05)
            generation = await jobs.change(jobs.rules(RENAME, items()))
            await jobs.condition("Ready", "True", generation)
            for reader in readers:
                reader.cancel()
            await asyncio.gather(*readers, return_exceptions=True)
        assert failed == []
        assert min(reads_done.values()) > 10, reads_done
        assert await leadership(cluster) == before
        assert seen.probes > 10
        assert seen.most_memory < MOST_MEMORY, f"{seen.most_memory / 2**20:.0f} MiB"
        print(f"{sum(reads_done.values())} reads, {seen.probes} probes, {seen.most_memory / 2**20:.0f} MiB")
    finally:
        for each in others:
            await each.remove()
