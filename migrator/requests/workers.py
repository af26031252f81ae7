"""The worker processes of a run: how many, what each needs from the caller, and whether the caller has it.

A worker process opens the cluster and makes the converters by itself: connections and functions cannot be sent to
another process. So the cluster has to come from ``restow.kube.connect``, and converters have to have a name by which
they can be imported, ``NamedConverters``. With ``auto``, the CPUs that this process may use decide how many there are.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from pathlib import Path, PurePosixPath
from typing import Any

from restow.crds import Crd
from restow.kube.client import HttpCluster
from restow.kube.cluster import Cluster
from restow.kube.credentials import ConnectArguments
from restow.kube.retry import without_retries
from restow.migrator.model.converter import Converter
from restow.migrator.model.options import AUTO, Options
from restow.migrator.requests.passes import Converters, own_webhook

__all__ = ["MOST_BY_CPUS", "NamedConverters", "WorkerPlan", "available_cpus", "cgroup_quota", "plan_workers"]


MOST_BY_CPUS = 8
"""The most worker processes that ``auto`` starts: so many keep an API server of 16 cores busy."""


@dataclass(frozen=True)
class NamedConverters:
    """Converters that each process imports and makes by itself, for ``Options.processes``.

    Args:
        factory: ``module:function``; called with ``arguments``, it returns a function as ``Converters`` describes.
        arguments: JSON values.

    Raises:
        ValueError: ``factory`` is not ``module:function``.
    """

    factory: str
    arguments: Sequence[Any] = ()

    def __post_init__(self) -> None:
        module, _colon, function = self.factory.partition(":")
        if not (module and function):
            msg = f"NamedConverters takes module:function, not {self.factory!r}"
            raise ValueError(msg)

    def __call__(self, crd: Crd) -> Converter | None:
        """Return the converter for a CRD, or None for its own webhook; errors are the module's or the function's."""
        return self.made(crd)

    @cached_property
    def made(self) -> Converters:
        """The function that the factory returns; it is called once in each process."""
        module, _colon, function = self.factory.partition(":")
        found: Any = import_module(module)
        for name in function.split("."):
            found = getattr(found, name)
        made: Converters = found(*self.arguments)
        return made


@dataclass(frozen=True, slots=True)
class WorkerPlan:
    """The worker processes of a run.

    Attributes:
        count: how many, 2 at least.
        connection: how each opens the cluster.
        converters: what each converts with; None for the CRD's own webhook.
    """

    count: int
    connection: ConnectArguments
    converters: NamedConverters | None


def plan_workers(cluster: Cluster, options: Options, converters: Converters) -> WorkerPlan | None:
    """Return the worker processes that the options ask for; None where this process does all.

    There are no more of them than writes in flight.

    Raises:
        ValueError: the cluster cannot be opened, or the converters cannot be made, by another process.
    """
    if options.processes == 1:
        return None
    bare = without_retries(cluster)
    connection = bare.opened_by if isinstance(bare, HttpCluster) else None
    if connection is None:
        msg = (
            f"Options.processes: a worker process cannot open a cluster of type {type(bare).__name__} again. Open it "
            "with restow.kube.connect, or leave processes at 1"
        )
        raise ValueError(msg)
    named = converters if isinstance(converters, NamedConverters) else None
    if named is None and converters is not own_webhook:
        msg = (
            "Options.processes: a converter cannot be sent to a worker process. Give "
            "NamedConverters('module:function'), whose function each process imports and calls, or leave processes at 1"
        )
        raise ValueError(msg)
    count = min(available_cpus(), MOST_BY_CPUS) if options.processes == AUTO else int(options.processes)
    count = min(count, options.concurrency)
    return WorkerPlan(count, connection, named) if count > 1 else None


_PROC = Path("/proc/self/cgroup")
_MOUNT = Path("/sys/fs/cgroup")


def available_cpus() -> int:
    """Return the number of CPUs for this process, 1 at least; a quota of two and a half counts as two."""
    cpus = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    quota = cgroup_quota()
    return max(1, cpus if quota is None else min(cpus, int(quota)))


def cgroup_quota(membership: Path = _PROC, mount: Path = _MOUNT) -> float | None:
    """Return the quota in CPUs; None where there is none, or no cgroup.

    A container's limit of CPU is a quota of its cgroup (``cpu.max`` in cgroup v2, ``cpu.cfs_quota_us`` and
    ``cpu.cfs_period_us`` in v1; Linux ``Documentation/admin-guide/cgroup-v2.rst`` and ``scheduler/sched-bwc.rst``). The
    smallest quota on the way from the process's group to the root counts. Other systems have no cgroups.

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
