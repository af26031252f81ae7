"""What a dry run says about an object is what the migration then does to it, a second write included.

A dry run stores nothing, so the second of two writes meets the object without the default that the first persists.
"""

from __future__ import annotations

from typing import Any

import pytest

from restow.kube.errors import Invalid
from restow.migrator import CrdReport, Migration, Options, Phase, plan, read_crd
from restow.migrator.planning.plan import MigrationPlan
from tests.apiserver.access import Access
from tests.apiserver.kind import Document, Kind, entry_versions, owners, until

IMMUTABLE = "self == oldSelf"
DEFAULT = {"type": "string", "default": "x"}


def rule(text: str, **more: Any) -> Document:
    """A node with one rule, and a message by which it is known again."""
    return {"x-kubernetes-validations": [{"rule": text, "message": f"breaks {text}"} | more]}


def ruled(kind: Kind, spec: Document, *, nested: Document | None = None, mode: Document | None = None) -> Document:
    """v1beta1 becomes the storage version: rules on spec, on an object in it, and on the default that is new there."""
    document = kind.document(storage="v1beta1", keyed_conditions=False)
    old, new = (version["schema"]["openAPIV3Schema"]["properties"]["spec"] for version in document["spec"]["versions"])
    for each in (old, new):
        each["properties"]["labels"] = {
            "type": "object",
            "additionalProperties": {"type": "string"},
            "maxProperties": 9,
        }
        each["properties"]["inner"] = {"type": "object", "properties": {"a": {"type": "integer"}}}
    new |= spec
    place = new["properties"] if nested is None else new["properties"]["inner"]["properties"]
    place["mode"] = DEFAULT | (mode or {})
    if nested is not None:
        new["properties"]["inner"] |= nested
    return document


APPEND_ONLY = "oldSelf.labels.all(key, key in self.labels && self.labels[key] == oldSelf.labels[key])"
MEMBERS: dict[str, tuple[Document, dict[str, Document], bool]] = {
    "an immutable spec": (rule(IMMUTABLE), {}, True),
    "an immutable object in it, which gets the default": ({}, {"nested": rule(IMMUTABLE)}, True),
    "a field that is neither set nor removed later": (rule("has(self.mode) == has(oldSelf.mode)"), {}, True),
    "a map to which entries are only added": (rule(APPEND_ONLY), {}, True),
    "the new field cannot be changed": ({}, {"mode": rule(IMMUTABLE)}, True),
    "no field may be added": ({"maxProperties": 3}, {}, True),
    "a rule against the default": (rule("!has(self.mode) || self.size < 5"), {}, True),
    "a field that grows with each update": (rule("self.size > oldSelf.size"), {}, False),
}
"""Rules of the storage version, by what they demand; and whether the migration does such objects."""


async def populate(kind: Kind) -> None:
    """Objects of alice, and one without managedFields, stored at v1alpha1, which declares all but the default."""
    await kind.change(ruled(kind, {}) | {"spec": ruled(kind, {})["spec"] | {"versions": _at_first(kind)}})
    for name in ("w0", "w1", "w2"):
        spec = {"size": 5, "labels": {"a": "b"}, "inner": {"a": 1}}
        await kind.apply(kind.manifest("v1alpha1", name, spec=spec), "alice")
    await kind.merge("v1alpha1", "w2", {"metadata": {"managedFields": [{}]}}, "anyone")


def _at_first(kind: Kind) -> list[Document]:
    old, new = ruled(kind, {})["spec"]["versions"]
    return [old | {"storage": True}, new | {"storage": False}]


async def made_plan(kind: Kind) -> MigrationPlan:
    """Plan the migration of a kind, and try every object."""
    return await plan(kind.cluster, await read_crd(kind.cluster, kind.name), Options(), sample=None)


async def migrate(kind: Kind, **options: Any) -> CrdReport:
    """Migrate a kind without settling."""
    return await Migration(kind.cluster, Options(settle_s=0.0, **options)).migrate(kind.name)


@pytest.mark.parametrize("member", MEMBERS)
async def test_a_dry_run_says_what_the_migration_does(member: str, kind: Kind) -> None:
    """A pipeline that gates on plan would be blocked for good, by objects that the migration does."""
    spec, more, done = MEMBERS[member]
    await populate(kind)
    before = await kind.stored()
    await kind.change(ruled(kind, spec, **more))
    found, rehearsed = await made_plan(kind), await migrate(kind, dry_run=True)
    assert await kind.stored() == before
    assert (found.findings.fail, bool(rehearsed.failures)) == (not done, not done), found.findings.listed
    report = await migrate(kind)
    assert (report.pruned, bool(report.failures)) == (done, not done), report.to_json()
    for key, stored in (await kind.stored()).items() if done else ():
        assert stored["apiVersion"] == f"{kind.group}/v1beta1" and entry_versions(stored) <= {"v1beta1"}
        assert owners(stored) == owners(before[key])


@pytest.mark.parametrize(
    ("expression", "done"),
    [("object.spec == oldObject.spec", True), ("!has(object.spec.mode)", False)],
    ids=["of what changes", "of the default"],
)
async def test_what_a_dry_run_cannot_know_of_a_policy_is_a_warning(
    expression: str, done: bool, kind: Kind, access: Access
) -> None:
    """Only the second write shows the default to a policy, and a dry run has no stored object with it to compare."""
    await populate(kind)
    await kind.change(ruled(kind, {}))
    rule = {"apiGroups": [kind.group], "apiVersions": ["*"], "operations": ["UPDATE"], "resources": [kind.plural]}
    await access.policy(f"judges-{kind.group}", rule, expression, "not like this")

    async def refused() -> bool:
        try:
            await kind.merge("v1beta1", "w0", {"spec": {"mode": "y"}}, "probe", params={"dryRun": "All"})
        except Invalid:
            return True
        return False

    await until(refused, "the policy is not in force")
    found, rehearsed = await made_plan(kind), await migrate(kind, dry_run=True)
    assert not found.findings.fail and not rehearsed.failures
    assert rehearsed.untried == 3
    for [warning] in (found.warnings, rehearsed.warnings):
        assert warning.startswith("the second write of default/w") and "not like this" in warning
    report = await migrate(kind)
    assert (report.pruned, bool(report.failures)) == (done, not done), report.to_json()


async def test_a_prune_that_an_earlier_run_left_out_is_due(kind: Kind) -> None:
    """Plan would say that nothing is due, and the next run would write the CRD."""
    await populate(kind)
    await kind.change(ruled(kind, {}))
    await migrate(kind, skip=frozenset({Phase.PRUNE}))
    found = await made_plan(kind)
    assert (found.due, found.writes) == ((Phase.PRUNE,), 0)
    report = await migrate(kind)
    assert report.pruned and not report.requests.total
    assert (await made_plan(kind)).due == ()
