"""Rules, expressions and APIServices that name a version: of admission, and in the custom resources of policy engines.

A rule that names only one version stops matching without it, and the objects that it checked are silently admitted.
With ``matchPolicy: Exact`` it sees only requests at that version, and there are none once the version is unserved. With
``Equivalent`` the API server converts requests at other versions to the rule's version. It does so while the version is
unserved, but no longer once the version is removed. For an exclusion (``excludeResourceRules``) this means the reverse:
the policy then applies to every request that it spared (both seen on 1.37, ``tests/apiserver/test_references.py``).
A custom resource without ``matchPolicy`` is matched by its own controller, which may not convert. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from restow.kube.resources import Object
from restow.migrator.references.model import Effect, Reference, ReferenceKind, SoughtVersion, same_effect
from restow.migrator.references.readers.inventories import Versions
from restow.migrator.references.readers.mentions import Mention, Steps, object_name, texts_at

ADMISSION: Final = frozenset(
    f"{plural}.admissionregistration.k8s.io"
    for plural in (
        "validatingwebhookconfigurations",
        "mutatingwebhookconfigurations",
        "validatingadmissionpolicies",
        "mutatingadmissionpolicies",
        "validatingadmissionpolicybindings",
        "mutatingadmissionpolicybindings",
    )
)
"""The resources whose rules the API server itself matches."""

API_SERVICES: Final = "apiservices.apiregistration.k8s.io"

_STOPS: Final = Effect(
    unserved="Nothing changes: the API server still converts requests to the version of the rule.",
    removed="The rule matches no request any more: what it checked or changed is admitted as it is.",
    advice="add the other served versions to the rule, once what it calls understands them",
    against_unserving=False,
)
_EXACT: Final = same_effect(
    # After that, no request that it sees is left, and it does not see the others today: a wait would change nothing.
    "The rule matches no request any more; already now, requests at other versions pass it by.",
    "set matchPolicy to Equivalent, or add the other served versions to the rule, once what it calls understands them",
    stands=False,
)
_CUSTOM: Final = same_effect(
    "The rule matches nothing any more: what it checked, changed or copied passes it by.",
    _STOPS.advice,
)
_SPARES_EQUIVALENT: Final = Effect(
    unserved="Nothing changes: the API server still converts requests to the version of the exclusion.",
    removed="The exclusion matches no request any more: the policy applies to every request that it spared, and what "
    "it does not allow is refused (422).",
    advice="add the other served versions to the exclusion, or take it out if the policy is meant to apply",
    against_unserving=False,
)
_SPARES_EXACT: Final = same_effect(
    "The exclusion matches no request any more; already now, the policy applies to requests at other versions.",
    "add the other served versions to the exclusion if the policy is to spare the same clients afterwards",
    stands=False,
)
SPARES: Final = same_effect(
    "The exclusion matches nothing any more: the rule applies to what it spared.",
    _SPARES_EQUIVALENT.advice,
)
HARMLESS: Final = same_effect(
    "Nothing fails: the rule names another served version as well.",
    "take the version out of the rule afterwards",
    stands=False,
)
EXPRESSION: Final = same_effect(
    "What is compared with this version, or looked up at it, is not found: a rule can stop applying, or refuse every "
    "request.",
    "name the other served versions as well, or leave the version out",
)
PARAMETERS: Final = same_effect(
    "The policy cannot read its parameters, and its failurePolicy applies to every request that it matches.",
    "write paramKind at another version; the expressions then see its fields",
)
_API_SERVICE: Final = same_effect(
    "The APIService stays, and discovery names a version that has no resources.",
    "delete the APIService together with the version",
    stands=False,
)
_AUTOMANAGED: Final = "kube-aggregator.kubernetes.io/automanaged"


def rule_effect(resource: str, root: Object, mention: Mention) -> tuple[Effect, str] | None:
    """Return the effect on a rule that names a version, and what it is; None for an exclusion from rules of others.

    Args:
        resource: the resource of the object.
        root: the object, or its own fields, that ``mention`` was found in.
        mention: a place that names the version as a rule does.
    """
    found, about = _at(root, mention.steps[:-1]), _at(root, mention.steps[:-2])
    rules = found if isinstance(found, list) else [mention.holder]
    about = about if isinstance(about, dict) else {}
    policy = about.get("matchPolicy") or ("Equivalent" if resource in ADMISSION else None)  # the API's default
    spares = any(str(step).startswith("exclude") for step in mention.steps)
    matched = about.get("resourceRules")
    if spares and isinstance(matched, list) and matched and not _another_covers(matched, mention.of):
        return None
    name = about.get("name")
    what = f"{'exclusion' if spares else 'rule'}{f' of {name}' if isinstance(name, str) else ''}"
    detail = f"{what}, matchPolicy {policy}" if policy else what
    if _another_covers(rules, mention.of):
        return HARMLESS, detail
    if spares:
        return {"Exact": _SPARES_EXACT, "Equivalent": _SPARES_EQUIVALENT}.get(str(policy), SPARES), detail
    return {"Exact": _EXACT, "Equivalent": _STOPS}.get(str(policy), _CUSTOM), detail


def _at(value: Any, steps: Steps) -> Any:
    for step in steps:
        value = value[step]
    return value


def _another_covers(rules: list[Any], of: SoughtVersion) -> bool:
    """Return whether a rule of the list matches another served version of the kind."""
    others = {*of.others, *(f"{of.group}/{other}" for other in of.others), "*"}
    return any(_covers(each, of) and others & _texts(each, "version") for each in rules if isinstance(each, dict))


def _covers(rule: Mapping[str, Any], of: SoughtVersion) -> bool:
    types = {text.partition("/")[0] for text in _texts(rule, "resource") | _texts(rule, "kind")}
    return bool({of.group, "*"} & _texts(rule, "group")) and bool({*of.types, "*"} & types)


def _texts(rule: Mapping[str, Any], field: str) -> set[str]:
    """Return the texts of a field by any of its names: ``groups``, ``apiGroup``, ``apiGroups``."""
    names = (field, f"{field}s", f"api{field.title()}", f"api{field.title()}s")
    return {text for name in names for _, text in texts_at(rule, name)}


def api_services(resource: str, obj: Object, versions: Versions) -> Iterator[Reference]:
    """Yield the versions that an APIService names, unless the API server made it."""
    spec, metadata = _map(obj, "spec"), _map(obj, "metadata")
    if _AUTOMANAGED in _map(metadata, "labels"):
        return  # the API server creates it for the CRD, and deletes it with the version
    for of in versions:
        if (spec.get("group"), spec.get("version")) == (of.group, of.version):
            _, name = object_name(obj)
            what = "an APIService that the API server did not make itself"
            yield Reference(ReferenceKind.API_SERVICES, of, resource, "", name, "/spec/version", what, _API_SERVICE)


def _map(obj: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    found = obj.get(name)
    return found if isinstance(found, dict) else {}
