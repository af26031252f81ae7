"""What was found is counted in a bounded space, and said in sentences that name objects and the way out."""

from __future__ import annotations

import json
from typing import Any

import pytest

from restow.migrator.planning.ownerreferences import (
    MOST_EXAMPLES,
    NotLookedAt,
    OwnerVersion,
    ReferenceTally,
    Referring,
    VersionReferences,
    against,
    not_looked_at,
)
from restow.migrator.requests.wire import Meta, object_decoder
from tests.migrator import builders as b

WIDGET = OwnerVersion("example.com/v1", "Widget")
TWO = VersionReferences((Referring("configmaps", 2, ("a/b", "a/c")), Referring("nodes", 1, ("n",))))


def meta(name: str, *owners: OwnerVersion, namespace: str = "default") -> Meta:
    """An object's metadata, off the wire."""
    references = [{"apiVersion": each.api_version, "kind": each.kind, "name": "o", "uid": "u"} for each in owners]
    found: dict[str, Any] = {"name": name, "uid": "u", "resourceVersion": "1", "ownerReferences": references}
    if namespace:
        found["namespace"] = namespace
    return object_decoder.decode(json.dumps({"metadata": found}).encode()).metadata


def test_version_and_kind_make_a_reference_count() -> None:
    """A reference to another kind of the group, or at another version, does not stand against this one."""
    tally = ReferenceTally([WIDGET])
    for owner in (WIDGET, OwnerVersion("example.com/v2", "Widget"), OwnerVersion("example.com/v1", "Gadget")):
        tally.add("configmaps", meta(owner.kind.lower(), owner))
    tally.add("configmaps", meta("free"))
    assert tally.dependents(()) == {WIDGET: VersionReferences((Referring("configmaps", 1, ("default/widget",)),))}


def test_an_object_of_two_owners_counts_once() -> None:
    """Objects are counted, not references: as many have to be written."""
    tally = ReferenceTally([WIDGET])
    tally.add("nodes", meta("n", WIDGET, WIDGET, namespace=""))
    assert tally.dependents(())[WIDGET].found == (Referring("nodes", 1, ("n",)),)


def test_one_search_serves_several_versions() -> None:
    """Listing a whole cluster once for each version of each CRD would take as many times as long."""
    other = OwnerVersion("example.com/v0", "Widget")
    tally = ReferenceTally([WIDGET, other])
    tally.add("configmaps", meta("a", WIDGET))
    tally.add("configmaps", meta("both", WIDGET, other))
    found = tally.dependents([NotLookedAt("secrets", "no")])
    assert {owner: each.count for owner, each in found.items()} == {WIDGET: 2, other: 1}
    assert all(each.not_looked_at == (NotLookedAt("secrets", "no"),) for each in found.values())


def test_memory_is_bounded() -> None:
    """A million dependents must not become a million names."""
    tally = ReferenceTally([WIDGET])
    for number in range(1000):
        tally.add("configmaps", meta(f"c{number}", WIDGET))
    (found,) = tally.dependents(())[WIDGET].found
    assert (found.count, len(found.examples)) == (1000, MOST_EXAMPLES)


def test_the_reason_names_objects_and_the_way_out() -> None:
    """Whoever reads it has to find the objects, and to know at which version to write the references."""
    said = against(b.crd(), "v1", TWO)
    assert said.startswith(
        "3 objects have ownerReferences at example.com/v1 (configmaps: 2, for example a/b, a/c; "
        "nodes: 1, for example n): "
    )
    assert "Write these references at v2, with the same uid, before v1 is unserved" in said
    assert against(b.crd(), "v1", VersionReferences()) == ""


@pytest.mark.parametrize(
    ("versions", "unserved"), [(("v2",), ()), (("v1", "v2"), ("v1",))], ids=["removed", "unserved"]
)
def test_after_the_fact_the_reason_says_what_is_so(versions: tuple[str, ...], unserved: tuple[str, ...]) -> None:
    """Advice for before the step does not help after it."""
    said = against(b.crd(versions, unserved=unserved), "v1", TWO)
    assert "v1 is not served, so the garbage collector does not find the owner" in said
    assert said.endswith("Write these references at v2, with the same uid")


def test_the_last_version_has_no_other_to_name() -> None:
    """A sentence that sends people to the version that they want to drop, or to an unserved one, leads nowhere."""
    assert "Serve another version to write them at" in against(b.crd(unserved=("v2",)), "v1", TWO)
    assert "Write these references at v1" in against(b.crd(), "v2", TWO)


def test_long_lists_end() -> None:
    """A cluster has hundreds of resources; the JSON has them all."""
    many = VersionReferences(tuple(Referring(f"r{number:02}", 1, ("x",)) for number in range(20)))
    assert against(b.crd(), "v1", many).count("for example") == 8
    assert "; and 12 more)" in against(b.crd(), "v1", many)


def test_what_was_not_looked_at_is_said_by_reason() -> None:
    """Silence about it would turn "not seen" into "not there"."""
    missed = [NotLookedAt("secrets", "not allowed to list it"), NotLookedAt("a.b.c", "503: down")]
    missed += [NotLookedAt(f"r{number}", "not allowed to list it") for number in range(9)]
    said = not_looked_at(b.crd(), "v1", VersionReferences(not_looked_at=tuple(missed)))
    assert "Not looked at: secrets, r0, r1, r2, r3, r4, r5, r6, and 2 more (not allowed to list it); " in said
    assert said.endswith("; a.b.c (503: down)")
    assert not_looked_at(b.crd(), "v1", TWO) == ""
