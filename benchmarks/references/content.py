"""The content of this benchmark's cluster: custom resources of many kinds, and Helm releases of many revisions. Pure.

Every second kind allows references. One object in a hundred refers to the old version: by a typed reference if its kind
allows one, otherwise by an ownerReference.
"""

from __future__ import annotations

import base64
import gzip
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

__all__ = [
    "FULL",
    "GROUP",
    "OLD",
    "QUICK",
    "SECRETS",
    "USUAL",
    "Sizes",
    "crds",
    "plurals",
    "releases",
    "stored_objects",
]

Json = dict[str, Any]

GROUP: Final = "bench.example.dev"
OLD: Final = f"{GROUP}/v1alpha1"
SECRETS: Final = "/registry/secrets"

_EVERY: Final = 100
"""One object in this number refers to the old version."""

_NOTE: Final = 400
_CONFIG_MAPS: Final = 40
_CHART_BYTES: Final = 6000
_MADE: Final = "2026-01-01T00:00:00Z"


@dataclass(frozen=True, slots=True)
class Sizes:
    """The numbers of objects, resources, Helm releases, and revisions of a release."""

    objects: int
    resources: int
    releases: int
    revisions: int

    def __str__(self) -> str:
        """Return the sizes as text."""
        return (
            f"{self.objects:,} objects of {self.resources} resources, {self.releases} Helm releases of "
            f"{self.revisions} revisions"
        )

    @property
    def of_each(self) -> int:
        """The number of objects of one resource."""
        return self.objects // self.resources

    @property
    def referring(self) -> int:
        """The number of custom resources that refer to the old version."""
        return self.resources * -(-self.of_each // _EVERY)


FULL: Final = Sizes(100_000, 60, 500, 50)
USUAL: Final = Sizes(20_000, 20, 50, 10)
QUICK: Final = Sizes(400, 4, 4, 3)


def plurals(resources: int) -> list[str]:
    """Return the plurals of the kinds."""
    return [f"k{number}s" for number in range(resources)]


def crds(resources: int) -> Iterator[Json]:
    """Yield the CRD whose old version the contenders search for, and the CRDs of the other kinds."""
    text = {"type": "string"}
    reference = {"type": "object", "properties": {"apiVersion": text, "kind": text, "name": text}}
    yield _crd("widgets", "Widget", {"type": "object"}, ("v1alpha1", "v1"))
    for number, plural in enumerate(plurals(resources)):
        more = {"ref": reference} if _has_room(number) else {"size": {"type": "integer"}}
        yield _crd(plural, f"K{number}", {"type": "object", "properties": {"note": text, **more}}, ("v1",))


def stored_objects(sizes: Sizes, namespace: str) -> Iterator[tuple[str, Json]]:
    """Yield the key in etcd and the stored form of each custom resource."""
    for number, plural in enumerate(plurals(sizes.resources)):
        owned = {f"f:{name}": {} for name in ("note", "ref" if _has_room(number) else "size")}
        for place in range(sizes.of_each):
            metadata = _metadata(f"{plural}-{place}", namespace, number * sizes.of_each + place, {"f:spec": owned})
            spec: Json = {"note": "x" * _NOTE}
            reference = {"apiVersion": OLD, "kind": "Widget", "name": "w"}
            if place % _EVERY == 0 and _has_room(number):
                spec["ref"] = reference
            elif place % _EVERY == 0:
                metadata["ownerReferences"] = [{**reference, "uid": "1-2-3"}]
            head = {"apiVersion": f"{GROUP}/v1", "kind": f"K{number}"}
            yield (
                f"/registry/{GROUP}/{plural}/{namespace}/{metadata['name']}",
                {
                    **head,
                    "metadata": metadata,
                    "spec": spec,
                },
            )


def releases(sizes: Sizes, namespace: str) -> Iterator[tuple[str, Json]]:
    """Yield the key in etcd and the stored form of the Secret of each revision."""
    chance = random.Random(0)  # the content of a chart can hardly be compressed further
    for number in range(sizes.releases):
        for revision in range(1, sizes.revisions + 1):
            secret = _release(number, revision, sizes.revisions, namespace, chance.randbytes(_CHART_BYTES))
            yield f"{SECRETS}/{namespace}/{secret['metadata']['name']}", secret


def _has_room(number: int) -> bool:
    return number % 2 == 1


def _crd(plural: str, kind: str, spec: Json, versions: tuple[str, ...]) -> Json:
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": spec}}}
    return {
        "metadata": {"name": f"{plural}.{GROUP}"},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"plural": plural, "kind": kind},
            "versions": [
                {"name": name, "served": True, "storage": name == versions[-1], "schema": schema} for name in versions
            ],
        },
    }


def _metadata(name: str, namespace: str, number: int, owned: Json, api_version: str = f"{GROUP}/v1") -> Json:
    entry = {"manager": "controller", "operation": "Update", "apiVersion": api_version, "time": _MADE}
    return {
        "name": name,
        "namespace": namespace,
        "uid": f"00000000-0000-4000-8000-{number:012x}",
        "generation": 1,
        "creationTimestamp": _MADE,
        "managedFields": [{**entry, "fieldsType": "FieldsV1", "fieldsV1": owned}],
    }


def _release(number: int, revision: int, last: int, namespace: str, chart: bytes) -> Json:
    name = f"r{number}"
    widget = f"---\napiVersion: {OLD}\nkind: Widget\nmetadata:\n  name: w\n"
    config = "".join(f"---\napiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: c{n}\n" for n in range(_CONFIG_MAPS))
    status = "deployed" if revision == last else "superseded"
    content = {
        "name": name,
        "namespace": namespace,
        "version": revision,
        "info": {"status": status, "first_deployed": _MADE, "last_deployed": _MADE},
        "chart": {
            "metadata": {"name": "chart", "version": "1.0.0", "apiVersion": "v2"},
            "templates": [{"name": "templates/a.yaml", "data": base64.b64encode(chart).decode()}],
        },
        "manifest": config + widget,
    }
    release = base64.b64encode(base64.b64encode(gzip.compress(json.dumps(content).encode(), mtime=0))).decode()
    labels = {"owner": "helm", "name": name, "status": status, "version": str(revision)}
    unique = (1 << 40) + number * last + revision
    metadata = _metadata(f"sh.helm.release.v1.{name}.v{revision}", namespace, unique, {"f:data": {}}, "v1")
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "type": "helm.sh/release.v1",
        "metadata": {**metadata, "labels": labels},
        "data": {"release": release},
    }
