"""An API server in memory: a ``Cluster`` that keeps objects, revisions, field owners and CRDs as a real one does.

``test_scenarios.py`` runs the same scenarios on it and on a real API server. What no scenario needs is left out:
admission, validation, finalizers, conversion webhooks, JSON patches, and managedFields of built-in kinds but CRDs.

A test may look at ``requests``, at ``stored_object``, and may put itself ``before`` each request: to raise the error
that a real server answers with, or to be the other writer that comes first.
"""

from __future__ import annotations

import asyncio
import base64
import copy
import json
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import Any

from restow.controlplane.errors import NotStoredError
from restow.kube import cluster
from restow.kube.cluster import Cluster, PatchType, Reply
from restow.kube.errors import ApiError, api_error
from restow.kube.resources import CRDS, Resource
from restow.migrator.requests.apiservers import storage_version_hash
from tests.memory import ownership
from tests.memory.custom import BUILT_IN, BuiltIn, Stored, apply_merge_patch, new_crd_status, refusal, served
from tests.memory.ownership import CannotConvert, Conflicting, Document, Owner
from tests.memory.requests import Key, Request, selected

__all__ = ["MemoryCluster", "Request"]

_SECOND = 0.01
"""Seconds that a second of a watch's ``timeoutSeconds`` takes."""


async def _nothing(_request: Request) -> None:
    """Leave a request alone."""


