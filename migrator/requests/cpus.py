"""The CPUs that this process may use: its affinity, and the quotas of its cgroups.

A container's limit of CPU is a quota of its cgroup (``cpu.max`` in cgroup v2, ``cpu.cfs_quota_us`` and
``cpu.cfs_period_us`` in v1; Linux ``Documentation/admin-guide/cgroup-v2.rst`` and ``scheduler/sched-bwc.rst``). The
smallest quota on the way from the process's group to the root counts. Other systems have no cgroups.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

__all__ = ["available_cpus", "cgroup_quota"]


_PROC = Path("/proc/self/cgroup")
_MOUNT = Path("/sys/fs/cgroup")


def available_cpus() -> int:
    """Return the number of CPUs for this process, 1 at least; a quota of two and a half counts as two."""
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = cgroup_quota()
    return max(1, cpus if quota is None else min(cpus, int(quota)))


def cgroup_quota(membership: Path = _PROC, mount: Path = _MOUNT) -> float | None:
    """Return the quota in CPUs; None where there is none, or no cgroup.

    Args:
        membership: the file that names the process's groups.
        mount: where cgroup file systems are mounted.
    """
    try:
        lines = membership.read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    quotas: list[float] = []
    for line in lines:
        _number, controllers, group = line.split(":", 2)
        if not controllers:
            quotas += (found for folder in _folders(mount, group) if (found := _quota_v2(folder)) is not None)
        elif "cpu" in controllers.split(","):
            for root in (mount / controllers, mount / "cpu"):
                quotas += (found for folder in _folders(root, group) if (found := _quota_v1(folder)) is not None)
    return min(quotas, default=None)


def _folders(root: Path, group: str) -> Iterator[Path]:
    """Return the folders of a group and of those around it; in a container, the group's own folder is the root."""
    path = PurePosixPath(group.lstrip("/"))
    yield root
    for each in (path, *path.parents):
        if each.parts and ".." not in each.parts:
            yield root.joinpath(*each.parts)


def _quota_v2(folder: Path) -> float | None:
    quota, _space, period = _read(folder / "cpu.max").partition(" ")
    return _ratio(quota, period)


def _quota_v1(folder: Path) -> float | None:
    return _ratio(_read(folder / "cpu.cfs_quota_us"), _read(folder / "cpu.cfs_period_us"))


def _ratio(quota: str, period: str) -> float | None:
    """Return microseconds of CPU in a period of microseconds as CPUs; ``max`` and -1 are no quota."""
    if not (quota.isdecimal() and period.isdecimal() and int(period)):
        return None
    return int(quota) / int(period)


def _read(file: Path) -> str:
    try:
        return file.read_text(encoding="utf-8").strip()
    except OSError:
        return ""
