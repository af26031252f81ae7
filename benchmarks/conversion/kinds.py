"""Two kinds to convert, and reviews of them.

- *sparse*: ten scalar leaves change and the rest stays, as in most new API versions;
- *dense*: each of 80 list items is converted, a very demanding conversion.

Objects resemble those that an API server sends: about a fifth is managedFields, some is status, and fields of the spec
that no rule names fill the size. All are converted from the spoke v1 to the hub v2.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import msgspec

from restow.conversion import Graph, Registry, rules
from restow.crds import Crd

__all__ = [
    "DENSE",
    "GROUP",
    "SPARSE",
    "Json",
    "Workload",
    "crd_of",
    "dense_graph",
    "dense_object",
    "keyed",
    "review",
    "sparse_graph",
    "sparse_object",
    "struct",
    "whole",
]

GROUP = "bench.restow.dev"
ITEMS = 80

Json = dict[str, Any]

_TEXT: Json = {"type": "string"}
_NUMBER: Json = {"type": "integer"}


def struct(**properties: Json) -> Json:
    """Return the schema of an object."""
    return {"type": "object", "properties": properties}


def _enum(*values: str) -> Json:
    return {"type": "string", "enum": [*values]}


def crd_of(kind: str, v1: Json, v2: Json) -> Crd:
    """Return the CRD of a kind with two versions and the storage version v2."""
    plural = f"{kind.lower()}s"
    versions = [
        {"name": name, "served": True, "storage": name == "v2", "schema": {"openAPIV3Schema": schema}}
        for name, schema in (("v2", v2), ("v1", v1))
    ]
    return Crd.from_document(
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.{GROUP}"},
            "spec": {
                "group": GROUP,
                "scope": "Namespaced",
                "names": {"kind": kind, "plural": plural, "singular": kind.lower(), "listKind": f"{kind}List"},
                "versions": versions,
            },
        }
    )


_ENV: Json = {"type": "array", "items": struct(name=_TEXT, value=_TEXT)}
_CONDITIONS: Json = {"type": "array", "items": struct(type=_TEXT, status=_TEXT, reason=_TEXT, lastTransitionTime=_TEXT)}
_STATUS: Json = struct(observedGeneration=_NUMBER, conditions=_CONDITIONS)

SPARSE_CRD = crd_of(
    "Sparse",
    struct(
        status=_STATUS,
        spec=struct(
            ttl=_NUMBER,
            minReadySecs=_NUMBER,
            svcAccount=_TEXT,
            revision=_NUMBER,
            image=_TEXT,
            pullPolicy=_enum("always", "never"),
            mode=_enum("public", "private"),
            timeoutSeconds=_NUMBER,
            host=_TEXT,
            replicas=_NUMBER,
            env=_ENV,
        ),
    ),
    struct(
        status=_STATUS,
        spec=struct(
            timeToLiveSeconds=_NUMBER,
            minReadySeconds=_NUMBER,
            serviceAccountName=_TEXT,
            revisionHistoryLimit=_NUMBER,
            container=struct(image=_TEXT, pullPolicy=_enum("Always", "Never")),
            mode=_enum("Public", "Private"),
            timeout=_TEXT,
            hosts={"type": "array", "items": _TEXT},
            replicas=_NUMBER,
            env=_ENV,
        ),
    ),
)

_OLD_PORT: Json = struct(
    name=_TEXT, port=_NUMBER, proto=_enum("tcp", "udp"), timeoutSeconds=_NUMBER, note=_TEXT, labels=_ENV
)
_NEW_PORT: Json = struct(
    name=_TEXT, number=_NUMBER, protocol=_enum("TCP", "UDP"), timeout=_TEXT, note=_TEXT, labels=_ENV
)


def keyed(items: Json, key: str) -> Json:
    """Return the schema of a list whose items have a key."""
    return {
        "type": "array",
        "items": {**items, "required": [key]},
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": [key],
    }


DENSE_CRD = crd_of(
    "Dense",
    struct(status=_STATUS, spec=struct(ports=keyed(_OLD_PORT, "name"))),
    struct(status=_STATUS, spec=struct(ports=keyed(_NEW_PORT, "name"))),
)


def _duration(seconds: Any) -> Any:
    return f"{seconds}s" if isinstance(seconds, int) else seconds


def _seconds(duration: Any) -> Any:
    return int(duration[:-1]) if isinstance(duration, str) and duration[:-1].isdecimal() else duration


def sparse_graph() -> Graph:
    """Return the conversions of the sparse kind: four names (two of them moves), two spellings, a function, a list."""
    registry = Registry()
    registry.kind(GROUP, "Sparse", hub="v2").spoke("v1")(
        lambda: [
            rules.rename("spec.ttl", "spec.timeToLiveSeconds"),
            rules.rename("spec.minReadySecs", "spec.minReadySeconds"),
            rules.rename("spec.svcAccount", "spec.serviceAccountName"),
            rules.rename("spec.revision", "spec.revisionHistoryLimit"),
            rules.move("spec.image", "spec.container.image"),
            rules.enum("spec.pullPolicy", {"always": "Always", "never": "Never"}, hub="spec.container.pullPolicy"),
            rules.enum("spec.mode", {"public": "Public", "private": "Private"}),
            rules.pair("spec.timeoutSeconds", "spec.timeout", up=_duration, down=_seconds, loses="down"),
            rules.wrap("spec.host", "spec.hosts[]"),
            rules.default("spec.replicas", 1),
        ]
    )
    return registry.freeze([SPARSE_CRD])


def dense_graph() -> Graph:
    """Return the conversions of the dense kind: two names, a spelling and a function for each item."""
    registry = Registry()
    registry.kind(GROUP, "Dense", hub="v2").spoke("v1")(
        lambda: [
            rules.each(
                "spec.ports",
                [
                    rules.rename("port", "number"),
                    rules.enum("proto", {"tcp": "TCP", "udp": "UDP"}, hub="protocol"),
                    rules.pair("timeoutSeconds", "timeout", up=_duration, down=_seconds, loses="down"),
                ],
            )
        ]
    )
    return registry.freeze([DENSE_CRD])


def sparse_object(number: int, size: int) -> Json:
    """Return an object at v1 of about ``size`` bytes."""
    spec: Json = {
        "ttl": 3600 + number,
        "minReadySecs": 10,
        "svcAccount": "runner",
        "revision": 5,
        "image": f"registry.example.dev/team/app:{number}",
        "pullPolicy": "always",
        "mode": "public",
        "timeoutSeconds": 30,
        "host": f"app-{number}.example.dev",
        "replicas": 3,
        "env": [],
    }
    return _padded("Sparse", number, spec, spec["env"], size)


def dense_object(number: int, size: int) -> Json:
    """Return an object at v1 with 80 items, of about ``size`` bytes, but at least the size of the items."""
    ports: list[Json] = [
        {"name": f"p{index}", "port": 8000 + index}
        | ({} if size < _ROOMY else {"proto": "udp" if index % 3 else "tcp", "timeoutSeconds": index})
        for index in range(ITEMS)
    ]
    obj = whole("Dense", number, {"ports": ports}, size)
    missing = (size - len(msgspec.json.encode(obj))) // ITEMS
    for port in ports if missing > 0 else ():
        labels = [_variable(index) for index in range(missing // _VARIABLE_SIZE)]
        port.update({"labels": labels} if labels else {"note": "n" * missing})
    return obj


_ROOMY = 6_000  # bytes; in smaller objects, the 80 items leave no room for further fields


def _padded(kind: str, number: int, spec: Json, env: list[Json], size: int) -> Json:
    obj = whole(kind, number, spec, size)
    missing = size - len(msgspec.json.encode(obj))
    env += [_variable(index) for index in range(missing // _VARIABLE_SIZE)]
    return obj


def _variable(index: int) -> Json:
    return {"name": f"VARIABLE_{index:04}", "value": f"the value of number {index:04}"}


_VARIABLE_SIZE = len(msgspec.json.encode(_variable(0))) + 1


def whole(kind: str, number: int, spec: Json, size: int) -> Json:
    """Return a stored object with this spec, and managedFields as usual for objects of ``size`` bytes."""
    owned: Json = {}
    entry = {
        "manager": "deployer",
        "operation": "Apply",
        "apiVersion": f"{GROUP}/v1",
        "time": "2026-01-01T00:00:00Z",
        "fieldsType": "FieldsV1",
        "fieldsV1": {"f:spec": {"f:env": owned}},
    }
    for index in range(size // 5 // 30):
        owned[f'k:{{"name":"VARIABLE_{index:04}"}}'] = {}
    conditions = [
        {"type": name, "status": "True", "reason": f"{name}Reached", "lastTransitionTime": "2026-01-01T00:00:00Z"}
        for name in ("Ready", "Available", "Progressing")[: 1 + size // 3_000]
    ]
    return {
        "apiVersion": f"{GROUP}/v1",
        "kind": kind,
        "metadata": {
            "name": f"object-{number}",
            "namespace": "default",
            "uid": f"7d0ca1b8-0000-4000-8000-{number:012}",
            "resourceVersion": str(1000 + number),
            "generation": 3,
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"app.kubernetes.io/name": "app", "app.kubernetes.io/part-of": "bench"},
            "annotations": {"bench.restow.dev/owner": "team"},
            "managedFields": [entry],
        },
        "spec": spec,
        "status": {"observedGeneration": 3, "conditions": conditions},
    }


@dataclass(frozen=True, slots=True)
class Workload:
    """A kind to convert; ``registry`` names its conversions for ``restow serve``."""

    name: str
    what: str
    registry: str
    crd: Crd
    graph: Callable[[], Graph]
    make: Callable[[int, int], Json]

    @property
    def crd_name(self) -> str:
        """The name of the CRD."""
        return self.crd.name


SPARSE_GRAPH = sparse_graph()
DENSE_GRAPH = dense_graph()

SPARSE = Workload(
    "sparse",
    "ten scalar leaves change",
    "benchmarks.conversion.kinds:SPARSE_GRAPH",
    SPARSE_CRD,
    sparse_graph,
    sparse_object,
)
DENSE = Workload(
    "dense",
    f"{ITEMS} list items, each converted",
    "benchmarks.conversion.kinds:DENSE_GRAPH",
    DENSE_CRD,
    dense_graph,
    dense_object,
)


def review(workload: Workload, count: int, kilobytes: int) -> bytes:
    """Return a ConversionReview to v2 of ``count`` objects, each of about ``kilobytes`` kB."""
    request = {
        "uid": "0d5c1a7e-0000-4000-8000-000000000000",
        "desiredAPIVersion": f"{GROUP}/v2",
        "objects": [workload.make(number, kilobytes * 1000) for number in range(count)],
    }
    return msgspec.json.encode(
        {"kind": "ConversionReview", "apiVersion": "apiextensions.k8s.io/v1", "request": request, "response": _STUB}
    )


#: The empty response that an API server sends with every request.
_STUB: Json = {"uid": "", "convertedObjects": None, "result": {"metadata": {}}}
