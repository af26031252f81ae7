"""The watermark: how resourceVersions compare, what makes it void, and that it only ever leaves out re-encoding."""

from __future__ import annotations

import dataclasses
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restow.crds import Crd
from restow.migrator.decide.decision import WriteStep, decide
from restow.migrator.decide.policies import entry_policies
from restow.migrator.model.options import Options
from restow.migrator.model.watermark import ANNOTATION, Watermark, is_newer, valid_watermark
from restow.migrator.ownership.policy import EntryPolicies
from tests.migrator import builders as b

STORED = ("v1", "v2")
START = b.crd(stored=STORED, generation=4)


def carrying(value: str | None, **changes: object) -> Crd:
    """The CRD of ``START``, changed, with this annotation."""
    annotations = {} if value is None else {ANNOTATION: value}
    return b.crd(**({"stored": STORED, "generation": 4} | changes), annotations=annotations)  # type: ignore[arg-type]


def taken(crd: Crd = START, resource_version: str = "100", settle_s: float = 5.0) -> str:
    """The annotation's value that a run leaves."""
    watermark = Watermark.taken(crd, resource_version, settle_s)
    assert watermark is not None
    return watermark.encode()


@pytest.mark.parametrize(
    ("one", "than", "newer"),
    [
        ("101", "100", True),
        ("100", "100", False),
        ("99", "100", False),
        ("1000", "999", True),
        ("18446744073709551617", "18446744073709551616", True),
        ("9" * 6000, "1", True),
        ("", "100", False),
        ("0", "100", False),
        ("0101", "100", False),
        ("-101", "100", False),
        ("+101", "100", False),
        ("1_01", "100", False),
        (" 101", "100", False),
        ("101\n", "100", False),
        ("101.0", "100", False),
        ("0x101", "100", False),
        ("a101", "100", False),
        ("١٠١", "100", False),
        ("²", "1", False),
        ("101", "", False),
        ("101", "0", False),
        ("101", "abc", False),
    ],
)
def test_only_positive_integers_are_newer(one: str, than: str, newer: bool) -> None:
    """Comparing anything else would be guessing, and a wrong guess leaves an object at the old version."""
    assert is_newer(one, than) is newer


@given(st.integers(min_value=1), st.integers(min_value=1))
def test_they_compare_as_integers(one: int, other: int) -> None:
    """As text 9 is more than 10."""
    assert is_newer(str(one), str(other)) is (one > other)


@given(st.text(max_size=6), st.text(max_size=6))
def test_newer_is_an_order_of_whatever_there_is(one: str, other: str) -> None:
    """A comparison that is true both ways would make every object newer."""
    assert not (is_newer(one, other) and is_newer(other, one))


@pytest.mark.parametrize(
    "crd",
    [
        carrying(taken()),
        carrying(taken(), generation=5),
        carrying(taken(), conditions={"NamesAccepted": "True"}),
        carrying(taken(settle_s=6.5)),
    ],
    ids=["the same", "one edit that left versions alone", "a condition", "longer settled"],
)
def test_a_watermark_holds_while_no_other_version_can_have_been_stored(crd: Crd) -> None:
    """A watermark that is void at every trifle spares nothing."""
    found = valid_watermark(crd, 5.0)
    assert found is not None
    assert found.resource_version == "100"


@pytest.mark.parametrize(
    "crd",
    [
        carrying(None),
        carrying(""),
        carrying("100"),
        carrying("[]"),
        carrying("{}"),
        carrying(taken(), uid="uid-2"),
        carrying(taken(), generation=6),
        carrying(taken(), generation=3),
        carrying(taken(), generation=5, storage="v1"),
        carrying(taken(), storage="v1"),
        carrying(taken(), generation=5, unserved=("v1",)),
        carrying(taken(), generation=5, versions=("v1", "v2", "v3")),
        carrying(taken(settle_s=4.9)),
        carrying(taken(settle_s=0.0)),
        carrying(json.dumps(json.loads(taken()) | {"resourceVersion": "abc"})),
        carrying(json.dumps(json.loads(taken()) | {"resourceVersion": "0"})),
        carrying(json.dumps(json.loads(taken()) | {"resourceVersion": 100})),
        carrying(json.dumps(json.loads(taken()) | {"format": 1})),
        carrying(json.dumps(json.loads(taken()) | {"more": True})),
    ],
)
def test_a_watermark_is_void_otherwise(crd: Crd) -> None:
    """One believed wrongly leaves objects at the old version, and the prune then loses them."""
    assert valid_watermark(crd, 5.0) is None


