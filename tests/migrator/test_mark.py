"""The completion mark: what makes it another one, what does not, and when it is believed."""

from __future__ import annotations

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restow.crds import Crd
from restow.migrator.mark import ANNOTATION, completed, mark
from restow.migrator.model import ManagedFields, Options, Phase, Scope
from tests.migrator import builders as b

OPTIONS = Options()
KNOWN = "5d9496b0078879aacff65fdf9df1dbde"
KNOWN_OF_A_WEBHOOK = "0023833869dc154ea0e556e55d9c53f1"


def marked(options: Options = OPTIONS, *, by: Crd | None = None, **changes: Any) -> Crd:
    """The CRD with the mark that a run on it (or on another state of it) left."""
    return b.crd(**changes, annotations={ANNOTATION: mark(by or b.crd(**changes), options)})


def test_the_mark_stays_the_same_between_releases() -> None:
    """Another hash for the same run would make every installation migrate again after an upgrade of restow."""
    assert mark(b.crd(), OPTIONS) == KNOWN
    assert mark(b.crd(webhook=True), OPTIONS) == KNOWN_OF_A_WEBHOOK


def test_the_mark_is_short_plain_text() -> None:
    """It is an annotation's value, and is compared as text."""
    assert re.fullmatch(r"[0-9a-f]{32}", mark(b.crd(), OPTIONS))


OTHER_SCHEMAS = {"v1": b.struct(spec=b.mapping(b.STRING)), "v2": b.struct(spec=b.ANYTHING)}


@pytest.mark.parametrize(
    "crd",
    [
        b.crd(generation=77),
        b.crd(schemas=OTHER_SCHEMAS),
        b.crd(annotations={"other": "note"}),
        b.crd(stored=("v1", "v2")),
        b.crd(("v2", "v1")),
        b.crd(conditions={"NamesAccepted": "True"}),
    ],
    ids=["generation", "schemas", "annotations", "stored", "order", "conditions"],
)
def test_what_makes_no_phase_due_leaves_the_mark(crd: Crd) -> None:
    """A rotated certificate or a new field must not set off a migration of everything."""
    assert mark(crd, OPTIONS) == KNOWN
    for bundle in ("QQ==", "Qg=="):
        assert mark(b.crd(webhook=True, ca_bundle=bundle), OPTIONS) == KNOWN_OF_A_WEBHOOK


@pytest.mark.parametrize(
    "crd",
    [
        b.crd(uid="uid-2"),
        b.crd(("v1", "v2", "v3")),
        b.crd(("v2",)),
        b.crd(("v0", "v2")),
        b.crd(unserved=("v1",)),
        b.crd(storage="v1"),
        b.crd(webhook=True),
    ],
    ids=["uid", "added", "removed", "renamed", "unserved", "storage", "a conversion webhook"],
)
def test_what_makes_a_phase_due_changes_the_mark(crd: Crd) -> None:
    """An unserved version or a flip must start the phase that is due, whatever an earlier run has done."""
    assert mark(crd, OPTIONS) != KNOWN


options = st.builds(
    Options,
    skip=st.sampled_from([frozenset(), frozenset({Phase.MANAGED_FIELDS})]),
    managed_fields=st.sampled_from(ManagedFields),
    scope=st.sampled_from(Scope),
    strip_served=st.booleans(),
)


@given(options, options)
def test_the_mark_tells_policies_apart(one: Options, other: Options) -> None:
    """A run that kept entries must not pass for one that translated them."""

    def asked(of: Options) -> tuple[Any, ...]:
        return (of.managed_fields if of.does(Phase.MANAGED_FIELDS) else None, of.scope, of.strip_served)

    assert (mark(b.crd(), one) == mark(b.crd(), other)) is (asked(one) == asked(other))


@pytest.mark.parametrize(
    "pace",
    [Options(concurrency=1), Options(rate=1.0), Options(page_size=7), Options(settle_s=0.0), Options(passes=9)],
    ids=["concurrency", "rate", "page size", "settle", "passes"],
)
def test_how_fast_a_run_was_does_not_count(pace: Options) -> None:
    """The next run with another ``--concurrency`` finds the same work done."""
    assert mark(b.crd(), pace) == KNOWN


def test_a_mark_is_trusted_for_what_it_was_left_for() -> None:
    """Without trust each run would translate what clients of served versions wrote since."""
    assert completed(marked(), OPTIONS)
    assert completed(marked(webhook=True, ca_bundle="Qg==", by=b.crd(webhook=True)), OPTIONS)


@pytest.mark.parametrize(
    "crd",
    [
        b.crd(),
        b.crd(annotations={ANNOTATION: ""}),
        b.crd(annotations={ANNOTATION: KNOWN[:-1]}),
        marked(stored=("v1", "v2")),
        marked(stored=("v2", "v1")),
        marked(stored=("v1",)),
        marked(stored=()),
        marked(uid="uid-2", by=b.crd()),
        marked(unserved=("v1",), by=b.crd()),
        marked(storage="v1", by=b.crd()),
    ],
    ids=["none", "empty", "cut", "stored", "stored too", "other stored", "none stored", "uid", "unserved", "flip"],
)
def test_a_mark_is_not_trusted_for_anything_else(crd: Crd) -> None:
    """A mark that outlives its state (a restored annotation, a flip) would skip objects that are not migrated."""
    assert not completed(crd, OPTIONS)


def test_another_runs_mark_is_not_trusted() -> None:
    """What was kept before is to be translated now."""
    assert not completed(marked(Options(managed_fields=ManagedFields.KEEP)), OPTIONS)
    assert not completed(marked(Options(scope=Scope.REMOVED)), OPTIONS)


def test_the_mark_can_be_ignored() -> None:
    """``--ignore-mark`` asks to translate what clients wrote since; it leaves the same mark when it is done."""
    assert not completed(marked(), Options(ignore_mark=True))
    assert mark(b.crd(), Options(ignore_mark=True)) == KNOWN
