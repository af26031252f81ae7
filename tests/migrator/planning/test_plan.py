"""The numbers of a plan: what is due, how many writes, and the JSON of it."""

from __future__ import annotations

import gc
import json
import tracemalloc
from collections import Counter

import pytest

from restow.kube.cluster import Cluster, Reply, Request
from restow.migrator.model.options import Options, Phase
from restow.migrator.model.report import PlanCheck, PlanFinding, PlanFindings, Requests
from restow.migrator.planning.plan import Measured, MigrationPlan, plan
from restow.migrator.requests.lostfields import LostFields
from tests.memory.stub import StubCluster
from tests.migrator import builders as b

NOTHING: tuple[str, ...] = ()
APPLY = ("identity-apply",)
PATCH = ("combined-patch",)
BOTH = ("identity-apply", "combined-patch")
EMPTY = ("empty-patch",)
OLD = Counter({("example.com/v1", "rename"): 3})


def a_plan(
    steps: dict[tuple[str, ...], int],
    *,
    reencode: bool = False,
    prune: bool = False,
    old: Counter[tuple[str, str]] | None = None,
) -> MigrationPlan:
    """A plan for so many objects by the requests that they need."""
    objects = sum(steps.values())
    return MigrationPlan(
        crd=b.crd(),
        objects=objects,
        steps=Counter(steps),
        reencode=reencode or prune,
        prune=prune,
        entries=old or Counter(),
    )


@pytest.mark.parametrize(
    ("found", "due"),
    [
        (a_plan({}), ()),
        (a_plan({NOTHING: 3}), ()),
        (a_plan({NOTHING: 3}, old=OLD), ()),
        (a_plan({}, prune=True), (Phase.PRUNE,)),
        (a_plan({APPLY: 3}, reencode=True), (Phase.STORAGE,)),
        (a_plan({EMPTY: 3}, prune=True), (Phase.STORAGE, Phase.PRUNE)),
        (a_plan({PATCH: 3}, old=OLD), (Phase.MANAGED_FIELDS,)),
        (a_plan({PATCH: 3}, old=OLD, reencode=True), (Phase.STORAGE, Phase.MANAGED_FIELDS)),
        (a_plan({PATCH: 3}, old=OLD, prune=True), (Phase.STORAGE, Phase.MANAGED_FIELDS, Phase.PRUNE)),
        (a_plan({BOTH: 3}, prune=True), (Phase.STORAGE, Phase.PRUNE)),
        (a_plan({APPLY: 1, PATCH: 1, NOTHING: 1}, old=OLD, reencode=True), (Phase.STORAGE, Phase.MANAGED_FIELDS)),
    ],
    ids=[
        "no objects",
        "all current",
        "entries that stay",
        "only to prune",
        "only to re-encode",
        "to re-encode and prune",
        "only entries",
        "entries and a re-encode without a prune",
        "everything",
        "defaults on objects without managedFields",
        "some of each",
    ],
)
def test_the_due_phases(found: MigrationPlan, due: tuple[Phase, ...]) -> None:
    """A plan that names a phase too few lets a release go out too early; one too many is never done."""
    assert found.due == due


def test_every_request_is_counted() -> None:
    """Objects that need two writes count twice: the number decides on a maintenance window."""
    assert a_plan({NOTHING: 5, APPLY: 3, PATCH: 2, BOTH: 4, EMPTY: 1}).writes == 3 + 2 + 8 + 1


