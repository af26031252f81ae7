"""A kind like Tekton's Task: its steps are an atomic list, and each version has a field that the other lacks."""

from __future__ import annotations

from typing import Any

from restow.conversion import Registry, rules
from restow.crds import Crd
from tests.apiserver.kind import struct

GROUP = "tasks.example.dev"
TEXT, FLAG = {"type": "string"}, {"type": "boolean"}


def _version(name: str, *, storage: bool, **more: Any) -> dict[str, Any]:
    steps = {"type": "array", "items": struct(name=TEXT, image=TEXT, **more)}
    schema = struct(spec=struct(steps={**steps, "x-kubernetes-list-type": "atomic"}, description=TEXT))
    return {"name": name, "served": True, "storage": storage, "schema": {"openAPIV3Schema": schema}}


DOCUMENT: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": f"tasks.{GROUP}"},
    "spec": {
        "group": GROUP,
        "scope": "Namespaced",
        "names": {"plural": "tasks", "kind": "Task"},
        "versions": [_version("v1", storage=True, onError=TEXT), _version("v1beta1", storage=False, tty=FLAG)],
    },
}

registry = Registry()
_task = registry.kind(GROUP, "Task", hub="v1")


@_task.spoke("v1beta1")
def _v1beta1() -> list[rules.Rule]:
    inner = [rules.stash("tty"), rules.stash(hub="onError")]
    return [rules.each("spec.steps", inner, acknowledge="names are no keys here: the tests are about lists without")]


graph = registry.freeze([Crd.from_document(DOCUMENT)])
