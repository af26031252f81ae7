"""CRDs with a conversion webhook: entries that stay next to others that are translated, and a webhook that fails.

What translation makes of each entry is tested in ``test_translation``. Here entries of served versions are out of scope
and have to stay as they are, which takes the webhook: one that fails, at whatever moment, must cost nothing.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable

import pytest

from restow.controlplane.etcd import Etcd
from restow.kube.client import HttpCluster
from restow.kube.errors import ApiError
from restow.kube.resources import CRDS
from restow.migrator import CrdReport, ManagedFields, Migration, MigrationReport, Options, Phase, Scope, plan, read_crd
from restow.migrator.model.report import MigrationResult
from tests.apiserver.kind import Document, Impatient, entry_versions, owners, until, without_bookkeeping
from tests.apiserver.proxy import Fault, Hook, Proxy, Seen
from tests.apiserver.webhook import ConvertedKind, Webhook, never

COUNT = 6


@pytest.fixture
async def kind(cluster: HttpCluster, etcd: Etcd, group: str, webhook: Webhook) -> AsyncIterator[ConvertedKind]:
    """Widgets stored at v1; v0 and v2 are served too."""
    made = ConvertedKind(cluster, etcd, group, webhook)
    await made.create(made.document(storage="v1"))
    yield made
    webhook.fails = never
    await made.remove()


async def populate(kind: ConvertedKind, count: int = COUNT) -> dict[str, Document]:
    """Objects of two appliers (v1, v0), a status applier (v1), and an editor of labels (v1)."""
    for number in range(count):
        name = f"w{number}"
        await kind.apply(kind.manifest("v1", name, spec=ALICE), "alice")
        await kind.apply(kind.manifest("v0", name, spec=BOB, metadata={"annotations": {"bob": "here"}}), "bob")
        await kind.apply(kind.manifest("v1", name, status={"phase": "Ready"}), "ctl", subresource="status")
        await kind.merge("v1", name, {"metadata": {"labels": {"edited": "yes"}}, "spec": {"size": 9}}, "editor")
    return await kind.stored()


ALICE = {"host": "a.local", "parts": [{"name": "a", "count": 1}]}
ALICE_V2 = {"address": "a.local", "parts": [{"name": "a", "count": 1}]}
BOB = {"parts": [{"name": "b", "count": 2}]}


async def migrate(cluster: HttpCluster, kind: ConvertedKind, **options: object) -> CrdReport:
    """Migrate one kind without any wait; entries of served versions are out of scope unless said otherwise."""
    chosen = Options(settle_s=0.0, patience_s=0.0, **{"scope": Scope.UNSERVED, **options})  # type: ignore[arg-type]
    return await Migration(cluster, chosen, chance=Impatient()).migrate(kind.name)


def entries(document: Document, version: str) -> list[str]:
    """The entries of one version, letter by letter."""
    found = document["metadata"].get("managedFields", [])
    return [json.dumps(entry) for entry in found if entry["apiVersion"].endswith(f"/{version}")]


def assert_stored(kind: ConvertedKind, before: dict[str, Document], after: dict[str, Document]) -> None:
    """Every object is stored at v2, converted, and otherwise unchanged (generation among it)."""
    assert after.keys() == before.keys()
    for key, found in after.items():
        assert found["apiVersion"] == f"{kind.group}/v2"
        expected = without_bookkeeping(before[key])
        expected["spec"]["address"] = expected["spec"].pop("host")
        assert without_bookkeeping(found) == expected


async def test_objects_are_rewritten_and_entries_out_of_scope_stay(kind: ConvertedKind, cluster: HttpCluster) -> None:
    """An entry changed in one letter is no longer what its client left; one lost is a conflict to come."""
    before = await populate(kind)
    await kind.change(kind.document(storage="v2"))
    report = await migrate(cluster, kind)
    assert report.pruned and await kind.stored_versions() == ["v2"]
    assert (report.objects.rewritten, report.objects.remaining, report.objects.translated) == (COUNT, COUNT, 0)
    assert not report.stripped_owners
    after = await kind.stored()
    assert_stored(kind, before, after)
    for key, found in after.items():
        assert found["metadata"]["managedFields"] == before[key]["metadata"]["managedFields"]
        assert entries(found, "v1") == entries(before[key], "v1")
    for version, manager, spec in (("v1", "alice", ALICE), ("v0", "bob", BOB)):
        await kind.apply(kind.manifest(version, "w0", spec=spec), manager)
    assert (await kind.get("v2", "w0"))["spec"]["address"] == "a.local"


BOB_OWNS = {
    "/f:metadata/f:annotations/f:bob",
    *(f'/f:spec/f:parts/k:{{"name":"b"}}{field}' for field in ("", "/f:name", "/f:count")),
}


async def test_entries_of_unserved_versions_are_translated_next_to_others(
    kind: ConvertedKind, cluster: HttpCluster
) -> None:
    """The write that moves one entry takes the others along: changed in one letter they are not their clients'."""
    before = await populate(kind)
    await kind.change(kind.document(storage="v2", served=("v1", "v2")))
    planned = await plan(cluster, await read_crd(cluster, kind.name), Options(scope=Scope.UNSERVED))
    report = await migrate(cluster, kind)
    assert report.pruned and not report.stripped_owners and planned.translations == COUNT
    assert 0 < report.conversions <= planned.conversions
    assert (report.objects.translated, report.objects.remaining) == (COUNT, COUNT)
    after = await kind.stored()
    assert_stored(kind, before, after)
    for key, found in after.items():
        assert entries(found, "v1") == entries(before[key], "v1")
        assert entry_versions(found) == {"v1", "v2"}
        assert owners(found)["bob", "Apply", ""] == BOB_OWNS


