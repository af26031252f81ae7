"""Which CRDs are not migrated as they are, and what the user is told to do."""

from __future__ import annotations

import json

import pytest

from restow.crds import Crd
from restow.kube.errors import api_error
from restow.migrator.decide.policies import entry_policies
from restow.migrator.model.options import Options, Phase
from restow.migrator.requests.lister import FailedPage, ListFailed, explain_list_failure, help_to_list
from restow.migrator.requests.passes import page_size
from restow.migrator.requests.preflight import of_missing, permissions, refusal
from tests.memory.cluster import MemoryCluster
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
    assert page_size(options, crd, entry_policies(crd, options)) == size


CRDS = "customresourcedefinitions.apiextensions.k8s.io"
NEEDED = ["list widgets.example.com", "get widgets.example.com", "patch widgets.example.com"]
PRUNES = [f"patch {CRDS}/status widgets.example.com"]
BETTER = [f"{verb} {CRDS} widgets.example.com" for verb in ("list", "watch", "patch")]


@pytest.mark.parametrize(
    ("options", "needed", "better"),
    [
        (Options(), [*NEEDED, *PRUNES], BETTER),
        (Options(skip=frozenset({Phase.PRUNE})), NEEDED, []),
        (Options(dry_run=True), NEEDED, []),
        (Options(selector="a=b"), NEEDED, []),
        (Options(namespace="ns"), [f"{each} in ns" for each in NEEDED], []),
    ],
    ids=["all", "no prune", "dry run", "some objects", "one namespace"],
)
def test_the_rights_that_are_used(options: Options, needed: list[str], better: list[str]) -> None:
    """A right asked for in vain keeps a team from migrating its own namespace; one forgotten shows at night."""
    asked = permissions(b.crd(), options)
    assert [str(each) for each in asked if not each.without] == needed
    assert [str(each) for each in asked if each.without] == better
    for each in asked:
        finding = of_missing(each)
        assert str(each) in finding.message and not finding.fails
        assert ("would be refused" in finding.message) is (not each.without)


@pytest.mark.parametrize(
    ("crd", "said", "helped"),
    [
        (b.crd(webhook=True), "conversion webhook for example.com/v1, Kind=Widget failed: Post ...: x509", True),
        (b.crd(webhook=True), "storage is (re)initializing", True),
        (b.crd(webhook=True), 'widgets is forbidden: User "x" cannot list resource', False),
        (b.crd(), "conversion webhook for example.com/v1, Kind=Widget failed", False),
    ],
    ids=["the webhook fails", "the watch cache cannot be filled", "forbidden", "there is no webhook"],
)
def test_a_list_that_fails_for_its_conversion_says_what_to_do(crd: Crd, said: str, helped: bool) -> None:
    """Advice on a webhook for a list that failed for something else sends people the wrong way."""
    found = str(help_to_list(crd, ListFailed(said)))
    assert found.startswith(said)
    assert ("check that the conversion webhook of widgets.example.com runs" in found) is helped


@pytest.mark.parametrize("webhook", [False, True])
async def test_a_version_that_left_is_named_with_both_cures(webhook: bool) -> None:
    """Advice on the webhook would send people the wrong way, and an error out of reach sends a Job on for hours."""
    key = "StorageError: corrupt object, Code: 7, Key: /registry/example.com/widgets/{}, ResourceVersion: 0, "
    said = "AdditionalErrorMsg: object not decodable revision=3: request to convert CR from an invalid group/version: "
    causes = [{"message": f"{key.format(name)}{said}example.com/v0"} for name in ("a/w", "a/x", "b/y", "b/z")]
    body = json.dumps({"kind": "Status", "message": causes[0]["message"], "details": {"causes": causes}}).encode()
    failure = ListFailed("the list failed", FailedPage(None, "", 500), unreachable="the server")
    failure.__cause__ = api_error(status=500, body=body, headers={}, verb="list", target="widgets.example.com")
    failure.args = (f"the list failed: {failure.__cause__}",)
    found = await explain_list_failure(MemoryCluster(), b.crd(webhook=webhook), failure)
    assert "a/w, a/x, b/y and 1 more cannot be converted to v2" in str(found)
    assert "put v0 back into spec.versions (served: false is enough) and run again with --ignore-mark" in str(found)
    assert str(found).endswith("or delete these objects. restow doctor widgets.example.com prints both commands")
    assert "conversion webhook" not in str(found) and not found.unreachable
