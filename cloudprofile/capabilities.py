"""Machine capabilities, the architectures that follow from them, and Gardener's defaults for a profile. Pure.

A profile that defines ``machineCapabilities`` (Gardener's GEP-33) gives architectures as values of the capability
``architecture``: machine types in ``capabilities``, each image version as one of its ``capabilityFlavors``. Any other
profile gives them in ``architecture`` and ``architectures``. A NamespacedCloudProfile may use either form; before a
merge, restow converts it to the form of its parent. After the merge restow fills in the plain fields, so that readers
need no other.

The rules read a CloudProfile with Gardener's defaults for its spec filled in. A NamespacedCloudProfile gets none: a
default in it would turn an override into a replacement. Not all defaults can be part of a CRD's schema: architectures,
for example, have one only if no capabilities are defined.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from restow.cloudprofile.objects import Object, machine_images, with_versions

ARCHITECTURE = "architecture"
AMD64 = "amd64"
ARCHITECTURES = (AMD64, "arm64")
"""The architectures that Gardener knows."""

Definitions = Mapping[str, Sequence[str]]
"""The capabilities that a profile defines, with their values in the order of preference."""


def definitions_of(spec: Object) -> dict[str, list[str]]:
    """Return the capabilities that a CloudProfile's spec defines; of equal names the last."""
    definitions = spec.get("machineCapabilities") or ()
    return {definition.get("name") or "": list(definition.get("values") or ()) for definition in definitions}


def flavor_architectures(version: Object, defined: Sequence[str] = ()) -> list[str]:
    """Return the architectures that the flavors of an image version name, each once.

    A flavor that names none has all that are ``defined``, and so has a version without flavors.
    """
    flavors: Sequence[Object] = version.get("capabilityFlavors") or ({},)
    return list(dict.fromkeys(value for flavor in flavors for value in flavor.get(ARCHITECTURE) or defined))


def architecture_of(machine_type: Object, definitions: Definitions) -> str:
    """Return a machine type's architecture: its capability's, else the only one defined, else its field, else amd64."""
    return _architecture_of(machine_type, definitions) or AMD64


def _architecture_of(machine_type: Object, definitions: Definitions) -> str:
    defined = definitions.get(ARCHITECTURE) or ()
    capability = ((machine_type.get("capabilities") or {}).get(ARCHITECTURE) or defined) if defined else ()
    return str(capability[0]) if len(capability) == 1 else str(machine_type.get(ARCHITECTURE) or "")


def architectures_of(version: Object, definitions: Definitions) -> list[str]:
    """Return the architectures of an image version: its field, else its flavors', else those defined, else amd64."""
    if named := version.get("architectures"):
        return list(named)
    return flavor_architectures(version, definitions.get(ARCHITECTURE) or ()) or [AMD64]


def fill_architectures(spec: Object) -> dict[str, Any]:
    """Return a CloudProfile's spec with the architecture of every machine type and image version filled in.

    Architectures that the spec names stay.
    """
    definitions = definitions_of(spec)
    return _with_parts(
        spec,
        lambda version: _filled(version, {"architectures": architectures_of(version, definitions)}),
        lambda machine_type: _filled(machine_type, {ARCHITECTURE: architecture_of(machine_type, definitions)}),
    )


def in_form_of(spec: Object, definitions: Definitions) -> dict[str, Any]:
    """Return a NamespacedCloudProfile's spec in the form of a parent with these capabilities (or none)."""
    if definitions:
        return _with_parts(spec, _with_flavors, lambda machine_type: _with_capabilities(machine_type, definitions))
    return _with_parts(spec, _without_flavors, _without_capabilities)


