"""A read-only view over one node of a CRD's structural schema, in the API server's own terms.

Two parts of the API server read these schemas, and managedFields work needs the answers of both:
- the type converter of server-side apply (kube-openapi ``schemaconv``, structured-merge-diff) decides whether a value
  is one leaf or many, and which keys a list has: ``kind``, ``list_type``, ``list_keys``, ``map_type``;
- pruning (apiextensions ``schema/pruning``) decides which fields are kept: ``field``, ``items``, ``values``.

``below``, ``element`` and ``is_whole`` give the answers of the type converter in path elements
(``restow.crds.fieldpath``), for field sets.

Where the two differ, pruning decides whether a field exists (a dropped field is never owned), and the type converter
decides how it is owned. Junctors (``allOf``, ``anyOf``, ``oneOf``, ``not``) only validate and affect neither.

Invariants: the document is never copied and never mutated. A view is made on first use and then cached with its
answers, because all objects of a CRD share the same few nodes. Views compare by identity, their ``node`` by content.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property, lru_cache
from typing import Any, Final, Literal

from restow.crds.fieldpath import key_element, value_element

Kind = Literal["scalar", "list", "map", "any"]
ListType = Literal["atomic", "set", "map"]
MapType = Literal["granular", "atomic"]
Scalar = Literal["boolean", "number", "string"]

_KINDS: Final[Mapping[str, Kind]] = {
    "array": "list",
    "boolean": "scalar",
    "integer": "scalar",
    "number": "scalar",
    "object": "map",
    "string": "scalar",
}
_SCALARS: Final[Mapping[str, Scalar]] = {
    "boolean": "boolean",
    "integer": "number",
    "number": "number",
    "string": "string",
}
_TYPES: Final[Mapping[Scalar, frozenset[type]]] = {
    "boolean": frozenset({bool}),
    "number": frozenset({int, float}),
    "string": frozenset({str}),
}
_NO_SCALARS: Final[frozenset[Scalar]] = frozenset()


@dataclass(frozen=True, eq=False)
class Schema:
    """One schema node (JSONSchemaProps as decoded from JSON) and the context that its meaning depends on.

    ``node`` is the raw node, for keywords that this view does not cover (``enum``, ``format``, …).
    ``is_root`` marks the root of an object, whose apiVersion, kind and metadata are known whatever the node declares.
    ``unpruned`` marks the items of a list that preserves unknown fields: pruning passes that flag from a list to its
    items, but not from an object to its declared properties.
    ``legacy`` marks every node of a CRD with ``spec.preserveUnknownFields``: objects of it are never pruned, but owned
    by its list and map types like any others.
    """

    node: Mapping[str, Any]
    is_root: bool = False
    unpruned: bool = False
    legacy: bool = False

    @classmethod
    def root(cls, node: Mapping[str, Any] | None, *, legacy: bool = False) -> Schema:
        """Return the view of a version's ``openAPIV3Schema``; without one, the view accepts anything (``ANY``)."""
        return ANY if node is None else cls(node, is_root=True, legacy=legacy)

    @cached_property
    def kind(self) -> Kind:
        """The kind of value that this node admits; ``any`` where the node names no type (int-or-string is a scalar)."""
        if self.int_or_string:
            return "scalar"
        return _KINDS.get(self.node.get("type") or "", "any")

    @cached_property
    def admits_list(self) -> bool:
        """Whether the node admits a list."""
        return self.kind in ("list", "any")

    @cached_property
    def admits_map(self) -> bool:
        """Whether the node admits an object."""
        return self.kind in ("map", "any")

    @cached_property
    def admits_scalar(self) -> bool:
        """Whether the node admits a scalar."""
        return self.kind in ("scalar", "any")

    @cached_property
    def scalars(self) -> frozenset[Scalar]:
        """The types of scalars that the node admits; integers and numbers are one type to the type converter."""
        if self.int_or_string:
            return frozenset({"string", "number"})
        declared = _SCALARS.get(self.node.get("type") or "")
        return (
            frozenset({declared}) if declared else frozenset(_SCALARS.values()) if self.kind == "any" else _NO_SCALARS
        )

    @cached_property
    def plain_types(self) -> frozenset[type]:
        """The Python types, as decoded from JSON, of the scalars that the node admits; null is always admitted."""
        return frozenset({type(None)}).union(*(_TYPES[scalar] for scalar in self.scalars))

    @cached_property
    def list_type(self) -> ListType | None:
        """How a list here is owned: ``atomic`` as one leaf (the default), ``set`` or ``map`` item by item.

        None where the node admits no list.
        """
        if not self.admits_list:
            return None
        declared = self.node.get("x-kubernetes-list-type")
        return declared if declared in ("set", "map") else "atomic"

    @cached_property
    def list_keys(self) -> tuple[str, ...]:
        """The fields that identify an item of a ``map`` list, as declared (their order has no meaning)."""
        if self.list_type != "map":
            return ()
        return tuple(self.node.get("x-kubernetes-list-map-keys") or ())

    @cached_property
    def map_type(self) -> MapType | None:
        """How an object here is owned: ``granular`` field by field (the default) or ``atomic`` as one leaf.

        None where the node admits no object.
        """
        if not self.admits_map:
            return None
        return "atomic" if self.node.get("x-kubernetes-map-type") == "atomic" else "granular"

    @cached_property
    def preserves_unknown_fields(self) -> bool:
        """Whether undeclared fields of an object are kept."""
        return self.unpruned or self.legacy or self.node.get("x-kubernetes-preserve-unknown-fields") is True

    @property
    def embedded_resource(self) -> bool:
        """Whether the node describes a whole Kubernetes object with its own apiVersion, kind and metadata."""
        return self.node.get("x-kubernetes-embedded-resource") is True

    @cached_property
    def int_or_string(self) -> bool:
        """Whether the node admits an integer or a string."""
        return self.node.get("x-kubernetes-int-or-string") is True

    @cached_property
    def nullable(self) -> bool:
        """Whether null is a valid value; if not, the server drops a null or replaces it by the default."""
        return self.node.get("nullable") is True

    @property
    def has_default(self) -> bool:
        """Whether the node declares a default; as on the server, a null default counts as none."""
        return self.node.get("default") is not None

    @property
    def default(self) -> Any:
        """The declared default, or None. It is not a copy: never mutate it."""
        return self.node.get("default")

    @cached_property
    def required(self) -> frozenset[str]:
        """The fields that an object must have."""
        return frozenset(self.node.get("required") or ())

    @cached_property
    def items(self) -> Schema | None:
        """The schema of a list's items; None where the node declares none (their fields would be pruned)."""
        items = self.node.get("items")
        if isinstance(items, Mapping):
            return Schema(items, unpruned=self.preserves_unknown_fields, legacy=self.legacy)
        return ANY if self.preserves_unknown_fields else None

    @cached_property
    def values(self) -> Schema | None:
        """The schema of every field that no property declares; None where such fields are pruned."""
        additional = self.node.get("additionalProperties")
        if isinstance(additional, Mapping):
            return Schema(additional, legacy=self.legacy)
        if additional is not None and not self.legacy:
            return UNDESCRIBED
        return ANY if self.preserves_unknown_fields else None

    @cached_property
    def properties(self) -> Mapping[str, Schema]:
        """The declared fields by name, including apiVersion, kind and metadata where they are implicitly known."""
        nodes: Mapping[str, Mapping[str, Any]] = self.node.get("properties") or {}
        fields = {name: Schema(node, legacy=self.legacy) for name, node in nodes.items()}
        if self.is_root or self.embedded_resource:  # metadata loses its unknown fields in any CRD
            fields |= {name: Schema(node) for name, node in IMPLICIT_PROPERTIES.items()}
        return fields

    def is_declared(self, name: str) -> bool:
        """Return whether the field is one of ``properties``; otherwise it is a key of a map, or pruned."""
        return name in self.properties

    def field(self, name: str) -> Schema | None:
        """Return the schema of a field of this object; None if the server would prune it."""
        declared = self.properties.get(name)
        return self.values if declared is None else declared

    def below(self, element: str) -> Schema | None:
        """Return the schema of the field or the list item that a path element names; None if there is none."""
        if element.startswith("f:"):
            return self.field(element[2:])
        return self.items if self.admits_list else None

    def is_whole(self, value: Any = None) -> bool:
        """Return whether this value is owned as one; for a node of any type, the type of the value decides."""
        if self.kind == "list" or (self.kind == "any" and isinstance(value, list)):
            return self.list_type == "atomic"
        if self.kind == "map" or (self.kind == "any" and (value is None or isinstance(value, dict))):
            return self.map_type == "atomic"
        return True

    @cached_property
    def is_one(self) -> bool:
        """Whether every value of this node is owned as one, whatever its type."""
        if self.kind == "any":
            return False
        return self.kind == "scalar" or "atomic" in (self.list_type, self.map_type)

    def element(self, item: Any) -> str | None:
        """Return the path element of an item of this list, or None if the item lacks its keys."""
        if self.list_type == "set":
            return value_element(item)
        if not isinstance(item, dict):
            return None
        key = self._only_key
        if key and isinstance(value := item.get(key), str):
            return _element_of(key, value)
        named = {name: item.get(name, default) for name, default in self._key_defaults.items()}
        named = {name: value for name, value in named.items() if value is not None or name in item}
        return key_element(named) if named else None

    @cached_property
    def _only_key(self) -> str:
        return self.list_keys[0] if len(self.list_keys) == 1 else ""

    @cached_property
    def _key_defaults(self) -> Mapping[str, Any]:
        fields = {name: None if self.items is None else self.items.field(name) for name in self.list_keys}
        return {name: None if field is None else field.default for name, field in fields.items()}


