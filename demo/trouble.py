"""The same change of version without restow, on a few databases under a CRD of their own. Nothing here is staged.

Each request is sent to the real API server, and what is told is what it answered.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec

from demo import cast
from demo.answers import Answer
from demo.cast import Database
from demo.crd import NEW, OLD, PLURAL, TROUBLE_GROUP, Life, crd_name
from demo.narration import Story
from demo.writing import Writer
from restow.controlplane import Etcd

__all__ = ["show_trouble"]

_COUNT = 7
_CRD = crd_name(TROUBLE_GROUP)
_TOOL = "some-migrator"


async def show_trouble(story: Story, writer: Writer, etcd: Etcd) -> None:
    """Go from v1alpha1 to v1beta1 as it is often done, in two ways, and tell what becomes of the owners."""
    databases = [Database(number * 12) for number in range(_COUNT)]  # each of them has every manager
    (await writer.apply_crd(Life.ALONE)).accepted()
    for each in databases:
        await _write_all(writer, each)
    (await writer.apply_crd(Life.SUCCEEDED)).accepted()
    story.tell(
        f"{_COUNT} databases under {_CRD}: same schema, same managers; {NEW} has just become the storage version."
    )
    left, patched, applied = databases[0], databases[1:4], databases[4:]
    await _nothing(story, writer, left)
    await _empty_patches(story, writer, patched)
    await _empty_applies(story, writer, applied)
    await _removal(story, writer, etcd)
    await _afterwards(story, writer, applied[-1], applied[-2])


async def _write_all(writer: Writer, database: Database) -> None:
    group = writer.group
    (await writer.apply(cast.platform_manifest(database, OLD, group=group), cast.PLATFORM)).accepted()
    (await writer.apply(cast.backup_manifest(database, OLD, group=group), cast.BACKUP)).accepted()
    (await writer.apply(cast.status_manifest(database, OLD, group=group), cast.CONTROLLER, status=True)).accepted()


async def _nothing(story: Story, writer: Writer, database: Database) -> None:
    story.heads(f"a. Nothing is done, and {cast.PLATFORM} moves on to {NEW}: it applies with more storageGiB, twice.")
    for more in (10, 20):
        story.types(_kubectl_apply(database, cast.PLATFORM))
        _hear(story, await writer.apply(_resized(writer, database, more), cast.PLATFORM))


async def _empty_patches(story: Story, writer: Writer, databases: Sequence[Database]) -> None:
    story.heads("b. An empty merge patch for each object: it changes nothing but how the object is stored.")
    first, second, *_ = databases
    story.types(_kubectl("patch", first, "--type=merge -p '{}'"))
    answers = [await writer.merge(each.namespace, each.name, NEW, {}, _TOOL) for each in databases]
    _hear_entries(story, answers)
    story.tell(f"When {cast.PLATFORM} then changes its own storageGiB:")
    story.types(_kubectl_apply(first, cast.PLATFORM))
    _hear(story, await writer.apply(_resized(writer, first, 10), cast.PLATFORM))

    manifest = cast.platform_manifest(second, NEW, group=writer.group)
    del manifest["spec"]["version"]
    story.tell("And when it drops its own version from the manifest:")
    story.types(_kubectl_apply(second, cast.PLATFORM))
    answer = await writer.apply(manifest, cast.PLATFORM)
    _hear_version(story, answer)


async def _empty_applies(story: Story, writer: Writer, databases: Sequence[Database]) -> None:
    story.heads("c. An empty server-side apply for each object instead, with nothing but its identity.")
    manifests = [cast.manifest(each, NEW, group=writer.group) for each in databases]
    said = msgspec.json.encode(manifests[0]).decode()
    story.types(f"echo '{said}' | kubectl apply --server-side --field-manager={_TOOL} -f -")
    _hear_entries(story, [await writer.apply(each, _TOOL) for each in manifests])


async def _removal(story: Story, writer: Writer, etcd: Etcd) -> None:
    stored = Counter([each["apiVersion"] async for each in etcd.stored_objects(writer.group, PLURAL)])
    said = ", ".join(f"{count} at {version}" for version, count in stored.items())
    story.tell(f"etcd holds {said}. So {OLD} is pruned from status.storedVersions and removed from the CRD:")
    story.types(f"kubectl apply --server-side -f {_CRD}.yaml")
    _hear(story, await writer.apply_crd(Life.REMOVED))
    story.types(
        f'kubectl patch crd {_CRD} --subresource=status --type=merge -p \'{{"status":{{"storedVersions":["{NEW}"]}}}}\''
    )
    _hear(story, await writer.patch_stored_versions([NEW]))
    story.types(f"kubectl apply --server-side -f {_CRD}.yaml")
    _hear(story, await writer.apply_crd(Life.REMOVED))


async def _afterwards(story: Story, writer: Writer, one: Database, another: Database) -> None:
    story.tell(f"Then {cast.PLATFORM} applies what it always applied, and once more by force:")
    manifest = cast.platform_manifest(one, NEW, group=writer.group)
    for force in (False, True):
        story.types(_kubectl_apply(one, cast.PLATFORM, force=force))
        _hear(story, await writer.apply(manifest, cast.PLATFORM, force=force))
    story.tell("And somebody writes anything else to an object:")
    story.types(_kubectl("annotate", another, "looked-at=today"))
    patch = {"metadata": {"annotations": {"looked-at": "today"}}}
    _hear_entries(story, [await writer.merge(another.namespace, another.name, NEW, patch, "kubectl-annotate")])


def _resized(writer: Writer, database: Database, more: int) -> dict[str, Any]:
    storage = cast.storage_of(database.number) + more
    return cast.platform_manifest(database, NEW, group=writer.group, storage=storage)


def _kubectl(verb: str, database: Database, rest: str) -> str:
    return f"kubectl {verb} -n {database.namespace} {PLURAL}.{TROUBLE_GROUP} {database.name} {rest}"


def _kubectl_apply(database: Database, manager: str, *, force: bool = False) -> str:
    forced = " --force-conflicts" if force else ""
    return f"kubectl apply --server-side{forced} --field-manager={manager} -f {database.key}.yaml"


def _hear(story: Story, answer: Answer) -> None:
    if answer.refusal:
        story.hears(answer.refusal, good=False)
    else:
        story.hears("200 OK")


def _hear_entries(story: Story, answers: Sequence[Answer]) -> None:
    """Tell which managedFields entries are left after a write of some objects."""
    if any(answer.refusal for answer in answers):
        for answer in answers:
            _hear(story, answer)
        return
    left = Counter(entry["apiVersion"].rpartition("/")[2] for answer in answers for entry in answer.entries)
    objects = f"all {len(answers)} objects" if len(answers) > 1 else "the object"
    if left:
        said = " and ".join(f"{count} at {version}" for version, count in sorted(left.items()))
        story.hears(f"200 OK. The managedFields entries of {objects} are still there: {said}.")
    else:
        said = f"200 OK, not a word more. managedFields of {objects} are empty now: nobody owns anything."
        story.hears(said, good=False)


def _hear_version(story: Story, answer: Answer) -> None:
    """Tell whether the field went that its owner has dropped."""
    if answer.refusal or "version" not in answer.object["spec"]:
        _hear(story, answer)
        return
    owners = [entry["manager"] for entry in answer.entries if "f:version" in entry["fieldsV1"].get("f:spec", {})]
    said = f"200 OK, but the field is still there; its owner is {', '.join(owners) or 'nobody'} now."
    story.hears(said, good=False)
