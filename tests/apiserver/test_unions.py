"""Ownership of fields whose place depends on a field of another manager: carried over, and told where it cannot be."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable

import pytest
from aiohttp import web

from restow.controlplane.etcd import Etcd
from restow.kube.client import HttpCluster
from restow.migrator import CrdReport, Migration, Options, Scope, read_crd
from restow.migrator import plan as make_plan
from restow.migrator import ready as ask_ready
from restow.migrator.model.report import PlanCheck
from restow.migrator.planning import dryrun
from restow.migrator.planning.plan import MigrationPlan
from restow.migrator.planning.ready import Readiness
from tests.apiserver.kind import Document, Impatient, entry_versions, owners, without_bookkeeping
from tests.apiserver.unions import UnionKind, converted, defaulting
from tests.apiserver.webhook import Webhook, never, nothing
from tests.restow.commandline import Cli

COUNT = 3
ALICE = {"type": "a", "parts": [{"name": "x", "count": 1}, {"name": "y"}]}
BOB = {"value": "north", "parts": [{"name": "x"}]}
OWNED = {
    ("alice", "Apply", ""): {
        "/f:spec/f:type",
        "/f:spec/f:parts/f:x",
        "/f:spec/f:parts/f:x/f:count",
        "/f:spec/f:parts/f:y",
    },
    ("bob", "Apply", ""): {"/f:spec/f:a/f:value", "/f:spec/f:parts/f:x"},
    ("dave", "Apply", ""): {"/f:spec/f:a/f:value", "/f:spec/f:size"},
    ("ctl", "Apply", "status"): {"/f:status/f:type"},
    ("meter", "Apply", "status"): {"/f:status/f:b/f:level"},
}
MAY = {"served": ("v1", "v2"), "unserved": ("v2",)}


@pytest.fixture
async def kind(cluster: HttpCluster, etcd: Etcd, group: str, webhook: Webhook) -> AsyncIterator[UnionKind]:
    """Unions stored at v1; v2 is served too."""
    made = UnionKind(cluster, etcd, group, webhook)
    await made.create(made.document(storage="v1"))
    yield made
    webhook.fails = never
    webhook.converts = converted
    await made.remove()


async def populate(kind: UnionKind, count: int = COUNT) -> None:
    """Objects whose type alice owns, and whose value bob and dave own; the same for their status."""
    for number in range(count):
        name = f"w{number}"
        await kind.apply(kind.manifest("v1", name, spec=ALICE), "alice")
        await kind.apply(kind.manifest("v1", name, spec=BOB), "bob")
        await kind.apply(kind.manifest("v1", name, spec={"value": "north", "size": 3}), "dave")
        await kind.apply(kind.manifest("v1", name, status={"type": "b"}), "ctl", subresource="status")
        await kind.apply(kind.manifest("v1", name, status={"level": 7}), "meter", subresource="status")


async def migrate(kind: UnionKind, **options: object) -> CrdReport:
    """Migrate without any wait."""
    chosen = Options(settle_s=0.0, patience_s=0.0, **options)  # type: ignore[arg-type]
    return await Migration(kind.cluster, chosen, chance=Impatient()).migrate(kind.name)


async def plan(kind: UnionKind, sample: int | None = None) -> MigrationPlan:
    """Plan, trying all objects unless told otherwise."""
    return await make_plan(kind.cluster, await read_crd(kind.cluster, kind.name), Options(), sample=sample)


@pytest.mark.parametrize("converts", [converted, defaulting], ids=["plain converter", "converter that fills in"])
@pytest.mark.parametrize("served", [("v1", "v2"), ("v2",)], ids=["served", "unserved"])
async def test_a_value_goes_with_its_owner_to_where_another_ones_type_puts_it(
    kind: UnionKind, webhook: Webhook, served: tuple[str, ...], converts: Callable[[Document, str], Document]
) -> None:
    """Stripped, the value would stay for ever: nobody owns it, and its owner's next apply cannot take it away."""
    webhook.converts = converts
    await populate(kind)
    before = await kind.stored()
    await kind.change(kind.document(storage="v2", served=served))
    planned = await plan(kind)
    report = await migrate(kind)
    assert report.pruned and not report.stripped_owners and not report.kept_owners, report.to_json()
    assert not planned.stripped and not planned.findings.listed
    assert 0 < report.conversions <= planned.conversions
    for key, found in (await kind.stored()).items():
        wanted = converts(before[key], before[key]["apiVersion"].replace("v1", "v2"))
        assert without_bookkeeping(found) == without_bookkeeping(wanted)
        assert entry_versions(found) == {"v2"} and owners(found) == OWNED
    webhook.converts = converted
    await kind.change(kind.document(storage="v2", versions=("v2",)))
    version = (await kind.get("v2", "w0"))["metadata"]["resourceVersion"]
    same = {"a": {"value": "north"}, "parts": {"x": {}}}
    applied = await kind.apply(kind.manifest("v2", "w0", spec=same), "bob")
    assert applied["metadata"]["resourceVersion"] == version
    await kind.apply(kind.manifest("v2", "w0", spec={"size": 3}), "dave")
    applied = await kind.apply(kind.manifest("v2", "w0", spec={"parts": {"x": {}}}), "bob")
    assert "value" not in applied["spec"].get("a", {}) and applied["spec"]["type"] == "a"
    applied = await kind.apply(kind.manifest("v2", "w0", spec={"type": "a", "parts": {"x": {"count": 1}}}), "alice")
    assert applied["spec"]["parts"] == {"x": {"count": 1}}
    applied = await kind.apply(kind.manifest("v2", "w0", status={}), "meter", subresource="status")
    assert "level" not in applied["status"].get("b", {}) and applied["status"]["type"] == "b"
    assert not any("f:a" in entry["fieldsV1"].get("f:spec", {}) for entry in applied["metadata"]["managedFields"])


