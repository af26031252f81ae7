"""The packaged CRDs of the CloudProfile family, without a server."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from hack.crds import manifests, written
from restow.crds import Crd, Schema, added_defaults, topology_differences
from restow.crds.cloudprofiles import documents
from restow.crds.paths import ROOT, field_path, items_path, values_path

Node = dict[str, Any]

ROOT_FOLDER = Path(__file__).resolve().parents[2]
FOLDER = ROOT_FOLDER / "crds" / "manifests"
CRDS = {name: Crd.from_document(document) for name, document in documents().items()}
CLOUD_PROFILES, NAMESPACED, SHOOTS = (
    f"{plural}.core.gardener.cloud" for plural in ("cloudprofiles", "namespacedcloudprofiles", "shoots")
)
BOTH = ("v1beta1", "v1beta2")

#: The most bytes that all annotations together may have, one of which is kubectl's last applied configuration.
LARGEST_ANNOTATIONS = 256 * 1024


def root(name: str, version: str) -> Schema:
    """Return the schema of a version."""
    found = CRDS[name].version(version)
    assert found is not None
    return found.schema


def nodes(node: Node, path: str = ROOT) -> Iterator[tuple[str, Node]]:
    """Yield every node of a schema with its path."""
    yield path, node
    for name, each in (node.get("properties") or {}).items():
        yield from nodes(each, field_path(path, name))
    if "items" in node:
        yield from nodes(node["items"], items_path(path))
    if "additionalProperties" in node:
        yield from nodes(node["additionalProperties"], values_path(path))


def every_node() -> list[tuple[str, str, str, Node]]:
    """Return every node of every version: the CRD, the version, the path, the node."""
    return [
        (name, version, path, node)
        for name in CRDS
        for version in BOTH
        for path, node in nodes(dict(root(name, version).node))
    ]


def own(node: Node) -> Node:
    """Return a node without its children."""
    return {key: value for key, value in node.items() if key not in ("properties", "items", "additionalProperties")}


def test_the_manifests_are_those_of_the_api() -> None:
    """The next run of ``python -m hack.crds`` would undo an edit of a manifest, or publish a forgotten one."""
    assert {file.name: file.read_text() for file in FOLDER.glob("core.gardener.cloud_*.yaml")} == {
        name: written(document) for name, document in manifests().items()
    }


def test_documents_are_new_and_complete() -> None:
    """A caller that adds its CA bundle would change the documents of the next caller."""
    first = documents()
    first[SHOOTS]["spec"]["conversion"]["webhook"]["clientConfig"]["caBundle"] = "Zm9v"
    assert documents() != first
    assert list(documents().values()) == list(manifests().values())


@pytest.mark.parametrize("file", sorted(FOLDER.iterdir()), ids=lambda file: file.stem)
def test_a_manifest_is_plain_yaml_that_kubectl_can_apply(file: Path) -> None:
    """A manifest with anchors would be hard to read and to patch, and kubectl could not apply one that is too large."""
    text = file.read_text()
    assert not [
        token for token in yaml.scan(text, yaml.CSafeLoader) if isinstance(token, yaml.AnchorToken | yaml.AliasToken)
    ]
    assert max(map(len, text.splitlines())) < 200
    assert len(json.dumps(yaml.load(text, yaml.CSafeLoader))) < LARGEST_ANNOTATIONS / 2


@pytest.mark.parametrize("name", CRDS)
def test_versions_and_conversion(name: str) -> None:
    """Applying the CRDs would store the wrong version, or drop stages silently by strategy None."""
    crd = CRDS[name]
    assert crd.fingerprint == (("v1beta1", True, False), ("v1beta2", True, True))
    assert crd.strategy == "Webhook" and crd.webhook is not None
    service = {"name": "restow-webhook", "namespace": "restow-system", "port": 443, "path": f"/convert/{name}"}
    assert crd.webhook["clientConfig"] == {"service": service}
    for version in crd.versions:
        assert version.has_status_subresource
        assert version.deprecated == (version.name == "v1beta1")
    old = crd.version("v1beta1")
    assert old is not None and old.deprecation_warning is not None
    assert "v1beta2" in old.deprecation_warning and len(old.deprecation_warning) <= 256


def test_names_and_scopes() -> None:
    """The short names that people and scripts know from Gardener would not work."""
    named = {
        (crd.kind, crd.namespaced): set(crd.document["spec"]["names"].get("shortNames", ())) for crd in CRDS.values()
    }
    assert named == {
        ("CloudProfile", False): {"cprofile", "cpfl"},
        ("NamespacedCloudProfile", True): {"nscpfl", "nsprofile"},
        ("Shoot", True): set(),
    }


@pytest.mark.parametrize("name", CRDS)
def test_what_both_versions_have_is_the_same_in_both(name: str) -> None:
    """With an unintended difference one version would refuse a field that a conversion produces."""
    old, new = (dict(nodes(dict(root(name, version).node))) for version in BOTH)
    differing = {path for path in old.keys() & new.keys() if own(old[path]) != own(new[path])}
    if name == SHOOTS:  # the fields that name the profile, one of which is required
        assert differing == {".spec", ".spec.cloudProfileName"}
        assert old.keys() == new.keys()
    else:
        meant = re.compile(r"\.versions\[\]\.(classification|expirationDate|lifecycle|lifecycle\[\])$")
        assert differing and all(meant.search(path) for path in differing), differing
        assert all(".lifecycle[]." in path for path in old.keys() ^ new.keys())


@pytest.mark.parametrize("name", CRDS)
def test_ownership_and_defaults_are_the_same_in_both_versions(name: str) -> None:
    """A migration would have to expand owners, or would persist a default under its own name."""
    old, new = (root(name, version) for version in BOTH)
    assert all(path.endswith(".lifecycle") for path in topology_differences(old, new))
    assert not added_defaults(old, new) and not added_defaults(new, old)


def test_defaults_stand_only_where_they_cannot_hurt() -> None:
    """A default would turn a moved date of an override into a replacement, or change a rendered profile."""
    found: dict[tuple[str, str], set[str]] = {(name, version): set() for name in CRDS for version in BOTH}
    for name, version, path, node in every_node():
        if "default" in node:
            found[name, version].add(path)
    for version in BOTH:
        assert found[CLOUD_PROFILES, version] == {
            ".spec.machineImages[].updateStrategy",
            ".spec.machineImages[].versions[].cri",
            ".spec.machineTypes[].usable",
            ".spec.volumeTypes[].usable",
        }
        assert found[NAMESPACED, version] == {".spec.machineTypes[].usable", ".spec.volumeTypes[].usable"}
        assert found[SHOOTS, version] == {
            ".spec.cloudProfile.kind",
            ".spec.maintenance.autoUpdate.kubernetesVersion",
            ".spec.provider.workers[].updateStrategy",
        }


def test_a_status_is_described_and_not_judged() -> None:
    """The server would refuse a status that its controller writes, and users who read it could not fix it."""
    judging = {"x-kubernetes-validations", "pattern", "maxItems", "minItems", "maxLength", "minLength", "minimum"}
    for name, version, path, node in every_node():
        if path.startswith(".status.") and name != SHOOTS:
            assert not judging & node.keys(), (name, version, path)


def test_no_list_must_have_items() -> None:
    """v1beta1 would refuse a list that becomes empty because v1beta1 hides unavailable versions."""
    needy = {path for _, _, path, node in every_node() if node.get("minItems")}
    assert needy == {".spec.machineCapabilities[].values"}


def test_every_field_is_described() -> None:
    """``kubectl explain`` and editors would show a field without a description."""
    for name, version, path, node in every_node():
        is_field = path not in (ROOT, ".metadata") and not path.endswith(("[]", "{}"))
        if is_field:
            assert node["description"].endswith("."), (name, version, path)


def test_every_list_says_how_it_is_owned() -> None:
    """A list without a type is owned as a whole, so two managers would overwrite each other's items."""
    for name, version, path, node in every_node():
        if node.get("type") != "array" or (path.endswith(".lifecycle") and version == "v1beta1"):
            continue
        kind = node["x-kubernetes-list-type"]
        assert kind in ("map", "set", "atomic"), (name, version, path)
        keys = node.get("x-kubernetes-list-map-keys", [])
        assert bool(keys) == (kind == "map")
        assert set(keys) <= set(node["items"].get("required", ())), (name, version, path)


def test_every_rule_tells_what_to_do() -> None:
    """A rule without a message would answer users with its expression."""
    rules = [(path, rule) for _, _, path, node in every_node() for rule in node.get("x-kubernetes-validations", ())]
    assert len(rules) > 40
    for path, rule in rules:
        message = rule["message"]
        assert rule["reason"].startswith("FieldValue"), path
        assert len(message) > 20 and "\n" not in message and not message.endswith("."), path


def test_the_document_names_only_fields_that_there_are() -> None:
    """The reference would send its readers to fields that do not exist."""
    text = (ROOT_FOLDER / "docs" / "cloudprofile.md").read_text()
    declared = {path for _, _, path, _ in every_node()}
    named = set(re.findall(r"`((?:spec|status)(?:\.[A-Za-z]+(?:\[\]|\{\})?)+)`", text))
    assert len(named) > 30
    assert not {path for path in named if f".{path}" not in declared}
