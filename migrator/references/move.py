"""Write references at another version and keep the ownership of all fields: ``move_references``.

A write changes the field's owner in managedFields: the API server removes a changed field from its owner and assigns it
to the writer. Therefore ``OwnedWrites`` writes under the name of the field's owner. If the owner's entry is an Update
at the same version, this is enough. Otherwise a second write restores the previous managedFields; it changes nothing
else, so the API server keeps them as sent. Every answer is compared with the previous ownership. Writes carry the
resourceVersion that was read; after a conflict the module reads the object and decides again. An interrupted run leaves
some references unmoved, and the next run finds them.

An API server drops the status from a write of an object whose kind has the subresource ``status``. Therefore the module
writes references below ``/status`` of such kinds through that subresource, after the other references of the object.

The module first reads the uid of an owner. It does not change a reference to an object that does not exist, or to
another object of that name.

It converts the objects of a Helm release as the webhook does, and stores the release with them. A Secret keeps the
previous release, from which ``undo_releases`` restores manifest and hooks. Later writes of Helm, such as the status of
the revision, stay.
"""

from __future__ import annotations

import base64
import random
import time
from collections import Counter, OrderedDict
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from enum import Enum
from typing import Any, Final

import msgspec

from restow.crds import Crd, fieldpath
from restow.kube.cluster import Cluster, PatchType
from restow.kube.errors import AlreadyExists, Conflict, Invalid, KubeError, NotFound
from restow.kube.resources import CONFIG_MAPS, SECRETS, Object, Resource, qualified_name
from restow.kube.retry import jittered, with_retries
from restow.migrator.model.callbacks import MigrationRefused
from restow.migrator.model.converter import Converter, ConverterDown, Unconverted
from restow.migrator.model.options import Options
from restow.migrator.model.report import Requests
from restow.migrator.ownership.entries import FIELD_MANAGER, ManagedFieldsEntry, same_ownership
from restow.migrator.references.readers.helm import RELEASE_TYPE, NoRelease, StoredObject, StoredRelease
from restow.migrator.references.readers.mentions import Spellings
from restow.migrator.references.readers.metadata import owner_references
from restow.migrator.references.readers.typed import typed_references
from restow.migrator.references.reference import NotLookedAt, Reference, ReferenceKind, SoughtVersion, sought
from restow.migrator.references.scan import find_references, listing_decoder, resources_path
from restow.migrator.requests.environment import Converters, Environment, RunStop, own_webhook
from restow.migrator.requests.lister import list_objects
from restow.migrator.requests.webhook import open_converter
from restow.migrator.requests.wire import Meta, combined_patch, object_decoder, whole_object_decoder


class WriteOutcome(Enum):
    """The result of a write; the value of a failure is a sentence."""

    WRITTEN = ""
    CONFLICT = "another client wrote the object meanwhile"
    LOSES_OWNERS = (
        "a write would lose the owners of its fields, since the API server cannot convert an entry of its "
        "managedFields; migrate the CRD of the object first (restow migrate), then run again"
    )
    OWNER_CHANGED = (
        "it was moved, but another client wrote the object meanwhile, so its owner by server-side apply owns it as an "
        "update now; have that owner apply again with force"
    )


