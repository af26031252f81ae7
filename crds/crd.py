"""A CustomResourceDefinition as an immutable view: versions, schemas, conversion, status.

A view is built from the decoded document of any apiextensions.k8s.io/v1 CRD, read from a server or from a file. The
document is neither copied nor mutated. A document that would mislead a migration (no storage version, two of them, a
version named twice) is refused here, so callers need no check.

``sort_versions`` is the order of API versions that discovery, kubectl's choice of a version and every list that restow
shows follow: the highest priority first.

Pure: a dict in, frozen data out.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final, Literal, NoReturn, cast

from restow.crds.schema import Schema
from restow.kube.resources import Resource

Strategy = Literal["None", "Webhook"]

_API_VERSION: Final = "apiextensions.k8s.io/v1"
_KIND: Final = "CustomResourceDefinition"


class CrdError(ValueError):
    """An error: a document is not a usable CustomResourceDefinition. The message says which one and why."""


@dataclass(frozen=True, slots=True)
class Condition:
    """One entry of a CRD's ``status.conditions``; ``status`` is None for Unknown."""

    status: bool | None
    reason: str
    message: str


@dataclass(frozen=True, slots=True, eq=False)
class Version:
    """One entry of a CRD's ``spec.versions``."""

    name: str
    api_version: str
    served: bool
    storage: bool
    deprecated: bool
    deprecation_warning: str | None
    has_status_subresource: bool
    has_scale: bool
    schema: Schema


@dataclass(frozen=True, slots=True, eq=False)
class Crd:
    """A CRD. ``versions`` keeps the document's order, ``served`` is sorted by version priority.

    ``generation`` is 0 and ``uid``, ``resource_version`` are empty for a document that was never on a server.
    ``webhook`` is the raw ``spec.conversion.webhook``, None with strategy None.
    """

    document: Mapping[str, Any]
    name: str
    uid: str
    generation: int
    resource_version: str
    annotations: Mapping[str, str]
    managed_fields: Sequence[Mapping[str, Any]]
    group: str
    kind: str
    list_kind: str
    plural: str
    singular: str
    short_names: tuple[str, ...]
    namespaced: bool
    versions: tuple[Version, ...]
    storage: Version
    served: tuple[str, ...]
    stored_versions: tuple[str, ...]
    strategy: Strategy
    webhook: Mapping[str, Any] | None
    conditions: Mapping[str, Condition]

    @classmethod
    def from_document(cls, doc: Mapping[str, Any]) -> Crd:
        """Read an apiextensions.k8s.io/v1 CRD.

        Raises:
            CrdError: the document is not a CRD, or a malformed one.
        """
        name = _checked_name(doc)
        metadata, spec, status = doc["metadata"], _section(doc, "spec", name), _optional(doc, "status", name)
        names = _section(spec, "names", name, "spec.")
        group, kind = _text(spec, "group", name, "spec."), _text(names, "kind", name, "spec.names.")
        plural = _text(names, "plural", name, "spec.names.")
        if name != f"{plural}.{group}":
            _refuse(name, f"must be named {plural}.{group}, after its plural and its group")
        conditions = _conditions(status)
        versions = _versions(spec, group, name, conditions.get("NonStructuralSchema"))
        strategy, webhook = _conversion(spec, name)
        return cls(
            document=doc,
            name=name,
            uid=metadata.get("uid") or "",
            generation=metadata.get("generation") or 0,
            resource_version=metadata.get("resourceVersion") or "",
            annotations=MappingProxyType(metadata.get("annotations") or {}),
            managed_fields=metadata.get("managedFields") or (),
            group=group,
            kind=kind,
            list_kind=names.get("listKind") or f"{kind}List",
            plural=plural,
            singular=names.get("singular") or kind.lower(),
            short_names=tuple(names.get("shortNames") or ()),
            namespaced=_namespaced(spec, name),
            versions=versions,
            storage=_storage_version(versions, name),
            served=sort_versions(version.name for version in versions if version.served),
            stored_versions=tuple(status.get("storedVersions") or ()),
            strategy=strategy,
            webhook=webhook,
            conditions=MappingProxyType(conditions),
        )

    def version(self, name: str) -> Version | None:
        """Return the version with this name, or None if the CRD has none."""
        return next((version for version in self.versions if version.name == name), None)

    def resource_at(self, version: str) -> Resource:
        """Return the resource of the CRD's objects, served at ``version``."""
        return Resource(self.group, version, self.plural, self.namespaced)

    @property
    def unknown_stored_versions(self) -> tuple[str, ...]:
        """Versions of status.storedVersions that are not in spec.versions.

        API servers refuse every change of such a CRD but that of its status, until it is pruned.
        """
        return tuple(name for name in self.stored_versions if self.version(name) is None)

    def named_by(self, key: str) -> tuple[str | None, str]:
        """Return the namespace and name of the object that has this key in etcd (``ApiError.unreadable``)."""
        *_, namespace, name = key.split("/")
        return (namespace if self.namespaced else None), name

    @property
    def fingerprint(self) -> tuple[tuple[str, bool, bool], ...]:
        """Return (name, served, storage) of every version, sorted by name.

        Two generations with equal fingerprints store and serve the same versions, even if a CA bundle, a schema or
        printer columns changed. The guard of a prune compares fingerprints.
        """
        return tuple(sorted((version.name, version.served, version.storage) for version in self.versions))

    @property
    def established(self) -> bool:
        """Whether the server serves the CRD's resources."""
        return self._is_true("Established")

    @property
    def names_accepted(self) -> bool:
        """Whether no other CRD uses one of the names."""
        return self._is_true("NamesAccepted")

    @property
    def terminating(self) -> bool:
        """Whether the CRD is being deleted, and all its objects with it."""
        return bool(self.document["metadata"].get("deletionTimestamp")) or self._is_true("Terminating")

    @property
    def storage_migrating(self) -> bool:
        """Whether the cluster's own StorageVersionMigration of this CRD is under way."""
        return self._is_true("StorageMigrating")

    def _is_true(self, condition: str) -> bool:
        found = self.conditions.get(condition)
        return found is not None and found.status is True


