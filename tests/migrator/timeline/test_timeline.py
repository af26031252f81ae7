"""The planner: Cluster API's own tables, every kind of finding, and a simulation of every supported upgrade."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restow.crds import Crd
from restow.migrator import may_be_stored
from restow.migrator.timeline import (
    PolicyError,
    TimelinePolicy,
    VersionSchedule,
    VersionState,
    check,
    columns,
    notes,
    observe,
    parse_policy,
    schedule,
)

RELEASES = ["v1.9", "v1.10", "v1.11", "v1.12", "v1.13", "v1.14", "v1.15", "v1.16", "v1.17", "v1.18"]
OLD, BOTH, NEW = "Served: false", "Served: true", "Served: true, Storage"


def document(**changes):
    return {
        "upgradeSkew": 3,
        "servedAfterSuccessor": 3,
        "bufferReleases": 1,
        "migratorSince": "v1.10",
        "releases": [{"name": name} for name in RELEASES],
        "versions": [
            {"name": "v1alpha3", "unserved": "earlier", "successor": "v1beta1"},
            {"name": "v1alpha4", "unserved": "earlier", "successor": "v1beta1"},
            {"name": "v1beta1"},
            {"name": "v1beta2", "added": "v1.11"},
        ],
    } | changes


def planned(**changes) -> VersionSchedule:
    return schedule(parse_policy(document(**changes)))


def version(name, **changes):
    """The issue's versions, one of them changed."""
    return [{**each, **(changes if each["name"] == name else {})} for each in document()["versions"]]


def crd(stored=(), **versions: str) -> Crd:
    """A CRD whose versions are "served", "storage" (served too), "unserved" or "hidden" (storage, unserved)."""
    return Crd.from_document(
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": "clusters.cluster.x-k8s.io"},
            "spec": {
                "group": "cluster.x-k8s.io",
                "scope": "Namespaced",
                "names": {"kind": "Cluster", "plural": "clusters"},
                "versions": [
                    {
                        "name": name,
                        "served": state in ("served", "storage"),
                        "storage": state in ("storage", "hidden"),
                        "schema": {"openAPIV3Schema": {"type": "object"}},
                    }
                    for name, state in versions.items()
                ],
            },
            "status": {"storedVersions": list(stored)},
        }
    )


NOT_YET = (
    "v1beta1 cannot be removed yet: status.storedVersions names it, or no proof shows that no object is stored at it"
)


def found(plan: VersionSchedule, **releases: Crd):
    """The findings about CRDs of releases, which are written v1_14 here."""
    crds = [(plan.policy.index(name.replace("_", ".")), each) for name, each in releases.items()]
    return [
        (each.level, each.release, each.version, each.problem) for each in check(plan, observe(crds, may_be_stored))
    ]


def test_first_table_of_the_issue():
    """Of v1alpha3 and v1alpha4: kept for 3 releases after the migrator came, removed in v1.13."""
    column = columns(planned())[0]
    assert column.title == "v1alpha3 + v1alpha4"
    assert column.cells == (OLD, OLD, OLD, OLD, "", "", "", "", "", "")
    assert notes(planned(), RELEASES.index("v1.10")) == "migrator added"
    assert notes(planned(), RELEASES.index("v1.13")) == "v1alpha3 + v1alpha4 removed"


def test_second_table_of_the_issue():
    """Of v1beta1 and v1beta2: served 3 releases with its successor, kept 3 and a buffer release, removed in v1.18."""
    old, new = columns(planned())[1:]
    assert (old.title, new.title) == ("v1beta1", "v1beta2")
    assert old.cells == (NEW, NEW, BOTH, BOTH, BOTH, OLD, OLD, OLD, OLD, "")
    assert new.cells == ("", "", NEW, NEW, NEW, NEW, NEW, NEW, NEW, NEW)
    said = {release: notes(planned(), RELEASES.index(release)) for release in ("v1.11", "v1.14", "v1.18")}
    assert said == {"v1.11": "v1beta2 added", "v1.14": "v1beta1 unserved", "v1.18": "v1beta1 removed"}


def test_the_issues_own_plan_is_sound():
    """A finding in the plan that the field's own maintainers made would be a false alarm."""
    assert check(planned()) == ()


