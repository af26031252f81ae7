"""The rows of the table of differences, each with the smallest example: what Gardener says, and what restow says.

A row's function returns the two answers; its name, with dashes, is the row's in docs/peers.md.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, Final

from tests.cloudprofile.served import Answer
from tests.peers.gardener import ours
from tests.peers.gardener.asking import Gardener, Panicked
from tests.peers.gardener.compared import fields
from tests.peers.gardener.drawn import DAY_ONE

__all__ = ["ROWS"]

Document = dict[str, Any]
Row = Callable[[Gardener], tuple[Any, Any]]

NOW: Final = DAY_ONE + timedelta(days=2)
PAST, SOON, LATER = "2030-01-02T00:00:00Z", "2030-01-05T00:00:00Z", "2030-01-09T00:00:00Z"
ROWS: Final[dict[str, tuple[Row, Any, Any]]] = {}
"""The rows by name: the function, what Gardener answers, and what restow answers."""


def row(gardener: Any, restow: Any) -> Callable[[Row], Row]:
    """Declare a row."""

    def declared(function: Row) -> Row:
        ROWS[function.__name__.replace("_", "-")] = (function, gardener, restow)
        return function

    return declared


def stages(*named: str) -> list[Document]:
    """Return a lifecycle of ``supported`` or ``expired 2030-…``."""
    parts = [each.partition(" ") for each in named]
    return [{"classification": name} | ({"startTime": start} if start else {}) for name, _, start in parts]


def profile(*versions: Document, **spec: Any) -> Document:
    """Return a CloudProfile that both accept."""
    whole = {
        "type": "local",
        "kubernetes": {"versions": list(versions or ({"version": "1.31.0"},))},
        "machineImages": [{"name": "ubuntu", "versions": [{"version": "1.0.0"}]}],
        "machineTypes": [{"name": "small", "cpu": "2", "gpu": "0", "memory": "4Gi"}],
        "volumeTypes": [{"name": "fast", "class": "standard"}],
        "regions": [{"name": "here"}],
        **spec,
    }
    return _object("CloudProfile", whole, name="parent")


def child(**spec: Any) -> Document:
    """Return a NamespacedCloudProfile."""
    parent = {"kind": "CloudProfile", "name": "parent"}
    return _object("NamespacedCloudProfile", {"parent": parent, **spec}, name="child", namespace="garden-p")


def shoot(version: str = "1.31.0", **machine: Any) -> Document:
    """Return a Shoot with one pool."""
    pool = {
        "name": "w",
        "machine": {"type": "small", "image": {"name": "ubuntu", "version": "1.0.0"}, **machine},
        "minimum": 1,
        "maximum": 2,
        "maxSurge": 1,
        "maxUnavailable": 0,
        "volume": {"type": "fast", "size": "50Gi"},
    }
    spec = {
        "cloudProfile": {"kind": "CloudProfile", "name": "parent"},
        "region": "here",
        "kubernetes": {"version": version},
        "networking": {"type": "calico", "nodes": "10.250.0.0/16"},
        "provider": {"type": "local", "workers": [pool]},
    }
    return _object("Shoot", spec, name="s", namespace="garden-p")


def _object(kind: str, spec: Document, **metadata: str) -> Document:
    return {"apiVersion": "core.gardener.cloud/v1beta1", "kind": kind, "metadata": metadata, "spec": spec}


def kept_by(gardener: Gardener, new: Document, old: Document, *world: Document, now: datetime = NOW) -> tuple[Any, Any]:
    """Return whether each refuses to replace a profile for what others use."""
    kinds = {"profiles": "CloudProfile", "namespaced": "NamespacedCloudProfile", "shoots": "Shoot"}
    given = {name: [each for each in world if each["kind"] == kind] for name, kind in kinds.items()}
    said = gardener.ask("protect", {"kind": new["kind"], "new": new, "old": old, **given}, now)
    return bool(said["code"]), not ours.sent(new, old, world, now).allowed


def _of_gardener(said: Document) -> list[tuple[str, str]]:
    return sorted(fields(said)) if said["code"] else []


def _of_restow(answer: Answer) -> list[tuple[str, str]]:
    return sorted(ours.reasons(answer))


def judged(gardener: Gardener, new: Document, old: Document | None = None, now: datetime = NOW) -> tuple[Any, Any]:
    """Return both verdicts on a CloudProfile, as the reasons to refuse it."""
    said = gardener.ask("profile", {"new": new, "old": old, "whole": True}, now)
    return _of_gardener(said), _of_restow(ours.sent(new, old, [], now))


def admitted(gardener: Gardener, new: Document, parent: Document, old: Document | None = None) -> tuple[Any, Any]:
    """Return both verdicts on a NamespacedCloudProfile."""
    said = gardener.ask("namespaced", {"new": new, "old": old, "parent": parent, "whole": True}, NOW)
    return _of_gardener(said) or said["said"], _of_restow(ours.sent(new, old, [parent], NOW))


def made(gardener: Gardener, new: Document, parent: Document, old: Document | None = None) -> tuple[Any, Any]:
    """Return both verdicts on a Shoot."""
    said = gardener.ask("shoot", {"new": new, "old": old, "profiles": [parent]}, NOW)
    return _of_gardener(said), _of_restow(ours.sent(new, old, [parent], NOW))


@row("preview", "supported")
def start_counts(gardener: Gardener) -> tuple[Any, Any]:
    """A stage begins at its startTime."""
    spec = profile({"version": "1.31.0", "lifecycle": stages("preview", f"supported {NOW:%Y-%m-%dT%H:%M:%SZ}")})["spec"]
    return gardener.ask("lifecycle", spec, NOW)["kubernetes"][0], ours.lifecycle(spec, NOW)["kubernetes"][0]


@row(SOON, None)
def next_change(gardener: Gardener) -> tuple[Any, Any]:
    """A profile is looked at again when a classification changes, not when a stage begins that another one hides."""
    spec = profile({"version": "1.31.0", "lifecycle": stages(f"deprecated {SOON}", "supported")})["spec"]
    return gardener.ask("lifecycle", spec, NOW)["next"], ours.lifecycle(spec, NOW)["next"]


@row("1.30.2", "1.30.1")
def unavailable_target(gardener: Gardener) -> tuple[Any, Any]:
    """A version that is not available yet is no target of an update."""
    versions = [
        {"version": "1.30.0", "expirationDate": PAST},
        {"version": "1.30.1"},
        {"version": "1.30.2", "lifecycle": stages(f"supported {LATER}")},
    ]
    given = {"versions": versions, "current": "1.30.0"}
    return gardener.ask("targets", given, NOW)["patch"], ours.targets(versions, "1.30.0", NOW)["patch"]


@row("1.31.2", "1.31.1")
def supported_first(gardener: Gardener) -> tuple[Any, Any]:
    """A forced update prefers a supported version of the next minor to a newer deprecated one."""
    versions = [
        {"version": "1.30.0", "expirationDate": PAST},
        {"version": "1.31.1", "classification": "supported"},
        {"version": "1.31.2", "classification": "deprecated"},
    ]
    name = "consecutive minor"
    given = {"versions": versions, "current": "1.30.0"}
    return gardener.ask("targets", given, NOW)[name], ours.targets(versions, "1.30.0", NOW)[name]


@row("1.30.0", "1.31.0")
def worker_above(gardener: Gardener) -> tuple[Any, Any]:
    """No update goes down."""
    running, parent = shoot("1.30.0", architecture="amd64"), profile({"version": "1.30.0"}, {"version": "1.32.0"})
    running["spec"]["provider"]["workers"][0]["kubernetes"] = {"version": "1.31.0"}
    said = gardener.ask("maintain", {"shoot": running, "profile": parent}, NOW)["spec"]
    found = ours.maintained(running, parent, NOW)["spec"]
    one, other = (each["provider"]["workers"][0]["kubernetes"]["version"] for each in (said, found))
    return one, other


@row(False, True)
def window_tail(gardener: Gardener) -> tuple[Any, Any]:
    """A maintenance window lasts until its end."""
    at = NOW + timedelta(hours=1, minutes=50)
    times = {"begin": "010000+0000", "end": "020000+0000"}
    return gardener.ask("window", times, at)["inside"], ours.window(times["begin"], times["end"], at)


@row([], None)
def window_offset(gardener: Gardener) -> tuple[Any, Any]:
    """Offsets that no place on earth has are refused."""
    times = {"begin": "010000+2300", "end": "020000+2300"}
    return gardener.ask("window", times, NOW)["findings"], ours.window(times["begin"], times["end"], NOW)


@row([("Invalid", "spec.kubernetes.versions[].expirationDate")], [])
def latest_expires(gardener: Gardener) -> tuple[Any, Any]:
    """The latest Kubernetes version may expire; the gap is a warning."""
    return judged(gardener, profile({"version": "1.31.0", "expirationDate": LATER}))


@row([], ["1.30.0", "1.31.0"])
def drop_on_create(gardener: Gardener) -> tuple[Any, Any]:
    """Nothing is dropped in silence."""
    new = profile({"version": "1.30.0", "expirationDate": PAST}, {"version": "1.31.0"})
    new["spec"]["kubernetes"]["versions"][1]["lifecycle"] = stages(f"supported {SOON}")
    new["spec"]["kubernetes"]["versions"].append({"version": "1.29.0"})
    said = gardener.ask("profile", {"new": new}, NOW)["object"]["spec"]["kubernetes"]["versions"]
    stored = ours.sent(new, None, [], NOW).stored
    assert stored is not None
    kept = [[each["version"] for each in listed] for listed in (said, stored["spec"]["kubernetes"]["versions"])]
    return [each for each in kept[0] if each != "1.29.0"], [each for each in kept[1] if each != "1.29.0"]


@row([[], []], [["1.1.0"], [("Invalid", "spec.machineImages[].versions[].expirationDate")]])
def drop_of_projects(gardener: Gardener) -> tuple[Any, Any]:
    """A project's expired version is not dropped in silence, neither from a new profile nor from a changed one."""
    version = {"version": "1.1.0", "expirationDate": PAST, "cri": [{"name": "containerd"}], "architectures": ["amd64"]}
    new, parent = child(machineImages=[{"name": "ubuntu", "versions": [version]}]), profile()
    asked = ({"new": new, "old": old, "parent": parent} for old in (None, child()))
    said = [gardener.ask("namespaced", each, NOW)["object"]["spec"].get("machineImages", []) for each in asked]
    stored = ours.sent(new, None, [parent], NOW).stored
    assert stored is not None
    (image,) = stored["spec"]["machineImages"]
    refused = _of_restow(ours.sent(new, child(), [parent], NOW))
    return said, [[each["version"] for each in image["versions"]], refused]


