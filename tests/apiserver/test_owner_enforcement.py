"""Moving ownerReferences where the API server enforces permissions on them, as OpenShift's does.

The admission plugin OwnerReferencesPermissionEnforcement lets a user change the ownerReferences of an object only with
the right to delete that object, and set ``blockOwnerDeletion`` only with the right to update the owner's finalizers.
The page is docs/references.md.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

from restow.controlplane.etcd import Etcd
from restow.controlplane.plane import ControlPlane
from restow.controlplane.pytest_plugin import running_plane
from restow.kube.client import HttpCluster
from restow.kube.resources import CONFIG_MAPS
from restow.rbac import Asked, Command, Grant, grants
from tests.apiserver.accounts import Accounts
from tests.apiserver.kind import Kind
from tests.apiserver.others import Others
from tests.restow.commandline import Ran, restow

OLD, NEW = "v1alpha1", "v1beta1"


@pytest.fixture(scope="module")
def control_plane() -> Iterator[ControlPlane]:
    """A control plane that enforces them."""
    plugin = {"enable-admission-plugins": "OwnerReferencesPermissionEnforcement"}
    with running_plane(lambda: ControlPlane(apiserver_args=plugin)) as plane:
        yield plane


@pytest.fixture(scope="module")
def kubeconfig(control_plane: ControlPlane) -> Path:
    """Its administrator's."""
    return control_plane.kubeconfig


@pytest.fixture(scope="module")
def etcd(control_plane: ControlPlane) -> Etcd:
    """What is stored."""
    return control_plane.etcd


@pytest.fixture
async def accounts(control_plane: ControlPlane, cluster: HttpCluster, tmp_path: Path) -> AsyncIterator[Accounts]:
    """Accounts of the test."""
    made = Accounts(control_plane, cluster, tmp_path)
    yield made
    await made.remove()


async def referenced_by(old: Kind, others: Others, *, blocks: bool) -> str:
    """A ConfigMap that names a widget at the old version; its name."""
    await old.apply(old.manifest(NEW, "w", spec={"size": 1}), "alice")
    uid = (await old.get(NEW, "w"))["metadata"]["uid"]
    owner = {"apiVersion": f"{old.group}/{OLD}", "kind": "Widget", "name": "w", "uid": uid}
    name = f"a.{old.group}"
    await others.made(CONFIG_MAPS, name, metadata={"ownerReferences": [owner | {"blockOwnerDeletion": blocks}]})
    return name


async def moved(old: Kind, accounts: Accounts, name: str, *more: Grant) -> Ran:
    """The move as an account with what ``restow rbac`` prints, and these rights."""
    asked = Asked(crds=(old.name,), moves=True, written=("configmaps",))
    account = await accounts.granted((*grants([Command.REFERENCES], asked), *more), name)
    arguments = ("references", old.name, "--version", OLD, "--move", NEW, "-o", "json")
    return await asyncio.to_thread(restow, *arguments, kubeconfig=account.kubeconfig)


@pytest.mark.parametrize("blocks", [False, True], ids=["plain", "blocking"])
async def test_the_right_to_delete_the_dependent_is_enough(
    old: Kind, others: Others, accounts: Accounts, cluster: HttpCluster, blocks: bool
) -> None:
    """On OpenShift a move with the documented rights would fail for each object, or the page would ask for too much."""
    name = await referenced_by(old, others, blocks=blocks)
    ran = await moved(old, accounts, "without")
    (report,) = ran.json["moves"]
    assert (ran.code, report["moved"]) == (1, {}), ran.err
    (left,) = report["notMoved"]
    assert "cannot set an ownerRef on a resource you can't delete" in left["reason"]
    found = (await cluster.get(CONFIG_MAPS, name, "default")).json()
    assert found["metadata"]["ownerReferences"][0]["apiVersion"] == f"{old.group}/{OLD}"

    ran = await moved(old, accounts, "with", Grant("", "configmaps", "delete", "change ownerReferences"))
    (report,) = ran.json["moves"]
    assert (ran.code, report["moved"], report["notMoved"]) == (0, {"owner-references": 1}, []), ran.err
    found = (await cluster.get(CONFIG_MAPS, name, "default")).json()
    (owner,) = found["metadata"]["ownerReferences"]
    assert (owner["apiVersion"], owner["blockOwnerDeletion"]) == (f"{old.group}/{NEW}", blocks)
