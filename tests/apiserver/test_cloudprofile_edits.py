"""Every row of the design's table "Edits through v1beta1" through the real server, with the stash and without it.

The rows are those of the pure tests: what conversion decides there must be what is stored here, and what the admission
step says of it must arrive as a warning.
"""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from restow.controlplane.etcd import Etcd
from tests.apiserver.kind import Document
from tests.apiserver.profile_world import (
    CLOUD_PROFILE,
    REST,
    Family,
    MovedTime,
    lifecycle,
    living,
    spoken,
    stage,
    versions_in,
)
from tests.cloudprofile.conversions.family import STASH
from tests.cloudprofile.conversions.test_edits import FULL, HIDDEN, NOW, ROWS, STORED, stages_in

pytestmark = pytest.mark.asyncio(loop_scope="module")

EXPIRED = stage("expired", "2024-12-01T00:00:00Z")

_numbers = itertools.count(1)
kept_or_lost = pytest.mark.parametrize("loses_stash", [False, True], ids=["stash kept", "stash lost"])


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def family(kubeconfig: Path, etcd: Etcd, tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Family]:
    """The family with its controllers, at a moment that stays."""
    folder = tmp_path_factory.mktemp("family")
    async with living(kubeconfig, etcd, folder, clock=MovedTime(NOW)) as (made, _), made.controlled():
        yield made


@pytest_asyncio.fixture(loop_scope="module")
async def name(family: Family) -> str:
    """A profile with the versions of the pure tests, and its status."""
    made = f"edited-{next(_numbers)}"
    await family.profile(made, *STORED["spec"]["kubernetes"]["versions"], **REST)
    await family.settles(CLOUD_PROFILE, made)
    return made


async def sends(
    family: Family, name: str, version: str, fields: Document | None, *, loses_stash: bool
) -> tuple[dict[str, Any], list[str]]:
    """Read at v1beta1, change one version or remove it, replace; return the lifecycles and the warnings about it."""

    def change(found: Document) -> None:
        listed = found["spec"]["kubernetes"]["versions"]
        at = next((place for place, each in enumerate(listed) if each["version"] == version), len(listed))
        listed[at : at + 1] = [] if fields is None else [{"version": version, **fields}]
        if loses_stash:
            assert found["metadata"]["annotations"].pop(STASH)

    reply = await family.edit("v1beta1", CLOUD_PROFILE, name, change)
    return stages_in(await family.get(CLOUD_PROFILE, name)), [w for w in spoken(reply) if w.startswith("Kubernetes")]


@kept_or_lost
@pytest.mark.parametrize(("version", "fields", "expected", "warnings"), ROWS)
async def test_an_edit(
    family: Family,
    name: str,
    version: str,
    fields: Document,
    expected: Any,
    warnings: list[str],
    loses_stash: bool,
) -> None:
    """An edit that does something else than the table says changes what a v1beta2 client has planned."""
    became, heard = await sends(family, name, version, fields, loses_stash=loses_stash)
    assert became == {**stages_in(STORED), version: expected}
    assert heard == warnings


@kept_or_lost
async def test_a_version_removed(family: Family, name: str, loses_stash: bool) -> None:
    """Only an expired one may go; no hidden one goes with it."""
    ended = lifecycle("1.26.0", stage("preview"), stage("deprecated", "2024-06-01T00:00:00Z"), EXPIRED)
    other = f"{name}-ended"
    await family.profile(other, ended, *STORED["spec"]["kubernetes"]["versions"], **REST)
    await family.settles(CLOUD_PROFILE, other)
    shown = versions_in(await family.at("v1beta1", CLOUD_PROFILE, other))
    assert shown["1.26.0"] == {"classification": "deprecated", "expirationDate": EXPIRED["startTime"]}
    became, heard = await sends(family, other, "1.26.0", None, loses_stash=loses_stash)
    assert (became, heard) == (stages_in(STORED), [])
    refusal = await family.refused(sends(family, other, "1.28.0", None, loses_stash=loses_stash))
    assert f'CloudProfile "{other}" is invalid: spec.kubernetes.versions: Forbidden: unable to delete' in refusal
    assert stages_in(await family.get(CLOUD_PROFILE, other)) == stages_in(STORED)


@kept_or_lost
async def test_an_edit_of_nothing_is_no_edit(family: Family, name: str, loses_stash: bool) -> None:
    """To the byte, in etcd: a write that changes nothing would wake every watcher, or take fields from their owners.

    Of an object without its stash the API server believes, before admission is asked, that the stages are taken away.
    """
    before = await family.stored(CLOUD_PROFILE, name)

    def change(found: Document) -> None:
        if loses_stash:
            del found["metadata"]["annotations"]

    assert spoken(await family.edit("v1beta1", CLOUD_PROFILE, name, change)) == []
    assert await family.stored(CLOUD_PROFILE, name) == before


async def test_a_lost_stash_takes_no_stage_from_its_owner(family: Family) -> None:
    """A planner that drops a stage would leave it behind for ever, for it would no longer be known as its own."""
    stages = [stage("preview"), stage("supported", "2025-03-01T00:00:00Z"), stage("deprecated", "2025-06-01T00:00:00Z")]

    def manifest(*planned: Document) -> Document:
        return family.new.manifest(
            CLOUD_PROFILE, "planned", {"kubernetes": {"versions": [lifecycle("1.30.1", *planned)]}}
        )

    await family.apply(manifest(*stages), "planner")
    await family.settles(CLOUD_PROFILE, "planned")
    await family.edit("v1beta1", CLOUD_PROFILE, "planned", lambda found: found["metadata"].pop("annotations"))
    await family.apply(manifest(*stages[:2]), "planner")
    assert stages_in(await family.get(CLOUD_PROFILE, "planned")) == {"1.30.1": stages[:2]}


@kept_or_lost
async def test_an_edit_of_an_image_version(family: Family, name: str, loses_stash: bool) -> None:
    """Versions in images are versions too; their warnings name the image."""
    ubuntu = REST["machineImages"][0]
    listed = [lifecycle("1.0.0", *FULL), lifecycle("2.0.0", *HIDDEN)]
    await family.edit(
        "v1beta2",
        CLOUD_PROFILE,
        name,
        lambda found: found["spec"].update(machineImages=[ubuntu | {"versions": listed}]),
    )
    await family.settles(CLOUD_PROFILE, name)

    def change(found: Document) -> None:
        [version] = found["spec"]["machineImages"][0]["versions"]
        assert (version["version"], version["classification"]) == ("1.0.0", "supported")
        version |= {"classification": "preview", "expirationDate": "2025-03-01T00:00:00Z"}
        if loses_stash:
            del found["metadata"]["annotations"]

    reply = await family.edit("v1beta1", CLOUD_PROFILE, name, change)
    [image] = (await family.get(CLOUD_PROFILE, name))["spec"]["machineImages"]
    assert [each["lifecycle"] for each in image["versions"]] == [
        [*FULL[:2], stage("expired", "2025-03-01T00:00:00Z")],
        HIDDEN,
    ]
    assert [warning for warning in spoken(reply) if warning.startswith("ubuntu")] == [
        "ubuntu 1.0.0: classification stays supported, by its lifecycle; change lifecycle at v1beta2",
        "ubuntu 1.0.0: set aside until expirationDate is later or removed: deprecated",
    ]
