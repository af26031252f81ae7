"""What an embedder's Observer or Converter raises: one exception that names it, after a run that ended in order."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from restow.cli.registries import GraphConverter
from restow.controlplane.etcd import Etcd
from restow.crds import Crd
from restow.kube.client import HttpCluster
from restow.migrator import (
    CallbackFailed,
    CrdReport,
    Migration,
    MigrationDetails,
    MigrationEvent,
    Migrator,
    Options,
    plan,
    read_crd,
)
from restow.migrator.model.callbacks import Moment
from tests.apiserver.catalog_conversions import registry_for
from tests.apiserver.catalogs import CatalogKind
from tests.apiserver.kind import Kind
from tests.apiserver.test_translation import COUNT, populate
from tests.apiserver.webhook import Webhook

SECRET = "s3cr3t"
NOW = Options(settle_s=0.0, page_size=2)


@pytest.fixture
async def catalogs(cluster: HttpCluster, etcd: Etcd, group: str, webhook: Webhook) -> AsyncIterator[CatalogKind]:
    """Catalogs with owners at v1, stored at v2 from now on."""
    made = CatalogKind(cluster, etcd, group, webhook)
    await made.create(made.document(storage="v1"))
    await populate(made)
    await made.change(made.document(storage="v2"))
    yield made
    await made.remove()


class Faulty:
    """Converts as it should until its second page."""

    def __init__(self, inner: GraphConverter, fault: str) -> None:
        self._inner = inner
        self._fault = fault
        self._asked = 0

    def __call__(self, _crd: Crd) -> Faulty:
        """Give itself."""
        if self._fault == "gives nothing":
            raise KeyError(SECRET)
        return self

    async def convert(self, objects: Sequence[Any], api_version: str) -> Any:
        """Convert, or not."""
        self._asked += 1
        answers = [*await self._inner.convert(objects, api_version)]
        if self._asked > 2:
            match self._fault:
                case "raises":
                    raise KeyError(SECRET)
                case "answers for fewer":
                    return answers[1:]
                case "answers with nothing":
                    return [None for _ in answers]
        return answers


async def test_a_converter_that_fails_ends_the_run_in_order_and_by_name(
    catalogs: CatalogKind, cluster: HttpCluster
) -> None:
    """In a group of exceptions the report is lost, and with it what was written; a report alone hides the error."""
    crd = await read_crd(cluster, catalogs.name)
    inner = GraphConverter(registry_for(catalogs.group).freeze([crd]))
    faults = {"raises": KeyError, "answers for fewer": TypeError, "answers with nothing": TypeError}
    for fault, cause in {**faults, "gives nothing": KeyError}.items():
        with pytest.raises(CallbackFailed, match=rf"test_callbacks\.Faulty\S* raised {cause.__name__}") as caught:
            await Migration(cluster, NOW, converters=Faulty(inner, fault)).run([catalogs.name])
        assert type(caught.value.__cause__) is cause
        assert SECRET not in str(caught.value)
        [report] = caught.value.reports
        assert (report.pruned, report.complete, report.objects.failed) == (False, False, 0)
        assert report.refused or "Faulty.convert raised" in report.unfinished
        assert await catalogs.stored_versions() == ["v1", "v2"]

    planned = await plan(cluster, crd, NOW, Faulty(inner, "raises"), sample=None)
    assert any("Faulty.convert raised KeyError" in finding.message for finding in planned.findings.listed)
    told: list[MigrationDetails] = []
    migrator = Migrator(cluster, [catalogs.name], NOW, hooks=[told.append], converters=Faulty(inner, "raises"))
    assert (await migrator.reconcile(catalogs.name)).requeue_after
    assert told[-1].event is MigrationEvent.FAILED
    assert "Faulty.convert raised KeyError" in told[-1].message
    done = await Migration(cluster, NOW, converters=Faulty(inner, "")).migrate(catalogs.name)
    assert done.pruned and done.objects.listed == COUNT


class Raising:
    """Observes, and fails at one moment, for the n-th time."""

    def __init__(self, moment: Moment, number: int = 1) -> None:
        self._moment = moment
        self._left = number

    def at(self, moment: Moment, report: CrdReport) -> None:
        """Take note."""
        if moment is self._moment:
            self._left -= 1
            if not self._left:
                raise ValueError(SECRET)


async def test_an_observer_that_fails_ends_the_run_in_order_and_by_name(kind: Kind, cluster: HttpCluster) -> None:
    """A progress bar with a fault must not leave half a migration that says it is whole, nor lose the other half."""
    await kind.populate(5)
    await kind.change(kind.document(storage="v1beta1"))
    for moment, settle in ((Moment.SETTLING, 3600.0), (Moment.WRITING, 0.0), (Moment.PRUNING, 0.0)):
        with pytest.raises(CallbackFailed, match=r"test_callbacks\.Raising\.at raised ValueError$") as caught:
            await Migration(cluster, Options(settle_s=settle), observer=Raising(moment)).migrate(kind.name)
        assert isinstance(caught.value.__cause__, ValueError)
        [report] = caught.value.reports
        assert (report.pruned, report.complete) == (False, False)
        assert "Raising.at raised ValueError" in report.unfinished
        assert await kind.stored_versions() == ["v1alpha1", "v1beta1"]
    with pytest.raises(CallbackFailed) as caught:
        await Migration(cluster, NOW, observer=Raising(Moment.ENDED, 2)).run([kind.name] * 2)
    first, second = caught.value.reports
    assert first.pruned and second.complete, "what was done before the observer failed is told as it is"