@pytest.mark.parametrize(
    ("versions", "level", "release", "said"),
    [
        (version("v1beta1", removed="v1.17"), "unsafe", "v1.17", "clusters that upgrade from v1.14 may still have"),
        (version("v1beta1", removed="v1.14"), "unsafe", "v1.14", "clusters that upgrade from v1.11, v1.12, v1.13 may"),
        (version("v1alpha3", removed="v1.12"), "unsafe", "v1.12", "clusters that upgrade from v1.9 may still have"),
        (version("v1beta1", unserved="v1.13"), "unsafe", "v1.13", "before its clients had the 3 releases"),
        (version("v1beta1", unserved="v1.10"), "unsafe", "v1.10", "v1beta1 is the storage version and not served"),
    ],
)
def test_an_unsafe_plan(versions, level, release, said):
    """A date that somebody moved forward would break an upgrade that is promised."""
    findings = check(planned(versions=versions))
    assert any((each.level, each.release) == (level, release) and said in each.problem for each in findings), findings


def test_the_fix_of_an_early_removal_names_the_release():
    """To keep it longer helps nobody who has to write the date into a plan."""
    (finding,) = check(planned(versions=version("v1beta1", removed="v1.16")))
    assert finding.fix == "Keep v1beta1 unserved, together with a migrator, until v1.18 at least"


def test_without_a_migrator_nothing_can_be_removed():
    """Removal dates that count on a cleanup that never runs would look safe."""
    plan = planned(migratorSince=None)
    assert [each.level for each in check(plan)] == ["missing"]
    assert plan.release("v1beta1", "removed") is None


@pytest.mark.parametrize(
    ("releases", "expected"),
    [
        ({"v1_12": crd(v1beta1="served", v1beta2="storage")}, []),
        (
            {"v1_14": crd(v1beta1="served", v1beta2="storage")},
            [("due", "v1.14", "v1beta1", "v1beta1 is still served; unserving it is due now")],
        ),
        (
            {"v1_16": crd(v1beta1="served", v1beta2="storage")},
            [("due", "v1.16", "v1beta1", "v1beta1 is still served; unserving it is due since v1.14")],
        ),
        (
            {"v1_18": crd(v1beta1="unserved", v1beta2="storage")},
            [("due", "v1.18", "v1beta1", "v1beta1 is still there; removing it is due now")],
        ),
        (
            {"v1_12": crd(v1beta1="storage", v1beta2="served"), "v1_11": crd(v1beta1="served", v1beta2="storage")},
            [("unsafe", "v1.12", "v1beta1", "the storage version goes back from v1beta2 to v1beta1")],
        ),
        (
            {"v1_10": crd(v1beta1="storage"), "v1_11": crd(v1beta1="storage")},
            [("missing", "v1.11", "v1beta2", "v1beta2 was to be added in v1.11 and is not there")],
        ),
        (
            {"v1_12": crd(v1beta1="served", v1beta2="storage", v1="served")},
            [("missing", "v1.12", "v1", "v1 is in the CRD and not in the policy")],
        ),
        (
            {"v1_12": crd(("v1beta1", "v1beta2"), v1beta1="served", v1beta2="storage")},
            [("due", "v1.12", "v1beta1", NOT_YET)],
        ),
        (
            {"v1_15": replace(crd(("v1beta2",), v1beta1="unserved", v1beta2="storage"), uid="of a cluster")},
            [("due", "v1.15", "v1beta1", NOT_YET)],
        ),
        (
            {"v1_12": crd(v1beta1="served", v1beta2="hidden")},
            [
                (
                    "unsafe",
                    "v1.12",
                    "v1beta2",
                    "v1beta2 is the storage version and not served, so no object can be listed or migrated",
                )
            ],
        ),
    ],
)
def test_crds_of_releases(releases, expected):
    """Each step that manifests or a cluster lack, or took too early, is what people ask the planner for."""
    told = [each for each in found(planned(), **releases) if each[2] not in ("v1alpha3", "v1alpha4")]
    assert told == expected


def test_a_removal_in_manifests_is_judged_by_the_releases_before():
    """Real CRDs decide: served in v1.16 by mistake, v1beta1 may not go in v1.18 though the plan says so."""
    states = {f"v1_{number}": crd(v1beta1="unserved", v1beta2="storage") for number in (14, 15, 17)}
    states["v1_16"] = crd(v1beta1="served", v1beta2="storage")
    states["v1_18"] = crd(v1beta2="storage")
    unsafe = [each for each in found(planned(), **states) if each[0] == "unsafe"]
    assert [each[:3] for each in unsafe] == [("unsafe", "v1.18", "v1beta1")]
    assert "v1.16, v1.17" in unsafe[0][3]


