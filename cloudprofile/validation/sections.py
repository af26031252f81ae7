"""The smaller sections of a profile: metadata, regions, capabilities, limits, selector, CA bundle. Pure."""

from __future__ import annotations

import ssl
from collections.abc import Iterator, Mapping, Sequence

from restow.cloudprofile.capabilities import ARCHITECTURE, ARCHITECTURES
from restow.cloudprofile.findings import Finding, duplicate, forbidden, invalid, required
from restow.cloudprofile.names import label_key_fault, label_value_fault, part_name_fault, subdomain_fault
from restow.cloudprofile.parts import Object

__all__ = [
    "ca_bundle",
    "label_selector",
    "limits",
    "limits_not_lowered",
    "machine_capabilities",
    "metadata",
    "regions",
]

_RESERVED_PREFIX = "gardener-"
_NEED_VALUES, _NEED_NO_VALUES = ("In", "NotIn"), ("Exists", "DoesNotExist")


def metadata(obj: Object, *, namespaced: bool) -> Iterator[Finding]:
    """Validate an object's name, and that a namespaced one has a namespace."""
    given = obj.get("metadata") or {}
    if not (name := given.get("name") or ""):
        yield required("metadata.name", "name or generateName is required")
    elif fault := subdomain_fault(name):
        yield invalid("metadata.name", f"{name!r} {fault}")
    if namespaced and not given.get("namespace"):
        yield required("metadata.namespace", "must provide a namespace")


def regions(given: Sequence[Object], path: str) -> Iterator[Finding]:
    """Validate the regions and their zones."""
    names: set[str] = set()
    for index, region in enumerate(given):
        below = f"{path}[{index}]"
        yield from _unique_name(region, names, f"{below}.name", "must provide a region name")
        zones: set[str] = set()
        for place, zone in enumerate(region.get("zones") or ()):
            yield from _unique_name(zone, zones, f"{below}.zones[{place}].name", "zone name cannot be empty")
        yield from _labels(region.get("labels") or {}, f"{below}.labels")


def _unique_name(item: Object, seen: set[str], path: str, missing: str) -> Iterator[Finding]:
    name = item.get("name") or ""
    if not name:
        yield required(path, missing)
    elif name in seen:
        yield duplicate(path, name)
    seen.add(name)


def _labels(labels: Mapping[str, str], path: str) -> Iterator[Finding]:
    for key, value in labels.items():
        if fault := label_key_fault(key):
            yield invalid(path, f"label key {key!r}: {fault}")
        if fault := label_value_fault(value):
            yield invalid(path, f"the value of label {key!r} {fault}")


def machine_capabilities(definitions: Sequence[Object], path: str) -> Iterator[Finding]:
    """Validate the capabilities that a CloudProfile defines."""
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


def _capability(name: str, values: Sequence[str], path: str) -> Iterator[Finding]:
    if not name:
        yield required(path, "capability keys must not be empty")
    elif fault := part_name_fault(name):
        yield invalid(path, f"capability key {name!r} must be a qualified name: it {fault}")
    below = f"{path}.{name}"
    if not values:
        yield required(below, "capability values must not be empty")
    for index, value in enumerate(values):
        if not value:
            yield required(f"{below}[{index}]", "capability values must not be empty")
        elif fault := part_name_fault(value):
            yield invalid(f"{below}[{index}]", f"capability value must be a qualified name: it {fault}")
        if name == ARCHITECTURE and value not in ARCHITECTURES:
            yield invalid(below, f"allowed architectures are: {', '.join(ARCHITECTURES)}")


def limits(given: Object | None, path: str) -> Iterator[Finding]:
    """Validate the limits."""
    maximum = (given or {}).get("maxNodesTotal")
    if maximum is not None and maximum <= 0:
        yield invalid(f"{path}.maxNodesTotal", "maxNodesTotal must be greater than 0")


def limits_not_lowered(new: Object | None, old: Object | None, path: str) -> Iterator[Finding]:
    """Hold limits against those that they replace: set, removed and raised, never lowered."""
    after, before = (new or {}).get("maxNodesTotal"), (old or {}).get("maxNodesTotal")
    if after is not None and before is not None and after < before:
        yield invalid(f"{path}.maxNodesTotal", "maxNodesTotal cannot be decreased")


def label_selector(selector: Object | None, path: str) -> Iterator[Finding]:
    """Validate a label selector."""
    given = selector or {}
    yield from _labels(given.get("matchLabels") or {}, f"{path}.matchLabels")
    for index, expression in enumerate(given.get("matchExpressions") or ()):
        below = f"{path}.matchExpressions[{index}]"
        operator, values = expression.get("operator") or "", expression.get("values") or ()
        if operator not in _NEED_VALUES + _NEED_NO_VALUES:
            yield invalid(f"{below}.operator", f"not a valid selector operator: {operator!r}")
        if operator in _NEED_VALUES and not values:
            yield required(f"{below}.values", "must be specified when `operator` is 'In' or 'NotIn'")
        if operator in _NEED_NO_VALUES and values:
            yield forbidden(f"{below}.values", "may not be specified when `operator` is 'Exists' or 'DoesNotExist'")
        if fault := label_key_fault(expression.get("key") or ""):
            yield invalid(f"{below}.key", fault)
        for place, value in enumerate(values):
            if fault := label_value_fault(value):
                yield invalid(f"{below}.values[{place}]", fault)


def ca_bundle(pem: str | None, path: str) -> Iterator[Finding]:
    """Validate a bundle of certificates; the finding does not repeat any of it."""
    if pem is None:
        return
    try:
        ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_verify_locations(cadata=pem)
    except (ssl.SSLError, ValueError):
        yield invalid(path, "caBundle is not a valid PEM-encoded certificate")
