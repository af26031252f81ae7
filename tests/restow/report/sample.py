"""A page's worth of data: a cluster in the middle of its journey, with names as unfriendly as clients can make them."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import yaml

from restow.conversion.operate.overview import RulesOverview
from restow.crds import Crd
from restow.migrator import may_be_stored, sought
from restow.migrator.decide.proof import ANNOTATION, proof_of_run
from restow.migrator.model.options import Options
from restow.migrator.ownership.entries import FIELD_MANAGER, ManagedFieldsEntry
from restow.migrator.references.readers.metadata import owner_references
from restow.migrator.references.reference import FoundReferences, NotLookedAt, ReferenceTally
from restow.migrator.requests.wire import object_decoder
from restow.migrator.timeline import check, observe, parse_policy, schedule
from restow.report import PolicyPlan, ReportDocument, RunReport, parse_run
from restow.report.model import CrdView
from restow.report.views import OwnerCounts, profile_view, view

NOW = datetime(2026, 11, 21, 21, 40, tzinfo=UTC)
HOSTILE = "<script>alert('x')</script>\"'><img src=x onerror=alert(1)>"
POLICY = Path(__file__).parents[3] / "docs" / "examples" / "timeline" / "cluster-api.yaml"
STEP = "2026-09-30T08:00:00Z"


def crd(
    plural: str,
    versions: Iterable[str],
    *,
    storage: str,
    stored: Iterable[str],
    served: Iterable[str] | None = None,
    group: str = "example.com",
    established: bool = True,
    proved: bool = True,
) -> Crd:
    """A CRD as an API server shows it, with the proof of a complete run where storedVersions names one version."""
    names = list(versions)
    made = Crd.from_document(
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.{group}"},
            "spec": {
                "group": group,
                "scope": "Namespaced",
                "names": {"plural": plural, "kind": plural.title()},
                "versions": [
                    {"name": name, "served": served is None or name in set(served), "storage": name == storage}
                    for name in names
                ],
            },
            "status": {
                "storedVersions": list(stored),
                "conditions": [{"type": "Established", "status": "True" if established else "False"}],
            },
        }
    )
    proof = proof_of_run(made, made, Options())
    if not proved or proof is None or made.stored_versions != (storage,):
        return made
    fields = {"f:metadata": {"f:annotations": {f"f:{ANNOTATION}": {}}}}
    entry = {"manager": FIELD_MANAGER, "operation": "Update", "fieldsType": "FieldsV1", "fieldsV1": fields}
    return dataclasses.replace(made, annotations={ANNOTATION: proof.encode()}, managed_fields=(entry,))


def tally(of: Crd, *objects: list[tuple[str, str]] | int) -> OwnerCounts:
    """Counts of objects, each given by the (manager, version) of its entries; a number is so many more of the last."""
    made = OwnerCounts(of.storage.api_version)
    entries: list[ManagedFieldsEntry] = []
    for each in objects:
        if isinstance(each, int):
            for _ in range(each):
                made.add(entries)
            continue
        entries = [
            ManagedFieldsEntry(manager=manager, operation="Apply", api_version=f"{of.group}/{version}", time=STEP)
            for manager, version in each
        ]
        made.add(entries)
    return made


def named_by(of: Crd, version: str, *, unseen: str = "secrets") -> FoundReferences:
    """One ConfigMap that names a version in an ownerReference; and what could not be looked at."""
    owner = {"apiVersion": f"{of.group}/{version}", "kind": of.kind, "name": "w", "uid": "1"}
    text = json.dumps(
        {"metadata": {"name": "settings", "uid": "u", "resourceVersion": "1", "ownerReferences": [owner]}}
    ).encode()
    wanted = sought(of, version)
    tally = ReferenceTally([wanted])
    for each in owner_references(
        "configmaps", object_decoder.decode(text).metadata, {(wanted.api_version, wanted.kind): wanted}
    ):
        tally.add(each)
    return tally.found([NotLookedAt(unseen, "not allowed to list it")])[wanted]


def views() -> tuple[CrdView, ...]:
    """One CRD of every kind: with work due, with a version that may go, done, not to be listed."""
    due = crd(
        "widgets", ["v1alpha1", "v1beta1", "v1"], storage="v1", stored=["v1beta1", "v1"], served=["v1beta1", "v1"]
    )
    ready = crd("gadgets", ["v1beta1", "v1"], storage="v1", stored=["v1"])
    done = crd("gizmos", ["v1"], storage="v1", stored=["v1"])
    lost = crd("doodads", ["v1beta1", "v1"], storage="v1", stored=["v1"], served=["v1beta1"])
    counted = tally(
        due,
        [("kubectl-client-side-apply", "v1beta1"), ("controller", "v1")],
        830,
        [("argocd-controller", "v1alpha1"), ("controller", "v1")],
        211,
        [(HOSTILE, "v1beta1")],
        2,
        [("controller", "v1")],
        4000,
    )
    return (
        view(due, "migration due", counted, references=[named_by(due, "v1beta1")]),
        view(ready, "migrated", tally(ready, [("controller", "v1")], 120)),
        view(done, "one version", tally(done)),
        view(lost, "cannot be migrated", None, "the storage version v1 of doodads.example.com is not served"),
    )


def run_json() -> dict[str, Any]:
    """What ``restow migrate -o json`` says, of a run that failed in part."""
    counts = {
        "listed": 5042,
        "rewritten": 5040,
        "current": 0,
        "translated": 1042,
        "stripped": 0,
        "gone": 0,
        "failed": 2,
    }
    return {
        "result": "Failed",
        "crds": [
            {
                "name": "widgets.example.com",
                "storageVersion": "v1",
                "storedVersionsBefore": ["v1beta1", "v1"],
                "storedVersionsAfter": ["v1beta1", "v1"],
                "pruned": False,
                "prunedReason": "2 objects failed",
                "objects": counts | {"remaining": 0},
                "requests": {"list": 11, "read": 0, "write": 5051, "retried": 9},
                "failures": [
                    {"namespace": "shop", "name": "till-7", "reason": "Invalid", "message": f"spec.size: {HOSTILE}"},
                    {"namespace": "shop", "name": "till-9", "reason": "Forbidden", "message": "denied by policy"},
                ],
                "strippedOwners": [{"manager": HOSTILE, "apiVersion": "example.com/v1alpha1", "entries": 3}],
                "keptOwners": [],
                "warnings": ["the CRD changed while it was migrated; all objects were looked at again"],
                "refused": "",
                "unfinished": "",
                "durationSeconds": 41.25,
            }
        ],
    }


def run() -> RunReport:
    """The same, read back."""
    return parse_run(json.dumps(run_json()).encode())


def plan(at: int | None = 5) -> PolicyPlan:
    """Cluster API's policy, and a CRD that is late in its release."""
    planned = schedule(parse_policy(yaml.safe_load(POLICY.read_text())))
    late = crd("clusters", ["v1beta1", "v1beta2"], storage="v1beta2", stored=["v1beta2"], group="cluster.x-k8s.io")
    return PolicyPlan(
        planned, check(planned, observe([(at, late)], may_be_stored)) if at is not None else check(planned), at
    )