def test_a_crd_that_never_had_a_version_need_not_lose_it():
    """Kinds that came later than a version would drown the real findings."""
    assert found(planned(), v1_12=crd(v1beta1="served", v1beta2="storage")) == []


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"upgradeSkew": 0}, "upgradeSkew: Input should be greater than or equal to 1"),
        ({"releases": []}, "releases: "),
        ({"releases": [{"name": "a"}, {"name": "a"}], "migratorSince": None}, "the release a is listed twice"),
        ({"versions": [{"name": "v1"}, {"name": "v1"}]}, "the version v1 is listed twice"),
        ({"versions": [{"name": "v1", "added": "v9"}]}, "v1.added names v9, which is not among the releases"),
        ({"versions": [{"name": "v1", "successor": "v2"}]}, "v1.successor names v2, which is not among the versions"),
        ({"migratorSince": "v0"}, "migratorSince names v0"),
        ({"skew": 3}, "skew: Extra inputs are not permitted"),
    ],
)
def test_a_policy_that_is_none(changes, said):
    """A misspelt key that is passed over would make the planner promise what nobody asked for."""
    with pytest.raises(PolicyError) as raised:
        parse_policy(document(**changes))
    assert said in str(raised.value)


@st.composite
def policies(draw) -> TimelinePolicy:
    """Draw a policy with two or three versions, dates by the promises."""
    count = draw(st.integers(4, 14))
    names = [f"r{number}" for number in range(count)]
    added = sorted(draw(st.lists(st.integers(1, count - 1), min_size=1, max_size=2, unique=True)))
    return parse_policy(
        {
            "upgradeSkew": draw(st.integers(1, 4)),
            "servedAfterSuccessor": draw(st.integers(0, 4)),
            "bufferReleases": draw(st.integers(0, 2)),
            "migratorSince": draw(st.sampled_from(names)),
            "releases": [{"name": name} for name in names],
            "versions": [{"name": "v1"}, *({"name": f"v{at + 2}", "added": names[at]} for at in added)],
        }
    )


def may_carry(plan: VersionSchedule, name: str, release: int) -> bool:
    """Simulate every supported journey up to a release: may a cluster that runs it still carry the version?"""
    policy = plan.policy
    since = policy.index(policy.migrator_since or "earlier")
    carries: list[bool] = []
    for now in range(release + 1):
        place = plan.place(name, now)
        written = place.served or place.storage
        unserved = plan.release(name, "unserved")
        again = unserved is not None and unserved <= now < unserved + policy.buffer_releases
        arrived = any(carries[max(0, now - policy.upgrade_skew) : now]) or now == 0
        cleaned = now >= since and not written and not again
        carries.append((written or again or arrived) and not cleaned)
    return carries[release]


@given(policies())
def test_planned_removals_leave_nobody_behind(policy):
    """Over every upgrade path, nobody has anything of a version when it goes; a release earlier somebody might."""
    plan = schedule(policy)
    assert [each for each in check(plan) if each.level == "unsafe" and "is removed" in each.problem] == []
    for each in policy.versions:
        removed = plan.release(each.name, "removed")
        if removed is None or removed >= len(policy.releases):
            continue
        starts = range(max(0, removed - policy.upgrade_skew), removed)
        assert not any(may_carry(plan, each.name, start) for start in starts)
        earlier = range(max(0, removed - 1 - policy.upgrade_skew), removed - 1)
        assert any(may_carry(plan, each.name, start) for start in earlier)


def test_places_follow_from_steps():
    """A version that is superseded stays there, but is no longer the storage version."""
    plan = planned()
    assert plan.place("v1beta1", RELEASES.index("v1.10")) == VersionState(served=True, storage=True)
    assert plan.place("v1beta1", RELEASES.index("v1.11")) == VersionState(served=True)
    assert plan.place("v1beta1", RELEASES.index("v1.14")) == VersionState()
    assert not plan.place("v1beta1", RELEASES.index("v1.18")).there
