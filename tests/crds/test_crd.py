"""A CRD document as a view."""

from __future__ import annotations

from typing import Any

import pytest

from restow.crds import ANY, Condition, Crd, CrdError
from restow.kube.resources import Resource

WEBHOOK = {"conversionReviewVersions": ["v1"], "clientConfig": {"service": {"namespace": "n", "name": "s"}}}


def document(**spec: Any) -> dict[str, Any]:
    """Return a small, complete CRD; keyword arguments replace or (None) remove fields of its spec."""
    whole: dict[str, Any] = {
        "group": "example.io",
        "scope": "Namespaced",
        "names": {"kind": "Widget", "listKind": "WidgetList", "plural": "widgets", "singular": "widget"},
        "versions": [version("v1beta1"), version("v1", storage=True)],
        **spec,
    }
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": "widgets.example.io"},
        "spec": {key: value for key, value in whole.items() if value is not None},
    }


def version(name: str, **fields: Any) -> dict[str, Any]:
    """Return an entry of spec.versions."""
    schema = {"openAPIV3Schema": {"type": "object", "properties": {"spec": {"type": "object"}}}}
    return {"name": name, "served": True, "storage": False, "schema": schema, **fields}


def test_a_whole_crd() -> None:
    """A migration would act on wrong data if an attribute differed from the document."""
    doc = document(
        versions=[
            version("v1beta1", deprecated=True, deprecationWarning="use v1", subresources={"status": {}}),
            version("v1alpha1", served=False),
            version("v1", storage=True, subresources={"scale": {"specReplicasPath": ".spec.replicas"}}),
        ],
        conversion={"strategy": "Webhook", "webhook": WEBHOOK},
    )
    doc["metadata"] |= {
        "uid": "u-1",
        "generation": 7,
        "resourceVersion": "42",
        "annotations": {"a": "b"},
        "managedFields": [{"manager": "kubectl"}],
    }
    doc["status"] = {
        "storedVersions": ["v1beta1", "v1"],
        "conditions": [
            {"type": "Established", "status": "True", "reason": "InitialNamesAccepted", "message": "ok"},
            {"type": "NamesAccepted", "status": "False", "reason": "Taken", "message": ""},
            {"type": "StorageMigrating", "status": "Unknown"},
        ],
    }
    crd = Crd.from_document(doc)
    assert (crd.name, crd.uid, crd.generation, crd.resource_version) == ("widgets.example.io", "u-1", 7, "42")
    assert (crd.annotations, crd.managed_fields) == ({"a": "b"}, [{"manager": "kubectl"}])
    assert (crd.group, crd.kind, crd.list_kind) == ("example.io", "Widget", "WidgetList")
    assert (crd.plural, crd.singular, crd.namespaced) == ("widgets", "widget", True)
    assert crd.resource_at("v1beta1") == Resource("example.io", "v1beta1", "widgets", namespaced=True)
    assert [v.name for v in crd.versions] == ["v1beta1", "v1alpha1", "v1"]
    assert crd.served == ("v1", "v1beta1")
    assert crd.stored_versions == ("v1beta1", "v1")
    assert (crd.strategy, crd.webhook) == ("Webhook", WEBHOOK)
    assert crd.conditions["Established"] == Condition(True, "InitialNamesAccepted", "ok")
    assert crd.conditions["StorageMigrating"].status is None
    assert (crd.established, crd.names_accepted, crd.storage_migrating, crd.terminating) == (True, False, False, False)
    assert crd.document is doc


