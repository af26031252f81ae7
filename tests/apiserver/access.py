"""Users with exactly the rights that a test gives them, and policies that refuse what a test says."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from restow.controlplane.plane import ControlPlane
from restow.controlplane.users import ClusterUser
from restow.kube.client import HttpCluster
from restow.kube.cluster import PatchType
from restow.kube.errors import Invalid
from restow.kube.resources import CRDS, SUBJECT_ACCESS_REVIEWS, Resource
from tests.apiserver.kind import Kind, until

_RBAC = "rbac.authorization.k8s.io"
_ADMISSION = "admissionregistration.k8s.io"


@dataclass(frozen=True)
class Right:
    """A row of RBAC: verbs on a resource (``plural/subresource``), perhaps on one name only."""

    group: str
    resource: str
    verbs: tuple[str, ...]
    name: str = ""

    def rule(self) -> dict[str, Any]:
        """As it stands in a Role."""
        rule = {"apiGroups": [self.group], "resources": [self.resource], "verbs": list(self.verbs)}
        return rule | ({"resourceNames": [self.name]} if self.name else {})

    def __str__(self) -> str:
        return f"{'+'.join(self.verbs)} {self.resource}"


def on_crd(kind: Kind, verb: str, *more: str, subresource: str = "") -> Right:
    """A right on the kind's CRD alone."""
    plural = f"{CRDS.plural}/{subresource}" if subresource else CRDS.plural
    return Right(CRDS.group, plural, (verb, *more), kind.name)


def on_objects(kind: Kind, *verbs: str) -> Right:
    """A right on the kind's objects."""
    return Right(kind.group, kind.plural, verbs)


class Access:
    """Makes users, and grants."""

    def __init__(self, plane: ControlPlane, cluster: HttpCluster) -> None:
        self._plane = plane
        self._cluster = cluster
        self._made: list[tuple[Resource, str, str | None]] = []

    async def user(
        self, name: str, *rights: Right, namespace: str | None = None, groups: tuple[str, ...] = ()
    ) -> ClusterUser:
        """A user with these rights and no other, everywhere or in one namespace; waits until they are in force."""
        user = self._plane.user(name, groups)
        if rights:
            await self.grant(user, *rights, namespace=namespace)
        return user

    async def grant(self, user: ClusterUser, *rights: Right, namespace: str | None = None) -> None:
        """Give a user more rights."""
        prefix = "" if namespace else "cluster"
        name = f"{user.name}-{len(self._made)}"
        reference = {"apiGroup": _RBAC, "kind": "Role" if namespace else "ClusterRole", "name": name}
        subjects = [{"apiGroup": _RBAC, "kind": "User", "name": user.name}]
        documents: dict[str, dict[str, Any]] = {
            f"{prefix}roles": {"rules": [right.rule() for right in rights]},
            f"{prefix}rolebindings": {"roleRef": reference, "subjects": subjects},
        }
        for plural, document in documents.items():
            resource = Resource(_RBAC, "v1", plural, namespaced=namespace is not None)
            body = json.dumps({"metadata": {"name": name}} | document).encode()
            await self._cluster.create(resource, body, namespace)
            self._made.append((resource, name, namespace))
        for right in rights:
            for verb in right.verbs:
                await until(lambda r=right, v=verb: self._allowed(user, r, v, namespace), f"{right} is not in force")

    async def _allowed(self, user: ClusterUser, right: Right, verb: str, namespace: str | None) -> bool:
        plural, _, subresource = right.resource.partition("/")
        asked = {"group": right.group, "resource": plural, "subresource": subresource, "verb": verb}
        attributes = asked | {"name": right.name, "namespace": namespace or ""}
        review = {"spec": {"user": user.name, "groups": ["system:authenticated"], "resourceAttributes": attributes}}
        answer = (await self._cluster.create(SUBJECT_ACCESS_REVIEWS, json.dumps(review).encode())).json()
        return bool(answer["status"]["allowed"])

    async def refuse_updates(self, kind: Kind, version: str, names: Sequence[str]) -> None:
        """Refuse every update of these objects in ``default`` by an admission policy; waits until it is in force."""
        rule = {"apiGroups": [kind.group], "apiVersions": ["*"], "operations": ["UPDATE"], "resources": [kind.plural]}
        expression = f"!(object.metadata.name in {json.dumps(list(names))})"
        await self.policy(f"{kind.plural}-{kind.group}", rule, expression, "it is frozen")
        await until(lambda: self._refused(kind.at(version), names[0]), "the policy is not in force")

    async def guard_crd(self, kind: Kind, *resources: str) -> None:
        """Refuse every update of a CRD, or of its ``status``, as the Gateway API guards its CRDs; waits for that."""
        plurals = [f"{CRDS.plural}/{each}".rstrip("/") for each in resources]
        rule = {"apiGroups": [CRDS.group], "apiVersions": ["*"], "operations": ["UPDATE"], "resources": plurals}
        name = f"guard-{kind.group}"
        await self.policy(name, rule, f"object.metadata.name != '{kind.name}'", "this CRD is guarded")
        status = resources[0] or None
        await until(lambda: self._refused(CRDS, kind.name, None, status), "the policy is not in force")

    async def policy(self, name: str, rule: dict[str, Any], expression: str, message: str) -> None:
        """Make an admission policy; others that it has to wait for know when it is in force."""
        documents = {
            "validatingadmissionpolicies": {
                "failurePolicy": "Fail",
                "matchConstraints": {"resourceRules": [rule]},
                "validations": [{"expression": expression, "message": message}],
            },
            "validatingadmissionpolicybindings": {"policyName": name, "validationActions": ["Deny"]},
        }
        for plural, spec in documents.items():
            resource = Resource(_ADMISSION, "v1", plural, namespaced=False)
            await self._cluster.create(resource, json.dumps({"metadata": {"name": name}, "spec": spec}).encode())
            self._made.append((resource, name, None))

    async def _refused(
        self, resource: Resource, name: str, namespace: str | None = "default", subresource: str | None = None
    ) -> bool:
        labelled, dry = b'{"metadata": {"labels": {"probe": "yes"}}}', {"dryRun": "All"}
        try:
            await self._cluster.patch(
                resource, name, labelled, namespace, patch_type=PatchType.MERGE, subresource=subresource, params=dry
            )
        except Invalid:
            return True
        return False

    async def remove(self) -> None:
        """Take back everything that was made."""
        while self._made:
            await self._cluster.delete(*self._made.pop())