@row([("Required", f"spec.{name}") for name in ("machineImages", "machineTypes", "regions", "type")], [])
def sections_left_out(gardener: Gardener) -> tuple[Any, Any]:
    """A profile may consist of versions alone, as in GEP-32, or have no regions, as in GEP-25."""
    new = profile()
    new["spec"] = {"kubernetes": new["spec"]["kubernetes"]}
    return judged(gardener, new)


@row([("NotSupported", "spec.parent.kind"), ("Required", "spec.parent.name")], [])
def parent_left_out(gardener: Gardener) -> tuple[Any, Any]:
    """A NamespacedCloudProfile may come without parent, as in GEP-32."""
    new = child()
    del new["spec"]["parent"]
    return admitted(gardener, new, profile())


@row([("Invalid", "spec.bastion.machineImage.version")], [])
def unchanged_spec(gardener: Gardener) -> tuple[Any, Any]:
    """An update that leaves the spec is admitted, whatever time has done to it."""
    image = {"version": "1.0.0", "classification": "supported", "expirationDate": PAST}
    old = profile(
        machineImages=[{"name": "ubuntu", "versions": [image]}],
        bastion={"machineImage": {"name": "ubuntu", "version": "1.0.0"}},
    )
    return judged(gardener, {**old, "metadata": {"name": "parent", "labels": {"a": "b"}}}, old)


