"""Admission rules and APIServices that name a version.

A rule that names only one version stops matching without it, and the objects that it checked are silently admitted.
With ``matchPolicy: Exact`` it sees only requests at that version, and there are none once the version is unserved. With
``Equivalent`` the API server converts requests at other versions to the rule's version. It does so while the version is
unserved, but no longer once the version is removed (seen on 1.36, ``tests/apiserver/test_references.py``). Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

from restow.kube.resources import Object
from restow.migrator.references.model import Effect, Reference, ReferenceKind, SoughtVersion
from restow.migrator.references.readers.inventories import Versions
from restow.migrator.references.readers.typed import object_name, pointer_of

__all__ = ["ADMISSION"]

_STOPS: Final = Effect(
    unserved="Nothing changes: the API server still converts requests to the version of the rule.",
    removed="The rule matches no request any more: what it checked or changed is admitted as it is.",
    advice="add the other served versions to the rule, once what it calls understands them",
    against_unserving=False,
)
_EXACT: Final = Effect(
    unserved="The rule matches no request any more; already now, requests at other versions pass it by.",
    removed="The rule matches no request any more; already now, requests at other versions pass it by.",
    advice="set matchPolicy to Equivalent, or add the other served versions to the rule, once what it calls "
    "understands them",
    # After that, no request that it sees is left, and it does not see the others today: a wait would change nothing.
    against_unserving=False,
    against_removal=False,
)
_HARMLESS: Final = Effect(
    unserved="Nothing fails: the rule names another served version as well.",
    removed="Nothing fails: the rule names another served version as well.",
    advice="take the version out of the rule afterwards",
    against_unserving=False,
    against_removal=False,
)
_PARAMETERS: Final = Effect(
    unserved="The policy cannot read its parameters, and its failurePolicy applies to every request that it matches.",
    removed="The policy cannot read its parameters, and its failurePolicy applies to every request that it matches.",
    advice="write paramKind at another version; the expressions then see its fields",
)
_API_SERVICE: Final = Effect(
    unserved="The APIService stays, and discovery names a version that has no resources.",
    removed="The APIService stays, and discovery names a version that has no resources.",
    advice="delete the APIService together with the version",
    against_unserving=False,
    against_removal=False,
)
_AUTOMANAGED: Final = "kube-aggregator.kubernetes.io/automanaged"


def _webhooks(resource: str, obj: Object, versions: Versions) -> Iterator[Reference]:
    for index, webhook in enumerate(_list(obj, "webhooks")):
        said = f"webhook {webhook.get('name')}"
        rules = _list(webhook, "rules")
        yield from _rules(resource, obj, said, ("webhooks", index, "rules"), rules, webhook, versions)


def _policies(resource: str, obj: Object, versions: Versions) -> Iterator[Reference]:
    spec = _map(obj, "spec")
    constraints = _map(spec, "matchConstraints")
    place = ("spec", "matchConstraints", "resourceRules")
    yield from _rules(resource, obj, "policy", place, _list(constraints, "resourceRules"), constraints, versions)
    parameters = _map(spec, "paramKind")
    namespace, name = object_name(obj)
    for of in versions:
        if (parameters.get("apiVersion"), parameters.get("kind")) == (of.api_version, of.kind):
            where = pointer_of(("spec", "paramKind"))
            what = "the kind of the policy's parameters"
            yield Reference(ReferenceKind.ADMISSION, of, resource, namespace, name, where, what, _PARAMETERS)


def _bindings(resource: str, obj: Object, versions: Versions) -> Iterator[Reference]:
    matched = _map(_map(obj, "spec"), "matchResources")
    place = ("spec", "matchResources", "resourceRules")
    yield from _rules(resource, obj, "binding", place, _list(matched, "resourceRules"), matched, versions)


def _rules(
    resource: str,
    obj: Object,
    said: str,
    place: tuple[str | int, ...],
    rules: list[dict[str, Any]],
    about: Mapping[str, Any],
    versions: Versions,
) -> Iterator[Reference]:
    namespace, name = object_name(obj)
    policy = about.get("matchPolicy") or "Equivalent"  # the API's default
    for index, rule in enumerate(rules):
        for of in versions:
            named = _texts(rule, "apiVersions")
            if of.version not in named or not _covers(rule, of):
                continue
            goes_on = set(named) & {*of.others, "*"} or _another_covers(rules, of)
            effect = _HARMLESS if goes_on else _EXACT if policy == "Exact" else _STOPS
            where = pointer_of((*place, index, "apiVersions", named.index(of.version)))
            what = f"{said}, matchPolicy {policy}"
            yield Reference(ReferenceKind.ADMISSION, of, resource, namespace, name, where, what, effect)


def _covers(rule: Mapping[str, Any], of: SoughtVersion) -> bool:
    groups, resources = _texts(rule, "apiGroups"), _texts(rule, "resources")
    plurals = {each.partition("/")[0] for each in resources}
    return bool({of.group, "*"} & set(groups)) and bool({of.plural, "*"} & plurals)


def _another_covers(rules: list[dict[str, Any]], of: SoughtVersion) -> bool:
    """Return whether a rule of the same list matches another version of the kind."""
    return any(_covers(each, of) and {*of.others, "*"} & set(_texts(each, "apiVersions")) for each in rules)


def _api_services(resource: str, obj: Object, versions: Versions) -> Iterator[Reference]:
    spec, metadata = _map(obj, "spec"), _map(obj, "metadata")
    if _AUTOMANAGED in _map(metadata, "labels"):
        return  # the API server creates it for the CRD, and deletes it with the version
    for of in versions:
        if (spec.get("group"), spec.get("version")) == (of.group, of.version):
            _, name = object_name(obj)
            what = "an APIService that the API server did not make itself"
            yield Reference(ReferenceKind.API_SERVICES, of, resource, "", name, "/spec/version", what, _API_SERVICE)


AdmissionReader = Callable[[str, Object, Versions], Iterator[Reference]]

ADMISSION: Final[Mapping[str, AdmissionReader]] = {
    "validatingwebhookconfigurations.admissionregistration.k8s.io": _webhooks,
    "mutatingwebhookconfigurations.admissionregistration.k8s.io": _webhooks,
    "validatingadmissionpolicies.admissionregistration.k8s.io": _policies,
    "mutatingadmissionpolicies.admissionregistration.k8s.io": _policies,
    "validatingadmissionpolicybindings.admissionregistration.k8s.io": _bindings,
    "mutatingadmissionpolicybindings.admissionregistration.k8s.io": _bindings,
    "apiservices.apiregistration.k8s.io": _api_services,
}
"""The readers by resource."""


def _map(obj: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = obj.get(name)
    return found if isinstance(found, dict) else {}


def _list(obj: Mapping[str, Any], name: str) -> list[dict[str, Any]]:
    found = obj.get(name)
    return [each if isinstance(each, dict) else {} for each in found] if isinstance(found, list) else []


def _texts(obj: Mapping[str, Any], name: str) -> list[str]:
    found = obj.get(name)
    return [each for each in found if isinstance(each, str)] if isinstance(found, list) else []
