"""CloudProfiles and NamespacedCloudProfiles as a whole: every section, updates, and rendered profiles. Pure.

The sections without a module of their own are here: metadata, regions, capabilities, limits, the seed selector and
the CA bundle.
"""

from __future__ import annotations

import ssl
from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime

from restow.cloudprofile.capabilities import ARCHITECTURE, ARCHITECTURES, definitions_of
from restow.cloudprofile.findings import (
    Remark,
    ValidationFinding,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from restow.cloudprofile.objects import (
    CLOUD_PROFILE,
    Object,
    VersionKey,
    kubernetes_versions,
    machine_images,
    spec_of,
)
from restow.cloudprofile.validation.formats import label_key_fault, label_value_fault, part_name_fault, subdomain_fault
from restow.cloudprofile.validation.machines import (
    bastion,
    complete_images,
    complete_machine_types,
    images_in,
    machine_types_in,
    volume_types_in,
)
from restow.cloudprofile.validation.versions import (
    kubernetes,
    kubernetes_versions_in,
    supported_once,
    turned_unavailable,
)

_SECTIONS = {
    "type": "must provide a provider type",
    "machineImages": "must provide at least one machine image",
    "machineTypes": "must provide at least one machine type",
    "regions": "must provide at least one region",
}


def missing_sections(spec: Object, path: str = "spec") -> Iterator[ValidationFinding]:
    """Yield the sections that a CloudProfile lacks and without which no Shoot can use it.

    Gardener refuses such a profile; GEP-32's examples are of this kind.
    """
    for section, sentence in _SECTIONS.items():
        if not spec.get(section):
            yield required(f"{path}.{section}", sentence)


def validate(
    profile: Object, old: Object | None, now: datetime, *, unclassified: Collection[VersionKey] = ()
) -> Iterator[Remark]:
    """Validate a CloudProfile by itself, including ``missing_sections``, and against the one that it replaces.

    ``old`` is None if the profile is created. ``unclassified`` are the versions whose stage ``supported`` their author
    did not write.
    """
    spec, before = spec_of(profile), spec_of(old or {})
    definitions = definitions_of(spec)
    yield from _metadata(profile, namespaced=False)
    yield from missing_sections(spec)
    yield from _machine_capabilities(spec.get("machineCapabilities") or (), "spec.machineCapabilities")
    yield from kubernetes(kubernetes_versions(spec), "spec.kubernetes.versions", now)
    yield from complete_images(machine_images(spec), definitions, "spec.machineImages")
    yield from complete_machine_types(spec.get("machineTypes") or (), definitions, "spec.machineTypes")
    yield from volume_types_in(spec.get("volumeTypes") or (), "spec.volumeTypes")
    yield from _regions(spec.get("regions") or (), "spec.regions")
    yield from bastion(spec, "spec.bastion", now, created=old is None)
    yield from _limits(spec.get("limits"), "spec.limits")
    yield from _label_selector(spec.get("seedSelector"), "spec.seedSelector")
    yield from _ca_bundle(spec.get("caBundle"), "spec.caBundle")
    yield from supported_once(spec, "spec", now, before=before, unclassified=unclassified)
    yield from _limits_not_lowered(spec.get("limits"), before.get("limits"), "spec.limits")
    yield from turned_unavailable(spec, before, "spec", now)


_RENDERED = "status.cloudProfileSpec"


def validate_namespaced(profile: Object, old: Object | None) -> Iterator[ValidationFinding]:
    """Validate a NamespacedCloudProfile by itself and against the one that it replaces, None if it is created.

    Apart from the parent, no part of it has to be complete.
    """
    spec = spec_of(profile)
    parent = spec_of(old or {}).get("parent")
    if parent and spec.get("parent") != parent:
        yield invalid("spec.parent", "field is immutable")
    yield from _metadata(profile, namespaced=True)
    yield from _parent(spec.get("parent") or {}, "spec.parent")
    versions = kubernetes_versions(spec)
    for index, version in enumerate(versions):
        if version.get("classification") is not None:
            yield forbidden(
                f"spec.kubernetes.versions[{index}].classification",
                "must not provide a classification to a Kubernetes version in NamespacedCloudProfile",
            )
    yield from kubernetes_versions_in(versions, "spec.kubernetes.versions")
    yield from images_in(machine_images(spec), {}, "spec.machineImages")
    yield from volume_types_in(spec.get("volumeTypes") or (), "spec.volumeTypes")
    yield from machine_types_in(spec.get("machineTypes") or (), {}, "spec.machineTypes")
    yield from _ca_bundle(spec.get("caBundle"), "spec.caBundle")
    yield from _limits(spec.get("limits"), "spec.limits")


def _parent(parent: Object, path: str) -> Iterator[ValidationFinding]:
    if (kind := parent.get("kind") or "") != CLOUD_PROFILE:
        yield not_supported(f"{path}.kind", kind, [CLOUD_PROFILE])
    if not parent.get("name"):
        yield required(f"{path}.name", "must provide a parent name")


def validate_rendered(
    spec: Object, now: datetime, *, before: Object, unclassified: Collection[VersionKey] = ()
) -> Iterator[Remark]:
    """Validate the rendered spec of a NamespacedCloudProfile, under the path ``status.cloudProfileSpec``.

    ``before`` is the previously rendered spec, or the parent's spec if the profile is created.
    """
    definitions = definitions_of(spec)
    yield from kubernetes(kubernetes_versions(spec), f"{_RENDERED}.kubernetes.versions", now)
    yield from complete_images(machine_images(spec), definitions, f"{_RENDERED}.machineImages")
    yield from supported_once(spec, _RENDERED, now, before=before, unclassified=unclassified)
    yield from complete_machine_types(spec.get("machineTypes") or (), definitions, f"{_RENDERED}.machineTypes")
    yield from volume_types_in(spec.get("volumeTypes") or (), f"{_RENDERED}.volumeTypes")


_RESERVED_PREFIX = "gardener-"
_NEED_VALUES, _NEED_NO_VALUES = ("In", "NotIn"), ("Exists", "DoesNotExist")


def _metadata(obj: Object, *, namespaced: bool) -> Iterator[ValidationFinding]:
    given = obj.get("metadata") or {}
    if not (name := given.get("name") or ""):
        yield required("metadata.name", "name or generateName is required")
    elif fault := subdomain_fault(name):
        yield invalid("metadata.name", fault, name)
    if namespaced and not given.get("namespace"):
        yield required("metadata.namespace", "must provide a namespace")


def _regions(given: Sequence[Object], path: str) -> Iterator[ValidationFinding]:
    names: set[str] = set()
    for index, region in enumerate(given):
        below = f"{path}[{index}]"
        yield from _unique_name(region, names, f"{below}.name", "must provide a region name")
        zones: set[str] = set()
        for place, zone in enumerate(region.get("zones") or ()):
            yield from _unique_name(zone, zones, f"{below}.zones[{place}].name", "zone name cannot be empty")
        yield from _labels(region.get("labels") or {}, f"{below}.labels")


def _unique_name(item: Object, seen: set[str], path: str, missing: str) -> Iterator[ValidationFinding]:
    name = item.get("name") or ""
    if not name:
        yield required(path, missing)
    elif name in seen:
        yield duplicate(path, name)
    seen.add(name)


def _labels(labels: Mapping[str, str], path: str) -> Iterator[ValidationFinding]:
    for key, value in labels.items():
        if fault := label_key_fault(key):
            yield invalid(path, f"label key {key!r}: {fault}")
        if fault := label_value_fault(value):
            yield invalid(path, f"the value of label {key!r} {fault}")


def _machine_capabilities(definitions: Sequence[Object], path: str) -> Iterator[ValidationFinding]:
    if not definitions:
        return
    names = [definition.get("name") or "" for definition in definitions]
    for index, name in enumerate(names):
        if name in names[:index]:
            yield duplicate(f"{path}[{index}].name", name)
        if name.startswith(_RESERVED_PREFIX):
            yield forbidden(f"{path}[{index}].name", f'the "{_RESERVED_PREFIX}" prefix is reserved')
    if ARCHITECTURE not in names:
        yield required(f"{path}.{ARCHITECTURE}", "architecture capability is required")
    for name, definition in dict(zip(names, definitions, strict=True)).items():
        yield from _capability(name, definition.get("values") or (), path)


def _capability(name: str, values: Sequence[str], path: str) -> Iterator[ValidationFinding]:
    if not name:
        yield required(path, "capability keys must not be empty")
    elif fault := part_name_fault(name):
        yield invalid(path, f"capability key {name!r} must be a qualified name: it {fault}", name)
    below = f"{path}.{name}"
    if not values:
        yield required(below, "capability values must not be empty")
    for index, value in enumerate(values):
        if not value:
            yield required(f"{below}[{index}]", "capability values must not be empty")
        elif fault := part_name_fault(value):
            yield invalid(f"{below}[{index}]", f"capability value must be a qualified name: it {fault}", value)
        if name == ARCHITECTURE and value not in ARCHITECTURES:
            yield invalid(below, f"allowed architectures are: {', '.join(ARCHITECTURES)}", value)


def _limits(given: Object | None, path: str) -> Iterator[ValidationFinding]:
    maximum = (given or {}).get("maxNodesTotal")
    if maximum is not None and maximum <= 0:
        yield invalid(f"{path}.maxNodesTotal", "maxNodesTotal must be greater than 0", maximum)


def _limits_not_lowered(new: Object | None, old: Object | None, path: str) -> Iterator[ValidationFinding]:
    """Check new limits against the old ones: they may be set, removed and raised, never lowered."""
    after, before = (new or {}).get("maxNodesTotal"), (old or {}).get("maxNodesTotal")
    if after is not None and before is not None and after < before:
        yield invalid(f"{path}.maxNodesTotal", "maxNodesTotal cannot be decreased", after)


def _label_selector(selector: Object | None, path: str) -> Iterator[ValidationFinding]:
    given = selector or {}
    yield from _labels(given.get("matchLabels") or {}, f"{path}.matchLabels")
    for index, expression in enumerate(given.get("matchExpressions") or ()):
        below = f"{path}.matchExpressions[{index}]"
        operator, values = expression.get("operator") or "", expression.get("values") or ()
        if operator not in _NEED_VALUES + _NEED_NO_VALUES:
            yield invalid(f"{below}.operator", "not a valid selector operator", operator)
        if operator in _NEED_VALUES and not values:
            yield required(f"{below}.values", "must be specified when `operator` is 'In' or 'NotIn'")
        if operator in _NEED_NO_VALUES and values:
            yield forbidden(f"{below}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
        if fault := label_key_fault(expression.get("key") or ""):
            yield invalid(f"{below}.key", fault, expression.get("key"))
        for place, value in enumerate(values):
            if fault := label_value_fault(value):
                yield invalid(f"{below}.values[{place}]", fault, value)


def _ca_bundle(pem: str | None, path: str) -> Iterator[ValidationFinding]:
    """Validate a bundle of certificates; the finding does not quote any of it."""
    if pem is None:
        return
    try:
        text = pem.encode("ascii", "replace").decode()  # comments between certificates may have any characters
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=text)
    except (ssl.SSLError, ValueError):
        yield invalid(path, "caBundle is not a valid PEM-encoded certificate")
