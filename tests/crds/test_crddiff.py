"""The verdict on a whole CRD: versions, names, subresources, columns, and what versions do not both keep."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest

from restow.crds import Crd, loads
from restow.crds.crddiff import CHECKS, crd_findings

Document = dict[str, Any]

FIELDS = {"spec": {"type": "object", "properties": {"size": {"type": "integer"}}}}


def version(name: str, *, storage: bool = False, **fields: Any) -> Document:
    schema = {"type": "object", "properties": FIELDS if "schema" not in fields else fields.pop("schema")}
    return {"name": name, "served": True, "storage": storage, "schema": {"openAPIV3Schema": schema}, **fields}


def document() -> Document:
    """Return a CRD with v1beta1, and with v1 as the storage version."""
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.com"},
        "spec": {
            "group": "example.com",
            "scope": "Namespaced",
            "names": {"kind": "Widget", "plural": "widgets", "shortNames": ["wd"], "categories": ["all"]},
            "versions": [version("v1beta1"), version("v1", storage=True)],
        },
        "status": {"storedVersions": ["v1beta1", "v1"]},
    }


def told(change: Callable[[Document], object], given: Document | None = None) -> list[tuple[str, str, str]]:
    """Return check, verdict and version of what a change of the document is."""
    old = given or document()
    new = copy.deepcopy(old)
    change(new)
    found = crd_findings(Crd.from_document(old), Crd.from_document(new))
    assert {each.check for each in found} <= CHECKS.keys()
    return [(each.check, each.severity.value, each.version) for each in found]


def spec(**fields: Any) -> Callable[[Document], object]:
    return lambda doc: doc["spec"].update(fields)


def names(**fields: Any) -> Callable[[Document], object]:
    return lambda doc: doc["spec"]["names"].update(fields)


def first(**fields: Any) -> Callable[[Document], object]:
    return lambda doc: doc["spec"]["versions"][0].update(fields)


COLUMN = {"name": "Size", "type": "integer", "jsonPath": ".spec.size"}


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        pytest.param(lambda _: None, [], id="nothing"),
        pytest.param(spec(scope="Cluster"), [("scope", "breaking", "")], id="scope"),
        pytest.param(
            names(kind="Gadget"),
            [("kind", "breaking", ""), ("names", "notice", ""), ("names", "notice", "")],
            id="kind",
        ),
        pytest.param(names(shortNames=["wi"]), [("names", "notice", "")], id="short name"),
        pytest.param(names(categories=["all", "more"]), [], id="category added"),
        pytest.param(first(served=False), [("version-removed", "breaking", "v1beta1")], id="unserved"),
        pytest.param(first(deprecated=True), [("deprecated", "notice", "v1beta1")], id="deprecated"),
        pytest.param(
            lambda doc: doc["spec"]["versions"].pop(0),
            [("stored-version-removed", "breaking", "v1beta1"), ("version-removed", "breaking", "v1beta1")],
            id="a stored version removed",
        ),
        pytest.param(
            lambda doc: doc["spec"]["versions"].append(version("v2")), [("version-added", "ok", "v2")], id="added"
        ),
        pytest.param(
            spec(versions=[version("v1beta1", storage=True), version("v1")]),
            [("storage", "notice", "")],
            id="storage moves",
        ),
        pytest.param(
            first(subresources={"status": {}, "scale": {}}),
            [("subresource", "breaking", "v1beta1"), ("subresource-added", "ok", "v1beta1")],
            id="subresources added",
        ),
        pytest.param(
            first(additionalPrinterColumns=[COLUMN]), [("columns-added", "ok", "v1beta1")], id="a column added"
        ),
        pytest.param(first(selectableFields=[{"jsonPath": ".spec.size"}]), [], id="a selectable field added"),
        pytest.param(
            first(schema={"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object"}}}}),
            [("field-removed", "breaking", "v1beta1"), ("conversion-dropped", "notice", "v1")],
            id="a field removed from one version, which the other keeps",
        ),
        pytest.param(
            spec(conversion={"strategy": "Webhook", "webhook": {"conversionReviewVersions": ["v1"]}}),
            [("conversion", "notice", ""), ("conversion-unjudged", "notice", "v1beta1")],
            id="a webhook",
        ),
    ],
)
def test_what_is_told(change: Callable[[Document], object], expected: list[tuple[str, str, str]]) -> None:
    """A change of the CRD would break clients, and no one was told before."""
    assert told(change) == expected


def test_an_unserved_version_has_no_clients() -> None:
    """A project could never clean up a version that nobody can reach."""
    given = document()
    first(served=False)(given)
    change = first(schema={"openAPIV3Schema": {"type": "object"}})
    assert told(change, given) == [("field-removed", "notice", "v1beta1")]


def test_a_difference_of_versions_that_was_there_is_no_finding() -> None:
    """A CRD whose versions have always differed would be breaking at each change."""
    given = document()
    first(schema={"openAPIV3Schema": {"type": "object"}})(given)
    assert told(names(categories=["all", "more"]), given) == []


XRD = """\
apiVersion: apiextensions.crossplane.io/VERSION
kind: CompositeResourceDefinition
metadata: {name: xbuckets.example.com}
spec:
  group: example.com
  names: {kind: XBucket, plural: xbuckets}
  versions:
  - name: v1
    served: true
    referenceable: true
    schema: {openAPIV3Schema: {type: object, properties: {spec: {type: object, properties: {region: {type: TYPE}}}}}}
"""


def test_the_definition_of_a_composite_is_judged() -> None:
    """Platforms on Crossplane would get no verdict, or none about their own fields."""
    old, new = (
        loads(XRD.replace("VERSION", "v1").replace("TYPE", each), composites=True)[0] for each in ("string", "integer")
    )
    assert [(each.check, each.path) for each in crd_findings(old, new)] == [("type", ".spec.region")]
    moved = loads(XRD.replace("VERSION", "v2").replace("TYPE", "string"), composites=True)[0]
    assert [each.check for each in crd_findings(old, moved)] == ["scope"]
