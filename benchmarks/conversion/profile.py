"""The kind that restow and controller-runtime both convert: a dense profile of cloud versions, 7.7 kB.

The kind is modelled on Gardener's CloudProfile: at v1 each version of Kubernetes and of a machine image has a
classification and an expiration date, at v2 a list of lifecycle stages. Functions convert the sixty versions of an
object. ``benchmarks/peers/controllerruntime`` has the same kind as Go types, with the same conversion.
"""

from __future__ import annotations

from typing import Any

from benchmarks.conversion.kinds import GROUP, Json, Workload, crd_of, keyed, struct, whole
from restow.conversion import ABSENT, Graph, Registry, rules

__all__ = ["PROFILE", "profile_graph", "profile_object"]

_TEXT: Json = {"type": "string"}
_STAGE: Json = struct(classification=_TEXT, startTime=_TEXT)
_LIFECYCLE: Json = {"type": "array", "items": _STAGE}
_TEXTS: Json = {"type": "array", "items": _TEXT}
_ZONES: Json = {"type": "array", "items": struct(name=_TEXT)}

_CONDITION: Json = struct(type=_TEXT, status=_TEXT, reason=_TEXT, lastTransitionTime=_TEXT)


def _schema(fields: Json) -> Json:
    versions = keyed(struct(version=_TEXT, **fields), "version")
    image_versions = keyed(struct(version=_TEXT, **fields, architectures=_TEXTS), "version")
    return struct(
        status=struct(observedGeneration={"type": "integer"}, conditions={"type": "array", "items": _CONDITION}),
        spec=struct(
            kubernetes=struct(versions=versions),
            machineImages=keyed(struct(name=_TEXT, updateStrategy=_TEXT, versions=image_versions), "name"),
            machineTypes={
                "type": "array",
                "items": struct(name=_TEXT, architecture=_TEXT, cpu=_TEXT, memory=_TEXT, usable={"type": "boolean"}),
            },
            regions={"type": "array", "items": struct(name=_TEXT, zones=_ZONES)},
        ),
    )


PROFILE_CRD = crd_of(
    "Profile", _schema({"classification": _TEXT, "expirationDate": _TEXT}), _schema({"lifecycle": _LIFECYCLE})
)


def _lifecycle(fields: Json) -> Any:
    classification, expiration = fields.get("classification"), fields.get("expirationDate")
    if not classification and not expiration:
        return ABSENT
    stages = [{"classification": classification or "supported"}]
    if expiration:
        stages.append({"classification": "expired", "startTime": expiration})
    return stages


def _fields(lifecycle: Any) -> Json:
    found: Json = {}
    for stage in lifecycle if isinstance(lifecycle, list) else ():
        if stage.get("classification") == "expired":
            found["expirationDate"] = stage.get("startTime", "")
        else:
            found["classification"] = stage.get("classification", "")
    return found


def profile_graph() -> Graph:
    """Return the conversions of the profile: functions for each version's fields, checked in both directions."""
    version = rules.pair(("classification", "expirationDate"), "lifecycle", up=_lifecycle, down=_fields, loses="both")
    registry = Registry()
    registry.kind(GROUP, "Profile", hub="v2").spoke("v1")(
        lambda: [
            rules.each("spec.kubernetes.versions", [version]),
            rules.each("spec.machineImages", [rules.each("versions", [version])]),
        ]
    )
    return registry.freeze([PROFILE_CRD])


_CLASSIFICATIONS = ("preview", "supported", "deprecated")


def _version(name: str, number: int) -> Json:
    expiration = {"expirationDate": f"2027-{number % 12 + 1:02}-28T00:00:00Z"} if number % 3 == 0 else {}
    return {"version": name, "classification": _CLASSIFICATIONS[number % 3 - 2], **expiration}


def profile_object(number: int, _size: int = 0) -> Json:
    """Return an object at v1; all have the same size."""
    spec = {
        "kubernetes": {"versions": [_version(f"1.{30 + index // 4}.{index % 4}", index) for index in range(20)]},
        "machineImages": [
            {
                "name": name,
                "updateStrategy": "minor",
                "versions": [
                    {**_version(f"{1500 + index}.{number % 10}.0", index), "architectures": ["amd64", "arm64"]}
                    for index in range(10)
                ],
            }
            for name in ("gardenlinux", "ubuntu", "suse-chost", "flatcar")
        ],
        "machineTypes": [
            {
                "name": f"m{size}.large",
                "architecture": "amd64",
                "cpu": f"{size}",
                "memory": f"{size * 4}Gi",
                "usable": True,
            }
            for size in (2, 4, 8, 16, 32, 48)
        ],
        "regions": [
            {"name": f"region-{index}", "zones": [{"name": f"region-{index}{zone}"} for zone in "abc"]}
            for index in range(3)
        ],
    }
    return whole("Profile", number, spec, 3_000)


PROFILE_GRAPH = profile_graph()
PROFILE = Workload(
    "profile",
    "60 versions, each converted by functions",
    "benchmarks.conversion.profile:PROFILE_GRAPH",
    PROFILE_CRD,
    profile_graph,
    profile_object,
)
