"""Virtual time for the shells that wait: their clock is the loop's, and it jumps to the next timer."""

from __future__ import annotations

from tests.kube.conftest import run_in_virtual_time

__all__ = ["run_in_virtual_time"]
