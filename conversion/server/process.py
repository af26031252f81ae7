"""Numbers of the process itself: which restow and Python it is, its memory, CPU time and garbage collector.

Each worker tells its own, so that what is scraped is the sum of all processes of a pod, as its memory limit is.
"""

from __future__ import annotations

import platform
from importlib.metadata import PackageNotFoundError, version
from itertools import chain

from prometheus_client import CollectorRegistry, GCCollector, ProcessCollector

from restow.conversion.server.counts import METRICS, Key, Snapshot

__all__ = ["process_numbers"]

_COLLECTORS = (ProcessCollector(registry=None), GCCollector(registry=CollectorRegistry()))


def _version() -> str:
    try:
        return version("restow")
    except PackageNotFoundError:  # from a folder, not installed
        return "unknown"


_BUILD = ("restow_build_info", _version(), platform.python_version())


def process_numbers() -> Snapshot:
    """Return the numbers of this moment. Where there is no /proc, memory and CPU time are missing."""
    counters: dict[Key, float] = {}
    gauges: dict[Key, float] = {_BUILD: 1.0}
    for family in chain.from_iterable(collector.collect() for collector in _COLLECTORS):
        for sample in family.samples:
            if (metric := METRICS.get(sample.name)) is not None:
                numbers = counters if metric.kind == "counter" else gauges
                numbers[sample.name, *(sample.labels[label] for label in metric.labels)] = sample.value
    return Snapshot(counters, gauges)
