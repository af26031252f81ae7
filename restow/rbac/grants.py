"""Single rights, and their grouping into rules. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

__all__ = ["Grant", "PolicyRule", "gather"]

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
