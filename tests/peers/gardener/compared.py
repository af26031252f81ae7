"""Gardener and restow asked the same, function by function: what they differ in, but for the rows of the table.

Each function yields differences as (label, details). A row of the table in docs/peers.md is taken into account
where it applies, and nowhere else: by asking Gardener what the row does not concern (a microsecond later, without the
versions that are not available yet), or by leaving out a finding that the row names.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from restow.cloudprofile.capabilities import defaulted, fill_architectures
from restow.cloudprofile.findings import FindingType
from restow.cloudprofile.objects import image_versions, kubernetes_versions, machine_images
from restow.cloudprofile.versions.semver import parse
from tests.cloudprofile.served import Answer
from tests.peers.gardener import ours
from tests.peers.gardener.asking import Gardener

__all__ = [
    "TICK",
    "Difference",
    "Scenario",
    "clean",
    "differences",
    "fields",
    "is_of_schema",
    "judged",
    "judged_child",
    "judged_shoot",
    "maintained",
    "rendered",
    "sparse",
    "unequal",
]

Document = dict[str, Any]
Finding = tuple[str, str]


@dataclass(frozen=True)
class Scenario:
    """What is asked about.

    Attributes:
        profile: a CloudProfile, perhaps refused.
        child: a NamespacedCloudProfile of it, without lifecycles.
        shoot: a Shoot of it, which may leave things open.
        running: a Shoot of it that leaves nothing open.
        current: a Kubernetes version.
        begin, end: a maintenance window.
        now: the time.
    """

    profile: Document
    child: Document
    shoot: Document
    running: Document
    current: str
    begin: str
    end: str
    now: datetime


@dataclass(frozen=True)
class Difference:
    """One thing in which the two differ."""

    label: str
    gardener: Any
    restow: Any


def differences(gardener: Gardener, asked: Scenario) -> Iterator[Difference]:
    """Yield everything in which the two differ about a scenario, and no row of the table explains."""
    yield from _lifecycle(gardener, asked)
    yield from _targets(gardener, asked)
    yield from _window(gardener, asked)
    yield from rendered(gardener, asked.profile, asked.child, asked.now)
    accepted = yield from judged(gardener, asked.profile, None, asked.now)
    if accepted is not None:
        yield from _namespaced(gardener, asked, accepted)
        yield from judged_shoot(gardener, asked.shoot, None, asked.profile, accepted, asked.now)
        yield from maintained(gardener, asked.running, asked.profile, asked.now)


TICK: Final = timedelta(microseconds=1)  # of the row start-counts: what begins now, Gardener sees in a moment


def _lifecycle(gardener: Gardener, asked: Scenario) -> Iterator[Difference]:
    spec = asked.profile["spec"]
    said = gardener.ask("lifecycle", spec, asked.now + TICK)
    said["next"] = _next_change(gardener, spec, said)
    for name, value in ours.lifecycle(spec, asked.now).items():
        if said[name] != value:
            yield Difference(f"lifecycle: {name}", said[name], value)


def _next_change(gardener: Gardener, spec: Document, said: Document) -> str | None:
    """Return the next of Gardener's transitions at which a classification changes: row next-change."""
    following: str | None = said["next"]
    while following is not None:
        then = gardener.ask("lifecycle", spec, datetime.fromisoformat(following) + TICK)
        if (then["kubernetes"], then["images"]) != (said["kubernetes"], said["images"]):
            return following
        following = then["next"]
    return None


def _available(gardener: Gardener, profile: Document, now: datetime) -> Document:
    """Return a profile without what is not available yet: row unavailable-target."""
    spec = profile["spec"]
    said = gardener.ask("lifecycle", spec, now + TICK)
    kubernetes = _kept(kubernetes_versions(spec), said["kubernetes"])
    images = [
        {**image, "versions": _kept(image["versions"], classes)}
        for image, classes in zip(machine_images(spec), said["images"], strict=True)
    ]
    return {**profile, "spec": {**spec, "kubernetes": {"versions": kubernetes}, "machineImages": images}}


def _kept(versions: Sequence[Any], classes: Sequence[str]) -> list[Document]:
    return [version for version, at in zip(versions, classes, strict=True) if at != "unavailable"]


