"""Machine images, their versions, and the capabilities and runtimes of these. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from restow.cloudprofile.capabilities import ARCHITECTURE, ARCHITECTURES, Definitions, flavor_architectures
from restow.cloudprofile.findings import (
    ValidationFinding,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from restow.cloudprofile.objects import Object, image_versions
from restow.cloudprofile.validation.formats import part_name_fault
from restow.cloudprofile.validation.versions import expirable
from restow.cloudprofile.versions.lifecycle import number_or_none
from restow.cloudprofile.versions.semver import InvalidRange, InvalidVersion, parse, parse_range

UPDATE_STRATEGIES = ("major", "minor", "patch")
_CONTAINER_RUNTIMES_INTERFACES = ("containerd",)


def complete_images(images: Sequence[Object], definitions: Definitions, path: str) -> Iterator[ValidationFinding]:
    """Validate images that have to be complete: those of a CloudProfile or of a rendered profile."""
    yield from images_in(images, definitions, path)
    for index, image in enumerate(images):
        yield from complete_image(image, definitions, f"{path}[{index}]")


def complete_image(image: Object, definitions: Definitions, path: str) -> Iterator[ValidationFinding]:
    """Validate the parts of a complete image that ``images_in`` does not."""
    if not image_versions(image):
        yield required(
            f"{path}.versions", f"must provide at least one version for the machine image '{image.get('name')}'"
        )
    if not image.get("updateStrategy"):
        yield required(f"{path}.updateStrategy", "must provide an update strategy")
    for index, version in enumerate(image_versions(image)):
        yield from complete_version(version, definitions, f"{path}.versions[{index}]")


def images_in(images: Sequence[Object], definitions: Definitions, path: str) -> Iterator[ValidationFinding]:
    """Validate the fields that images have, which may be overrides: names, numbers, strategies, capabilities."""
    if any(number_or_none(version) is None for image in images for version in image_versions(image)):
        yield invalid(path, "failed to determine the latest machine image versions: all must be semantic versions")
    names: set[str] = set()
    versions: set[tuple[str, str]] = set()
    for index, image in enumerate(images):
        below, name = f"{path}[{index}]", image.get("name") or ""
        if name in names:
            yield duplicate(below, name)
        names.add(name)
        if not name:
            yield required(f"{below}.name", "machine image name must not be empty")
        elif fault := part_name_fault(name):
            yield invalid(
                f"{below}.name", f"machine image name must be a qualified name without prefix: it {fault}", name
            )
        if (strategy := image.get("updateStrategy")) and strategy not in UPDATE_STRATEGIES:
            yield not_supported(f"{below}.updateStrategy", strategy, UPDATE_STRATEGIES)
        for place, version in enumerate(image_versions(image)):
            key = name, version.get("version") or ""
            if key in versions:
                yield duplicate(f"{below}.versions[{place}]", "-".join(key))
            versions.add(key)
            yield from image_version(version, definitions, f"{below}.versions[{place}]")


def image_version(version: Object, definitions: Definitions, path: str) -> Iterator[ValidationFinding]:
    """Validate the fields that one image version has."""
    if not version.get("version"):
        yield required(f"{path}.version", "must provide a version")
    if number_or_none(version) is None:
        yield invalid(
            f"{path}.version",
            "could not parse version. Use a semantic version. An image without one is mapped to it in the "
            "providerConfig of the CloudProfile",
            version.get("version"),
        )
    minimum = (version.get("inPlaceUpdates") or {}).get("minVersionForUpdate")
    if minimum is not None:
        try:
            parse(minimum)
        except InvalidVersion:
            yield invalid(
                f"{path}.minVersionForInPlaceUpdate", "could not parse version. Use a semantic version.", minimum
            )
    yield from _flavors(version, definitions, path)
    if (constraint := version.get("kubeletVersionConstraint")) is not None:
        try:
            parse_range(constraint)
        except InvalidRange as error:
            yield invalid(
                f"{path}.kubeletVersionConstraint", f"cannot parse the kubeletVersionConstraint: {error}", constraint
            )


def complete_version(version: Object, definitions: Definitions, path: str) -> Iterator[ValidationFinding]:
    """Validate the parts of a complete image's version that ``image_version`` does not."""
    yield from _container_runtime_interfaces(version.get("cri") or (), f"{path}.cri")
    yield from expirable(version, path)
    if not definitions:
        if not version.get("architectures"):
            yield required(f"{path}.architectures", "must provide at least one architecture")
        if version.get("capabilityFlavors"):
            yield forbidden(f"{path}.capabilityFlavors", "must not provide capabilities without global definition")


