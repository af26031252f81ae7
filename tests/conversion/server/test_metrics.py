"""Numbers: counting, and what is scraped."""

from __future__ import annotations

import re
from pathlib import Path

from prometheus_client.parser import text_string_to_metric_families

from restow.conversion import server
from restow.conversion.server.metrics import BUCKETS, METRICS, ServerMetrics, Snapshot
from restow.conversion.server.run import exposition

REVIEWS, SECONDS = "restow_conversion_reviews_total", "restow_conversion_seconds"
BYTES, EXPIRY = "restow_webhook_bytes_in_flight", "restow_webhook_certificate_expiry_timestamp_seconds"

#: What alerts.md documents of each process.
OF_THE_PROCESS = {
    "restow_build_info",
    *(f"process_{name}" for name in ("cpu_seconds", "resident_memory_bytes", "virtual_memory_bytes")),
    *(f"process_{name}" for name in ("start_time_seconds", "open_fds", "max_fds")),
    *(f"python_gc_{name}" for name in ("collections", "objects_collected", "objects_uncollectable")),
}


def counted(reviews: int, expiry: float) -> ServerMetrics:
    counts = ServerMetrics()
    counts.add(REVIEWS, "a", "success", amount=reviews)
    counts.observe(0.002, SECONDS, "a")
    counts.observe(99.0, SECONDS, "a")
    counts.gauge(BYTES, lambda: 7)
    counts.gauge(EXPIRY, lambda: expiry)
    return counts


def scraped(snapshot: Snapshot) -> dict[tuple[str, tuple[str, ...]], float]:
    families = text_string_to_metric_families(exposition(snapshot).decode())
    return {(each.name, tuple(each.labels.values())): each.value for family in families for each in family.samples}


def test_what_was_counted_is_scraped() -> None:
    """A metric that is missing, or under another name or label, shows nothing on a dashboard."""
    total = scraped(counted(2, 500.0).snapshot())
    assert total[REVIEWS, ("a", "success")] == 2
    assert total[BYTES, ()] == 7
    assert total[EXPIRY, ()] == 500.0
    assert total[f"{SECONDS}_count", ("a",)] == 2
    assert total[f"{SECONDS}_sum", ("a",)] == 99.002
    assert total[f"{SECONDS}_bucket", ("a", "0.001")] == 0
    assert total[f"{SECONDS}_bucket", ("a", "0.0025")] == 1
    assert total[f"{SECONDS}_bucket", ("a", "30.0")] == 1
    assert total[f"{SECONDS}_bucket", ("a", "+Inf")] == 2


def test_a_snapshot_does_not_go_on_counting() -> None:
    """A snapshot that changes would report numbers of different moments."""
    counts = counted(2, 1.0)
    before = counts.snapshot()
    counts.add(REVIEWS, "a", "success")
    counts.observe(0.002, SECONDS, "a")
    assert before == counted(2, 1.0).snapshot()


def test_a_bound_belongs_to_its_bucket() -> None:
    """Prometheus' buckets are ``le``: less or equal."""
    counts = ServerMetrics()
    counts.observe(BUCKETS[0], SECONDS, "a")
    assert scraped(counts.snapshot())[f"{SECONDS}_bucket", ("a", str(BUCKETS[0]))] == 1


def test_every_metric_is_described_before_anything_was_counted() -> None:
    """Dashboards and alerts find the names of a process that has just started."""
    families = {each.name: each for each in text_string_to_metric_families(exposition(Snapshot()).decode())}
    assert families.keys() == {name.removesuffix("_total") for name in METRICS} | OF_THE_PROCESS
    for name, metric in METRICS.items():
        family = families[name.removesuffix("_total")]
        assert (family.type, family.documentation) == (metric.kind, metric.help)
        assert (metric.kind == "counter") == name.endswith("_total")


def test_each_reason_to_refuse_counts_from_the_start() -> None:
    """An alert on an increase does not see the first of a series that was not there before."""
    whys = {key[1] for key in ServerMetrics().snapshot().counters if key[0] == "restow_webhook_refused_total"}
    source = "".join(each.read_text() for each in Path(server.__file__).parent.glob("*.py"))
    used = set(re.findall(r'Refusal\(\s*HTTPStatus\.\w+,\s*"([\w-]+)"|\.refused\("([\w-]+)"', source))
    assert used and {one or other for one, other in used} <= whys


def test_counters_that_alerts_look_at_begin_with_0() -> None:
    """Prometheus sees no increase in a series that begins with 1: the first refused certificate would not alert."""
    found = scraped(ServerMetrics().snapshot())
    for result in ("loaded", "refused"):
        assert found["restow_webhook_certificate_loads_total", (result,)] == 0
    for why in ("overload", "too-many-connections", "no-review", "defect"):
        assert found["restow_webhook_refused_total", (why,)] == 0


def test_the_process_itself_is_scraped() -> None:
    """A search for a leak, or for the release that leaks, needs memory, CPU time and version by their usual names."""
    found = scraped(Snapshot())
    assert [value for (name, _), value in found.items() if name == "restow_build_info"] == [1]
    assert found["process_resident_memory_bytes", ()] > 2e6
    assert found["process_cpu_seconds_total", ()] > 0
    assert found["process_start_time_seconds", ()] > 1e9
    assert found["python_gc_collections_total", ("0",)] > 0
