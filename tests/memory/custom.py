"""Custom resources in memory: how a CRD says that objects are read, written and stored.

An object is stored at the storage version. A read gives it the defaults of the version that it is stored at, names the
version that was asked for, and drops what that version does not declare. Conversion is that of strategy None.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

from restow.crds import Crd, Schema
from restow.crds.compare import pruned_paths
from restow.crds.ownedpaths import Members, owned
from tests.memory.ownership import CannotConvert, Document

__all__ = ["BUILT_IN", "BuiltIn", "Stored", "apply_merge_patch", "filled_in", "new_crd_status", "refusal", "served"]


def apply_merge_patch(before: Any, change: Any) -> Any:
    """RFC 7386, as it is written there."""
    if not isinstance(change, dict):
        return change
    merged = dict(before) if isinstance(before, dict) else {}
    for name, value in change.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = apply_merge_patch(merged.get(name), value)
    return merged


class Stored:
    """How objects of one CRD, as it is now, are stored."""

    def __init__(self, document: Document) -> None:
        self.crd = Crd.from_document(document)
        self._group = self.crd.group

    def schema(self, api_version: str) -> Schema:
        """The schema at a version.

        Raises:
            CannotConvert: the CRD has no such version.
        """
        group, _, name = api_version.rpartition("/")
        version = self.crd.version(name)
        if version is None or group != self._group:
            raise CannotConvert(f"request to convert CR to an invalid group/version: {api_version}")
        return version.schema

    def decode(self, stored: Document, version: str) -> Document:
        """An object as a read at a version shows it."""
        found = copy.deepcopy(stored)
        _default(found, self.schema(found["apiVersion"]))
        return self.convert(found, version)

    def convert(self, found: Document, version: str) -> Document:
        """An object at another version, without what that one does not declare."""
        made = found | {"apiVersion": f"{self._group}/{version}"}
        return _pruned(made, self.schema(made["apiVersion"]))

    def admit(self, sent: Document) -> Document:
        """An object that was sent, with defaults and without what its version does not declare."""
        made = _pruned(sent, self.schema(sent["apiVersion"]))
        _default(made, self.schema(made["apiVersion"]))
        return made

    def encode(self, found: Document) -> Document:
        """An object as it is stored from now on."""
        return self.convert(found, self.crd.storage.name)

    def members(self, api_version: str) -> Callable[[Document], Members]:
        """How the fields of an object are owned at a version; it refuses what that version does not declare."""
        schema = self.schema(api_version)

        def view(found: Document) -> Members:
            if undeclared := pruned_paths(found, schema):
                raise CannotConvert(f"failed to convert: {undeclared[0]}: field not declared in schema")
            content = {name: value for name, value in found.items() if name not in ("apiVersion", "kind")}
            return owned(content, schema)

        return view


class BuiltIn:
    """A built-in kind, whose lists are owned as a whole here."""

    def members(self, _api_version: str) -> Callable[[Document], Members]:
        """How the fields of an object are owned."""
        schema = Schema.root({"type": "object", "x-kubernetes-preserve-unknown-fields": True})
        return lambda found: owned(
            {name: value for name, value in found.items() if name not in ("apiVersion", "kind")}, schema
        )


BUILT_IN = BuiltIn()


def served(document: Document, version: str) -> bool:
    """Whether a CRD serves a version."""
    return any(each["name"] == version and each["served"] for each in document["spec"]["versions"])


def new_crd_status(document: Document) -> Document:
    """The status of a CRD that was just created and established."""
    storage = next(each["name"] for each in document["spec"]["versions"] if each["storage"])
    conditions = [
        {"type": kind, "status": "True", "reason": "Accepted", "message": "accepted"}
        for kind in ("NamesAccepted", "Established")
    ]
    return {"conditions": conditions, "storedVersions": [storage]}


def refusal(document: Document) -> str:
    """Say why a change of a CRD is refused, or nothing."""
    versions = document["spec"]["versions"]
    for index, name in enumerate(document["status"]["storedVersions"]):
        if name not in {each["name"] for each in versions}:
            return f'status.storedVersions[{index}]: Invalid value: "{name}": missing from spec.versions'
    return ""


def filled_in(value: Document, schema: Schema) -> Document:
    """Return an object with the defaults of its schema, filled in in place."""
    _default(value, schema)
    return value


def _default(value: Any, schema: Schema | None) -> None:
    """Fill in defaults, in place."""
    if schema is None:
        return
    if isinstance(value, dict):
        for name, below in schema.properties.items():
            if name not in value and below.has_default:
                value[name] = copy.deepcopy(below.default)
        for name, child in value.items():
            _default(child, schema.field(name))
    elif isinstance(value, list):
        for child in value:
            _default(child, schema.items)


def _pruned(value: Any, schema: Schema | None) -> Any:
    if isinstance(value, dict) and schema is not None:
        return {
            name: _pruned(child, below)
            for name, child in value.items()
            if (below := schema.field(name)) is not None or schema.preserves_unknown_fields
        }
    if isinstance(value, list) and schema is not None:
        return [_pruned(child, schema.items) for child in value]
    return copy.deepcopy(value)
