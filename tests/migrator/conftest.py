"""Virtual time for the shells that wait: their clock is the loop's, and it jumps to the next timer."""

from __future__ import annotations

from hypothesis import settings

from tests.kube.conftest import run_in_virtual_time

__all__ = ["run_in_virtual_time"]

# Every run draws the same examples, and none is judged by how fast this machine is.
settings.register_profile("migrator", deadline=None, derandomize=True)
settings.load_profile("migrator")
