"""Operations that only the owner of a field can do, after the removal of v1alpha1, prove that ownership survived. Pure.

Each outcome uses its own share of the databases, and has a function that judges the API server's response.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from demo import fixtures
from demo.checks import Check
from demo.client import Response
from demo.fixtures import NEW, Apply, Database, Share
from demo.state import StoredObjects

__all__ = ["OUTCOMES", "Outcome", "applies_of", "deletions_ended", "judge", "releases"]

_STRANGER = "another-client"


@dataclass(frozen=True, slots=True)
class Outcome:
    """One operation with its expected result.

    Attributes:
        narration: the operation, for the output.
        what: the expectation, for the result.
        share: the databases of the operation.
        manager, manifest: the manager, and the manifest that it applies without force.
        status: whether the manager applies through the status subresource.
        fault: returns what is wrong with a response, or an empty string.
    """

    narration: str
    what: str
    share: Share
    manager: str
    manifest: Callable[[Database, int | None], dict[str, Any]]
    fault: Callable[[Response], str]
    status: bool = False


def applies_of(outcome: Outcome, databases: Sequence[Database], storage: Mapping[int, int]) -> list[Apply]:
    """Return the applies of an outcome; ``storage`` has the sizes that clients changed."""
    return [
        Apply(each, outcome.manager, outcome.manifest(each, storage.get(each.number)), status=outcome.status)
        for each in outcome.share.of(databases)
    ]


def judge(when: str, outcome: Outcome, wanted: Sequence[Apply], responses: Sequence[Response]) -> Check:
    """Judge the responses to the applies of an outcome."""
    faults = ((each.database.key, outcome.fault(response)) for each, response in zip(wanted, responses, strict=True))
    return Check(when, outcome.what, len(wanted), tuple(f"{key}: {fault}" for key, fault in faults if fault))


def releases(databases: Sequence[Database]) -> list[Apply]:
    """Return the applies that release databases under deletion: their manifests without the finalizer."""
    released = []
    for each in databases:
        manifest = fixtures.platform_manifest(each, NEW)
        del manifest["metadata"]["finalizers"]
        released.append(Apply(each, fixtures.PLATFORM, manifest))
    return released


def deletions_ended(when: str, released: Sequence[Database], now: StoredObjects) -> Check:
    """Judge that databases under deletion were removed when the owner of their last finalizer dropped it."""
    wrong = tuple(f"{each.key} is still there" for each in released if each.key in now)
    return Check(when, "dropping its finalizer ends a deletion that waited for it", len(released), wrong)


def _without_version(database: Database, storage: int | None) -> dict[str, Any]:
    manifest = fixtures.platform_manifest(database, NEW, storage=storage)
    del manifest["spec"]["version"]
    return manifest


def _version_gone(response: Response) -> str:
    return response.refusal or ("spec.version is still there" if "version" in response.object["spec"] else "")


def _without_user(database: Database, _storage: int | None) -> dict[str, Any]:
    manifest = fixtures.backup_manifest(database, NEW)
    del manifest["spec"]["users"]
    return manifest


def _user_gone(response: Response) -> str:
    if response.refusal:
        return response.refusal
    names = [user["name"] for user in response.object["spec"].get("users", [])]
    return "" if names == ["app"] else f"its users are {', '.join(names) or 'gone'}"


def _without_condition(database: Database, _storage: int | None) -> dict[str, Any]:
    manifest = fixtures.status_manifest(database, NEW)
    manifest["status"]["conditions"] = [each for each in manifest["status"]["conditions"] if each["type"] == "Ready"]
    return manifest


def _condition_gone(response: Response) -> str:
    if response.refusal:
        return response.refusal
    types = [condition["type"] for condition in response.object["status"].get("conditions", [])]
    return "" if types == ["Ready"] else f"its conditions are {', '.join(types) or 'gone'}"


def _with_policy(database: Database, storage: int | None) -> dict[str, Any]:
    manifest = fixtures.platform_manifest(database, NEW, storage=storage)
    manifest["spec"]["deletionPolicy"] = "Delete"
    return manifest


def _policy_taken(response: Response) -> str:
    if response.refusal:
        return response.refusal
    owners = {
        entry["manager"] for entry in response.entries if "f:deletionPolicy" in entry["fieldsV1"].get("f:spec", {})
    }
    if response.object["spec"]["deletionPolicy"] != "Delete":
        return "its deletionPolicy did not change"
    return (
        ""
        if owners == {fixtures.PLATFORM}
        else f"the owners of its deletionPolicy: {', '.join(sorted(owners)) or 'none'}"
    )


def _other_size(database: Database, _storage: int | None) -> dict[str, Any]:
    return fixtures.manifest(database, NEW, spec={"engine": "postgres", "storageGiB": 9999})


def _refused_for_owner(response: Response) -> str:
    if not response.refusal:
        return "anybody may change its storageGiB"
    expected = response.refusal.startswith("409") and f'"{fixtures.PLATFORM}"' in response.refusal
    return "" if expected else response.refusal


OUTCOMES = (
    Outcome(
        narration=f"{fixtures.PLATFORM} applies without spec.version, a field that it owns alone.",
        what="a field goes when its only owner drops it",
        share=Share(15, 3),
        manager=fixtures.PLATFORM,
        manifest=_without_version,
        fault=_version_gone,
    ),
    Outcome(
        narration=f"{fixtures.BACKUP} applies without its item of the list users, "
        f"in which {fixtures.PLATFORM} has one too.",
        what="an item of a keyed list goes, another manager's stays",
        share=Share(20, 8),
        manager=fixtures.BACKUP,
        manifest=_without_user,
        fault=_user_gone,
    ),
    Outcome(
        narration=f"{fixtures.CONTROLLER} drops one of two conditions, which were one atomic list in v1alpha1.",
        what="one condition goes, the other stays",
        share=Share(15, 6),
        manager=fixtures.CONTROLLER,
        manifest=_without_condition,
        fault=_condition_gone,
        status=True,
    ),
    Outcome(
        narration=f"{fixtures.PLATFORM} sets spec.deletionPolicy, which so far was v1beta1's default and had no owner.",
        what="the owner takes the defaulted field, no conflict",
        share=Share(15, 7),
        manager=fixtures.PLATFORM,
        manifest=_with_policy,
        fault=_policy_taken,
    ),
    Outcome(
        narration=f"{_STRANGER} applies another spec.storageGiB, which is {fixtures.PLATFORM}'s.",
        what="a stranger is refused, and told the owner",
        share=Share(30, 11),
        manager=_STRANGER,
        manifest=_other_size,
        fault=_refused_for_owner,
    ),
)
