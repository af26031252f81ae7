"""Names, labels and quantities as Kubernetes admits them."""

from __future__ import annotations

import pytest

from restow.cloudprofile.validation.formats import (
    label_key_fault,
    label_value_fault,
    part_name_fault,
    quantity_fault,
    subdomain_fault,
)


@pytest.mark.parametrize("name", ["a", "aws", "profile.test", "a-1.b-2", "x" * 253])
def test_good_names_of_objects(name: str) -> None:
    """A profile could not get a name that Kubernetes allows."""
    assert subdomain_fault(name) == ""


@pytest.mark.parametrize("name", ["", "A", "-a", "a-", "a..b", "a_b", "x" * 254, "a\n"])
def test_bad_names_of_objects(name: str) -> None:
    """A profile would get a name that the API server refuses."""
    assert "DNS subdomain" in subdomain_fault(name)


@pytest.mark.parametrize("name", ["m5.large", "Standard_D2", "a", "x" * 63])
def test_good_names_of_parts(name: str) -> None:
    """A provider's machine type could not be named."""
    assert part_name_fault(name) == label_key_fault(name) == label_value_fault(name) == ""


@pytest.mark.parametrize("name", ["a/b", "-a", "a_", "x" * 64, "a b"])
def test_bad_names_of_parts(name: str) -> None:
    """A name that is no valid label value would be accepted."""
    assert part_name_fault(name)


def test_labels_may_have_a_prefix_and_no_value() -> None:
    """A region could not have the labels of a node."""
    assert label_key_fault("topology.kubernetes.io/zone") == label_value_fault("") == ""
    assert "prefix" in label_key_fault("Topology/zone")
    assert label_key_fault("example.com/") and label_key_fault("/a") and label_key_fault("") and part_name_fault("")


@pytest.mark.parametrize("value", ["0", "-0", "2", "500m", "16Gi", "1.5", ".5", "1e3", "1E-3", "+1k", 2, 0.5])
def test_good_quantities(value: object) -> None:
    """A machine's size in a valid notation would be refused."""
    assert quantity_fault(value) == ""


@pytest.mark.parametrize(("value", "rule"), [("-1", "0"), ("-100Gi", "0"), (-1, "0"), ("1 Gi", "like"), ("", "like")])
def test_bad_quantities(value: object, rule: str) -> None:
    """A machine with a negative size would be accepted."""
    assert rule in quantity_fault(value)
    assert quantity_fault(True) and quantity_fault("Gi") and quantity_fault("1Zi")
