"""Admission of ConversionRules, without a real API server: who is asked about, and what is recorded."""

from __future__ import annotations

import copy
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from restow.conversion.operate.admission import AdmitRules
from restow.conversion.operate.declarations import Declarations, declaration_name
from restow.conversion.operate.revisions import BREAK_GLASS, DECLARED, FINALIZER
from restow.conversion.reviews.admission import (
    AdmissionRequest,
    AdmissionResponse,
    GroupVersionKind,
    GroupVersionResource,
    UserInfo,
)
from restow.crds.conversionrules import CONVERSION_RULES
from restow.kube.clock import Clock
from restow.kube.resources import CONFIG_MAPS, CRDS
from tests.conversion.operate.test_revisions import crd, rules
from tests.memory.cluster import MemoryCluster, Request

Json = dict[str, Any]
NAME = "jobs.example.dev"
HOME = "restow-system"


class World(MemoryCluster):
    """A cluster in which users hold verbs on CRDs by name; without a name on all of them."""

    def __init__(self, *held: tuple[str, str, str], crds: bool = True) -> None:
        super().__init__()
        self.held = set(held)
        self.moves = True
        self.now = datetime(2030, 1, 1, tzinfo=UTC)
        self.seed("namespaces", {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": HOME}})
        if crds:
            self.seed(CRDS.plural, crd(generation=1))
        clock = Clock(now=lambda: self.now, monotonic=self._seconds)
        self.step = AdmitRules(self, HOME, clock)
        self.declarations = Declarations(self, HOME, clock)

    def _seconds(self) -> float:
        return self.now.timestamp()

    def allows(self, spec: Json) -> bool:
        """Whether a user holds a verb."""
        asked = spec["resourceAttributes"]
        assert (asked["group"], asked["resource"]) == (CRDS.group, CRDS.plural)
        name = asked.get("name", "")
        return bool({(spec["user"], asked["verb"], each) for each in (name, "")} & self.held)

    @property
    def reviews(self) -> list[Request]:
        """The SubjectAccessReviews."""
        return [each for each in self.requests if each.resource.plural == "subjectaccessreviews"]

    async def ask(
        self, new: Json | None, old: Json | None = None, user: str = "mallory", *, dry_run: bool = False
    ) -> AdmissionResponse:
        """Review a creation, an update or a deletion."""
        if self.moves:
            self.now += timedelta(seconds=1)
        operation = "DELETE" if new is None else "CREATE" if old is None else "UPDATE"
        kind = GroupVersionKind("restow.dev", "v1alpha1", "ConversionRules")
        resource = GroupVersionResource("restow.dev", "v1alpha1", "conversionrules")
        about: Any = {"object": new, "old_object": old}
        return await self.step(
            AdmissionRequest("1", kind, resource, operation, "jobs", user_info=UserInfo(user), dry_run=dry_run, **about)
        )


def declared(**metadata: Any) -> Json:
    """Rules as a validating step gets them: with a uid."""
    return rules(uid="u1", **metadata)


def other(number: int = 0) -> Json:
    """The same rules with another spec."""
    found = declared()
    found["spec"]["spokes"][0]["rules"] = [{"rename": {"spoke": "spec.old", "hub": f"spec.new{number}"}}]
    return found


def _spec(document: Json) -> None:
    document["spec"]["hub"] = "v1beta1"
    document["spec"]["spokes"][0]["version"] = "v1"


def _annotated(name: str) -> Callable[[Json], None]:
    return lambda document: document["metadata"].update(annotations={name: "x"})


def _owned(document: Json) -> None:
    document["metadata"]["ownerReferences"] = [{"kind": "ConfigMap", "name": "mine", "uid": "u2"}]


def _unheld(document: Json) -> None:
    document["metadata"]["finalizers"] = []


@pytest.mark.parametrize(
    "change", [_spec, _annotated(BREAK_GLASS), _annotated(DECLARED), _annotated("restow.dev/new"), _owned, _unheld]
)
async def test_every_change_that_matters_asks_about_its_sender(change: Callable[[Json], None]) -> None:
    """One way around the question is enough to take another team's conversions away, or to write them."""
    old = declared(finalizers=[FINALIZER])
    new = copy.deepcopy(old)
    change(new)
    world = World(("owner", "update", NAME))
    refused = await world.ask(new, old)
    assert (refused.allowed, refused.code) == (False, 403)
    assert refused.message == (
        'User "mallory" cannot update these rules: that takes one of the verbs update, patch, convert on '
        f"customresourcedefinitions.apiextensions.k8s.io {NAME}. In RBAC: {{apiGroups: [apiextensions.k8s.io], "
        f"resources: [customresourcedefinitions], resourceNames: [{NAME}], verbs: [convert]}}"
    )
    assert (await world.ask(new, old, "owner")).allowed


async def test_creation_and_deletion_ask_about_their_sender() -> None:
    """Whoever may create or delete rules has no right on the kind by that."""
    world = World(("owner", "patch", NAME))
    for new, old in ((declared(), None), (None, declared())):
        assert not (await world.ask(new, old)).allowed
        assert (await world.ask(new, old, "owner")).allowed


async def test_labels_and_foreign_finalizers_ask_nobody() -> None:
    """A label of a tool without rights on CRDs would be refused, and the tool would try for ever."""
    world = World()
    old = declared(finalizers=[FINALIZER])
    new = declared(finalizers=[FINALIZER, "other.dev/x"], labels={"a": "b"}, annotations={"other.dev/y": "z"})
    assert (await world.ask(new, old)).allowed
    assert (await world.ask(old, new)).allowed
    assert not world.requests


@pytest.mark.parametrize("verb", ["update", "patch", "convert"])
async def test_one_right_on_the_crd_by_its_name_suffices(verb: str) -> None:
    """A team that may convert its own kind must neither need more, nor get another team's kind by it."""
    world = World(("team", verb, NAME))
    assert (await world.ask(declared(), None, "team")).allowed
    world = World(("team", verb, "tasks.example.dev"))
    assert not (await world.ask(declared(), None, "team")).allowed
    assert len(world.reviews) == 3, "each review asks three questions at most"


async def test_without_a_crd_the_right_on_all_of_them_is_asked_for() -> None:
    """Rules that wait for a CRD must not be the way to the kind of whoever installs it later."""
    world = World(("team", "convert", NAME), ("chart", "update", ""), crds=False)
    refused = await world.ask(declared(), None, "team")
    assert "on all customresourcedefinitions" in refused.message and "finds no CRD of the kind" in refused.message
    assert (await world.ask(declared(), None, "chart")).allowed
    assert await world.declarations.lacks(declared(), NAME) == ""
    assert (await world.ask(None, declared(), "team")).allowed, "rules that convert nothing may be deleted"


async def test_an_answer_is_for_one_object_one_spec_and_one_crd() -> None:
    """An answer that counted for more would let a forged review, or an older right, declare something else."""
    world = World(("owner", "update", NAME))
    assert "no user was asked about" in await world.declarations.lacks(declared(), NAME)
    assert (await world.ask(declared(), None, "owner")).allowed
    assert await world.declarations.lacks(declared(), NAME) == ""
    assert "no user was asked about" in await world.declarations.lacks(rules(uid="u2"), NAME)
    assert "no user was asked about" in await world.declarations.lacks(other(), NAME)
    said = await world.declarations.lacks(declared(), "tasks.example.dev")
    assert f'the user "owner" was asked about for {NAME}, which is another CRD' in said
    assert f"kubectl annotate conversionrules jobs {DECLARED}=" in said


async def test_what_is_refused_or_a_dry_run_is_not_recorded() -> None:
    """A dry run has no side effects, and an answer for a refused spec would declare it."""
    world = World(("owner", "update", NAME))
    wrong = declared()
    wrong["spec"]["spokes"].append(wrong["spec"]["spokes"][0])
    assert not (await world.ask(declared())).allowed
    assert (await world.ask(wrong, None, "owner")).code == 422
    assert (await world.ask(declared(), None, "owner", dry_run=True)).allowed
    broken = declared(annotations={BREAK_GLASS: "yes"})
    assert (await world.ask(broken, declared(), "owner")).allowed, "which is not meant to declare the spec"
    assert "no user was asked about" in await world.declarations.lacks(declared(), NAME)


async def test_the_annotation_declares_rules_once_more() -> None:
    """Rules from before an upgrade would stay closed until their spec changes."""
    world = World(("owner", "convert", NAME))
    assert (await world.ask(declared(annotations={DECLARED: "1"}), declared(), "owner")).allowed
    assert await world.declarations.lacks(declared(), NAME) == ""


async def test_the_last_answers_are_kept() -> None:
    """A ConfigMap that grows with each change of the rules would be full some day."""
    world = World(("owner", "update", NAME))
    before = other(20)
    for number in range(20):
        assert (await world.ask(other(number), before, "owner")).allowed
    kept = world.find(CONFIG_MAPS.plural, declaration_name("jobs"), HOME)["data"]
    assert len(kept) == 9 and kept["rules"] == "jobs"
    assert await world.declarations.lacks(other(19), NAME) == ""
    await world.declarations.drop("jobs")
    await world.declarations.drop("jobs")
    assert "no user was asked about" in await world.declarations.lacks(other(19), NAME)


async def test_a_creation_under_a_name_that_is_taken_is_not_recorded() -> None:
    """It fails after admission, and the answer for the object that has the name would be displaced or replaced."""
    world = World(("owner", "update", NAME), ("mallory", "convert", "tasks.example.dev"))
    tasks = crd(generation=1)
    tasks["metadata"]["name"] = "tasks.example.dev"
    tasks["spec"]["names"] = {"plural": "tasks", "kind": "Task"}
    world.seed(CRDS.plural, tasks)
    assert (await world.ask(declared(), None, "owner")).allowed
    world.seed(CONVERSION_RULES.plural, declared())
    before = world.find(CONFIG_MAPS.plural, declaration_name("jobs"), HOME)
    for new, user in ((declared(), "owner"), ({**declared(), "spec": task()}, "mallory")):
        new["metadata"]["uid"] = "u2"
        assert (await world.ask(new, None, user)).allowed
        changed = {**new, "spec": {**new["spec"], "onError": "keep"}}
        assert (await world.ask(changed, new, user)).allowed, "a review that was forged"
    assert world.find(CONFIG_MAPS.plural, declaration_name("jobs"), HOME) == before
    world.seed(CONVERSION_RULES.plural, declared(deletionTimestamp="2030-01-01T00:00:00Z"))
    assert (await world.ask(rules(uid="u3"), None, "owner")).allowed
    assert await world.declarations.lacks(rules(uid="u3"), NAME) == "", "it may be stored a moment later"


async def test_answers_for_objects_that_were_never_stored_are_bounded() -> None:
    """Creations that something else refuses would fill the ConfigMap, and nobody could declare under the name."""
    world = World(("owner", "update", NAME))
    for number in range(80):
        lost = declared()
        lost["metadata"]["uid"] = f"lost{number}"
        assert (await world.ask(lost, None, "owner")).allowed
    assert (await world.ask(declared(annotations={DECLARED: "1"}), declared(), "owner")).allowed
    assert len(world.find(CONFIG_MAPS.plural, declaration_name("jobs"), HOME)["data"]) == 1 + 1 + 64
    assert await world.declarations.lacks(declared(), NAME) == ""


async def test_records_of_rules_that_were_never_stored_are_collected() -> None:
    """A creation that another webhook refuses after restow's answer would leave its ConfigMap for ever.

    One whose creation is under way, or that rules belong to, stays.
    """
    world = World(("owner", "update", NAME))

    async def ask(name: str) -> None:
        assert (await world.ask(declared(name=name), None, "owner")).allowed

    for name in ("lost", "again", "jobs", "x" * 250):
        await ask(name)
    world.seed(CONVERSION_RULES.plural, declared())
    world.seed(CONFIG_MAPS.plural, {"metadata": {"name": "restow-conversions.jobs", "namespace": HOME}})
    await world.declarations.collect()
    assert len(records(world)) == 5, "their rules may come"
    await ask("again")
    await ask("young")
    await world.declarations.collect()
    assert records(world) == {declaration_name(each) for each in ("again", "jobs", "young")} | {
        "restow-conversions.jobs"
    }

    async def arrive(request: Request) -> None:
        if request.verb == "delete":
            world.before = nothing
            await ask("again")

    nothing, world.before = world.before, arrive
    await world.declarations.collect()
    assert declaration_name("again") in records(world), "a creation came in between"


def records(world: World) -> set[str]:
    """The names of the ConfigMaps."""
    return {name for plural, _, name in world.keys if plural == CONFIG_MAPS.plural}


async def test_rules_that_follow_their_crd_at_once_are_their_owners() -> None:
    """A chart that applies CRD and rules in one go would get a 403 that speaks of all CRDs."""
    world = World(("owner", "update", NAME), crds=False)
    world.moves = False
    assert not (await world.ask(declared(), None, "owner")).allowed
    world.seed(CRDS.plural, crd(generation=1))
    assert (await world.ask(declared(), None, "owner")).allowed


async def test_what_cannot_be_right_is_refused() -> None:
    """A mistake is shown by kubectl at once; one that the schema of the CRD decides is left to the gates."""
    world = World(("owner", "update", NAME))
    wrong = declared()
    wrong["spec"]["spokes"].append(wrong["spec"]["spokes"][0])
    refused = await world.ask(wrong, None, "owner")
    assert "/spec/spokes/1/version: the spoke v1beta1 stands here a second time" in refused.message


async def test_the_target_stays() -> None:
    """Rules that moved to another kind would leave the first one without conversions."""
    world = World(("owner", "update", ""))
    moved = declared()
    moved["spec"]["target"]["kind"] = "Task"
    refused = await world.ask(moved, declared(), "owner")
    assert not refused.allowed
    assert refused.message.startswith("/spec/target")


async def test_rules_without_a_target_can_be_deleted() -> None:
    """Rules that an older release admitted must be deletable, whatever this one says of them."""
    wrong = {**declared(finalizers=[FINALIZER]), "spec": {"target": {}}}
    released = {**declared(), "spec": {"target": {}}}
    assert (await World().ask(released, wrong)).allowed


async def test_a_crd_that_becomes_one_of_another_kind_is_read_again() -> None:
    """A replica that remembers kinds for ever would refuse the owner of a CRD that was made anew."""
    world = World(("owner", "convert", NAME))
    assert not (await world.ask({**declared(), "spec": task()}, None, "owner")).allowed
    made = crd(generation=2)
    made["spec"]["names"]["kind"] = "Task"
    world.seed(CRDS.plural, made)
    world.now += timedelta(seconds=2)
    assert (await world.ask({**declared(), "spec": task()}, None, "owner")).allowed


def task() -> Json:
    """The spec for another kind."""
    spec: Json = declared()["spec"]
    spec["target"]["kind"] = "Task"
    return spec
