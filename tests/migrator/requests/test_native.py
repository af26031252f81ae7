"""The cluster's own migration as data: its states, its name, and when its prune is not believed."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from restow.crds import Crd
from restow.migrator.decide.policies import entry_policies
from restow.migrator.decide.proof import failed_prune, nothing_due, reencoding_due, what_is_proved
from restow.migrator.model.options import Options, Phase
from restow.migrator.requests.native import (
    NATIVE_MIGRATIONS,
    NativeMigration,
    NativeState,
    active,
    native_decoder,
    native_manifest,
    native_name,
)
from tests.migrator import builders as b


def native(name: str = "one", group: str = b.GROUP, **conditions: str) -> NativeMigration:
    """A migration of widgets with these conditions."""
    told = [{"type": kind, "status": status, "message": f"told {kind}"} for kind, status in conditions.items()]
    document = {
        "metadata": {"name": name},
        "spec": {"resource": {"group": group, "resource": "widgets"}},
        "status": {"conditions": told, "resourceVersion": "12"},
    }
    return native_decoder.decode(msgspec.json.encode(document))


@pytest.mark.parametrize(
    ("conditions", "state"),
    [
        ({}, NativeState.PENDING),
        ({"Running": "True"}, NativeState.RUNNING),
        ({"Running": "True", "Succeeded": "True"}, NativeState.ENDING),
        ({"Running": "True", "Failed": "True"}, NativeState.ENDING),
        ({"Running": "False", "Succeeded": "True"}, NativeState.SUCCEEDED),
        ({"Running": "False", "Failed": "True"}, NativeState.FAILED),
        ({"Failed": "True", "Succeeded": "False"}, NativeState.FAILED),
        ({"Running": "False"}, NativeState.PENDING),
        ({"Running": "Unknown"}, NativeState.PENDING),
    ],
)
def test_its_state_is_told_by_its_conditions(conditions: dict[str, str], state: NativeState) -> None:
    """Between Succeeded and Running=False it prunes: a run that went on too early would be pruned behind its back."""
    assert native(**conditions).state is state
    assert state.over is (state in (NativeState.SUCCEEDED, NativeState.FAILED))


@pytest.mark.parametrize("document", [{}, {"status": {}}, {"status": {"conditions": None}}, {"spec": {"more": 1}}])
def test_what_the_controller_has_not_filled_in_yet_is_pending(document: dict[str, Any]) -> None:
    """A new one has no status at all."""
    found = native_decoder.decode(msgspec.json.encode(document))
    assert found.state is NativeState.PENDING
    assert found.resource_version == ""


def test_only_those_of_this_crd_that_are_not_over_are_in_the_way() -> None:
    """Every cluster may have those of other resources, and old ones."""
    found = [
        native("b", Running="True"),
        native("a"),
        native("over", Running="False", Succeeded="True"),
        native("failed", Failed="True"),
        native("other", "other.example.com", Running="True"),
    ]
    assert [each.name for each in active(found, b.crd())] == ["a", "b"]


def test_its_name_is_the_same_for_the_same_state_of_the_crd() -> None:
    """A run after a killed one finds it by that; one of another generation proves nothing now."""
    crd = b.crd(generation=3)
    assert native_name(crd, 5.0) == native_name(b.crd(generation=3, annotations={"a": "b"}), 5.0)
    others = [b.crd(generation=4), b.crd(generation=3, uid="uid-2")]
    assert len({native_name(each, 5.0) for each in (crd, *others)} | {native_name(crd, 0.0)}) == 4
    made = native_manifest(crd, NATIVE_MIGRATIONS[1], 5.0)
    assert made["metadata"]["name"] == native_name(crd, 5.0)
    assert native_decoder.decode(msgspec.json.encode(made)).concerns(crd)


def crd_after(reason: str, status: str = "False", at: str = "2026-01-01T00:00:00Z", **changes: Any) -> Crd:
    """A CRD whose condition StorageMigrating says so."""
    made = b.crd(**changes)
    condition = {"type": "StorageMigrating", "status": status, "reason": reason, "lastTransitionTime": at}
    told = made.document["status"]["conditions"]
    document = {**made.document, "status": {**made.document["status"], "conditions": [*told, condition]}}
    return Crd.from_document(document)


@pytest.mark.parametrize(
    ("crd", "doubted"),
    [
        (b.crd(), False),
        (crd_after("MigrationSucceeded"), False),
        (crd_after("MigrationRunning", "True"), False),
        (crd_after("MigrationFailed"), True),
        (crd_after("MigrationFailed", at=""), True),
    ],
    ids=["none", "succeeded", "running", "failed", "failed once"],
)
def test_after_a_failed_one_the_proof_of_an_earlier_run_is_not_believed(crd: Crd, doubted: bool) -> None:
    """Its controller prunes without asking whether it succeeded."""
    assert bool(failed_prune(crd)) is doubted
    crd = b.proved(crd, by=b.crd())
    assert bool(what_is_proved(crd).doubt) is doubted
    assert entry_policies(crd, Options()).reencode is doubted
    assert reencoding_due(crd, Options()) is doubted
    assert not reencoding_due(crd, Options(skip=frozenset({Phase.STORAGE})))
    assert bool(nothing_due(crd, Options())) is not doubted


def test_a_run_of_ours_after_it_is_believed_until_the_next_one_fails() -> None:
    """The condition stays on the CRD for ever; every later run would write every object for it."""
    failed, again = crd_after("MigrationFailed"), crd_after("MigrationFailed", at="2026-02-02T00:00:00Z")
    done = b.proved(failed)
    assert nothing_due(done, Options())
    assert not entry_policies(done, Options(), completed=True).reencode
    assert "failed" in what_is_proved(b.proved(again, by=failed)).doubt