@lru_cache(maxsize=1024)
def _element_of(key: str, value: str) -> str:
    """Return the path element of an item with one key; cached, since items of different objects often share names."""
    return key_element({key: value})


#: A schema that admits every value and keeps every field: below x-kubernetes-preserve-unknown-fields, or without a
#: schema. Objects are granular and lists atomic, as in the deduced type of structured-merge-diff.
ANY: Final = Schema({"x-kubernetes-preserve-unknown-fields": True})

#: The schema of a value under ``additionalProperties: true``: the value is kept, but fields of objects within it are
#: pruned.
UNDESCRIBED: Final = Schema({})


def schema_at(schema: Schema | None, names: Iterable[str]) -> Schema | None:
    """Return the schema of the field at the end of these names; None if there is none, or no schema at all."""
    for name in names:
        if schema is None:
            return None
        schema = schema.field(name)
    return schema


_STRING: Final = {"type": "string"}
_INTEGER: Final = {"type": "integer", "format": "int64"}
_BOOLEAN: Final = {"type": "boolean"}
_TIME: Final = {"type": "string", "format": "date-time"}
_STRING_MAP: Final = {"type": "object", "additionalProperties": _STRING}

_OWNER_REFERENCE: Final = {
    "type": "object",
    "x-kubernetes-map-type": "atomic",
    "required": ["apiVersion", "kind", "name", "uid"],
    "properties": {
        "apiVersion": _STRING,
        "blockOwnerDeletion": _BOOLEAN,
        "controller": _BOOLEAN,
        "kind": _STRING,
        "name": _STRING,
        "uid": _STRING,
    },
}

