"""``/metrics`` as Prometheus text: what a webhook counted, and the process itself with its memory, CPU time and
garbage.

Only this module imports prometheus_client, which a program that embeds a ``Webhook`` without probes does not need.
"""

from __future__ import annotations

import platform
from collections.abc import Iterable, Iterator
from importlib.metadata import PackageNotFoundError, version
from itertools import accumulate
from typing import Final, TypeVar

from prometheus_client import CollectorRegistry, GCCollector, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from restow.conversion.server.counts import BUCKETS, METRICS, Metric, Snapshot

__all__ = ["exposition"]

Number = TypeVar("Number")


def _version() -> str:
    try:
        return version("restow")
    except PackageNotFoundError:  # from a folder, not installed
        return "unknown"


_BUILD: Final = GaugeMetricFamily("restow_build_info", "1; the versions are labels.", labels=("version", "python"))
_BUILD.add_metric((_version(), platform.python_version()), 1)


def exposition(snapshot: Snapshot) -> bytes:
    """Return the text of all metrics, those without any number yet included.

    Where there is no /proc, the memory and the CPU time of the process are missing.
    """
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Numbers(snapshot))
    ProcessCollector(registry=registry)
    GCCollector(registry=registry)
    return generate_latest(registry)


class _Numbers(Collector):
    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def collect(self) -> Iterator[Family]:
        yield _BUILD
        for name, metric in METRICS.items():
            yield _family(name, metric, self._snapshot)


def _family(name: str, metric: Metric, snapshot: Snapshot) -> Family:
    match metric.kind:
        case "counter":
            counter = CounterMetricFamily(name.removesuffix("_total"), metric.help, labels=metric.labels)
            numbers = snapshot.counters if metric.labels else {(name,): 0.0} | snapshot.counters
            for labels, value in _of(name, numbers.items()):
                counter.add_metric(labels, value)
            return counter
        case "gauge":
            gauge = GaugeMetricFamily(name, metric.help, labels=metric.labels)
            for labels, value in _of(name, snapshot.gauges.items()):
                gauge.add_metric(labels, value)
            return gauge
        case "histogram":
            histogram = HistogramMetricFamily(name, metric.help, labels=metric.labels)
            for labels, each in _of(name, snapshot.histograms.items()):
                bounds = (*map(str, BUCKETS), "+Inf")
                histogram.add_metric(labels, list(zip(bounds, accumulate(each.buckets), strict=True)), each.sum)
            return histogram


def _of(name: str, numbers: Iterable[tuple[tuple[str, ...], Number]]) -> Iterator[tuple[list[str], Number]]:
    return ((list(key[1:]), value) for key, value in sorted(numbers, key=lambda item: item[0]) if key[0] == name)