def _refuse(name: str, reason: str) -> NoReturn:
    message = f"CustomResourceDefinition {name} {reason}"
    raise CrdError(message)


def _checked_name(doc: Mapping[str, Any]) -> str:
    if not isinstance(doc, Mapping):
        message = f"a CustomResourceDefinition must be an object, not a {type(doc).__name__}"
        raise CrdError(message)
    if doc.get("apiVersion") != _API_VERSION or doc.get("kind") != _KIND:
        found = f"{doc.get('apiVersion')} {doc.get('kind')}"
        message = f"the document is not a CustomResourceDefinition of {_API_VERSION} but a {found}"
        raise CrdError(message)
    metadata = doc.get("metadata")
    name = metadata.get("name") if isinstance(metadata, Mapping) else None
    if not isinstance(name, str) or not name:
        message = "a CustomResourceDefinition has no metadata.name"
        raise CrdError(message)
    return name


def _section(parent: Mapping[str, Any], key: str, name: str, prefix: str = "") -> Mapping[str, Any]:
    section = parent.get(key)
    if not isinstance(section, Mapping):
        _refuse(name, f"has no {prefix}{key}")
    return section


def _optional(parent: Mapping[str, Any], key: str, name: str) -> Mapping[str, Any]:
    section = parent.get(key)
    if section is None:
        return {}
    if not isinstance(section, Mapping):
        _refuse(name, f"has a {key} that is not an object")
    return section


def _text(parent: Mapping[str, Any], key: str, name: str, prefix: str) -> str:
    text = parent.get(key)
    if not isinstance(text, str) or not text:
        _refuse(name, f"has no {prefix}{key}")
    return text


def _namespaced(spec: Mapping[str, Any], name: str) -> bool:
    scope = spec.get("scope")
    if scope not in ("Namespaced", "Cluster"):
        _refuse(name, f"has the scope {scope!r}, which is neither Namespaced nor Cluster")
    return bool(scope == "Namespaced")


def _conversion(spec: Mapping[str, Any], name: str) -> tuple[Strategy, Mapping[str, Any] | None]:
    conversion = _optional(spec, "conversion", name)
    strategy = conversion.get("strategy") or "None"
    if strategy not in ("None", "Webhook"):
        _refuse(name, f"has the conversion strategy {strategy!r}, which is neither None nor Webhook")
    webhook = conversion.get("webhook")
    if strategy == "Webhook" and not isinstance(webhook, Mapping):
        _refuse(name, "has the conversion strategy Webhook but no spec.conversion.webhook")
    return cast("Strategy", strategy), webhook if strategy == "Webhook" else None