_MANAGED_FIELDS_ENTRY: Final = {
    "type": "object",
    "properties": {
        "apiVersion": _STRING,
        "fieldsType": _STRING,
        "fieldsV1": {"type": "object", "x-kubernetes-preserve-unknown-fields": True},
        "manager": _STRING,
        "operation": _STRING,
        "subresource": _STRING,
        "time": _TIME,
    },
}

_OBJECT_META: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "annotations": _STRING_MAP,
        "creationTimestamp": _TIME,
        "deletionGracePeriodSeconds": _INTEGER,
        "deletionTimestamp": _TIME,
        "finalizers": {"type": "array", "items": _STRING, "x-kubernetes-list-type": "set"},
        "generateName": _STRING,
        "generation": _INTEGER,
        "labels": _STRING_MAP,
        "managedFields": {
            "type": "array",
            "items": _MANAGED_FIELDS_ENTRY,
            "x-kubernetes-list-type": "atomic",
        },
        "name": _STRING,
        "namespace": _STRING,
        "ownerReferences": {
            "type": "array",
            "items": _OWNER_REFERENCE,
            "x-kubernetes-list-type": "map",
            "x-kubernetes-list-map-keys": ["uid"],
        },
        "resourceVersion": _STRING,
        "selfLink": _STRING,
        "uid": _STRING,
    },
}

IMPLICIT_PROPERTIES: Final[Mapping[str, Mapping[str, Any]]] = {
    "apiVersion": _STRING,
    "kind": _STRING,
    "metadata": _OBJECT_META,
}
"""The nodes that the API server adds to every CRD and no CRD declares, never to be mutated.

Every custom resource, and every ``x-kubernetes-embedded-resource`` inside one, has these fields. Their list types
decide who owns a finalizer or an owner reference in managedFields.
Source: ``io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta`` in the API server's published OpenAPI (1.36). The CRD type
converter uses it instead of a CRD's own ``metadata`` schema.
"""
