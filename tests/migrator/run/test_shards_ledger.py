"""Where the records of shards stand: a name that every shard finds, and that the API server takes."""

from __future__ import annotations

import dataclasses

from restow.migrator.run.shards import ledger_name
from tests.migrator import builders as b

LONGEST = 253


def test_it_is_named_after_the_crd() -> None:
    """Whoever tidies a namespace up sees what it belongs to."""
    assert ledger_name(b.crd()) == "restow-shards.widgets.example.com"


def test_a_long_name_is_shortened_and_stays_its_own() -> None:
    """A CRD's name may be as long as a name can be: the shards of such a one would be refused."""
    names = [("x" * 60 + ".") * 4 + each for each in ("one", "two")]
    found = {ledger_name(dataclasses.replace(b.crd(), name=name)) for name in names}
    assert len(found) == len(names)
    assert all(len(name) <= LONGEST for name in found)
