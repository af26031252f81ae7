"""Versions and ranges of versions, parsed as Gardener parses them."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restow.cloudprofile.versions.semver import (
    InvalidRange,
    InvalidVersion,
    SemanticVersion,
    parse,
    parse_kubernetes,
    parse_range,
)

_versions = st.builds(
    SemanticVersion,
    st.integers(0, 3),
    st.integers(0, 3),
    st.integers(0, 3),
    st.lists(st.sampled_from(["0", "1", "10", "alpha", "rc-1", "A"]), max_size=2).map(tuple),
)


@given(version=_versions, other=_versions, third=_versions)
def test_versions_are_totally_ordered(version: SemanticVersion, other: SemanticVersion, third: SemanticVersion) -> None:
    """The latest version would depend on the order in which versions are listed."""
    assert (version < other) + (version == other) + (version > other) == 1
    if version <= other <= third:
        assert version <= third
    assert parse(str(version)) == version


def test_the_order_is_that_of_semver() -> None:
    """A pre-release, or 1.10, would be sorted alphabetically."""
    listed = [
        "1.0.0-1",
        "1.0.0-alpha",
        "1.0.0-alpha.1",
        "1.0.0-alpha.beta",
        "1.0.0-beta.2",
        "1.0.0-beta.11",
        "1.0.0-rc.1",
    ]
    listed += ["1.0.0", "1.2.3", "1.10.0", "2.0.0"]
    assert sorted(listed, key=parse, reverse=True) == listed[::-1]


@pytest.mark.parametrize(
    ("text", "version"),
    [
        ("1", SemanticVersion(1)),
        ("1.2", SemanticVersion(1, 2)),
        ("v1.2.3", SemanticVersion(1, 2, 3)),
        ("18.04.201906170", SemanticVersion(18, 4, 201906170)),
        ("3.4.6-flavor", SemanticVersion(3, 4, 6, ("flavor",))),
        ("1.2-rc.1+build.5", SemanticVersion(1, 2, 0, ("rc", "1"))),
        ("1.0.0+abc", SemanticVersion(1)),
    ],
)
def test_images_are_read_leniently(text: str, version: SemanticVersion) -> None:
    """An image version that Gardener accepts would be refused or sorted wrongly."""
    assert parse(text) == version


@pytest.mark.parametrize(
    "text",
    ["", "a.b.c", "1.2.3.4", "1.", ".1", "1.2.3-", "1.2.3-01", "1.2.3~foo", " 1.2.3", "1.2.3\n", "1" * 5000, "٣.1"],
)
def test_what_is_no_version_is_refused(text: str) -> None:
    """A text that cannot be compared would count as a version."""
    with pytest.raises(InvalidVersion):
        parse(text)


@pytest.mark.parametrize("text", ["1.31", "v1.31.0", "1.31.0-rc.1", "1.31.0+a", "1.31.0.0", ""])
def test_kubernetes_versions_are_strict(text: str) -> None:
    """A Kubernetes version that no Shoot can run would be accepted."""
    assert parse_kubernetes("1.31.4") == SemanticVersion(1, 31, 4)
    with pytest.raises(InvalidVersion):
        parse_kubernetes(text)


def test_a_version_knows_its_minor_and_its_release() -> None:
    """Versions of one minor would not be grouped."""
    assert parse("1.31.4-rc.1").line == (1, 31)
    assert parse("1.31.4-rc.1").release == parse("v1.31.4")
    assert hash(parse("1.2")) == hash(parse("1.2.0"))


@pytest.mark.parametrize(
    ("text", "admitted", "refused"),
    [
        (">= 1.26", ["1.26.0", "1.40.3", "2.0.0"], ["1.25.9"]),
        ("< 1.26", ["1.25.9"], ["1.26.0"]),
        (">= 1.26, < 1.29", ["1.28.9"], ["1.29.0", "1.25.0"]),
        (">=1.26 <1.29 || 1.31", ["1.26.1", "1.31.9"], ["1.30.0"]),
        ("1.30 - 1.32", ["1.30.0", "1.32.9"], ["1.29.9", "1.33.0"]),
        ("1.31.x", ["1.31.0", "1.31.7"], ["1.32.0"]),
        ("=1.31.2", ["1.31.2"], ["1.31.3"]),
        ("!=1.31", ["1.30.1"], ["1.31.0", "1.31.4"]),
        (">1.31", ["1.32.0"], ["1.31.9"]),
        ("<=1.31", ["1.31.9"], ["1.32.0"]),
        ("~1.31.2", ["1.31.2", "1.31.9"], ["1.31.1", "1.32.0"]),
        ("~>1", ["1.99.0"], ["2.0.0"]),
        ("^1.31.2", ["1.99.0"], ["1.31.1", "2.0.0"]),
        ("^0.2.3", ["0.2.9"], ["0.3.0", "0.2.2"]),
        ("^0.0.3", ["0.0.3"], ["0.0.4"]),
        ("*", ["0.0.0", "9.9.9"], ["1.0.0-rc.1"]),
        ("=>1.2.3-0", ["1.2.3-rc.1", "1.3.0"], ["1.2.2"]),
        (">1.2.3", ["1.2.4"], ["1.2.4-rc.1"]),
    ],
)
def test_ranges(text: str, admitted: list[str], refused: list[str]) -> None:
    """An image would run with a kubelet that it does not support, or be refused for one that it does."""
    versions = parse_range(text)
    assert [version for version in admitted if not versions.admits(parse(version))] == []
    assert [version for version in refused if versions.admits(parse(version))] == []


@pytest.mark.parametrize(
    "text",
    ["", " ", "invalid-version", "==1.30.0", ">= 1.30 ||", ">= 1.30,, < 1.31", "1x", "1.2.3.4", "> >1", "1" * 600],
)
def test_what_is_no_range_is_refused(text: str) -> None:
    """A mistyped constraint would admit every kubelet, or none."""
    with pytest.raises(InvalidRange):
        parse_range(text)