def in_step(spec: Object, old_spec: Object | None) -> dict[str, Any]:
    """Return a CloudProfile's spec with capabilities and architecture fields that agree, as the server should store it.

    If a request adds capabilities with several architectures to an existing profile (``old_spec``), empty flavors are
    made from the plain fields. A version that is added to a profile with several architectures has to name its own, as
    do the versions of a new profile; validation demands it. Machine types get capabilities in any case. If capabilities
    are removed, capabilities and flavors are removed too. As long as there are any, empty plain fields are filled from
    them.
    """
    definitions = definitions_of(spec)
    had_definitions = definitions if old_spec is None else definitions_of(old_spec)
    if not definitions:
        return _with_parts(spec, _bare_version, _bare_machine_type) if had_definitions else dict(spec)
    defined = definitions.get(ARCHITECTURE) or ()
    if len(defined) > 1:
        spec = _with_parts(
            spec,
            lambda version: version if had_definitions else _with_new_flavors(version),
            lambda machine_type: _with_capabilities(machine_type, definitions),
        )
    return _with_parts(
        spec,
        lambda version: _named(version, "architectures", flavor_architectures(version, defined), defined),
        lambda machine_type: _named(machine_type, ARCHITECTURE, _architecture_of(machine_type, definitions), defined),
    )


def _with_new_flavors(version: Object) -> Object:
    return version if version.get("capabilityFlavors") else _with_flavors(_filled(version, {"architectures": [AMD64]}))


def _named(item: Object, field: str, value: str | list[str], defined: Sequence[str]) -> Object:
    """Return an item with its architectures filled in, unless one is undefined: that is its capability's error."""
    architectures = [value] if isinstance(value, str) else value
    return _filled(item, {field: value}) if set(architectures) <= set(defined) else item


def _with_flavors(version: Object) -> Object:
    named = version.get("architectures") or ()
    return _filled(version, {"capabilityFlavors": [{ARCHITECTURE: [architecture]} for architecture in named]})


def _with_capabilities(machine_type: Object, definitions: Definitions) -> Object:
    return _filled(machine_type, {"capabilities": {ARCHITECTURE: [architecture_of(machine_type, definitions)]}})


def _without_flavors(version: Object) -> Object:
    return _bare_version(_filled(version, {"architectures": flavor_architectures(version)}))


def _without_capabilities(machine_type: Object) -> Object:
    capability = (machine_type.get("capabilities") or {}).get(ARCHITECTURE) or [None]
    return _bare_machine_type(_filled(machine_type, {ARCHITECTURE: capability[0]}))


def _bare_version(version: Object) -> Object:
    return {name: value for name, value in version.items() if name != "capabilityFlavors"}


def _bare_machine_type(machine_type: Object) -> Object:
    return {name: value for name, value in machine_type.items() if name != "capabilities"}


def _filled(item: Object, values: Object) -> dict[str, Any]:
    """Return an item with its unset and empty fields set, as far as there are values."""
    unset = {field: value for field, value in values.items() if value and item.get(field) in (None, "", [], {})}
    return {**item, **unset}


def _with_parts(
    spec: Object, change_version: Callable[[Object], Object], change_machine_type: Callable[[Object], Object]
) -> dict[str, Any]:
    """Return the spec with all its image versions and machine types changed."""
    changed = with_versions(spec, lambda key, version: change_version(version) if key[0] else version)
    if machine_types := spec.get("machineTypes"):
        changed["machineTypes"] = [change_machine_type(machine_type) for machine_type in machine_types]
    return changed


_CRI = "containerd"
_UPDATE_STRATEGY = "major"


def defaulted(spec: Object) -> dict[str, Any]:
    """Return a CloudProfile's spec with the defaults filled in."""
    capabilities = bool(definitions_of(spec))
    of_type = {"usable": True} | ({} if capabilities else {ARCHITECTURE: AMD64})
    filled = _with_parts(
        spec,
        lambda version: defaulted_image_version(version, capabilities=capabilities),
        lambda machine_type: _filled(machine_type, of_type),
    )
    if images := machine_images(filled):
        filled["machineImages"] = [_filled(image, {"updateStrategy": _UPDATE_STRATEGY}) for image in images]
    if volume_types := spec.get("volumeTypes"):
        filled["volumeTypes"] = [_filled(item, {"usable": True}) for item in volume_types]
    return filled


def defaulted_image_version(version: Object, *, capabilities: bool) -> dict[str, Any]:
    """Return an image version with the defaults filled in, with or without ``capabilities`` in its profile."""
    return _filled(version, {"cri": [{"name": _CRI}]} | ({} if capabilities else {"architectures": [AMD64]}))