@row(
    [
        ("NotSupported", "spec.machineImages[].versions[].architectures[]"),
        ("NotSupported", "spec.machineImages[].versions[].capabilityFlavors[].architecture[]"),
    ],
    [("NotSupported", "spec.machineImages[].versions[].capabilityFlavors[].architecture[]")],
)
def named_once(gardener: Gardener) -> tuple[Any, Any]:
    """An undefined architecture is named where it was written, not where it would be filled in as well."""
    defined = {"machineCapabilities": [{"name": "architecture", "values": ["amd64"]}]}
    images = [
        {"name": "ubuntu", "versions": [{"version": "1.0.0", "capabilityFlavors": [{"architecture": ["arm64"]}]}]}
    ]
    return judged(gardener, profile(**defined, machineImages=images), profile(**defined))


@row([("Forbidden", "spec.machineImages[].updateStrategy")], [])
def strategy_override(gardener: Gardener) -> tuple[Any, Any]:
    """A project may change its mind about the update strategy of its parent's image."""
    new, old = (child(machineImages=[{"name": "ubuntu", "updateStrategy": each}]) for each in ("patch", "minor"))
    return admitted(gardener, new, profile(), old)


@row([("Invalid", "spec.provider.workers[].machine.image")], [])
def kept_kubelet(gardener: Gardener) -> tuple[Any, Any]:
    """A worker pool keeps its image and its kubelet, whatever its profile says of both by now."""
    image = {"version": "1.0.0", "kubeletVersionConstraint": ">= 1.32"}
    parent = profile(machineImages=[{"name": "ubuntu", "versions": [image]}])
    new, old = shoot(architecture="amd64"), shoot(architecture="amd64")
    new["spec"]["provider"]["workers"][0]["maximum"] = 3
    return made(gardener, new, parent, old)


