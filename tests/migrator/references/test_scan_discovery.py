"""Which resources of discovery are looked through: each once, and those that the garbage collector follows."""

from __future__ import annotations

import json
from typing import Any

from restow.migrator.references.scan import CORE, followed, groups_decoder, listing_decoder, resources_path

ALL = ["create", "delete", "get", "list", "patch", "watch"]


def found(*documents: tuple[str, str, list[dict[str, Any]]]) -> list[str]:
    """The paths of what is followed, resources given as in the documents."""
    decoded = [
        (group, version, listing_decoder.decode(json.dumps({"resources": resources}).encode()))
        for group, version, resources in documents
    ]
    return [each.path() for each in followed(decoded)]


def resource(name: str, verbs: list[str] = ALL, stored: str = "") -> dict[str, Any]:
    """One item of a document."""
    return {"name": name, "namespaced": True, "kind": "K", "verbs": verbs, "storageVersionHash": stored}


def test_a_resource_is_looked_through_once() -> None:
    """Objects that are counted at each of their versions are said to be more than there are."""
    documents = (("autoscaling", version, [resource("scalers", stored=version)]) for version in ("v2", "v1"))
    assert found(*documents) == ["/apis/autoscaling/v2/scalers"]


def test_a_resource_at_another_version_than_the_preferred_one_is_seen() -> None:
    """CRDs of one group need not share a version, and only one version of a group is preferred."""
    listed = found(("example.com", "v1", [resource("widgets")]), ("example.com", "v1alpha1", [resource("gadgets")]))
    assert listed == ["/apis/example.com/v1/widgets", "/apis/example.com/v1alpha1/gadgets"]


def test_objects_of_two_groups_are_looked_through_once() -> None:
    """A built-in resource that has moved is served under both groups; the hash says that it is stored once."""
    documents = [(group, "v1", [resource("ingresses", stored="same")]) for group in ("extensions", "networking.k8s.io")]
    assert found(*documents) == ["/apis/extensions/v1/ingresses"]
    unknown = [(group, "v1", [resource("ingresses")]) for group in ("a.example.com", "b.example.com")]
    assert len(found(*unknown)) == 2


def test_what_the_garbage_collector_does_not_follow_is_left_out() -> None:
    """Events are most of a cluster's objects, metrics are computed for each list; neither is ever collected."""
    assert found(
        ("", "v1", [resource("pods/status"), resource("bindings", ["create"]), resource("events"), resource("pods")]),
        ("events.k8s.io", "v1", [resource("events")]),
        ("metrics.k8s.io", "v1beta1", [resource("pods", ["get", "list"])]),
        ("example.com", "v1", [resource("events")]),
    ) == ["/api/v1/pods", "/apis/example.com/v1/events"]


def test_the_preferred_version_comes_first() -> None:
    """A list at another version than the preferred one converts each custom resource that it returns."""
    versions = [{"groupVersion": f"a.b/{name}", "version": name} for name in ("v1", "v2", "v3")]
    document = {"groups": [{"name": "a.b", "versions": versions, "preferredVersion": versions[1]}, {"name": "c.d"}]}
    one, none = groups_decoder.decode(json.dumps(document).encode()).groups
    assert (one.ordered, none.ordered) == (["v2", "v1", "v3"], [])
    assert [resources_path(CORE.name, version) for version in CORE.ordered] == ["/api/v1"]
    assert resources_path("a.b", "v2") == "/apis/a.b/v2"


def test_a_version_without_resources_is_none() -> None:
    """An aggregated API may answer null where it has nothing; that must not end the search."""
    assert list(followed([("a.b", "v1", listing_decoder.decode(b'{"resources": null}'))])) == []
