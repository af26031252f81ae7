"""Gardener and restow asked about changes: what others use is kept, Shoots move, capabilities come and go.

As in ``compared``, a row of the table in docs/peers.md is taken into account where it applies, and nowhere else.
Gardener's plugins answer with sentences. Each is read as what must not go, and who uses it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

from restow.cloudprofile.capabilities import defaulted
from tests.cloudprofile.served import Answer, decoded
from tests.peers.gardener import ours
from tests.peers.gardener.asking import Gardener
from tests.peers.gardener.compared import (
    TICK,
    Difference,
    clean,
    is_of_schema,
    judged,
    judged_child,
    judged_shoot,
    maintained,
    rendered,
    sparse,
    unequal,
)

__all__ = [
    "ChangeScenario",
    "MoveScenario",
    "ProjectScenario",
    "change_differences",
    "kept",
    "move_differences",
    "project_differences",
]

Document = dict[str, Any]


@dataclass(frozen=True)
class ChangeScenario:
    """What is asked about.

    Attributes:
        profile, becomes: a CloudProfile, and what replaces it.
        child: a NamespacedCloudProfile of it.
        users: Shoots of either, and of another profile.
        shoot, shoot_becomes: a Shoot of the CloudProfile, and what replaces it.
        now: the time.
    """

    profile: Document
    becomes: Document
    child: Document
    users: Sequence[Document]
    shoot: Document
    shoot_becomes: Document
    now: datetime


@dataclass(frozen=True)
class ProjectScenario:
    """What is asked about a project's profile.

    Attributes:
        profile, becomes: a CloudProfile without lifecycles, and what replaces it.
        child, child_becomes: a NamespacedCloudProfile of it, and what replaces that.
        users: Shoots of either, and of another profile.
        now: the time.
    """

    profile: Document
    becomes: Document
    child: Document
    child_becomes: Document
    users: Sequence[Document]
    now: datetime


@dataclass(frozen=True)
class MoveScenario:
    """What is asked about a Shoot that leaves its profile.

    Attributes:
        family: CloudProfiles and NamespacedCloudProfiles, rendered, between which ``moved`` goes.
        shoot, moved: a Shoot, and what replaces it.
        now: the time.
    """

    family: Sequence[Document]
    shoot: Document
    moved: Document
    now: datetime


def change_differences(gardener: Gardener, asked: ChangeScenario) -> Iterator[Difference]:
    """Yield everything in which the two differ about changes, and no row of the table explains."""
    yield from _protected(gardener, asked)
    yield from _synchronised(gardener, asked)
    accepted = _accepted(gardener, asked.profile, asked.now)
    if accepted is not None and _differs(asked.shoot_becomes, asked.shoot):  # row unchanged-spec
        yield from judged_shoot(gardener, asked.shoot_becomes, asked.shoot, asked.profile, accepted, asked.now)
    if _differs(asked.becomes, asked.profile):  # row unchanged-spec
        accepted = yield from judged(gardener, asked.becomes, asked.profile, asked.now)
        if accepted is not None:
            stored = {**accepted, "apiVersion": asked.becomes["apiVersion"], "kind": "CloudProfile"}
            yield from maintained(gardener, asked.shoot, stored, asked.now)


def project_differences(gardener: Gardener, asked: ProjectScenario) -> Iterator[Difference]:
    """Yield in what the two differ about a change of a project's profile, and no row of the table explains.

    Its parent stays, or has changed before.
    """
    yield from _protected_child(gardener, asked)
    yield from rendered(gardener, asked.becomes, asked.child_becomes, asked.now)
    before = sparse(asked.profile, asked.child)
    shown = gardener.ask("render", {"parent": asked.profile, "child": before}, asked.now)
    old = {**before, "status": {"cloudProfileSpec": shown}}
    for parent in (asked.profile, asked.becomes):
        accepted = _accepted(gardener, parent, asked.now)
        if accepted is not None and _differs(sparse(parent, asked.child_becomes), before):  # row unchanged-spec
            yield from judged_child(gardener, asked.child_becomes, old, parent, accepted, asked.now)


def _accepted(gardener: Gardener, profile: Document, now: datetime) -> Any:
    """Return a CloudProfile as Gardener stores it, None if it refuses it."""
    return gardener.ask("profile", {"new": profile, "whole": True}, now + TICK).get("object")


def _differs(new: Document, old: Document) -> bool:
    """Whether a request changes a spec, except for defaults of the schema."""
    return bool(decoded(ours.at_hub(new))["spec"] != decoded(ours.at_hub(old))["spec"])


#: What must not be taken away, or be added, and by whom it is used.
_KEPT: Final = re.compile(
    r"unable to (?P<verb>delete|add) (?P<what>Kubernetes version|Machine ?[Ii]mage version|MachineImage|"
    r"MachineCapability) [\"'](?P<name>[^\"']+)[\"'] (?:with values \[[^\]]*\] )?(?:from|to) .*?"
    r"(?:in use|defined) by (?:shoot|NamespacedCloudProfile) [\"'](?P<user>[^\"']+)[\"']"
    r"(?: by worker \"(?P<worker>\w+)\")?"
)
_LIMIT: Final = re.compile(r"all worker pools of shoot \"(?P<user>[^\"]+)\" must not exceed the limit of (?P<name>\d+)")

Kept = tuple[str, ...]


def kept(text: str) -> set[Kept]:
    """Return what a refusal says of what must stay: the verb, what, its name, and who uses it."""
    found = {
        (each["verb"], each["what"].lower().replace(" ", ""), each["name"], each["user"], each["worker"] or "")
        for each in _KEPT.finditer(text)
    }
    return found | {("exceed", "limit", each["name"], each["user"], "") for each in _LIMIT.finditer(text)}


def _compared(label: str, said: Mapping[str, Any], answer: Answer, only_ours: set[Kept]) -> Iterator[Difference]:
    if is_of_schema(answer):
        return  # row schema-first
    theirs, found = kept(said["said"]), kept(answer.refusal)
    for each in sorted(theirs - found):
        yield Difference(f"{label}: only Gardener keeps {each}", said["said"], answer.refusal)
    for each in sorted(found - theirs - only_ours):
        yield Difference(f"{label}: only restow keeps {each}", said["said"], answer.refusal)


def _protected(gardener: Gardener, asked: ChangeScenario) -> Iterator[Difference]:
    new, old = asked.becomes, asked.profile
    if new["spec"] == old["spec"]:
        return
    given = {"kind": "CloudProfile", "new": new, "old": old, "namespaced": [asked.child], "shoots": asked.users}
    said = gardener.ask("protect", given, asked.now + TICK)
    answer = ours.sent(new, old, [asked.child, *asked.users], asked.now)
    gone = {each for each in kept(answer.refusal) if each[1] == "machinecapability"}  # row capability-values
    values = gone if new["spec"].get("machineCapabilities") else set()
    yield from _compared("protect", said, answer, _kubelets(asked.users) | values)


def _kubelets(shoots: Sequence[Document]) -> set[Kept]:
    """Return what the Kubernetes versions of worker pools keep: row kubelet-protected."""
    found = set()
    for shoot in shoots:
        used = {
            worker["kubernetes"]["version"] for worker in shoot["spec"]["provider"]["workers"] if "kubernetes" in worker
        }
        for version in used - {shoot["spec"]["kubernetes"]["version"]}:
            found.add(("delete", "kubernetesversion", version, f"garden-p/{shoot['metadata']['name']}", ""))
    return found


def _protected_child(gardener: Gardener, asked: ProjectScenario) -> Iterator[Difference]:
    new, old = (sparse(asked.profile, each) for each in (asked.child_becomes, asked.child))
    if new["spec"] == old["spec"]:
        return
    given = {"new": new, "old": old, "profiles": [asked.profile], "shoots": asked.users}
    said = gardener.ask("protect", {"kind": "NamespacedCloudProfile", **given}, asked.now + TICK)
    answer = ours.sent(new, old, [asked.profile, *asked.users], asked.now)
    limits = {each for each in kept(answer.refusal) if each[1] == "limit"}
    inherited = set() if (new["spec"].get("limits") or {}).get("maxNodesTotal") else limits  # row limit-of-parent
    yield from _compared("protect child", said, answer, _kubelets(asked.users) | inherited)


def _synchronised(gardener: Gardener, asked: ChangeScenario) -> Iterator[Difference]:
    new, old = asked.becomes, asked.profile
    answer = ours.sent(new, old, [], asked.now)
    if answer.stored is None or not _differs(new, old):
        return  # a spec that stays as it is, but for defaults of the schema, is in step already
    said = gardener.ask("synchronise", {"new": new, "old": old}, asked.now + TICK)
    stored = ours.at_hub({**said, "apiVersion": new["apiVersion"], "kind": new["kind"]})["spec"]
    for name in ("machineTypes", "machineImages"):
        one, other = (clean(defaulted(spec)).get(name) for spec in (stored, answer.stored["spec"]))
        yield from unequal(f"synchronise: {name}", one, other)


def move_differences(gardener: Gardener, asked: MoveScenario) -> Iterator[Difference]:
    """Yield in what the two differ about the move of a Shoot, and no row of the table explains."""
    profiles = [each for each in asked.family if each["kind"] == "CloudProfile"]
    children = [each for each in asked.family if each["kind"] == "NamespacedCloudProfile"]
    before = asked.shoot["spec"]["cloudProfile"]
    if before["kind"] == "CloudProfile" and before["name"] not in {each["metadata"]["name"] for each in profiles}:
        return  # row profile-gone
    given = {"new": asked.moved, "old": asked.shoot, "profiles": profiles, "namespaced": children}
    said = gardener.ask("move", given, asked.now)
    answer = ours.sent(asked.moved, asked.shoot, asked.family, asked.now)
    why = "; ".join(each.detail for each in answer.findings if _is_about_the_move(each.detail))
    if answer.allowed if said["code"] else why:
        yield Difference("move", said["said"], answer.refusal)
    elif why and (told := _LACKS.search(said["said"])) and not why.endswith("not found") and told[0] not in why:
        yield Difference("move: why", said["said"], why)  # Gardener tells the first reason only


_LACKS: Final = re.compile(
    r"newly referenced cloud profile does not contain [^\n]*|cannot change from .* to .*?(?=\. )"
)


def _is_about_the_move(detail: str) -> bool:
    return bool(_LACKS.search(detail) or detail.endswith("not found"))
