"""The notation of paths."""

from __future__ import annotations

import pytest

from restow.crds.paths import ROOT, field_path, items_path, values_path


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        (field_path(ROOT, "spec"), ".spec"),
        (field_path(".spec", "replicas"), ".spec.replicas"),
        (items_path(".spec.items"), ".spec.items[]"),
        (field_path(items_path(".spec.items"), "name"), ".spec.items[].name"),
        (values_path(".spec.labels"), ".spec.labels{}"),
        (items_path(values_path(".a")), ".a{}[]"),
        (field_path(".metadata.labels", "app.kubernetes.io/name"), '.metadata.labels["app.kubernetes.io/name"]'),
        (field_path(ROOT, "a b"), '.["a b"]'),
        (field_path(".a", 'x"]'), r'.a["x\"]"]'),
        (field_path(".a", ""), '.a[""]'),
        (items_path(ROOT), ".[]"),
        (values_path(ROOT), ".{}"),
    ],
)
def test_notation(written: str, expected: str) -> None:
    """A path with two spellings, or one that reads as another place, would mislead users who act on it."""
    assert written == expected
