"""The numbers that a webhook counts, in a form that is cheap to add to.

``restow.conversion.server.run`` turns them into metrics when they are scraped. Pure.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final, Literal

Key = tuple[str, ...]
"""A metric's name and the values of its labels."""


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric: its help text and its labels. A histogram's ``buckets`` are upper bounds in seconds.

    ``starts`` are values of a counter's only label. These series exist with 0 before anything is counted, because an
    alert on an increase misses the first increase of a new series.
    """

    help: str
    labels: tuple[str, ...] = ()
    kind: Literal["counter", "gauge", "histogram"] = "counter"
    starts: tuple[str, ...] = ()


#: Upper bounds of the histograms' buckets, in seconds: from one small object to an API server's timeout.
BUCKETS: Final = (0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)

#: Why a client is refused. The first reasons are answered with an HTTP error, the others without an answer.
_WHY: Final = (
    *("broken", "defect", "encoding", "method", "no-http", "no-review", "no-such-path", "not-compiled", "overload"),
    *("starting", "stopping", "too-large", "no-certificate", "wrong-certificate"),
    *("no-file", "too-many-connections"),
)

METRICS: Final = {
    "restow_conversion_reviews_total": Metric("ConversionReviews by how they ended.", ("crd", "result")),
    "restow_conversion_objects_total": Metric(
        "Objects by what they were converted from and to.", ("crd", "from_version", "to_version", "result")
    ),
    "restow_conversion_kept_total": Metric(
        'Values that a rule could not convert and kept, because of on_error="keep".', ("crd", "rule")
    ),
    "restow_conversion_seconds": Metric(
        "Time from a review's last byte to its answer's first one.", ("crd",), "histogram"
    ),
    "restow_conversion_request_bytes_total": Metric("Bytes of ConversionReviews.", ("crd",)),
    "restow_conversion_response_bytes_total": Metric("Bytes of their answers.", ("crd",)),
    "restow_admission_reviews_total": Metric("AdmissionReviews by how they ended.", ("step", "result")),
    "restow_admission_seconds": Metric("Time that an admission step took.", ("step",), "histogram"),
    "restow_webhook_refused_total": Metric("Requests and connections that were refused.", ("why",), starts=_WHY),
    "restow_webhook_aborted_total": Metric(
        "Connections that were closed for being too slow.",
        ("while",),
        starts=("handshake", "headers", "body", "request", "answer"),
    ),
    "restow_webhook_connections": Metric("Open connections.", kind="gauge"),
    "restow_webhook_bytes_in_flight": Metric("Bytes of request bodies at work.", kind="gauge"),
    "restow_webhook_certificate_expiry_timestamp_seconds": Metric(
        "When the serving certificate expires.", kind="gauge"
    ),
    "restow_webhook_certificate_loads_total": Metric(
        "Certificates found in the files.", ("result",), starts=("loaded", "refused")
    ),
}


@dataclass(slots=True)
class Histogram:
    """Counts per bucket (one more than BUCKETS: the last is for all larger observations), and the sum."""

    buckets: list[int]
    sum: float = 0.0


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The numbers of a webhook at one moment."""

    counters: dict[Key, float] = field(default_factory=dict)
    gauges: dict[Key, float] = field(default_factory=dict)
    histograms: dict[Key, Histogram] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class ServerMetrics:
    """The numbers of one webhook. Names and labels are those of METRICS."""

    _counters: dict[Key, float] = field(
        default_factory=lambda: {(name, start): 0 for name, metric in METRICS.items() for start in metric.starts}
    )
    _gauges: dict[Key, Callable[[], float]] = field(default_factory=dict)
    _histograms: dict[Key, Histogram] = field(default_factory=dict)

    def add(self, name: str, *labels: str, amount: float = 1) -> None:
        """Add to a counter."""
        key = (name, *labels)
        self._counters[key] = self._counters.get(key, 0) + amount

    def observe(self, seconds: float, name: str, *labels: str) -> None:
        """Add an observation to a histogram."""
        key = (name, *labels)
        histogram = self._histograms.get(key)
        if histogram is None:
            histogram = self._histograms[key] = Histogram([0] * (len(BUCKETS) + 1))
        histogram.buckets[bisect_left(BUCKETS, seconds)] += 1
        histogram.sum += seconds

    def gauge(self, name: str, value: Callable[[], float]) -> None:
        """Register a gauge whose value is read at each scrape."""
        self._gauges[name,] = value

    def snapshot(self) -> Snapshot:
        """Return the current numbers as a copy that later counting does not change."""
        return Snapshot(
            dict(self._counters),
            {key: value() for key, value in self._gauges.items()},
            {key: Histogram(list(each.buckets), each.sum) for key, each in self._histograms.items()},
        )
