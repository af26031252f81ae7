"""The machines of a profile: machine images, machine types, volume types, and the capabilities that match them.

Pure.
"""

from __future__ import annotations

from typing import Final

from hack.crds.lifecycle import expirable
from hack.crds.nodes import (
    ApiVersion,
    Node,
    Use,
    anything,
    flag,
    keyed,
    listed,
    mapped,
    quantity,
    record,
    rule,
    text,
)

ARCHITECTURES: Final = ["amd64", "arm64"]

#: Masterminds/semver, as Gardener parses versions of images: 1, 1.2 and v1.2.3-suffix are versions too.
_IMAGE_VERSION: Final = (
    r"^v?[0-9]+(\.[0-9]+){0,2}(-[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?(\+[0-9A-Za-z-]+(\.[0-9A-Za-z-]+)*)?$"
)
_QUALIFIED_NAME: Final = r"^([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$"
_DURATION: Final = r"^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$"

#: The tokens of a range in Masterminds/semver. Admission checks their order, because a whole grammar costs too much in
#: a CRD.
_RANGE: Final = r"^(\s*(,|\|\||-\s)?\s*[=!<>~^]{0,2}\s*v?[\dxX*]+(\.[\dxX*]+){0,2}([-+][\w.+-]+)?)+\s*$"

_MOST_IMAGES, _MOST_IMAGE_VERSIONS, _MOST_TYPES, _MOST_VOLUME_TYPES = 100, 200, 4000, 200
_MOST_CAPABILITIES, _MOST_CAPABILITY_VALUES, _MOST_FLAVORS = 50, 100, 50


def plain_name(description: str) -> Node:
    """Declare a name with the syntax of a label name without a prefix."""
    return text(description, minLength=1, maxLength=63, pattern=_QUALIFIED_NAME)


def machine_images(api: ApiVersion, use: Use) -> Node:
    """Return the list of machine images."""
    strategy = text(
        "How far an update of an expired or outdated version may go: to a patch, minor or major version.",
        enum=["patch", "minor", "major"],
    )
    fields = {
        "name": plain_name("The name of the image, e.g. gardenlinux."),
        "updateStrategy": strategy | ({"default": "major"} if use == "profile" else {}),
        "versions": keyed("The versions of the image.", "version", _image_version(api, use), most=_MOST_IMAGE_VERSIONS),
    }
    return keyed("The machine images.", "name", record("", fields), most=_MOST_IMAGES)


def _image_version(api: ApiVersion, use: Use) -> Node:
    fields = {
        "version": text(
            "The version of the image: a semantic version, also a short one.", maxLength=63, pattern=_IMAGE_VERSION
        ),
        **expirable(api, use, of_kubernetes=False),
        "architectures": listed(
            "The processor architectures that the image runs on. Without any, and without capabilities, it is amd64.",
            {"type": "string", "enum": ARCHITECTURES},
            "set",
            maxItems=len(ARCHITECTURES),
        ),
        "capabilityFlavors": listed(
            "The builds of the image; each one names the capabilities that it has.",
            _capabilities(""),
            "atomic",
            maxItems=_MOST_FLAVORS,
        ),
        "cri": _container_runtime_interfaces(use),
        "inPlaceUpdates": record(
            "Whether nodes can be updated to this version in place.",
            {
                "supported": flag("Whether they can."),
                "minVersionForUpdate": text(
                    "The lowest version from which they can.", maxLength=63, pattern=_IMAGE_VERSION
                ),
            },
            required=["supported"],
        ),
        "kubeletVersionConstraint": text(
            'The range of kubelet versions that the image works with, e.g. ">= 1.28, < 1.33"; without one, all.',
            maxLength=48,
            rules=[
                rule(
                    f"self.matches(r'{_RANGE}')",
                    'must be a range of versions: write comparisons such as ">= 1.28, < 1.33"',
                )
            ],
        ),
    }
    return record("", fields)


def _container_runtime_interfaces(use: Use) -> Node:
    runtime = record(
        "",
        {
            "type": plain_name("The type of the container runtime, e.g. gvisor."),
            "providerConfig": anything(
                "Configuration for the extension that provides the runtime, passed on as it is."
            ),
        },
    )
    interface = record(
        "",
        {
            "name": text("The name of the interface.", enum=["containerd"]),
            "containerRuntimes": keyed("The container runtimes that it offers.", "type", runtime, most=20),
        },
    )
    node = keyed("The container runtime interfaces of the image.", "name", interface, most=1)
    return {**node, "default": [{"name": "containerd"}]} if use == "profile" else node


