"""The names of CRDs that people give, as they give them to kubectl."""

from __future__ import annotations

import pytest

from restow.cli.crdnames import _full_name
from restow.crds import Crd
from restow.migrator import MigrationRefused


def crd(plural: str, group: str, kind: str, *short: str) -> Crd:
    """A CRD with these names."""
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
    names = {"plural": plural, "kind": kind, "shortNames": [*short]}
    return Crd.from_document(
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.{group}"},
            "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [version]},
        }
    )


CRDS = [
    crd("widgets", "a.example.com", "Widget", "wd", "g"),
    crd("gadgets", "a.example.com", "Gadget", "g"),
    crd("gadgets", "b.example.com", "Gadget"),
    crd("gs", "b.example.com", "WD"),
]


@pytest.mark.parametrize("name", ["widgets", "widget", "Widget", "WIDGETS"])
def test_a_unique_name_is_enough(name: str) -> None:
    """kubectl takes the plural, the singular and the kind, in any case; a user types what worked there."""
    assert _full_name(name, CRDS, "host") == "widgets.a.example.com"


def test_a_short_name_is_taken_if_no_kind_has_it() -> None:
    """A kind that is named like another one's short name would not be reached."""
    assert _full_name("wd", CRDS, "host") == "gs.b.example.com"
    assert _full_name("wd", CRDS[:1], "host") == "widgets.a.example.com"


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("gadgets", "'gadgets' is a name of gadgets.a.example.com and of gadgets.b.example.com: give the full name"),
        ("g", "'g' is a name of widgets.a.example.com and of gadgets.a.example.com: give the full name"),
        ("widgetz", "there is no CRD 'widgetz' on host: did you mean widgets.a.example.com?"),
        ("foo", "there is no CRD 'foo' on host: kubectl get crds shows the names"),
    ],
)
def test_any_other_name_is_refused_with_the_candidates(name: str, said: str) -> None:
    """A migration of the wrong kind is not undone."""
    with pytest.raises(MigrationRefused) as refused:
        _full_name(name, CRDS, "host")
    assert str(refused.value) == said