def _container_runtime_interfaces(interfaces: Sequence[Object], path: str) -> Iterator[ValidationFinding]:
    if not interfaces:
        yield required(path, "must provide at least one supported container runtime")
    names = [interface.get("name") or "" for interface in interfaces]
    for index, interface in enumerate(interfaces):
        below = f"{path}[{index}]"
        if names[index] in names[:index]:
            yield duplicate(below, names[index])
        if names[index] not in _CONTAINER_RUNTIMES_INTERFACES:
            yield not_supported(f"{below}.name", names[index], _CONTAINER_RUNTIMES_INTERFACES)
        yield from _container_runtimes(interface.get("containerRuntimes") or (), f"{below}.containerRuntimes")


def _container_runtimes(runtimes: Sequence[Object], path: str) -> Iterator[ValidationFinding]:
    types = [runtime.get("type") or "" for runtime in runtimes]
    for index, name in enumerate(types):
        below = f"{path}[{index}].type"
        if fault := part_name_fault(name):
            yield invalid(below, f"container runtime type must be a qualified name without prefix: it {fault}", name)
        if name in types[:index]:
            yield duplicate(below, name)


def _flavors(version: Object, definitions: Definitions, path: str) -> Iterator[ValidationFinding]:
    yield from _architectures(version, definitions, path)
    if not definitions:
        return
    for index, flavor in enumerate(version.get("capabilityFlavors") or ()):
        below = f"{path}.capabilityFlavors[{index}]"
        for capability, values in flavor.items():
            if capability not in definitions:
                yield not_supported(below, capability, definitions)
                continue
            for place, value in enumerate(values or ()):
                if value not in definitions[capability]:
                    yield not_supported(f"{below}.{capability}[{place}]", value, definitions[capability])


def _architectures(version: Object, definitions: Definitions, path: str) -> Iterator[ValidationFinding]:
    supported: Sequence[str] = ARCHITECTURES
    written = version.get("architectures") or ()
    if definitions:
        supported = definitions.get(ARCHITECTURE) or ()
        flavors = version.get("capabilityFlavors") or ()
        if len(supported) > 1 and not flavors:
            yield required(
                f"{path}.capabilityFlavors",
                "must provide at least one image flavor when multiple architectures are defined in "
                "spec.machineCapabilities",
            )
            return
        yield from _one_architecture_each(flavors, supported, f"{path}.capabilityFlavors")
        offered = flavor_architectures(version) or (supported if len(supported) == 1 else ())
        if not set(written) <= set(offered):
            yield invalid(
                f"{path}.architectures",
                f"architecture field values set ({','.join(written)}) conflict with the capability architectures "
                f"({','.join(offered)})",
                list(written),
            )
    for index, architecture in enumerate(written):
        if architecture not in supported:
            yield not_supported(f"{path}.architectures[{index}]", architecture, supported)


def _one_architecture_each(
    flavors: Sequence[Object], supported: Sequence[str], path: str
) -> Iterator[ValidationFinding]:
    for index, flavor in enumerate(flavors):
        below, named = f"{path}[{index}].{ARCHITECTURE}", flavor.get(ARCHITECTURE) or ()
        if not named and len(supported) > 1:
            yield required(
                below,
                "must specify one architecture explicitly as multiple architectures are defined in "
                "spec.machineCapabilities",
            )
        elif len(named) > 1:
            yield invalid(below, "must not define more than one architecture within an image flavor", list(named))
