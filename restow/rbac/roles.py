"""Single rights, the rules that they make, and Roles with bindings as manifests; in YAML with the reasons above a rule.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from textwrap import indent
from typing import Any, Final, TypeVar

import yaml

_Key = TypeVar("_Key")


@dataclass(frozen=True, slots=True)
class Grant:
    """One verb on one resource.

    Attributes:
        group, resource: as in a rule; the resource includes its subresource (``deployments/status``), or is a
            non-resource path of the API server (``/metrics``).
        verb: the verb.
        why: the purpose of the right.
        name: the name of the object; any if empty. RBAC cannot restrict ``create`` by name, and ``list`` and ``watch``
            only if the client selects by ``metadata.name``, as restow does for CRDs.
        namespace: the namespace; None for all namespaces, and for cluster-scoped objects.
        optional: the effect of its absence; empty if the command fails without it.
    """

    group: str
    resource: str
    verb: str
    why: str
    name: str = ""
    namespace: str | None = None
    optional: str = ""

    @property
    def key(self) -> tuple[str, str, str, str, str | None]:
        """The granted verb and object, without the reason."""
        return self.group, self.resource, self.verb, self.name, self.namespace

    def covers(self, other: Grant) -> bool:
        """Whether this grant includes the other one."""
        return (
            (self.group, self.resource, self.verb) == (other.group, other.resource, other.verb)
            and self.name in ("", other.name)
            and self.namespace in (None, other.namespace)
        )


@dataclass(frozen=True, slots=True)
class PolicyRule:
    """A rule of a Role, with its reasons."""

    group: str
    resources: tuple[str, ...]
    verbs: tuple[str, ...]
    names: tuple[str, ...]
    why: tuple[str, ...]


def gather(grants: Iterable[Grant], namespace: str | None) -> list[PolicyRule]:
    """Return the rules for the grants of one namespace (None: of the cluster), in a compact form.

    One rule combines the verbs of an object that have the same reasons, and the objects or resources that have the same
    verbs.
    """
    every = list(grants)
    reasons: dict[Grant, list[str]] = {}
    for grant in every:
        if grant.namespace != namespace:
            continue
        widest = next(each for each in _widest_first(every) if each.covers(grant))
        if widest.namespace == namespace:
            said = reasons.setdefault(widest, [])
            reason = _reason(grant)
            if reason not in said:
                said.append(reason)
    verbs = _together(((each.group, each.resource, each.name, tuple(why)), each.verb) for each, why in reasons.items())
    names = _together(((group, resource, of, why), name) for (group, resource, name, why), of in verbs.items())
    resources = _together(((group, of, named, why), resource) for (group, resource, of, why), named in names.items())
    return [
        PolicyRule(group, alike, of, tuple(filter(None, named)), why)
        for (group, of, named, why), alike in resources.items()
    ]


def _together(pairs: Iterable[tuple[_Key, str]]) -> dict[_Key, tuple[str, ...]]:
    """Return the values of each key; keys and values are in the order of their first appearance."""
    found: dict[_Key, list[str]] = {}
    for key, value in pairs:
        found.setdefault(key, []).append(value)
    return {key: tuple(values) for key, values in found.items()}


def _widest_first(grants: Sequence[Grant]) -> Iterator[Grant]:
    return iter(sorted(grants, key=lambda each: (each.namespace is not None, bool(each.name))))


def _reason(grant: Grant) -> str:
    return f"{grant.why} (optional: {grant.optional})" if grant.optional else grant.why


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
