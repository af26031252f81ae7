"""Asking a conversion webhook before a migration does: each way in which it can be found wanting."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import pytest

from restow.migrator.model.converter import Answer, ConverterDown, Json, Unconverted
from restow.migrator.planning.dryrun import probe
from tests.migrator import builders as b

OLD = b.struct(spec=b.struct(host=b.STRING))
NEW = b.struct(spec=b.struct(address=b.STRING))
CRD = b.crd(schemas={"v1": OLD, "v2": NEW}, webhook=True)
OBJECT: Json = {
    "apiVersion": "example.com/v2",
    "kind": "Widget",
    "metadata": {"name": "w", "namespace": "ns", "managedFields": [{"manager": "alice"}]},
    "spec": {"address": "a"},
}


class Fake:
    """A converter that answers by a function, and remembers what it was asked."""

    def __init__(self, answer: Callable[[Json, str], Answer]) -> None:
        self.asked: list[tuple[Json, str]] = []
        self._answer = answer

    async def convert(self, objects: Sequence[Json], api_version: str) -> Sequence[Answer]:
        self.asked += [(obj, api_version) for obj in objects]
        return [self._answer(obj, api_version) for obj in objects]


def right(obj: Json, api_version: str) -> Answer:
    """Rename the one field."""
    was, wanted = ("address", "host") if api_version.endswith("v1") else ("host", "address")
    spec = {wanted: obj["spec"][was]} if was in obj.get("spec", {}) else None
    return obj | {"apiVersion": api_version} | ({} if spec is None else {"spec": spec})


def picky(obj: Json, api_version: str) -> Answer:
    """Refuse what is partial."""
    return right(obj, api_version) if "spec" in obj else Unconverted("spec is nil")


def one_way(obj: Json, api_version: str) -> Answer:
    """Refuse the way back."""
    return right(obj, api_version) if api_version.endswith("v1") else Unconverted("no way back")


def inventive(obj: Json, api_version: str) -> Answer:
    """Answer a field that no schema knows."""
    return obj | {"apiVersion": api_version, "spec": {"ghost": 1}} if "spec" in obj else right(obj, api_version)


@pytest.mark.parametrize(
    ("answer", "said", "fails"),
    [
        (right, [], []),
        (picky, ["does not convert an object without spec and status to v1: spec is nil"], [False]),
        (one_way, ["ns/w cannot be converted to v2 by the conversion webhook of widgets.example.com"], [True]),
        (
            inventive,
            ["ns/w at v1 with fields that v1 does not declare", "ns/w at v2 with fields that v2"],
            [False, False],
        ),
        (lambda _obj, _version: Unconverted("never"), ["cannot be converted to v1", "without spec"], [True, False]),
    ],
    ids=["fine", "partial objects", "one way only", "makes fields up", "refuses everything"],
)
async def test_each_defect_is_one_sentence(
    answer: Callable[[Json, str], Answer], said: list[str], fails: list[bool]
) -> None:
    """Each of them shows itself in mid-run otherwise, as lost owners or as objects that fail."""
    found = await probe(Fake(answer), CRD, OBJECT, needed=True)
    assert len(found) == len(said)
    assert all(part in finding.message for part, finding in zip(said, found, strict=True))
    assert [finding.fails for finding in found] == fails
    assert not any(finding.fails for finding in await probe(Fake(answer), CRD, OBJECT, needed=False))


async def test_what_is_sent_is_what_an_api_server_sends() -> None:
    """managedFields never reach a webhook, and a partial object has neither spec nor status."""
    fake = Fake(right)
    await probe(fake, CRD, OBJECT, needed=True)
    assert not any("managedFields" in obj["metadata"] for obj, _version in fake.asked)
    assert [("spec" in obj, version.rpartition("/")[2]) for obj, version in fake.asked] == [
        (True, "v1"),
        (True, "v2"),
        (False, "v1"),
    ]
    assert "managedFields" in OBJECT["metadata"]


async def test_without_an_object_one_is_made_up() -> None:
    """A CRD without objects has a webhook that may be down all the same."""
    fake = Fake(right)
    assert await probe(fake, CRD, None, needed=False) == []
    [(obj, version)] = fake.asked
    assert (version, obj["kind"], obj["metadata"]["namespace"]) == ("example.com/v1", "Widget", "default")


@pytest.mark.parametrize("needed", [True, False])
async def test_one_that_is_down_is_told_once(needed: bool) -> None:
    """Whether anything fails for it hangs on whether anything is to be converted."""

    def down(_obj: Json, _version: str) -> Answer:
        raise ConverterDown(
            "the conversion webhook does not convert objects: its certificate is not to be trusted. Help"
        )

    [finding] = await probe(Fake(down), CRD, OBJECT, needed=needed)
    assert finding.fails is needed
    assert "not to be trusted. Help. " in finding.message
    assert ("Until then a migration cannot translate" in finding.message) is needed