@pytest.mark.parametrize("resource_version", ["", "0", "-1", "1e3", "abc"])
def test_none_is_taken_where_nothing_can_be_compared(resource_version: str) -> None:
    """A store whose resourceVersions are no integers must not be resumed on."""
    assert Watermark.taken(START, resource_version, 5.0) is None


def test_it_outlives_one_rotation_after_the_other_by_being_renewed() -> None:
    """cert-manager rotates for ever; each time the proof is there when the CRD is read."""
    watermark = Watermark.taken(START, "100", 5.0)
    assert watermark is not None
    for generation in range(5, 9):
        now = b.crd(stored=STORED, generation=generation)
        assert watermark.holds_for(now, 5.0)
        watermark = watermark.renewed(now)
        assert watermark.resource_version == "100"


versions = st.sampled_from([(), ("v1",)])
states = st.tuples(st.integers(1, 4), st.sampled_from(["v1", "v2"]), versions)


@given(st.lists(states, min_size=1, max_size=6), st.data())
def test_a_watermark_never_holds_after_a_flip(
    edits: list[tuple[int, str, tuple[str, ...]]], data: st.DataObject
) -> None:
    """Whatever is done to a CRD after the list: had it another storage version, objects may be stored at that."""
    history = [b.crd(stored=STORED, generation=1)]
    for _, storage, unserved in edits:
        # What is served cannot be the storage version's alone to lose; the server bumps the generation on each edit.
        gone = tuple(each for each in unserved if each != storage)
        history.append(b.crd(stored=STORED, generation=len(history) + 1, storage=storage, unserved=gone))
    at = data.draw(st.integers(0, len(history) - 1))
    watermark = Watermark.taken(history[at], "100", 5.0)
    assert watermark is not None
    for number in range(at, len(history)):
        between = {crd.storage.name for crd in history[at : number + 1]}
        if watermark.holds_for(history[number], 5.0):
            assert len(between) == 1


def rules_since(watermark: str, **changes: object) -> EntryPolicies:
    """The rules of a resumed run."""
    return dataclasses.replace(entry_policies(carrying(None, **changes), Options()), written_since=watermark)


@pytest.mark.parametrize(
    ("resource_version", "version", "steps"),
    [
        ("100", "v2", (WriteStep.IDENTITY_APPLY,)),
        ("99", "v2", (WriteStep.IDENTITY_APPLY,)),
        ("101", "v2", ()),
        ("garbage", "v2", (WriteStep.IDENTITY_APPLY,)),
        ("101", "v1", (WriteStep.COMBINED_PATCH,)),
        ("100", "v1", (WriteStep.COMBINED_PATCH,)),
    ],
)
def test_what_was_written_since_is_not_re_encoded_but_translated(
    resource_version: str, version: str, steps: tuple[WriteStep, ...]
) -> None:
    """managedFields of an old version are written by old clients at any time, so they are always looked at."""
    rules = rules_since("100")
    entries = (b.entry(version=version),)
    assert decide(entries, rules.for_object(resource_version)).steps == steps


def test_without_a_watermark_every_object_is_re_encoded() -> None:
    """A run that was not asked to resume proves every object by a write of its own."""
    rules = entry_policies(carrying(taken()), Options(resume=True))
    assert rules.for_object("999").reencode, "the run decides about the watermark, not the policies"
