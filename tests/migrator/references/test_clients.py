"""Clients: requests that the API server counted, and users of an audit log."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from restow.migrator.references.readers.clients import LONGEST_LINE, MOST_CLIENTS, client_references
from restow.migrator.references.scan import read_audit_log
from tests.migrator.references.found import WIDGETS


def counter(code: int, verb: str, count: str, version: str = "v1", group: str = "example.com") -> str:
    """A line of the API server's metrics."""
    labels = {"code": code, "component": "apiserver", "dry_run": "", "group": group, "resource": "widgets"}
    labels |= {"scope": "cluster", "subresource": "", "verb": verb, "version": version}
    said = ",".join(f'{name}="{value}"' for name, value in labels.items())
    return f"apiserver_request_total{{{said}}} {count}\n"


METRICS = (
    "# HELP apiserver_request_total Counter\nprocess_start_time_seconds 1.7e+09\n"
    + counter(200, "LIST", "3")
    + counter(429, "LIST", "1e+01")
    + counter(404, "GET", "5")
    + counter(200, "LIST", "9", version="v2")
    + counter(200, "LIST", "9", group="")
)


def test_the_counters_are_summed_by_verb() -> None:
    """One verb has a counter for each code and scope."""
    (found,) = client_references(METRICS, [WIDGETS], "https://a:6443")
    assert (found.name, found.count, found.resource) == ("LIST", 13, "https://a:6443")
    assert "since 2023-11-14T22:13:20Z" in found.detail


GAUGE = (
    'apiserver_requested_deprecated_apis{{group="example.com",removed_release="",resource="widgets",{more}}} {value}\n'
)


def gauge(value: str = "1", version: str = "v1", subresource: str = "") -> str:
    """A line of the API server's metrics about a deprecated version."""
    return GAUGE.format(more=f'subresource="{subresource}",version="{version}"', value=value)


def test_a_deprecated_version_is_told_where_nothing_was_counted() -> None:
    """API servers whose counters are switched off would otherwise look as if no client asked for the version."""
    lines = gauge() + gauge(subresource="status") + gauge(version="v2")
    (found,) = client_references(lines, [WIDGETS], "https://a:6443")
    assert (found.where, found.count) == ("apiserver_requested_deprecated_apis", 1)
    assert "at least one request at this deprecated version" in found.detail
    (counted,) = client_references(METRICS + lines, [WIDGETS], "https://a:6443")
    assert (counted.where, counted.count) == ("apiserver_request_total", 13)
    assert "LIST at this deprecated version" in counted.detail
    assert list(client_references(gauge(value="0"), [WIDGETS], "https://a:6443")) == []


def event(user: str = "alice", **more: Any) -> dict[str, Any]:
    """An audit event."""
    about = {"resource": "widgets", "apiGroup": "example.com", "apiVersion": "v1", "name": "w"}
    made = {"kind": "Event", "apiVersion": "audit.k8s.io/v1", "stage": "ResponseComplete", "verb": "get"}
    made |= {"user": {"username": user}, "userAgent": "kubectl/v1", "objectRef": about}
    return made | {"requestReceivedTimestamp": "2026-01-02T00:00:00.000000Z"} | more


def lines(*events: dict[str, Any]) -> bytes:
    """A log."""
    return b"".join(json.dumps(each).encode() + b"\n" for each in events)


def test_users_and_user_agents_are_told_apart(tmp_path: Path) -> None:
    """Whoever still asks has to be found by name, with the day of the last request."""
    other = {"resource": "widgets", "apiGroup": "example.com", "apiVersion": "v2"}
    log = tmp_path / "audit.log"
    log.write_bytes(
        lines(
            event(stage="RequestReceived"),
            event(),
            event(verb="list", requestReceivedTimestamp="2026-01-03T00:00:00.000000Z"),
            event(objectRef=other),
            event(userAgent="manager/v0"),
            event("bob", objectRef=None),
        )
    )
    references, unread = read_audit_log(log, [WIDGETS])
    assert [(each.name, each.count, each.detail) for each in references] == [
        ("alice", 2, "kubectl/v1: get 1, list 1; first 2026-01-02T00:00:00.000000Z, last 2026-01-03T00:00:00.000000Z"),
        ("alice", 1, "manager/v0: get 1; first 2026-01-02T00:00:00.000000Z, last 2026-01-02T00:00:00.000000Z"),
    ]
    assert unread == []


def test_zipped_logs_are_read(tmp_path: Path) -> None:
    """Rotated logs are gzipped; one that is cut gives what is there, and says so."""
    log = tmp_path / "audit.log.gz"
    log.write_bytes(gzip.compress(lines(event())))
    assert [each.name for each in read_audit_log(log, [WIDGETS])[0]] == ["alice"]
    log.write_bytes(gzip.compress(lines(event()))[:-4])
    _, (missed,) = read_audit_log(log, [WIDGETS])
    assert missed.resource == str(log)


def test_lines_that_cannot_be_read_are_counted(tmp_path: Path) -> None:
    """A log that is cut in the middle of a line must not read like a complete one, nor fill the memory."""
    log = tmp_path / "audit.log"
    long = b'{"widgets": "' + b"x" * LONGEST_LINE + b'"}\n'
    log.write_bytes(b'{"widgets\n' + long + lines(event()) + b"[" * 100_000 + b'"widgets"\n')
    references, unread = read_audit_log(log, [WIDGETS])
    assert [each.name for each in references] == ["alice"]
    assert [each.reason for each in unread] == ["3 lines are no audit events that can be read"]


def test_a_missing_log_is_said(tmp_path: Path) -> None:
    """A mistyped name must not read like "nobody asks"."""
    _, (missed,) = read_audit_log(tmp_path / "none", [WIDGETS])
    assert missed.reason == "No such file or directory"


def test_clients_are_bounded(tmp_path: Path) -> None:
    """User agents with a random part would fill the memory."""
    log = tmp_path / "audit.log"
    log.write_bytes(lines(*(event(f"u{number}") for number in range(MOST_CLIENTS + 50))))
    references, _ = read_audit_log(log, [WIDGETS])
    assert len(references) == MOST_CLIENTS + 1
    assert sum(each.count for each in references) == MOST_CLIENTS + 50