async def test_of_removed_versions_likewise(kind: ConvertedKind, cluster: HttpCluster) -> None:
    """With an entry of a removed version every apply fails; curing that must not cost those of served versions."""
    before = await populate(kind)
    await kind.change(kind.document(storage="v2"))
    await migrate(cluster, kind, skip=frozenset({Phase.MANAGED_FIELDS}))
    await kind.change(kind.document(storage="v2", versions=("v1", "v2")))
    with pytest.raises(ApiError, match="invalid group/version"):
        await kind.apply(kind.manifest("v1", "w0", spec=ALICE), "alice")
    report = await migrate(cluster, kind)
    assert report.complete and not report.stripped_owners
    after = await kind.stored()
    assert_stored(kind, before, after)
    for key, found in after.items():
        assert entries(found, "v1") == entries(before[key], "v1")
        assert owners(found)["bob", "Apply", ""] == BOB_OWNS
    await kind.apply(kind.manifest("v1", "w0", spec=ALICE), "alice")


async def test_a_list_that_would_become_empty_keeps_a_seed(kind: ConvertedKind, cluster: HttpCluster) -> None:
    """Without any entry the next apply puts all under before-first-apply, and nobody can remove a field again."""
    await kind.apply(kind.manifest("v1", "w", spec=ALICE), "alice")
    await kind.change(kind.document(storage="v2", served=("v2",)))
    report = await migrate(cluster, kind, managed_fields=ManagedFields.STRIP)
    assert report.stripped_owners == {("alice", f"{kind.group}/v1"): 1}
    [seed] = owners((await kind.stored())["default/w"]).items()
    assert seed == (("alice", "Apply", ""), frozenset({"/f:metadata/f:name"}))
    applied = await kind.apply(kind.manifest("v2", "w", spec=ALICE_V2), "alice")
    assert {manager for manager, _operation, _sub in owners(applied)} == {"alice"}
    applied = await kind.apply(kind.manifest("v2", "w", spec={"address": "a.local"}), "alice")
    assert "parts" not in applied["spec"]


