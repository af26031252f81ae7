"""The fixture with which authors test their conversions through a real API server."""

from __future__ import annotations

from typing import Any

import pytest

from docs.examples.provider.conversions import CRDS, graph
from restow.crds import Crd
from restow.kube.errors import Invalid, KubeError

GATEWAYS = next(crd for crd in CRDS if crd.kind == "Gateway")


@pytest.fixture(scope="module")
def api(serve_conversions: Any) -> Any:
    return serve_conversions(graph, GATEWAYS)


def gateway(name: str, version: str = "v1alpha1", **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": f"edge.example.dev/{version}",
        "kind": "Gateway",
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    }


def test_objects_are_converted_by_the_graph(api: Any) -> None:
    """An author sees what an old client reads of a new object, with the stash that the server stores."""
    created = api.create(gateway("a", host="a.example.dev", mode="public"))
    assert created["apiVersion"] == "edge.example.dev/v1alpha1"
    new = api.get(created, "v1")
    assert new["spec"]["hosts"] == ["a.example.dev"]
    assert new["spec"]["mode"] == "Public"
    new["spec"]["hosts"].append("b.example.dev")
    api.replace(new)
    assert api.get(created, "v1alpha1")["spec"]["host"] == "a.example.dev"
    assert api.get(created, "v1")["spec"]["hosts"] == ["a.example.dev", "b.example.dev"]


def test_apply_and_refusals(api: Any) -> None:
    """Server-side apply converts managedFields too; a refusal is the API server's own."""
    applied = api.apply(gateway("b", host="b.example.dev", mode="public"))
    assert [entry["manager"] for entry in applied["metadata"]["managedFields"]] == ["test"]
    with pytest.raises(Invalid):
        api.create(gateway("c", host="c.example.dev", mode="nothing"))


def test_a_crd_that_is_there_is_left_alone(api: Any, serve_conversions: Any) -> None:
    """The end of the module would delete objects of a CRD that it did not create."""
    with pytest.raises(KubeError, match="already exists"):
        serve_conversions(graph, GATEWAYS)
    assert isinstance(GATEWAYS, Crd)
    assert api.get(gateway("a"), "v1")["spec"]["hosts"]