class OwnedWrites:
    """Writes to a cluster.

    Args:
        cluster: the API server.
        dry_run: send every write with ``dryRun=All``.

    Attributes:
        count: the number of requests that changed something.
    """

    def __init__(self, cluster: Cluster, *, dry_run: bool = False) -> None:
        self._cluster = with_retries(cluster)
        self._dry_run = dry_run
        self.count = 0

    async def change(
        self,
        resource: Resource,
        meta: Meta,
        changes: Mapping[str, str],
        path: Sequence[str],
        *,
        subresource: str | None = None,
    ) -> WriteOutcome:
        """Change strings of one object.

        Args:
            resource: the resource, at the version to write at.
            meta: the object's metadata as read.
            changes: the new strings by JSON pointer.
            path: the path of the first one in managedFields.
            subresource: the subresource to write, such as ``status``; None for the object itself.

        Raises:
            KubeError: the API server refuses the write, or cannot be reached.
        """
        replace = {"/metadata/resourceVersion": meta.resource_version, **changes}
        body = msgspec.json.encode([{"op": "replace", "path": at, "value": value} for at, value in replace.items()])
        owner = {"fieldManager": _owner_of(meta, path)}
        try:
            # First a dry run: an entry that cannot be converted makes the server drop all others, as the answer shows.
            answer = await self._patch(resource, meta, body, PatchType.JSON, owner | {"dryRun": "All"}, subresource)
            if meta.managed_fields and not answer.managed_fields:
                return WriteOutcome.LOSES_OWNERS
            if self._dry_run:
                return WriteOutcome.WRITTEN
            answer = await self._patch(resource, meta, body, PatchType.JSON, owner, subresource)
        except Conflict:
            return WriteOutcome.CONFLICT
        return WriteOutcome.WRITTEN if await self._restored(resource, meta, answer) else WriteOutcome.OWNER_CHANGED

    async def _restored(self, resource: Resource, before: Meta, now: Meta) -> bool:
        """Restore the previous managedFields; return false if another client wrote the object meanwhile."""
        if not before.managed_fields or same_ownership(before.managed_fields, now.managed_fields):
            return True
        body = combined_patch(now.resource_version, before.managed_fields)
        try:
            now = await self._patch(resource, now, body, PatchType.MERGE, {"fieldManager": FIELD_MANAGER})
        except Conflict:
            return False
        return same_ownership(before.managed_fields, now.managed_fields)

    async def _patch(
        self,
        resource: Resource,
        meta: Meta,
        body: bytes,
        patch_type: PatchType,
        params: dict[str, str],
        subresource: str | None = None,
    ) -> Meta:
        self.count += "dryRun" not in params
        reply = await self._cluster.patch(
            resource,
            meta.name,
            body,
            meta.namespace or None,
            patch_type=patch_type,
            subresource=subresource,
            params=params,
            metadata_only=True,
        )
        return reply.decode(object_decoder).metadata


def _owner_of(meta: Meta, path: Sequence[str]) -> str:
    """Return the manager that owns a field: the entry that names the longest part of its path, Updates first."""
    best, owner = 0, FIELD_MANAGER
    for entry in sorted(meta.managed_fields, key=lambda each: each.operation != "Update"):
        if (depth := _depth(entry, path)) > best:
            best, owner = depth, entry.manager
    return owner


def _depth(entry: ManagedFieldsEntry, path: Sequence[str]) -> int:
    try:
        node: Any = fieldpath.decode(entry.fields)
    except msgspec.MsgspecError:
        return 0
    for depth, element in enumerate(path):
        if element not in node:
            return depth
        node = node[element]
    return len(path)


MOVABLE_KINDS: Final = frozenset({ReferenceKind.OWNER_REFERENCES, ReferenceKind.TYPED, ReferenceKind.HELM})
"""The kinds of references that can be written at another version."""

_MOST_LISTED: Final = 100
_ATTEMPTS: Final = 5
_STATUS: Final = "status"
_MOST_OWNERS: Final = 1000
_OTHER_FIELDS: Final = (
    "whoever follows it reads objects with the fields of the version, and those of {to} are others, or are converted: "
    "write it by hand, together with what reads the objects"
)
_AGAIN: Final = "other clients wrote the object again and again; run again"

BACKUP_LABEL: Final = {"restow.dev/backup": "helm-release"}
MOVED: Final = "restow.dev/moved"
"""The annotation of a backup: the CRD, and the version that the release named."""


@dataclass(frozen=True, slots=True)
class NotMoved:
    """A reference that was not written, and why.

    Attributes:
        resource, namespace, name, where: the place of the reference.
        reason: the reason, a sentence.
        failed: whether a write failed; otherwise restow did not try one.
    """

    resource: str
    namespace: str
    name: str
    where: str
    reason: str
    failed: bool

    def to_json(self) -> dict[str, Any]:
        """Return an item of ``notMoved`` in the JSON of ``restow references --move``."""
        return asdict(self)


