"""A kind to serve: gateways at v1alpha1 and the hub v1, which knows more than v1alpha1 can say."""

from __future__ import annotations

from typing import Any

from restow.conversion import Registry, rules
from restow.crds import Crd

GROUP, KIND, PLURAL = "edge.example.dev", "Gateway", "gateways"
OLD, HUB = f"{GROUP}/v1alpha1", f"{GROUP}/v1"
CRD_NAME = f"{PLURAL}.{GROUP}"


def seconds(duration: Any) -> Any:
    """Show a duration in whole seconds; what is no plain number of seconds is shown as none."""
    text = duration.removesuffix("s") if isinstance(duration, str) else ""
    return int(text) if text.isascii() and text.isdigit() and len(text) < 20 else 0


def duration(number: Any) -> Any:
    """Spell seconds as a duration. A negative one is refused."""
    if isinstance(number, int) and number < 0:
        raise ValueError(number)
    return f"{number}s" if isinstance(number, int) else number


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


def _version(name: str, spec: dict[str, Any], status: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": name,
        "served": True,
        "storage": name == "v1",
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": _object(spec=spec, status=status)},
    }


TEXT, NUMBER = {"type": "string"}, {"type": "integer"}
TLS = _object(certificate=TEXT, minVersion=TEXT)
LISTENERS = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["name"],
    "items": {**_object(name=TEXT, weight=NUMBER), "required": ["name"]},
}
OLD_LISTENERS = {
    "type": "array",
    "x-kubernetes-list-type": "map",
    "x-kubernetes-list-map-keys": ["title"],
    "items": {**_object(title=TEXT), "required": ["title"]},
}

CRD_DOCUMENT = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": CRD_NAME},
    "spec": {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {"kind": KIND, "plural": PLURAL},
        "versions": [
            _version(
                "v1alpha1",
                _object(host=TEXT, certificate=TEXT, timeoutSeconds=NUMBER, listeners=OLD_LISTENERS),
                _object(ready={"type": "boolean"}),
            ),
            _version("v1", _object(host=TEXT, timeout=TEXT, tls=TLS, listeners=LISTENERS), _object(phase=TEXT)),
        ],
    },
}
CRD = Crd.from_document(CRD_DOCUMENT)

registry = Registry()
gateway = registry.kind(GROUP, KIND, hub="v1")


@gateway.spoke("v1alpha1")
def gateway_v1alpha1() -> list[rules.Rule]:
    """Flat, and with less to say: no TLS version, no weights, plain seconds, ready or not."""
    return [
        rules.move("spec.certificate", "spec.tls.certificate"),
        rules.stash(hub="spec.tls.minVersion"),
        rules.pair("spec.timeoutSeconds", "spec.timeout", up=duration, down=seconds, loses="down"),
        rules.each("spec.listeners", [rules.rename("title", "name"), rules.stash(hub="weight")]),
        rules.pair(
            "status.ready",
            "status.phase",
            up=lambda ready: "Ready" if ready else "Pending",
            down=lambda phase: phase == "Ready",
            loses="down",
        ),
    ]


graph = registry.freeze([CRD])


def old(name: str = "g", **spec: Any) -> dict[str, Any]:
    """Make a gateway at the old version."""
    return {
        "apiVersion": OLD,
        "kind": KIND,
        "metadata": {"name": name, "namespace": "default", "uid": f"uid-{name}"},
        "spec": {"host": "example.com", **spec},
    }


def new(name: str = "g", **spec: Any) -> dict[str, Any]:
    """Make a gateway at the hub."""
    return {**old(name, **spec), "apiVersion": HUB}