def _classes(gardener: Gardener, profile: Document, now: datetime) -> Mapping[str, str]:
    versions = kubernetes_versions(profile["spec"])
    said = gardener.ask("lifecycle", {"kubernetes": {"versions": versions}}, now + TICK)["kubernetes"]
    return {version["version"]: at for version, at in zip(versions, said, strict=True)}


def _is_supported_first(classes: Mapping[str, str], gardener: str, restow: str) -> bool:
    """Whether row supported-first explains two targets: the same minor, a deprecated one and a supported one."""
    return (
        bool(gardener and restow)
        and (classes.get(gardener), classes.get(restow)) == ("deprecated", "supported")
        and parse(gardener).line == parse(restow).line
    )


def _targets(gardener: Gardener, asked: Scenario) -> Iterator[Difference]:
    there = _available(gardener, asked.profile, asked.now)["spec"]["kubernetes"]["versions"]
    said = gardener.ask("targets", {"versions": there, "current": asked.current}, asked.now + TICK)
    said = {name: "" if version.startswith("error") else version for name, version in said.items()}
    # Gardener's maintenance takes the automatic target first, as restow's functions do by themselves.
    said["next minor"] = said["patch"] or said["next minor"]
    said["next major"] = said["minor"] or said["next major"]
    classes = _classes(gardener, asked.profile, asked.now)
    for name, target in ours.targets(kubernetes_versions(asked.profile["spec"]), asked.current, asked.now).items():
        if said[name] != target and not _is_supported_first(classes, said[name], target):
            yield Difference(f"targets: {name}", said[name], target)


def _window(gardener: Gardener, asked: Scenario) -> Iterator[Difference]:
    inside = ours.window(asked.begin, asked.end, asked.now)
    said = gardener.ask("window", {"begin": asked.begin, "end": asked.end}, asked.now)
    readable = not any(found["field"].endswith("begin/end") for found in said["findings"])
    if inside is None:
        if readable and all(_OFFSET.fullmatch(time) for time in (asked.begin, asked.end)):  # row window-offset
            yield Difference("window: readable", said, inside)
        return
    if not readable:
        yield Difference("window: unreadable", said, inside)
    elif not said["findings"]:  # row window-tail: Gardener leaves out the last quarter of an hour
        later = gardener.ask("window", {"begin": asked.begin, "end": _later(asked.end)}, asked.now)
        if later["inside"] != inside:
            yield Difference("window: inside", later, inside)


_OFFSET: Final = re.compile(r"\d{6}(?:-(?:0\d|1[01])[0-5]\d|-1200|\+(?:0\d|1[0-3])[0-5]\d|\+1400)")


def _later(time: str) -> str:
    """Return a time of a window a quarter of an hour later."""
    at = datetime.strptime(time[:6], "%H%M%S").replace(tzinfo=UTC) + timedelta(minutes=15)
    return f"{at:%H%M%S}{time[6:]}"


def rendered(gardener: Gardener, profile: Document, project: Document, now: datetime) -> Iterator[Difference]:
    """Yield what differs in the profile that a project's makes of its parent."""
    parent, child = _plain(profile), sparse(profile, project)
    said = gardener.ask("render", {"parent": parent, "child": child}, now)
    found = ours.merged(parent, child)
    # What Gardener writes out for every version and type, restow does for what the project touches.
    whole = ours.at_hub({**parent, "spec": said})["spec"]
    yield from unequal("render", clean(defaulted(whole)), clean(defaulted(fill_architectures(found))))


def _plain(profile: Document) -> Document:
    """Return a profile in the form of v1beta1: row override-of-stages."""

    def version(item: Document) -> Document:
        return {name: value for name, value in item.items() if name != "lifecycle"}

    spec = profile["spec"]
    images = [{**image, "versions": [*map(version, image["versions"])]} for image in machine_images(spec)]
    kubernetes = {"versions": [*map(version, kubernetes_versions(spec))]}
    return {**profile, "spec": {**spec, "kubernetes": kubernetes, "machineImages": images}}


