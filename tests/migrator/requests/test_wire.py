"""The bytes that are sent, and what is read out of the bytes that come back."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest

from restow.migrator.ownership.entries import ManagedFieldsEntry
from restow.migrator.requests.wire import (
    Meta,
    combined_patch,
    empty_patch,
    identity_apply,
    object_decoder,
    page_decoder,
    whole_object_decoder,
    whole_page_decoder,
)
from tests.migrator.builders import entry

MANAGED = {
    "manager": "alice",
    "operation": "Apply",
    "apiVersion": "example.com/v1",
    "time": "2024-05-01T10:00:00Z",
    "fieldsType": "FieldsV1",
    "fieldsV1": {"f:spec": {"f:size": {}}},
    "subresource": "status",
}
OBJECT = {
    "apiVersion": "meta.k8s.io/v1",
    "kind": "PartialObjectMetadata",
    "metadata": {
        "name": "b",
        "namespace": "a",
        "uid": "u1",
        "resourceVersion": "42",
        "generation": 3,
        "creationTimestamp": "2024-05-01T10:00:00Z",
        "labels": {"x": "y"},
        "managedFields": [MANAGED],
    },
}


def encoded(document: Any) -> bytes:
    """JSON by another encoder than the one under test."""
    return json.dumps(document).encode()


def test_the_combined_patch_holds_the_precondition_and_the_whole_list() -> None:
    """Without the resourceVersion it would overwrite other writers' entries; a field more would change the object."""
    assert json.loads(combined_patch("42", (entry(), entry("bob", time="")))) == {
        "metadata": {
            "resourceVersion": "42",
            "managedFields": [
                {
                    "manager": "alice",
                    "operation": "Apply",
                    "apiVersion": "example.com/v1",
                    "time": "2024-05-01T10:00:00Z",
                    "fieldsType": "FieldsV1",
                    "fieldsV1": {"f:spec": {"f:size": {}}},
                },
                {
                    "manager": "bob",
                    "operation": "Apply",
                    "apiVersion": "example.com/v1",
                    "fieldsType": "FieldsV1",
                    "fieldsV1": {"f:spec": {"f:size": {}}},
                },
            ],
        }
    }


@pytest.mark.parametrize("entries", [(), []])
def test_no_entries_are_a_reset(entries: Any) -> None:
    """An empty list means "no change" to the server: the tracking that an apply began would stay."""
    assert json.loads(combined_patch("42", entries)) == {"metadata": {"resourceVersion": "42", "managedFields": [{}]}}


def test_the_empty_patch_holds_nothing_but_the_precondition() -> None:
    """Any field more would be a change of the object, under restow's name."""
    assert json.loads(empty_patch("42")) == {"metadata": {"resourceVersion": "42"}}


def test_the_identity_apply_owns_nothing() -> None:
    """uid and resourceVersion keep it from creating a deleted object again; restow would own any further field."""
    meta = Meta(name="b", uid="u1", resource_version="42", namespace="a", generation=3, managed_fields=(entry(),))
    assert json.loads(identity_apply("example.com/v2", "Widget", meta)) == {
        "apiVersion": "example.com/v2",
        "kind": "Widget",
        "metadata": {"name": "b", "uid": "u1", "resourceVersion": "42"},
    }


@pytest.mark.parametrize("body", [combined_patch("42", ()), empty_patch("42"), combined_patch("42", (entry(time=""),))])
def test_no_patch_holds_a_null(body: bytes) -> None:
    """In a merge patch a null deletes."""
    assert b"null" not in body


def test_a_read_entry_is_sent_back_as_it_was() -> None:
    """Field sets are passed on undecoded: their bytes, order and spelling are the server's own."""
    spelt = b'{"f:spec":{ "f:z":{},"f:a":{"k:{\\"b\\":1,\\"a\\":2}":{".":{}}}}}'
    document = encoded(OBJECT).replace(encoded(MANAGED["fieldsV1"]), spelt)
    (read,) = object_decoder.decode(document).metadata.managed_fields
    assert spelt in combined_patch("42", (read,))


