"""References to v1 of widgets, as readers find them."""

from __future__ import annotations

import base64
import gzip
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from restow.migrator import sought
from restow.migrator.references.readers.helm import helm_references
from restow.migrator.references.readers.mentions import Spellings
from restow.migrator.references.readers.metadata import owner_references
from restow.migrator.references.reference import FoundReferences, NotLookedAt, Reference, ReferenceTally, SoughtVersion
from restow.migrator.requests.wire import Meta, object_decoder
from tests.migrator import builders as b

WIDGETS = sought(b.crd(), "v1")
OWNERS = {("example.com/v1", "Widget"): WIDGETS}
SPELLINGS = Spellings([WIDGETS])


def meta(name: str, *owners: Mapping[str, Any], namespace: str = "default") -> Meta:
    """An object's metadata, off the wire."""
    found: dict[str, Any] = {"name": name, "uid": "u", "resourceVersion": "1", "ownerReferences": owners}
    if namespace:
        found["namespace"] = namespace
    return object_decoder.decode(json.dumps({"metadata": found}).encode()).metadata


def owner(api_version: str = "example.com/v1", kind: str = "Widget", **more: Any) -> dict[str, Any]:
    """An ownerReference."""
    return {"apiVersion": api_version, "kind": kind, "name": "w", "uid": "1-2-3"} | more


def owned(resource: str, namespace: str, name: str) -> Reference:
    """The one reference of an object that a widget owns."""
    (found,) = owner_references(resource, meta(name, owner(), namespace=namespace), OWNERS)
    return found


def named_by(*references: Reference, unseen: str = "", of: SoughtVersion = WIDGETS) -> FoundReferences:
    """What a search found."""
    tally = ReferenceTally([of])
    for each in references:
        tally.add(each)
    return tally.found([NotLookedAt(unseen, "403: no")] if unseen else [])[of]


WIDGET = "apiVersion: example.com/v1\nkind: Widget\nmetadata:\n  name: w\n  namespace: apps\n"
OTHER = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: c\n"


def release(manifest: str, status: str = "deployed", **more: Any) -> dict[str, Any]:
    """A release as Helm writes it."""
    return {"name": "web", "version": 3, "info": {"status": status}, "manifest": manifest, "config": {"a": "b"}} | more


def stored(content: bytes) -> dict[str, Any]:
    """The Secret of Helm's driver with some content in the place of a release."""
    return {
        "metadata": {"namespace": "default", "name": "web", "labels": {"owner": "helm"}},
        "type": "helm.sh/release.v1",
        "data": {"release": base64.b64encode(base64.b64encode(content)).decode()},
    }


def secret(content: Mapping[str, Any]) -> dict[str, Any]:
    """The Secret of a release."""
    return stored(gzip.compress(json.dumps(content).encode()))


def helm(status: str) -> Iterable[Reference]:
    """What is found in a release of one widget."""
    return helm_references("secrets", secret(release(f"---\n{OTHER}---\n{WIDGET}", status)), OWNERS)


def keys(found: Iterator[Reference]) -> list[tuple[str, str]]:
    """Where each reference is, and what is said of it."""
    return [(each.where, each.detail) for each in found]
