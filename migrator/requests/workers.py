"""What a run in several processes takes from its caller, and whether it has it.

A worker process opens the cluster and makes the converters by itself: connections and functions cannot be sent to
another process. So the cluster has to come from ``restow.kube.connect``, and converters have to have a name by which
they can be imported, ``NamedConverters``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from importlib import import_module
from typing import Any

from restow.crds import Crd
from restow.kube.client import HttpCluster
from restow.kube.cluster import Cluster
from restow.kube.credentials import ConnectArguments
from restow.kube.retry import without_retries
from restow.migrator.model.converter import Converter
from restow.migrator.model.options import AUTO, Options
from restow.migrator.requests.cpus import available_cpus
from restow.migrator.requests.passes import Converters, own_webhook

__all__ = ["MOST_BY_CPUS", "NamedConverters", "WorkerPlan", "plan_workers"]


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
