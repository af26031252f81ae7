"""Changes of profiles and Shoots to ask Gardener and restow about, of the same few names and days as ``drawn``.

An edit changes an object as its author would: sections are left out, replaced or emptied, versions come, go and get
other stages, entries go. It is drawn for the object that it changes, so most edits concern what is there.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any, Final

from hypothesis import strategies as st

from restow.cloudprofile.objects import kubernetes_versions as kubernetes_versions_of
from restow.cloudprofile.versions.semver import parse
from tests.peers.gardener.changes import ChangeScenario, MoveScenario, ProjectScenario
from tests.peers.gardener.drawn import (
    bastions,
    cloud_profiles,
    image_numbers,
    image_versions,
    images,
    kubernetes_versions,
    leave_out,
    limits,
    machine_types,
    moments,
    namespaced,
    numbers,
    regions,
    shoots,
    stage_fields,
    unique,
    volume_types,
    with_capabilities,
    workers,
)

__all__ = ["change_scenarios", "move_scenarios", "project_scenarios"]

Document = dict[str, Any]
Edit = Callable[[st.DrawFn, Document, bool], None]
"""It changes a spec in place, with stages or without."""

_NAMED: Final = ("machineImages", "machineTypes", "regions", "volumeTypes")
_STAGES: Final = ("classification", "expirationDate", "lifecycle")


def _lists_of_versions(spec: Document) -> list[list[Document]]:
    listed = [spec["kubernetes"]["versions"]] if spec.get("kubernetes") else []
    return listed + [image["versions"] for image in spec.get("machineImages", ())]


def _picked(draw: st.DrawFn, lists: list[list[Document]]) -> tuple[list[Document], int] | None:
    """Return one of the lists that have items, and the place of one."""
    filled = [each for each in lists if each]
    if not filled:
        return None
    chosen = draw(st.sampled_from(filled))
    return chosen, draw(st.integers(0, len(chosen) - 1))


def _section_goes(draw: st.DrawFn, spec: Document, _: bool) -> None:
    leave_out(draw, spec)


def _section_is_replaced(draw: st.DrawFn, spec: Document, gate: bool) -> None:
    sections: dict[str, st.SearchStrategy[Any]] = {
        "kubernetes": kubernetes_versions(gate=gate).map(lambda versions: {"versions": versions}),
        "limits": limits,
        "machineImages": images(image_versions(gate=gate)),
        "machineTypes": unique(machine_types, "name", 0, 2),
        "volumeTypes": unique(volume_types, "name", 0, 2),
    }
    if "parent" not in spec:
        sections |= {"bastion": bastions, "regions": regions}
    name = draw(st.sampled_from(sorted(sections)))
    spec[name] = draw(sections[name])


def _version_goes(draw: st.DrawFn, spec: Document, _: bool) -> None:
    if picked := _picked(draw, _lists_of_versions(spec)):
        listed, place = picked
        del listed[place]


def _version_comes(draw: st.DrawFn, spec: Document, gate: bool) -> None:
    lists = _lists_of_versions(spec)
    if not lists:
        return
    listed = draw(st.sampled_from(lists))
    of_kubernetes = bool(spec.get("kubernetes")) and listed is spec["kubernetes"]["versions"]
    number = draw(numbers if of_kubernetes else image_numbers)
    if all(each["version"] != number for each in listed):
        listed.append({"version": number, **draw(stage_fields(gate=gate, broken=False))})


def _stages_change(draw: st.DrawFn, spec: Document, gate: bool) -> None:
    if picked := _picked(draw, _lists_of_versions(spec)):
        listed, place = picked
        kept = {name: value for name, value in listed[place].items() if name not in _STAGES}
        listed[place] = {**kept, **draw(stage_fields(gate=gate, broken=False))}


def _entry_goes(draw: st.DrawFn, spec: Document, _: bool) -> None:
    if picked := _picked(draw, [spec[name] for name in _NAMED if name in spec]):
        listed, place = picked
        del listed[place]


def _image_changes(draw: st.DrawFn, spec: Document, _: bool) -> None:
    if picked := _picked(draw, [spec.get("machineImages", [])]):
        listed, place = picked
        image = {name: value for name, value in listed[place].items() if name != "updateStrategy"}
        listed[place] = image | draw(st.sampled_from([{}, {"updateStrategy": "patch"}, {"updateStrategy": "major"}]))


def _capabilities_change(draw: st.DrawFn, spec: Document, _: bool) -> None:
    if "parent" in spec:
        return
    if draw(st.booleans()):
        with_capabilities(draw, spec)
    elif draw(st.booleans()):
        spec.pop("machineCapabilities", None)
    else:
        values = draw(st.sampled_from([["amd64"], ["arm64", "amd64"]]))
        spec["machineCapabilities"] = [{"name": "architecture", "values": values}]


_EDITS: Final[list[Edit]] = [
    _section_goes,
    _section_is_replaced,
    _version_goes,
    _version_goes,
    _version_comes,
    _stages_change,
    _stages_change,
    _entry_goes,
    _image_changes,
    _capabilities_change,
]


@st.composite
def _edits(draw: st.DrawFn, obj: Document, *, gate: bool) -> Document:
    """A profile as it becomes."""
    spec = copy.deepcopy(obj["spec"])
    for edit in draw(st.lists(st.sampled_from(_EDITS), min_size=1, max_size=3)):
        if spec:
            edit(draw, spec, gate)
    return {**obj, "spec": spec}


@st.composite
def _shoot_edits(draw: st.DrawFn, shoot: Document) -> Document:
    """A Shoot as it becomes: its version, and one of its worker pools, or another one."""
    changed = copy.deepcopy(shoot)
    spec = changed["spec"]
    if draw(st.booleans()):
        spec["kubernetes"]["version"] = draw(numbers)
    pools = spec["provider"]["workers"]
    place = draw(st.integers(0, len(pools) - 1))
    drawn = draw(workers(complete=True))
    choice = draw(st.integers(0, 5))
    if choice == 0:
        pools[place] = drawn
        spec["provider"]["workers"] = list({pool["name"]: pool for pool in pools}.values())
    elif choice == 1 and len(pools) > 1:
        del pools[place]
    elif choice == 2:
        pools[place] |= {name: drawn[name] for name in ("kubernetes", "zones", "cri", "volume") if name in drawn}
    elif choice == 3:
        pools[place].pop(draw(st.sampled_from(["kubernetes", "zones", "cri", "volume", "updateStrategy"])), None)
    else:
        part = draw(st.sampled_from(["image", "type", "architecture"]))
        pools[place]["machine"][part] = drawn["machine"][part]
    return changed


_references = st.sampled_from(
    [
        {"kind": "CloudProfile", "name": "parent"},
        {"kind": "CloudProfile", "name": "parent"},
        {"kind": "NamespacedCloudProfile", "name": "child"},
        {"kind": "NamespacedCloudProfile", "name": "child"},
        {"kind": "CloudProfile", "name": "stranger"},
    ]
)


def _referring(shoot: Document, reference: Document, name: str) -> Document:
    return {
        **shoot,
        "metadata": {**shoot["metadata"], "name": name},
        "spec": {**shoot["spec"], "cloudProfile": reference},
    }


@st.composite
def _users(draw: st.DrawFn, shoot: Document) -> list[Document]:
    """A Shoot, sometimes with another one, of the profiles."""
    users = [shoot] if draw(st.booleans()) else [shoot, draw(shoots(complete=True))]
    return [_referring(each, draw(_references), f"s{index}") for index, each in enumerate(users)]


@st.composite
def project_scenarios(draw: st.DrawFn) -> ProjectScenario:
    """Everything that the two are asked about a change of a project's profile."""
    profile, child = draw(cloud_profiles(gate=False).map(_without_end)), draw(namespaced())
    return ProjectScenario(
        profile=profile,
        becomes=draw(_edits(profile, gate=False)),
        child=child,
        child_becomes=draw(_edits(child, gate=False)),
        users=draw(_users(draw(shoots(complete=True)))),
        now=draw(moments),
    )


