"""Find the references in an object's own fields, and say what becomes of each without the version.

The search follows the structure, not the text (``mentions``). The tables here decide by the place: a reference to an
object is followed at its version; what names a whole kind is watched or matched at that version; a status or a record
says what was. Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Final

from restow.kube.resources import Object, qualified_name
from restow.migrator.references.model import Effect, Reference, ReferenceKind, same_effect
from restow.migrator.references.readers.admission import (
    ADMISSION,
    EXPRESSION,
    HARMLESS,
    PARAMETERS,
    SPARES,
    rule_effect,
)
from restow.migrator.references.readers.inventories import TRACKED
from restow.migrator.references.readers.mentions import Mention, Spelling, Spellings, Steps, object_name, pointer_of

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