async def test_a_removed_version_that_the_webhook_still_knows(kind: UnionKind) -> None:
    """Its schema is not known any more; what its managers own of the object is."""
    await populate(kind, 1)
    await kind.change(kind.document(storage="v2"))
    await migrate(kind, scope=Scope.REMOVED)
    await kind.change(kind.document(storage="v2", versions=("v2",)))
    planned = await plan(kind)
    report = await migrate(kind)
    assert not report.stripped_owners and not planned.stripped, report.to_json()
    assert owners((await kind.stored())["default/w0"]) == OWNED


# What cannot be carried over is foretold.

DORA = {"debug": "all", "size": 3}


async def of_dora(kind: UnionKind, count: int = COUNT) -> dict[tuple[str, str], int]:
    """Objects of which dora owns what v2 does not have, besides all others; and whose entries those are."""
    await populate(kind, count)
    for number in range(count):
        await kind.apply(kind.manifest("v1", f"w{number}", spec=DORA), "dora")
    await kind.apply(kind.manifest("v1", "alone", spec={"type": "a"}), "alice")
    return {("dora", f"{kind.group}/v1"): count}


def told(found: MigrationPlan) -> list[str]:
    """The sentences about owners."""
    return [finding.message for finding in found.findings.listed if finding.check is PlanCheck.OWNERS]


@pytest.mark.parametrize("removed", [False, True], ids=["unserved", "removed"])
@pytest.mark.parametrize("sample", [None, 100], ids=["all", "sample"])
async def test_a_plan_names_every_owner_that_the_run_then_strips(
    kind: UnionKind, removed: bool, sample: int | None
) -> None:
    """A loss that shows in the run's report alone shows too late: by then nobody owns the field."""
    lost = await of_dora(kind)
    await kind.change(kind.document(storage="v2"))
    await migrate(kind, scope=Scope.REMOVED)
    await kind.change(kind.document(storage="v2", served=("v2",), versions=("v2",) if removed else ("v1", "v2")))
    found = await plan(kind, sample)
    [sentence] = told(found)
    assert found.stripped == lost and not found.findings.fail
    assert "dora" in sentence and "3 objects" in sentence and "a migration would strip the rest" in sentence
    report = await migrate(kind)
    assert report.stripped_owners == lost
    assert not told(await plan(kind, sample))