def sparse(profile: Document, child: Document) -> Document:
    """Return the child with overrides as Gardener admits them: a date and nothing else; row override-says-nothing."""
    parent, spec = profile["spec"], child["spec"]
    listed = {version["version"] for version in kubernetes_versions(parent)}
    kubernetes = [
        {"version": version["version"], "expirationDate": version["expirationDate"]}
        for version in (spec.get("kubernetes") or {}).get("versions") or ()
        if version.get("expirationDate") and version["version"] in listed
    ]
    known = {image["name"]: {each["version"] for each in image["versions"]} for image in machine_images(parent)}
    images = [
        {
            **image,
            "versions": [
                {"version": each["version"], "expirationDate": each.get("expirationDate", _FAR)}
                if each["version"] in known.get(image["name"], ())
                else each
                for each in image["versions"]
            ],
        }
        for image in spec.get("machineImages") or ()
    ]
    changed = {**spec, "kubernetes": {"versions": kubernetes}, "machineImages": images}
    return {**child, "spec": changed}


_FAR: Final = "2040-01-01T00:00:00Z"


def clean(value: Any) -> Any:
    """Return a value without empty fields; architectures, which Gardener has in no order, in one."""
    if isinstance(value, dict):
        found = {name: clean(item) for name, item in value.items()}
        found = {name: item for name, item in found.items() if item not in (None, [], {}, "")}
        return found | ({"architectures": sorted(found["architectures"])} if "architectures" in found else {})
    return [clean(item) for item in value] if isinstance(value, list) else value


def unequal(label: str, gardener: Any, restow: Any) -> Iterator[Difference]:
    if gardener == restow:
        return
    if isinstance(gardener, dict) and isinstance(restow, dict):
        for name in sorted(gardener.keys() | restow.keys()):
            yield from unequal(f"{label}.{name}", gardener.get(name), restow.get(name))
    elif isinstance(gardener, list) and isinstance(restow, list) and len(gardener) == len(restow):
        for one, other in zip(gardener, restow, strict=True):
            yield from unequal(f"{label}[]", one, other)
    else:
        yield Difference(label, gardener, restow)


_INDEX: Final = re.compile(r"\[\d+\]")
_TOLD: Final = re.compile(
    r"((?:spec|metadata|status)[\w.\[\]]*): (Required|Invalid|Unsupported|Duplicate|Forbidden)(?: value)?: "
)


def fields(said: Document) -> set[Finding]:
    """Return the type and the field of each finding of Gardener's, without the places in lists."""
    found = {(each["type"], each["field"]) for each in said.get("findings") or ()}
    if not found:
        found = {(each[2].replace("Unsupported", "NotSupported"), each[1]) for each in _TOLD.finditer(said["said"])}
    return {(kind, _INDEX.sub("[]", field)) for kind, field in found}


#: Row latest-expires.
_LATEST: Final = {
    ("Invalid", f"{part}.kubernetes.versions[].{field}")
    for part in ("spec", "status.cloudProfileSpec")
    for field in ("lifecycle", "expirationDate")
}
#: Row own-version-sparse.
_SPARSE: Final = {
    ("Required", f"{part}.machineImages[].versions[].{field}")
    for part in ("spec", "status.cloudProfileSpec")
    for field in ("cri", "architectures")
}
_BASTION_IMAGE: Final = {("Invalid", f"spec.bastion.machineImage.{name}") for name in ("name", "version")}
_VERSIONS: Final = {("Forbidden", "spec.kubernetes.versions[]"), ("Forbidden", "spec.machineImages[].versions[]")}
_LEADING: Final = {
    ("Required", "spec.kubernetes.versions[].lifecycle[]"),
    ("Required", "spec.machineImages[].versions[].lifecycle[]"),
}
#: Row sections-left-out.
_SECTIONS: Final = {("Required", f"spec.{name}") for name in ("type", "regions", "machineTypes", "machineImages")}
_FILLED: Final = {
    ("NotSupported", "spec.machineImages[].versions[].architectures[]"),
    ("NotSupported", "spec.machineTypes[].architecture"),
}
#: Row delete-expired.
_DELETED: Final = ("Forbidden", "spec.kubernetes.versions")


