"""``migrate`` and ``prune`` as functions, against a CRD in memory whose objects an earlier run has proved."""

from __future__ import annotations

import json
from typing import Any

import pytest

from restow.crds import Crd
from restow.kube.cluster import Reply, Request
from restow.kube.errors import NotFound
from restow.kube.resources import CRDS
from restow.migrator import CrdReport, Options, Phase, migrate, prune
from restow.migrator.model.callbacks import Moment
from restow.migrator.model.report import MigrationResult
from tests.migrator import builders as b
from tests.migrator.run.test_end import OneCrd

NAME = "widgets.example.com"


class Proved(OneCrd):
    """A server whose one CRD carries the proof of a complete run; it has no objects to list."""

    async def send(self, request: Request) -> Reply:
        if request.verb == "create":
            return Reply(json.dumps({"status": {"allowed": True}}).encode())
        if request.verb == "get" and request.resource is not None and (request.resource, request.name) != (CRDS, NAME):
            raise NotFound(status=404, verb="GET", target=request.target, message="not found")
        return await super().send(request)


def proved(options: Options) -> Proved:
    """A server after a complete run with these options, on whose CRD someone has named v1 as stored again."""
    crd = b.proved(b.crd(stored=("v1", "v2")), options)
    document = b.crd_document(stored=("v1", "v2"), annotations=crd.annotations, managed_fields=crd.managed_fields)
    assert Crd.from_document(document).annotations == crd.annotations
    return Proved(document)


@pytest.mark.parametrize("verb", [migrate, prune])
async def test_what_an_earlier_run_has_proved_is_pruned_without_a_look_at_objects(verb: Any) -> None:
    """The old version would stay in storedVersions, or each prune would write every object once more."""
    server = proved(Options())
    report = await verb(server, [NAME])
    assert report.result is MigrationResult.SUCCEEDED and report.crds[0].pruned
    assert server.document["status"]["storedVersions"] == ["v2"]
    assert report.crds[0].requests.total == 0


async def test_prune_leaves_managed_fields_alone() -> None:
    """It would wait for, and look at, managedFields that nobody asked it to touch."""
    server = proved(Options(skip=frozenset({Phase.MANAGED_FIELDS})))
    report = await prune(server, [NAME], Options(patience_s=0.0))
    assert report.crds[0].pruned and report.crds[0].requests.total == 0


async def test_a_crd_that_does_not_exist_is_refused_and_the_next_one_is_migrated() -> None:
    """One misspelt name would end the run of all the others, or pass unnoticed."""
    moments: list[tuple[str, Moment]] = []

    class Watching:
        def at(self, moment: Moment, report: CrdReport) -> None:
            moments.append((report.name, moment))

    report = await migrate(proved(Options()), ["gadgets.example.com", NAME], observer=Watching())
    assert report.result is MigrationResult.REFUSED
    assert "there is no CRD 'gadgets.example.com'" in report.crds[0].refused and report.crds[1].pruned
    assert moments == [("gadgets.example.com", Moment.ENDED), (NAME, Moment.ENDED)]
