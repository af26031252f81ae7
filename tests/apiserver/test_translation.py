"""Ownership carried through a conversion webhook: every manager owns of the new version what it owned of the old one.

The proof is what managers do next: once the old version has left the CRD each applies its configuration, written at the
new version, without force, and nothing changes; and a field that it then leaves out goes away.
"""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from aiohttp import web

from restow.controlplane.etcd import Etcd
from restow.kube.client import HttpCluster
from restow.migrator import CrdReport, Migration, MigrationReport, Options, Scope, plan, read_crd
from restow.migrator.model.report import MigrationResult
from tests.apiserver.catalogs import CatalogKind, converted, typed
from tests.apiserver.kind import Document, Impatient, entry_versions, owners, without_bookkeeping
from tests.apiserver.proxy import Fault, Proxy, Seen
from tests.apiserver.webhook import Webhook, never

COUNT = 5

ALICE = {
    "host": "a.local",
    "zones": ["a", "b"],
    "versions": [{"version": "1.1", "classification": "supported", "expirationDate": "2031-01-01T00:00:00Z"}],
}
ALICE_V2 = {
    "address": "a.local",
    "zones": ["a", "b"],
    "versions": [
        {
            "version": "1.1",
            "lifecycle": [
                {"classification": "supported"},
                {"classification": "expired", "startTime": "2031-01-01T00:00:00Z"},
            ],
        }
    ],
}
BOB = {"suspended": False, "versions": [{"version": "1.2", "classification": "preview"}]}
BOB_V2 = {"paused": False, "versions": [{"version": "1.2", "lifecycle": [{"classification": "preview"}]}]}
STATUS = {"phase": "Ready", "conditions": [{"type": "Ready", "status": "True"}, {"type": "Synced", "status": "False"}]}
STATUS_V2 = {"state": "Ready", "conditions": STATUS["conditions"]}
RICH = {
    "versions": [
        {
            "version": "1.2",
            "lifecycle": [
                {"classification": "preview"},
                {"classification": "supported", "startTime": "2030-01-01T00:00:00Z"},
            ],
        }
    ]
}
"""What carol says of a version, at v2: more than v1 can show."""


@pytest.fixture
async def kind(cluster: HttpCluster, etcd: Etcd, group: str, webhook: Webhook) -> AsyncIterator[CatalogKind]:
    """Catalogs stored at v1; v2 is served too."""
    made = CatalogKind(cluster, etcd, group, webhook)
    await made.create(made.document(storage="v1"))
    yield made
    webhook.fails = never
    webhook.converts = converted
    await made.remove()


async def populate(kind: CatalogKind, count: int = COUNT) -> dict[str, Document]:
    """Objects of two appliers, a status applier and an editor at v1."""
    for number in range(count):
        name = f"w{number}"
        await kind.apply(kind.manifest("v1", name, spec=ALICE, metadata={"annotations": {"alice": "here"}}), "alice")
        await kind.apply(kind.manifest("v1", name, spec=BOB), "bob")
        await kind.apply(kind.manifest("v1", name, status=STATUS), "ctl", subresource="status")
        change = {"metadata": {"labels": {"edited": "yes"}}, "spec": {"size": 9, "endpoint": {"name": "e", "port": 1}}}
        await kind.merge("v1", name, change, "editor")
    return await kind.stored()


async def migrate(cluster: HttpCluster, kind: CatalogKind, **options: object) -> CrdReport:
    """Migrate one kind without any wait."""
    chosen = Options(settle_s=0.0, patience_s=0.0, **options)  # type: ignore[arg-type]
    return await Migration(cluster, chosen, chance=Impatient()).migrate(kind.name)