def test_versions() -> None:
    """With a wrong flag, a migration would list at an unserved version or send requests that do not exist."""
    crd = Crd.from_document(
        document(
            versions=[
                version("v1", storage=True, subresources={"scale": {}}),
                version("v1beta1", deprecated=True, deprecationWarning="use v1", subresources={"status": {}}),
                version("v1alpha1", served=False, schema=None),
            ]
        )
    )
    beta, stable, alpha = crd.version("v1beta1"), crd.version("v1"), crd.version("v1alpha1")
    assert beta is not None
    assert stable is not None
    assert alpha is not None
    assert crd.version("v2") is None
    assert crd.storage is stable
    assert beta.api_version == "example.io/v1beta1"
    assert (beta.served, beta.storage, beta.deprecated, beta.deprecation_warning) == (True, False, True, "use v1")
    assert (beta.has_status_subresource, beta.has_scale) == (True, False)
    assert (stable.has_status_subresource, stable.has_scale) == (False, True)
    assert (stable.deprecated, stable.deprecation_warning) == (False, None)
    assert (alpha.served, alpha.schema) == (False, ANY)
    assert stable.schema.is_root
    assert set(stable.schema.properties) == {"apiVersion", "kind", "metadata", "spec"}


def test_what_a_file_leaves_out() -> None:
    """A CRD from a release's manifest, without status, uid, generation or derived names, could not be read."""
    crd = Crd.from_document(document(names={"kind": "Widget", "plural": "widgets"}, scope="Cluster"))
    assert (crd.uid, crd.generation, crd.resource_version, crd.stored_versions) == ("", 0, "", ())
    assert (crd.list_kind, crd.singular, crd.namespaced) == ("WidgetList", "widget", False)
    assert (crd.strategy, crd.webhook, crd.established, crd.terminating) == ("None", None, False, False)
    assert (len(crd.annotations), len(crd.managed_fields), len(crd.conditions)) == (0, 0, 0)


def test_legacy_crds_keep_everything() -> None:
    """A plan would report losses for a legacy CRD with spec.preserveUnknownFields, whose objects are never pruned."""
    kept = Crd.from_document(document(preserveUnknownFields=True)).storage.schema
    spec = kept.field("spec")
    assert (kept.field("unknown"), spec and spec.field("unknown")) == (ANY, ANY)
    pruned = Crd.from_document(document(preserveUnknownFields=False)).storage.schema
    assert pruned.field("unknown") is None


@pytest.mark.parametrize(
    ("condition", "untyped"),
    [
        ({"reason": "Violations", "message": "spec.preserveUnknownFields: Invalid value: true: must be false"}, []),
        (
            {
                "reason": "Violations",
                "message": "[spec.preserveUnknownFields: Invalid value: true: must be false, "
                "spec.versions[1].schema.openAPIV3Schema.type: Required value: must not be empty at the root]",
            },
            ["v1"],
        ),
        ({"reason": "StructuralError", "message": "failed to check validation schema"}, ["v1beta1", "v1"]),
    ],
)
@pytest.mark.parametrize("legacy", [True, False])
def test_a_schema_that_is_not_structural_has_no_types(
    condition: dict[str, str], untyped: list[str], legacy: bool
) -> None:
    """A migration would make owners of items where the server knows no type and owns the list as a whole."""
    doc = document(preserveUnknownFields=legacy)
    doc["status"] = {"conditions": [{"type": "NonStructuralSchema", "status": "True", **condition}]}
    found = [each.name for each in Crd.from_document(doc).versions if each.schema is ANY]
    assert found == (untyped if legacy else [])


def test_a_webhook_that_nobody_calls() -> None:
    """With strategy None a migration would call a leftover webhook, which the server does not call."""
    crd = Crd.from_document(document(conversion={"strategy": "None", "webhook": WEBHOOK}))
    assert (crd.strategy, crd.webhook) == ("None", None)


@pytest.mark.parametrize(
    ("metadata", "conditions"),
    [
        ({"deletionTimestamp": "2026-01-01T00:00:00Z"}, []),
        ({}, [{"type": "Terminating", "status": "True"}]),
    ],
)
def test_terminating(metadata: dict[str, Any], conditions: list[dict[str, Any]]) -> None:
    """A migration of a CRD that is being deleted would race its finalizer."""
    doc = document()
    doc["metadata"] |= metadata
    doc["status"] = {"conditions": conditions}
    assert Crd.from_document(doc).terminating


