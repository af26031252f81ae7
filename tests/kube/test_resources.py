"""The paths of the API: what lies where, and that no name can lead anywhere else."""

from __future__ import annotations

from urllib.parse import unquote

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from yarl import URL

from restow.kube.resources import CONFIG_MAPS, CRDS, NAMESPACES, Resource

WIDGETS = Resource("example.com", "v1beta1", "widgets", namespaced=True)
GADGETS = Resource("example.com", "v1", "gadgets", namespaced=False)


@pytest.mark.parametrize(
    ("resource", "arguments", "path"),
    [
        (WIDGETS, (), "/apis/example.com/v1beta1/widgets"),
        (WIDGETS, ("ns",), "/apis/example.com/v1beta1/namespaces/ns/widgets"),
        (WIDGETS, ("ns", "w"), "/apis/example.com/v1beta1/namespaces/ns/widgets/w"),
        (WIDGETS, ("ns", "w", "status"), "/apis/example.com/v1beta1/namespaces/ns/widgets/w/status"),
        (GADGETS, (None, "g"), "/apis/example.com/v1/gadgets/g"),
        (GADGETS, ("ns", "g"), "/apis/example.com/v1/gadgets/g"),
        (GADGETS, ("ns",), "/apis/example.com/v1/gadgets"),
        (
            CRDS,
            (None, "w.example.com", "status"),
            f"/apis/{CRDS.group}/v1/customresourcedefinitions/w.example.com/status",
        ),
        (CONFIG_MAPS, ("ns", "c"), "/api/v1/namespaces/ns/configmaps/c"),
        (NAMESPACES, (None, "ns"), "/api/v1/namespaces/ns"),
    ],
)
def test_paths(resource: Resource, arguments: tuple[str | None, ...], path: str) -> None:
    """A wrong path is a 404, which a migration would have to tell from a deleted object."""
    assert resource.path(*arguments) == path


def test_a_namespaced_object_without_its_namespace_is_refused() -> None:
    """Its path would be that of a cluster-scoped object, and the 404 would look like a deleted one."""
    with pytest.raises(ValueError, match=r"widgets\.example\.com 'w' is namespaced"):
        WIDGETS.path(None, "w")


@pytest.mark.parametrize(
    ("name", "encoded"),
    [
        ("system:node:a", "system%3Anode%3Aa"),
        ("a/b", "a%2Fb"),
        ("../other", "..%2Fother"),
        ("a?dryRun=All", "a%3FdryRun%3DAll"),
        ("a#b", "a%23b"),
        ("50%", "50%25"),
        ("blank space", "blank%20space"),
        ("größe", "gr%C3%B6%C3%9Fe"),
    ],
)
def test_odd_names_are_percent_encoded(name: str, encoded: str) -> None:
    """A slash or question mark in a name would address another object, or another request."""
    assert WIDGETS.path("ns", name).rpartition("/")[2] == encoded


@given(namespace=st.text(min_size=1, max_size=12), name=st.text(min_size=1, max_size=12))
@example(namespace="..", name=".")
def test_every_name_arrives_as_it_is(namespace: str, name: str) -> None:
    """Neither our encoding nor the HTTP library's reading of it may change a name or the shape of the path."""
    path = WIDGETS.path(namespace, name)
    on_the_wire = URL("https://server" + path, encoded=True).raw_path_qs
    assert [unquote(part) for part in on_the_wire.split("/")] == [
        *("", "apis", "example.com", "v1beta1", "namespaces"),
        namespace,
        "widgets",
        name,
    ]


def test_versions_and_names_in_full() -> None:
    """Messages, CRD names and managedFields are all compared with these."""
    assert (WIDGETS.api_version, WIDGETS.full_name) == ("example.com/v1beta1", "widgets.example.com")
    assert (CONFIG_MAPS.api_version, CONFIG_MAPS.full_name) == ("v1", "configmaps")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ((), "widgets.example.com"),
        (("ns",), "widgets.example.com in ns"),
        (("ns", "w"), "widgets.example.com ns/w"),
        ((None, "w"), "widgets.example.com w"),
        ((None, "w", "status"), "widgets.example.com/status w"),
    ],
)
def test_how_messages_name_an_object(arguments: tuple[str | None, ...], said: str) -> None:
    """A message must let its reader paste the name into kubectl."""
    assert WIDGETS.describe(*arguments) == said