def test_the_json_is_plain_and_sorted() -> None:
    """``restow plan -o json`` must be readable by any program, and equal for equal findings."""
    findings = PlanFindings()
    findings.add(
        PlanFinding(
            check=PlanCheck.OBJECTS, message="w would fail", fails=True, namespace="default", name="w", reason="Invalid"
        )
    )
    findings.add(PlanFinding(check=PlanCheck.FIELDS, message="mind"))
    found = MigrationPlan(
        crd=b.crd(("v1", "v2"), stored=("v1", "v2")),
        objects=5,
        steps=Counter({PATCH: 3, NOTHING: 2}),
        reencode=True,
        entries=Counter({("example.com/v1", "rename"): 3, ("example.com/v0", "drop"): 1}),
        owners=Counter({("helm", "example.com/v1"): 2, ("argocd", "example.com/v1"): 1}),
        stripped=Counter({("helm", "example.com/v0"): 1}),
        remaining=1,
        blocked=2,
        reads=4,
        translations=6,
        conversions=19,
        new_defaults=(".spec.size",),
        lost=LostFields(objects=Counter({".spec.old": 2})),
        findings=findings,
        tried=2,
        rehearsals=1,
        measured=Measured(writes=4, write_s=0.5, conversions=38, conversion_s=1.0, list_s=0.1, concurrency=32),
        prune=True,
        requests=Requests(list=2),
    )
    told = found.to_json()
    assert json.loads(json.dumps(told)) == told
    assert told == {
        "name": "widgets.example.com",
        "storageVersion": "v2",
        "servedVersions": ["v2", "v1"],
        "storedVersions": ["v1", "v2"],
        "strategy": "None",
        "refused": "",
        "unfinished": "",
        "unreachable": "",
        "due": ["storage", "managed-fields", "prune"],
        "objects": 5,
        "requests": {"list": 2, "read": 4, "write": 3},
        "steps": [{"requests": [], "objects": 2}, {"requests": ["combined-patch"], "objects": 3}],
        "entries": [
            {"apiVersion": "example.com/v0", "treatment": "drop", "entries": 1},
            {"apiVersion": "example.com/v1", "treatment": "rename", "entries": 3},
        ],
        "owners": [
            {"manager": "argocd", "apiVersion": "example.com/v1", "objects": 1},
            {"manager": "helm", "apiVersion": "example.com/v1", "objects": 2},
        ],
        "stripped": [{"manager": "helm", "apiVersion": "example.com/v0", "entries": 1}],
        "remaining": 1,
        "blocked": 2,
        "conversions": {"entries": 6, "atMost": 19},
        "newDefaults": [".spec.size"],
        "lostFields": [{"path": ".spec.old", "objects": 2}],
        "findings": [
            {
                "check": "objects",
                "severity": "error",
                "namespace": "default",
                "name": "w",
                "reason": "Invalid",
                "message": "w would fail",
            },
            {"check": "fields", "severity": "warning", "namespace": "", "name": "", "reason": "", "message": "mind"},
        ],
        "moreFindings": {},
        "rehearsed": 2,
        "references": None,
        "cost": {
            "objects": 3,
            "lists": 2,
            "reads": 4,
            "writes": 3,
            "rehearsals": 1,
            "conversions": {"translation": 19, "apiServer": 0},
            "estimate": {"seconds": 0.6, "writesPerSecond": 8.0, "measuredWrites": 4, "concurrency": 32},
        },
    }
    assert found.warnings == ["mind"]


class ManyObjects(StubCluster):
    """An API server with so many pages of two hundred objects each, and no right to anything but to list them."""

    host = "https://many.example.com"

    def __init__(self, pages: int) -> None:
        self._pages = pages

    async def send(self, request: Request) -> Reply:
        if request.verb == "create":
            return Reply(b'{"status": {"allowed": false}}')
        number = int((request.params or {}).get("continue", "0"))
        entry = {"manager": "alice", "operation": "Apply", "apiVersion": "example.com/v1", "fieldsV1": {"f:spec": {}}}
        items = [
            {
                "metadata": {
                    "name": f"w{number}-{each}",
                    "namespace": f"n{number % 7}",
                    "uid": f"{number}-{each}",
                    "resourceVersion": "7",
                    "managedFields": [entry],
                }
            }
            for each in range(200)
        ]
        token = str(number + 1) if number + 1 < self._pages else ""
        return Reply(json.dumps({"metadata": {"resourceVersion": "9", "continue": token}, "items": items}).encode())


async def test_memory_does_not_grow_with_the_objects() -> None:
    """A plan of a hundred thousand objects runs in a small pod, too."""
    kept = b.crd(stored=("v1", "v2"))
    peaks = []
    for pages in (4, 4, 24):  # the first one fills caches
        cluster = ManyObjects(pages)
        gc.collect()
        tracemalloc.start()
        found = await plan(cluster, kept, Options(), sample=50)
        peaks.append(tracemalloc.get_traced_memory()[1])
        tracemalloc.stop()
        assert (found.objects, found.tried, len(found.findings.listed)) == (200 * pages, 0, 7)
    assert peaks[2] < 1.3 * peaks[1]


async def test_it_is_shown_page_by_page() -> None:
    """Whoever waits for a look at many objects is told how far it is."""
    seen: list[int] = []
    cluster: Cluster = ManyObjects(3)  # type: ignore[assignment]
    crd = b.crd(stored=("v1", "v2"))
    await plan(cluster, crd, Options(), observe=lambda found: seen.append(found.objects))
    assert seen == [200, 400, 600]
