"""A kind whose conversion fails for some objects, for ``restow serve --registry tests.apiserver.brittle:registry``."""

from __future__ import annotations

from typing import Any

from restow.conversion import Registry, rules

GROUP = "brittle.example.dev"
CRD = f"vases.{GROUP}"
#: A field in which any tenant may write what it likes.
ANYTHING = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}


def _careful(value: Any) -> Any:
    if value == "cracked":
        raise ValueError(value)
    return value


registry = Registry()
vase = registry.kind(GROUP, "Vase", hub="v1")


@vase.spoke("v1alpha1")
def v1alpha1() -> list[rules.Rule]:
    """The older version says clay where the newer one says material."""
    return [rules.pair("spec.clay", "spec.material", up=_careful, down=_careful)]


def crd(conversion: dict[str, Any]) -> dict[str, Any]:
    """The CRD."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": CRD},
        "spec": {
            "group": GROUP,
            "scope": "Namespaced",
            "names": {"kind": "Vase", "plural": "vases", "singular": "vase", "listKind": "VaseList"},
            "conversion": conversion,
            "versions": [
                {
                    "name": name,
                    "served": True,
                    "storage": name == "v1",
                    "schema": {
                        "openAPIV3Schema": {
                            "type": "object",
                            "properties": {
                                "spec": {"type": "object", "properties": {field: {"type": "string"}, "more": ANYTHING}},
                                "data": ANYTHING,
                            },
                        }
                    },
                }
                for name, field in (("v1alpha1", "clay"), ("v1", "material"))
            ],
        },
    }