@dataclass(slots=True)
class MoveReport:
    """The results for the references to one version.

    Attributes:
        of: the version that they named.
        target: the version that they name now.
        dry_run: whether nothing was stored.
        moved, skipped, failed: the numbers of references, by kind.
        not_moved: the first of the references that were skipped or failed.
        not_looked_at: the places that could not be searched and may have more.
        writes: the number of write requests.
    """

    of: SoughtVersion
    target: str
    dry_run: bool = False
    moved: Counter[ReferenceKind] = field(default_factory=Counter)
    skipped: Counter[ReferenceKind] = field(default_factory=Counter)
    failed: Counter[ReferenceKind] = field(default_factory=Counter)
    not_moved: list[NotMoved] = field(default_factory=list)
    not_looked_at: tuple[NotLookedAt, ...] = ()
    writes: int = 0

    @property
    def result(self) -> str:
        """The result as in the report of a migration: ``Succeeded``, ``Failed`` or ``DryRun``."""
        if self.failed or self.not_looked_at:
            return "Failed"
        return "DryRun" if self.dry_run else "Succeeded"

    def to_json(self) -> dict[str, Any]:
        """Return the JSON of ``restow references --move``."""
        return {
            "result": self.result,
            "name": self.of.crd,
            "version": self.of.version,
            "target": self.target,
            "moved": {kind.value: count for kind, count in self.moved.items()},
            "skipped": {kind.value: count for kind, count in self.skipped.items()},
            "failed": {kind.value: count for kind, count in self.failed.items()},
            "notMoved": [each.to_json() for each in self.not_moved],
            "notLookedAt": [each.to_json() for each in self.not_looked_at],
            "writes": self.writes,
        }


async def move_references(
    cluster: Cluster,
    crd: Crd,
    version: str,
    target: str,
    *,
    kinds: Collection[ReferenceKind] = MOVABLE_KINDS,
    converters: Converters = own_webhook,
    all_revisions: bool = False,
    dry_run: bool = False,
) -> MoveReport:
    """Write the references to a version at another version.

    Args:
        cluster: the API server.
        crd: the CRD as just read.
        version: the version that references name.
        target: the new version for them.
        kinds: a subset of ``MOVABLE_KINDS``.
        converters: convert objects of Helm releases if the CRD has strategy Webhook; by default its webhook does.
        all_revisions: also move revisions of Helm releases that only a rollback reads.
        dry_run: send every write with ``dryRun=All``.

    Raises:
        MigrationRefused: the target is not served, or is the version itself.
        KubeError: the API server cannot be reached.
    """
    if target not in crd.served or target == version:
        served = ", ".join(name for name in crd.served if name != version)
        msg = (
            f"references to {crd.name} cannot be written at {target}: its other served versions are {served or 'none'}"
        )
        raise MigrationRefused(msg)
    async with _converter(cluster, crd, converters) as converter:
        mover = _ReferenceMover(
            cluster, crd, sought(crd, version), target, converter, all_revisions=all_revisions, dry_run=dry_run
        )
        found = (await find_references(cluster, [mover.report.of], kinds=kinds, observe=mover.move))[mover.report.of]
    mover.report.not_looked_at = found.not_looked_at
    mover.report.writes = mover.owned.count
    return mover.report


@asynccontextmanager
async def _converter(cluster: Cluster, crd: Crd, converters: Converters) -> AsyncIterator[Converter | None]:
    """Open the converter for the objects of a CRD; None if only their apiVersion changes."""
    if crd.strategy == "None":
        yield None
    else:
        environment = Environment(cluster, RunStop(), time.monotonic, longest_patience_s=0.0)
        async with open_converter(converters(crd), environment, crd, Options(), Requests()) as converter:
            yield converter