def judged(gardener: Gardener, new: Document, old: Document | None, now: datetime) -> Any:
    """Yield the differences of a request for a CloudProfile without users.

    Return the object as Gardener stores it, None if it refuses.
    """
    label = "profile" if old is None else "changed profile"
    said = gardener.ask("profile", {"new": new, "old": old, "whole": True}, now + TICK)  # row drop-on-create
    answer = ours.sent(new, old, [], now)
    found, told = fields(said), ours.reasons(answer)
    found -= _LATEST
    if "no image with classification supported" in repr(said["findings"]):  # row bastion-unclassified
        found -= _BASTION_IMAGE - told
    if found:  # what a bastion can have of a profile that is wrong anyway says nothing
        told -= _BASTION_IMAGE - found
    if "supported and arch" in answer.refusal and new["spec"].get("machineCapabilities"):  # row bastion-architecture
        told -= _BASTION_IMAGE - found
    found -= _LEADING - told  # row leading-starts
    if any("capabilityFlavors" in field or ".capabilities" in field for _, field in told):  # row named-once
        found -= _FILLED - told
    found -= {each for each in _SECTIONS - told if not _has(old, each[1])}  # row sections-left-out
    found -= _VERSIONS  # rows supported-once, policy-order and past-on-update
    told -= {*_VERSIONS, _DELETED}
    found |= _turned({(each["field"], each["detail"]) for each in said["findings"] or ()})
    told |= _turned({(each.field, each.detail) for each in answer.findings})
    yield from _verdicts(label, found, told, said, answer)
    if said["findings"]:
        return None
    if answer.stored is not None:
        stored = ours.at_hub({**said["object"], "apiVersion": new["apiVersion"], "kind": new["kind"]})["spec"]
        for name in ("machineTypes", "machineImages"):
            one, other = (clean(defaulted(spec)).get(name) for spec in (stored, answer.stored["spec"]))
            yield from unequal(f"{label}: stored {name}", one, other)
    return said["object"]


def _has(obj: Document | None, path: str) -> bool:
    return bool(obj and obj["spec"].get(path.removeprefix("spec.")))


def _turned(details: set[Finding]) -> set[Finding]:
    """Return the lists with a version that would become unavailable; others are refused at the same fields."""
    return {("Unavailable", _INDEX.sub("[]", field)) for field, detail in details if "turned unavailable" in detail}


def _verdicts(
    label: str, gardener: set[Finding], restow: set[Finding], said: Document, answer: Answer
) -> Iterator[Difference]:
    if is_of_schema(answer) and gardener:
        return  # row schema-first
    for found in sorted(gardener - restow):
        yield Difference(f"{label}: only Gardener: {found}", said.get("findings") or said.get("said"), answer.refusal)
    for found in sorted(restow - gardener):
        yield Difference(f"{label}: only restow: {found}", said.get("findings") or said.get("said"), answer.refusal)


def is_of_schema(answer: Answer) -> bool:
    """Whether the schema refuses a request, which ends the answer at once."""
    return answer.refusal.partition(" is ")[0].isalpha()


def _namespaced(gardener: Gardener, asked: Scenario, accepted: Document) -> Iterator[Difference]:
    if "'lifecycle'" not in repr(accepted["spec"]):  # row override-of-stages
        yield from judged_child(gardener, asked.child, None, asked.profile, accepted, asked.now)


def judged_child(
    gardener: Gardener, project: Document, old: Document | None, profile: Document, accepted: Document, now: datetime
) -> Iterator[Difference]:
    """Compare whether a NamespacedCloudProfile is admitted; Gardener names the first reason only.

    ``accepted`` is the parent as Gardener stores it, ``old`` has a status.
    """
    label = "namespaced" if old is None else "changed namespaced"
    parent = {**accepted, "apiVersion": profile["apiVersion"], "kind": "CloudProfile"}
    child = sparse(profile, project)
    said = gardener.ask("namespaced", {"new": child, "old": old, "parent": parent, "whole": True}, now + TICK)
    answer = ours.sent(child, old, [profile], now)
    if not child["spec"].get("parent") and answer.allowed and fields(said) <= _PARENT:
        return  # row parent-left-out
    found, told = fields(said), ours.reasons(answer)
    once = {(kind, f"status.cloudProfileSpec{field[4:]}") for kind, field in _VERSIONS} | _VERSIONS
    found -= _STRATEGY - told
    if said["code"] and answer.allowed and not found and fields(said) == _STRATEGY:
        return  # row strategy-override
    if said["code"] and answer.allowed and not (found and found <= _LATEST | _SPARSE | once):
        yield Difference(f"{label}: only Gardener refuses", said["findings"] or said["said"], "")
    elif not said["code"] and not answer.allowed and not told <= once | _past(answer):
        yield Difference(f"{label}: only restow refuses", said, answer.refusal)


