"""What goes wrong between two writes to one object, and is put right by the next one. Found by the fault suite.

A write that persists a default does so in the writer's name, and an apply of nothing begins to track an object that
nobody tracked; both are put right by the run's next write, if it lives to send it.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import AsyncIterator
from pathlib import Path

import msgspec
import pytest

from restow.controlplane.etcd import Etcd
from restow.controlplane.plane import ControlPlane
from restow.kube import connect
from restow.kube.client import HttpCluster
from restow.kube.cluster import PatchType
from restow.migrator import ManagedFields, Migration, Options
from restow.migrator.decide.decision import WriteStep, decide
from restow.migrator.decide.policies import entry_policies
from restow.migrator.ownership.entries import FIELD_MANAGER, ManagedFieldsEntry, left_behind
from restow.migrator.ownership.policy import EntryPolicies
from tests.apiserver.kind import Kind, owners
from tests.apiserver.proxy import Fault, Seen, proxy_before
from tests.migrator import builders as b
from tests.migrator.builders import api_version, entry

_numbers = itertools.count(1)

DEFAULT = {"f:spec": {"f:policy": {}}}
OURS = entry(FIELD_MANAGER, "v2", DEFAULT, operation="Update")
NOBODYS = entry("before-first-apply", "v2", {"f:spec": {"f:size": {}}}, operation="Update")
ALICE = entry("alice", "v2", {"f:spec": {"f:size": {}}})


def rules(mode: ManagedFields = ManagedFields.TRANSLATE) -> EntryPolicies:
    """The policies of a CRD with v1 and v2."""
    return entry_policies(b.proved(b.crd(("v1", "v2"))), Options(managed_fields=mode))


@pytest.mark.parametrize("mode", list(ManagedFields))
def test_our_own_entry_is_taken_off(mode: ManagedFields) -> None:
    """Who applies the defaulted field would meet a conflict with restow, for ever."""
    decision = decide((ALICE, OURS), rules(mode))
    assert decision.steps == (WriteStep.COMBINED_PATCH,)
    assert decision.entries == (ALICE,)
    assert (decision.translated, decision.stripped) == (0, ())


def test_our_own_entry_is_not_carried_to_another_version() -> None:
    """After a flip it would be translated as if it were somebody's."""
    old = msgspec.structs.replace(OURS, api_version=api_version("v1"))
    assert decide((ALICE, old), rules()).entries == (ALICE,)


def test_an_object_that_nobody_tracked_is_tracked_by_nobody_again() -> None:
    """Each of its fields would have a second owner that no applier can ever take it from."""
    for entries in ((NOBODYS,), (OURS,), (NOBODYS, OURS)):
        decision = decide(entries, rules())
        assert decision.steps == (WriteStep.COMBINED_PATCH,) and decision.entries == ()


@pytest.mark.parametrize(
    "entries",
    [
        (),
        (ALICE,),
        (ALICE, NOBODYS),
        (ALICE, msgspec.structs.replace(OURS, operation="Apply")),
        (ALICE, msgspec.structs.replace(OURS, subresource="status")),
    ],
)
def test_what_others_own_is_not_ours(entries: tuple[ManagedFieldsEntry, ...]) -> None:
    """``before-first-apply`` protects fields from an applier if there is one; others may be named restow."""
    assert not left_behind(entries)
    assert decide(entries, rules()).steps == ()


@pytest.fixture
async def kind(kubeconfig_cluster: HttpCluster, etcd: Etcd) -> AsyncIterator[Kind]:
    """Widgets at v1alpha1, to be migrated to a v1beta1 with a default."""
    made = Kind(kubeconfig_cluster, etcd, f"left-behind-{next(_numbers)}.example.com")
    await made.create(made.document(storage="v1alpha1", versions=("v1alpha1",)))
    yield made
    await made.remove()


@pytest.mark.apiserver
async def test_a_run_finishes_what_another_one_began(kind: Kind, kubeconfig_cluster: HttpCluster) -> None:
    """As the suite's seeds 18 and 51 found it: a run killed after the first of two writes, and another one after it."""
    cluster = kubeconfig_cluster
    for name in ("tracked", "untracked"):
        await kind.apply(kind.manifest("v1alpha1", name, spec={"size": 1}), "alice")
    await kind.merge("v1alpha1", "untracked", {"metadata": {"managedFields": [{}]}}, "anyone")
    await kind.change(kind.document(storage="v1beta1", default=True))
    entry_of_alice = (await kind.get("v1beta1", "tracked"))["metadata"]["managedFields"][0]
    moved = {"metadata": {"managedFields": [entry_of_alice | {"apiVersion": f"{kind.group}/v1beta1"}]}}
    await kind.merge("v1beta1", "tracked", moved, FIELD_MANAGER)
    nothing = kind.manifest("v1beta1", "untracked")
    await cluster.patch(
        kind.at("v1beta1"),
        "untracked",
        json.dumps(nothing).encode(),
        "default",
        patch_type=PatchType.APPLY,
        params={"fieldManager": FIELD_MANAGER},
    )
    left = {key: {manager for manager, _, _ in owners(found)} for key, found in (await kind.stored()).items()}
    assert left == {"default/tracked": {"alice", FIELD_MANAGER}, "default/untracked": {"before-first-apply"}}
    assert (await Migration(cluster, Options(settle_s=0.0)).migrate(kind.name)).pruned
    stored = await kind.stored()
    assert owners(stored["default/tracked"]) == {("alice", "Apply", ""): frozenset({"/f:spec/f:size"})}
    assert "managedFields" not in stored["default/untracked"]["metadata"]
    assert stored["default/untracked"]["spec"] == {"size": 1, "policy": "Retain"}


@pytest.mark.apiserver
async def test_who_writes_during_a_repair_keeps_what_it_wrote(
    kind: Kind, kubeconfig_cluster: HttpCluster, control_plane: ControlPlane, tmp_path: Path
) -> None:
    """As seed 210 found it: its entry rode along at the old version, the server emptied the list, it was forgotten."""
    before = kind.document(storage="v1alpha1", versions=("v1alpha0", "v1alpha1"), keyed_conditions=False)
    await kind.change(before)
    await kind.apply(kind.manifest("v1alpha0", "w", spec={"color": "red"}), "dora")
    await kind.apply(kind.manifest("v1alpha1", "w", spec={"size": 1}), "alice")
    await kind.change(kind.document(storage="v1beta1", default=True, keyed_conditions=False))
    patches = 0

    async def hook(seen: Seen) -> Fault | None:
        nonlocal patches
        patches += seen.is_write
        if seen.is_write and patches == 2:  # the first one has persisted the default, in restow's name
            change = {"status": {"phase": "Running"}}
            await kind.merge("v1alpha1", "w", change, "kubelet", subresource="status")
        return None

    async with proxy_before(control_plane, tmp_path) as proxy, connect(proxy.kubeconfig) as through:
        proxy.hook = hook
        report = await Migration(through, Options(settle_s=0.0)).migrate(kind.name)
    assert report.objects.repaired == 1 and report.pruned
    assert owners((await kind.stored())["default/w"]) == {
        ("alice", "Apply", ""): frozenset({"/f:spec/f:size"}),
        ("dora", "Apply", ""): frozenset({"/f:spec/f:color"}),
        ("kubelet", "Update", "status"): frozenset({"/f:status", "/f:status/f:phase"}),
    }