def test_fingerprint_ignores_what_stores_nothing() -> None:
    """A rotated CA bundle or an edited schema would cost another pass over all objects."""
    before = document(conversion={"strategy": "Webhook", "webhook": WEBHOOK})
    after = document(
        conversion={"strategy": "Webhook", "webhook": {**WEBHOOK, "clientConfig": {"caBundle": "bmV3"}}},
        versions=[version("v1", storage=True, schema={"openAPIV3Schema": {"type": "object"}}), version("v1beta1")],
    )
    after["metadata"]["generation"] = 9
    after["status"] = {"storedVersions": ["v1"], "conditions": [{"type": "Established", "status": "True"}]}
    assert Crd.from_document(before).fingerprint == Crd.from_document(after).fingerprint
    assert hash(Crd.from_document(before).fingerprint) == hash(Crd.from_document(after).fingerprint)


@pytest.mark.parametrize(
    "versions",
    [
        [version("v1beta1", storage=True), version("v1")],
        [version("v1beta1", served=False), version("v1", storage=True)],
        [version("v1", storage=True)],
        [version("v1beta1"), version("v1", storage=True), version("v2")],
    ],
    ids=["flipped", "unserved", "removed", "added"],
)
def test_fingerprint_tells_versions_apart(versions: list[dict[str, Any]]) -> None:
    """If the fingerprint stayed equal, a prune after such a change would remove a version that objects still use."""
    assert Crd.from_document(document()).fingerprint != Crd.from_document(document(versions=versions)).fingerprint


@pytest.mark.parametrize(
    ("doc", "sentence"),
    [
        ([], "must be an object, not a list"),
        ({}, "not a CustomResourceDefinition of apiextensions.k8s.io/v1 but a None None"),
        ({"apiVersion": "v1", "kind": "ConfigMap"}, "but a v1 ConfigMap"),
        ({**document(), "apiVersion": "apiextensions.k8s.io/v1beta1"}, "but a apiextensions.k8s.io/v1beta1"),
        ({**document(), "metadata": {}}, "has no metadata.name"),
        ({**document(), "metadata": None}, "has no metadata.name"),
        ({**document(), "metadata": {"name": "gadgets.example.io"}}, "must be named widgets.example.io"),
        ({**document(), "spec": None}, "widgets.example.io has no spec"),
        ({**document(), "status": "ready"}, "has a status that is not an object"),
        (document(group=None), "has no spec.group"),
        (document(names=None), "has no spec.names"),
        (document(names={"kind": "Widget"}), "has no spec.names.plural"),
        (document(names={"plural": "widgets"}), "has no spec.names.kind"),
        (document(scope="Galaxy"), "the scope 'Galaxy', which is neither Namespaced nor Cluster"),
        (document(scope=None), "the scope None"),
        (document(versions=[]), "has no spec.versions"),
        (document(versions="v1"), "has no spec.versions"),
        (document(versions=None), "has no spec.versions"),
        (document(versions=["v1"]), "an entry in spec.versions that is not an object"),
        (document(versions=[{"served": True}]), "has no spec.versions[].name"),
        (document(versions=[version("v1")]), "exactly one version with storage: true, but has none"),
        (
            document(versions=[version("v1", storage=True), version("v2", storage=True)]),
            "exactly one version with storage: true, but has v1, v2",
        ),
        (document(versions=[version("v1", storage=True), version("v1")]), "lists the version v1 more than once"),
        (document(versions=[version("v1", storage=True, schema="x")]), "has a schema that is not an object"),
        (document(conversion={"strategy": "Magic"}), "the conversion strategy 'Magic'"),
        (document(conversion={"strategy": "Webhook"}), "Webhook but no spec.conversion.webhook"),
    ],
)
def test_refused_documents(doc: Any, sentence: str) -> None:
    """A malformed CRD that is accepted could make a migration write to the wrong version."""
    with pytest.raises(CrdError) as refused:
        Crd.from_document(doc)
    assert sentence in str(refused.value)