def _past(answer: Answer) -> set[Finding]:
    """Return the findings of expirations in the past, which Gardener has of overrides only: row past-on-update."""
    found = [each for each in answer.findings if "is in the past" in each.detail]
    return {(each.type.value, _INDEX.sub("[]", each.field)) for each in found}


_STRATEGY: Final = {("Forbidden", "spec.machineImages[].updateStrategy")}
_PARENT: Final = {("Required", "spec.parent.name"), ("NotSupported", "spec.parent.kind")}


def judged_shoot(
    gardener: Gardener, new: Document, old: Document | None, profile: Document, accepted: Document, now: datetime
) -> Iterator[Difference]:
    """Compare the verdicts on a request for a Shoot; ``accepted`` is its profile as Gardener stores it."""
    label = "shoot" if old is None else "changed shoot"
    stored = {**accepted, "apiVersion": profile["apiVersion"], "kind": "CloudProfile"}
    if old is not None and _lost_its_type(old, profile):
        return  # row type-gone
    if old is not None and gardener.ask("shoot", {"new": old, "old": old, "profiles": [stored]}, now)["code"] == 422:
        return  # neither of the two stores such a Shoot
    said = gardener.ask("shoot", {"new": new, "old": old, "profiles": [stored]}, now + TICK)
    answer = ours.sent(new, old, [profile], now)
    found, told = fields(said), ours.reasons(answer)
    if old is not None and _NO_KUBELET in said["said"] and _keeps_a_kubelet(new, old):  # row kept-kubelet
        found -= _IMAGE - told
        if not found and answer.allowed:
            return
    if said["code"] == 403 and _EXPIRED_DEFAULT.search(said["said"]) and _left_open(new):
        return  # row default-active
    if said["code"] == 403 and _NONE_FITS in said["said"] and _names_no_image(new):
        return  # row default-fitting
    told -= set() if old is None else _unavailable(answer, profile, now) - found  # row unavailable-version
    if said["code"] == 403 and told and answer.code == 403 and not _MUTATED.search(said["said"]):
        yield from _verdicts(label, found, told, said, answer)
    elif not said["code"] and answer.findings and not told:
        return  # row unavailable-version gives every reason
    elif bool(said["code"]) != (not answer.allowed):
        refused = f"{label}: {'only Gardener' if said['code'] else 'only restow'} refuses"
        yield Difference(refused, said["findings"] or said["said"], answer.refusal)


def _unavailable(answer: Answer, profile: Document, now: datetime) -> set[Finding]:
    """Return the findings about Kubernetes versions of a profile that are not available yet."""
    spec = profile["spec"]
    classes = ours.lifecycle(spec, now)["kubernetes"]
    listed = zip(kubernetes_versions(spec), classes, strict=True)
    coming = {json.dumps(version["version"]) for version, at in listed if at == "unavailable"}
    return {
        (each.type.value, _INDEX.sub("[]", each.field))
        for each in answer.findings
        if each.type is FindingType.NOT_SUPPORTED and each.field.endswith("kubernetes.version") and each.value in coming
    }


_NO_KUBELET: Final = "does not support kubelet version"
_IMAGE: Final = {("Invalid", "spec.provider.workers[].machine.image")}


def _keeps_a_kubelet(new: Document, old: Document) -> bool:
    """Whether a pool stays on its image and on its kubelet."""

    def runs(shoot: Document) -> set[tuple[str, ...]]:
        own = shoot["spec"]["kubernetes"]
        return {
            (pool["name"], *sorted(pool["machine"]["image"].values()), pool.get("kubernetes", own)["version"])
            for pool in shoot["spec"]["provider"]["workers"]
        }

    return bool(runs(new) & runs(old))


