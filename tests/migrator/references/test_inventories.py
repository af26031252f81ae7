"""Inventories of Flux, Argo CD, OLM and Crossplane, in the documented shapes of their objects."""

from __future__ import annotations

from typing import Any

import pytest

from restow.migrator.references.readers.inventories import INVENTORIES, inventory_references
from restow.migrator.references.readers.typed import typed_references
from restow.migrator.references.reference import ReferenceKind
from tests.migrator.references.found import SPELLINGS, WIDGETS

FLUX = "kustomizations.kustomize.toolkit.fluxcd.io"
ARGO = "applications.argoproj.io"
OLM = "clusterserviceversions.operators.coreos.com"
CROSSPLANE = "compositeresourcedefinitions.apiextensions.crossplane.io"
WIDGET = {"group": "example.com", "version": "v1", "kind": "Widget", "namespace": "apps", "name": "w"}


def found(reader: str, obj: dict[str, Any]) -> list[tuple[str, str]]:
    """Where, and what is said of it."""
    return [(each.where, each.detail) for each in inventory_references(reader, obj, [WIDGETS])]


def test_flux() -> None:
    """Flux deletes by the version of its inventory."""
    entries = [
        {"id": "apps_w_example.com_Widget", "v": "v1"},
        {"id": "apps_w_example.com_Widget", "v": "v2"},
        {"id": "apps_w_example.com_Gadget", "v": "v1"},
        {"id": "_w_example.com_Widget", "v": "v1"},
        {"id": "apps_w__Service", "v": "v1"},
    ]
    assert found(FLUX, {"metadata": {"name": "k"}, "status": {"inventory": {"entries": entries}}}) == [
        ("/status/inventory/entries/0/v", "inventory entry of Widget apps/w"),
        ("/status/inventory/entries/3/v", "inventory entry of Widget w"),
    ]


def test_argo_cd() -> None:
    """What is tracked and what was synced last are two matters: only the first stands against a step."""
    status = {"resources": [WIDGET, WIDGET | {"version": "v2"}]}
    status |= {"operationState": {"syncResult": {"resources": [WIDGET | {"status": "Synced"}]}}}
    tracked, synced = typed_references(ARGO, {"metadata": {"name": "a"}, "status": status}, SPELLINGS)
    assert (tracked.kind, tracked.detail) == (ReferenceKind.ARGO_CD, "resource Widget apps/w")
    assert (tracked.where, tracked.effect.against_unserving) == ("/status/resources/0/version", True)
    assert synced.where == "/status/operationState/syncResult/resources/0/version"
    assert not synced.effect.against_unserving


def test_olm() -> None:
    """OLM asks for a served version by name, of owned and of required CRDs."""
    crds = {"owned": [{"name": "widgets.example.com", "version": "v1", "kind": "Widget"}]}
    crds["required"] = [{"name": "widgets.example.com", "version": "v2", "kind": "Widget"}]
    assert found(OLM, {"spec": {"customresourcedefinitions": crds}}) == [
        ("/spec/customresourcedefinitions/owned/0/version", "owned CRD widgets.example.com")
    ]


@pytest.mark.parametrize("names", ["names", "claimNames"])
def test_crossplane(names: str) -> None:
    """Crossplane writes a version back that is taken from the CRD alone; it makes one of claims too."""
    spec = {"group": "example.com", "names": {"kind": "XWidget"}, "versions": [{"name": "v2"}, {"name": "v1"}]}
    spec |= {names: {"kind": "Widget", "plural": "widgets"}}
    assert found(CROSSPLANE, {"spec": spec}) == [
        ("/spec/versions/1", "the definition that widgets.example.com is made from")
    ]


@pytest.mark.parametrize("reader", sorted(INVENTORIES))
@pytest.mark.parametrize(
    "obj",
    [
        {},
        {"status": None, "spec": 1},
        {"status": {"inventory": {"entries": [None, 7, {"id": 3}]}, "resources": "x"}},
        {"spec": {"customresourcedefinitions": {"owned": [[]]}, "group": "example.com", "names": [], "versions": {}}},
    ],
)
def test_other_shapes_are_none(reader: str, obj: dict[str, Any]) -> None:
    """CRDs with unknown fields preserved hold anything; that must not end the search."""
    assert found(reader, obj) == []
