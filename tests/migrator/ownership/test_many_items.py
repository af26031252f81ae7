"""What an entry costs that owns many items of a list: the reads of the items are counted, no time is measured."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from restow.crds import Schema
from restow.crds.fieldpath import FieldSet, key_element
from restow.migrator.ownership.projection import leave_out, project
from restow.migrator.ownership.reconcile import Unknown, reconcile_with_schema
from tests.migrator import builders as b

ITEM = b.struct(name=b.STRING, protocol={"type": "string", "default": "TCP"}, size=b.INTEGER)
BY_NAME = Schema(b.struct(x=b.keyed_list(ITEM, "name")))
BY_BOTH = Schema(b.struct(x=b.keyed_list(ITEM, "name", "protocol")))
VALUES = Schema(b.struct(x=b.set_list(ITEM)))

Owner = Callable[[FieldSet, dict[str, Any]], object]


class Counted(dict[str, Any]):
    """An item that counts how often something of it is read."""

    reads = 0

    def __getitem__(self, name: str) -> Any:
        Counted.reads += 1
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:
        Counted.reads += 1
        return super().get(name, default)

    def __contains__(self, name: object) -> bool:
        Counted.reads += 1
        return super().__contains__(name)

    def __iter__(self) -> Iterator[str]:
        Counted.reads += 1
        return super().__iter__()

    def items(self) -> Any:
        Counted.reads += 1
        return super().items()

    def __eq__(self, other: object) -> bool:
        Counted.reads += 1
        return super().__eq__(other)

    __hash__ = None  # type: ignore[assignment]


def reads(count: int, names: tuple[str, ...], owner: Owner) -> int:
    """How often items are read for an entry that owns this many of them."""
    live = {"x": [Counted(name=f"n{number}", size=number) for number in range(count)]}
    keys = [{name: f"n{number}" if name == "name" else "TCP" for name in names} for number in range(count)]
    fields = {"f:x": {key_element(each): {".": {}, "f:size": {}} for each in keys}}
    Counted.reads = 0
    owner(fields, live)
    return Counted.reads


CASES: dict[str, tuple[tuple[str, ...], Owner]] = {
    "same keys": (("name",), lambda fields, live: reconcile_with_schema(fields, BY_NAME, BY_NAME, live)),
    "keys with a default": (
        ("name", "protocol"),
        lambda fields, live: reconcile_with_schema(fields, BY_BOTH, BY_BOTH, live),
    ),
    "a key more": (("name",), lambda fields, live: reconcile_with_schema(fields, BY_NAME, BY_BOTH, live)),
    "a key less": (("name", "protocol"), lambda fields, live: reconcile_with_schema(fields, BY_BOTH, BY_NAME, live)),
    "version removed": (("name",), lambda fields, live: reconcile_with_schema(fields, Unknown(fields), BY_BOTH, live)),
    "list that is a set": (("name",), lambda fields, live: reconcile_with_schema(fields, VALUES, VALUES, live)),
    "owned part": (("name", "protocol"), lambda fields, live: project(fields, live, BY_BOTH)),
    "owned part, version removed": (("name", "protocol"), lambda fields, live: project(fields, live, Unknown(fields))),
    "rest, version removed": (("name", "protocol"), lambda fields, live: leave_out(fields, live, Unknown(fields))),
}


@pytest.mark.parametrize(("names", "owner"), CASES.values(), ids=CASES)
def test_the_cost_of_an_entry_grows_with_its_items_and_no_faster(names: tuple[str, ...], owner: Owner) -> None:
    """A search of the list for each item would hold the event loop for seconds at some thousands of items."""
    few, many = reads(50, names, owner), reads(500, names, owner)
    assert many <= 10 * few + 50, f"{few} reads of 50 items, {many} of 500"
