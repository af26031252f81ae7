"""Find typed references: every ``{apiVersion, kind}`` pair below an object's own fields that names a version.

The search follows the structure, not the text. ``can_hold_references`` decides from a schema whether objects of a CRD
have to be read whole. Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from restow.kube.resources import Object
from restow.migrator.references.model import Effect, Reference, ReferenceKind
from restow.migrator.references.readers.ownerreferences import Owners

__all__ = ["SCALERS", "can_hold_references", "object_name", "pointer_of", "typed_pairs", "typed_references"]

_LEFT_OUT: Final = frozenset({"involvedObject", "regarding", "related"})
"""The fields for the subjects of Events, which are records that no client looks up."""

_OWN: Final = frozenset({"apiVersion", "kind", "metadata"})

_SHAPES: Final[Mapping[str, str]] = {
    "base": "a template of Crossplane",
    "bootstrapRef": "a reference of Cluster API",
    "claimRef": "a reference of Crossplane to its claim",
    "compositeTypeRef": "the kind that a Composition of Crossplane is for",
    "configRef": "a reference of Cluster API to its bootstrap configuration",
    "controlPlaneRef": "a reference of Cluster API to its control plane",
    "healthChecks": "a health check of Flux",
    "infrastructureRef": "a reference of Cluster API to its infrastructure",
    "machineTemplate": "a reference of Cluster API",
    "objectRef": "a reference to an object",
    "paramKind": "the kind of an admission policy's parameters",
    "ref": "a reference to an object",
    "resourceRef": "a reference of Crossplane",
    "resourceRefs": "a reference of Crossplane",
    "scaleTargetRef": "what an autoscaler scales",
    "sourceRef": "a reference to a source",
    "targetRef": "what a policy or an autoscaler is for",
    "template": "a template of an object",
    "templateRef": "a reference to a template",
    "workloadRef": "a reference to a workload",
}
"""Descriptions of places, by the name of the field."""

SCALERS: Final = "horizontalpodautoscalers.autoscaling"
"""The one built-in resource with typed references that are read."""

_REFERENCE: Final = Effect(
    unserved="Whoever looks the object up at this version gets no answer (404, no matches for kind).",
    removed="Whoever looks the object up at this version gets no answer (404, no matches for kind).",
    advice="write it at another version, in the place that the object is made from first (a chart, a repository, the "
    "controller that writes it)",
    movable=True,
)
_SCALER: Final = Effect(
    unserved="Nothing fails: the HorizontalPodAutoscaler's controller takes group and kind from the reference, and any "
    "served version.",
    removed="Nothing fails: the HorizontalPodAutoscaler's controller takes group and kind from the reference, and any "
    "served version.",
    advice="write it at another version, in the place that the autoscaler is made from first",
    against_unserving=False,
    against_removal=False,
    movable=True,
)
"""Source: ``reconcileAutoscaler`` of Kubernetes' ``podautoscaler``. Other autoscalers (KEDA) use the version too."""

_TEMPLATE: Final = Effect(
    unserved="What is made from this template is refused by the API server (no matches for kind).",
    removed="What is made from this template is refused by the API server (no matches for kind).",
    advice="convert the template in the place that it is made from, with restow convert",
)
"""An embedded object has the fields of its version, so a change of only the apiVersion would be wrong."""

_REFERENCE_FIELDS: Final = frozenset(
    {"apiVersion", "kind", "name", "namespace", "uid", "fieldPath", "resourceVersion", "group", "selector", "labels"}
)
"""The fields of references; a pair with further fields is an embedded object."""


def typed_references(resource: str, obj: Object, owners: Owners) -> Iterator[Reference]:
    """Yield the typed references of an object, without its own type and its ownerReferences."""
    namespace, name = object_name(obj)
    for steps, pair in typed_pairs({key: value for key, value in obj.items() if key not in _OWN}):
        if (of := owners.get((pair["apiVersion"], pair["kind"]))) is None:
            continue
        field = next((step for step in reversed(steps) if isinstance(step, str)), "")
        whole = not pair.keys() <= _REFERENCE_FIELDS
        shape = "a template of an object" if whole and field not in _SHAPES else _SHAPES.get(field, "")
        named = pair.get("name")
        detail = ", ".join(filter(None, [shape, f"names {named}" if isinstance(named, str) and named else ""]))
        effect = _TEMPLATE if whole else _SCALER if resource == SCALERS else _REFERENCE
        yield Reference(
            ReferenceKind.TYPED, of, resource, namespace, name, pointer_of(steps), detail or "a typed reference", effect
        )


def typed_pairs(root: Any) -> Iterator[tuple[tuple[str | int, ...], Mapping[str, Any]]]:
    """Yield (place, object) of each object below a value that has an apiVersion and a kind, both strings."""
    stack: list[tuple[tuple[str | int, ...], Any]] = [((), root)]
    while stack:
        steps, value = stack.pop()
        children: Iterable[tuple[str | int, Any]]
        if isinstance(value, dict):
            if isinstance(value.get("apiVersion"), str) and isinstance(value.get("kind"), str):
                yield steps, value
            children = ((key, child) for key, child in value.items() if key not in _LEFT_OUT)
        elif isinstance(value, list):
            children = enumerate(value)
        else:
            continue
        stack += [((*steps, key), child) for key, child in reversed(list(children)) if isinstance(child, (dict, list))]


def pointer_of(steps: Iterable[str | int]) -> str:
    """Return the JSON pointer (RFC 6901) of a place."""
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in steps)


def object_name(obj: Object) -> tuple[str, str]:
    """Return namespace and name of an object; empty if it has none."""
    metadata = obj.get("metadata")
    found = metadata if isinstance(metadata, dict) else {}
    return str(found.get("namespace") or ""), str(found.get("name") or "")


def can_hold_references(schema: Mapping[str, Any] | None) -> bool:
    """Return whether objects of this schema can have an ``{apiVersion, kind}`` pair below their own.

    If a CRD's schema declares every field and no such pair, the metadata of its objects is enough.
    """
    if schema is None:
        return True
    properties = schema.get("properties")
    stack: list[Any] = [
        child for name, child in (properties.items() if isinstance(properties, dict) else ()) if name not in _OWN
    ]
    if schema.get("x-kubernetes-preserve-unknown-fields"):
        return True
    while stack:
        node = stack.pop()
        if not isinstance(node, dict):
            continue
        if node.get("x-kubernetes-preserve-unknown-fields") or node.get("x-kubernetes-embedded-resource"):
            return True
        fields = node.get("properties")
        if isinstance(fields, dict):
            if "apiVersion" in fields and "kind" in fields:
                return True
            stack += fields.values()
        values = node.get("additionalProperties")
        if values is True:
            return True
        stack += [values, node.get("items")]
    return False
