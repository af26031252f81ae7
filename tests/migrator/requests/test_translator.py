"""A page of objects goes through the converter together, and each gets what is its own."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import msgspec
import pytest

from restow.migrator.decide.policies import entry_policies
from restow.migrator.model.converter import Answer, ConverterDown, Json, Unconverted
from restow.migrator.model.options import Options
from restow.migrator.model.report import CrdReport
from restow.migrator.ownership.conversion import ConvertedEntry
from restow.migrator.ownership.entries import ManagedFieldsEntry
from restow.migrator.ownership.translation import Translation
from restow.migrator.requests.translator import Translator
from restow.migrator.requests.wire import Meta
from tests.migrator import builders as b
from tests.migrator.builders import api_version, entry

V0, V1, V2 = api_version("v0"), api_version("v1"), api_version("v2")
RULES = entry_policies(b.crd(("v0", "v1", "v2"), webhook=True), Options())


class Renaming:
    """A converter that calls size amount in v2, refuses to convert some objects, and is down for others."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, list[str]]] = []

    async def convert(self, objects: Sequence[Json], to: str) -> Sequence[Answer]:
        """Convert them."""
        self.asked.append((to, [each["metadata"]["name"] for each in objects]))
        if any(each["metadata"]["name"] == "down" for each in objects):
            raise ConverterDown("it is down")
        return [self.one(each, to) for each in objects]

    def one(self, obj: Json, to: str) -> Answer:
        """Convert one."""
        if obj["metadata"]["name"] == "odd":
            return Unconverted("it is odd")
        old, new = ("size", "amount") if to == V2 else ("amount", "size")
        spec = {new if name == old else name: value for name, value in obj.get("spec", {}).items()}
        return obj | {"apiVersion": to} | ({"spec": spec} if "spec" in obj else {})


def an_object(name: str, *entries: ManagedFieldsEntry) -> tuple[Meta, Json]:
    """An object at v2 and its metadata."""
    meta = Meta(name=name, uid=name, resource_version="1", managed_fields=entries)
    return meta, {"apiVersion": V2, "kind": "Widget", "metadata": {"name": name}, "spec": {"amount": 1, "other": name}}


def translate(*objects: tuple[Meta, Json]) -> tuple[list[Translation], Renaming, CrdReport]:
    """Translate them."""
    converter, report = Renaming(), CrdReport(name="widgets.example.com")
    return asyncio.run(Translator(converter, RULES, report).translate(objects)), converter, report


SIZE = entry("alice", "v1", {"f:spec": {"f:size": {}}})
OTHER = entry("bob", "v0", {"f:spec": {"f:other": {}}})
AMOUNT = ConvertedEntry({"f:spec": {"f:amount": {}}})


def test_each_object_gets_its_own_translation() -> None:
    """One object's answers taken for another's would move ownership between objects."""
    found, converter, report = translate(
        an_object("a", SIZE), an_object("b"), an_object("c", OTHER), an_object("d", OTHER, SIZE)
    )
    kept = ConvertedEntry({"f:spec": {"f:other": {}}})
    assert [each.converted for each in found] == [{0: AMOUNT}, {}, {0: kept}, {0: kept, 1: AMOUNT}]
    assert converter.asked[:3] == [(V1, ["a", "d"]), (V0, ["c", "d"]), (V2, ["a", "c", "d", "d"])]
    assert report.conversions == sum(len(names) for _to, names in converter.asked)


def test_an_object_that_is_refused_does_not_touch_the_others() -> None:
    """It fails by itself; the page goes on."""
    odd, good = translate(an_object("odd", SIZE), an_object("a", SIZE))[0]
    assert odd.failure.endswith("it is odd") and good.converted == {0: AMOUNT}


def test_an_object_that_is_nested_too_deeply_fails_by_itself() -> None:
    """The field set of one object of one tenant would end every run of the CRD with a traceback."""
    depth = 600
    value: Json | int = 1
    for _ in range(depth):
        value = {"a": value}
    fields = msgspec.Raw(b'{"f:spec":' + b'{"f:a":' * depth + b"{}" + b"}" * depth + b"}")
    deep, live = an_object("deep", msgspec.structs.replace(SIZE, fields=fields))
    found, good = translate((deep, live | {"spec": value}), an_object("a", SIZE))[0]
    assert "nested too deeply" in found.failure and good.converted == {0: AMOUNT}


def test_a_converter_that_is_down_ends_the_page() -> None:
    """Nobody may take an object for translated then."""
    with pytest.raises(ConverterDown):
        translate(an_object("a", SIZE), an_object("down", SIZE))


def test_nothing_to_translate_asks_nothing() -> None:
    """Most pages of a second run are so."""
    found, converter, report = translate(an_object("a", entry("alice", "v2")), an_object("b"))
    assert found == [Translation(), Translation()] and not converter.asked and not report.conversions