def profile_document() -> dict[str, Any]:
    """A CloudProfile at v1beta2 with every stage."""

    def lifecycle(*stages: tuple[str, str | None]) -> list[dict[str, str]]:
        return [{"classification": name} | ({"startTime": f"{day}T00:00:00Z"} if day else {}) for name, day in stages]

    return {
        "metadata": {"name": "metal<b>"},
        "spec": {
            "kubernetes": {
                "versions": [
                    {"version": "1.34.2", "lifecycle": lifecycle(("preview", None), ("supported", "2026-12-10"))},
                    {
                        "version": "1.33.6",
                        "lifecycle": lifecycle(
                            ("supported", None), ("deprecated", "2027-03-01"), ("expired", "2027-06-01")
                        ),
                    },
                    {
                        "version": "1.31.9",
                        "lifecycle": lifecycle(
                            ("supported", None), ("deprecated", "2026-06-01"), ("expired", "2026-10-01")
                        ),
                    },
                ]
            },
            "machineImages": [
                {
                    "name": "gardenlinux",
                    "versions": [{"version": "1877.2.0", "lifecycle": lifecycle(("supported", None))}],
                }
            ],
        },
    }


def rules(*, ready: bool = True, failure: str = "", name: str = "widgets.example.com") -> RulesOverview:
    """Rules whose second gate is open or closed."""
    rehearsed = ("True", "Converted") if ready else ("False", "ObjectsFail")
    gates = [("Analyzed", "True", "Accounted"), ("Rehearsed", *rehearsed), ("Serving", "True", "Served")]
    return RulesOverview(
        name=name,
        group="example.com",
        kind="Widget",
        crd="widgets.example.com",
        generation=4,
        served=4 if ready else 3,
        revision="0123456789abcdef",
        gates=(*gates, ("Wired", "True", "Wired")),
        ready=ready,
        deleting=False,
        failure=failure,
    )


def document() -> ReportDocument:
    """Everything in one page."""
    return ReportDocument(
        made=NOW,
        release="0.1.0",
        cluster="https://127.0.0.1:6443",
        crds=views(),
        run=run(),
        plan=plan(),
        rules=(
            rules(),
            rules(ready=False, failure="Rehearsed, ObjectsFail: 1 of 3 objects failed: default/odd: it is"),
        ),
        profiles=(profile_view("CloudProfile", profile_document(), NOW),),
    )
