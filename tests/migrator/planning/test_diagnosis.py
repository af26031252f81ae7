"""What a migration repairs, found in a CRD and in the metadata of its objects."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from restow.crds import Crd
from restow.crds.problems import CrdDiagnosis, ProblemKind
from restow.migrator.planning.diagnosis import CrdExamination, fields_lost
from tests.memory.cluster import MemoryCluster
from tests.migrator import builders as b

NARROW, WIDE = b.struct(spec=b.struct(a=b.STRING)), b.struct(spec=b.struct(a=b.STRING, b=b.STRING, c=b.STRING))


def owned(*entries: tuple[str, str]) -> dict[str, Any]:
    """The metadata of an object with entries of these managers, each at a version."""
    found = [{"manager": manager, "apiVersion": b.api_version(version)} for manager, version in entries]
    return {"metadata": {"name": "w", "namespace": "a", "managedFields": found}}


async def examined(crd: Crd, *objects: dict[str, Any], listed: bool = True) -> CrdDiagnosis:
    """The result for these objects, each of which is a page."""
    memory = MemoryCluster()
    memory.seed("customresourcedefinitions", dict(crd.document))
    examination = CrdExamination(memory, crd)
    for each in objects:
        await examination.see([each])
    return await examination.result(listed=listed)


async def test_managers_are_counted_and_many_are_not_all_named() -> None:
    """A sentence of a hundred names is not read; and its memory would grow with the objects."""
    crd = b.proved(b.crd(schemas={"v1": NARROW, "v2": WIDE}))
    found = await examined(crd, owned(*((f"m{number}", "v1") for number in range(7))), owned(("m0", "v1"), ("x", "v2")))
    problem = found.problems[0]
    assert problem.kind is ProblemKind.APPLY_FAILS
    assert problem.what == (
        "2 objects have managedFields entries at v1, of m0 (2), m1 (1), m2 (1), m3 (1), m4 (1) and 2 more, which does "
        "not declare .spec.b, .spec.c"
    )
    assert "have these managers apply at v2" in problem.remedy
    assert problem.command == "restow migrate widgets.example.com --ignore-mark", "the mark would spare the entries"


async def test_entries_that_no_apply_trips_over_are_no_problem() -> None:
    """An entry of a version whose schema has every field is converted at each apply."""
    found = await examined(b.proved(b.crd(schemas={"v1": WIDE, "v2": WIDE})), owned(("alice", "v1"), ("bob", "v2")))
    assert found.problems == ()
    assert found.looked_at == ("no managedFields entry of 1 object makes a server-side apply fail",)


async def test_a_webhook_that_does_not_answer_is_not_seen_and_not_asked_again() -> None:
    """An API server in trouble is not made to wait for it at every page; and silence is not health."""
    crd = b.proved(b.crd(webhook=True, unserved=("v1",)))
    found = await examined(crd, owned(("alice", "v1")), owned(("alice", "v1")))
    assert ProblemKind.APPLY_FAILS not in [each.kind for each in found.problems]
    (said,) = [each for each in found.not_seen if "managedFields entries at v1" in each]
    assert "conversion webhook" in said and not found.looked_at


async def test_with_a_webhook_a_version_that_left_has_two_ways_out() -> None:
    """The webhook of a version that left often converts it no more, and then a migration stops at the object."""
    found = await examined(b.proved(b.crd(webhook=True)), owned(("alice", "v0")))
    problem = found.problems[0]
    assert problem.command.startswith("restow migrate widgets.example.com")
    assert problem.instead == (f"{problem.command} --managed-fields strip",)


@pytest.mark.parametrize(
    ("crd", "objects", "listed", "kinds"),
    [
        (b.crd(), 1, True, [ProblemKind.NOT_PROVED]),
        (b.crd(), 0, True, []),
        (b.crd(), 0, False, [ProblemKind.NOT_PROVED]),
        (b.proved(b.crd()), 1, True, []),
        (b.crd(("v2",)), 1, True, []),
        (b.crd(("v2",), stored=("v1", "v2")), 0, True, [ProblemKind.STORED_VERSION_UNKNOWN]),
        (b.crd(stored=("v1", "v2")), 0, True, [ProblemKind.MIGRATION_DUE]),
    ],
    ids=["unproved", "empty", "not listed", "proved", "one version", "version left", "trim due"],
)
async def test_what_is_proved(crd: Crd, objects: int, listed: bool, kinds: list[ProblemKind]) -> None:
    """Without a proof objects may be stored anywhere, whatever status.storedVersions says; an empty CRD is well."""
    found = await examined(crd, *([owned(("alice", "v2"))] * objects), listed=listed)
    assert [each.kind for each in found.problems] == kinds


async def test_a_migration_that_prunes_fields_is_not_advised_without_a_word() -> None:
    """Whoever runs the printed command would lose the fields for good."""
    found = await examined(b.crd(schemas={"v1": WIDE, "v2": NARROW}), owned(("alice", "v2")))
    lost, due = found.problems
    assert (lost.kind, due.kind) == (ProblemKind.FIELDS_LOST, ProblemKind.NOT_PROVED)
    assert "It removes .spec.b, .spec.c, which v2 does not declare: restow plan" in due.remedy


async def test_where_a_migration_is_refused_it_is_not_advised() -> None:
    """The printed command would do nothing."""
    found = await examined(b.crd(unserved=("v2",)), owned(("alice", "v2")))
    assert found.problems == ()
    assert found.not_seen[0].startswith("whether a migration is due: the storage version v2")


async def test_the_page_shows_what_is_printed() -> None:
    """A reader searches the page for the words on the terminal."""
    page = (Path(__file__).parents[3] / "docs" / "howto" / "troubleshooting.md").read_text()
    new = b.struct(spec=b.struct(a=b.STRING, policy=b.STRING))
    alice, both = owned(("alice", "v1")), owned(("alice", "v1"), ("bob", "v1"))
    found = await examined(b.crd(schemas={"v1": NARROW, "v2": new}), *[alice] * 9, *[both] * 3)
    problem = found.problems[0]
    for text in (problem.what, problem.effect, problem.remedy, problem.command):
        assert text in page


@pytest.mark.parametrize(
    ("crd", "effects"),
    [
        (b.crd(schemas={"v1": WIDE, "v2": WIDE}), []),
        (b.crd(schemas={"v1": WIDE, "v2": NARROW}, webhook=True), []),
        (b.proved(b.crd(schemas={"v1": NARROW, "v2": WIDE}, unserved=("v1",))), []),
        (
            b.crd(schemas={"v1": NARROW, "v2": WIDE}),
            ["A write at v1, even of a label, removes .spec.b, .spec.c from the stored object."],
        ),
        (
            b.crd(schemas={"v1": WIDE, "v2": NARROW}, unserved=("v1",)),
            ["v2 does not declare .spec.b, .spec.c: every write drops what an object has there."],
        ),
        (
            b.crd(schemas={"v1": b.struct(spec=b.STRING), "v2": WIDE}),
            ["The type of .spec differs: an object that has such a field can be written at one version only."],
        ),
    ],
    ids=["equal", "webhook", "proved", "added", "possibly stored", "type"],
)
def test_fields_that_the_strategy_none_loses(crd: Crd, effects: list[str]) -> None:
    """The API server accepts such a CRD, and drops the fields without a word."""
    assert [each.effect for each in fields_lost(crd)] == effects
