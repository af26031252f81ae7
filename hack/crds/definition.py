"""The CustomResourceDefinitions around the schemas, and the text of their manifests.

Conversion is declared as strategy Webhook with restow's Service, and without a CA bundle, because only an installation
knows its CA. As long as no webhook answers, v1beta2 (the storage version) works, and every request at v1beta1 that
needs a conversion fails with an error. With strategy None the API server would prune stages silently instead.

A manifest is plain YAML without anchors. The keys that matter most come first in each node, and long texts are folded.

Pure.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import yaml

from hack.crds.nodes import API_VERSIONS, ApiVersion, Node
from hack.crds.profiles import cloud_profile, namespaced_cloud_profile
from hack.crds.shoots import shoot

_GROUP: Final = "core.gardener.cloud"
_STORAGE: Final[ApiVersion] = "v1beta2"
_SERVICE: Final = {"name": "restow-webhook", "namespace": "restow-system", "port": 443}


@dataclass(frozen=True, slots=True)
class _Resource:
    """A kind with its names, its description, its fields at a version, its columns and its selectable fields.

    ``wide`` are columns of the storage version that ``kubectl get`` shows only with ``-o wide``.

    ``selectable`` must differ between the versions: the API server (1.36) moves equal ``selectableFields`` out of the
    versions, and then refuses them at the top level because no schema is there.
    """

    kind: str
    short_names: Sequence[str]
    namespaced: bool
    description: str
    fields: Callable[[ApiVersion], dict[str, Node]]
    columns: Sequence[tuple[str, str]]
    instead: str
    selectable: Mapping[ApiVersion, Sequence[str]] = field(default_factory=dict)
    wide: Sequence[tuple[str, str, str]] = ()

    @property
    def plural(self) -> str:
        return f"{self.kind.lower()}s"


#: The next transition of a profile, and whether Shoots can leave every version that expires. A column of type ``date``
#: would show the time since then, and a time in the future as ``<invalid>``.
_OF_TIME: Final = (
    ("Next Transition", ".status.nextTransition.description"),
    ("At", ".status.nextTransition.startTime"),
    ("Update Path", '.status.conditions[?(@.type=="UpdatePathComplete")].status'),
)

_RESOURCES: Final = (
    _Resource(
        kind="CloudProfile",
        short_names=["cprofile", "cpfl"],
        namespaced=False,
        description="CloudProfile describes what an infrastructure provider offers to every project.",
        fields=cloud_profile,
        columns=[("Provider", ".spec.type"), *_OF_TIME],
        instead="lifecycle takes the place of classification and expirationDate",
    ),
    _Resource(
        kind="NamespacedCloudProfile",
        short_names=["nscpfl", "nsprofile"],
        namespaced=True,
        description="NamespacedCloudProfile is a CloudProfile with the additions and overrides of one project.",
        fields=namespaced_cloud_profile,
        columns=[("Parent Name", ".spec.parent.name"), ("Parent Kind", ".spec.parent.kind"), *_OF_TIME],
        wide=[("Spec", ".spec", "The spec as JSON, by which admission reads all specs without the statuses.")],
        instead="lifecycle takes the place of classification and expirationDate",
        selectable={"v1beta1": [".spec.parent.name"], "v1beta2": [".spec.parent.name", ".spec.parent.kind"]},
    ),
    _Resource(
        kind="Shoot",
        short_names=[],
        namespaced=True,
        description="Shoot is a cluster that is made from a profile.",
        fields=shoot,
        columns=[
            ("CloudProfile", ".spec.cloudProfile.name"),
            ("Provider", ".spec.provider.type"),
            ("Region", ".spec.region"),
            ("K8S Version", ".spec.kubernetes.version"),
        ],
        instead="cloudProfile takes the place of cloudProfileName",
        selectable={
            "v1beta1": [".spec.cloudProfile.name", ".spec.cloudProfile.kind", ".spec.cloudProfileName"],
            "v1beta2": [".spec.cloudProfile.name", ".spec.cloudProfile.kind"],
        },
    ),
)


def manifests() -> dict[str, Node]:
    """Return the documents by the name of their file."""
    return {f"{_GROUP}_{resource.plural}.yaml": _definition(resource) for resource in _RESOURCES}


def _definition(resource: _Resource) -> Node:
    name = f"{resource.plural}.{_GROUP}"
    names: dict[str, Any] = {
        "kind": resource.kind,
        "listKind": f"{resource.kind}List",
        "plural": resource.plural,
        "singular": resource.kind.lower(),
    }
    if resource.short_names:
        names["shortNames"] = list(resource.short_names)
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": name},
        "spec": {
            "group": _GROUP,
            "names": names,
            "scope": "Namespaced" if resource.namespaced else "Cluster",
            "conversion": {
                "strategy": "Webhook",
                "webhook": {
                    "clientConfig": {"service": {**_SERVICE, "path": f"/convert/{name}"}},
                    "conversionReviewVersions": ["v1"],
                },
            },
            "versions": [_version(resource, api) for api in reversed(API_VERSIONS)],
        },
    }


def _version(resource: _Resource, api: ApiVersion) -> Node:
    columns = [{"name": name, "type": "string", "jsonPath": path} for name, path in resource.columns]
    wide = [
        {"name": name, "type": "string", "description": description, "jsonPath": path, "priority": 1}
        for name, path, description in resource.wide
    ]
    deprecated = {
        "deprecated": True,
        "deprecationWarning": f"{_GROUP}/{api} {resource.kind} is deprecated; use {_GROUP}/{_STORAGE}, where "
        f"{resource.instead}",
    }
    selectable = {"selectableFields": [{"jsonPath": path} for path in resource.selectable.get(api, ())]}
    return {
        "name": api,
        "served": True,
        "storage": api == _STORAGE,
        **({} if api == _STORAGE else deprecated),
        "additionalPrinterColumns": [
            *columns,
            {"name": "Age", "type": "date", "jsonPath": ".metadata.creationTimestamp"},
            *(wide if api == _STORAGE else ()),
        ],
        **(selectable if resource.selectable else {}),
        "subresources": {"status": {}},
        "schema": {"openAPIV3Schema": _root(resource, api)},
    }


def _root(resource: _Resource, api: ApiVersion) -> Node:
    return {
        "description": resource.description,
        "type": "object",
        "required": ["spec"],
        "properties": {
            "apiVersion": {"description": "The version of the API that this object is written in.", "type": "string"},
            "kind": {"description": "The kind of this object.", "type": "string"},
            "metadata": {"type": "object"},
            **resource.fields(api),
        },
    }


_WIDTH: Final = 116
_HEADER: Final = """\
# Written by `python -m hack.crds` from hack/crds: change it there.
#
# Conversion is declared as a webhook without a CA bundle, which only an installation knows: `restow operator` adds it.
# Applied alone, this CRD works at v1beta2, and requests at v1beta1 fail once a conversion would be needed.
# Never set the strategy to None while both versions are served: what only one of them can say would be lost.
"""

_FIRST: Final = ("description", "type", "format", "enum", "default", "required", "maxItems")
_INSIDE: Final = ("items", "additionalProperties", "properties")


def written(document: Mapping[str, Any]) -> str:
    """Return the text of a manifest; equal documents give equal texts."""
    body = yaml.dump(_arranged(document), Dumper=_ManifestDumper, sort_keys=False, width=_WIDTH, allow_unicode=True)
    return f"{_HEADER}---\n{body}"


def _arranged(value: Any) -> Any:
    """Return a part of a document with the keys of every schema in it in order."""
    if isinstance(value, list):
        return [_arranged(each) for each in value]
    if not isinstance(value, Mapping):
        return value
    return {key: _node(each) if key == "openAPIV3Schema" else _arranged(each) for key, each in value.items()}


def _node(node: Mapping[str, Any]) -> dict[str, Any]:
    """Return a node with its description and type first, then its bounds and rules, and its children last."""
    first = [key for key in _FIRST if key in node]
    bounds = sorted(key for key in node if key not in (*_FIRST, *_INSIDE))
    arranged = {key: node[key] for key in (*first, *bounds)}
    for key in ("items", "additionalProperties"):
        if key in node:
            arranged[key] = _node(node[key])
    if "properties" in node:
        arranged["properties"] = {name: _node(each) for name, each in node["properties"].items()}
    return arranged


class _ManifestDumper(yaml.SafeDumper):
    """A dumper that writes every node in full, and folds texts that are longer than a line."""

    def ignore_aliases(self, _data: Any) -> bool:
        return True

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:  # noqa: ARG002
        super().increase_indent(flow, False)


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    style = ">" if len(value) > 80 and " " in value else None
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=style)


_ManifestDumper.add_representer(str, _text)