async def test_strip_and_strip_served(kind: ConvertedKind, cluster: HttpCluster) -> None:
    """What was asked for: strip drops entries of unserved versions only, with --strip-served all, each reported."""
    before = await populate(kind)
    v0, v1 = f"{kind.group}/v0", f"{kind.group}/v1"
    await kind.change(kind.document(storage="v2", served=("v1", "v2")))
    report = await migrate(cluster, kind, managed_fields=ManagedFields.STRIP)
    assert report.stripped_owners == {("bob", v0): COUNT}
    for key, found in (await kind.stored()).items():
        assert entries(found, "v1") == entries(before[key], "v1") and entry_versions(found) == {"v1"}
    strip_all = {"managed_fields": ManagedFields.STRIP, "strip_served": True, "scope": Scope.NOT_STORAGE}
    report = await migrate(cluster, kind, **strip_all)
    assert report.stripped_owners == {("alice", v1): COUNT, ("ctl", v1): COUNT, ("editor", v1): COUNT}
    assert report.objects.remaining == 0
    after = await kind.stored()
    assert_stored(kind, before, after)
    assert {version for found in after.values() for version in entry_versions(found)} == {"v2"}


async def test_pages_are_smaller(kind: ConvertedKind, proxy: Proxy, through_proxy: HttpCluster) -> None:
    """A page of 500 conversions, one after the other, can take longer than a request may."""
    await populate(kind, 1)
    await kind.change(kind.document(storage="v2"))
    assert (await migrate(through_proxy, kind)).complete
    assert {seen.query["limit"] for seen in proxy.seen if seen.is_list} == {"100"}


@pytest.fixture
async def unlistable(kind: ConvertedKind, webhook: Webhook) -> ConvertedKind:
    """v2 has become the storage version, and one object cannot be converted to it."""
    await populate(kind)
    webhook.fails = lambda found, desired: found["metadata"]["name"] == "w2" and desired == "v2"
    now = (await kind.cluster.get(CRDS, kind.name)).json()
    now["spec"] = kind.document(storage="v2")["spec"]
    await kind.cluster.replace(CRDS, kind.name, json.dumps(now).encode())
    await until(lambda: cannot_be_listed(kind), "the list did not begin to fail")
    return kind


async def cannot_be_listed(kind: ConvertedKind) -> bool:
    """Whether a LIST at v2 fails."""
    try:
        await kind.cluster.list_page(kind.at("v2"), params={"limit": "100"})
    except ApiError:
        return True
    return False


@pytest.mark.parametrize("page_size", [None, 2], ids=["on the first page", "on the second page"])
async def test_an_object_that_cannot_be_converted_ends_the_run(
    unlistable: ConvertedKind, cluster: HttpCluster, webhook: Webhook, page_size: int | None
) -> None:
    """A prune would drop the version of objects that were never seen; the report must say what to look at."""
    kind = unlistable
    before = await kind.stored()
    report = await migrate(cluster, kind, page_size=page_size)
    assert MigrationReport((report,)).result is MigrationResult.FAILED
    assert "could not all be listed" in report.unfinished and "conversion webhook" in report.unfinished
    assert "default/w2 cannot be converted to v2" in report.unfinished
    assert "check that the conversion webhook of" in report.unfinished
    assert not report.pruned and await kind.stored_versions() == ["v0", "v1", "v2"]
    after = await kind.stored()
    assert report.objects.rewritten == (page_size or 0)
    for key, found in after.items():
        assert found["metadata"]["managedFields"] == before[key]["metadata"]["managedFields"]
    webhook.fails = never
    await kind.serves(kind.document(storage="v2"))
    assert (await migrate(cluster, kind)).pruned
    assert_stored(kind, before, await kind.stored())


def at_first_write(act: Callable[[], None], *, dry_run: bool | None = None) -> Hook:
    """A hook that does something just before the first write that is a dry run, or none, or either."""
    done = False

    async def hook(seen: Seen) -> Fault | None:
        nonlocal done
        if seen.is_write and not done and dry_run in (None, "dryRun" in seen.query):
            done = True
            act()
        return None

    return hook