class MemoryCluster(Cluster):
    """An API server of one process.

    Attributes:
        before: awaited with each request before it is carried out; it may send requests of its own.
        after: awaited with each patch that was carried out, before it is answered: what it raises hides the answer.
        requests: all requests, in their order.
        keeps_owners: whether an update leaves managedFields that cannot be converted as they were (Kubernetes 1.37);
            otherwise it empties them.
    """

    host = "https://memory"
    default_namespace = "default"

    def __init__(self, *, keeps_owners: bool = False) -> None:
        self.before: Callable[[Request], Awaitable[None]] = _nothing
        self.after: Callable[[Request], Awaitable[None]] = _nothing
        self.requests: list[Request] = []
        self.keeps_owners = keeps_owners
        self._objects: dict[Key, Document] = {}
        self._history: list[tuple[int, Key, Document | None]] = []
        self._revision, self._compacted = -1, 0
        self._news = asyncio.Event()
        self.seed("namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "default"}})

    # What a test does past the API.

    def seed(self, plural: str, document: Document) -> Document:
        """Store a document as it is, with a uid if it has none; its resourceVersion is its own if that is newer."""
        metadata = document["metadata"]
        metadata.setdefault("uid", str(uuid.uuid4()))
        self._revision = max(self._revision, int(metadata.get("resourceVersion") or "0") - 1)
        return self._store((plural, metadata.get("namespace") or "", metadata["name"]), document)

    def find(self, plural: str, name: str, namespace: str = "") -> Document:
        """Return an object as it is stored."""
        return copy.deepcopy(self._objects[plural, namespace, name])

    @property
    def keys(self) -> list[Key]:
        """What is stored, in its order."""
        return [*self._objects]

    def compact(self) -> None:
        """Forget the past: continue tokens and watches from before now are gone."""
        self._compacted = self._revision

    async def stored_object(self, group: str, plural: str, namespace: str | None, name: str) -> Document:
        """Return an object as it is stored, as ``Etcd.stored_object``."""
        found = self._objects.get((plural, namespace or "", name))
        if found is None:
            raise NotStoredError(f"nothing is stored at {group}/{plural}/{namespace}/{name}.")
        return copy.deepcopy(found)

    async def stored_objects(self, _group: str, plural: str) -> AsyncIterator[Document]:
        """Yield the objects of a kind as they are stored, as ``Etcd.stored_objects``."""
        for key, found in sorted(self._objects.items()):
            if key[0] == plural:
                yield copy.deepcopy(found)

    # How requests are carried out.

    async def send(self, request: cluster.Request) -> Reply:
        if request.resource is None:
            return self._discovered(request.path)
        read = Request.read(request)
        await self._begin(read)
        document = await self._done(read, request)
        if request.metadata_only and request.verb != "list":
            document = _metadata_only(document)
        return Reply(json.dumps(document).encode(), datetime.now(UTC))

    async def _done(self, request: Request, sent: cluster.Request) -> Document:
        match request.verb:
            case "get":
                return self._read(request)
            case "list":
                return self._list(request, sent)
            case "create":
                return self._create(request, request.body)
            case "update":
                return self._write(request, self._read(request), request.body)
            case "delete":
                return self._delete(request)
        if request.patch_type is PatchType.APPLY:
            after = self._apply(request)
        else:
            live = self._read(request)
            after = self._write(request, live, apply_merge_patch(live, request.body))
        await self.after(request)
        return after

    @asynccontextmanager
    async def at(self, host: str = "", server_name: str = "") -> AsyncIterator[Cluster]:
        del host, server_name
        yield self

    def _discovered(self, path: str) -> Reply:
        group, version = path.split("/")[-2:]
        resources = [
            {"name": crd.plural, "storageVersionHash": storage_version_hash(group, crd.storage.name, crd.kind)}
            for crd in (Stored(found).crd for key, found in self._objects.items() if key[0] == CRDS.plural)
            if crd.group == group and served(self._objects[CRDS.plural, "", crd.name], version)
        ]
        return Reply(json.dumps({"kind": "APIResourceList", "resources": resources}).encode())

    def _list(self, request: Request, sent: cluster.Request) -> Document:
        kind = self._kind_of(request)
        asked = request.params or {}
        revision, after = self._revision, ("", "", "")
        if token := asked.get("continue"):
            revision, *last = json.loads(base64.b64decode(token))
            after, expired = tuple(last), 0 < revision <= self._compacted < self._revision
            if expired:
                raise self._gone(request, _token(0, after))
            revision = revision or self._revision
        found = [
            (key, item) for key, item in self._as_of(revision) if key > after and selected(key, item, request, asked)
        ]
        limit = int(asked.get("limit", "0")) or len(found)
        page, rest = found[:limit], found[limit:]
        about: Document = {"resourceVersion": str(revision)}
        if rest:
            about["continue"] = _token(revision, page[-1][0])
            if "labelSelector" not in asked and "fieldSelector" not in asked:
                about["remainingItemCount"] = len(rest)
        items = [self._shown(item, kind, request.resource) for _key, item in page]
        if sent.metadata_only or sent.as_table:
            items = [_metadata_only(item) for item in items]
        body: Document = {"kind": "List", "apiVersion": request.resource.api_version, "metadata": about}
        if sent.as_table:  # the column Name alone, as for a CRD that declares none
            rows = [{"cells": [item["metadata"]["name"]], "object": item} for item in items]
            return body | {"kind": "Table", "columnDefinitions": [{"name": "Name"}], "rows": rows}
        return body | {"items": items}

    def _delete(self, request: Request) -> Document:
        live = self._read(request)
        for field, wanted in ((request.body or {}).get("preconditions") or {}).items():
            if live["metadata"].get(field) != wanted:
                raise self.error(request, 409, "Conflict", f"Precondition failed: {field} in precondition: {wanted}")
        gone = [request.key]
        if request.resource == CRDS:
            plural = live["spec"]["names"]["plural"]
            gone += [key for key in self._objects if key[0] == plural]
        for key in gone:
            self._note(key, None)
            del self._objects[key]
        return live

    @asynccontextmanager
    async def stream(self, request: cluster.Request) -> AsyncIterator[AsyncIterator[bytes]]:
        read = Request.read(request)
        await self._begin(read)
        self._kind_of(read)
        if int((read.params or {}).get("resourceVersion") or self._revision) < self._compacted:
            raise self._gone(read)
        yield self._events(read, metadata_only=request.metadata_only)

    async def _events(self, request: Request, *, metadata_only: bool) -> AsyncIterator[bytes]:
        """The events of a watch; before its time is over a bookmark, where these are asked for."""
        params = request.params or {}
        seen = int(params.get("resourceVersion") or self._revision)
        deadline = asyncio.get_running_loop().time() + int(params.get("timeoutSeconds", "300")) * _SECOND
        while True:
            for revision, key, found in [each for each in self._history if each[0] > seen]:
                seen = revision
                before = next((item for at, of, item in reversed(self._history) if of == key and at < revision), None)
                shown = found or (before or {}) | {"metadata": (before or {})["metadata"] | _version(revision)}
                if selected(key, shown, request, params):
                    what = "DELETED" if found is None else "ADDED" if before is None else "MODIFIED"
                    shown = self._shown(shown, self._kind_of(request), request.resource)
                    event = {"type": what, "object": _metadata_only(shown) if metadata_only else shown}
                    yield json.dumps(event).encode()
            self._news.clear()
            try:
                async with asyncio.timeout_at(deadline):
                    await self._news.wait()
            except TimeoutError:
                break
        if params.get("allowWatchBookmarks") == "true":
            bookmark = {"apiVersion": request.resource.api_version, "metadata": _version(self._revision)}
            yield json.dumps({"type": "BOOKMARK", "object": bookmark}).encode()

    # How writes are carried out.

    def _create(self, request: Request, document: Document) -> Document:
        plural = request.resource.plural
        if plural.endswith("reviews"):
            return document | {"status": {"allowed": self.allows(document["spec"])}}
        kind = self._kind_of(request)
        if request.key in self._objects:
            message = f'{request.resource.full_name} "{request.name}" already exists'
            raise self.error(request, 409, "AlreadyExists", message)
        if kind is not None and request.namespace and ("namespaces", "", request.namespace) not in self._objects:
            raise self.error(request, 404, "NotFound", f'namespaces "{request.namespace}" not found')
        made = copy.deepcopy(document)
        about = {"creationTimestamp": _now(), "generation": 1, "uid": str(uuid.uuid4())}
        if request.resource == CRDS:
            made = self._owned(request, BUILT_IN, {}, made | {"status": new_crd_status(made)})
        elif kind is not None:
            made.pop("status", None)
            made = self._owned(request, kind, {}, kind.admit(made))
        made["metadata"] = made["metadata"] | about
        if request.namespace:
            made["metadata"]["namespace"] = request.namespace
        return self._stored(request, kind, made)

    def allows(self, _spec: Document) -> bool:
        """Answer a review of rights."""
        return True

    def _write(self, request: Request, live: Document, new: Document) -> Document:
        """Carry out a write that replaces values."""
        wanted = new["metadata"].get("resourceVersion") or live["metadata"]["resourceVersion"]
        if wanted != live["metadata"]["resourceVersion"]:
            raise self.error(request, 409, "Conflict", "the object has been modified; please apply your changes")
        kind = self._kind_of(request)
        if kind is not None:
            new = kind.admit(self._part(request, live, new))
            new = self._owned(request, kind, live, new)
        elif request.resource == CRDS:
            new = self._owned(request, BUILT_IN, live, self._crd(request, live, self._part(request, live, new)))
        return self._finished(request, kind, live, new)

    def _apply(self, request: Request) -> Document:
        kind, config = self._kind_of(request), request.body
        if kind is None:
            raise NotImplementedError(request)
        asked = config["metadata"]
        live = self._read(request) if request.key in self._objects else {}
        if (uid := asked.get("uid")) and uid != live.get("metadata", {}).get("uid"):
            raise self.error(request, 409, "Conflict", f"Precondition failed: UID in precondition: {uid}")
        if (
            live
            and asked.get("resourceVersion", live["metadata"]["resourceVersion"]) != live["metadata"]["resourceVersion"]
        ):
            raise self.error(request, 409, "Conflict", "the object has been modified; please apply your changes")
        force = (request.params or {}).get("force") == "true"
        writer, owners = self._writer(request, "Apply"), _owners(live)
        try:
            schema = kind.schema(request.resource.api_version)
            new, owners = ownership.apply(live, config, owners, writer, kind.members, schema, force=force)
        except Conflicting as conflict:
            raise self.error(request, 409, "Conflict", f"Apply failed with 1 conflict: {conflict}") from conflict
        except CannotConvert as error:
            raise self.error(request, 500, "", str(error)) from error
        if not live:
            new["metadata"]["managedFields"] = [each.entry() for each in owners]
            return self._create(request, new)
        new = kind.admit(self._part(request, live, new))
        new["metadata"] = live["metadata"] | new["metadata"] | {"managedFields": [each.entry() for each in owners]}
        return self._finished(request, kind, live, new)

    def _part(self, request: Request, live: Document, new: Document) -> Document:
        """The part of a write that its endpoint takes: the status, or everything else."""
        whole, status = (live, new) if request.subresource == "status" else (new, live)
        made = {name: value for name, value in whole.items() if name != "status"}
        if "status" in status:
            made["status"] = status["status"]
        metadata = {**whole["metadata"]}
        if "managedFields" in new["metadata"]:
            metadata["managedFields"] = new["metadata"]["managedFields"]
        for name in ("uid", "creationTimestamp", "generation", "resourceVersion"):
            metadata[name] = live["metadata"].get(name)
        return made | {"metadata": metadata}

    def _crd(self, request: Request, live: Document, new: Document) -> Document:
        new = copy.deepcopy(new)
        storage = next(each["name"] for each in new["spec"]["versions"] if each["storage"])
        if not request.subresource and storage not in new["status"]["storedVersions"]:
            new["status"]["storedVersions"] = [*new["status"]["storedVersions"], storage]
        if not request.subresource and (why := refusal(new)):
            raise self.error(request, 422, "Invalid", f"{live['metadata']['name']} is invalid: {why}")
        return new

    def _owned(self, request: Request, kind: Stored | BuiltIn, live: Document, new: Document) -> Document:
        """Give an object the owners that it has after an update, or an empty list where one cannot be converted."""
        sent = request.body.get("metadata", {}).get("managedFields") if not request.subresource else None
        metadata = {name: value for name, value in new["metadata"].items() if name != "managedFields"}
        if request.patch_type is PatchType.APPLY:
            return new  # it has its owners already
        if ownership.is_reset(sent):
            owners = []
        elif sent:
            owners = [Owner.read(each) for each in sent]
        else:
            owners = _owners(live)
        new = new | {"metadata": metadata}
        try:
            found = ownership.update(live, new, owners, self._writer(request, "Update"), kind.members)
            metadata["managedFields"] = [each.entry() for each in found]
        except CannotConvert:
            metadata["managedFields"] = live["metadata"].get("managedFields", []) if self.keeps_owners else []
        return new

    def _writer(self, request: Request, operation: str) -> Owner:
        manager = (request.params or {}).get("fieldManager", "tests")
        return Owner(manager, operation, request.resource.api_version, request.subresource, _now())

    def _finished(self, request: Request, kind: Stored | None, live: Document, new: Document) -> Document:
        """Store what a write made of an object, if that is not what is stored already."""
        content = [
            {name: value for name, value in each.items() if name not in ("metadata", "status")} for each in (live, new)
        ]
        metadata = new["metadata"] = {**new["metadata"]}
        if not metadata.get("managedFields"):
            metadata.pop("managedFields", None)
        if content[0] != content[1] and "generation" in metadata:
            metadata["generation"] = (live["metadata"].get("generation") or 0) + 1
        return self._stored(request, kind, new)

    def _stored(self, request: Request, kind: Stored | None, new: Document) -> Document:
        stored = new if kind is None else kind.encode(new)
        if request.dry_run or stored == self._objects.get(request.key):
            return new
        return new | {"metadata": self._store(request.key, stored)["metadata"]}

    def _store(self, key: Key, document: Document) -> Document:
        document = copy.deepcopy(document)
        self._note(key, document)
        document["metadata"]["resourceVersion"] = str(self._revision)
        self._objects[key] = document
        return document

    def _note(self, key: Key, document: Document | None) -> None:
        self._revision += 1
        self._history.append((self._revision, key, document))
        self._news.set()

    # How reads are answered.

    async def _begin(self, request: Request) -> None:
        self.requests.append(request)
        await self.before(request)

    def _kind_of(self, request: Request) -> Stored | None:
        """The CRD of a resource, if it has one."""
        document = self._objects.get((CRDS.plural, "", request.resource.full_name))
        if document is None:
            if any(key[0] == request.resource.plural for key in self._objects) or "." not in request.resource.group:
                return None
            self.without_crd(request)
            return None
        if not served(document, request.resource.version):
            raise self.error(request, 404, "NotFound", "the server could not find the requested resource")
        return Stored(document)

    def without_crd(self, request: Request) -> None:
        """Answer a request for a resource of a group that has no CRD here; built-in groups have none."""
        if not request.resource.group.endswith("k8s.io"):
            raise self.error(request, 404, "NotFound", "the server could not find the requested resource")

    def _read(self, request: Request) -> Document:
        kind = self._kind_of(request)
        found = self._objects.get(request.key)
        if found is None:
            message = f'{request.resource.full_name} "{request.name}" not found'
            raise self.error(request, 404, "NotFound", message)
        return self._shown(found, kind, request.resource)

    def _shown(self, found: Document, kind: Stored | None, resource: Resource) -> Document:
        return copy.deepcopy(found) if kind is None else kind.decode(found, resource.version)

    def _as_of(self, revision: int) -> Iterator[tuple[Key, Document]]:
        state = {key: found for at, key, found in self._history if at <= revision}
        return ((key, found) for key, found in sorted(state.items()) if found is not None)

    def error(self, request: Request, status: int, reason: str, message: str, **more: Any) -> ApiError:
        """Return the error that an answer with a status means."""
        details = {"name": request.name, "group": request.resource.group, "kind": request.resource.plural}
        body = {"kind": "Status", "reason": reason, "message": message, "details": details, "code": status} | more
        target = request.resource.describe(request.namespace, request.name or None, request.subresource or None)
        return api_error(status=status, body=json.dumps(body).encode(), headers={}, verb=request.verb, target=target)

    def _gone(self, request: Request, token: str = "") -> ApiError:
        return self.error(request, 410, "Expired", "the resourceVersion is too old", metadata={"continue": token})


def _owners(live: Document) -> list[Owner]:
    return [Owner.read(each) for each in live.get("metadata", {}).get("managedFields", [])]


def _token(revision: int, key: Key) -> str:
    return base64.b64encode(json.dumps([revision, *key]).encode()).decode()


def _metadata_only(found: Document) -> Document:
    about = {"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata"}
    return about | {"metadata": found["metadata"]}


def _version(revision: int) -> Document:
    return {"resourceVersion": str(revision)}


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
