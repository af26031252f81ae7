"""Manifests that nobody wrote for this: converted there and back they are the same bytes."""

from __future__ import annotations

import difflib
import re

import pytest

from restow.conversion import Graph, Registry, rules
from restow.conversion.manifests import Status, Targets, convert_manifest, read, write_yaml
from restow.conversion.model.values import same
from tests.upstream.files import CLUSTER_API, GARDENER, cluster_api, gardener


def published(name: str) -> str:
    """Return the text of a published manifest."""
    return ((cluster_api() if name in CLUSTER_API else gardener()) / name).read_text()


TOUCHED = re.compile(
    r" *(- )?(apiVersion: (apiextensions.k8s.io|core.gardener.cloud)/|isServed|served|scope|reach|identity|names):?"
)


def crds() -> Graph:
    """Another version of CustomResourceDefinitions, with fields renamed in lists, moved, and made elsewhere."""
    registry = Registry()
    kind = registry.kind("apiextensions.k8s.io", "CustomResourceDefinition", hub="v2")
    kind.spoke("v1")(
        lambda: [
            rules.rename("spec.scope", "spec.reach"),
            rules.move("spec.names", "spec.identity.names"),
            rules.each("spec.versions", [rules.rename("served", "isServed")], key="name"),
        ]
    )
    return registry.freeze()


def profiles() -> Graph:
    """Another version of Gardener's kinds, whose spec has another name."""
    registry = Registry()
    for kind in ("CloudProfile", "NamespacedCloudProfile", "Shoot"):
        spoke = registry.kind("core.gardener.cloud", kind, hub="v2").spoke("v1beta1")
        spoke(lambda: [rules.rename("spec", "specification")])
    return registry.freeze()


@pytest.mark.parametrize(
    ("name", "graph", "versions"),
    [
        *(pytest.param(name, crds(), ("v2", "v1"), id=name) for name in CLUSTER_API),
        *(pytest.param(name, profiles(), ("v2", "v1beta1"), id=name) for name in GARDENER),
    ],
)
def test_there_and_back_is_the_same_text(name: str, graph: Graph, versions: tuple[str, str]) -> None:
    """Fifteen thousand lines of other people's YAML, comments and folded texts in them, survive."""
    text = published(name)
    there = convert_manifest(text, graph, Targets.of(graph, versions[0]))
    assert len(there.having(Status.CONVERTED)) == 1
    assert not there.notes
    back = convert_manifest(there.text, graph, Targets.of(graph, versions[1]))
    assert back.text == text


@pytest.mark.parametrize("name", CLUSTER_API)
def test_only_what_the_rules_touch_changes(name: str) -> None:
    """A diff of the conversion shows the conversion and nothing else."""
    text = published(name)
    found = convert_manifest(text, crds(), Targets.of(crds(), "v2"))
    lines = list(difflib.unified_diff(text.splitlines(), found.text.splitlines(), n=0, lineterm=""))
    changed = [line for line in lines if line[0] in "+-" and not line.startswith(("+++", "---"))]
    own = [line for line in changed if TOUCHED.match(line[1:])]
    moved = {line[1:].strip() for line in changed} - {line[1:].strip() for line in own}
    names = text.partition("  names:\n")[2].partition("\n  scope:")[0]
    assert own
    assert moved <= {line.strip() for line in names.splitlines()}


@pytest.mark.parametrize("name", [*CLUSTER_API, *GARDENER])
def test_their_data_can_be_written_again(name: str) -> None:
    """What ``-o yaml`` prints says the same."""
    for document in read(published(name)):
        assert same(read(write_yaml(document.data))[0].data, document.data)
