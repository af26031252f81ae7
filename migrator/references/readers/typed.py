"""Find the references in an object's own fields and rules, and say what the removal of the version does to each.

The search follows the structure, not the text (``mentions``). The tables here decide by the place: a reference to an
object is followed at its version; what names a whole kind is watched or matched at that version; a status or a record
says what was.

A rule, of admission or of a policy engine, that names only one version stops matching without it, and the objects that
it checked are silently admitted. With ``matchPolicy: Exact`` it sees only requests at that version, and there are none
once the version is unserved. With ``Equivalent`` the API server converts requests at other versions to the rule's
version. It does so while the version is unserved, but no longer once the version is removed. For an exclusion
(``excludeResourceRules``) this means the reverse: the policy then applies to every request that it spared (both seen on
1.37, ``tests/apiserver/test_references.py``). A custom resource without ``matchPolicy`` is matched by its own
controller, which may not convert. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from restow.kube.resources import Object, qualified_name
from restow.migrator.references.readers.inventories import TRACKED, Versions
from restow.migrator.references.readers.mentions import (
    Mention,
    Spelling,
    Spellings,
    Steps,
    mapping,
    object_name,
    pointer_of,
    texts_at,
)
from restow.migrator.references.reference import Effect, Reference, ReferenceKind, SoughtVersion, same_effect

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
    spec, metadata = mapping(obj.get("spec")), mapping(obj.get("metadata"))
    if _AUTOMANAGED in mapping(metadata.get("labels")):
        return  # the API server creates it for the CRD, and deletes it with the version
    for of in versions:
        if (spec.get("group"), spec.get("version")) == (of.group, of.version):
            _, name = object_name(obj)
            what = "an APIService that the API server did not make itself"
            yield Reference(ReferenceKind.API_SERVICES, of, resource, "", name, "/spec/version", what, _API_SERVICE)


_OWN: Final = frozenset({"apiVersion", "kind", "metadata"})

_SHAPES: Final[Mapping[str, str]] = {
    "applyTo": "what a mutation of Gatekeeper applies to",
    "base": "a template of Crossplane",
    "bootstrapRef": "a reference of Cluster API",
    "childResources": "what a controller of Metacontroller makes",
    "claimRef": "a reference of Crossplane to its claim",
    "compositeTypeRef": "the kind that a Composition of Crossplane is for",
    "configRef": "a reference of Cluster API to its bootstrap configuration",
    "controlPlaneRef": "a reference of Cluster API to its control plane",
    "gvks": "what Gatekeeper replicates",
    "healthChecks": "a health check of Flux",
    "infrastructureRef": "a reference of Cluster API to its infrastructure",
    "kinds": "what a rule of Kyverno matches",
    "machineTemplate": "a reference of Cluster API",
    "paramKind": "the kind of an admission policy's parameters",
    "parentResource": "what a controller of Metacontroller is for",
    "resourceRef": "a reference of Crossplane",
    "resourceRefs": "a reference of Crossplane",
    "scaleTargetRef": "what an autoscaler scales",
    "syncOnly": "what Gatekeeper replicates",
    "targetRef": "what a policy or an autoscaler is for",
    "template": "a template of an object",
}
"""Descriptions of places, by the name of the field."""


_REFERENCE: Final = same_effect(
    "Whoever looks the object up at this version gets no answer (404, no matches for kind).",
    "write it at another version, in the place that the object is made from first (a chart, a repository, the "
    "controller that writes it)",
    movable=True,
)
_TEMPLATE: Final = same_effect(
    "What is made from this template is refused by the API server (no matches for kind).",
    "convert the template in the place that it is made from, with restow convert",
)
"""An embedded object has the fields of its version, so a change of only the apiVersion would be wrong."""

_KIND: Final = same_effect(
    "Whoever watches or matches the kind at this version finds nothing: a controller stops, and a rule does not apply "
    "any more, mostly without an error.",
    "write another version, once whoever follows this reference understands the fields of that version",
    movable=True,
    same_fields=True,
)
_RECORD: Final = same_effect(
    "Nothing fails: it is a record, and its controller writes it.",
    "nothing; the controller writes the record again once the objects that it works for name another version",
    stands=False,
)
_PATCH: Final = same_effect(
    "The patch finds its target as long as the manifest is at this version as well.",
    "change it together with the manifest that it patches",
    stands=False,
)

BUILT_IN: Final[Mapping[str, Effect]] = {
    # Source: reconcileAutoscaler of Kubernetes' podautoscaler. Other autoscalers (KEDA) use the version too.
    "horizontalpodautoscalers.autoscaling": same_effect(
        "Nothing fails: the HorizontalPodAutoscaler's controller takes group and kind from the reference, and any "
        "served version.",
        "write it at another version, in the place that the autoscaler is made from first",
        movable=True,
        stands=False,
    ),
    "endpointslices.discovery.k8s.io": same_effect(
        "Nothing fails: the reference says where an address comes from, and Kubernetes does not follow it.",
        "have the controller that writes the EndpointSlice name another version",
        movable=True,
        stands=False,
    ),
    # Such as KubeVirt, for its instance types.
    "controllerrevisions.apps": same_effect(
        "Nothing fails in the API server: the controller that wrote the revision decodes the object in it by itself.",
        "use a release of that controller that still reads this version, or has written its revisions again",
        stands=False,
    ),
    **dict.fromkeys(
        ("deviceclasses.resource.k8s.io", "resourceclaims.resource.k8s.io", "resourceclaimtemplates.resource.k8s.io"),
        same_effect(
            "Nothing fails in the API server: the driver decodes its parameters by itself.",
            "use a release of the driver that still reads this version, and write another one in new claims",
            stands=False,
        ),
    ),
}
"""The built-in resources, besides those of admission, whose fields can name a version."""

_RECORDS: Final = frozenset(
    {
        "storageversionmigrations.migration.k8s.io",
        *(f"{scope}policyreports.wgpolicyk8s.io" for scope in ("", "cluster")),
        *(f"{scope}reports.openreports.io" for scope in ("", "cluster")),
        *(f"{scope}ephemeralreports.reports.kyverno.io" for scope in ("", "cluster")),
    }
)
"""The custom resources that record what was done or found at a version."""

_REFERENCE_FIELDS: Final = frozenset(
    {"apiVersion", "kind", "name", "namespace", "uid", "fieldPath", "resourceVersion", "group", "selector", "labels"}
)
"""The fields of references; an ``{apiVersion, kind}`` with further fields is an embedded object."""


def typed_references(resource: str, obj: Object, spellings: Spellings) -> Iterator[Reference]:
    """Yield the references in the fields of an object, without its own type and its ownerReferences."""
    namespace, name = object_name(obj)
    fields = {key: value for key, value in obj.items() if key not in _OWN}
    for each in spellings.mentions(fields):
        if (judged := _judged(resource, fields, each)) is None:
            continue
        kind, effect, detail = judged
        where = each.steps if each.spelling is Spelling.TYPE else each.text
        yield Reference(
            kind,
            each.of,
            resource,
            namespace,
            name,
            pointer_of(where),
            detail,
            effect,
            guess=each.spelling is Spelling.EXPRESSION and resource not in ADMISSION,
            field=pointer_of(each.text),
            template=each.template,
        )


def _judged(resource: str, fields: Object, each: Mention) -> tuple[ReferenceKind, Effect, str] | None:
    """Return the kind of a reference, the effect on it, and what it is; None if nothing follows from it."""
    if (tracked := TRACKED.get((resource, each.steps[:-1]))) is not None:
        said, effect = tracked
        named = qualified_name(each.holder.get("namespace"), each.holder.get("name"))
        return ReferenceKind.ARGO_CD, effect, f"{said} {each.of.kind} {named}"
    if each.spelling is Spelling.RULE:
        if (judged := rule_effect(resource, fields, each)) is None:
            return None
        return ReferenceKind.ADMISSION, *judged
    if each.spelling is Spelling.EXPRESSION:
        return ReferenceKind.ADMISSION, HARMLESS if each.goes_on else EXPRESSION, "an expression"
    if resource in ADMISSION:
        return ReferenceKind.ADMISSION, PARAMETERS, "the kind of the policy's parameters"
    return ReferenceKind.TYPED, _effect(resource, each), _detail(each)


def _effect(resource: str, each: Mention) -> Effect:
    if (built_in := BUILT_IN.get(resource)) is not None:
        return built_in
    if resource in _RECORDS:
        return _RECORD
    if each.spelling is Spelling.TYPE:
        return _TEMPLATE if _is_template(each) else _REFERENCE
    if "patches" in each.steps and each.steps[-1:] == ("target",):
        return _PATCH
    if "name" in each.holder:
        return _REFERENCE
    if each.steps[:1] == ("status",):
        return _RECORD
    if each.goes_on:
        return HARMLESS
    if any(str(step).startswith("exclude") for step in each.steps):
        return SPARES
    return _KIND if each.template else replace(_KIND, movable=False, same_fields=False)


def _detail(each: Mention) -> str:
    field = _field(each.steps)
    shape = "a template of an object" if _is_template(each) and field not in _SHAPES else _SHAPES.get(field, "")
    if not shape and each.spelling is not Spelling.TYPE:
        shape = f"named as {each.spelling.value}"
    named = each.holder.get("name")
    parts = [shape, f"names {named}" if isinstance(named, str) and named else ""]
    return ", ".join(filter(None, parts)) or "a typed reference"


def _is_template(each: Mention) -> bool:
    return each.spelling is Spelling.TYPE and not each.holder.keys() <= _REFERENCE_FIELDS


def _field(steps: Steps) -> str:
    return next((step for step in reversed(steps) if isinstance(step, str)), "")