async def test_a_plan_names_the_owners_that_unserving_would_cost(kind: UnionKind) -> None:
    """While the version is served its owner can still move to another one: once it is not, the field is nobody's."""
    lost = await of_dora(kind)
    await kind.change(kind.document(storage="v2"))
    found = await plan(kind)
    [sentence] = told(found)
    assert not found.stripped and found.remaining == COUNT
    assert "dora" in sentence and "once v1 is not served" in sentence
    assert (await migrate(kind)).kept_owners == lost


async def test_a_sample_has_objects_of_every_owner(kind: UnionKind) -> None:
    """The only object of a manager among thousands alike would be missed most of the time, and its owner with it."""
    await populate(kind, 6)
    await kind.apply(kind.manifest("v1", "w4", spec=DORA), "dora")
    await kind.change(kind.document(storage="v2", served=("v2",)))
    assert (await plan(kind, 2)).stripped == {("dora", f"{kind.group}/v1"): 1}


async def test_what_a_sample_does_not_try_is_left_open(kind: UnionKind, cli: Cli) -> None:
    """A plan that looked at some objects must not sound as if it had looked at all."""
    await of_dora(kind)
    await kind.change(kind.document(storage="v2", served=("v2",)))
    for sample, open_ in ((0, True), (1, True), (COUNT + 1, False), ("all", False)):
        ran = await cli("plan", kind.name, "--sample", str(sample))
        assert ("plan --sample all finds out" in ran.err) is open_, ran.err


async def test_ready_names_the_owners_that_a_migration_would_strip(kind: UnionKind, webhook: Webhook, cli: Cli) -> None:
    """Whoever asks whether a version may go must hear what goes with it, before it is unserved and after."""
    await of_dora(kind)
    await kind.change(kind.document(storage="v2"))
    for served in (("v1", "v2"), ("v2",)):
        await kind.change(kind.document(storage="v2", served=served))
        answer = await ready(kind)
        assert answer.would_strip == {"dora": COUNT} and answer.tried == COUNT + 1
        [note] = [each for each in answer.notes if "strip" in each]
        assert "dora (3)" in note and f"all {COUNT + 1} objects" in note and "alice" not in note
    ran = await cli("ready", kind.name, "--drop", "v1", "-o", "json")
    assert ran.json["wouldStrip"] == [{"manager": "dora", "entries": COUNT}]
    assert (await migrate(kind)).stripped_owners == {("dora", f"{kind.group}/v1"): COUNT}
    asked = len(webhook.asked)
    answer = await ready(kind)
    assert answer.ready and not answer.would_strip and len(webhook.asked) == asked


async def test_ready_tries_a_few_objects_of_very_many(kind: UnionKind, monkeypatch: pytest.MonkeyPatch) -> None:
    """An answer to a question must not load a webhook as much as the migration; and it says what it rests on."""
    monkeypatch.setattr(dryrun, "MOST_TRIED", 2)
    await of_dora(kind)
    await kind.change(kind.document(storage="v2"))
    answer = await ready(kind)
    assert answer.tried == 2 and "dora" in answer.would_strip
    assert any(f"2 of {COUNT + 1} objects" in note for note in answer.notes)


async def test_ready_says_that_it_could_not_find_out(kind: UnionKind, webhook: Webhook) -> None:
    """Silence would be taken for a promise that nothing is lost; the cause of a loss has to be repaired first."""
    await of_dora(kind, 2)
    await kind.change(kind.document(storage="v2"))
    webhook.instead = lambda _request: web.Response(status=400)
    for why in ("the conversion webhook", "none of the 3 objects tried"):
        answer = await ready(kind)
        assert not answer.would_strip and not answer.tried
        [note] = [each for each in answer.notes if "could not be found out" in each]
        assert why in note
        webhook.instead, webhook.fails = nothing, lambda _found, desired: desired == "v1"


async def ready(kind: UnionKind) -> Readiness:
    """Look afresh."""
    return await ask_ready(kind.cluster, await read_crd(kind.cluster, kind.name), "v1")
