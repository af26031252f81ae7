"""What only owners can do, done by the owners after v1alpha1 is gone: the proof that ownership still means something.

Each ending is played on its own share of the databases. What an answer has to look like is judged by a function
of it. Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from demo import cast
from demo.answers import Answer
from demo.applying import Apply
from demo.cast import Database, Share
from demo.checks import Check
from demo.crd import NEW
from demo.truth import World

__all__ = ["ENDINGS", "Ending", "applies_of", "deletions_ended", "judge", "releases"]

_STRANGER = "somebody-else"


@dataclass(frozen=True, slots=True)
class Ending:
    """One proof.

    Attributes:
        story: what happens, for the narration.
        what: what is to hold, for the result.
        share: on which databases.
        manager, manifest: who applies what there; without force.
        status: through the status subresource.
        fault: tells what is wrong with an answer, or nothing.
    """

    story: str
    what: str
    share: Share
    manager: str
    manifest: Callable[[Database, int | None], dict[str, Any]]
    fault: Callable[[Answer], str]
    status: bool = False


def applies_of(ending: Ending, databases: Sequence[Database], storage: Mapping[int, int]) -> list[Apply]:
    """Return the applies of an ending; ``storage`` names sizes that were changed since."""
    return [
        Apply(each, ending.manager, ending.manifest(each, storage.get(each.number)), status=ending.status)
        for each in ending.share.of(databases)
    ]


def judge(when: str, ending: Ending, wanted: Sequence[Apply], answers: Sequence[Answer]) -> Check:
    """Judge the answers to an ending's applies."""
    faults = ((each.database.key, ending.fault(answer)) for each, answer in zip(wanted, answers, strict=True))
    return Check(when, ending.what, len(wanted), tuple(f"{key}: {fault}" for key, fault in faults if fault))


def releases(databases: Sequence[Database]) -> list[Apply]:
    """Return what lets go of databases that are being deleted: their manifests without the finalizer."""
    released = []
    for each in databases:
        manifest = cast.platform_manifest(each, NEW)
        del manifest["metadata"]["finalizers"]
        released.append(Apply(each, cast.PLATFORM, manifest))
    return released


def deletions_ended(when: str, released: Sequence[Database], now: World) -> Check:
    """Judge that databases under deletion went when the owner of their last finalizer dropped it."""
    wrong = tuple(f"{each.key} is still there" for each in released if each.key in now)
    return Check(when, "dropping its finalizer ends a deletion that waited for it", len(released), wrong)


def _without_version(database: Database, storage: int | None) -> dict[str, Any]:
    manifest = cast.platform_manifest(database, NEW, storage=storage)
    del manifest["spec"]["version"]
    return manifest


def _version_gone(answer: Answer) -> str:
    return answer.refusal or ("spec.version is still there" if "version" in answer.object["spec"] else "")


def _without_user(database: Database, _storage: int | None) -> dict[str, Any]:
    manifest = cast.backup_manifest(database, NEW)
    del manifest["spec"]["users"]
    return manifest


def _user_gone(answer: Answer) -> str:
    if answer.refusal:
        return answer.refusal
    names = [user["name"] for user in answer.object["spec"].get("users", [])]
    return "" if names == ["app"] else f"its users are {', '.join(names) or 'gone'}"


def _without_condition(database: Database, _storage: int | None) -> dict[str, Any]:
    manifest = cast.status_manifest(database, NEW)
    manifest["status"]["conditions"] = [each for each in manifest["status"]["conditions"] if each["type"] == "Ready"]
    return manifest


def _condition_gone(answer: Answer) -> str:
    if answer.refusal:
        return answer.refusal
    types = [condition["type"] for condition in answer.object["status"].get("conditions", [])]
    return "" if types == ["Ready"] else f"its conditions are {', '.join(types) or 'gone'}"


def _with_policy(database: Database, storage: int | None) -> dict[str, Any]:
    manifest = cast.platform_manifest(database, NEW, storage=storage)
    manifest["spec"]["deletionPolicy"] = "Delete"
    return manifest


def _policy_taken(answer: Answer) -> str:
    if answer.refusal:
        return answer.refusal
    owners = {entry["manager"] for entry in answer.entries if "f:deletionPolicy" in entry["fieldsV1"].get("f:spec", {})}
    if answer.object["spec"]["deletionPolicy"] != "Delete":
        return "its deletionPolicy did not change"
    return (
        "" if owners == {cast.PLATFORM} else f"its deletionPolicy is owned by {', '.join(sorted(owners)) or 'nobody'}"
    )


def _other_size(database: Database, _storage: int | None) -> dict[str, Any]:
    return cast.manifest(database, NEW, spec={"engine": "postgres", "storageGiB": 9999})


def _refused_for_owner(answer: Answer) -> str:
    if not answer.refusal:
        return "anybody may change its storageGiB"
    expected = answer.refusal.startswith("409") and f'"{cast.PLATFORM}"' in answer.refusal
    return "" if expected else answer.refusal


ENDINGS = (
    Ending(
        story=f"{cast.PLATFORM} applies without spec.version, a field that it owns alone.",
        what="a field goes when its only owner drops it",
        share=Share(15, 3),
        manager=cast.PLATFORM,
        manifest=_without_version,
        fault=_version_gone,
    ),
    Ending(
        story=f"{cast.BACKUP} applies without its item of the list users, in which {cast.PLATFORM} has one too.",
        what="an item of a keyed list goes, another manager's stays",
        share=Share(20, 8),
        manager=cast.BACKUP,
        manifest=_without_user,
        fault=_user_gone,
    ),
    Ending(
        story=f"{cast.CONTROLLER} drops one of two conditions, which were one atomic list in v1alpha1.",
        what="one condition goes, the other stays",
        share=Share(15, 6),
        manager=cast.CONTROLLER,
        manifest=_without_condition,
        fault=_condition_gone,
        status=True,
    ),
    Ending(
        story=f"{cast.PLATFORM} sets spec.deletionPolicy, which so far was v1beta1's default and nobody's.",
        what="the owner takes the defaulted field, no conflict",
        share=Share(15, 7),
        manager=cast.PLATFORM,
        manifest=_with_policy,
        fault=_policy_taken,
    ),
    Ending(
        story=f"{_STRANGER} applies another spec.storageGiB, which is {cast.PLATFORM}'s.",
        what="a stranger is refused, and told the owner",
        share=Share(30, 11),
        manager=_STRANGER,
        manifest=_other_size,
        fault=_refused_for_owner,
    ),
)
