"""Numbers: counting, adding up over processes, and what is scraped."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
from prometheus_client.parser import text_string_to_metric_families

from restow.conversion import server
from restow.conversion.server.counts import BUCKETS, METRICS, Counts, Snapshot, merged
from restow.conversion.server.exposition import exposition
from restow.conversion.server.process import process_numbers

REVIEWS, SECONDS = "restow_conversion_reviews_total", "restow_conversion_seconds"
BYTES, EXPIRY = "restow_webhook_bytes_in_flight", "restow_webhook_certificate_expiry_timestamp_seconds"


def counted(reviews: int, expiry: float) -> Counts:
    counts = Counts()
    counts.add(REVIEWS, "a", "success", amount=reviews)
    counts.observe(0.002, SECONDS, "a")
    counts.observe(99.0, SECONDS, "a")
    counts.gauge(BYTES, lambda: 7)
    counts.gauge(EXPIRY, lambda: expiry)
    return counts


def scraped(snapshot: Snapshot) -> dict[tuple[str, tuple[str, ...]], float]:
    families = text_string_to_metric_families(exposition(snapshot).decode())
    return {(each.name, tuple(each.labels.values())): each.value for family in families for each in family.samples}


def test_numbers_of_processes_add_up() -> None:
    """A scrape that showed one worker's numbers would jump about with every scrape."""
    total = scraped(merged([counted(2, 500.0).snapshot(), counted(3, 400.0).snapshot(), Snapshot()]))
    assert total[REVIEWS, ("a", "success")] == 5
    assert total[BYTES, ()] == 14
    assert total[EXPIRY, ()] == 400.0, "the first to expire is the one to know of"
    assert total[f"{SECONDS}_count", ("a",)] == 4
    assert total[f"{SECONDS}_sum", ("a",)] == 2 * 99.002
    assert total[f"{SECONDS}_bucket", ("a", "0.001")] == 0
    assert total[f"{SECONDS}_bucket", ("a", "0.0025")] == 2
    assert total[f"{SECONDS}_bucket", ("a", "30.0")] == 2
    assert total[f"{SECONDS}_bucket", ("a", "+Inf")] == 4


def test_adding_up_changes_none_of_them() -> None:
    """What a worker told is added to at every scrape; changed by one it would grow by itself."""
    first, second = counted(2, 1.0).snapshot(), counted(3, 1.0).snapshot()
    assert merged([first, second]) == merged([first, second])


def test_a_snapshot_does_not_go_on_counting() -> None:
    """It is of a moment."""
    counts = counted(2, 1.0)
    before = counts.snapshot()
    counts.add(REVIEWS, "a", "success")
    counts.observe(0.002, SECONDS, "a")
    assert before == counted(2, 1.0).snapshot()


def test_what_a_worker_that_is_gone_had_counted_stays() -> None:
    """Counters that went back would look like requests to whoever computes a rate; gauges were the worker's own."""
    gone = counted(2, 1.0).snapshot().lasting()
    total = merged([gone, Snapshot()])
    assert {key: value for key, value in total.counters.items() if value} == {(REVIEWS, "a", "success"): 2}
    assert (SECONDS, "a") in total.histograms
    assert total.gauges == {}


def test_a_snapshot_travels() -> None:
    """Over the link to the parent, with all its keys."""
    snapshot = counted(2, 1.0).snapshot()
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(snapshot), type=Snapshot) == snapshot


def test_a_bound_belongs_to_its_bucket() -> None:
    """Prometheus' buckets are `le`: less or equal."""
    counts = Counts()
    counts.observe(BUCKETS[0], SECONDS, "a")
    assert scraped(counts.snapshot())[f"{SECONDS}_bucket", ("a", str(BUCKETS[0]))] == 1


def test_every_metric_is_described_before_anything_was_counted() -> None:
    """Dashboards and alerts find the names of a process that has just started."""
    families = {each.name: each for each in text_string_to_metric_families(exposition(Snapshot()).decode())}
    assert families.keys() == {name.removesuffix("_total") for name in METRICS}
    for name, metric in METRICS.items():
        family = families[name.removesuffix("_total")]
        assert (family.type, family.documentation) == (metric.kind, metric.help)
        assert (metric.kind == "counter") == name.endswith("_total")


def test_each_reason_to_refuse_counts_from_the_start() -> None:
    """An alert on an increase does not see the first of a series that was not there before."""
    whys = {key[1] for key in Counts().snapshot().counters if key[0] == "restow_webhook_refused_total"}
    source = "".join(each.read_text() for each in Path(server.__file__).parent.glob("*.py"))
    used = set(re.findall(r'Refusal\(\s*HTTPStatus\.\w+,\s*"([\w-]+)"|\.refused\("([\w-]+)"', source))
    assert used and {one or other for one, other in used} <= whys


def test_counters_that_alerts_look_at_begin_with_0() -> None:
    """Prometheus sees no increase in a series that begins with 1: the first refused certificate would alert nobody."""
    found = scraped(Counts().snapshot())
    for result in ("loaded", "refused"):
        assert found["restow_webhook_certificate_loads_total", (result,)] == 0
    for why in ("overload", "too-many-connections", "no-review", "defect"):
        assert found["restow_webhook_refused_total", (why,)] == 0
    assert found["restow_webhook_worker_deaths_total", ()] == 0


def test_processes_of_a_pod_are_one() -> None:
    """The memory limit is the pod's: what one worker uses of it says nothing."""
    one = process_numbers()
    two = scraped(merged([one, one]))
    assert [value for (name, _), value in two.items() if name == "restow_build_info"] == [1]
    assert two["process_resident_memory_bytes", ()] == 2 * one.gauges["process_resident_memory_bytes",] > 2e6
    assert two["process_start_time_seconds", ()] == one.gauges["process_start_time_seconds",]
    assert two["process_cpu_seconds_total", ()] == 2 * one.counters["process_cpu_seconds_total",] > 0
    assert two["python_gc_collections_total", ("0",)] == 2 * one.counters["python_gc_collections_total", "0"]
    assert merged([one.lasting()]).counters == one.counters, "CPU time that a worker used stays used when it is gone"
