"""The processes in which the rules of teams compute: what they answer, what ends them, and who waits meanwhile."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from restow.conversion import ReviewError
from restow.conversion.compile import graph as compile_graph
from restow.conversion.compile.route import CompiledLeg, Leg, compile_leg
from restow.conversion.operate import workers as module
from restow.conversion.operate.gates import mistakes
from restow.conversion.operate.revisions import Revision
from restow.conversion.operate.workers import Workers, is_costly, servable
from restow.conversion.server.conversion import GaveUp
from restow.conversion.server.limits import Refusal
from restow.crds import Crd

MOST = 8 * 1024 * 1024


#: The time to match grows with the third power of the length, and no bound on one value stops it.
ENDLESS = "(?P<x>[ab]*[ab]*[ab]*)-"
LONG = "a" * 1024


def revision(name: str, up: str = "self + '!'", rule: dict[str, Any] | None = None) -> Revision:
    """A revision of a kind whose spec.b of v1 is made of spec.a of v1beta1."""
    spec = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    versions = [{"name": each, "served": True, "storage": each == "v1", "schema": schema} for each in ("v1", "v1beta1")]
    crd = {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": f"{name}s.example.dev"},
        "spec": {
            "group": "example.dev",
            "scope": "Namespaced",
            "names": {"plural": f"{name}s", "kind": name.title()},
            "versions": versions,
        },
    }
    down = "self.substring(0, size(self) - 1)"
    rule = rule or {"pair": {"spoke": "spec.a", "hub": "spec.b", "up": up, "down": down, "loses": "both"}}
    if up == ENDLESS:
        rule = {"template": {"spoke": "spec.a", "hub": {"x": "spec.b"}, "pattern": up}}
    document = {
        "apiVersion": "restow.dev/v1alpha1",
        "kind": "ConversionRules",
        "metadata": {"name": name},
        "spec": {
            "target": {"group": "example.dev", "kind": name.title()},
            "hub": "v1",
            "spokes": [{"version": "v1beta1", "rules": [rule]}],
        },
    }
    return Revision.of(document, Crd.from_document(crd))


def review(name: str, *values: str) -> bytes:
    """A review that asks for objects with these values at v1."""
    objects = [
        {
            "apiVersion": "example.dev/v1beta1",
            "kind": name.title(),
            "metadata": {"name": f"o{index}", "namespace": "default"},
            "spec": {"a": value},
        }
        for index, value in enumerate(values)
    ]
    request = {"uid": "1", "desiredAPIVersion": "example.dev/v1", "objects": objects}
    return json.dumps(
        {"apiVersion": "apiextensions.k8s.io/v1", "kind": "ConversionReview", "request": request}
    ).encode()


class Pool:
    """Workers at work, and their conversions by the name of a kind."""

    def __init__(self, workers: Workers) -> None:
        self.workers = workers

    def of(self, name: str, up: str = "self + '!'") -> module.KindsWorkers:
        """The conversions of a kind."""
        found = revision(name, up)
        return self.workers.of(f"{name}s.example.dev", found.name, found.body)

    async def converted(self, of: module.KindsWorkers, *values: str) -> list[Any]:
        """What values become."""
        answer, _, _ = await of.review(review(of.crd.partition("s.")[0], *values), MOST)
        response = json.loads(answer)["response"]
        assert response["result"] == {"status": "Success"}, response
        return [each["spec"].get("b") for each in response["convertedObjects"]]


@pytest.fixture
async def pool(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Pool]:
    """Two processes, which give up after a shorter time."""
    monkeypatch.setattr(module, "FIRST_S", 0.5)
    monkeypatch.setattr(module, "MOST_S", 2.0)
    workers = Workers()
    running = asyncio.create_task(workers.run())
    try:
        yield Pool(workers)
    finally:
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running


async def test_a_review_is_answered_elsewhere_as_here(pool: Pool) -> None:
    """Objects would convert differently depending on the process, or metrics would miss them."""
    name = "widget"
    answer, tally, kept = await pool.of(name).review(review(name, "x", "y"), MOST)
    assert [each["spec"] for each in json.loads(answer)["response"]["convertedObjects"]] == [{"b": "x!"}, {"b": "y!"}]
    assert (tally.count, tally.failed, [*kept]) == (2, 0, [])
    assert tally.sources == {(b'"example.dev/v1beta1"', False): 2}
    with pytest.raises(ReviewError):
        await pool.of(name).review(b"{}", MOST)


async def test_a_conversion_that_takes_long_ends_its_process_and_nobody_else(pool: Pool) -> None:
    """One object of one team would silence every kind, probe and lease."""
    slow, other = pool.of("slow", ENDLESS), pool.of("other")
    assert await pool.converted(slow, "ab-") == ["ab"]
    ending = asyncio.create_task(slow.review(review("slow", "ab-", LONG), MOST))
    await asyncio.sleep(0)
    for _ in range(20):
        assert await pool.converted(other, "x") == ["x!"]
    with pytest.raises(GaveUp, match="takes longer than") as raised:
        await ending
    assert raised.value.index == 1
    with pytest.raises(GaveUp, match="not converted for some seconds"):
        await slow.review(review("slow", "ab-"), MOST)
    assert await pool.converted(other, "x") == ["x!"]


async def test_memory_has_a_limit(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A value for which an expression needs a GiB would have the kernel end the operator, and then the next leader."""
    monkeypatch.setattr(module, "MOST_S", 20.0)
    many = pool.of("many", "lists.range(10000).map(i, self)")
    _, tally, kept = await many.review(review("many", "\U0001f600" * 6000), MOST)
    assert tally.failed == 0
    assert ["needs too much memory for this value" in each.failed.reason for each in kept] == [True]
    assert await pool.converted(pool.of("other"), "x") == ["x!"]


