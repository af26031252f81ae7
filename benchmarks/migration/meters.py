"""CPU time: of the control plane's processes, and of everything that runs on the machine (Linux only)."""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import dataclass
from pathlib import Path

from restow.controlplane import ControlPlane

__all__ = ["Reading", "quiet", "read"]

_TICKS = os.sysconf("SC_CLK_TCK")
_SAMPLE = 0.3  # seconds
_QUIET = 0.2  # cores that a machine with nothing to do stays below
_DIGESTION = 30.0  # seconds


@dataclass(frozen=True, slots=True)
class Reading:
    """Seconds: on the clock, of CPU by each process of the control plane, of CPU by the whole machine."""

    clock: float
    plane: dict[str, float]
    machine: float

    def since(self, earlier: Reading) -> Reading:
        """Return what passed in between."""
        plane = {name: used - earlier.plane.get(name, 0.0) for name, used in self.plane.items()}
        return Reading(self.clock - earlier.clock, plane, self.machine - earlier.machine)


def read(plane: ControlPlane) -> Reading:
    """Read the clocks now."""
    user, nice, system, idle, iowait, irq, softirq, *_ = (
        int(each) for each in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    )
    del idle, iowait
    return Reading(time.perf_counter(), plane.cpu_seconds(), (user + nice + system + irq + softirq) / _TICKS)


async def quiet(plane: ControlPlane, patience: float) -> None:
    """Wait until the control plane has digested the last changes, and no other process uses the CPU.

    For the latter at most ``patience`` seconds: not every machine gets quiet.
    """
    begun = time.perf_counter()
    calm = 0
    while calm < 2 and (waited := time.perf_counter() - begun) < max(patience, _DIGESTION):
        before = read(plane)
        await asyncio.sleep(_SAMPLE)
        passed = read(plane).since(before)
        busy = passed.machine if waited < patience else sum(passed.plane.values())
        calm = calm + 1 if busy < _QUIET * passed.clock else 0
