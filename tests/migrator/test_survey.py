"""The numbers of a plan: what is due, how many writes, and the JSON of it."""

from __future__ import annotations

import json
from collections import Counter

import pytest

from restow.migrator.model import Phase
from restow.migrator.report import Requests
from restow.migrator.survey import Survey
from tests.migrator import builders as b

NOTHING: tuple[str, ...] = ()
APPLY = ("identity-apply",)
PATCH = ("combined-patch",)
BOTH = ("identity-apply", "combined-patch")
EMPTY = ("empty-patch",)
OLD = Counter({("example.com/v1", "rename"): 3})


def a_survey(
    steps: dict[tuple[str, ...], int],
    *,
    reencode: bool = False,
    prune: bool = False,
    old: Counter[tuple[str, str]] | None = None,
) -> Survey:
    """A survey of so many objects by the requests that they need."""
    objects = sum(steps.values())
    return Survey(
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
        (a_survey({}), ()),
        (a_survey({NOTHING: 3}), ()),
        (a_survey({NOTHING: 3}, old=OLD), ()),
        (a_survey({}, prune=True), (Phase.PRUNE,)),
        (a_survey({APPLY: 3}, reencode=True), (Phase.STORAGE,)),
        (a_survey({EMPTY: 3}, prune=True), (Phase.STORAGE, Phase.PRUNE)),
        (a_survey({PATCH: 3}, old=OLD), (Phase.MANAGED_FIELDS,)),
        (a_survey({PATCH: 3}, old=OLD, reencode=True), (Phase.STORAGE, Phase.MANAGED_FIELDS)),
        (a_survey({PATCH: 3}, old=OLD, prune=True), (Phase.STORAGE, Phase.MANAGED_FIELDS, Phase.PRUNE)),
        (a_survey({BOTH: 3}, prune=True), (Phase.STORAGE, Phase.PRUNE)),
        (a_survey({APPLY: 1, PATCH: 1, NOTHING: 1}, old=OLD, reencode=True), (Phase.STORAGE, Phase.MANAGED_FIELDS)),
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
def test_the_due_phases(found: Survey, due: tuple[Phase, ...]) -> None:
    """A plan that names a phase too few lets a release go out too early; one too many is never done."""
    assert found.due == due


def test_every_request_is_counted() -> None:
    """Objects that need two writes count twice: the number decides on a maintenance window."""
    assert a_survey({NOTHING: 5, APPLY: 3, PATCH: 2, BOTH: 4, EMPTY: 1}).writes == 3 + 2 + 8 + 1


def test_the_json_is_plain_and_sorted() -> None:
    """``restow plan -o json`` must be readable by any program, and equal for equal findings."""
    found = Survey(
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
        lost_fields=Counter({".spec.old": 2}),
        warnings=["mind"],
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
        "warnings": ["mind"],
    }