def _versions(spec: Mapping[str, Any], group: str, name: str, nonstructural: Condition | None) -> tuple[Version, ...]:
    entries = spec.get("versions")
    if not isinstance(entries, Sequence) or isinstance(entries, str) or not entries:
        _refuse(name, "has no spec.versions")
    # apiextensions v1 allows this flag only on CRDs that came from v1beta1; the server never prunes their objects.
    legacy = spec.get("preserveUnknownFields") is True
    untyped = _nonstructural(nonstructural, len(entries)) if legacy and nonstructural else frozenset()
    versions = tuple(
        _version(entry, group, name, legacy=legacy, typed=place not in untyped) for place, entry in enumerate(entries)
    )
    names = [version.name for version in versions]
    twice = sort_versions({version for version in names if names.count(version) > 1})
    if twice:
        _refuse(name, f"lists the version {twice[0]} more than once")
    return versions


def _nonstructural(condition: Condition, count: int) -> frozenset[int]:
    """Return the places of the versions whose schemas are not structural; they give no type to the API server.

    The condition names the violations by their paths, or, with another reason, only the first schema that it cannot
    read. Source: apiextensions ``controller/nonstructuralschema``, and ``AllowNonStructural`` of its OpenAPI builder.
    """
    everywhere = condition.reason == "StructuralError"
    return frozenset(
        place for place in range(count) if everywhere or f"spec.versions[{place}].schema." in condition.message
    )


def _version(entry: object, group: str, name: str, *, legacy: bool, typed: bool) -> Version:
    if not isinstance(entry, Mapping):
        _refuse(name, "has an entry in spec.versions that is not an object")
    version = _text(entry, "name", name, "spec.versions[].")
    validation = _optional(entry, "schema", name)
    schema = _optional(validation, "openAPIV3Schema", name) or None
    subresources = _optional(entry, "subresources", name)
    return Version(
        name=version,
        api_version=f"{group}/{version}",
        served=entry.get("served") is True,
        storage=entry.get("storage") is True,
        deprecated=entry.get("deprecated") is True,
        deprecation_warning=entry.get("deprecationWarning"),
        has_status_subresource=subresources.get("status") is not None,
        has_scale=subresources.get("scale") is not None,
        schema=Schema.root(schema if typed else None, legacy=legacy),
    )


def _storage_version(versions: Sequence[Version], name: str) -> Version:
    storage = [version for version in versions if version.storage]
    if len(storage) != 1:
        found = ", ".join(version.name for version in storage) or "none"
        _refuse(name, f"must have exactly one version with storage: true, but has {found}")
    return storage[0]


def _conditions(status: Mapping[str, Any]) -> dict[str, Condition]:
    return {
        entry.get("type") or "": Condition(
            status={"True": True, "False": False}.get(entry.get("status", "")),
            reason=entry.get("reason") or "",
            message=entry.get("message") or "",
        )
        for entry in status.get("conditions") or ()
    }


_KUBE_VERSION = re.compile(r"v([0-9]+)(?:(alpha|beta)([0-9]+))?")
_STABILITY = {None: 0, "beta": 1, "alpha": 2}
_MAX_INT = 2**63 - 1  # the server parses into an int64; a larger number is no Kubernetes version


def version_priority(name: str) -> tuple[int, int, int, int, str]:
    """Return a sort key for an API version name: the smaller the key, the higher the priority.

    GA is before beta before alpha, then the higher major, then the higher minor version. Names that are not Kubernetes
    versions (``foo10``) come last, in plain string order. Source: "Version priority" in the Kubernetes documentation of
    CustomResourceDefinition versions, and apimachinery's ``version.CompareKubeAwareVersionStrings``.

    Keys of different names are never equal (``v1`` and ``v01`` differ in spelling), so sorting by
    them is a total order.
    """
    match = _KUBE_VERSION.fullmatch(name)
    if match is None:
        return (1, 0, 0, 0, name)
    major, stability, minor = int(match[1]), match[2], int(match[3] or 0)
    if major > _MAX_INT or minor > _MAX_INT:
        return (1, 0, 0, 0, name)
    return (0, _STABILITY[stability], -major, -minor, name)


def sort_versions(names: Iterable[str]) -> tuple[str, ...]:
    """Return the names sorted by priority, highest first; duplicates stay."""
    return tuple(sorted(names, key=version_priority))
