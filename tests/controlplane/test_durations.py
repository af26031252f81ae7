"""Go durations in envtest's environment variables."""

from __future__ import annotations

import re

import pytest

from restow.controlplane.errors import ControlPlaneError
from restow.controlplane.readiness import go_duration_seconds, seconds_from_environment


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("20s", 20.0), ("1m30s", 90.0), ("1.5s", 1.5), ("250ms", 0.25), ("2h", 7200.0), (".5s", 0.5)],
)
def test_durations(text: str, seconds: float) -> None:
    """A user's envtest setting would be read as another duration."""
    assert go_duration_seconds(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "20", "s", "-3s", "1s ", "1x"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    """A mistyped timeout would count as zero or as another duration."""
    with pytest.raises(ValueError, match=f"^{re.escape(text)}$"):
        go_duration_seconds(text)


def test_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The variable would not be read, or a wrong value would fail without naming it."""
    monkeypatch.delenv("KUBEBUILDER_CONTROLPLANE_START_TIMEOUT", raising=False)
    assert seconds_from_environment("START", 60.0) == 60.0
    monkeypatch.setenv("KUBEBUILDER_CONTROLPLANE_START_TIMEOUT", "2m")
    assert seconds_from_environment("START", 60.0) == 120.0
    monkeypatch.setenv("KUBEBUILDER_CONTROLPLANE_START_TIMEOUT", "soon")
    with pytest.raises(ControlPlaneError, match="KUBEBUILDER_CONTROLPLANE_START_TIMEOUT is 'soon'"):
        seconds_from_environment("START", 60.0)
