"""Which entries that stay will cost their objects all owners, and how that is said."""

from __future__ import annotations

import pytest

from restow.crds import Crd
from restow.migrator.decide.policies import hazard_warnings, undeclared_defaults
from tests.migrator import builders as b

DEFAULT = b.INTEGER | {"default": 1}
PLAIN = b.struct(spec=b.struct(size=b.INTEGER))


def schemas(old: b.Node, new: b.Node) -> Crd:
    """A CRD with these two."""
    return b.crd(schemas={"v1": old, "v2": new})


@pytest.mark.parametrize(
    ("old", "new", "paths"),
    [
        (PLAIN, b.struct(spec=b.struct(size=DEFAULT)), ()),
        (PLAIN, b.struct(spec=b.struct(size=b.INTEGER, most=DEFAULT)), (".spec.most",)),
        (b.struct(spec=b.EVERYTHING_KEPT), b.struct(spec=b.struct(most=DEFAULT)), ()),
        (PLAIN, b.struct(spec=b.struct(sub=b.struct(most=DEFAULT) | {"default": {}})), (".spec.sub", ".spec.sub.most")),
        (PLAIN, b.struct(spec=b.struct(size=b.INTEGER, sizes=b.INTEGER)), ()),
        (b.struct(spec=b.struct(a=b.INTEGER)), b.struct(spec=b.struct(a=b.INTEGER, ab=DEFAULT)), (".spec.ab",)),
    ],
    ids=["declared", "undeclared", "unknown fields kept", "below", "no default", "a name that begins alike"],
)
def test_defaults_that_an_older_version_does_not_declare(old: b.Node, new: b.Node, paths: tuple[str, ...]) -> None:
    """One that is missed is an unforeseen loss; one too many sends people after nothing."""
    crd = schemas(old, new)
    assert undeclared_defaults(crd.versions[0].schema, crd.versions[1].schema) == paths


def test_who_and_where_is_said_once_a_version() -> None:
    """A sentence for each of a thousand managers would hide the one that matters."""
    hazards = {"example.com/v0": (".spec.a",), "example.com/v1": (".spec.b", ".spec.c")}
    kept = {(f"m{number}", "example.com/v1"): 2 for number in range(7)}
    [said] = hazard_warnings(hazards, kept, "example.com/v2")
    assert said.startswith("14 managedFields entries of m0, m1, m2, m3, m4 and 2 more stay at example.com/v1")
    assert ".spec.b, .spec.c" in said
    assert hazard_warnings(hazards, {}, "example.com/v2") == []
