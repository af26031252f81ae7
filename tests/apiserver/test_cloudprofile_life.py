"""The life of a profile on the real API server, from preview to expired, with clients of both versions at work on it.

One client of v1beta1 and one of v1beta2 take turns at every stage; each says what its version can say, and finds what
the other said as far as its version can tell. Both work by server-side apply or by read-modify-write.
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from restow.controlplane.etcd import Etcd
from restow.kube.cluster import Reply
from tests.apiserver.kind import Document, owners
from tests.apiserver.profile_world import (
    CLOUD_PROFILE,
    REST,
    Family,
    Tell,
    lifecycle,
    living,
    owned_paths,
    spoken,
    stage,
    told,
    versions_in,
)

pytestmark = pytest.mark.asyncio(loop_scope="module")

VERSION, PLAIN, LATER = "1.30.1", "1.29.7", "1.31.0"


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def family(kubeconfig: Path, etcd: Etcd, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Family]:
    """The family with its controllers, for all lives: its clock goes on from one to the next."""
    async with living(kubeconfig, etcd, tmp_path_factory.mktemp("family")) as (made, _), made.controlled():
        yield made


#: What each client sets besides the versions, all the time.
MARKS: dict[str, Document] = {"v1beta1": {"type": "local"}, "v1beta2": {"limits": {"maxNodesTotal": 9}}}


class Editor:
    """A client that reads, changes, and puts back all that it read."""

    def __init__(self, family: Family, version: str, name: str) -> None:
        self._family, self._version, self._name = family, version, name
        self.manager = f"editor-{version}"

    async def creates(self, spec: Document) -> None:
        """Create the profile."""
        await self._family.new.create(self._family.new.manifest(CLOUD_PROFILE, self._name, spec))

    async def writes(self, change: Tell) -> Reply:
        """Change the spec."""
        return await self._family.edit(
            self._version, CLOUD_PROFILE, self._name, lambda found: change(found["spec"]), self.manager
        )

    def is_owner(self, found: Document) -> bool:
        """Whether it still owns what it wrote once and nobody changed since."""
        return frozenset(owned_paths(MARKS[self._version])) <= owners(found)[self.manager, "Update", ""]


class Applier:
    """A client that keeps a manifest of what it has to say, and nothing else, and applies it without force."""

    def __init__(self, family: Family, version: str, name: str) -> None:
        self._family = family
        api = family.old if version == "v1beta1" else family.new
        self._manifest = api.manifest(CLOUD_PROFILE, name, {})
        self.manager = f"applier-{version}"

    async def creates(self, spec: Document) -> None:
        """Create the profile."""
        await self.writes(lambda mine: mine.update(spec))

    async def writes(self, change: Tell, *, force: bool = False) -> Reply:
        """Change its manifest's spec, and apply it."""
        change(self._manifest["spec"])
        return await self._family.apply(self._manifest, self.manager, force=force)

    def is_owner(self, found: Document) -> bool:
        """Whether it owns what its manifest says, and nothing else."""
        return owners(found)[self.manager, "Apply", ""] == frozenset(owned_paths(self._manifest["spec"]))


class Life:
    """One profile, its two clients, and what each has to see of it now."""

    def __init__(self, family: Family, name: str, old: type[Editor | Applier], new: type[Editor | Applier]) -> None:
        self._family, self._name = family, name
        self.old, self.new = old(family, "v1beta1", name), new(family, "v1beta2", name)
        self.sees: dict[str, Document] = {"v1beta1": {}, "v1beta2": {}}

    async def begins(self, *versions: Document, **seen: Document) -> None:
        """Have the new client create the profile, and both say what else they have to say."""
        await self.new.creates(REST | {"kubernetes": {"versions": list(versions)}})
        await self.new.writes(lambda spec: spec.update(MARKS["v1beta2"]))
        await self.old.writes(lambda spec: spec.update(MARKS["v1beta1"]))
        self.sees["v1beta2"] = versions_in({"spec": {"kubernetes": {"versions": list(versions)}}})
        self.sees["v1beta1"] = {_version(name): fields for name, fields in seen.items()}
        await self.is_seen()

    async def is_seen(self) -> None:
        """Both versions show what they can, both clients own what they said, and reading harms nothing."""
        settled = await self._family.settles(CLOUD_PROFILE, self._name)
        for version, expected in self.sees.items():
            assert versions_in(await self._family.at(version, CLOUD_PROFILE, self._name)) == expected, version
        assert self.old.is_owner(settled) and self.new.is_owner(settled)
        before = await self._family.stored(CLOUD_PROFILE, self._name)
        unchanged = await self._family.edit("v1beta1", CLOUD_PROFILE, self._name, lambda _: None, "idle")
        assert spoken(unchanged) == []
        for client in (self.old, self.new):
            assert spoken(await client.writes(lambda _: None)) == []
        assert await self._family.stored(CLOUD_PROFILE, self._name) == before

    async def goes_on(self, days: int, **classifications: str) -> None:
        """Let days pass; say what v1beta1 shows of versions from then on."""
        await self._family.pass_time(days=days)
        for name, classification in classifications.items():
            self.sees["v1beta1"].setdefault(_version(name), {})["classification"] = classification
        await self.is_seen()

    async def old_says(self, change: Tell, version: str, *stages: Document, **fields: Any) -> None:
        """Have the old client write; what both see of a version afterwards are these fields, and these stages."""
        await self._say(self.old, change, version, fields, stages)

    async def new_says(self, version: str, *stages: Document, **fields: Any) -> None:
        """Have the new client give a version these stages, of which the old one sees these fields."""
        change = told(version, lifecycle=list(stages)) if stages else told(version)
        await self._say(self.new, change, version, fields, stages)

    async def _say(
        self, client: Editor | Applier, change: Tell, version: str, fields: Document, stages: tuple[Document, ...]
    ) -> None:
        assert spoken(await client.writes(change)) == []
        if stages:
            self.sees["v1beta2"][version] = {"lifecycle": list(stages)}
        else:
            self.sees["v1beta2"].pop(version)
        if fields:
            self.sees["v1beta1"][version] = fields
        else:
            self.sees["v1beta1"].pop(version, None)
        await self.is_seen()


