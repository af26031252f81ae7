"""Files: manifests by structure, templates and texts by line, marked as guesses."""

from __future__ import annotations

import pytest

from restow.migrator.references.readers.files import file_references
from tests.migrator.references.found import OTHER, OWNERS, WIDGET

CHART = """\
{{- if .Values.on }}
apiVersion: v1
kind: ConfigMap
---
apiVersion: example.com/v1
kind: Widget
metadata:
  name: {{ .Release.Name }}
{{- end }}
"""
KUSTOMIZATION = """\
kind: Kustomization
patches:
- target: {group: example.com, version: v1, kind: Widget}
  patch: |-
    apiVersion: example.com/v1
    kind: Widget
    metadata: {name: w}
"""
CLUSTER = """\
apiVersion: cluster.x-k8s.io/v1beta1
kind: Cluster
metadata:
  name: c
  ownerReferences:
  - {apiVersion: example.com/v1, kind: Widget, name: w, uid: u}
spec:
  infrastructureRef: {apiVersion: example.com/v1, kind: Widget, name: w}
"""

CONFIGURATION = """\
apiVersion: v1
kind: ConfigMap
metadata: {name: kube-state-metrics-customresourcestate-config}
data:
  config.yaml: |
    kind: CustomResourceStateMetrics
    spec:
      resources:
      - groupVersionKind: {group: example.com, version: v1, kind: Widget}
        metrics: []
"""
METACONTROLLER = """\
apiVersion: metacontroller.k8s.io/v1alpha1
kind: CompositeController
metadata: {name: c}
spec:
  parentResource: {apiVersion: example.com/v1, resource: widgets}
"""


@pytest.mark.parametrize(
    ("text", "places"),
    [
        (f"{OTHER}---\n{WIDGET}", [("line 6", False)]),
        (WIDGET.replace("example.com/v1", "example.com/v1beta1"), []),
        ('{"apiVersion": "v1", "kind": "List", "items": [{"apiVersion": "example.com/v1", "kind": "Widget"}]}', 1),
        (CLUSTER, [("line 1, /metadata/ownerReferences/0", False), ("line 1, /spec/infrastructureRef", False)]),
        (CHART, [("line 5", True)]),
        (KUSTOMIZATION, [("line 1, /patches/0/target", False), ("line 1, /patches/0/patch, line 1", True)]),
        (CONFIGURATION, [("line 1, /data/config.yaml, /spec/resources/0/groupVersionKind", True)]),
        (METACONTROLLER, [("line 1, /spec/parentResource", False)]),
        ("kind: Widget\n# example.com/v1 is gone\n", []),
        ("{{ template }}\nkind: Widget\n---\napiVersion: example.com/v1\n", []),
    ],
    ids=[
        "manifest",
        "another version",
        "list",
        "references",
        "chart",
        "kustomization",
        "configuration",
        "metacontroller",
        "comment",
        "two documents",
    ],
)
def test_each_place_is_found(text: str, places: list[tuple[str, bool]] | int) -> None:
    """A place that is missed fails the next deployment; one that is only guessed must say so."""
    found = [(each.where, each.guess) for each in file_references("a.yaml", text, OWNERS)]
    assert len(found) == places if isinstance(places, int) else found == places


def test_what_is_said_helps() -> None:
    """Each place is named with what it is."""
    found = {each.where: each.detail for each in file_references("a.yaml", CLUSTER, OWNERS)}
    assert found["line 1, /metadata/ownerReferences/0"] == "an ownerReference"
    (manifest,) = file_references("a.yaml", WIDGET, OWNERS)
    assert (manifest.detail, manifest.namespace, manifest.name) == ("Widget apps/w", "apps", "w")
