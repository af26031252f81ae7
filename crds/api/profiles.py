"""CloudProfile and NamespacedCloudProfile: the specs and the statuses.

Pure.
"""

from __future__ import annotations

from typing import Final

from restow.crds.api.lifecycle import classified, expirable
from restow.crds.api.machines import capability_definitions, machine_images, machine_types, volume_types
from restow.crds.api.nodes import (
    Node,
    Rule,
    anything,
    count,
    flag,
    keyed,
    record,
    rule,
    rule_unless_broken_before,
    text,
)
from restow.crds.api.regions import bastion, regions, seed_selector
from restow.crds.api.uses import ApiVersion, Use, described

__all__ = ["cloud_profile", "namespaced_cloud_profile"]

#: What a NamespacedCloudProfile has of a CloudProfile's spec (GEP-25, and what Gardener added since).
_OVERRIDABLE: Final = (
    "kubernetes",
    "machineImages",
    "machineTypes",
    "volumeTypes",
    "caBundle",
    "limits",
    "providerConfig",
)
_PARENT_STAYS: Final = "parent cannot be changed, for Shoots rely on it: create another NamespacedCloudProfile instead"
_MOST_KUBERNETES_VERSIONS: Final = 250
_LONGEST_CA_BUNDLE: Final = 2**19


def cloud_profile(api: ApiVersion) -> dict[str, Node]:
    """Return the spec and the status of a CloudProfile."""
    spec = record("What the provider offers.", _spec(api, "profile"), required=["kubernetes"], rules=_across_the_spec())
    return {"spec": spec, "status": _status({})}


def namespaced_cloud_profile(api: ApiVersion) -> dict[str, Node]:
    """Return the spec and the status of a NamespacedCloudProfile.

    A missing parent is left to admission: GEP-32's example does without one.
    """
    fields = _spec(api, "override")
    parent = record(
        "The profile that this one builds on.",
        {
            "kind": text("The kind of the profile.", enum=["CloudProfile"]),
            "name": text("The name of the profile.", minLength=1, maxLength=253),
        },
        required=["kind", "name"],
        rules=[rule("self == oldSelf", _PARENT_STAYS)],
    )
    spec = record(
        "What differs from the parent; everything else is as it is there.",
        {"parent": parent, **{name: fields[name] for name in _OVERRIDABLE}},
        rules=[rule("has(self.parent) || !has(oldSelf.parent)", _PARENT_STAYS, at=".parent")],
    )
    rendered = record("The parent's spec with the overrides, for Shoots of this profile.", _spec(api, "rendered"))
    return {"spec": spec, "status": _status({"cloudProfileSpec": rendered})}


def _status(more: dict[str, Node]) -> Node:
    image = {"name": text("The name of the image."), "versions": classified("the image")}
    fields = {
        **more,
        "kubernetes": record("Kubernetes.", {"versions": classified("Kubernetes")}),
        "machineImages": keyed("The machine images.", "name", record("", image)),
        "observedGeneration": count("The generation of the object that this status was written for.", long=True),
    }
    return described(record("What the controller found; written by it alone.", fields))


def _spec(api: ApiVersion, use: Use) -> dict[str, Node]:
    return {
        "type": text("The provider, e.g. aws.", minLength=1),
        "kubernetes": _kubernetes(api, use),
        "machineImages": machine_images(api, use),
        "machineTypes": machine_types(),
        "volumeTypes": volume_types(),
        "regions": regions(),
        "machineCapabilities": capability_definitions(),
        "seedSelector": seed_selector(),
        "bastion": bastion(),
        "limits": _limits(use),
        "controlPlane": record(
            "How control planes are placed.",
            {"allowZonePinning": flag("Whether a control plane may be pinned to the zones of its workers.")},
        ),
        "caBundle": text(
            "Certificates in PEM that every machine shall trust. In a NamespacedCloudProfile they are added.",
            maxLength=_LONGEST_CA_BUNDLE,
            rules=[
                rule(
                    "self.contains('-----BEGIN CERTIFICATE-----') && self.contains('-----END CERTIFICATE-----')",
                    "must be certificates in PEM, from -----BEGIN CERTIFICATE----- to -----END CERTIFICATE-----",
                )
            ],
        ),
        "providerConfig": anything("Configuration for the provider extension, passed on as it is."),
    }


def _kubernetes(api: ApiVersion, use: Use) -> Node:
    version = record(
        "",
        {
            "version": text("The version: three numbers, e.g. 1.30.6.", maxLength=63, pattern=r"^([0-9]+\.){2}[0-9]+$"),
            **expirable(api, use, of_kubernetes=True),
        },
    )
    versions = keyed("The versions of Kubernetes.", "version", version, most=_MOST_KUBERNETES_VERSIONS)
    return record("Kubernetes.", {"versions": versions})


def _limits(use: Use) -> Node:
    lowered = rule(
        "self >= oldSelf",
        "maxNodesTotal cannot be lowered, for Shoots may have grown up to it: leave it, or raise it",
    )
    nodes = count("How many nodes a cluster can have at most.", minimum=1, rules=[lowered] if use == "profile" else [])
    return record("Limits for clusters of this profile.", {"maxNodesTotal": nodes})


def _across_the_spec() -> list[Rule]:
    """Return the rules between distant parts of a CloudProfile's spec."""
    machine_type = (
        "!has({0}.bastion) || !has({0}.bastion.machineType) || (has({0}.machineTypes) && "
        "{0}.machineTypes.exists(type, type.name == {0}.bastion.machineType.name))"
    )
    machine_image = (
        "!has({0}.bastion) || !has({0}.bastion.machineImage) || (has({0}.machineImages) && "
        "{0}.machineImages.exists(image, image.name == {0}.bastion.machineImage.name))"
    )
    capabilities = (
        "has({0}.machineCapabilities) || ("
        "(!has({0}.machineTypes) || !{0}.machineTypes.exists(type, has(type.capabilities)))"
        " && (!has({0}.machineImages) || !{0}.machineImages.exists(image, has(image.versions) && "
        "image.versions.exists(version, has(version.capabilityFlavors)))))"
    )
    return [
        rule_unless_broken_before(
            machine_type,
            "the bastion's machineType is none of machineTypes: write the name of one of them",
            at=".bastion.machineType.name",
        ),
        rule_unless_broken_before(
            machine_image,
            "the bastion's machineImage is none of machineImages: write the name of one of them",
            at=".bastion.machineImage.name",
        ),
        rule_unless_broken_before(
            capabilities,
            "capabilities and capabilityFlavors need a definition: add machineCapabilities, or remove them",
            at=".machineCapabilities",
        ),
    ]
