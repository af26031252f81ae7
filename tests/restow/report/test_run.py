"""Reading back the JSON of a run: what restow writes, older and newer, and what is none."""

from __future__ import annotations

import json

import pytest

from restow.migrator import CrdReport, MigrationReport
from restow.migrator.model.report import ObjectFailure
from restow.report import RunError, parse_run
from restow.report.run import MOST_FAILURES
from tests.restow.report.sample import run_json


def test_what_restow_writes_is_read_back():
    """Both ends must agree on every name; a key that was renamed would be shown as nothing."""
    report = CrdReport(
        name="widgets.example.com",
        storage_version="v1",
        stored_before=("v1beta1", "v1"),
        stored_after=("v1",),
        pruned=True,
        pruned_reason="all done",
        unfinished="stopped",
        refused="no",
        duration_s=1.5,
    )
    report.objects.listed, report.objects.repaired, report.requests.review = 7, 2, 3
    report.fail(ObjectFailure("ns", "name", "Invalid", "why"))
    report.stripped_owners["kubectl", "example.com/v1beta1"] = 4
    report.kept_owners["argocd", "example.com/v1beta1"] = 5
    report.warnings.append("careful")
    run = parse_run(json.dumps(MigrationReport((report,)).to_json()).encode())
    (crd,) = run.crds
    assert (run.result, crd.name, crd.storage_version) == ("Refused", report.name, "v1")
    assert (crd.stored_versions_before, crd.stored_versions_after) == (("v1beta1", "v1"), ("v1",))
    assert (crd.pruned, crd.pruned_reason, crd.unfinished, crd.refused) == (True, "all done", "stopped", "no")
    assert (crd.objects.listed, crd.objects.repaired, crd.requests.review, crd.duration_seconds) == (7, 2, 3, 1.5)
    assert [(each.namespace, each.name, each.reason, each.message) for each in crd.failures] == [
        ("ns", "name", "Invalid", "why")
    ]
    assert [(each.manager, each.api_version, each.entries) for each in crd.stripped_owners] == [
        ("kubectl", "example.com/v1beta1", 4)
    ]
    assert crd.kept_owners[0].entries == 5
    assert crd.warnings == ("careful",)


def test_other_versions_of_restow():
    """Reports are kept; one that lacks a key, or has more, can still be shown."""
    run = parse_run(b'{"result": "Succeeded", "new": 1, "crds": [{"name": "a.example.com", "newer": {"x": []}}]}')
    assert run.crds[0].objects.listed == 0


@pytest.mark.parametrize("text", [b"", b"[]", b"{}", b'{"result": 1, "crds": []}', b"result: Succeeded", b"\xff\xfe"])
def test_what_is_no_report_is_refused(text: bytes):
    """An empty page would look as if nothing had gone wrong."""
    with pytest.raises(RunError, match="no JSON report of restow migrate"):
        parse_run(text)


def test_failures_are_bounded():
    """Ten thousand rows would make a page that no browser likes; the rest is counted."""
    document = run_json()
    document["crds"][0]["failures"] *= 150
    document["crds"][0]["objects"]["failed"] = 12_345
    crd = parse_run(json.dumps(document).encode()).crds[0]
    assert len(crd.shown_failures) == MOST_FAILURES
    assert crd.more_failures == 12_345 - MOST_FAILURES
