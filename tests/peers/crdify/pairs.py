"""The pairs of CRDs that crdify and restow judge: upgrades of real CRDs, and generated changes of them and of tables.

A pair is found again by its name, so that a test can say which one it is about. The changes are drawn from a seed.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from pathlib import Path
from random import Random
from typing import Any, Final

from restow.crds.documents import load_documents
from tests.crds.test_crddiff import document, first, names, spec
from tests.crds.test_schemachanges import BREAKING
from tests.peers.cluster_api import PEERS
from tests.peers.recordings import recording
from tests.upstream import files

__all__ = ["Document", "pairs"]

Document = dict[str, Any]

_SEEDS: Final = 4
_CHANGES: Final = 16


def _read(path: Path) -> Document:
    found: Document = next(iter(load_documents(path.read_bytes())))
    return found


def _releases() -> Iterator[tuple[str, Document, Document]]:
    """Yield Cluster API's CRDs of two releases, v1.12 and v1.14."""
    for peer in PEERS:
        newer = files.cluster_api() / peer.crd
        if newer.is_file():
            older = json.loads(bytes(recording(peer.project).crds[peer.crd]))
            yield f"cluster-api {peer.crd}", older, _read(newer)


def _documents() -> Iterator[tuple[str, Document]]:
    for folder in (files.cluster_api(), files.kueue(), files.metallb(), files.crossplane()):
        for path in sorted(folder.glob("*.yaml")):
            yield path.stem, _read(path)


def _added_versions() -> Iterator[tuple[str, Document, Document]]:
    """Yield each CRD without its storage version, and with it."""
    for name, given in _documents():
        older = copy.deepcopy(given)
        versions = [each for each in older["spec"]["versions"] if not each["storage"]]
        if versions:
            versions[-1]["storage"] = True
            older["spec"]["versions"] = versions
            yield f"{name} gets its storage version", older, given
            yield f"{name} loses its storage version", given, older


def _tables() -> Iterator[tuple[str, Document, Document]]:
    """Yield the changes that the tests of restow's own verdict know, there and back."""
    required = {"type": "object", "required": ["a"], "properties": {"a": {"type": "string", "default": "x"}}}
    yield "table: required with a default", _widgets({**required, "required": []}), _widgets(required)
    for name, (old, new, _) in BREAKING.items():
        yield f"table: {name}", _widgets(old), _widgets(new)
        yield f"table: {name}, undone", _widgets(new), _widgets(old)


_SUBRESOURCES: Final = {"status": {}, "scale": {}}
_LESS: Final = {"openAPIV3Schema": {"type": "object"}}

#: Changes of a CRD with v1beta1 and v1, each of a document.
_CRDS: Final[Mapping[str, tuple[Callable[[Document], object], ...]]] = {
    "scope": (spec(scope="Cluster"),),
    "kind": (names(kind="Gadget"),),
    "unserved": (first(served=False),),
    "subresources": (first(subresources=_SUBRESOURCES),),
    "selectable fields": (first(selectableFields=[{"jsonPath": ".spec.size"}]),),
    "columns": (first(additionalPrinterColumns=[{"name": "S", "type": "integer", "jsonPath": ".spec.size"}]),),
    "fewer fields": (first(schema=_LESS),),
    "fewer fields of an unserved version": (first(served=False), first(schema=_LESS)),
    "fewer fields before a webhook": (
        spec(conversion={"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"]}}),
        lambda document: document["spec"]["versions"][1].update(schema=_LESS),
    ),
    "a version gone": (lambda document: document["spec"]["versions"].pop(0),),
}


def _crds() -> Iterator[tuple[str, Document, Document]]:
    """Yield the changes one after the other, there and back."""
    for name, changes in _CRDS.items():
        old = document()
        for change in changes:
            new = copy.deepcopy(old)
            change(new)
            yield f"CRD: {name}", old, new
            yield f"CRD: {name}, undone", new, old
            old = new