V_1_1 = '/f:spec/f:versions/k:{"version":"1.1"}'
V_1_2 = '/f:spec/f:versions/k:{"version":"1.2"}'
ALICE_OWNS = {
    "/f:metadata/f:annotations/f:alice",
    "/f:spec/f:address",
    '/f:spec/f:zones/v:"a"',
    '/f:spec/f:zones/v:"b"',
    V_1_1,
    f"{V_1_1}/f:version",
    f'{V_1_1}/f:lifecycle/k:{{"classification":"supported"}}',
    f'{V_1_1}/f:lifecycle/k:{{"classification":"supported"}}/f:classification',
    f'{V_1_1}/f:lifecycle/k:{{"classification":"expired"}}',
    f'{V_1_1}/f:lifecycle/k:{{"classification":"expired"}}/f:classification',
    f'{V_1_1}/f:lifecycle/k:{{"classification":"expired"}}/f:startTime',
}
BOB_OWNS = {
    "/f:spec/f:paused",
    V_1_2,
    f"{V_1_2}/f:version",
    f'{V_1_2}/f:lifecycle/k:{{"classification":"preview"}}',
    f'{V_1_2}/f:lifecycle/k:{{"classification":"preview"}}/f:classification',
}
CTL_OWNS = {
    "/f:status/f:state",
    *(
        f'/f:status/f:conditions/k:{{"type":"{name}"}}{field}'
        for name in ("Ready", "Synced")
        for field in ("", "/f:type", "/f:status")
    ),
}
EDITOR_OWNS = {
    "/f:metadata/f:labels",
    "/f:metadata/f:labels/f:edited",
    "/f:spec/f:size",
    "/f:spec/f:endpoint",
    "/f:spec/f:endpoint/f:name",
    "/f:spec/f:endpoint/f:port",
}
OWNED = {
    ("alice", "Apply", ""): ALICE_OWNS,
    ("bob", "Apply", ""): BOB_OWNS,
    ("ctl", "Apply", "status"): CTL_OWNS,
    ("editor", "Update", ""): EDITOR_OWNS,
}


def stored_at_v2(before: Document) -> Document:
    """What has to be stored of an object that was stored at v1."""
    return without_bookkeeping(converted(before, before["apiVersion"].replace("v1", "v2")))


async def every_manager_applies_on(kind: CatalogKind, name: str) -> None:
    """Apply each manager's configuration at v2, then a smaller one."""
    version = (await kind.get("v2", name))["metadata"]["resourceVersion"]
    mine = {"metadata": {"annotations": {"alice": "here"}}}
    for applied in (
        await kind.apply(kind.manifest("v2", name, spec=ALICE_V2, **mine), "alice"),
        await kind.apply(kind.manifest("v2", name, spec=BOB_V2), "bob"),
        await kind.apply(kind.manifest("v2", name, status=STATUS_V2), "ctl", subresource="status"),
    ):
        assert applied["metadata"]["resourceVersion"] == version
    smaller = {"zones": ["b"], "versions": [{"version": "1.1", "lifecycle": [{"classification": "supported"}]}]}
    applied = await kind.apply(kind.manifest("v2", name, spec=smaller), "alice")
    assert "address" not in applied["spec"] and "annotations" not in applied["metadata"]
    assert applied["spec"]["zones"] == ["b"]
    assert applied["spec"]["versions"][0]["lifecycle"] == [{"classification": "supported"}]
    assert [item["version"] for item in applied["spec"]["versions"]] == ["1.1", "1.2"]
    applied = await kind.apply(kind.manifest("v2", name, spec={"paused": False}), "bob")
    assert [item["version"] for item in applied["spec"]["versions"]] == ["1.1"]
    one = {"conditions": [{"type": "Ready", "status": "True"}]}
    applied = await kind.apply(kind.manifest("v2", name, status=one), "ctl", subresource="status")
    assert applied["status"] == one
    assert applied["spec"]["size"] == 9 and applied["spec"]["endpoint"] == {"name": "e", "port": 1}