@row("panic", [])
def type_gone(gardener: Gardener) -> tuple[Any, Any]:
    """A Shoot on a machine type that its profile no longer lists can be changed, in a profile with capabilities too."""
    defined = [{"name": "architecture", "values": ["amd64"]}]
    types = [{"name": "large", "cpu": "2", "gpu": "0", "memory": "4Gi"}]
    parent = profile({"version": "1.31.0"}, {"version": "1.31.1"}, machineCapabilities=defined, machineTypes=types)
    new, old = shoot("1.31.1", architecture="amd64"), shoot(architecture="amd64")
    found = _of_restow(ours.sent(new, old, [parent], NOW))
    try:
        return _of_gardener(gardener.ask("shoot", {"new": new, "old": old, "profiles": [parent]}, NOW)), found
    except Panicked:
        return "panic", found


@row([("Required", "spec.kubernetes.versions[].lifecycle[]")], [])
def leading_starts(gardener: Gardener) -> tuple[Any, Any]:
    """Several leading stages may do without a start."""
    return judged(gardener, profile({"version": "1.31.0", "lifecycle": stages("preview", "supported")}))


@row([("NotSupported", "spec.kubernetes.versions[].lifecycle[].classification")], [])
def unavailable_written(gardener: Gardener) -> tuple[Any, Any]:
    """``unavailable`` can be written."""
    lifecycle = stages("unavailable", f"supported {LATER}")
    return judged(gardener, profile({"version": "1.31.0"}, {"version": "1.30.0", "lifecycle": lifecycle}))


@row([], [("Forbidden", "spec.kubernetes.versions[]")])
def policy_order(gardener: Gardener) -> tuple[Any, Any]:
    """A preview is the latest patch of its minor, and no supported version is above it."""
    return judged(
        gardener,
        profile(
            {"version": "1.31.0", "classification": "preview"}, {"version": "1.31.1", "classification": "deprecated"}
        ),
    )


@row([], [("Forbidden", "spec.kubernetes.versions[]")])
def supported_once(gardener: Gardener) -> tuple[Any, Any]:
    """At most one version of a minor is supported, however that is written."""
    lifecycle = stages("supported")
    versions = ({"version": each, "lifecycle": lifecycle} for each in ("1.31.0", "1.31.1"))
    return judged(gardener, profile(*versions))


@row([("Invalid", "spec.bastion.machineImage.name")], [])
def bastion_unclassified(gardener: Gardener) -> tuple[Any, Any]:
    """A version without classification is supported, for a bastion as well."""
    return judged(gardener, profile(bastion={"machineImage": {"name": "ubuntu"}}))


@row([], [("Invalid", "spec.bastion.machineImage.name")])
def bastion_architecture(gardener: Gardener) -> tuple[Any, Any]:
    """An image that names its architecture has that one alone, whichever others the profile knows."""
    amd64, arm64 = {"architecture": ["amd64"]}, {"architecture": ["arm64"]}
    image = {"version": "1.0.0", "classification": "supported", "capabilityFlavors": [arm64]}
    return judged(
        gardener,
        profile(
            machineCapabilities=[{"name": "architecture", "values": ["amd64", "arm64"]}],
            machineTypes=[{"name": "large", "cpu": "2", "gpu": "0", "memory": "4Gi", "capabilities": amd64}],
            machineImages=[{"name": "ubuntu", "versions": [image]}],
            bastion={"machineType": {"name": "large"}, "machineImage": {"name": "ubuntu"}},
        ),
    )


@row([], [("Forbidden", "spec.kubernetes.versions")])
def delete_expired(gardener: Gardener) -> tuple[Any, Any]:
    """A version that can be used is not deleted."""
    return judged(gardener, profile(), profile({"version": "1.31.0"}, {"version": "1.30.0"}))