def test_an_object_is_read() -> None:
    """A field that is read from the wrong place would patch another object, or none."""
    meta = object_decoder.decode(encoded(OBJECT)).metadata
    assert (meta.name, meta.namespace, meta.uid, meta.resource_version, meta.generation) == ("b", "a", "u1", "42", 3)
    (read,) = meta.managed_fields
    assert json.loads(msgspec.json.encode(read)) == MANAGED


def test_a_cluster_scoped_object_without_managed_fields_is_read() -> None:
    """Objects that were never applied have neither, and must be migrated all the same."""
    meta = object_decoder.decode(b'{"metadata":{"name":"b","uid":"u1","resourceVersion":"1"}}').metadata
    assert (meta.namespace, meta.managed_fields) == ("", ())


@pytest.mark.parametrize("missing", ["name", "uid", "resourceVersion"])
def test_an_object_without_identity_is_refused(missing: str) -> None:
    """Without one of these a write could hit another object; a truncated answer must not pass for a short one."""
    metadata = {key: value for key, value in OBJECT["metadata"].items() if key != missing}
    with pytest.raises(msgspec.ValidationError):
        object_decoder.decode(encoded(OBJECT | {"metadata": metadata}))


def test_a_page_is_read() -> None:
    """Where the list goes on, and how much there is still, are in its metadata."""
    document = {
        "kind": "PartialObjectMetadataList",
        "apiVersion": "meta.k8s.io/v1",
        "metadata": {"resourceVersion": "99", "continue": "go-on", "remainingItemCount": 7},
        "items": [OBJECT],
    }
    page = page_decoder.decode(encoded(document))
    assert (page.metadata.continue_, page.metadata.remaining, page.metadata.resource_version) == ("go-on", 7, "99")
    assert [item.metadata.name for item in page.items or ()] == ["b"]
    whole = whole_page_decoder.decode(encoded(document))
    assert (whole.metadata.continue_, whole.metadata.remaining) == ("go-on", 7)
    assert [whole_object_decoder.decode(item) for item in whole.items or ()] == [OBJECT]


@pytest.mark.parametrize("decoder", [page_decoder, whole_page_decoder], ids=["metadata", "whole"])
@pytest.mark.parametrize(
    "body",
    [
        b'{"kind":"PartialObjectMetadataList","metadata":{"resourceVersion":"205"},"items":null}',
        b'{"kind":"WidgetList","metadata":{"continue":"","resourceVersion":"205"},"items":[]}',
    ],
    ids=["items: null", "items: []"],
)
def test_a_page_without_objects_is_read(decoder: Any, body: bytes) -> None:
    """kube-apiserver 1.36 answers a metadata list of no objects with null: a CRD without objects must not fail."""
    page = decoder.decode(body)
    assert (list(page.items or ()), page.metadata.continue_, page.metadata.remaining) == ([], "", None)


def test_a_page_that_is_cut_off_is_refused() -> None:
    """A truncated page must be read again; taken for complete, its other objects would be lost at the prune."""
    body = encoded({"metadata": {"resourceVersion": "99"}, "items": [OBJECT, OBJECT]})
    for length in range(len(body)):
        with pytest.raises(msgspec.DecodeError):
            page_decoder.decode(body[:length])


def test_an_entry_of_another_kind_is_read_as_far_as_it_goes() -> None:
    """An entry with keys that nobody knows yet must not end the run."""
    odd = OBJECT | {"metadata": OBJECT["metadata"] | {"managedFields": [{"manager": "x", "new": 1}, {}]}}
    assert object_decoder.decode(encoded(odd)).metadata.managed_fields == (
        ManagedFieldsEntry(manager="x"),
        ManagedFieldsEntry(),
    )
