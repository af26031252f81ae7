"""Numbers as Prometheus text. Pure, but for the import of prometheus_client, which only they who are scraped need."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import TypeVar

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from restow.conversion.server.counts import BUCKETS, METRICS, Metric, Snapshot

__all__ = ["exposition"]

Number = TypeVar("Number")


def exposition(snapshot: Snapshot) -> bytes:
    """Return the text of all metrics, those without any number yet included."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Numbers(snapshot))
    return generate_latest(registry)


class _Numbers(Collector):
    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot

    def collect(self) -> Iterator[Family]:
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
