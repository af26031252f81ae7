"""An upgrade of a CRD, carried out with its stored objects on a control plane of its own.

The objects are stored past the API server, with their managedFields and finalizers, under the old CRD. The new CRD
replaces it, the conversions are served from this process, and the objects are migrated. What the API server shows
before and after is compared, so no rule about its behaviour is repeated here. What it refused before is no finding.

Nothing leaves this machine, and nothing but the CRDs and their objects is needed.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Any, Final

from restow.cli.registries import graph_converters
from restow.controlplane import ControlPlane
from restow.conversion import Graph, ObjectError
from restow.crds import Crd
from restow.crds.crddiff import CrdFinding
from restow.crds.objectdiff import PlaceChange, object_changes
from restow.crds.paths import ROOT
from restow.crds.schemachanges import ChangeVerdict
from restow.kube.cluster import Cluster, PatchType, Request
from restow.kube.errors import AlreadyExists, ApiError, Conflict, Invalid, NotFound
from restow.kube.pager import list_pages
from restow.kube.resources import CRDS, NAMESPACES, Object
from restow.kube.retry import RetryingCluster, without_retries
from restow.migrator import CrdReport, ListFailed, MigrationRefused, Options, migrate, ready
from restow.migrator.model.converter import Json
from restow.migrator.ownership.projection import project
from restow.migrator.requests.crdaccess import read_crd
from restow.migrator.requests.environment import own_webhook
from restow.migrator.requests.pace import each_of
from restow.upgrade.observed import ObjectFindings, lost_owners, owners_of, where_of
from restow.upgrade.schemas import joined
from restow.upgrade.stored import namespaces_of, stored_form
from restow.webhook.local import serve_locally

_PAGE: Final = 500
_WORKERS: Final = 32
_REPLAYED: Final = 20
"""The most applies that are replayed for each manager and version: those of one manager differ little."""
_PATIENCE_S: Final = 60.0
_MIGRATION_PATIENCE_S: Final = 2.0
"""Seconds until the migration gives up what fails: nothing comes back on a control plane that nobody else uses."""
_POLL_S: Final = 0.02
_APPROVED: Final = "api-approved.kubernetes.io"
"""The annotation without which the API server refuses a CRD of a group of Kubernetes."""
_NOBODY: Final = {"fieldSelector": "metadata.name=restow-nobody", "limit": "1"}

_Shown = dict[str, Json]
"""Objects by ``namespace/name``, as one version shows them."""

_Refused = set[tuple[str, str]]
"""Objects and places that the API server would not take again."""


@dataclass(frozen=True, slots=True)
class Upgrade:
    """One CRD before and after, the rules between its versions, and its stored objects."""

    old: Crd
    new: Crd
    graph: Graph | None
    objects: Sequence[Object]

    @property
    def unjudged(self) -> str:
        """Why the objects cannot be tried, or empty."""
        versions = {each.name for each in joined(self.old, self.new).versions}
        if "Webhook" in (self.old.strategy, self.new.strategy) and self.graph is None and len(versions) > 1:
            return "a webhook converts them, and its rules are not given"
        if (self.old.kind, self.old.namespaced) != (self.new.kind, self.new.namespaced):
            return "the new CRD has another kind or scope"
        unknown = {obj["apiVersion"].rpartition("/")[2] for obj in self.objects} - {
            each.name for each in self.old.versions
        }
        if unknown:
            return f"some are stored at {', '.join(sorted(unknown))}, which the old CRD lacks"
        return "" if self.old.storage.served else f"{self.old.storage.name} is stored and not served"


@dataclass(slots=True)
class Rehearsed:
    """What became of the objects.

    Attributes:
        findings: what clients and owners notice.
        due: whether a migration has work after the change.
        shown: the objects after the migration, by version.
        report: the report of the migration; None if the API server refuses the new CRD.
    """

    findings: tuple[CrdFinding, ...] = ()
    due: bool = False
    shown: dict[str, _Shown] = field(default_factory=dict)
    report: CrdReport | None = None


async def rehearse(plane: ControlPlane, cluster: Cluster, upgrade: Upgrade) -> Rehearsed:
    """Carry out an upgrade on a control plane that has no CRD of this name.

    Raises:
        KubeError: the control plane does not answer.
    """
    if why := upgrade.unjudged:
        return _unjudged(upgrade, why)
    try:
        return await _Rehearsal(plane, cluster, upgrade).run()
    except ExceptionGroup as errors:
        raise errors.exceptions[0] from None
    except TimeoutError:
        return _unjudged(upgrade, f"an API server of its own did not serve the CRD within {_PATIENCE_S:.0f} s")


def _unjudged(upgrade: Upgrade, why: str) -> Rehearsed:
    what = f"{len(upgrade.objects)} stored objects were not tried: {why}"
    return Rehearsed((_finding(upgrade.new, "objects-unjudged", what, ChangeVerdict.NOTICE),))


def _finding(crd: Crd, check: str, what: str, severity: ChangeVerdict, version: str = "") -> CrdFinding:
    return CrdFinding(crd.name, version, check, severity, "spec.versions", what)


class _Rehearsal:
    """Carries out one upgrade."""

    def __init__(self, plane: ControlPlane, cluster: Cluster, upgrade: Upgrade) -> None:
        self._plane = plane
        self._cluster = without_retries(cluster)  # what fails once fails again, for each of many objects
        self._patient = RetryingCluster(self._cluster, patience_s=_MIGRATION_PATIENCE_S)
        self._upgrade = upgrade
        self._old, self._new, self._graph = upgrade.old, upgrade.new, upgrade.graph
        stored = [stored_form(upgrade.old, obj)[1]["metadata"] for obj in upgrade.objects]
        self._keys = [(metadata.get("namespace"), metadata["name"]) for metadata in stored]
        self._found = ObjectFindings(upgrade.new.name)
        self._stash = upgrade.graph.kind(self._new.group, self._new.kind).stash_key if upgrade.graph else ""
        self._applied = 0

    async def run(self) -> Rehearsed:
        new = self._new
        async with AsyncExitStack() as stack:
            conversion: Mapping[str, Any] = {"strategy": "None"}
            if self._graph is not None:
                served = await stack.enter_async_context(serve_locally(self._graph, [new]))
                conversion = served[new.name]
                stack.push_async_callback(self._unwire)
            try:
                await self._store(conversion)
            except Invalid as error:
                return _unjudged(self._upgrade, f"the API server refuses the old CRD: {error.findings}")
            storage = self._old.storage.name
            before = {version: await self._shown(self._old, version) for version in self._old.served}
            refused = await self._refused(storage, before[storage])
            try:
                await self._apply(new, conversion)
            except Invalid as error:
                what = f"the API server refuses it: {error.findings}"
                return Rehearsed((_finding(new, "crd-refused", what, ChangeVerdict.BREAKING),))
            await self._check_refused(before[storage], known=refused)
            report = await self._migrate()
            after = {version: await self._shown(new, version, before) for version in new.served}
            self._compare(before, after)
            await self._replay(before)
            return Rehearsed((*self._found.results(), *await self._work(report)), self._is_due(report), after, report)

    async def _unwire(self) -> None:
        """Keep the API server from calling a webhook that has ended."""
        body = json.dumps({"spec": {"conversion": {"strategy": "None", "webhook": None}}}).encode()
        await self._cluster.patch(CRDS, self._new.name, body, patch_type=PatchType.MERGE)

    async def _store(self, conversion: Mapping[str, Any]) -> None:
        """Install the old CRD, and store the objects past the API server."""
        await self._apply(self._old, conversion)
        for namespace in namespaces_of(self._old, self._upgrade.objects):
            try:
                await self._cluster.create(NAMESPACES, json.dumps({"metadata": {"name": namespace}}).encode())
            except AlreadyExists:
                continue
        pairs = (stored_form(self._old, obj) for obj in self._upgrade.objects)
        await self._plane.etcd.put((key, json.dumps(obj).encode()) for key, obj in pairs)
        stored = {self._old.storage.name, *self._old.stored_versions}
        stored |= {obj["apiVersion"].rpartition("/")[2] for obj in self._upgrade.objects}
        if len(known := [each.name for each in self._old.versions if each.name in stored]) > 1:
            body = json.dumps({"status": {"storedVersions": known}}).encode()
            await self._cluster.patch(CRDS, self._old.name, body, patch_type=PatchType.MERGE, subresource="status")

    async def _apply(self, crd: Crd, conversion: Mapping[str, Any]) -> None:
        """Create or replace the CRD, and wait until the API server serves exactly this one.

        A printer column tells the handlers of two states of the CRD apart.
        """
        self._applied += 1
        column = {"name": f"restow{self._applied}", "type": "string", "jsonPath": ".metadata.name"}
        versions = [{**each, "additionalPrinterColumns": [column]} for each in crd.document["spec"]["versions"]]
        spec = {**crd.document["spec"], "versions": versions}
        annotations = {_APPROVED: crd.annotations[_APPROVED]} if _APPROVED in crd.annotations else {}
        spec["conversion"] = conversion if crd.strategy == "Webhook" else {"strategy": "None"}
        try:
            now = (await self._cluster.get(CRDS, crd.name)).json()
        except NotFound:
            metadata: dict[str, Any] = {"name": crd.name, "annotations": annotations}
            document = {"apiVersion": CRDS.api_version, "kind": "CustomResourceDefinition", "metadata": metadata}
            await self._cluster.create(CRDS, json.dumps({**document, "spec": spec}).encode())
        else:
            metadata = {**now["metadata"], "annotations": annotations}
            await self._cluster.replace(
                CRDS, crd.name, json.dumps({**now, "metadata": metadata, "spec": spec}).encode()
            )
        for version in crd.served:
            await self._until_served(crd, version, column["name"])

    async def _until_served(self, crd: Crd, version: str, column: str) -> None:
        resource = crd.resource_at(version)
        async with asyncio.timeout(_PATIENCE_S):
            while True:
                try:
                    table = (await self._cluster.send(Request("list", resource, params=_NOBODY, as_table=True))).json()
                except NotFound:
                    pass  # not served yet
                except ApiError as error:
                    if error.status != HTTPStatus.SERVICE_UNAVAILABLE:  # which the handlers of the old CRD answer
                        return  # only the new CRD makes a list of these objects fail
                else:
                    if any(each["name"] == column for each in table.get("columnDefinitions") or ()):
                        return
                await asyncio.sleep(_POLL_S)

    async def _shown(self, crd: Crd, version: str, before: Mapping[str, _Shown] | None = None) -> _Shown:
        """Return the objects at a version; what cannot be read is a finding unless it could not be read before."""
        try:
            pages = list_pages(self._cluster, crd.resource_at(version), limit=_PAGE)
            return {where_of(obj): obj async for page in pages for obj in page}
        except ApiError:
            return await self._one_by_one(crd, version, before)

    async def _one_by_one(self, crd: Crd, version: str, before: Mapping[str, _Shown] | None) -> _Shown:
        found: _Shown = {}

        async def read(key: tuple[str | None, str]) -> None:
            try:
                obj = (await self._cluster.get(crd.resource_at(version), key[1], key[0])).json()
            except ApiError as error:
                where = "/".join(part for part in key if part)
                if before is not None and any(where in shown for shown in before.values()):
                    why = (
                        "an object is stored at a version that left the CRD"
                        if error.left_version
                        else "conversion fails"
                    )
                    self._found.add("object-unreadable", version, ROOT, where, why)
            else:
                found[where_of(obj)] = obj

        await each_of(self._keys, read, _WORKERS)
        return found

    async def _check_refused(self, before: _Shown, *, known: _Refused) -> None:
        """Note the objects that the API server would not take again, at their old version if it is served still."""
        new, version = self._new, self._old.storage.name
        if version not in new.served:
            version = new.storage.name
        objects = {where: each for where, obj in before.items() if (each := self._converted(obj, version)) is not None}
        if new.version(version) is None or version not in new.served:
            return
        for where, path in (await self._refused(version, objects)) - known:
            self._found.add("object-refused", version, path, where)

    async def _refused(self, version: str, objects: _Shown) -> _Refused:
        """Return object and field of what the API server refuses if the objects are created again."""
        found: _Refused = set()
        resource = self._new.resource_at(version)

        async def create(obj: Json) -> None:
            metadata = {key: obj["metadata"][key] for key in _CREATED if key in obj["metadata"]}
            body = json.dumps({**obj, "metadata": metadata}).encode()
            try:
                await self._cluster.create(resource, body, metadata.get("namespace"), params={"dryRun": "All"})
            except Conflict:
                return  # it exists, which the API server looks at last
            except Invalid as error:
                found.update((where_of(obj), place) for place in _places(error))
            except ApiError:
                found.add((where_of(obj), ROOT))

        await each_of(objects.values(), create, _WORKERS)
        return found

    def _converted(self, obj: Json, version: str) -> Json | None:
        """Return an object at another version, as the rules or the strategy None convert it; None if they cannot."""
        api_version = f"{self._new.group}/{version}"
        if obj["apiVersion"] == api_version:
            return obj
        if self._graph is None:
            return {**obj, "apiVersion": api_version}
        try:
            return self._graph.convert(obj, api_version)
        except ObjectError:
            return None

    async def _migrate(self) -> CrdReport:
        converters = own_webhook if self._graph is None else graph_converters(self._graph)
        options = Options(settle_s=0.0, patience_s=_MIGRATION_PATIENCE_S)
        report = await migrate(self._patient, [self._new.name], options, converters=converters)
        [found] = report.crds
        for failure in found.failures:
            self._found.add("object-failed", "", ROOT, failure.where, failure.reason)
        for where in found.owners_lost:
            self._found.add("owner-lost", "", ROOT, where)
        return found

    def _compare(self, before: Mapping[str, _Shown], after: Mapping[str, _Shown]) -> None:
        """Compare what readers of each version see, and the owners of all fields."""
        storage, new = self._old.storage.name, self._new.storage.name
        shown = dict(after)
        if storage not in shown:
            back = ((where, self._converted(obj, storage)) for where, obj in after.get(new, {}).items())
            shown[storage] = {where: obj for where, obj in back if obj is not None}
        for version, objects in before.items():
            for where, obj in objects.items():
                if (now := shown.get(version, {}).get(where)) is not None:
                    self._found.compare(version, obj, now, self._stash)
        for where, obj in before[storage].items():
            now = after.get(new, {}).get(where)
            at_old = shown[storage].get(where)
            if now is None or at_old is None:
                continue
            gone = [path for change, path in object_changes(obj, at_old, self._stash) if change is PlaceChange.GONE]
            for manager, path in lost_owners(obj, now, renamed=self._graph is None, gone=gone):
                self._found.add("owner-lost", new, path, where, f"of {manager}")

    async def _replay(self, before: Mapping[str, _Shown]) -> None:
        """Repeat the last apply of some owners as dry runs; none of them may be refused."""
        replayed: Counter[tuple[str, str]] = Counter()
        applies = [
            (manager, version, obj, entry)
            for version in self._new.served
            for obj in before.get(version, {}).values()
            for (manager, operation, subresource), entries in owners_of(obj).items()
            for entry in entries
            if operation == "Apply" and not subresource and entry.get("apiVersion") == obj["apiVersion"]
        ]

        async def replay(apply: tuple[str, str, Json, Mapping[str, Any]]) -> None:
            manager, version, obj, entry = apply
            replayed[manager, version] += 1
            if replayed[manager, version] > _REPLAYED:
                return
            metadata = obj["metadata"]
            schema = self._old.version(version)
            assert schema is not None
            part = project(entry["fieldsV1"], obj, schema.schema).part
            named = {key: metadata[key] for key in ("name", "namespace") if key in metadata}
            body = part | {"apiVersion": obj["apiVersion"], "kind": obj["kind"]}
            body["metadata"] = part.get("metadata", {}) | named
            try:
                await self._cluster.patch(
                    self._new.resource_at(version),
                    metadata["name"],
                    json.dumps(body).encode(),
                    metadata.get("namespace"),
                    patch_type=PatchType.APPLY,
                    params={"fieldManager": manager, "dryRun": "All"},
                )
            except ApiError as error:
                check = "owner-conflict" if isinstance(error, Conflict) else "apply-refused"
                for place in _places(error):
                    self._found.add(check, version, place, where_of(obj), f"of {manager}")

        await each_of(applies, replay, _WORKERS)

    def _is_due(self, report: CrdReport) -> bool:
        counts = report.objects
        moved = {self._new.storage.name} != {*report.stored_before} and counts.listed > 0
        return moved or counts.translated > 0 or counts.stripped > 0

    async def _work(self, report: CrdReport) -> list[CrdFinding]:
        """Return what is due after the change, and which old version is needed even then."""
        new, found = self._new, list(self._refusals(report))
        if self._is_due(report):
            counts = report.objects
            what = (
                f"{counts.rewritten} of {counts.listed} objects are to be written at {new.storage.name}, the owners of "
                f"{counts.translated + counts.stripped} to be moved"
            )
            found.append(_finding(new, "migration-due", what, ChangeVerdict.NOTICE))
        going = [each.name for each in self._old.versions if each.name != new.storage.name]
        for version in () if report.refused or report.unfinished else going:
            if version in new.served and version != self._old.storage.name:
                continue
            try:
                crd = await read_crd(self._patient, new.name)
                answer = await ready(self._patient, crd, version, references=False)
            except (ListFailed, MigrationRefused):
                continue  # nothing names it any longer, or findings say what cannot be read
            if answer.against_removal:
                what = f"after the migration, {version} cannot be removed: {'; '.join(answer.against_removal)}"
                found.append(_finding(new, "version-needed", what, ChangeVerdict.NOTICE, version))
        return found

    def _refusals(self, report: CrdReport) -> Iterator[CrdFinding]:
        if why := report.refused or report.unfinished:
            yield _finding(self._new, "object-failed", f"the migration would end: {why}", ChangeVerdict.BREAKING)


_UNDECLARED: Final = re.compile(r"(\.\S+): field not declared in schema")
_CREATED: Final = ("name", "namespace", "labels", "annotations", "finalizers", "ownerReferences")


def _places(error: ApiError) -> set[str]:
    """Return the places that an error is about; server-side apply names an undeclared field only in its message."""
    if undeclared := _UNDECLARED.search(error.message):
        return {_place({"field": undeclared[1]})}
    return {_place(cause) for cause in error.details.causes or ({},)}


def _place(cause: Mapping[str, Any]) -> str:
    """Return the place of a cause in an error, in the notation of findings, without list indices and keys."""
    text = str(cause.get("field") or "").strip()
    if not text or text == "<nil>":
        return ROOT
    path, depth = "", 0
    for letter in text:
        depth += letter == "["
        if not depth:
            path += letter
        if letter == "]":
            depth -= 1
            path += "[]"
    return path if path.startswith(".") else f".{path}"
