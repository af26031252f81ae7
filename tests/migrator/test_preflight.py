"""Which CRDs are not migrated as they are, and what the user is told to do."""

from __future__ import annotations

import pytest

from restow.crds import Crd
from restow.migrator.model import Options
from restow.migrator.passes import page_size
from restow.migrator.preflight import refusal
from restow.migrator.treatment import treatments
from tests.migrator import builders as b


@pytest.mark.parametrize(
    ("crd", "says"),
    [
        (b.crd(), ""),
        (b.crd(conditions={"StorageMigrating": "False"}), ""),
        (b.crd(terminating=True), "is being deleted"),
        (b.crd(conditions={"Terminating": "True"}), "is being deleted"),
        (b.crd(conditions={"Established": "False"}), "is not established (told Established)"),
        (b.crd(conditions={"Established": "Unknown"}), "is not established:"),
        (b.crd(conditions={"Established": "False", "NamesAccepted": "False"}), "(told NamesAccepted)"),
        (b.crd(unserved=("v2",)), "the storage version v2"),
        (b.crd(conditions={"StorageMigrating": "True"}), "StorageVersionMigration is at work"),
    ],
    ids=[
        "fine",
        "the cluster's own migration ended",
        "deletionTimestamp",
        "condition Terminating",
        "not established",
        "established unknown",
        "names not accepted",
        "storage version unserved",
        "the cluster's own migration is at work",
    ],
)
def test_each_refusal_says_what_is_the_matter(crd: Crd, says: str) -> None:
    """Such a CRD would be listed as empty and pruned, or be fought over with another migration."""
    why = refusal(crd)
    assert bool(why) is bool(says)
    assert says in why
    assert not why or crd.name in why


LISTS = {
    "v1": b.struct(spec=b.struct(names=b.atomic_list(b.STRING))),
    "v2": b.struct(spec=b.struct(names=b.set_list(b.STRING))),
}


@pytest.mark.parametrize(
    ("crd", "options", "size"),
    [
        (b.crd(), Options(), 500),
        (b.crd(webhook=True), Options(), 100),
        (b.crd(schemas=LISTS), Options(), 100),
        (b.crd(webhook=True), Options(page_size=7), 7),
        (b.crd(), Options(page_size=900), 900),
    ],
    ids=["metadata only", "each a conversion", "read whole", "asked for, with a webhook", "asked for"],
)
def test_pages_are_smaller_where_objects_cost_more(crd: Crd, options: Options, size: int) -> None:
    """Five hundred conversions in one request exceed its timeout; what the user asks for is taken as it is."""
    assert page_size(options, crd, treatments(crd, options)) == size
