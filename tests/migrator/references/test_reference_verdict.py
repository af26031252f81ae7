"""What was found is counted in a bounded space, and said in sentences that name objects and the way out."""

from __future__ import annotations

import pytest

from restow.migrator import sought
from restow.migrator.references.readers.metadata import owner_references
from restow.migrator.references.readers.typed import typed_references
from restow.migrator.references.reference import (
    MOST_KEPT,
    FoundReferences,
    NotLookedAt,
    ReferenceKind,
    ReferenceTally,
    against_removal,
    against_unserving,
    not_looked_at,
    standing,
)
from tests.migrator import builders as b
from tests.migrator.references.found import OWNERS, SPELLINGS, WIDGETS, helm, meta, named_by, owned, owner

TWO = named_by(owned("configmaps", "a", "b"), owned("configmaps", "a", "c"), owned("nodes", "", "n"))
MOVING = "restow references widgets.example.com --version v1 --move v2 does it"


def test_version_and_kind_make_a_reference_count() -> None:
    """A reference to another kind of the group, or at another version, does not stand against this one."""
    others = (owner("example.com/v2"), owner(kind="Gadget"), owner())
    (found,) = owner_references("configmaps", meta("a", *others), OWNERS)
    assert (found.where, found.detail) == ("/metadata/ownerReferences/2", "owner w")
    assert not list(owner_references("configmaps", meta("free"), OWNERS))


def test_an_object_of_two_owners_counts_once() -> None:
    """Objects are counted for people, references for programs: as many objects have to be written."""
    found = named_by(*owner_references("nodes", meta("n", owner(), owner(uid="4"), namespace=""), OWNERS))
    assert (found.objects[ReferenceKind.OWNER_REFERENCES, "nodes"], found.count) == (1, 2)
    assert against_removal(b.crd(), "v1", found)[0].startswith("1 object has ownerReferences")


def test_memory_is_bounded() -> None:
    """A million dependents must not become a million names."""
    found = named_by(*(owned("configmaps", "a", f"c{number}") for number in range(3 * MOST_KEPT)))
    assert (found.count, len(found.references)) == (3 * MOST_KEPT, MOST_KEPT)


def test_harmless_references_do_not_hide_one_that_fails() -> None:
    """Former revisions can be listed before the deployed one: a bound on names must not turn a no into a yes."""
    found = named_by(*(each for _ in range(2 * MOST_KEPT) for each in helm("superseded")), *helm("deployed"))
    (said,) = against_unserving(b.crd(), "v1", found)
    assert "(secrets: 1, for example default/web)" in said
    assert (found.against_unserving, found.count) == ({ReferenceKind.HELM: 1}, 2 * MOST_KEPT + 1)
    many = named_by(*(each for _ in range(2 * MOST_KEPT) for each in helm("deployed")))
    assert f"secrets: {2 * MOST_KEPT}, " in against_removal(b.crd(), "v1", many)[0]


def test_a_plan_counts_what_stands_against_each_step() -> None:
    """A rule with matchPolicy Equivalent outlives unserving: one number for both steps would be wrong for one."""
    hooks = "validatingwebhookconfigurations.admissionregistration.k8s.io"
    rule = {"apiGroups": ["example.com"], "apiVersions": ["v1"], "resources": ["widgets"], "operations": ["*"]}
    configuration = {"metadata": {"name": "hooks"}, "webhooks": [{"name": "a.b.c", "rules": [rule]}]}
    (matching,) = typed_references(hooks, configuration, SPELLINGS)
    found = named_by(owned("configmaps", "a", "b"), *helm("superseded"), matching)
    assert standing(found) == (
        "against unserving v1 stand 1 reference (owner-references 1), against removing it 2 references "
        "(owner-references 1, admission 1): restow references widgets.example.com --version v1 shows them, and with "
        "--move v2 writes those that it can at v2"
    )
    assert standing(named_by(*helm("superseded"))) == "nothing that was looked at names v1 and fails without it"


def test_one_search_serves_several_versions() -> None:
    """Listing a whole cluster once for each version of each CRD would take as many times as long."""
    other = sought(b.crd(), "v0")
    tally = ReferenceTally([WIDGETS, other])
    tally.add(owned("configmaps", "a", "b"))
    found = tally.found([NotLookedAt("secrets", "no")])
    assert {of: each.count for of, each in found.items()} == {WIDGETS: 1, other: 0}
    assert all(each.not_looked_at == (NotLookedAt("secrets", "no"),) for each in found.values())


def test_the_reason_names_objects_and_the_way_out() -> None:
    """Whoever reads it has to find the objects, and to know at which version to write the references."""
    (said,) = against_unserving(b.crd(), "v1", TWO)
    assert said.startswith(
        "3 objects have ownerReferences at example.com/v1 (configmaps: 2, for example a/b, a/c; "
        "nodes: 1, for example n): "
    )
    assert said.endswith("Write these references at v2, with the same uid, before v1 is unserved. " + MOVING)
    assert against_unserving(b.crd(), "v1", FoundReferences(WIDGETS)) == []


@pytest.mark.parametrize(
    ("versions", "unserved"), [(("v2",), ()), (("v1", "v2"), ("v1",))], ids=["removed", "unserved"]
)
def test_after_the_fact_the_reason_says_what_is_so(versions: tuple[str, ...], unserved: tuple[str, ...]) -> None:
    """Advice for before the step does not help after it."""
    (said,) = against_removal(b.crd(versions, unserved=unserved), "v1", TWO)
    assert "v1 is not served, so the garbage collector does not find the owner" in said
    assert said.endswith("Write these references at v2, with the same uid. " + MOVING)


def test_the_last_version_has_no_other_to_name() -> None:
    """A sentence that sends people to the version that they want to drop, or to an unserved one, leads nowhere."""
    crd = b.crd(unserved=("v2",))
    last = named_by(owned("configmaps", "a", "b"), of=WIDGETS)
    alone = FoundReferences(sought(crd, "v1"), last.references, last.effects, last.objects)
    assert "Serve another version to write them at" in against_unserving(crd, "v1", alone)[0]


def test_long_lists_end() -> None:
    """A cluster has hundreds of resources; the JSON has them all."""
    many = named_by(*(owned(f"r{number:02}", "", "x") for number in range(20)))
    (said,) = against_unserving(b.crd(), "v1", many)
    assert said.count("for example") == 8
    assert "; and 12 more)" in said


def test_what_was_not_looked_at_is_said_by_reason() -> None:
    """Silence about it would turn "not seen" into "not there"."""
    missed = [NotLookedAt("secrets", "not allowed to list it"), NotLookedAt("a.b.c", "503: down")]
    missed += [NotLookedAt(f"r{number}", "not allowed to list it") for number in range(9)]
    said = not_looked_at(b.crd(), "v1", FoundReferences(WIDGETS, not_looked_at=tuple(missed)))
    assert "Not looked at: secrets, r0, r1, r2, r3, r4, r5, r6, and 2 more (not allowed to list it); " in said
    assert said.endswith("; a.b.c (503: down)")
    assert not_looked_at(b.crd(), "v1", TWO) == ""
