"""Machine types, volume types, machine images with their versions, and the bastion. Pure.

The bastion's machine type and image have to be among the profile's and fit each other.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from datetime import datetime

from restow.cloudprofile.capabilities import (
    ARCHITECTURE,
    ARCHITECTURES,
    Definitions,
    architecture_of,
    architectures_of,
    definitions_of,
    flavor_architectures,
)
from restow.cloudprofile.findings import (
    Remark,
    ValidationFinding,
    ValidationWarning,
    duplicate,
    forbidden,
    invalid,
    not_supported,
    required,
)
from restow.cloudprofile.objects import Object, by_name, image_versions, machine_images
from restow.cloudprofile.validation.formats import part_name_fault, quantity_fault
from restow.cloudprofile.validation.versions import expirable
from restow.cloudprofile.versions.lifecycle import Classification, classification_or_none, number_or_none, past_instants
from restow.cloudprofile.versions.semver import InvalidRange, InvalidVersion, parse, parse_range


def complete_machine_types(
    machine_types: Sequence[Object], definitions: Definitions, path: str
) -> Iterator[ValidationFinding]:
    """Validate machine types that have to be complete: those of a CloudProfile or of a rendered profile."""
    yield from machine_types_in(machine_types, definitions, path)
    if definitions:
        return
    for index, machine_type in enumerate(machine_types):
        if not machine_type.get(ARCHITECTURE):
            yield required(f"{path}[{index}].{ARCHITECTURE}", "must provide an architecture")
        if machine_type.get("capabilities"):
            yield forbidden(f"{path}[{index}].capabilities", "must not provide capabilities without global definition")


def machine_types_in(
    machine_types: Sequence[Object], definitions: Definitions, path: str
) -> Iterator[ValidationFinding]:
    """Validate the fields that machine types have."""

    def fields(machine_type: Object, below: str) -> Iterator[ValidationFinding]:
        for field in ("cpu", "gpu", "memory"):
            yield from _quantity(machine_type, field, below)
        yield from _architecture(machine_type, definitions, below)
        if definitions:
            yield from _defined_values(machine_type.get("capabilities") or {}, definitions, f"{below}.capabilities")
        if (storage := machine_type.get("storage")) is not None:
            yield from _storage(storage, f"{below}.storage")

    return _named_once(machine_types, path, "machine type name", fields)


def _storage(storage: Object, path: str) -> Iterator[ValidationFinding]:
    sizes = [field for field in ("size", "minSize") if storage.get(field) is not None]
    if not sizes:
        yield invalid(path, 'must either configure "size" or "minSize"')
    elif len(sizes) > 1:
        yield invalid(path, 'not allowed to configure both "size" and "minSize"')
    else:
        yield from _quantity(storage, sizes[0], path)


def _architecture(machine_type: Object, definitions: Definitions, path: str) -> Iterator[ValidationFinding]:
    written = machine_type.get(ARCHITECTURE) or ""
    if definitions:
        named: Sequence[str] = (machine_type.get("capabilities") or {}).get(ARCHITECTURE) or ()
        if len(named) > 1:
            yield invalid(f"{path}.capabilities.{ARCHITECTURE}", "must not define more than one architecture", named)
        if len(named) == 1 and written not in {"", named[0]}:
            yield invalid(
                f"{path}.{ARCHITECTURE}",
                f"machine type architecture ({written}) conflicts with the capability architecture ({named[0]})",
                written,
            )
    if written and written not in ARCHITECTURES:
        yield not_supported(f"{path}.{ARCHITECTURE}", written, ARCHITECTURES)


def _defined_values(capabilities: Object, definitions: Definitions, path: str) -> Iterator[ValidationFinding]:
    for capability, values in capabilities.items():
        if capability not in definitions:
            yield not_supported(path, capability, definitions)
            continue
        for index, value in enumerate(values or ()):
            if value not in definitions[capability]:
                yield not_supported(f"{path}.{capability}[{index}]", value, definitions[capability])


def volume_types_in(volume_types: Sequence[Object], path: str) -> Iterator[ValidationFinding]:
    """Validate volume types."""

    def fields(volume_type: Object, below: str) -> Iterator[ValidationFinding]:
        yield from _name(volume_type.get("class") or "", f"{below}.class", "volume class")
        yield from _quantity(volume_type, "minSize", below)

    return _named_once(volume_types, path, "volume type name", fields)


def _named_once(
    items: Sequence[Object], path: str, what: str, fields: Callable[[Object, str], Iterator[ValidationFinding]]
) -> Iterator[ValidationFinding]:
    """Validate the names of items, and the other fields of the first item of each name."""
    names: set[str] = set()
    for index, item in enumerate(items):
        below, name = f"{path}[{index}]", item.get("name") or ""
        yield from _name(name, f"{below}.name", what)
        if name in names:
            yield duplicate(f"{below}.name", name)
        else:
            yield from fields(item, below)
        names.add(name)


def _name(name: str, path: str, what: str) -> Iterator[ValidationFinding]:
    if not name:
        yield required(path, f"must provide a {what.rpartition(' ')[2]}")
    elif fault := part_name_fault(name):
        yield invalid(path, f"{what} must be a qualified name without prefix: it {fault}", name)


def _quantity(item: Object, field: str, path: str) -> Iterator[ValidationFinding]:
    value = item.get(field)
    if value is not None and (fault := quantity_fault(value)):
        yield invalid(f"{path}.{field}", fault, value)


def bastion(spec: Object, path: str, now: datetime, *, created: bool) -> Iterator[Remark]:
    """Validate the bastion of a CloudProfile's spec.

    In a profile that is ``created``, an image that was supported once and is no longer only causes a warning, because a
    backup can have such an image.
    """
    given = spec.get("bastion")
    if given is None:
        return
    definitions = definitions_of(spec)
    machine_type, image = given.get("machineType"), given.get("machineImage")
    if machine_type is None and image is None:
        yield invalid(path, "bastion section needs a machine type or machine image")
    architecture = None
    if machine_type is not None:
        listed = by_name(spec.get("machineTypes") or ()).get(machine_type.get("name") or "")
        if listed is None:
            yield invalid(
                f"{path}.machineType.name", "machine type not found in spec.machineTypes", machine_type.get("name")
            )
        else:
            architecture = architecture_of(listed, definitions)
    if image is not None:
        yield from _image(image, spec, architecture, f"{path}.machineImage", now, created=created)


def _image(
    image: Object, spec: Object, architecture: str | None, path: str, now: datetime, *, created: bool
) -> Iterator[Remark]:
    listed = by_name(machine_images(spec)).get(image.get("name") or "")
    if listed is None:
        yield invalid(f"{path}.name", "image name not found in spec.machineImages", image.get("name"))
        return
    versions, below = image_versions(listed), f"{path}.name"
    if (wanted := image.get("version")) is not None:
        below = f"{path}.version"
        versions = [version for version in versions if version.get("version") == wanted]
        if not versions:
            yield invalid(below, "image version not found in spec.machineImages", wanted)
            return
    if not _any_usable(versions, definitions_of(spec), architecture, now):
        for_architecture = f" and arch {architecture!r}" if architecture else ""
        sentence = f"no image with classification supported{for_architecture} found"
        grew_old = created and any(
            _any_usable([version], definitions_of(spec), architecture, at)
            for version in versions
            for at in past_instants([version], now)
        )
        yield ValidationWarning(below, sentence) if grew_old else invalid(below, sentence, wanted or image.get("name"))


def _any_usable(versions: Sequence[Object], definitions: Definitions, architecture: str | None, now: datetime) -> bool:
    """Return whether a version runs on the architecture and is supported; one without stages is supported (GEP-32)."""
    return any(
        classification_or_none(version, now) is Classification.SUPPORTED
        and (architecture is None or architecture in architectures_of(version, definitions))
        for version in versions
    )


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
        else:
            yield from _name(name, f"{below}.name", "machine image name")
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
    if definitions:
        for index, flavor in enumerate(version.get("capabilityFlavors") or ()):
            yield from _defined_values(flavor, definitions, f"{path}.capabilityFlavors[{index}]")


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