@row([], [("Duplicate", "spec.kubernetes.versions[].version")])
def leading_zeros(gardener: Gardener) -> tuple[Any, Any]:
    """1.30.1 and 1.30.01 are one version."""
    return judged(gardener, profile({"version": "1.30.1"}, {"version": "1.31.0"}, {"version": "1.30.01"}))


@row([], [("Forbidden", "spec.kubernetes.versions[]")])
def past_on_update(gardener: Gardener) -> tuple[Any, Any]:
    """No update gives a version an expiration in the past."""
    new = profile({"version": "1.31.0"}, {"version": "1.30.0", "expirationDate": PAST})
    return judged(gardener, new, profile({"version": "1.31.0"}, {"version": "1.30.0"}))


@row("specified version '1.30.0' does not set expiration date", [])
def override_of_stages(gardener: Gardener) -> tuple[Any, Any]:
    """A project may move the stages of its parent's versions."""
    parent = profile(
        {"version": "1.30.0", "lifecycle": stages("preview", f"supported {SOON}")},
        {"version": "1.31.0"},
    )
    moved = {"version": "1.30.0", "lifecycle": stages(f"supported {LATER}")}
    return admitted(gardener, child(kubernetes={"versions": [moved]}), parent)


@row([{"version": "1.30.0"}], [{"version": "1.30.0", "expirationDate": LATER, "classification": "supported"}])
def override_says_nothing(gardener: Gardener) -> tuple[Any, Any]:
    """An override that says nothing changes nothing."""
    parent = profile({"version": "1.30.0", "expirationDate": LATER})
    given = child(kubernetes={"versions": [{"version": "1.30.0"}]})
    said = gardener.ask("render", {"parent": parent, "child": given}, NOW)
    found = _object("CloudProfile", ours.merged(parent, given), name="rendered")
    shown = ours.at_version({**found, "apiVersion": "core.gardener.cloud/v1beta2"}, "v1beta1")
    return said["kubernetes"]["versions"], shown["spec"]["kubernetes"]["versions"]


@row([("Required", "status.cloudProfileSpec.machineImages[].versions[].cri")], [])
def own_version_sparse(gardener: Gardener) -> tuple[Any, Any]:
    """A project's own version of its parent's image may leave out what has a default."""
    images = [{"name": "ubuntu", "versions": [{"version": "1.1.0", "expirationDate": LATER}]}]
    return admitted(gardener, child(machineImages=images), profile())


@row([("Invalid", "spec.provider.workers[].machine.image")], [])
def default_active(gardener: Gardener) -> tuple[Any, Any]:
    """What a Shoot leaves open becomes a version that it can have."""
    versions = [{"version": "1.0.0"}, {"version": "1.1.0", "expirationDate": PAST}]
    parent = profile(machineImages=[{"name": "ubuntu", "versions": versions}])
    return made(gardener, shoot(image={"name": "ubuntu"}), parent)


@row([("Invalid", "spec.provider.workers[]")], [])
def default_fitting(gardener: Gardener) -> tuple[Any, Any]:
    """A pool that names no image gets the first one that its machine type can run."""
    arm = {"name": "small", "cpu": "2", "gpu": "0", "memory": "4Gi", "architecture": "arm64"}
    images = [
        {"name": "ubuntu", "versions": [{"version": "1.0.0"}]},
        {"name": "suse", "versions": [{"version": "1.0.0", "architectures": ["arm64"]}]},
    ]
    user = shoot()
    del user["spec"]["provider"]["workers"][0]["machine"]["image"]
    return made(gardener, user, profile(machineTypes=[arm], machineImages=images))


@row([], [("NotSupported", "spec.kubernetes.version")])
def unavailable_version(gardener: Gardener) -> tuple[Any, Any]:
    """A Shoot cannot be moved to a Kubernetes version that is not available yet."""
    coming = {"version": "1.31.1", "lifecycle": stages(f"supported {LATER}")}
    old = shoot()
    return made(gardener, shoot("1.31.1"), profile({"version": "1.31.0"}, coming), copy.deepcopy(old))


@row(False, True)
def kubelet_protected(gardener: Gardener) -> tuple[Any, Any]:
    """A Kubernetes version that a worker pool runs is in use."""
    user = shoot()
    user["spec"]["provider"]["workers"][0]["kubernetes"] = {"version": "1.30.0"}
    return kept_by(
        gardener, profile(), profile({"version": "1.31.0"}, {"version": "1.30.0", "expirationDate": PAST}), user
    )