def _lost_its_type(shoot: Document, profile: Document) -> bool:
    """Whether a profile with capabilities lacks the machine type of a pool."""
    listed = {each["name"] for each in profile["spec"].get("machineTypes") or ()}
    used = {pool["machine"]["type"] for pool in shoot["spec"]["provider"]["workers"]}
    return bool(profile["spec"].get("machineCapabilities")) and not used <= listed


_EXPIRED_DEFAULT: Final = re.compile(r"is expired, ")
_NONE_FITS: Final = "unable to determine latest expirable version"
_MUTATED: Final = re.compile(r"spec\.provider\.workers\[\d+\]: |couldn't find a suitable version|must be a semantic")


def _names_no_image(shoot: Document) -> bool:
    """Whether a pool leaves its image to the profile."""
    return any(
        not (worker["machine"].get("image") or {}).get("name") for worker in shoot["spec"]["provider"]["workers"]
    )


def _left_open(shoot: Document) -> bool:
    """Whether a pool leaves the version of its image to the profile."""
    return any(
        not ((worker["machine"].get("image") or {}).get("version") or "").count(".") >= 2
        for worker in shoot["spec"]["provider"]["workers"]
    )


_MAINTENANCES: Final = 3


def maintained(gardener: Gardener, shoot: Document, profile: Document, now: datetime) -> Iterator[Difference]:
    """Compare the versions of a Shoot after each of some maintenances."""
    there, classes = _available(gardener, profile, now), _classes(gardener, profile, now)
    for turn in range(_MAINTENANCES):
        if _is_above(shoot) or _used(shoot) & _gone(profile, there):
            return  # rows worker-above and unavailable-target: who is on such a version stays there
        said = gardener.ask("maintain", {"shoot": shoot, "profile": there}, now + TICK)
        found = ours.maintained(shoot, profile, now)
        assert "failed" not in said, said
        one, other = _versions(said["spec"]), _versions(found["spec"])
        for place, target in other.items():
            if one[place] != target and not (
                "kube" in place and _is_supported_first(classes, one[place] or "", target or "")
            ):
                yield Difference(f"maintain {turn}: {place.partition(' ')[0]}", one, other)
        if one != other or found["spec"] == shoot["spec"]:
            return
        shoot = {**shoot, "spec": found["spec"]}


def _is_above(shoot: Document) -> bool:
    """Whether a worker pool is above its control plane."""
    version = parse(shoot["spec"]["kubernetes"]["version"])
    pools = shoot["spec"]["provider"]["workers"]
    return any(parse(pool["kubernetes"]["version"]) > version for pool in pools if "kubernetes" in pool)


def _used(shoot: Document) -> set[tuple[str | None, str]]:
    """Return the versions that a Shoot is on, with the names of images."""
    pools = shoot["spec"]["provider"]["workers"]
    kubelets = {(None, pool["kubernetes"]["version"]) for pool in pools if "kubernetes" in pool}
    images = {(pool["machine"]["image"]["name"], pool["machine"]["image"]["version"]) for pool in pools}
    return {(None, shoot["spec"]["kubernetes"]["version"])} | kubelets | images


def _gone(profile: Document, there: Document) -> set[tuple[str | None, str]]:
    """Return the versions of a profile that are not available yet."""
    before, after = _listed(profile["spec"]), _listed(there["spec"])
    return before - after


def _listed(spec: Document) -> set[tuple[str | None, str]]:
    images = {(image["name"], each["version"]) for image in machine_images(spec) for each in image_versions(image)}
    return images | {(None, each["version"]) for each in kubernetes_versions(spec)}


def _versions(spec: Document) -> dict[str, str | None]:
    found: dict[str, str | None] = {"kubernetes": spec["kubernetes"]["version"]}
    for pool in spec["provider"]["workers"]:
        found[f"kubelet {pool['name']}"] = (pool.get("kubernetes") or {}).get("version")
        found[f"image {pool['name']}"] = pool["machine"]["image"].get("version")
    return found