async def test_a_process_that_is_ended_from_outside_is_started_again(pool: Pool) -> None:
    """One signal, or the kernel's choice when memory is short, would leave a kind unconverted for ever."""
    of = pool.of("widget")
    assert await pool.converted(of, "x") == ["x!"]
    for pid in children():
        os.kill(pid, signal.SIGKILL)
    assert await pool.converted(of, "y") == ["y!"]


async def test_a_revision_that_was_not_compiled_is_sent_again(pool: Pool) -> None:
    """One shortage of memory while a process compiles a revision would leave its kind unconverted for ever."""
    of = pool.of("widget")
    broken = replace(of, text="{}")
    for _ in range(2):  # once for each process
        with pytest.raises(RuntimeError, match="failed with"):
            await broken.review(review("widget", "x"), MOST)
    for _ in range(4):
        assert await pool.converted(of, "x") == ["x!"]


async def test_one_signal_from_outside_gives_up_no_objects(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    """The kernel's choice when memory is short would forbid the rules of a kind for ever."""
    monkeypatch.setattr(module, "MOST_S", 10.0)
    monkeypatch.setattr(module, "FIRST_S", 0.02)
    monkeypatch.setattr(module, "_COMPILE_S", 0.02)
    objects = json.loads(review("slow", *["a" * 100] * 50))["request"]["objects"]
    trying = asyncio.create_task(pool.of("slow", ENDLESS).tried(objects))
    turns = pool.workers._turns
    kind = "slows.example.dev, in rehearsal"
    async with asyncio.timeout(60):
        while not (turns.is_slow(kind) and turns._kinds[kind].is_at_work):
            await asyncio.sleep(0.01)
    for pid in children():
        os.kill(pid, signal.SIGKILL)
    assert len(await trying) == len(objects)


async def test_many_objects_of_which_none_takes_long_are_converted(pool: Pool, monkeypatch: pytest.MonkeyPatch) -> None:
    """A list of ten thousand small objects would have its whole kind refused, although no object is costly."""
    slow = pool.of("slow", ENDLESS)
    assert await pool.converted(slow, "ab-") == ["ab"]
    many = review("slow", *["a" * 100] * 80)
    monkeypatch.setattr(module, "MOST_S", 3.0)
    monkeypatch.setattr(module, "_WAIT_S", 300.0)
    _, tally, _ = await slow.review(many, MOST)
    assert tally.count == 80
    monkeypatch.setattr(module, "_WAIT_S", 0.02)
    with pytest.raises(Refusal):
        await slow.review(many, MOST)
    monkeypatch.setattr(module, "_WAIT_S", 300.0)
    assert await pool.converted(slow, "ab-") == ["ab"], "the kind is refused"


def children() -> list[int]:
    """The processes that this one started for conversions."""
    found = []
    for status in Path("/proc").glob("[0-9]*/stat"):
        with suppress(OSError):
            state, parent = status.read_text().rpartition(")")[2].split()[:2]
            if int(parent) == os.getpid() and state != "Z":
                line = (status.parent / "cmdline").read_bytes()
                if b"restow.conversion.operate.worker" in line:
                    found.append(int(status.parent.name))
    return found


async def test_processes_end_with_the_one_that_started_them() -> None:
    """A restarted operator would leave processes behind that compute for nobody, until the machine has no memory."""
    script = (
        "import asyncio, sys\n"
        "from restow.conversion.operate.workers import Workers\n"
        "from tests.conversion.operate.test_workers import *\n"
        "async def main():\n"
        "    workers = Workers()\n"
        "    running = asyncio.create_task(workers.run())\n"
        "    pool = Pool(workers)\n"
        "    print(await pool.converted(pool.of('slow', ENDLESS), 'a-'), *children(), flush=True)\n"
        "    await pool.of('slow', ENDLESS).review(review('slow', LONG), MOST)\n"
        "asyncio.run(main())\n"
    )
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", script, stdout=asyncio.subprocess.PIPE, cwd=Path(__file__).parents[3]
    )
    assert process.stdout is not None
    said, *pids = (await process.stdout.readline()).decode().split()
    assert said == "['a']"
    assert pids
    process.kill()
    await process.wait()
    async with asyncio.timeout(10):
        while any(is_alive(int(pid)) for pid in pids):
            await asyncio.sleep(0.05)