def _version(name: str) -> str:
    return name.removeprefix("v").replace("_", ".")


@pytest.mark.parametrize("new", [Applier, Editor])
@pytest.mark.parametrize("old", [Applier, Editor])
async def test_two_clients_live_with_one_profile(
    family: Family, old: type[Editor | Applier], new: type[Editor | Applier]
) -> None:
    """A stage that is lost, a version that is shown too early, an edit undone or an owner forgotten would show here."""
    life = Life(family, f"{old.__name__}-{new.__name__}".lower(), old, new)
    after = family.time.after
    start = {days: after(days=days) for days in (1, 60, 90, 120, 130, 200, 300)}
    stages = [stage("preview"), stage("supported", start[1]), stage("deprecated", start[90])]
    ends, later = stage("expired", start[120]), stage("preview", start[60])
    await life.begins(
        lifecycle(VERSION, *stages, ends),
        lifecycle(LATER, later),
        v1_30_1={"classification": "preview", "expirationDate": start[120]},
    )

    plain = told(PLAIN, classification="supported")
    await life.old_says(plain, PLAIN, stage("supported"), classification="supported")
    await life.new_says(LATER, later, stage("supported", start[200]))

    await life.goes_on(1, v1_30_1="supported")
    dated = {"classification": "supported", "expirationDate": start[200]}
    await life.old_says(told(PLAIN, **dated), PLAIN, stage("supported"), stage("expired", start[200]), **dated)
    later_stages = [later, stage("supported", start[200]), stage("deprecated", start[300])]
    await life.new_says(LATER, *later_stages)

    await life.goes_on(59, v1_31_0="preview")
    await life.goes_on(30, v1_30_1="deprecated")
    dated = {"classification": "deprecated", "expirationDate": start[200]}
    await life.old_says(told(PLAIN, **dated), PLAIN, stage("deprecated"), stage("expired", start[200]), **dated)
    ends = stage("expired", start[130])
    await life.new_says(VERSION, *stages, ends, classification="deprecated", expirationDate=start[130])

    await life.goes_on(40)  # an expired version is shown as what it was before, with its date
    await life.old_says(
        told(PLAIN, classification="deprecated"), PLAIN, stage("deprecated"), classification="deprecated"
    )
    await life.new_says(VERSION)
    await life.goes_on(70, v1_31_0="supported")
    await life.goes_on(100, v1_31_0="deprecated")


async def test_what_one_applier_owns_the_other_takes_by_force_alone(family: Family) -> None:
    """A date at v1beta1 is a stage at v1beta2: who applies it in the other's place must be told whose it is."""
    name, ends, later = "owned", family.time.after(days=120), family.time.after(days=150)
    old, new = Applier(family, "v1beta1", name), Applier(family, "v1beta2", name)
    stages = stage("preview"), stage("deprecated", family.time.after(days=90))
    await new.creates(REST | {"kubernetes": {"versions": [lifecycle(VERSION, *stages, stage("expired", ends))]}})
    await family.settles(CLOUD_PROFILE, name)
    await old.writes(told(VERSION, classification="preview", expirationDate=ends))  # the same in other words
    found = await family.get(CLOUD_PROFILE, name)
    assert old.is_owner(found) and new.is_owner(found)

    moved = told(VERSION, classification="preview", expirationDate=later)
    refusal = await family.refused(old.writes(moved))
    assert 'conflict with "applier-v1beta2": ' in refusal
    assert f'.spec.kubernetes.versions[version="{VERSION}"].lifecycle[classification="expired"].startTime' in refusal
    await old.writes(moved, force=True)
    found = await family.settles(CLOUD_PROFILE, name)
    assert versions_in(found)[VERSION]["lifecycle"] == [*stages, stage("expired", later)]
    assert old.is_owner(found) and not new.is_owner(found)
    assert 'conflict with "applier-v1beta1"' in await family.refused(new.writes(lambda _: None))
