"""A migration whose exec plugin fails for a while: waiting finishes it, and nothing else does."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import yaml

from restow.controlplane.plane import ControlPlane
from restow.kube import connect
from restow.kube.client import HttpCluster
from restow.migrator import CrdReport, Migration, Options
from restow.migrator.model.callbacks import Moment
from restow.rbac import Grant, ServiceAccount
from tests.apiserver.accounts import Account, Accounts
from tests.apiserver.kind import Kind

PLUGIN = """#!{python}
import json, os
with open({runs!r}, "a") as file:
    file.write(".")
run = os.path.getsize({runs!r})
if 1 < run < 5:
    raise SystemExit("the vault is sealed")
status = {{"token": {token!r}, "expirationTimestamp": {ends!r}[min(run, 2) - 1]}}
print(json.dumps({{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": status}}))
"""


@pytest.fixture
async def accounts(control_plane: ControlPlane, cluster: HttpCluster, tmp_path: Path) -> AsyncIterator[Accounts]:
    """Makes accounts."""
    made = Accounts(control_plane, cluster, tmp_path)
    yield made
    await made.remove()


async def administrator(accounts: Accounts) -> Account:
    """A ServiceAccount that may do anything."""
    account = ServiceAccount("default", "vaulted")
    documents = [
        {"kind": "ServiceAccount", "metadata": {"name": account.name, "namespace": account.namespace}},
        {
            "kind": "ClusterRoleBinding",
            "metadata": {"name": "vaulted"},
            "roleRef": {"apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": "cluster-admin"},
            "subjects": [{"kind": "ServiceAccount", "name": account.name, "namespace": account.namespace}],
        },
    ]
    return await accounts.bound(documents, account, [Grant("", "nodes", "delete", "to see the binding in force")])


class Late:
    """Observes a run, and lets the token end once the writes begin."""

    def __init__(self) -> None:
        self.passed = timedelta()

    def at(self, moment: Moment, _report: CrdReport) -> None:
        """Take note."""
        if moment is Moment.WRITING:
            self.passed = timedelta(hours=1)

    def now(self) -> datetime:
        """The client's clock."""
        return datetime.now(UTC) + self.passed


async def test_a_run_outlives_a_plugin_that_fails_while_its_token_ends(
    kind: Kind, accounts: Accounts, tmp_path: Path
) -> None:
    """A vault that is sealed for a minute ended every object of the run, though waiting would have finished it."""
    await kind.populate(20)
    await kind.change(kind.document(storage="v1beta1"))
    admin = await administrator(accounts)
    document = yaml.safe_load(admin.kubeconfig.read_text())
    runs, begun = tmp_path / "runs", datetime.now(UTC)
    ends = [(begun + timedelta(hours=hours)).isoformat() for hours in (0.5, 5)]
    token = document["users"][0]["user"]["token"]
    plugin = tmp_path / "plugin"
    plugin.write_text(PLUGIN.format(python=sys.executable, runs=str(runs), token=token, ends=ends))
    plugin.chmod(0o700)
    exec_ = {"apiVersion": "client.authentication.k8s.io/v1", "command": str(plugin), "interactiveMode": "Never"}
    document["users"][0]["user"] = {"exec": exec_}
    config = tmp_path / "kubeconfig"
    config.write_text(json.dumps(document))
    late = Late()
    async with connect(config, now=late.now) as cluster:
        of_kind = await Migration(cluster, Options(settle_s=0), observer=late).migrate(kind.name)
    assert (of_kind.objects.failed, of_kind.pruned, of_kind.unfinished) == (0, True, "")
    assert of_kind.requests.retried > 0
    assert runs.stat().st_size == 5, "the plugin failed three times while the requests waited"
    assert {stored["apiVersion"] for stored in (await kind.stored()).values()} == {f"{kind.group}/v1beta1"}
