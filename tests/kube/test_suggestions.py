"""What is suggested for a name that does not exist."""

from __future__ import annotations

import pytest

from restow.kube.suggestions import did_you_mean

CRDS = ["gadgets.example.com", "widgets.example.com", "widgets.other.org", "certificates.cert-manager.io"]


@pytest.mark.parametrize(
    ("name", "known", "said"),
    [
        ("migarte", ["migrate", "plan"], "did you mean migrate?"),
        ("widget", CRDS, "did you mean widgets.example.com or widgets.other.org?"),
        ("Widgets", CRDS, "did you mean widgets.example.com or widgets.other.org?"),
        ("certifcate", CRDS, "did you mean certificates.cert-manager.io?"),
        ("widgets.exmaple.com", CRDS, "did you mean widgets.example.com or gadgets.example.com?"),
        ("v1aplha1", ["v1alpha1", "v1"], "did you mean v1alpha1?"),
        ("zzz", CRDS, ""),
        ("widgets", [], ""),
    ],
)
def test_the_nearest_names_are_suggested(name: str, known: list[str], said: str) -> None:
    """A short name or a slip of the pen is the likely mistake; an unlike name must suggest nothing."""
    assert did_you_mean(name, known) == said