class _ReferenceMover:
    def __init__(
        self,
        cluster: Cluster,
        crd: Crd,
        of: SoughtVersion,
        target: str,
        converter: Converter | None,
        *,
        all_revisions: bool,
        dry_run: bool,
    ) -> None:
        self._converter = converter
        self._all_revisions = all_revisions
        self._cluster = with_retries(cluster)
        self._crd = crd
        self._owners = {(of.api_version, of.kind): of}
        self._spellings = Spellings([of])
        self._same_fields = _same_fields(crd, of.version, target)
        self._uids: OrderedDict[tuple[str, str], str] = OrderedDict()
        self._with_status: dict[Resource, bool] = {}
        self._to = f"{of.group}/{target}"
        self.owned = OwnedWrites(self._cluster, dry_run=dry_run)
        self.report = MoveReport(of, target, dry_run)

    async def move(self, resource: Resource, meta: Meta, references: list[Reference]) -> None:
        """Move all movable references of one object; count the others."""
        try:
            if references[0].kind is ReferenceKind.HELM:
                await self._move_release(resource, meta, references)
                return
            by_status = [each for each in references if await self._is_status(resource, each)]
            others = [each for each in references if each not in by_status]
            if others:
                await self._move_fields(resource, meta, others, None)
            if by_status:
                if others and not self.report.dry_run:
                    meta, by_status = await self._reread(resource, meta, {ReferenceKind.TYPED}, _STATUS)
                await self._move_fields(resource, meta, by_status, _STATUS)
        except NotFound:
            return  # the object was deleted with its references
        except KubeError as error:
            self._failed(references, error)

    async def _move_fields(
        self, resource: Resource, meta: Meta, references: list[Reference], subresource: str | None
    ) -> None:
        due, left = references, list[tuple[Reference, str]]()
        try:
            for _ in range(_ATTEMPTS):
                due, left = await self._due(resource, meta, references)
                changes = {each.field: each.template.replace("{}", self.report.target) for each in due}
                if not due or await self._changed(resource, meta, due, changes, _path_of(meta, due[0]), subresource):
                    break
                meta, references = await self._reread(resource, meta, {each.kind for each in references}, subresource)
            else:
                self._not_moved(due, _AGAIN, failed=True)
        except NotFound:
            raise
        except KubeError as error:
            self._failed(due, error)
        for each, why in left:
            self._not_moved([each], why, failed=False)

    def _failed(self, references: Sequence[Reference], error: KubeError) -> None:
        said = error.findings if isinstance(error, Invalid) else error.said
        self._not_moved(references, said, failed=True)

    async def _is_status(self, resource: Resource, reference: Reference) -> bool:
        """Return whether a reference is written through the subresource ``status``."""
        if reference.kind is not ReferenceKind.TYPED or not reference.where.startswith("/status/"):
            return False
        if resource not in self._with_status:
            reply = await self._cluster.discover(resources_path(resource.group, resource.version))
            listed = {each.name for each in reply.decode(listing_decoder).resources or ()}
            self._with_status[resource] = f"{resource.plural}/{_STATUS}" in listed
        return self._with_status[resource]

    async def _due(
        self, resource: Resource, meta: Meta, references: Sequence[Reference]
    ) -> tuple[list[Reference], list[tuple[Reference, str]]]:
        """Return the references to write, and those to leave unchanged with the reason."""
        due, left = [], []
        for each in references:
            if not each.effect.movable:
                left.append((each, each.effect.advice))
            elif each.effect.same_fields and not self._same_fields:
                left.append((each, _OTHER_FIELDS.format(to=self._to)))
            elif each.kind is ReferenceKind.OWNER_REFERENCES and (why := await self._stranger(resource, meta, each)):
                left.append((each, why))
            else:
                due.append(each)
        return due, left

    async def _stranger(self, resource: Resource, meta: Meta, reference: Reference) -> str:
        """Return why an ownerReference does not name an object of the CRD; empty if it does."""
        owner = meta.owner_references[int(reference.where.rpartition("/")[2])]
        if self._crd.namespaced and not resource.namespaced:
            return (
                f"it is in no namespace, and its owner {owner.name} would be in one: the garbage collector deletes it"
            )
        namespace = meta.namespace if self._crd.namespaced else ""
        uid = await self._uid(namespace, owner.name)
        if not uid:
            return f"its owner {qualified_name(namespace, owner.name)} does not exist: delete it, or the reference"
        return "" if uid == owner.uid else f"its uid is not that of {qualified_name(namespace, owner.name)}"

    async def _uid(self, namespace: str, name: str) -> str:
        key = (namespace, name)
        if key not in self._uids:
            try:
                resource = self._crd.resource_at(self.report.target)
                reply = await self._cluster.get(resource, name, namespace or None, metadata_only=True)
                self._uids[key] = reply.decode(object_decoder).metadata.uid
            except NotFound:
                self._uids[key] = ""
            if len(self._uids) > _MOST_OWNERS:
                self._uids.popitem(last=False)
        return self._uids[key]

    async def _move_release(self, resource: Resource, meta: Meta, references: Sequence[Reference]) -> None:
        """Store a release with converted objects, and its previous state in a Secret."""
        for _ in range(_ATTEMPTS):
            reply = await self._cluster.get(resource, meta.name, meta.namespace or None)
            stored: dict[str, Any] = reply.decode(whole_object_decoder)
            now = reply.decode(object_decoder).metadata
            try:
                release = StoredRelease(stored)
            except NoRelease:
                return  # another client changed it since the list; the next run finds it again
            if release.former and not self._all_revisions:
                self._not_moved(references, "a former revision; --all-revisions moves these too", failed=False)
                return
            if not (objects := release.objects(self._owners)):
                self._not_moved(references, "the object is no document of its own in the manifest", failed=False)
                return
            converted, why = await self._converted(objects)
            if why:
                self._not_moved(references, why, failed=True)
                return
            if not self.report.dry_run:
                await self._back_up(resource, now, stored)
            changes = {"/data/release": release.rewritten(objects, converted)}
            if await self._changed(resource, now, references, changes, ["f:data", "f:release"]):
                return
        self._not_moved(references, _AGAIN, failed=True)

    async def _converted(self, objects: Sequence[StoredObject]) -> tuple[list[Object], str]:
        """Return objects at the target version, or why they cannot be converted."""
        if self._converter is None:
            return [{**each.content, "apiVersion": self._to} for each in objects], ""
        try:
            answers = await self._converter.convert([each.content for each in objects], self._to)
        except ConverterDown as down:
            return [], str(down)
        failed = [each.message for each in answers if isinstance(each, Unconverted)]
        return [each for each in answers if not isinstance(each, Unconverted)], "; ".join(failed)

    async def _back_up(self, resource: Resource, meta: Meta, stored: Object) -> None:
        """Copy a release to a Secret in its namespace; a copy from an interrupted run stays."""
        of = self.report.of
        name = f"restow-backup.{of.version}.{of.crd}.{meta.name}"
        metadata = {"name": name, "labels": BACKUP_LABEL, "annotations": {MOVED: f"{of.crd} {of.version}"}}
        told = {"resource": resource.plural, "name": meta.name, "uid": meta.uid}
        secret: dict[str, Any] = {"metadata": metadata, "type": "restow.dev/helm-release"}
        if resource.plural == SECRETS.plural:
            secret |= {"stringData": told, "data": {"release": stored["data"]["release"]}}
        else:  # a ConfigMap has plain text, a Secret base64
            secret |= {"stringData": told | {"release": stored["data"]["release"]}}
        body = msgspec.json.encode(secret)
        try:
            await self._cluster.create(SECRETS, body, meta.namespace)
        except AlreadyExists:
            reply = await self._cluster.get(SECRETS, name, meta.namespace)
            kept: dict[str, Any] = reply.decode(whole_object_decoder)
            if base64.b64decode(kept.get("data", {}).get("uid", "")).decode() == meta.uid:
                return
            await self._cluster.delete(SECRETS, name, meta.namespace)  # it belongs to a deleted release of this name
            await self._cluster.create(SECRETS, body, meta.namespace)

    async def _changed(
        self,
        resource: Resource,
        meta: Meta,
        due: Sequence[Reference],
        changes: Mapping[str, str],
        path: Sequence[str],
        subresource: str | None = None,
    ) -> bool:
        """Change fields of one object; return false if another client wrote it meanwhile."""
        outcome = await self.owned.change(resource, meta, changes, path, subresource=subresource)
        if outcome is WriteOutcome.CONFLICT:
            return False
        if outcome is WriteOutcome.WRITTEN:
            self.report.moved.update(each.kind for each in due)
        else:
            self._not_moved(due, outcome.value, failed=True)
        return True

    async def _reread(
        self, resource: Resource, meta: Meta, kinds: Collection[ReferenceKind], subresource: str | None
    ) -> tuple[Meta, list[Reference]]:
        """Read an object again; return its references to write through the subresource, or without one."""
        reply = await self._cluster.get(resource, meta.name, meta.namespace or None)
        now, name = reply.decode(object_decoder).metadata, resource.full_name
        found = [*owner_references(name, now, self._owners)]
        content: dict[str, Any] = reply.decode(whole_object_decoder)
        found += typed_references(name, content, self._spellings)
        due = [each for each in found if each.kind in kinds]
        return now, [each for each in due if await self._is_status(resource, each) is (subresource == _STATUS)]

    def _not_moved(self, references: Sequence[Reference], reason: str, *, failed: bool) -> None:
        (self.report.failed if failed else self.report.skipped).update(each.kind for each in references)
        for each in references:
            if len(self.report.not_moved) < _MOST_LISTED:
                made = NotMoved(each.resource, each.namespace, each.name, each.where, reason, failed)
                self.report.not_moved.append(made)