@pytest.mark.parametrize("converts", [converted, typed], ids=["tidy converter", "typed converter"])
async def test_every_manager_owns_at_the_new_version_what_it_owned_and_applies_on(
    kind: CatalogKind, cluster: HttpCluster, webhook: Webhook, converts: object
) -> None:
    """A field too few would stay for ever, one too many be defended against its owner, an entry left fail any apply."""
    webhook.converts = converts  # type: ignore[assignment]
    before = await populate(kind)
    await kind.change(kind.document(storage="v2"))
    planned = await plan(cluster, await read_crd(cluster, kind.name), Options())
    report = await migrate(cluster, kind)
    assert report.pruned and not report.stripped_owners and not report.kept_owners, report.to_json()
    assert (report.objects.translated, report.objects.remaining, report.requests.write) == (COUNT, 0, COUNT)
    assert planned.translations == COUNT * len(OWNED)
    assert 0 < report.conversions <= planned.conversions
    after = await kind.stored()
    for key, found in after.items():
        assert without_bookkeeping(found) == stored_at_v2(before[key])
        assert entry_versions(found) == {"v2"}
        assert owners(found) == OWNED
    await kind.change(kind.document(storage="v2", versions=("v2",)))
    for number in range(COUNT):
        await every_manager_applies_on(kind, f"w{number}")


async def test_a_stash_is_nobodys_and_gives_nobody_a_field(kind: CatalogKind, cluster: HttpCluster) -> None:
    """bob, at v1, never said what carol says at v2 of the same list item: he must not come to own her stage."""
    await populate(kind, 1)
    await kind.apply(kind.manifest("v2", "w0", spec=RICH), "carol")
    await kind.change(kind.document(storage="v2"))
    carols = owners((await kind.stored())["default/w0"])["carol", "Apply", ""]
    report = await migrate(cluster, kind)
    assert report.complete and report.objects.translated == 1, report.to_json()
    found = (await kind.stored())["default/w0"]
    assert owners(found) == OWNED | {("carol", "Apply", ""): carols}
    await kind.change(kind.document(storage="v2", versions=("v2",)))
    smaller = {"versions": [{"version": "1.2", "lifecycle": [{"classification": "preview"}]}]}
    applied = await kind.apply(kind.manifest("v2", "w0", spec=smaller), "carol")
    assert applied["spec"]["versions"][1]["lifecycle"] == [{"classification": "preview"}]


DEBUG = {"debug": "all", "size": 3}


async def test_what_the_new_version_cannot_say_stays_while_it_is_served(
    kind: CatalogKind, cluster: HttpCluster
) -> None:
    """dora's clients at v1 still need her entry: cut down to what v2 knows, the next apply would not remove debug."""
    await kind.apply(kind.manifest("v1", "w", spec=ALICE), "alice")
    await kind.apply(kind.manifest("v1", "w", spec=DEBUG), "dora")
    await kind.change(kind.document(storage="v2"))
    before = await kind.get("v2", "w")
    report = await migrate(cluster, kind)
    assert report.pruned and report.kept_owners == {("dora", f"{kind.group}/v1"): 1}
    assert (report.objects.translated, report.objects.remaining, report.objects.stripped) == (1, 1, 0)
    found = await kind.get("v2", "w")
    [hers] = [entry for entry in before["metadata"]["managedFields"] if entry["manager"] == "dora"]
    assert hers in found["metadata"]["managedFields"] and entry_versions(found) == {"v1", "v2"}
    applied = await kind.apply(kind.manifest("v1", "w", spec={"size": 3}), "dora")
    assert "debug" not in applied["spec"]


@pytest.mark.parametrize("removed", [False, True], ids=["unserved", "removed"])
async def test_what_the_new_version_cannot_say_is_cut_off_once_no_client_needs_it(
    kind: CatalogKind, cluster: HttpCluster, removed: bool
) -> None:
    """An entry of a version that is not served stops every apply once it is gone: what is cut off must be told."""
    await kind.apply(kind.manifest("v1", "w", spec=ALICE), "alice")
    await kind.apply(kind.manifest("v1", "w", spec=DEBUG), "dora")
    await kind.change(kind.document(storage="v2"))
    await migrate(cluster, kind, scope=Scope.REMOVED)
    assert entry_versions(await kind.get("v2", "w")) == {"v1"}
    await kind.change(kind.document(storage="v2", served=("v2",), versions=("v2",) if removed else ("v1", "v2")))
    report = await migrate(cluster, kind)
    assert report.stripped_owners == {("dora", f"{kind.group}/v1"): 1} and not report.kept_owners
    found = owners((await kind.stored())["default/w"])
    assert found["dora", "Apply", ""] == {"/f:spec/f:size"}
    assert found["alice", "Apply", ""] == ALICE_OWNS - {"/f:metadata/f:annotations/f:alice"}
    assert entry_versions((await kind.stored())["default/w"]) == {"v2"}