def _widgets(field: Mapping[str, Any] | None) -> Document:
    properties = {} if field is None else {"f": field}
    schema = {"type": "object", "properties": properties}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"kind": "Widget", "plural": "widgets"},
            "versions": [{"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": schema}}],
        },
    }


def _generated() -> Iterator[tuple[str, Document, Document]]:
    for name, given in _documents():
        for seed in range(_SEEDS):
            draw = Random(f"{name} {seed}")
            changed = copy.deepcopy(given)
            for _ in range(_CHANGES):
                _change(changed, draw)
            yield f"{name}, seed {seed}", given, changed


def _change(crd: Document, draw: Random) -> None:
    """Change a node of a version, or the CRD."""
    version = draw.choice(crd["spec"]["versions"])
    nodes = list(_nodes(version["schema"]["openAPIV3Schema"]))
    node = draw.choice(nodes)
    keyword = draw.choice([*_KEYWORDS, "field", "new field", "required", "served", "scope", "description"])
    match keyword:
        case "field" if node.get("properties"):
            del node["properties"][draw.choice(sorted(node["properties"]))]
        case "new field" if node.get("properties"):
            node["properties"]["brandNew"] = {"type": "string", "default": draw.choice(["", "a"])}
        case "required" if node.get("properties"):
            node["required"] = sorted({*node.get("required", ()), draw.choice(sorted(node["properties"]))})
        case "served":
            version["served"] = draw.choice([True, False])
        case "scope":
            crd["spec"]["scope"] = draw.choice(["Namespaced", "Namespaced", "Cluster"])
        case "description":
            node["description"] = "another"
        case _ if (values := _KEYWORDS.get(keyword, {}).get(node.get("type", ""))) is not None:
            _set(node, keyword, draw.choice([*values, None]))


def _set(node: Document, keyword: str, value: Any) -> None:
    node.pop(keyword, None)
    if value is not None:
        node[keyword] = value


#: Values of keywords by the type of the node.
_KEYWORDS: Final[Mapping[str, Mapping[str, list[Any]]]] = {
    "type": {"string": ["integer"], "integer": ["number", "string"], "boolean": ["string"]},
    "enum": {"string": [["a"], ["a", "b"], ["b", "c"]]},
    "maxLength": {"string": [1, 63, 4096]},
    "minLength": {"string": [0, 1, 9]},
    "minimum": {"integer": [0, 1, 9]},
    "maximum": {"integer": [0, 9, 100000]},
    "maxItems": {"array": [1, 100, 10000]},
    "minItems": {"array": [0, 1]},
    "maxProperties": {"object": [1, 100]},
    "minProperties": {"object": [0, 1]},
    "pattern": {"string": ["^a", ".*"]},
    "format": {"string": ["date-time", "uri"]},
    "default": {"string": ["a", "b"], "integer": [1, 2], "boolean": [True, False]},
    "nullable": {"string": [True], "object": [True]},
    "x-kubernetes-list-type": {"array": ["atomic"]},
    "x-kubernetes-map-type": {"object": ["atomic"]},
    "x-kubernetes-validations": {"string": [[{"rule": "self != ''"}], [{"rule": "self != 'a'", "message": "no a"}]]},
}


def _nodes(node: Document) -> Iterator[Document]:
    yield node
    for child in (node.get("properties") or {}).values():
        yield from _nodes(child)
    for keyword in ("items", "additionalProperties"):
        if isinstance(node.get(keyword), dict):
            yield from _nodes(node[keyword])


@cache
def pairs() -> Mapping[str, tuple[Document, Document]]:
    """Return the pairs by name, as JSON has them."""
    made = (*_releases(), *_added_versions(), *_tables(), *_crds(), *_generated())
    return {
        f"{number} {name}": (json.loads(json.dumps(old)), json.loads(json.dumps(new)))
        for number, (name, old, new) in enumerate(made)
    }
