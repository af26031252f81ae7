"""What is concluded from runs: medians, the best of several, claims, and how tables are written."""

from __future__ import annotations

import pytest

from benchmarks.migration.results import Run, busiest, fastest, rates_table, summary
from benchmarks.records import Figure, recorded_tables
from benchmarks.tables import Result, Table, at_least, at_most, exactly, markdown


def run(
    contender="c",
    *,
    seconds=1.0,
    engine_cpu: float | None = 0.5,
    in_control_plane=False,
    server_cpu=2.0,
    webhook_cpu=0.0,
):
    return Run(
        contender=contender,
        objects=100,
        seconds=seconds,
        process_seconds=seconds + 1,
        client_cpu=1.0,
        engine_cpu=engine_cpu,
        peak_kib=None,
        server_cpu=server_cpu,
        etcd_cpu=0.25,
        plane_cpu=2.5,
        foreign_cpu=seconds + 1,
        writes=100,
        lists=1,
        reads=4,
        in_control_plane=in_control_plane,
        webhook_cpu=webhook_cpu,
    )


def test_summary_takes_medians_of_rates():
    """A mean, or the best run, would let one lucky or unlucky run decide a claim."""
    found = summary([run(seconds=1.0), run(seconds=2.0), run(seconds=10.0)])
    assert (found.rate, found.slowest, found.fastest) == (50.0, 10.0, 100.0)
    assert found.runs == 3
    assert found.process_rate == pytest.approx(100 / 3)
    assert (found.writes, found.requests, found.foreign) == (1.0, 1.05, 1.0)


def test_cpu_is_in_milliseconds_per_object():
    """CPU counted in another unit, or not divided by the objects, would be printed under the wrong heading."""
    found = summary([run()])
    assert (found.server_ms, found.etcd_ms, found.client_ms, found.engine_ms) == (20.0, 2.5, 10.0, 5.0)


@pytest.mark.parametrize(
    ("engine_cpu", "in_control_plane", "expected"),
    [(0.5, False, 30.0), (None, False, None), (0.5, True, 25.0)],
)
def test_cpu_of_all(engine_cpu, in_control_plane, expected):
    """A client in the control plane would be counted twice, and an unknown client as one that costs nothing."""
    assert summary([run(engine_cpu=engine_cpu, in_control_plane=in_control_plane)]).all_ms == expected


def test_the_webhook_counts_to_the_cpu_of_all():
    """A contender that has the webhook do its work would look as if the work cost nothing."""
    found = summary([run(webhook_cpu=0.5)])
    assert (found.webhook_ms, found.all_ms) == (5.0, 35.0)


def test_fastest_is_by_median_rate():
    """The saturation rate would be too low, and every claim against it too easy."""
    slow, fast = summary([run("slow", seconds=2.0)]), summary([run("fast", seconds=1.0)])
    assert fastest([slow, fast]).contender == "fast"


def test_a_slower_machine_does_not_make_a_contender_slower():
    """A contender that ran while the machine was throttled would lose to one that did the same work before."""
    before, throttled = summary([run(seconds=1.0, server_cpu=1.5)]), summary([run(seconds=2.0, server_cpu=3.0)])
    assert before.server_cores == throttled.server_cores
    assert busiest([summary([run("idle", seconds=1.0, server_cpu=1.2)]), throttled]).contender == "c"


@pytest.mark.parametrize(
    ("claim", "holds"),
    [
        (at_least("r", 0.95, 0.95), True),
        (at_least("r", 0.9499, 0.95), False),
        (at_most("m", 1.15, 1.15), True),
        (at_most("m", 1.1501, 1.15), False),
        (exactly("w", 1.001, 1.0), True),
        (exactly("w", 1.02, 1.0), False),
        (exactly("w", 0.98, 1.0), False),
    ],
)
def test_claims(claim, holds):
    """A miss would be printed as a pass."""
    assert claim.holds is holds


def test_markdown_aligns_columns():
    """A table whose cells do not line up can be read neither on a terminal nor as Markdown."""
    table = Table("Rates", ("contender", "objects/s"), (("restow", "460"), ("one at a time", "97")))
    assert markdown(table).split("\n") == [
        "### Rates",
        "",
        "| contender     | objects/s |",
        "| :------------ | --------: |",
        "| restow        |       460 |",
        "| one at a time |        97 |",
    ]


def test_rates_are_compared_at_equal_speed_where_the_work_is_the_same():
    """A contender that makes the API server do other work would seem faster or slower than it is."""
    found = [summary([run("ours", seconds=1.0), run("ours", seconds=2.0)]), summary([run("native", seconds=4.0)])]
    table = rates_table("Rates", found, "of one", found[0].rate, 2.0, others=("native",))
    (recorded,) = recorded_tables(Result("", [table]))
    figures = {each.name: each for row in recorded.rows for each in row if isinstance(each, Figure)}
    rate = figures["Rates > ours > objects/s"]
    assert (rate.value, rate.unit, rate.low, rate.high) == (75, "objects/s", 50, 100)
    assert figures["Rates > ours > at equal speed"].value == 0.75
    assert "Rates > native > at equal speed" not in figures
