"""CloudProfile and NamespacedCloudProfile: their specs and statuses.

The specs also say where a profile is valid: the regions and their zones, the seeds that may host its clusters, the
bastion.

Pure.
"""

from __future__ import annotations

from typing import Final

from hack.crds.lifecycle import classified, expirable
from hack.crds.machines import capability_definitions, machine_images, machine_types, volume_types
from hack.crds.nodes import (
    ApiVersion,
    Node,
    Rule,
    Use,
    anything,
    count,
    described,
    flag,
    keyed,
    listed,
    mapped,
    record,
    rule,
    rule_unless_broken_before,
    text,
)

_LABEL_VALUE = r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$"


def regions() -> Node:
    """Return the list of regions."""
    zone = record(
        "",
        {
            "name": text("The name of the zone.", minLength=1),
            "unavailableMachineTypes": listed("The machine types that it does not have.", {"type": "string"}, "set"),
            "unavailableVolumeTypes": listed("The volume types that it does not have.", {"type": "string"}, "set"),
        },
    )
    restriction = record("", {"name": text("The name of the restriction.", minLength=1)})
    labels = mapped("Labels that describe the region.", {"type": "string", "maxLength": 63, "pattern": _LABEL_VALUE})
    region = record(
        "",
        {
            "name": text("The name of the region.", minLength=1),
            "zones": keyed("The zones of the region.", "name", zone),
            "labels": labels,
            "accessRestrictions": keyed("The access restrictions that can be chosen there.", "name", restriction),
        },
    )
    return keyed("The regions.", "name", region)


def seed_selector() -> Node:
    """Return the selector of seeds: a label selector, and the provider types."""
    expression = record(
        "",
        {
            "key": text("The label that it is about."),
            "operator": text("How the label relates to the values.", enum=["In", "NotIn", "Exists", "DoesNotExist"]),
            "values": listed("The values, for In and NotIn.", {"type": "string"}, "atomic"),
        },
        required=["key", "operator"],
    )
    selector = record(
        "The seeds that may host clusters of this profile; without one, all seeds of the provider type.",
        {
            "matchLabels": mapped("Labels that a seed must have.", {"type": "string"}),
            "matchExpressions": listed("Requirements that a seed must meet.", expression, "atomic"),
            "providerTypes": listed('Provider types that a seed may be of; "*" is any.', {"type": "string"}, "set"),
        },
    )
    return selector | {"x-kubernetes-map-type": "atomic"}


def bastion() -> Node:
    """Return the machine that a bastion runs on."""
    image = record(
        "The image of the bastion.",
        {
            "name": text("The name of one of the machine images.", maxLength=63),
            "version": text("One of its versions; without one, the newest supported one.", maxLength=63),
        },
        required=["name"],
    )
    machine = record(
        "The machine type of the bastion.",
        {"name": text("The name of one of the machine types.", maxLength=63)},
        required=["name"],
    )
    return record(
        "The machine image and type of bastions; what is left out is chosen by the provider extension.",
        {"machineImage": image, "machineType": machine},
        rules=[
            rule(
                "has(self.machineImage) || has(self.machineType)",
                "an empty bastion says nothing: name a machineImage, a machineType or both, or remove it",
            )
        ],
    )


#: The fields that a NamespacedCloudProfile shares with the spec of a CloudProfile (GEP-25, and later additions of
#: Gardener).
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

    The schema does not require ``parent``, because the example of GEP-32 has none; admission checks it.
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
    """Return the status.

    The status is atomic, because granular managedFields would name each version in it and be larger than the status.
    """
    image = {"name": text("The name of the image."), "versions": classified("the image")}
    condition = {
        "type": text("What it is about."),
        "status": text("Whether it holds.", enum=["True", "False", "Unknown"]),
        "reason": text("Why, as one word."),
        "message": text("Why, as a sentence."),
        "lastTransitionTime": text("Since when (RFC 3339).", format="date-time"),
    }
    transition = {
        "startTime": text("When it happens (RFC 3339), in UTC.", format="date-time"),
        "description": text("The first version that changes with its new classification, and how many more change."),
    }
    fields = {
        **more,
        "conditions": keyed(
            "UpdatePathComplete says whether every Kubernetes version that expires can be updated.",
            "type",
            record("", condition),
        ),
        "kubernetes": record("Kubernetes.", {"versions": classified("Kubernetes")}),
        "machineImages": keyed("The machine images.", "name", record("", image)),
        "nextTransition": record("The next change of a classification; without one, time changes nothing.", transition),
        "observedGeneration": count("The generation of the object that this status was written for.", long=True),
    }
    status = record("What the controller found; written by it alone.", fields)
    return described(status) | {"x-kubernetes-map-type": "atomic"}


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
