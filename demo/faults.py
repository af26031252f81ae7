"""The same change of version without restow, on a few databases under a CRD of their own.

Nothing is simulated: each request goes to the real API server, and the narration shows the response.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec

from demo import fixtures
from demo.client import DatabaseClient, Response
from demo.fixtures import FAULTS_GROUP, NEW, OLD, PLURAL, CrdStage, Database, crd_name
from demo.narration import Narration
from restow.controlplane import Etcd

__all__ = ["show_faults"]

_COUNT = 7
_CRD = crd_name(FAULTS_GROUP)
_TOOL = "some-migrator"


async def show_faults(narration: Narration, client: DatabaseClient, etcd: Etcd) -> None:
    """Change from v1alpha1 to v1beta1 in two common ways, and show the effect on the owners."""
    databases = [Database(number * 12) for number in range(_COUNT)]  # every manager writes each of them
    (await client.apply_crd(CrdStage.ALONE)).or_raise()
    for each in databases:
        await _write_all(client, each)
    (await client.apply_crd(CrdStage.SUCCEEDED)).or_raise()
    narration.say(
        f"{_COUNT} databases under {_CRD}: same schema, same managers; {NEW} has just become the storage version."
    )
    left, patched, applied = databases[0], databases[1:4], databases[4:]
    await _nothing(narration, client, left)
    await _empty_patches(narration, client, patched)
    await _empty_applies(narration, client, applied)
    await _removal(narration, client, etcd)
    await _afterwards(narration, client, applied[-1], applied[-2])


async def _write_all(client: DatabaseClient, database: Database) -> None:
    group = client.group
    (await client.apply(fixtures.platform_manifest(database, OLD, group=group), fixtures.PLATFORM)).or_raise()
    (await client.apply(fixtures.backup_manifest(database, OLD, group=group), fixtures.BACKUP)).or_raise()
    (
        await client.apply(fixtures.status_manifest(database, OLD, group=group), fixtures.CONTROLLER, status=True)
    ).or_raise()


async def _nothing(narration: Narration, client: DatabaseClient, database: Database) -> None:
    narration.heading(
        f"a. Nothing is done, and {fixtures.PLATFORM} moves on to {NEW}: it applies with more storageGiB, twice."
    )
    for more in (10, 20):
        narration.command(_kubectl_apply(database, fixtures.PLATFORM))
        _show_response(narration, await client.apply(_resized(client, database, more), fixtures.PLATFORM))


async def _empty_patches(narration: Narration, client: DatabaseClient, databases: Sequence[Database]) -> None:
    narration.heading("b. An empty merge patch for each object: it changes nothing but how the object is stored.")
    first, second, *_ = databases
    narration.command(_kubectl("patch", first, "--type=merge -p '{}'"))
    responses = [await client.merge(each.namespace, each.name, NEW, {}, _TOOL) for each in databases]
    _show_entries(narration, responses)
    narration.say(f"When {fixtures.PLATFORM} then changes its own storageGiB:")
    narration.command(_kubectl_apply(first, fixtures.PLATFORM))
    _show_response(narration, await client.apply(_resized(client, first, 10), fixtures.PLATFORM))

    manifest = fixtures.platform_manifest(second, NEW, group=client.group)
    del manifest["spec"]["version"]
    narration.say("And when it drops its own version from the manifest:")
    narration.command(_kubectl_apply(second, fixtures.PLATFORM))
    response = await client.apply(manifest, fixtures.PLATFORM)
    _show_version(narration, response)


async def _empty_applies(narration: Narration, client: DatabaseClient, databases: Sequence[Database]) -> None:
    narration.heading("c. An empty server-side apply for each object instead, with nothing but its identity.")
    manifests = [fixtures.manifest(each, NEW, group=client.group) for each in databases]
    said = msgspec.json.encode(manifests[0]).decode()
    narration.command(f"echo '{said}' | kubectl apply --server-side --field-manager={_TOOL} -f -")
    _show_entries(narration, [await client.apply(each, _TOOL) for each in manifests])


async def _removal(narration: Narration, client: DatabaseClient, etcd: Etcd) -> None:
    stored = Counter([each["apiVersion"] async for each in etcd.stored_objects(client.group, PLURAL)])
    said = ", ".join(f"{count} at {version}" for version, count in stored.items())
    narration.say(f"etcd holds {said}. So {OLD} is pruned from status.storedVersions and removed from the CRD:")
    narration.command(f"kubectl apply --server-side -f {_CRD}.yaml")
    _show_response(narration, await client.apply_crd(CrdStage.REMOVED))
    narration.command(
        f'kubectl patch crd {_CRD} --subresource=status --type=merge -p \'{{"status":{{"storedVersions":["{NEW}"]}}}}\''
    )
    _show_response(narration, await client.patch_stored_versions([NEW]))
    narration.command(f"kubectl apply --server-side -f {_CRD}.yaml")
    _show_response(narration, await client.apply_crd(CrdStage.REMOVED))


async def _afterwards(narration: Narration, client: DatabaseClient, one: Database, another: Database) -> None:
    narration.say(f"Then {fixtures.PLATFORM} applies what it always applied, and once more by force:")
    manifest = fixtures.platform_manifest(one, NEW, group=client.group)
    for force in (False, True):
        narration.command(_kubectl_apply(one, fixtures.PLATFORM, force=force))
        _show_response(narration, await client.apply(manifest, fixtures.PLATFORM, force=force))
    narration.say("And another client writes anything to an object:")
    narration.command(_kubectl("annotate", another, "looked-at=today"))
    patch = {"metadata": {"annotations": {"looked-at": "today"}}}
    _show_entries(narration, [await client.merge(another.namespace, another.name, NEW, patch, "kubectl-annotate")])


def _resized(client: DatabaseClient, database: Database, more: int) -> dict[str, Any]:
    storage = fixtures.storage_of(database.number) + more
    return fixtures.platform_manifest(database, NEW, group=client.group, storage=storage)


def _kubectl(verb: str, database: Database, rest: str) -> str:
    return f"kubectl {verb} -n {database.namespace} {PLURAL}.{FAULTS_GROUP} {database.name} {rest}"


def _kubectl_apply(database: Database, manager: str, *, force: bool = False) -> str:
    forced = " --force-conflicts" if force else ""
    return f"kubectl apply --server-side{forced} --field-manager={manager} -f {database.key}.yaml"


def _show_response(narration: Narration, response: Response) -> None:
    if response.refusal:
        narration.output(response.refusal, good=False)
    else:
        narration.output("200 OK")


def _show_entries(narration: Narration, responses: Sequence[Response]) -> None:
    """Show the remaining managedFields entries after a write of some objects."""
    if any(response.refusal for response in responses):
        for response in responses:
            _show_response(narration, response)
        return
    left = Counter(entry["apiVersion"].rpartition("/")[2] for response in responses for entry in response.entries)
    objects = f"all {len(responses)} objects" if len(responses) > 1 else "the object"
    if left:
        said = " and ".join(f"{count} at {version}" for version, count in sorted(left.items()))
        narration.output(f"200 OK. The managedFields entries of {objects} are still there: {said}.")
    else:
        said = f"200 OK, without a warning. managedFields of {objects} are empty now: no field has an owner."
        narration.output(said, good=False)


def _show_version(narration: Narration, response: Response) -> None:
    """Show whether the API server removed the field that its owner dropped."""
    if response.refusal or "version" not in response.object["spec"]:
        _show_response(narration, response)
        return
    owners = [entry["manager"] for entry in response.entries if "f:version" in entry["fieldsV1"].get("f:spec", {})]
    said = f"200 OK, but the field is still there; its owners now: {', '.join(owners) or 'none'}."
    narration.output(said, good=False)
