"""README and pages name the Kubernetes minors that the code pins, and its default."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from restow.controlplane.binaries.search import DEFAULT_MINOR, minors

ROOT = Path(__file__).parents[2]
OTHERS = [minor for minor in minors() if minor != DEFAULT_MINOR]


def text_of(page: str) -> str:
    """A page with each run of white space as one space, so that a line may break anywhere."""
    return " ".join((ROOT / page).read_text(encoding="utf-8").split())


def test_the_newest_minor_is_the_default() -> None:
    """The help of ``--kubernetes`` promises the newest one."""
    assert minors()[-1] == DEFAULT_MINOR


@pytest.mark.parametrize(
    ("page", "sentence"),
    [
        ("README.md", f"on a real API server of Kubernetes {DEFAULT_MINOR},"),
        ("docs/limits.md", f"the tests run on Kubernetes {DEFAULT_MINOR} by default"),
        ("docs/controlplane.md", f"restow is tested on Kubernetes **{DEFAULT_MINOR}** (the default), "),
        ("README.md", f"tested on, Kubernetes {minors()[0]} to {minors()[-1]} "),
        ("docs/upgrading.md", f"at present {minors()[0]} to {minors()[-1]},"),
    ],
)
def test_a_page_names_the_minors_of_the_code(page: str, sentence: str) -> None:
    """A reader would look for a behaviour on a Kubernetes that the demo and the tests do not start."""
    assert sentence in text_of(page)


def test_the_other_minors_are_named_too() -> None:
    """A minor would be dropped or added, and the page on the control plane would still have the old list."""
    said = re.search(r"\(the default\), ([^.]*(?:\d\.\d[^.]*)*)\. Each minor", text_of("docs/controlplane.md"))
    assert said is not None
    assert sorted(re.findall(r"\*\*(1\.\d+)\*\*", said[1])) == sorted(OTHERS)
