"""Which fields a rewrite would lose, told one sentence a field."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest

from restow.crds import Crd
from restow.migrator.requests.lister import ListedPage
from restow.migrator.requests.lostfields import MOST_PATHS, LostFields, find_lost_fields
from restow.migrator.requests.wire import Meta
from tests.migrator import builders as b

OPEN = b.struct(spec=b.EVERYTHING_KEPT)
OLD = b.struct(spec=b.struct(size=b.INTEGER, color=b.STRING))
NEW = b.struct(spec=b.struct(size=b.INTEGER))
EMBEDDED = b.struct(spec=b.struct(template={"type": "object", "x-kubernetes-embedded-resource": True} | b.struct()))
MAP = b.struct(spec=b.struct(limits=b.mapping(b.STRING)))
STORED = ("v1", "v2")


async def lost(crd: Crd, *specs: dict[str, object]) -> tuple[LostFields, list[str]]:
    """What would be lost of objects with these specs, and at which versions they were read."""
    asked: list[str] = []

    async def pages_at(version: str) -> AsyncIterator[ListedPage]:
        asked.append(version)
        for number, spec in enumerate(specs):
            meta = Meta(f"w{number}", str(number), "7", "default")
            yield ListedPage([(meta, {"apiVersion": f"x/{version}", "spec": spec})], None)

    return await find_lost_fields(crd, pages_at), asked


@pytest.mark.parametrize(
    ("old", "new", "spec", "paths"),
    [
        (OLD, NEW, {"size": 1}, set()),
        (OLD, NEW, {"size": 1, "color": "red"}, {".spec.color"}),
        (OPEN, NEW, {"size": 1, "any": {"thing": 1}}, {".spec.any"}),
        (OPEN, OPEN, {"any": 1}, set()),
        (MAP, NEW, {"limits": {"cpu": "1"}}, {".spec.limits"}),
        (MAP, MAP, {"limits": {"cpu": "1"}}, set()),
        (OPEN, EMBEDDED, {"template": {"metadata": {"name": "x"}, "kind": "K", "spec": {}}}, {".spec.template.spec"}),
    ],
    ids=["not used", "undeclared", "unknown before", "unknown kept", "a map", "a map kept", "an embedded resource"],
)
async def test_what_objects_use_and_the_storage_version_lacks(
    old: b.Node, new: b.Node, spec: dict[str, object], paths: set[str]
) -> None:
    """A field missed is lost without a word; one named that nobody uses keeps people from a needed migration."""
    found, _asked = await lost(b.crd(schemas={"v1": old, "v2": new}, stored=STORED), spec)
    assert found.objects.keys() == paths


@pytest.mark.parametrize(
    ("crd", "asked"),
    [
        (b.crd(schemas={"v1": OLD, "v2": NEW}, stored=STORED), ["v1"]),
        (b.proved(b.crd(schemas={"v1": OLD, "v2": NEW})), []),
        (b.crd(schemas={"v1": NEW, "v2": OLD}, stored=STORED), []),
        (b.crd(schemas={"v1": OLD, "v2": NEW}, stored=STORED, webhook=True), []),
        (b.crd(schemas={"v1": OLD, "v2": NEW}, stored=STORED, unserved=("v1",)), []),
    ],
    ids=["may lose", "all stored at the storage version", "nothing dropped", "the webhook decides", "not served"],
)
async def test_objects_are_read_only_where_that_can_tell_something(crd: Crd, asked: list[str]) -> None:
    """Reading all objects whole is the dearest part of a plan."""
    assert (await lost(crd))[1] == asked


async def test_an_unserved_version_is_said_to_hide_them() -> None:
    """What nobody can look at must not count as looked at."""
    crd = b.crd(schemas={"v1": OLD, "v2": NEW}, stored=STORED, unserved=("v1",))
    [finding] = (await lost(crd))[0].findings(crd)
    assert "v1 is not served" in finding.message and ".spec.color" in finding.message and not finding.fails


async def test_each_field_is_told_once_with_an_example() -> None:
    """One sentence an object would fill the screen; one without an object leaves one searching."""
    crd = b.crd(schemas={"v1": OLD, "v2": NEW}, stored=STORED)
    [finding] = (await lost(crd, {"size": 1}, {"color": "red"}, {"color": "blue"}))[0].findings(crd)
    assert finding.message.startswith("rewriting would prune .spec.color of 2 objects for good (default/w1 among them)")
    assert "red" not in finding.message and "blue" not in finding.message


async def test_names_without_end_are_counted() -> None:
    """Below a map that was open every object has names of its own, and memory has an end."""
    crd = b.crd(schemas={"v1": OPEN, "v2": NEW}, stored=STORED)
    found, _asked = await lost(crd, {f"key{number}": 1 for number in range(MOST_PATHS + 5)})
    assert (len(found.objects), found.beyond) == (MOST_PATHS, 5)
    assert "5 fields more" in found.findings(crd)[-1].message
