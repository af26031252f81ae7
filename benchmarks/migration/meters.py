"""CPU time of the control plane's processes, and of all processes on the machine (Linux only)."""

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
_QUIET = 0.2  # cores; the limit below which a machine counts as idle
_DIGESTION = 30.0  # seconds


@dataclass(frozen=True, slots=True)
class Reading:
    """Seconds of the clock, of CPU by each process of the control plane, and of CPU by the whole machine."""

    clock: float
    plane: dict[str, float]
    machine: float

    def since(self, earlier: Reading) -> Reading:
        """Return the difference to an earlier reading."""
        plane = {name: used - earlier.plane.get(name, 0.0) for name, used in self.plane.items()}
        return Reading(self.clock - earlier.clock, plane, self.machine - earlier.machine)


def read(plane: ControlPlane) -> Reading:
    """Read all clocks."""
    user, nice, system, idle, iowait, irq, softirq, *_ = (
        int(each) for each in Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:]
    )
    del idle, iowait
    return Reading(time.perf_counter(), plane.cpu_seconds(), (user + nice + system + irq + softirq) / _TICKS)


async def quiet(plane: ControlPlane, patience: float) -> None:
    """Wait until the control plane has processed the last changes, and no other process uses the CPU.

    The wait for other processes takes at most ``patience`` seconds, because not every machine becomes quiet.
    """
    begun = time.perf_counter()
    calm = 0
    while calm < 2 and (waited := time.perf_counter() - begun) < max(patience, _DIGESTION):
        before = read(plane)
        await asyncio.sleep(_SAMPLE)
        passed = read(plane).since(before)
        busy = passed.machine if waited < patience else sum(passed.plane.values())
        calm = calm + 1 if busy < _QUIET * passed.clock else 0
