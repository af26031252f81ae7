"""What a migration would strip, and whose: as the decisions say that a migration makes."""

from __future__ import annotations

import pytest

from restow.crds import Crd
from restow.migrator.decide.policies import entry_policies
from restow.migrator.model.options import Options
from restow.migrator.model.report import PlanCheck
from restow.migrator.ownership.conversion import ConvertedEntry
from restow.migrator.ownership.entries import ManagedFieldsEntry
from restow.migrator.ownership.policy import EntryPolicies
from restow.migrator.ownership.translation import Translation
from restow.migrator.planning.dryrun import StripPrediction
from restow.migrator.requests.wire import Meta
from tests.migrator import builders as b
from tests.migrator.builders import api_version, entry

V1 = api_version("v1")
SERVED = b.crd(webhook=True)
UNSERVED = b.crd(webhook=True, unserved=("v1",))
META = Meta(
    name="w",
    uid="u",
    resource_version="1",
    namespace="default",
    managed_fields=(
        entry("alice", "v1"),
        entry("bob", "v1"),
        entry("bob", "v1", operation="Update"),
        entry("eve", "v2"),
    ),
)
LIVE = {"apiVersion": api_version("v2"), "kind": "Widget", "metadata": {"name": "w"}, "spec": {"size": 1}}
SIZE = {"f:spec": {"f:size": {}}}
IN_PART = Translation(
    {0: ConvertedEntry(SIZE), 1: ConvertedEntry(SIZE, complete=False), 2: ConvertedEntry(complete=False)}
)
WHOLE = Translation({0: ConvertedEntry(SIZE), 1: ConvertedEntry(SIZE), 2: ConvertedEntry(SIZE)})
FAILED = Translation(failure="it is odd")


def predicted(translation: Translation, rules: EntryPolicies, times: int = 1) -> StripPrediction:
    """What is predicted of so many objects."""
    found = StripPrediction()
    for _ in range(times):
        found.see(META, LIVE, translation, rules)
    return found


@pytest.mark.parametrize(
    ("crd", "translation", "stripped", "kept", "failed"),
    [
        (UNSERVED, IN_PART, {("bob", V1): 2}, {}, 0),
        (SERVED, IN_PART, {}, {("bob", V1): 2}, 0),
        (UNSERVED, WHOLE, {}, {}, 0),
        (UNSERVED, FAILED, {}, {}, 1),
    ],
    ids=["unserved", "served", "nothing is lost", "a failure strips nothing"],
)
def test_what_becomes_of_entries(
    crd: Crd, translation: Translation, stripped: object, kept: object, failed: int
) -> None:
    """An owner who is missing here loses his field unheard; one too many stops an upgrade for nothing."""
    found = predicted(translation, entry_policies(crd, Options()))
    assert (found.objects, found.failed) == (1, failed)
    assert found.stripped == stripped and found.kept == kept
    assert found.remaining == bool(kept)


def test_what_is_stripped_without_any_conversion_is_counted_elsewhere() -> None:
    """Entries of another group are stripped whatever a converter says, and the plan counts them on every object."""
    foreign = Meta(
        "w", "u", "1", managed_fields=(ManagedFieldsEntry(manager="x", api_version="other/v1", fields=b.raw(SIZE)),)
    )
    found = StripPrediction()
    found.see(foreign, LIVE, Translation(), entry_policies(SERVED, Options()))
    assert not found.stripped


def test_each_owner_has_one_sentence() -> None:
    """A sentence for each of a million objects would hide the other managers."""
    [finding] = predicted(IN_PART, entry_policies(UNSERVED, Options()), times=2).findings(UNSERVED)
    assert finding.check is PlanCheck.OWNERS and not finding.fails
    assert finding.message == (
        "not all that bob owns at v1 of 2 objects, default/w for one, can be carried over to v2: a migration would "
        "strip the rest from its 4 entries at v1, and those fields would have no owner. Have bob write these objects "
        "at v2 first, then plan again"
    )
    [finding] = predicted(IN_PART, entry_policies(SERVED, Options())).findings(SERVED)
    assert finding.message.startswith(
        "not all that bob owns at v1 of default/w can be carried over to v2: its 2 entries"
    )
    assert "once v1 is not served" in finding.message