async def test_a_removed_version_that_the_webhook_still_knows_is_translated(
    kind: CatalogKind, cluster: HttpCluster
) -> None:
    """The API server itself cannot convert to it any more and answers 500 to every apply; the webhook can."""
    await populate(kind)
    await kind.change(kind.document(storage="v2"))
    await migrate(cluster, kind, scope=Scope.REMOVED)
    await kind.change(kind.document(storage="v2", versions=("v2",)))
    report = await migrate(cluster, kind)
    assert (report.objects.translated, report.objects.stripped) == (COUNT, 0), report.to_json()
    for found in (await kind.stored()).values():
        assert entry_versions(found) == {"v2"} and owners(found) == OWNED
    await every_manager_applies_on(kind, "w0")


async def test_a_removed_version_that_the_webhook_forgot_is_stripped(
    kind: CatalogKind, cluster: HttpCluster, webhook: Webhook
) -> None:
    """Nobody can say any more what the entries own; what is below metadata is the same in every version, and stays."""
    await populate(kind, 2)
    await kind.change(kind.document(storage="v2"))
    await migrate(cluster, kind, scope=Scope.REMOVED)
    await kind.change(kind.document(storage="v2", versions=("v2",)))
    webhook.fails = lambda _found, desired: desired == "v1"
    report = await migrate(cluster, kind)
    assert report.complete and report.objects.stripped == 2
    assert report.stripped_owners == {(manager, f"{kind.group}/v1"): 2 for manager, _how, _sub in OWNED}
    for found in (await kind.stored()).values():
        assert owners(found) == {
            ("alice", "Apply", ""): {"/f:metadata/f:annotations/f:alice"},
            ("editor", "Update", ""): {"/f:metadata/f:labels", "/f:metadata/f:labels/f:edited"},
        }


async def test_an_object_that_the_webhook_fails_for_fails_and_the_others_go_on(
    kind: CatalogKind, cluster: HttpCluster, webhook: Webhook
) -> None:
    """A review fails as a whole: taken for the failure of all its objects, one broken object would stop a migration."""
    before = await populate(kind)
    await kind.change(kind.document(storage="v2"))
    webhook.fails = lambda found, desired: found["metadata"]["name"] == "w2" and desired == "v1"
    report = await migrate(cluster, kind)
    [failure] = report.failures
    assert (failure.name, failure.reason) == ("w2", "CannotConvert") and "out of order" in failure.message
    assert not report.pruned and report.objects.translated == COUNT - 1
    after = await kind.stored()
    assert after["default/w2"] == before["default/w2"]
    assert all(owners(found) == OWNED for key, found in after.items() if key != "default/w2")
    webhook.fails = never
    assert (await migrate(cluster, kind)).pruned
    assert owners((await kind.stored())["default/w2"]) == OWNED


async def test_a_webhook_that_is_down_is_told_of_and_nothing_is_lost(kind: CatalogKind, cluster: HttpCluster) -> None:
    """Each of a million objects waiting for it in vain would take weeks; stripping instead would lose their owners."""
    before = await populate(kind)
    await kind.change(kind.document(storage="v2"))
    report = await migrate(cluster, kind, conversion_url="https://127.0.0.1:1")
    assert MigrationReport((report,)).result is MigrationResult.UNREACHABLE and not report.pruned
    assert report.unreachable == f"the conversion webhook of {kind.name}"
    assert "the conversion webhook" in report.unfinished and "cannot be reached" in report.unfinished
    assert "--registry" in report.unfinished and report.requests.review <= 10
    assert await kind.stored() == before