def is_alive(pid: int) -> bool:
    """Whether a process runs."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


async def test_they_end_when_they_are_not_needed(pool: Pool) -> None:
    """An operator that stops would wait for a conversion that nobody wants any more."""
    asking = asyncio.create_task(pool.of("slow", ENDLESS).review(review("slow", LONG), MOST))
    await pool.converted(pool.of("other"), "x")
    asking.cancel()
    with suppress(asyncio.CancelledError):
        await asking
    assert await pool.converted(pool.of("other"), "x") == ["x!"]


async def test_objects_are_tried_and_the_one_that_takes_too_long_is_known(pool: Pool) -> None:
    """A team would search among all its objects for the one that its rules cannot convert."""
    objects = [json.loads(review("slow", "a-", LONG))["request"]["objects"][index] for index in (0, 0, 1)]
    fine = pool.of("widget")
    assert [*await fine.tried(json.loads(review("widget", "x"))["request"]["objects"])] == [""]
    with pytest.raises(GaveUp) as raised:
        await pool.of("slow", ENDLESS).tried(objects)
    assert raised.value.index == 2
    assert await pool.converted(pool.of("slow", ENDLESS), "a-") == ["a"], "rules that serve are refused for others"


@pytest.mark.parametrize(
    ("up", "costly"), [("self + '!'", True), (None, False)], ids=["with an expression", "a renamed field"]
)
def test_only_kinds_with_something_costly_leave_the_process(up: str | None, costly: bool) -> None:
    """Every kind would pay for the way to another process, or one with expressions would not take it."""
    found = revision("widget", up or "self")
    if up is None:
        rules = {**found.rules, "spec": {**found.rules["spec"]}}
        rules["spec"]["spokes"] = [{"version": "v1beta1", "rules": [{"rename": {"spoke": "spec.a", "hub": "spec.b"}}]}]
        found = Revision(rules, found.crd, None, found.name, found.text)
    assert is_costly(found.graph()) is costly


def test_only_routes_that_this_process_converts_by_are_compiled(monkeypatch: pytest.MonkeyPatch) -> None:
    """Documents with expressions, one after the other, would hold the interpreter while other kinds are converted."""
    written: list[str] = []

    def counted(leg: Leg) -> CompiledLeg:
        written.append(leg.direction)
        return compile_leg(leg)

    monkeypatch.setattr(compile_graph, "compile_leg", counted)
    costly = revision("widget")
    document, crd = {**costly.rules}, costly.targets()[0]
    assert mistakes(document, crd) == []
    assert servable(costly).kind("example.dev", "Widget").keeps is False
    assert written == []
    plain = revision("widget", rule={"rename": {"spoke": "spec.a", "hub": "spec.b"}})
    servable(plain)
    assert written == ["up", "down"]


async def test_a_kind_without_objects_is_compiled_in_a_rehearsal(pool: Pool) -> None:
    """Rules that cannot be compiled would pass every gate, and then fail each conversion."""
    rule: dict[str, Any] = {"pair": {"spoke": "a", "hub": "b", "up": "self", "down": "self"}}
    for place in ["a"] * 14 + ["spec.a"]:
        rule = {"each": {"spoke": place, "key": "name", "rules": [rule]}}
    deep = revision("widget", rule=rule)
    with pytest.raises(RuntimeError, match="a process for conversions failed with SyntaxError"):
        await pool.workers.of("widgets.example.dev", deep.name, deep.body).tried([])
    assert await pool.of("widget").tried([]) == []
