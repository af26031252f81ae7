"""One object that cannot be converted hides all others: every command names it, and says what to do."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator

import pytest

from restow.controlplane.etcd import Etcd
from restow.kube.client import HttpCluster
from restow.kube.errors import ApiError
from restow.kube.resources import CRDS
from restow.migrator import CrdReport, Migration, Options, plan, read_crd, ready
from restow.migrator.model.callbacks import Moment
from restow.migrator.requests.lister import ListFailed
from tests.apiserver.kind import Impatient, until
from tests.apiserver.proxy import Proxy
from tests.apiserver.webhook import ConvertedKind, Fails, Webhook, never

COUNT = 20


@pytest.fixture
async def kind(cluster: HttpCluster, etcd: Etcd, group: str, webhook: Webhook) -> AsyncIterator[ConvertedKind]:
    """Widgets stored at v1, about to be stored at v2."""
    made = ConvertedKind(cluster, etcd, group, webhook)
    await made.create(made.document(storage="v1"))
    async with asyncio.TaskGroup() as tasks:
        for number in range(COUNT):
            manifest = made.manifest("v1", f"w{number:02}", spec={"host": "a.local"})
            tasks.create_task(made.apply(manifest, "alice"))
    yield made
    webhook.fails = never
    await made.remove()


async def hide(kind: ConvertedKind, webhook: Webhook, fails: Fails) -> None:
    """Make v2 the storage version, with objects that cannot be converted."""
    webhook.fails = fails
    now = (await kind.cluster.get(CRDS, kind.name)).json()
    now["spec"] = kind.document(storage="v2")["spec"]
    await kind.cluster.replace(CRDS, kind.name, json.dumps(now).encode())

    async def hidden() -> bool:
        try:
            await kind.cluster.list_page(kind.at("v2"), params={"limit": "100"})
        except ApiError as error:
            return error.status != 404
        return False

    await until(hidden, "the list did not begin to fail")


def refusing(*names: str) -> Fails:
    """A webhook that converts these objects to no v2."""
    return lambda found, desired: found["metadata"]["name"] in names and desired == "v2"


class Watching:
    """Observes a run: its report as it stands."""

    report = CrdReport(name="")

    def at(self, _moment: Moment, report: CrdReport) -> None:
        self.report = report


async def migrate(cluster: HttpCluster, kind: ConvertedKind, **options: object) -> CrdReport:
    """Migrate without any wait."""
    chosen = Options(settle_s=0.0, patience_s=0.0, **options)  # type: ignore[arg-type]
    return await Migration(cluster, chosen, chance=Impatient()).migrate(kind.name)


@pytest.fixture
def servers(request: pytest.FixtureRequest) -> None:
    """API servers that name objects, or those up to Kubernetes 1.36 that do not."""
    if request.param == "unnamed":
        request.getfixturevalue("unnamed")


@pytest.mark.parametrize("servers", ["as they are", "unnamed"], indirect=True)
@pytest.mark.parametrize("name", ["w00", "w07", "w19"], ids=["first", "in the middle", "last"])
@pytest.mark.usefixtures("servers")
async def test_the_object_is_named_by_every_command(
    name: str, kind: ConvertedKind, webhook: Webhook, cluster: HttpCluster
) -> None:
    """Of a hundred thousand objects nobody finds the one that is broken by hand."""
    await hide(kind, webhook, refusing(name))
    crd = await read_crd(cluster, kind.name)
    named = f"default/{name} cannot be converted to v2. The API server converts every listed object to v2"
    assert named in (await migrate(cluster, kind)).unfinished
    assert named in (await migrate(cluster, kind, page_size=5)).unfinished
    assert named in (await plan(cluster, crd, Options())).unfinished
    with pytest.raises(ListFailed, match=named):
        await ready(cluster, crd, "v1")


async def test_a_selector_does_not_hide_it(kind: ConvertedKind, webhook: Webhook, cluster: HttpCluster) -> None:
    """A list with a selector only says that the storage is initializing: the object need not match."""
    await hide(kind, webhook, refusing("w07"))
    report = await migrate(cluster, kind, selector="not=there")
    assert "default/w07 cannot be converted to v2" in report.unfinished
    assert "out of order for w07" in report.unfinished


@pytest.fixture
def unnamed(monkeypatch: pytest.MonkeyPatch) -> None:
    """API servers up to Kubernetes 1.36 name no object."""
    monkeypatch.setattr("restow.kube.errors._unreadable", lambda _said: {})


@pytest.mark.usefixtures("unnamed")
async def test_several_are_found(kind: ConvertedKind, webhook: Webhook, cluster: HttpCluster) -> None:
    """Whoever repairs one after the other waits for a run each time."""
    await hide(kind, webhook, refusing("w03", "w04", "w11"))
    report = await migrate(cluster, kind)
    assert "default/w03, default/w04, default/w11 and perhaps more cannot be converted to v2" in report.unfinished


@pytest.mark.kubernetes_since("1.37", "the API server names the objects")
async def test_several_that_the_api_server_names_cost_no_search(
    kind: ConvertedKind, webhook: Webhook, cluster: HttpCluster
) -> None:
    """Dozens of lists of an API server in trouble would find out what its answer says."""
    await hide(kind, webhook, refusing("w03", "w04", "w11", "w12"))
    report = await migrate(cluster, kind)
    assert "default/w03, default/w04, default/w11 and 1 more cannot be converted to v2" in report.unfinished
    assert report.requests.list - report.requests.retried == 1


@pytest.mark.usefixtures("unnamed")
async def test_the_search_is_bounded(
    kind: ConvertedKind, webhook: Webhook, cluster: HttpCluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An API server in trouble is not asked for ever; and the sentence does not claim more than was looked at."""
    await hide(kind, webhook, refusing("w07"))
    monkeypatch.setattr("restow.migrator.requests.lister.MOST_REQUESTS", 3)
    report = await migrate(cluster, kind)
    assert "which object cannot be converted to v2 was not found within 3 requests" in report.unfinished


