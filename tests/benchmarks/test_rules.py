"""What is concluded from the operator's work for many ConversionRules."""

from __future__ import annotations

from benchmarks.records import Figure, recorded_tables
from benchmarks.rules import Costs, Found, Step, answered, results

SERVER = """\
apiserver_request_total{code="200",resource="configmaps",subresource="",verb="GET"} 30
apiserver_request_total{code="200",resource="conversionrules",subresource="status",verb="PATCH"} 4
apiserver_request_total{code="200",resource="",subresource="/metrics",verb="GET"} 100
apiserver_request_total{code="200",dry_run="",resource="",subresource="openapi/v3",verb="GET"} 100
apiserver_request_total{code="200",resource="leases",subresource="",verb="PUT"} 7
apiserver_request_terminations_total{code="429",resource="configmaps",subresource="",verb="GET"} 100
"""


def test_only_requests_for_resources_are_counted() -> None:
    """Reads of metrics would count as the operator's requests, or a slow run as one with more requests."""
    assert answered(SERVER) == (34, 7)


def found(*requests: float) -> Found:
    """A run with these requests of each kind, by step."""
    ready = [Costs(cpu=each / 500, server_cpu=each / 250, requests=10 * each, leases=each) for each in requests]
    idle, change = Costs(0.1, 0.1, 2, 30), Costs(0.05, 0.1, 40, 9)
    steps = [Step(10, 10 * number, 100.0 + number, 120.0, each, idle, change) for number, each in enumerate(ready, 1)]
    return Found(steps, new_ready=2.0, new=Costs(3.0, 1.0, 60, 9), new_memory=110.0, idle=30.0, kubernetes="v1.37.1")


def test_a_kind_that_costs_more_the_more_there_are_misses_its_claim() -> None:
    """A list of all kinds for each of them would go unnoticed until a cluster has thousands."""
    assert all(claim.holds for claim in results(found(50, 50, 50), 2).claims)
    missed = [claim.claim for claim in results(found(50, 60, 80), 2).claims if not claim.holds]
    assert missed == ["requests of a kind, last / first step", "replica CPU of a kind, last / first step"]


def test_the_figures_are_those_of_one_kind_and_of_a_minute() -> None:
    """The documentation would quote the sum of a step as the cost of one kind."""
    tables = recorded_tables(results(found(50, 50, 50), 2))
    figures = {
        cell.name: cell.shown for table in tables for row in table.rows for cell in row if isinstance(cell, Figure)
    }
    assert figures["Rules become Ready > 11 to 20 > requests of a kind"] == "50.0"
    assert figures["Rules become Ready > 11 to 20 > replica CPU, ms"] == "10"
    assert figures["Afterwards > 20 > requests in a minute"] == "4"
    assert figures["A new replica > 30 > requests of a kind"] == "2.0"
