"""The order of API versions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restow.crds.crd import sort_versions, version_priority

# The example of the Kubernetes documentation, "Version priority".
DOCUMENTED = ("v10", "v2", "v1", "v11beta2", "v10beta3", "v3beta1", "v12alpha1", "v11alpha2", "foo1", "foo10")

names = st.one_of(
    st.from_regex(r"v[0-9]{1,3}((alpha|beta)[0-9]{1,2})?", fullmatch=True),
    st.from_regex(r"[a-z]([a-z0-9]{0,4}[a-z0-9])?", fullmatch=True),
)


def test_documented_order() -> None:
    """An order other than the documented one would offer users the wrong version first."""
    assert sort_versions(reversed(DOCUMENTED)) == DOCUMENTED


@pytest.mark.parametrize(
    ("higher", "lower"),
    [
        ("v1", "v1beta1"),
        ("v1beta2", "v1beta1"),
        ("v1beta1", "v1alpha9"),
        ("v1alpha1", "v1gamma1"),
        ("v1", "V1"),
        ("v9", "v1.2"),
        ("v1", "v1beta"),
        ("v1", "xv1"),
        ("v1", "v1x"),
        ("v1", "v\N{SUPERSCRIPT TWO}"),
        ("v1alpha1", "v" + "9" * 30),
        ("v1alpha1", "v1beta" + "9" * 30),
    ],
)
def test_pairs(higher: str, lower: str) -> None:
    """A name that only resembles a Kubernetes version would be offered before a real version."""
    assert version_priority(higher) < version_priority(lower)


@given(st.lists(names))
def test_sorting_keeps_every_name(some: list[str]) -> None:
    """A sort that loses or repeats a version would hide it from the user."""
    assert sorted(sort_versions(some)) == sorted(some)


@given(st.lists(names, unique=True), st.randoms())
def test_order_does_not_depend_on_the_input_order(some: list[str], random: object) -> None:
    """Two runs over the same CRD would show versions in different orders."""
    shuffled = list(some)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    assert sort_versions(shuffled) == sort_versions(some)


@given(names, names)
def test_priorities_are_equal_only_for_equal_names(one: str, other: str) -> None:
    """Two names with equal priority would be sorted by accident."""
    assert (version_priority(one) == version_priority(other)) == (one == other)


@given(st.integers(0, 500), st.integers(0, 500), st.integers(1, 99), st.integers(1, 99))
def test_stability_outranks_numbers(major: int, other: int, minor: int, other_minor: int) -> None:
    """A beta with a high number would be offered before a stable version, or an alpha before a beta."""
    ordered = (f"v{major}", f"v{other}beta{minor}", f"v{major}alpha{other_minor}")
    assert sort_versions(reversed(ordered)) == ordered