@pytest.mark.parametrize(
    ("failing", "removed"),
    [({"v0", "v1", "v2"}, False), ({"v0", "v1"}, False), ({"v0", "v1", "v2"}, True)],
    ids=["re-encoding", "re-encoding, only entries cannot be converted", "entries of a removed version"],
)
async def test_a_webhook_that_fails_in_mid_run_costs_no_owner(
    kind: ConvertedKind,
    webhook: Webhook,
    proxy: Proxy,
    through_proxy: HttpCluster,
    failing: set[str],
    removed: bool,
) -> None:
    """The server answers a plain write with success, having emptied the managedFields it could not convert."""
    before = await populate(kind)
    await kind.change(kind.document(storage="v2"))
    if removed:
        await migrate(through_proxy, kind, skip=frozenset({Phase.MANAGED_FIELDS}))
        await kind.change(kind.document(storage="v2", versions=("v1", "v2")))

    def fail() -> None:
        webhook.fails = lambda found, desired: desired in failing and found["metadata"]["name"] in ("w1", "w3")

    proxy.hook = at_first_write(fail)
    report = await migrate(through_proxy, kind)
    assert sorted(failure.name for failure in report.failures) == ["w1", "w3"], report.to_json()
    assert not report.pruned and MigrationReport((report,)).result is MigrationResult.FAILED
    after = await kind.stored()
    for name in ("w1", "w3"):
        assert entries(after[f"default/{name}"], "v1") == entries(before[f"default/{name}"], "v1")
        assert entries(after[f"default/{name}"], "v0") == entries(before[f"default/{name}"], "v0")
    webhook.fails = never
    report = await migrate(through_proxy, kind)
    assert report.complete and await kind.stored_versions() == ["v2"]
    after = await kind.stored()
    assert_stored(kind, before, after)
    for key, found in after.items():
        assert entries(found, "v1") == entries(before[key], "v1")
        assert removed is (entries(found, "v0") == [])


@pytest.mark.parametrize("heals", [True, False], ids=["heals", "does not heal"])
async def test_owners_lost_between_rehearsal_and_write_come_back(
    kind: ConvertedKind,
    webhook: Webhook,
    proxy: Proxy,
    through_proxy: HttpCluster,
    heals: bool,
    keeps_owners: bool,
) -> None:
    """The server drops what it was given, and answers with success: a run that did not look would call that done."""
    before = await populate(kind, 1)
    await kind.change(kind.document(storage="v2"))
    await migrate(through_proxy, kind, skip=frozenset({Phase.MANAGED_FIELDS}))
    await kind.change(kind.document(storage="v2", versions=("v1", "v2")))

    def fail() -> None:
        webhook.fails = lambda _found, desired: desired == "v1"

    breaks = at_first_write(fail, dry_run=False)
    writes = 0

    async def hook(seen: Seen) -> Fault | None:
        nonlocal writes
        writes += seen.is_write and "dryRun" not in seen.query
        if heals and writes == 3:
            webhook.fails = never
        return await breaks(seen)

    proxy.hook = hook
    report = await migrate(through_proxy, kind)
    found = (await kind.stored())["default/w0"]
    if heals:
        assert report.complete and report.objects.repaired == 1, report.to_json()
        assert entries(found, "v1") == entries(before["default/w0"], "v1")
        assert owners(found)["bob", "Apply", ""] == BOB_OWNS
    else:
        [failure] = report.failures
        if keeps_owners:
            assert failure.reason == "OwnershipNotTranslated" and "no owner is lost" in failure.message
            assert entries(found, "v1") == entries(before["default/w0"], "v1")
        else:
            assert failure.reason == "OwnershipLost" and "--force-conflicts" in failure.message
            assert "managedFields" not in found["metadata"]