async def test_a_webhook_that_asks_to_wait_is_asked_again(
    kind: CatalogKind, cluster: HttpCluster, webhook: Webhook
) -> None:
    """A webhook that restarts in mid-run answers 503 for a moment, as the API server's own calls know."""
    await populate(kind, 2)
    await kind.change(kind.document(storage="v2"))
    answers = [web.Response(status=503, headers={"Retry-After": "0"}), web.Response(status=500, text="starting")]
    webhook.instead = lambda _request: answers.pop() if answers else None
    report = await migrate(cluster, kind)
    assert report.pruned and report.objects.translated == 2 and report.requests.retried == 2, report.to_json()


async def test_an_object_that_breaks_the_webhook_does_not_stop_the_others(
    kind: CatalogKind, cluster: HttpCluster, webhook: Webhook
) -> None:
    """A handler that panics closes the connection; which object it was, only halving the review can tell."""
    await populate(kind)
    await kind.change(kind.document(storage="v2"))

    def panics(request: web.Request) -> None:
        if any(found["metadata"]["name"] == "w2" for found in webhook.asked[-1].objects):
            assert request.transport is not None
            request.transport.abort()

    webhook.instead = panics
    report = await migrate(cluster, kind)
    [failure] = report.failures
    assert (failure.name, failure.reason) == ("w2", "CannotConvert"), report.to_json()
    assert report.objects.translated == COUNT - 1


async def test_full_pages_go_into_few_reviews(kind: CatalogKind, cluster: HttpCluster, webhook: Webhook) -> None:
    """A review for each object would be as slow as the API server's own LIST."""
    await populate(kind, 4)
    await kind.change(kind.document(storage="v2"))
    report = await migrate(cluster, kind)
    assert [(each.desired, len(each.objects)) for each in webhook.asked] == [
        ("v1", 4),
        ("v2", 4 * len(OWNED)),
        ("v2", 4),  # one owner's part has a field that may be made up
        ("v1", 4 * 2),  # two other owners' fields only moved
        ("v1", 4),
    ]
    assert report.requests.review == 5 and report.conversions == sum(len(each.objects) for each in webhook.asked)
    assert all("managedFields" not in found["metadata"] for each in webhook.asked for found in each.objects)


async def test_an_object_that_changes_before_its_write_is_translated_again(
    kind: CatalogKind, proxy: Proxy, through_proxy: HttpCluster
) -> None:
    """What was converted is what was listed: written over a newer object it would give back what somebody took."""
    await populate(kind, 1)
    await kind.change(kind.document(storage="v2"))
    done = False

    async def hook(seen: Seen) -> Fault | None:
        nonlocal done
        if seen.is_write and not done:
            done = True
            await kind.apply(kind.manifest("v1", "w0", spec={"host": "b.local"}), "alice")
        return None

    proxy.hook = hook
    report = await migrate(through_proxy, kind)
    assert report.complete and report.objects.translated == 1
    found = owners((await kind.stored())["default/w0"])
    assert found == OWNED | {("alice", "Apply", ""): {"/f:spec/f:address"}}


async def test_objects_with_nothing_to_translate_cost_no_conversion(
    kind: CatalogKind, cluster: HttpCluster, webhook: Webhook
) -> None:
    """After the first run every further one would load the webhook for nothing."""
    await populate(kind, 2)
    await kind.change(kind.document(storage="v2"))
    assert (await migrate(cluster, kind)).conversions > 0
    webhook.asked.clear()
    await kind.apply(kind.manifest("v1", "w0", metadata={"labels": {"only": "this"}}), "erin")
    report = await migrate(cluster, kind, ignore_mark=True)
    assert report.complete and report.objects.translated == 1 and report.conversions == 0 and not webhook.asked