async def test_a_run_that_waits_says_for_what(kind: ConvertedKind, webhook: Webhook, cluster: HttpCluster) -> None:
    """Half a minute without a word is taken for a run that hangs, and the reason is known all the time."""
    await hide(kind, webhook, refusing("w07"))
    watching = Watching()
    migration = Migration(cluster, Options(settle_s=0.0, patience_s=20.0), observer=watching)
    async with asyncio.TaskGroup() as tasks:
        run = tasks.create_task(migration.migrate(kind.name))

        async def waits() -> str:
            return watching.report.waits.sentence()

        told = await until(waits, "it did not say that it waits")
        webhook.fails = never
    assert "s to list the objects again (try " in told and "out of order for w07" in told
    assert run.result().pruned and not watching.report.waits.sentence()


async def test_a_webhook_that_is_down_is_no_object_s_fault(
    kind: ConvertedKind, webhook: Webhook, proxy: Proxy, through_proxy: HttpCluster
) -> None:
    """Naming an object would send on-call after the wrong thing."""
    await hide(kind, webhook, refusing("w07"))
    now = (await kind.cluster.get(CRDS, kind.name)).json()
    now["spec"]["conversion"]["webhook"]["clientConfig"]["url"] = "https://127.0.0.1:1/convert"
    await kind.cluster.replace(CRDS, kind.name, json.dumps(now).encode())

    async def down() -> bool:
        try:
            await kind.cluster.list_page(kind.at("v2"), params={"limit": "1"})
        except ApiError as error:
            return "dial tcp" in error.message
        return False

    await until(down, "the webhook is not down")
    report = await migrate(through_proxy, kind)
    assert "dial tcp" in report.unfinished and "check that the conversion webhook of" in report.unfinished
    assert "cannot be converted" not in report.unfinished
    assert {seen.query["limit"] for seen in proxy.seen if seen.is_list} == {"100"}
