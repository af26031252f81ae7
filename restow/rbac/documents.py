"""Roles and their bindings as manifests; in YAML with the reason above each rule. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from textwrap import indent
from typing import Any, Final

import yaml

from restow.rbac.grants import Grant, PolicyRule, gather

__all__ = ["ServiceAccount", "manifests", "to_yaml"]

_GROUP: Final = "rbac.authorization.k8s.io"
_WHY: Final = "why"


@dataclass(frozen=True, slots=True)
class ServiceAccount:
    """The service account that gets the rights."""

    namespace: str
    name: str

    def manifest(self) -> dict[str, Any]:
        """Return the manifest of the account."""
        metadata = {"namespace": self.namespace, "name": self.name}
        return {"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}


def manifests(grants: Iterable[Grant], name: str, account: ServiceAccount | None = None) -> list[dict[str, Any]]:
    """Return a ClusterRole, and a Role for each namespace; with an account also the account and its bindings.

    Each rule has its reasons under the key ``why``, which ``to_yaml`` turns into a comment and ``plain`` removes.
    """
    every = tuple(grants)
    made: list[dict[str, Any]] = [] if account is None else [account.manifest()]
    for namespace in sorted({grant.namespace for grant in every}, key=lambda each: each or ""):
        rules = [_rule(rule) for rule in gather(every, namespace)]
        if not rules:
            continue
        metadata = {"name": name} if namespace is None else {"namespace": namespace, "name": name}
        kind = "ClusterRole" if namespace is None else "Role"
        head = {"apiVersion": f"{_GROUP}/v1", "kind": kind, "metadata": metadata}
        made.append(head | {"rules": rules})
        if account is not None:
            made.append(_binding(head, account))
    return made


def plain(documents: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return manifests without the reasons, as an API server accepts them."""
    return [
        {
            key: [{name: part for name, part in rule.items() if name != _WHY} for rule in value]
            if key == "rules"
            else value
            for key, value in document.items()
        }
        for document in documents
    ]


def to_yaml(documents: Sequence[Mapping[str, Any]]) -> str:
    """Return manifests as YAML, with the reasons of each rule as a comment above it."""
    return "---\n".join(map(_document, documents))


def _document(document: Mapping[str, Any]) -> str:
    head = {key: value for key, value in document.items() if key != "rules"}
    rules = "".join(_rule_yaml(rule) for rule in document.get("rules", ()))
    return _dump(head) + (f"rules:\n{rules}" if rules else "")


def _rule_yaml(rule: Mapping[str, Any]) -> str:
    comment = "".join(f"# {reason}\n" for reason in rule[_WHY])
    lines = "".join(
        f"{'- ' if number == 0 else '  '}{key}: {_dump(value, flow=True)}"
        for number, (key, value) in enumerate(each for each in rule.items() if each[0] != _WHY)
    )
    return indent(comment + lines, "  ")


def _dump(value: Any, *, flow: bool = False) -> str:
    return yaml.safe_dump(value, sort_keys=False, default_flow_style=flow, width=10_000)


def _rule(rule: PolicyRule) -> dict[str, Any]:
    if rule.resources[0].startswith("/"):
        return {_WHY: list(rule.why), "nonResourceURLs": list(rule.resources), "verbs": list(rule.verbs)}
    names = {"resourceNames": list(rule.names)} if rule.names else {}
    found = {"apiGroups": [rule.group], "resources": list(rule.resources), **names, "verbs": list(rule.verbs)}
    return {_WHY: list(rule.why), **found}


def _binding(role: Mapping[str, Any], account: ServiceAccount) -> dict[str, Any]:
    subject = {"kind": "ServiceAccount", "namespace": account.namespace, "name": account.name}
    return {
        "apiVersion": role["apiVersion"],
        "kind": f"{role['kind']}Binding",
        "metadata": role["metadata"],
        "roleRef": {"apiGroup": _GROUP, "kind": role["kind"], "name": role["metadata"]["name"]},
        "subjects": [subject],
    }