def _same_fields(crd: Crd, version: str, target: str) -> bool:
    """Return whether objects are the same at both versions but for their apiVersion."""
    schemas = [found.schema.node for name in (version, target) if (found := crd.version(name)) is not None]
    return crd.strategy == "None" and len(schemas) == 2 and schemas[0] == schemas[1]


def _path_of(meta: Meta, reference: Reference) -> list[str]:
    """Return the path of a reference in managedFields, up to the first list."""
    if reference.kind is ReferenceKind.OWNER_REFERENCES:
        uid = meta.owner_references[int(reference.where.rpartition("/")[2])].uid
        return ["f:metadata", "f:ownerReferences", fieldpath.key_element({"uid": uid})]
    steps = reference.field.strip("/").split("/")
    return [f"f:{step.replace('~1', '/').replace('~0', '~')}" for step in steps]


_DRIVERS: Final[Mapping[str, Resource]] = {each.plural: each for each in (SECRETS, CONFIG_MAPS)}


@dataclass(slots=True)
class UndoReport:
    """The results for the releases that a move changed.

    Attributes:
        undone: the names of the releases with restored manifests.
        failed: the other releases, each with a sentence.
    """

    undone: list[str] = field(default_factory=list)
    failed: dict[str, str] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        """Return the JSON of ``restow references --undo``."""
        return {"undone": self.undone, "failed": [{"name": name, "reason": why} for name, why in self.failed.items()]}


