"""Requests to the API server in memory, and which objects they select."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from restow.kube import cluster
from restow.kube.cluster import PatchType
from restow.kube.resources import Resource
from tests.memory.ownership import Document

__all__ = ["Key", "Request", "selected"]

Key = tuple[str, str, str]
"""Plural, namespace (empty without one) and name."""


@dataclass(frozen=True)
class Request:
    """One request, as it was sent."""

    verb: str
    resource: Resource
    name: str = ""
    namespace: str | None = None
    subresource: str = ""
    body: Any = None
    patch_type: PatchType | None = None
    params: Mapping[str, str] | None = None

    @classmethod
    def read(cls, sent: cluster.Request) -> Request:
        """Return what a client sent, with its body decoded."""
        assert sent.resource is not None
        body = None if sent.body is None else json.loads(sent.body)
        name = sent.name or ((body or {}).get("metadata", {}).get("name", "") if sent.verb == "create" else "")
        about = sent.subresource or "", body, sent.patch_type, sent.params
        return cls(sent.verb, sent.resource, name, sent.namespace, *about)

    @property
    def dry_run(self) -> bool:
        """Whether nothing is to be stored."""
        return "dryRun" in (self.params or {})

    @property
    def key(self) -> Key:
        """What it is about."""
        return self.resource.plural, self.namespace or "", self.name


def selected(key: Key, found: Document, request: Request, params: Mapping[str, str]) -> bool:
    """Whether an object is of the resource and namespace that a request names, and matches its selectors."""
    if key[0] != request.resource.plural or (request.namespace or key[1]) != key[1]:
        return False
    labels = found["metadata"].get("labels", {})
    terms = [term.partition("=") for term in filter(None, params.get("labelSelector", "").split(","))]
    fields = [term.partition("=") for term in filter(None, params.get("fieldSelector", "").split(","))]
    return all(labels.get(name) == value for name, _, value in terms) and all(
        _value(found, path) == value for path, _, value in fields
    )


def _value(obj: Any, path: str) -> Any:
    for name in path.split("."):
        obj = (obj or {}).get(name)
    return obj
