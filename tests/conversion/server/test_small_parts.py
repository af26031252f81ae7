"""Routing, log lines, and refusals."""

from __future__ import annotations

import json
import logging
import socket
from http import HTTPStatus

import pytest

from restow.conversion import Registry
from restow.conversion.server import bind, conversions_by_crd
from restow.conversion.server.failures import RateLimitedLog
from restow.conversion.server.limits import Refusal
from tests.conversion.server.clocks import HeldClock
from tests.conversion.server.gateways import CRD, CRD_NAME, GROUP, KIND, graph


def test_each_crd_gets_its_own_conversions_and_no_others() -> None:
    """A CRD that names another one's path is told so, instead of being served by accident."""
    registry = Registry()
    for kind in ("Gateway", "Other"):
        registry.kind(GROUP, kind, hub="v1")
    both = registry.freeze()
    found = conversions_by_crd(both, [CRD])
    assert found.keys() == {CRD_NAME, f"others.{GROUP}"}
    assert [list(each.kinds) for each in found.values()] == [[(GROUP, "Gateway")], [(GROUP, "Other")]]


@pytest.mark.parametrize(
    ("kind", "plural"),
    [
        ("Gateway", "gateways"),
        ("Policy", "policies"),
        ("Ingress", "ingresses"),
        ("Box", "boxes"),
        ("Branch", "branches"),
        ("CloudProfile", "cloudprofiles"),
    ],
)
def test_without_a_crd_the_plural_is_that_of_an_english_word(kind: str, plural: str) -> None:
    """The route of a kind without CRD has the plural in its path."""
    registry = Registry()
    registry.kind("x.dev", kind, hub="v1")
    assert list(conversions_by_crd(registry.freeze())) == [f"{plural}.x.dev"]


def test_the_crds_name_counts_where_it_is_known() -> None:
    """Plurals are free to be anything."""
    assert list(conversions_by_crd(graph, [CRD])) == [CRD_NAME]
    assert graph.kind(GROUP, KIND) is conversions_by_crd(graph, [CRD])[CRD_NAME].kind(GROUP, KIND)


def test_log_lines_are_json_and_few(caplog: pytest.LogCaptureFixture) -> None:
    """An API server that asks ten times a second about the same object must not fill the disk."""
    held = HeldClock()
    request_log = RateLimitedLog(held.clock())
    with caplog.at_level(logging.WARNING):
        for number in range(100):
            request_log.add("failed", number=number)
        held.seconds += 1.5
        request_log.add("failed", number=100)
        request_log.add("failed", number=101)
        held.seconds += 1000
        for number in range(102, 202):
            request_log.add("failed", number=number)
    lines = [json.loads(each.message) for each in caplog.records]
    assert [line["number"] for line in lines] == [*range(10), 100, *range(102, 112)]
    assert [line.get("left_out_before") for line in lines] == [None] * 10 + [90, 1] + [None] * 9


def test_of_each_reason_to_refuse_there_is_a_line_a_minute(caplog: pytest.LogCaptureFixture) -> None:
    """The log has to show an attack and its source, and an attack must not fill the log."""
    held = HeldClock()
    request_log = RateLimitedLog(held.clock())
    with caplog.at_level(logging.WARNING):
        for number in range(1000):
            request_log.tell("overload", f"10.0.0.{number % 7}", "busy")
        request_log.tell("no-review", "")
        held.seconds += 59
        request_log.look()
        held.seconds += 2
        request_log.look()
        held.seconds += 100
        request_log.look()
    assert [json.loads(each.message) for each in caplog.records] == [
        {"event": "refused", "why": "overload", "peer": "10.0.0.0", "count": 1, "message": "busy"},
        {"event": "refused", "why": "no-review", "count": 1},
        {"event": "refused", "why": "overload", "peer": "10.0.0.5", "count": 999, "message": "busy"},
    ]


@pytest.mark.parametrize(
    ("status", "headers"),
    [
        (HTTPStatus.SERVICE_UNAVAILABLE, {"Retry-After": "1"}),
        (HTTPStatus.TOO_MANY_REQUESTS, {"Retry-After": "1"}),
        (HTTPStatus.BAD_REQUEST, {}),
        (HTTPStatus.METHOD_NOT_ALLOWED, {"Allow": "POST"}),
    ],
)
def test_a_refusal_is_what_an_api_server_understands(status: HTTPStatus, headers: dict[str, str]) -> None:
    """API servers show the message of a Status, and retry only after an integer Retry-After."""
    refusal = Refusal(status, "why", "a sentence")
    document = json.loads(refusal.body)
    assert (document["kind"], document["apiVersion"], document["status"]) == ("Status", "v1", "Failure")
    assert (document["message"], document["code"]) == ("a sentence", status)
    assert dict(refusal.headers) == headers


@pytest.mark.skipif(not socket.has_dualstack_ipv6(), reason="there is no IPv6 here")
def test_an_ipv6_address_may_stand_in_brackets() -> None:
    """As in a URL: so people write them."""
    with bind("[::1]", 0) as listener:
        assert listener.getsockname()[0] == "::1"
