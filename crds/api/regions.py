"""Where a profile is valid: regions and their zones, the seeds that may host its clusters, the bastion.

Pure.
"""

from __future__ import annotations

from restow.crds.api.nodes import Node, keyed, listed, mapped, record, rule, text

__all__ = ["bastion", "regions", "seed_selector"]

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
    labels = mapped(
        "Labels that tell more about the region.", {"type": "string", "maxLength": 63, "pattern": _LABEL_VALUE}
    )
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