async def undo_releases(cluster: Cluster, crd: Crd, version: str) -> UndoReport:
    """Restore the manifests of Helm releases from before ``move_references``, and delete the backups.

    Args:
        cluster: the API server.
        crd: the CRD.
        version: the version that the releases named.

    Raises:
        ListFailed: the Secrets cannot be listed.
        KubeError: the API server cannot be reached.
    """
    report, chance = UndoReport(), random.Random()
    pages = list_objects(
        cluster,
        SECRETS,
        page_size=20,
        requests=Requests(),
        stop=RunStop(),
        jitter=lambda seconds: jittered(seconds, chance),
        selector=",".join(f"{name}={value}" for name, value in BACKUP_LABEL.items()),
        whole=True,
    )
    async for page in pages:
        for meta, kept in page.items:
            annotations = (kept or {}).get("metadata", {}).get("annotations") or {}
            if kept is None or annotations.get(MOVED) != f"{crd.name} {version}":
                continue
            name = qualified_name(meta.namespace, meta.name)
            try:
                why = await _undo(cluster, meta, kept)
            except (KubeError, NoRelease) as error:
                why = str(error)
            if why:
                report.failed[name] = why
            else:
                report.undone.append(name)
    return report


async def _undo(cluster: Cluster, meta: Meta, kept: Mapping[str, Any]) -> str:
    """Undo the move of one release; return why this is not possible, or an empty text."""
    client = with_retries(cluster)
    data = {name: base64.b64decode(value) for name, value in kept["data"].items()}
    driver, name = data["resource"].decode(), data["name"].decode()
    resource = _DRIVERS[driver]
    if driver == SECRETS.plural:
        before = StoredRelease({"type": RELEASE_TYPE, "data": {"release": kept["data"]["release"]}})
    else:
        before = StoredRelease({"data": {"release": data["release"].decode()}})
    try:
        reply = await client.get(resource, name, meta.namespace)
    except NotFound:
        reply = None  # the release was uninstalled
    if reply is not None:
        content: dict[str, Any] = reply.decode(whole_object_decoder)
        now = reply.decode(object_decoder).metadata
        if now.uid != data["uid"].decode():
            return "the release is another one of the same name now; delete this Secret if you do not need it"
        changes = {"/data/release": StoredRelease(content).with_texts(before.texts)}
        outcome = await OwnedWrites(client).change(resource, now, changes, ["f:data", "f:release"])
        if outcome is not WriteOutcome.WRITTEN:
            return f"{outcome.value}; run again"
    options = msgspec.json.encode({"preconditions": {"uid": meta.uid}})
    await client.delete(SECRETS, meta.name, meta.namespace, body=options)
    return ""
