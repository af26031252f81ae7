"""The bastion's machine type and image, which have to be among the profile's and fit each other. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime

from restow.cloudprofile.capabilities import Definitions, architecture_of, architectures_of, definitions_of
from restow.cloudprofile.findings import Finding, invalid
from restow.cloudprofile.lifecycle import Classification
from restow.cloudprofile.parts import Object, by_name, image_versions, machine_images
from restow.cloudprofile.tolerant import classification_of

__all__ = ["bastion"]


def bastion(spec: Object, path: str, now: datetime) -> Iterator[Finding]:
    """Validate the bastion of a CloudProfile's spec."""
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
            yield invalid(f"{path}.machineType.name", "machine type not found in spec.machineTypes")
        else:
            architecture = architecture_of(listed, definitions)
    if image is not None:
        yield from _image(image, spec, architecture, f"{path}.machineImage", now)


def _image(image: Object, spec: Object, architecture: str | None, path: str, now: datetime) -> Iterator[Finding]:
    listed = by_name(machine_images(spec)).get(image.get("name") or "")
    if listed is None:
        yield invalid(f"{path}.name", "image name not found in spec.machineImages")
        return
    versions, below = image_versions(listed), f"{path}.name"
    if (wanted := image.get("version")) is not None:
        below = f"{path}.version"
        versions = [version for version in versions if version.get("version") == wanted]
        if not versions:
            yield invalid(below, "image version not found in spec.machineImages")
            return
    if not _any_usable(versions, definitions_of(spec), architecture, now):
        for_architecture = f" and arch {architecture!r}" if architecture else ""
        yield invalid(below, f"no image with classification supported{for_architecture} found")


def _any_usable(versions: Sequence[Object], definitions: Definitions, architecture: str | None, now: datetime) -> bool:
    """Whether a version runs on the architecture and is supported by its own word, not for want of one."""
    return any(
        (version.get("classification") is not None or version.get("lifecycle"))
        and classification_of(version, now) is Classification.SUPPORTED
        and (architecture is None or architecture in architectures_of(version, definitions))
        for version in versions
    )