def machine_types() -> Node:
    """Return the list of machine types."""
    fields = {
        "name": plain_name("The name of the machine type, e.g. m5.large."),
        "cpu": quantity("The number of CPUs."),
        "gpu": quantity("The number of GPUs."),
        "memory": quantity("The memory, e.g. 16Gi."),
        "architecture": text(
            "The processor architecture. Without one, and without capabilities, it is amd64.", enum=ARCHITECTURES
        ),
        "capabilities": _capabilities("What machines of this type are capable of, by capability."),
        "machineControllerManager": record(
            "Settings for machine-controller-manager.",
            {
                "machineCreationTimeout": text(
                    "How long the creation of a machine may take, e.g. 20m.", maxLength=32, pattern=_DURATION
                )
            },
        ),
        "storage": record(
            "The root volume that comes with the machine type.",
            {
                "class": text("The class of the volume, e.g. standard."),
                "type": text("The type of the volume, e.g. default."),
                "size": quantity("The size, where it is fixed."),
                "minSize": quantity("The lowest size that can be chosen."),
            },
            required=["class", "type"],
            rules=[rule("has(self.size) != has(self.minSize)", "set exactly one of size and minSize")],
        ),
        "usable": flag("Whether new machines of this type can be used.", default=True),
    }
    item = record(
        "",
        fields,
        required=["name", "cpu", "gpu", "memory"],
        rules=[
            rule(
                "!has(self.architecture) || !has(self.capabilities) || !('architecture' in self.capabilities)"
                " || self.capabilities['architecture'] == [self.architecture]",
                "architecture and the capability of that name differ: let them agree, or remove architecture",
                at=".architecture",
            )
        ],
    )
    return keyed("The machine types.", "name", item, most=_MOST_TYPES)


def volume_types() -> Node:
    """Return the list of volume types."""
    fields = {
        "name": plain_name("The name of the volume type, e.g. gp3."),
        "class": plain_name("The class of the volume, e.g. standard or premium."),
        "minSize": quantity("The lowest size of such a volume."),
        "usable": flag("Whether new volumes of this type can be used.", default=True),
    }
    item = record("", fields, required=["name", "class"])
    return keyed("The volume types.", "name", item, most=_MOST_VOLUME_TYPES)


def capability_definitions() -> Node:
    """Return the list that defines the capabilities."""
    fields = {
        "name": plain_name("The name of the capability."),
        "values": listed(
            "The values that it can have, the preferred ones first.",
            plain_name("A value."),
            "atomic",
            minItems=1,
            maxItems=_MOST_CAPABILITY_VALUES,
        ),
    }
    item = record(
        "",
        fields,
        required=["name", "values"],
        rules=[
            rule(
                "!self.name.startsWith('gardener-')",
                "names that begin with gardener- are reserved: choose another one",
                "FieldValueForbidden",
                at=".name",
            ),
            rule(
                f"self.name != 'architecture' || self.values.all(value, value in {ARCHITECTURES})",
                "the values of architecture can only be amd64 and arm64",
                at=".values",
            ),
        ],
    )
    return keyed(
        "The capabilities that images and machine types can have; if there are any, architecture is one.",
        "name",
        item,
        most=_MOST_CAPABILITIES,
        rules=[
            rule(
                "size(self) == 0 || self.exists(capability, capability.name == 'architecture')",
                "where capabilities are defined, architecture must be one: add it with the values amd64, arm64 or both",
                "FieldValueRequired",
            )
        ],
    )


def _capabilities(description: str) -> Node:
    values = listed("The values of the capability.", plain_name("A value."), "atomic", maxItems=_MOST_CAPABILITY_VALUES)
    return mapped(
        description,
        values,
        maxProperties=_MOST_CAPABILITIES,
        rules=[
            rule(
                "!('architecture' in self) || size(self['architecture']) <= 1",
                "there can only be one architecture here: leave the others out, or add a flavor for each of them",
            )
        ],
    )
