"""ServiceAccounts with exactly the RBAC of given manifests, and the API server's own record of what they did."""

from __future__ import annotations

import base64
import json
from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from restow.controlplane.plane import ControlPlane
from restow.kube.client import HttpCluster
from restow.kube.errors import Conflict, NotFound
from restow.kube.resources import NAMESPACES, SUBJECT_ACCESS_REVIEWS, Resource
from restow.rbac import Grant, ServiceAccount, manifests, plain
from tests.apiserver.kind import until

__all__ = ["Account", "Accounts", "audited_plane", "used"]

_RBAC = "rbac.authorization.k8s.io"
RESOURCES = {
    "ServiceAccount": Resource("", "v1", "serviceaccounts", namespaced=True),
    "Role": Resource(_RBAC, "v1", "roles", namespaced=True),
    "RoleBinding": Resource(_RBAC, "v1", "rolebindings", namespaced=True),
    "ClusterRole": Resource(_RBAC, "v1", "clusterroles", namespaced=False),
    "ClusterRoleBinding": Resource(_RBAC, "v1", "clusterrolebindings", namespaced=False),
}
_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata", "userGroups": ["system:serviceaccounts"]}, {"level": "None"}],
}


def audited_plane(folder: Path) -> tuple[ControlPlane, Path]:
    """A control plane, not started yet, and the file in which it records the requests of ServiceAccounts."""
    policy, log = folder / "audit-policy.yaml", folder / "audit.log"
    policy.write_text(yaml.safe_dump(_POLICY))
    flags = {"audit-policy-file": str(policy), "audit-log-path": str(log), "audit-log-mode": "blocking"}
    return ControlPlane(apiserver_args=flags), log


@dataclass
class Account:
    """A ServiceAccount and a kubeconfig with its token."""

    account: ServiceAccount
    kubeconfig: Path

    @property
    def user(self) -> str:
        """Its name as a user."""
        return f"system:serviceaccount:{self.account.namespace}:{self.account.name}"


@dataclass
class Accounts:
    """Makes accounts; takes back all that it made."""

    plane: ControlPlane
    cluster: HttpCluster
    folder: Path
    made: list[tuple[Resource, str, str | None]] = field(default_factory=list)

    async def granted(self, grants: Iterable[Grant], name: str, namespace: str = "default") -> Account:
        """An account with these rights and no other, by the manifests that ``restow rbac`` prints; waits for them."""
        account, every = ServiceAccount(namespace, name), tuple(grants)
        documents = plain(manifests(every, f"test-{name}", account))
        for grant in every:
            if grant.namespace is not None:
                await self.namespace(grant.namespace)
        return await self.bound(documents, account, every)

    async def bound(
        self, documents: Iterable[Mapping[str, Any]], account: ServiceAccount, grants: Iterable[Grant] = ()
    ) -> Account:
        """An account by any manifests of RBAC; waits until these grants are in force."""
        await self.namespace(account.namespace)
        for document in documents:
            await self._create(document)
        made = Account(account, self.folder / f"{account.name}.kubeconfig")
        await self.log_in(made)
        for grant in grants:
            await until(lambda right=grant: self.allowed(made, right), f"{grant} is not in force")
        return made

    async def allowed(self, account: Account, grant: Grant) -> bool:
        """Whether the API server says that it may."""
        plural, _, subresource = grant.resource.partition("/")
        attributes = {"group": grant.group, "resource": plural, "subresource": subresource, "verb": grant.verb}
        attributes |= {"name": grant.name, "namespace": grant.namespace or ""}
        groups = ["system:serviceaccounts", "system:authenticated"]
        about: dict[str, Any] = {"resourceAttributes": attributes}
        if grant.resource.startswith("/"):
            about = {"nonResourceAttributes": {"path": grant.resource, "verb": grant.verb}}
        review = {"spec": {"user": account.user, "groups": groups, **about}}
        return bool(
            (await self.cluster.create(SUBJECT_ACCESS_REVIEWS, json.dumps(review).encode())).json()["status"]["allowed"]
        )

    async def namespace(self, name: str) -> None:
        """Make sure that there is one."""
        try:
            await self.cluster.create(NAMESPACES, json.dumps({"metadata": {"name": name}}).encode())
        except Conflict:
            return

    async def remove(self) -> None:
        """Take back everything."""
        for resource, name, namespace in reversed(self.made):
            try:
                await self.cluster.delete(resource, name, namespace)
            except NotFound:
                continue

    async def _create(self, document: Mapping[str, Any]) -> None:
        resource, metadata = RESOURCES[document["kind"]], document["metadata"]
        namespace = metadata.get("namespace") if resource.namespaced else None
        await self.cluster.create(resource, json.dumps(document).encode(), namespace)
        self.made.append((resource, metadata["name"], namespace))

    async def log_in(self, made: Account) -> None:
        """Write its kubeconfig, with a token as a pod would have one."""
        account = made.account
        token = Resource("", "v1", f"serviceaccounts/{account.name}/token", namespaced=True)
        request = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {}}
        answer = (await self.cluster.create(token, json.dumps(request).encode(), account.namespace)).json()
        ca = base64.b64encode(self.plane.ca_file.read_bytes()).decode()
        document = {
            "apiVersion": "v1",
            "kind": "Config",
            "current-context": "pod",
            "contexts": [{"name": "pod", "context": {"cluster": "pod", "user": "pod", "namespace": account.namespace}}],
            "clusters": [{"name": "pod", "cluster": {"server": self.plane.server, "certificate-authority-data": ca}}],
            "users": [{"name": "pod", "user": {"token": answer["status"]["token"]}}],
        }
        made.kubeconfig.write_text(yaml.safe_dump(document))


def used(log: Path, account: Account, grants: Collection[Grant]) -> tuple[set[Grant], list[str]]:
    """The grants that requests of an account needed, and those of its requests that were refused.

    A request that one grant alone allows shows that it is needed; a request that several allow shows that of all.
    """
    needed: set[Grant] = set()
    refused: list[str] = []
    for line in log.read_text().splitlines():
        event = json.loads(line)
        if event["user"]["username"] != account.user or "objectRef" not in event:
            continue
        asked = _asked(event)
        if event.get("responseStatus", {}).get("code") == 403:
            refused.append(f"{asked.verb} {asked.resource} {asked.namespace or ''}/{asked.name}")
        needed |= {grant for grant in grants if grant.covers(asked)}
    return needed, refused


def _asked(event: Mapping[str, Any]) -> Grant:
    to = event["objectRef"]
    resource = "/".join(filter(None, (to["resource"], to.get("subresource"))))
    group, name, namespace = to.get("apiGroup", ""), to.get("name", ""), to.get("namespace")
    return Grant(group, resource, event["verb"], "", name, namespace)
