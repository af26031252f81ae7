"""Profiles, overrides, Shoots and times to ask Gardener and restow about: few names and days, so that things meet.

All objects are at v1beta1, as Gardener has it: with the gate VersionClassificationLifecycle on, a version may have a
``lifecycle`` there.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any, Final

from hypothesis import strategies as st

from tests.peers.gardener.compared import Scenario

__all__ = [
    "DAY_ONE",
    "bastions",
    "children",
    "cloud_profiles",
    "image_numbers",
    "image_versions",
    "images",
    "kubernetes_versions",
    "leave_out",
    "lifecycles",
    "limits",
    "machine_types",
    "moments",
    "namespaced",
    "numbers",
    "regions",
    "scenarios",
    "shoots",
    "specs",
    "stage_fields",
    "unique",
    "volume_types",
    "window_times",
    "with_capabilities",
    "workers",
]

Document = dict[str, Any]

DAY_ONE: Final = datetime(2030, 1, 1, tzinfo=UTC)
_WRITTEN: Final = ("preview", "supported", "deprecated", "expired")
_days = st.integers(0, 6)

moments = st.integers(-1, 14).map(lambda half_days: DAY_ONE + timedelta(hours=12 * half_days))
"""Half of them are exactly the start of a stage."""


def _day(day: int) -> str:
    return f"2030-01-{day + 1:02}T00:00:00Z"


def _stage(classification: str, day: int | None) -> Document:
    return {"classification": classification} | ({} if day is None else {"startTime": _day(day)})


@st.composite
def lifecycles(draw: st.DrawFn) -> list[Document]:
    """Lifecycles that validation accepts: in order, the first start optional."""
    names = sorted(draw(st.sets(st.sampled_from(_WRITTEN), min_size=1)), key=_WRITTEN.index)
    days: list[int | None] = [*sorted(draw(st.lists(_days, min_size=len(names), max_size=len(names))))]
    if draw(st.booleans()):
        days[0] = None
    return [_stage(name, day) for name, day in zip(names, days, strict=True)]


_broken_lifecycles = st.lists(st.builds(_stage, st.sampled_from(_WRITTEN), st.none() | _days), min_size=1, max_size=3)
_legacy = st.fixed_dictionaries(
    {},
    optional={"classification": st.sampled_from(_WRITTEN[:-1]), "expirationDate": _days.map(_day)},
)


def stage_fields(*, gate: bool, broken: bool) -> st.SearchStrategy[Document]:
    staged = st.integers(0, 11).flatmap(lambda one: _broken_lifecycles if broken and one == 0 else lifecycles())
    with_stages = staged.map(lambda stages: {"lifecycle": stages})
    return _legacy | with_stages if gate else _legacy


numbers = st.sampled_from(["1.30.1", "1.30.2", "1.30.3", "1.31.0", "1.31.1", "1.32.0", "1.33.1", "2.0.0"])
image_numbers = st.sampled_from(["1.0.0", "1.0.1", "1.1.0", "1.1.0+b1", "1.2.0", "2.0.0", "2.1", "3", "1.1.0-foo"])
_architectures = st.lists(st.sampled_from(["amd64", "arm64"]), min_size=1, max_size=2, unique=True)


def _merged(*parts: Document) -> Document:
    return {name: value for part in parts for name, value in part.items()}


def unique(items: st.SearchStrategy[Document], key: str, least: int = 0, most: int = 4) -> Any:
    return st.lists(items, min_size=least, max_size=most, unique_by=lambda item: item[key])


def kubernetes_versions(
    *, gate: bool = True, broken: bool = False, least: int = 0
) -> st.SearchStrategy[list[Document]]:
    """Kubernetes versions; of ``broken`` ones some lifecycles are refused."""
    return unique(
        st.builds(_merged, numbers.map(lambda number: {"version": number}), stage_fields(gate=gate, broken=broken)),
        "version",
        least,
        5,
    )


_runs_on = st.fixed_dictionaries(
    {},
    optional={
        "architectures": _architectures,
        "cri": st.sampled_from(
            [[{"name": "containerd"}], [{"name": "containerd", "containerRuntimes": [{"type": "gvisor"}]}]]
        ),
        "kubeletVersionConstraint": st.sampled_from([">= 1.31", "< 1.32", "1.30.x"]),
        "inPlaceUpdates": st.sampled_from(
            [{"supported": True, "minVersionForUpdate": "1.0.0"}, {"supported": True}, {"supported": False}]
        ),
    },
)


def image_versions(
    *, gate: bool = True, broken: bool = False, least: int = 0, plain: bool = False
) -> st.SearchStrategy[list[Document]]:
    """Versions of a machine image; ``plain`` ones say nothing of what they run on."""
    return unique(
        st.builds(
            _merged,
            image_numbers.map(lambda number: {"version": number}),
            stage_fields(gate=gate, broken=broken),
            st.just({}) if plain else _runs_on,
        ),
        "version",
        least,
    )


def images(versions: st.SearchStrategy[list[Document]], least: int = 0) -> Any:
    image = st.fixed_dictionaries(
        {"name": st.sampled_from(["ubuntu", "suse"]), "versions": versions},
        optional={"updateStrategy": st.sampled_from(["patch", "minor", "major"])},
    )
    return unique(image, "name", least, 2)


machine_types = st.fixed_dictionaries(
    {"name": st.sampled_from(["small", "large"]), "cpu": st.just("2"), "gpu": st.just("0"), "memory": st.just("4Gi")},
    optional={"architecture": st.sampled_from(["amd64", "arm64"]), "usable": st.booleans()},
)
volume_types = st.fixed_dictionaries(
    {"name": st.sampled_from(["fast", "slow"]), "class": st.sampled_from(["standard", "premium"])},
    optional={"usable": st.booleans(), "minSize": st.just("20Gi")},
)
_zones = unique(
    st.fixed_dictionaries(
        {"name": st.sampled_from(["a", "b"])},
        optional={"unavailableMachineTypes": st.just(["large"]), "unavailableVolumeTypes": st.just(["slow"])},
    ),
    "name",
    0,
    2,
)
regions = unique(
    st.fixed_dictionaries(
        {"name": st.sampled_from(["here", "there"])},
        optional={"zones": _zones, "accessRestrictions": st.just([{"name": "eu"}])},
    ),
    "name",
    1,
    2,
)
limits = st.fixed_dictionaries({}, optional={"maxNodesTotal": st.integers(1, 9)})


@st.composite
def specs(draw: st.DrawFn, *, gate: bool = True, broken: bool = False) -> Document:
    """CloudProfile specs; some define capabilities, with what their images and machine types then need."""
    spec = {
        "type": "local",
        "kubernetes": {"versions": draw(kubernetes_versions(gate=gate, broken=broken, least=1))},
        "machineImages": draw(images(image_versions(gate=gate, broken=broken, least=1), 1)),
        "machineTypes": draw(unique(machine_types, "name", 1, 2)),
        "regions": draw(regions),
    }
    if draw(st.booleans()):
        spec["volumeTypes"] = draw(unique(volume_types, "name", 0, 2))
    if draw(st.booleans()):
        spec["limits"] = draw(limits)
    if draw(st.integers(0, 3)) == 0:
        with_capabilities(draw, spec)
    if draw(st.integers(0, 5)) == 0:
        spec["bastion"] = draw(bastions)
    if draw(st.integers(0, 9)) == 0:
        leave_out(draw, spec)
    return spec


def leave_out(draw: st.DrawFn, spec: Document) -> None:
    """Leave out a section of a spec, or all that is in it."""
    name = draw(st.sampled_from(sorted(spec)))
    if isinstance(spec[name], dict) and draw(st.booleans()):
        spec[name] = {"versions": []} if name == "kubernetes" else {}
    elif isinstance(spec[name], list) and draw(st.booleans()):
        spec[name] = []
    else:
        del spec[name]


bastions = st.fixed_dictionaries(
    {"machineType": st.fixed_dictionaries({"name": st.sampled_from(["small", "large"])})},
    optional={
        "machineImage": st.fixed_dictionaries(
            {"name": st.sampled_from(["ubuntu", "suse"])}, optional={"version": image_numbers}
        ),
    },
)


def with_capabilities(draw: st.DrawFn, spec: Document) -> None:
    """Define capabilities, mostly so that everything agrees with them."""
    values = draw(_architectures)
    wrong = ["amd64", "arm64"] if draw(st.integers(0, 7)) == 0 else values
    spec["machineCapabilities"] = [{"name": "architecture", "values": values}]
    for machine_type in spec.get("machineTypes", ()):
        machine_type.pop("architecture", None)
        if len(values) > 1 or draw(st.booleans()):
            machine_type["capabilities"] = {"architecture": [draw(st.sampled_from(wrong))]}
    for image in spec.get("machineImages", ()):
        for version in image["versions"]:
            version.pop("architectures", None)
            if len(values) > 1 or draw(st.booleans()):
                flavors = draw(st.lists(st.sampled_from(wrong), min_size=1, unique=True))
                version["capabilityFlavors"] = [{"architecture": [each]} for each in flavors]


def _object(kind: str, spec: Document, **metadata: str) -> Document:
    return {"apiVersion": "core.gardener.cloud/v1beta1", "kind": kind, "metadata": metadata, "spec": spec}


def cloud_profiles(*, gate: bool = True, broken: bool = False) -> st.SearchStrategy[Document]:
    """CloudProfiles named ``parent``."""
    return specs(gate=gate, broken=broken).map(lambda spec: _object("CloudProfile", spec, name="parent"))


@st.composite
def namespaced(draw: st.DrawFn, *, gate: bool = False, broken: bool = False) -> Document:
    """NamespacedCloudProfiles of ``parent``, sparse or whole, valid or not."""
    spec: Document = {"parent": {"kind": "CloudProfile", "name": "parent"}}
    sparse = image_versions(gate=gate, broken=broken, plain=True)
    whole = image_versions(gate=gate, broken=broken)
    parts: Document = {
        "kubernetes": kubernetes_versions(gate=gate, broken=broken).map(lambda versions: {"versions": versions}),
        "machineImages": images(sparse | whole),
        "machineTypes": unique(machine_types, "name", 0, 2),
        "volumeTypes": unique(volume_types, "name", 0, 2),
        "limits": limits,
    }
    for name, part in parts.items():
        if draw(st.booleans()):
            spec[name] = draw(part)
    if draw(st.integers(0, 15)) == 0:
        leave_out(draw, spec)
    return _object("NamespacedCloudProfile", spec, name="child", namespace="garden-p")


children = namespaced()


_short = st.sampled_from(["", "1", "1.30", "1.31", "1.32", "x"])
_shoot_versions = numbers | numbers | numbers | _short


@st.composite
def workers(draw: st.DrawFn, *, complete: bool) -> Document:
    image: Document = {"name": draw(st.sampled_from(["ubuntu", "suse"]))}
    if complete or draw(st.booleans()):
        image["version"] = draw(image_numbers)
    machine: Document = {
        "type": draw(st.sampled_from(["small", "large", "huge"] if not complete else ["small", "large"]))
    }
    if complete or draw(st.integers(0, 2)):
        machine["image"] = image
    if complete or draw(st.booleans()):
        machine["architecture"] = draw(st.sampled_from(["amd64", "amd64", "arm64"]))
    minimum = draw(st.integers(0, 3))
    worker: Document = {
        "name": draw(st.sampled_from(["w1", "w2"])),
        "machine": machine,
        "minimum": minimum,
        "maximum": minimum + draw(st.integers(1, 3)),
        "maxSurge": 1,
        "maxUnavailable": 0,
    }
    if draw(st.integers(0, 3)) == 0:
        worker["kubernetes"] = {"version": draw(numbers)}
    if draw(st.booleans()):
        worker["volume"] = {"size": "50Gi", "type": draw(st.sampled_from(["fast", "slow", "odd"]))}
    if draw(st.booleans()):
        worker["zones"] = draw(st.lists(st.sampled_from(["a", "b", "c"]), max_size=2, unique=True))
    if draw(st.integers(0, 3)) == 0:
        worker["cri"] = {"name": "containerd", "containerRuntimes": [{"type": "gvisor"}]}
    if draw(st.integers(0, 5)) == 0:
        worker["updateStrategy"] = draw(
            st.sampled_from(["AutoRollingUpdate", "AutoInPlaceUpdate", "ManualInPlaceUpdate"])
        )
    return worker


@st.composite
def shoots(draw: st.DrawFn, *, complete: bool = False) -> Document:
    """Shoots of ``parent`` with one or two worker pools; ``complete`` ones leave nothing open."""
    spec: Document = {
        "cloudProfile": {"kind": "CloudProfile", "name": "parent"},
        "region": draw(st.sampled_from(["here", "there"])),
        "kubernetes": {"version": draw(numbers if complete else _shoot_versions)},
        "networking": {"type": "calico", "nodes": "10.250.0.0/16"},
        "provider": {"type": "local", "workers": draw(unique(workers(complete=complete), "name", 1, 2))},
    }
    if draw(st.booleans()):
        spec["maintenance"] = {
            "autoUpdate": {"kubernetesVersion": draw(st.booleans()), "machineImageVersion": draw(st.booleans())}
        }
    return _object("Shoot", spec, name="s", namespace="garden-p")


window_times = st.builds(
    "{:02}{:02}{:02}{}{}".format,
    st.integers(0, 24),
    st.sampled_from([0, 15, 30, 45, 59, 60]),
    st.sampled_from([0, 0, 0, 30, 59, 60]),
    st.sampled_from("+-"),
    st.sampled_from(["0000", "0100", "0530", "1400", "2300", "2359", "2400", "0060", "9900", "100", "Z"]),
) | st.sampled_from(["", "22:00:00+0100", "220000", "220000Z", " 220000+0100"])
"""Times of a window, well formed or not."""


@st.composite
def scenarios(draw: st.DrawFn) -> Scenario:
    """Everything that the two are asked about, in one world."""
    gate = draw(st.booleans())
    profile = draw(cloud_profiles(gate=gate, broken=True))
    return Scenario(
        profile=profile,
        child=draw(children),
        shoot=draw(shoots()),
        running=draw(shoots(complete=True)),
        current=draw(numbers),
        begin=draw(window_times),
        end=draw(window_times),
        now=draw(moments),
    )