def _without_end(profile: Document) -> Document:
    """Return a profile whose latest Kubernetes version does not expire: Gardener accepts more of them."""
    if versions := kubernetes_versions_of(profile["spec"]):
        max(versions, key=lambda version: parse(version["version"])).pop("expirationDate", None)
    return profile


@st.composite
def change_scenarios(draw: st.DrawFn) -> ChangeScenario:
    """Everything that the two are asked about changes of a CloudProfile, and of a Shoot."""
    gate = draw(st.booleans())
    profile, child, shoot = draw(cloud_profiles(gate=gate)), draw(namespaced()), draw(shoots(complete=True))
    return ChangeScenario(
        profile=profile,
        becomes=draw(_edits(profile, gate=gate)),
        child=child,
        users=draw(_users(shoot)),
        shoot=shoot,
        shoot_becomes=draw(_shoot_edits(shoot)),
        now=draw(moments),
    )


@st.composite
def _families(draw: st.DrawFn) -> list[Document]:
    """Two CloudProfiles, and NamespacedCloudProfiles of them, all alike; some of these are not there."""
    offer = draw(cloud_profiles(gate=False))
    offers = st.just(offer) | _edits(offer, gate=False)
    names = [name for name in ("parent", "stranger") if draw(st.integers(0, 7))]
    found = [{**draw(offers), "metadata": {"name": name}} for name in names]
    for name, parents in (("a", ["parent"]), ("b", ["parent", "stranger"]), ("parent", ["stranger"])):
        if draw(st.integers(0, 7)):
            parent = {"kind": "CloudProfile", "name": draw(st.sampled_from(parents))}
            metadata = {"name": name, "namespace": draw(st.sampled_from(["garden-p"] * 5 + ["garden-q"]))}
            found.append(
                {
                    "apiVersion": "core.gardener.cloud/v1beta1",
                    "kind": "NamespacedCloudProfile",
                    "metadata": metadata,
                    "spec": {"parent": parent},
                    "status": {"cloudProfileSpec": draw(offers)["spec"]},
                }
            )
    return found


_homes = st.sampled_from(
    [{"kind": "CloudProfile", "name": name} for name in ("parent", "parent", "stranger")]
    + [{"kind": "NamespacedCloudProfile", "name": name} for name in ("a", "a", "b", "parent", "none")]
)


@st.composite
def move_scenarios(draw: st.DrawFn) -> MoveScenario:
    """A Shoot that moves to another profile; sometimes its worker pools change as well."""
    shoot = draw(shoots(complete=True))
    before = draw(_homes)
    after = draw(_homes.filter(lambda home: home != before))
    moved = _referring(shoot, after, "s")
    if draw(st.integers(0, 3)) == 0:
        moved["spec"]["provider"] = draw(shoots(complete=True))["spec"]["provider"]
    return MoveScenario(draw(_families()), _referring(shoot, before, "s"), moved, draw(moments))