@row(False, True)
def capability_values(gardener: Gardener) -> tuple[Any, Any]:
    """An architecture that a project's machine type has is in use, as long as there are capabilities."""
    flavors = [{"architecture": ["amd64"]}]
    images = [{"name": "ubuntu", "versions": [{"version": "1.0.0", "capabilityFlavors": flavors}]}]
    types = [{"name": "small", "cpu": "2", "gpu": "0", "memory": "4Gi", "capabilities": {"architecture": ["amd64"]}}]
    own = [{**types[0], "name": "own", "capabilities": {"architecture": ["arm64"]}}]
    new, old = (
        profile(
            machineCapabilities=[{"name": "architecture", "values": values}], machineImages=images, machineTypes=types
        )
        for values in (["amd64"], ["amd64", "arm64"])
    )
    return kept_by(gardener, new, old, child(machineTypes=own))


@row(False, True)
def limit_of_parent(gardener: Gardener) -> tuple[Any, Any]:
    """A project that gives up its own limit has its parent's, which its Shoots must keep."""
    user = shoot()
    user["spec"]["cloudProfile"] = {"kind": "NamespacedCloudProfile", "name": "child"}
    user["spec"]["provider"]["workers"][0] |= {"minimum": 5, "maximum": 6}
    types = [{"name": "own", "cpu": "2", "gpu": "0", "memory": "4Gi"}]
    old = child(limits={"maxNodesTotal": 9}, machineTypes=types)
    return kept_by(gardener, child(machineTypes=types), old, profile(limits={"maxNodesTotal": 3}), user)


@row(False, True)
def stage_protected(gardener: Gardener) -> tuple[Any, Any]:
    """A stage that a project overrides stays in its parent."""
    override = child(kubernetes={"versions": [{"version": "1.30.0", "expirationDate": LATER}]})
    old = profile({"version": "1.31.0"}, {"version": "1.30.0", "expirationDate": SOON})
    return kept_by(gardener, profile({"version": "1.31.0"}, {"version": "1.30.0"}), old, override)


@row(False, True)
def extension_withdrawn(gardener: Gardener) -> tuple[Any, Any]:
    """An extension in use cannot be shortened so that the version expires at once."""
    user = shoot("1.30.0")
    user["spec"]["cloudProfile"] = {"kind": "NamespacedCloudProfile", "name": "child"}
    parent = profile({"version": "1.31.0"}, {"version": "1.30.0", "expirationDate": PAST})
    new, old = (child(kubernetes={"versions": [{"version": "1.30.0", "expirationDate": end}]}) for end in (PAST, LATER))
    return kept_by(gardener, new, old, parent, user)


@row(True, False)
def profile_gone(gardener: Gardener) -> tuple[Any, Any]:
    """A Shoot can leave a profile that does not exist any more."""
    old, new = shoot(), shoot()
    new["spec"]["cloudProfile"] = {"kind": "NamespacedCloudProfile", "name": "child"}
    family = [{**child(), "status": {"cloudProfileSpec": profile()["spec"]}}]
    said = gardener.ask("move", {"new": new, "old": old, "namespaced": family}, NOW)
    return bool(said["code"]), not ours.sent(new, old, family, NOW).allowed


@row("new shoot can only specify either cloudProfileName or cloudProfile reference", [])
def both_names(gardener: Gardener) -> tuple[Any, Any]:
    """A new Shoot may name its profile in both fields, since clients of v1beta1 read both."""
    new = shoot()
    new["spec"]["cloudProfileName"] = "parent"
    said = gardener.ask("shoot", {"new": new, "profiles": [profile()]}, NOW)["said"]
    return said, made(gardener, new, profile())[1]


@row([("Forbidden", "spec.provider.workers[].kubernetes.version")], "more")
def static_first(gardener: Gardener) -> tuple[Any, Any]:
    """A refusal names all that is wrong, of the Shoot itself and against its profile."""
    new = shoot()
    new["spec"]["region"] = "away"
    new["spec"]["provider"]["workers"][0]["kubernetes"] = {"version": "1.32.0"}
    said, found = made(gardener, new, profile())
    return said, "more" if set(said) < set(found) else found


@row(
    [("Duplicate", "spec.kubernetes.versions[].lifecycle[].classification")],
    [("Duplicate", "spec.kubernetes.versions[].lifecycle[]")],
)
def schema_first(gardener: Gardener) -> tuple[Any, Any]:
    """What a schema can say the API server says, in its own words, before admission is asked."""
    lifecycle = stages("supported", f"supported {LATER}")
    return judged(gardener, profile({"version": "1.31.0", "lifecycle": lifecycle}))
