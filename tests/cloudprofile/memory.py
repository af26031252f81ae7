"""An API server in memory, as far as steps and reconcilers ask: what it holds, what it was asked, what it refuses."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

from restow.kube.cluster import Cluster, PatchType, Reply
from restow.kube.errors import api_error
from restow.kube.resources import Resource

__all__ = ["Memory"]

Document = dict[str, Any]


class Memory:
    """Objects by (plural, namespace, name); users by the verbs that they hold; patches as they came."""

    host = "https://memory"
    default_namespace = "default"

    def __init__(self, **held: list[Document]) -> None:
        self.held = {
            (plural, (obj["metadata"].get("namespace") or None), obj["metadata"]["name"]): obj
            for plural, objects in held.items()
            for obj in objects
        }
        self.verbs: dict[str, set[str]] = {}
        self.asked: list[str] = []
        self.patches: list[tuple[str, Document]] = []
        self.events: list[Document] = []
        self.refusals: dict[str, tuple[int, str]] = {}

    async def get(
        self,
        resource: Resource,
        name: str,
        namespace: str | None = None,
        *,
        metadata_only: bool = False,
        cached: bool = False,
    ) -> Reply:
        del metadata_only, cached
        self._ask("get", resource)
        found = self.held.get((resource.plural, namespace, name))
        if found is None:
            details = {"name": name, "group": resource.group, "kind": resource.plural}
            body = {"kind": "Status", "reason": "NotFound", "message": "not found", "details": details}
            raise api_error(status=404, body=json.dumps(body).encode(), headers={}, verb="get", target=name)
        return _reply(found)

    async def discover(self, path: str) -> Reply:
        raise NotImplementedError(path)

    def at(self, host: str = "", server_name: str = "") -> AbstractAsyncContextManager[Cluster]:
        raise NotImplementedError(host, server_name)

    async def list_page(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        params: Mapping[str, str] | None = None,
        metadata_only: bool = False,
    ) -> Reply:
        del metadata_only
        self._ask("list", resource)
        terms = [term.partition("=") for term in filter(None, (params or {}).get("fieldSelector", "").split(","))]
        items = [
            obj
            for (plural, of, _), obj in self.held.items()
            if plural == resource.plural
            and namespace in (None, of)
            and all(_value(obj, path) == value for path, _, value in terms)
        ]
        return _reply({"metadata": {"resourceVersion": "1"}, "items": items})

    async def create(
        self, resource: Resource, body: bytes, namespace: str | None = None, *, params: Mapping[str, str] | None = None
    ) -> Reply:
        del namespace, params
        self._ask("create", resource)
        document = json.loads(body)
        if resource.plural == "subjectaccessreviews":
            spec = document["spec"]
            allowed = spec["resourceAttributes"]["verb"] in self.verbs.get(spec["user"], set())
            return _reply({"status": {"allowed": allowed}})
        self.events.append(document)
        return _reply(document)

    async def replace(
        self,
        resource: Resource,
        name: str,
        body: bytes,
        namespace: str | None = None,
        *,
        subresource: str | None = None,
        params: Mapping[str, str] | None = None,
    ) -> Reply:
        raise NotImplementedError

    async def patch(
        self,
        resource: Resource,
        name: str,
        body: bytes,
        namespace: str | None = None,
        *,
        patch_type: PatchType,
        subresource: str | None = None,
        params: Mapping[str, str] | None = None,
        metadata_only: bool = False,
    ) -> Reply:
        del patch_type, metadata_only
        what = "dry" if "dryRun" in (params or {}) else subresource or "object"
        self._ask(f"patch {what} of", resource)
        change = json.loads(body)
        self.patches.append((what, change))
        key = (resource.plural, namespace, name)
        after = _merged(self.held[key], change)
        if what != "dry":
            self.held[key] = after
        return _reply(after)

    async def delete(
        self, resource: Resource, name: str, namespace: str | None = None, *, body: bytes | None = None
    ) -> Reply:
        raise NotImplementedError

    def watch(
        self,
        resource: Resource,
        namespace: str | None = None,
        *,
        params: Mapping[str, str],
        metadata_only: bool = False,
    ) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        raise NotImplementedError

    def _ask(self, verb: str, resource: Resource) -> None:
        asked = f"{verb} {resource.plural}"
        self.asked.append(asked)
        if asked in self.refusals:
            status, message = self.refusals[asked]
            body = {"kind": "Status", "message": message, "reason": "Refused"}
            raise api_error(
                status=status, body=json.dumps(body).encode(), headers={}, verb=verb, target=resource.plural
            )


def _value(obj: Any, path: str) -> Any:
    for name in path.split("."):
        obj = (obj or {}).get(name)
    return obj


def _merged(before: Any, change: Any) -> Any:
    """RFC 7386, as it is written there."""
    if not isinstance(change, dict):
        return change
    merged = dict(before) if isinstance(before, dict) else {}
    for name, value in change.items():
        if value is None:
            merged.pop(name, None)
        else:
            merged[name] = _merged(merged.get(name), value)
    return merged


def _reply(document: Document) -> Reply:
    return Reply(json.dumps(document).encode())
