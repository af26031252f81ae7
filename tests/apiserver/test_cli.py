"""``restow`` as people use it, a process of its own on a real API server: results, exit codes, streams and flags."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from restow.controlplane.binaries import find_binaries
from restow.kube.client import HttpCluster
from restow.kube.resources import CRDS
from tests.apiserver.access import Access
from tests.apiserver.kind import Document, Kind, entry_versions, owners, until
from tests.restow.commandline import RESTOW, Cli, restow

REPORT = {
    "result": str,
    "crds": [
        {
            "name": str,
            "storageVersion": str,
            "storedVersionsBefore": [str],
            "storedVersionsAfter": [str],
            "pruned": bool,
            "prunedReason": str,
            "objects": dict.fromkeys(
                ("listed", "rewritten", "current", "translated", "stripped", "gone", "failed", "remaining"), int
            ),
            "requests": dict.fromkeys(("list", "read", "write", "retried"), int),
            "failures": [dict.fromkeys(("namespace", "name", "reason", "message"), str)],
            "durationSeconds": float,
        }
    ],
}
"""The JSON of ``restow migrate``, as scripts rely on it; more keys may come, none of these may go."""


@pytest.fixture
async def due(kind: Kind) -> Kind:
    """Six objects of alice at v1alpha1, half of them in ``other``, labelled odd or even; v1beta1 has become storage."""
    await kind.namespace("other")
    for number in range(6):
        labels = {"labels": {"parity": "odd" if number % 2 else "even"}}
        namespace = "other" if number >= 3 else "default"
        await kind.apply(
            kind.manifest("v1alpha1", f"w{number}", namespace, spec={"size": number}, metadata=labels), "alice"
        )
    await kind.change(kind.document(storage="v1beta1"))
    return kind


async def stored_versions_of_objects(kind: Kind) -> dict[str, str]:
    """At which version each object is stored, from etcd."""
    return {key: found["apiVersion"].split("/")[1] for key, found in (await kind.stored()).items()}


def misfit(found: Any, shape: Any, path: str = "") -> str:
    """Where some JSON is not of a shape, or an empty string; more keys than the shape has are fine."""
    if isinstance(shape, dict):
        if not isinstance(found, dict) or not shape.keys() <= found.keys():
            return f"{path} lacks {sorted(shape.keys() - set(found))}"
        return next((wrong for key in shape if (wrong := misfit(found[key], shape[key], f"{path}.{key}"))), "")
    if isinstance(shape, list):
        if not isinstance(found, list):
            return f"{path} is no list"
        return next((wrong for each in found if (wrong := misfit(each, shape[0], f"{path}[]"))), "")
    return "" if type(found) is shape else f"{path} is {found!r}, not a {shape.__name__}"


def test_misfit_finds_what_does_not_fit() -> None:
    """A check of shapes that lets everything pass would guard nothing."""
    assert misfit({"result": "x", "crds": [], "more": 1}, REPORT) == ""
    assert misfit({"crds": []}, REPORT) == " lacks ['result']"
    assert misfit({"result": "x", "crds": [{"name": 1}]}, REPORT).startswith(".crds[] lacks")
    assert misfit({"a": True}, {"a": int}) == ".a is True, not a int"


async def test_the_life_of_a_version_in_exit_codes(kind: Kind, cli: Cli) -> None:
    """Pipelines branch on these: 0 done, 1 failures, 2 refused, 3 due or not ready."""
    await kind.apply(kind.manifest("v1alpha1", "w", spec={"size": 1}), "alice")
    name = kind.name

    async def states() -> tuple[str, int, int]:
        status, plan, ready = await asyncio.gather(
            cli("status", name, "-o", "json"), cli("plan", name), cli("ready", name, "--drop", "v1alpha1")
        )
        assert status.code == 0
        return status.json["crds"][0]["state"], plan.code, ready.code

    assert await states() == ("one version", 0, 3)
    await kind.change(kind.document(storage="v1alpha1"))
    assert await states() == ("not proved", 3, 3)
    await kind.change(kind.document(storage="v1beta1"))
    assert await states() == ("migration due", 3, 3)
    assert (await cli("migrate", name, "--settle", "0")).code == 0
    assert await states() == ("migrated", 0, 0)
    await kind.change(kind.document(storage="v1beta1", versions=("v1beta1",)))
    assert await states() == ("one version", 0, 2)  # nobody knows that version any more
    assert (await cli("migrate", name, "--only", "prune")).code == 0


async def test_a_misspelt_version_is_refused(due: Kind, cli: Cli) -> None:
    """Nothing is stored at it and nobody owns anything by it, so it would be "ready" at once."""
    refusal = (await cli("ready", due.name, "--drop", "v1alpha")).refusal
    assert refusal.startswith(f"{due.name} has no version v1alpha")
    assert "v1alpha1, v1beta1" in refusal


async def test_migrate_as_json(due: Kind, cli: Cli) -> None:
    """Scripts read these keys and types; a renamed one breaks them without an error anywhere."""
    ran = await cli("migrate", due.name, "--settle", "0", "-o", "json")
    assert ran.code == 0
    assert misfit(ran.json, REPORT) == ""
    (crd,) = ran.json["crds"]
    assert (ran.json["result"], crd["name"], crd["storageVersion"]) == ("Succeeded", due.name, "v1beta1")
    assert (crd["storedVersionsBefore"], crd["storedVersionsAfter"]) == (["v1alpha1", "v1beta1"], ["v1beta1"])
    assert crd["pruned"] is True
    counts = crd["objects"]
    assert (counts["listed"], counts["rewritten"], counts["translated"], counts["failed"]) == (6, 6, 6, 0)
    assert crd["requests"]["write"] == 6
    assert crd["failures"] == []
    assert set((await stored_versions_of_objects(due)).values()) == {"v1beta1"}
    assert await due.stored_versions() == ["v1beta1"]


async def test_objects_that_fail_are_told_and_counted(due: Kind, cli: Cli, access: Access) -> None:
    """Exit code 1, each failure with its object and reason, the others done, and nothing pruned."""
    await access.refuse_updates(due, "v1beta1", ["w1", "w2"])
    ran = await cli("migrate", due.name, "--settle", "0", "-o", "json")
    assert ran.code == 1
    assert misfit(ran.json, REPORT) == ""
    (crd,) = ran.json["crds"]
    assert (ran.json["result"], crd["pruned"], crd["objects"]["failed"], crd["objects"]["rewritten"]) == (
        "Failed",
        False,
        2,
        4,
    )
    assert {(each["namespace"], each["name"], each["reason"]) for each in crd["failures"]} == {
        ("default", "w1", "Invalid"),
        ("default", "w2", "Invalid"),
    }
    assert all("it is frozen" in each["message"] for each in crd["failures"])
    found = await stored_versions_of_objects(due)
    assert {key for key, version in found.items() if version == "v1alpha1"} == {"default/w1", "default/w2"}
    assert await due.stored_versions() == ["v1alpha1", "v1beta1"]
    table = await cli("migrate", due.name, "--settle", "0")
    assert table.code == 1
    assert f"{due.name}: default/w1: Invalid: " in table.err
    assert table.err.rstrip().endswith("Failed")
    assert dict(zip(*table.rows, strict=True))["FAILED"] == "2"


async def test_a_dry_run_stores_nothing(due: Kind, cli: Cli, cluster: HttpCluster) -> None:
    """Not an object, not the CRD; a rehearsal that wrote would be the performance."""

    async def versions() -> dict[str, str]:
        found = (await cluster.list_page(due.at("v1beta1"), metadata_only=True)).json()["items"]
        crd = (await cluster.get(CRDS, due.name)).json()
        return {each["metadata"]["name"]: each["metadata"]["resourceVersion"] for each in (*found, crd)}

    before, stored = await versions(), await due.stored()
    ran = await cli("migrate", due.name, "--settle", "0", "--dry-run", "-o", "json")
    assert (ran.code, ran.json["result"]) == (0, "DryRun")
    (crd,) = ran.json["crds"]
    assert (crd["pruned"], crd["prunedReason"]) == (False, "dry run")
    assert crd["requests"]["write"] == 6
    assert await versions() == before
    assert await due.stored() == stored
    assert (await cli("plan", due.name)).code == 3


async def test_a_dry_run_tells_what_would_be_refused(due: Kind, cli: Cli, access: Access) -> None:
    """Policies that refuse an object are what one rehearses for."""
    await access.refuse_updates(due, "v1beta1", ["w0"])
    stored = await due.stored()
    ran = await cli("migrate", due.name, "--settle", "0", "--dry-run", "-o", "json")
    assert (ran.code, ran.json["result"]) == (1, "Failed")
    assert [each["name"] for each in ran.json["crds"][0]["failures"]] == ["w0"]
    assert await due.stored() == stored


@pytest.mark.parametrize("command", ["status", "plan", "ready", "migrate"])
async def test_yaml_says_what_json_says(command: str, due: Kind, cli: Cli) -> None:
    """One result in two notations; and nothing else on stdout."""
    arguments = [command, due.name]
    if command == "ready":
        arguments += ["--drop", "v1alpha1"]
    if command == "migrate":
        arguments += ["--settle", "0", "--dry-run"]
    plain, other = await asyncio.gather(cli(*arguments, "-o", "json"), cli(*arguments, "-o", "yaml"))
    assert plain.code == other.code
    found, same = plain.json, other.yaml
    for each in found.get("crds", []) + same.get("crds", []):
        each.pop("durationSeconds", None)
        each.get("cost", {}).pop("estimate", None)  # measured each time
    assert found == same
    assert found


async def test_tables_are_one_line_a_row_and_progress_goes_to_stderr(due: Kind, cli: Cli) -> None:
    """A result with progress in it cannot be piped; a folded row cannot be cut."""
    status = await cli("status", due.name)
    assert status.rows == [
        ["NAME", "STORAGE", "SERVED", "STORED", "STRATEGY", "STATE"],
        [due.name, "v1beta1", "v1beta1,v1alpha1", "v1alpha1,v1beta1", "None", "migration due"],
    ]
    assert status.err == ""
    plan = await cli("plan", due.name)
    assert dict(zip(*plan.rows, strict=True)) == {
        "NAME": due.name,
        "STORAGE": "v1beta1",
        "STORED": "v1alpha1,v1beta1",
        "STRATEGY": "None",
        "OBJECTS": "6",
        "DUE": "storage,managed-fields,prune",
        "WRITES": "6",
        "REMAINING": "0",
    }
    assert "objects may be stored at v1alpha1; all are to be written at v1beta1" in plan.err
    ready = await cli("ready", due.name, "--drop", "v1alpha1")
    assert ready.out.startswith(f"v1alpha1 of {due.name} can be unserved now, not removed yet: 6 objects looked at")
    assert "alice (6)" in ready.err
    migrate = await cli("migrate", due.name, "--settle", "0")
    row = dict(zip(*migrate.rows, strict=True))
    assert re.fullmatch(r"\d+\.\ds", row.pop("TIME"))
    assert row == {
        "NAME": due.name,
        "STORAGE": "v1beta1",
        "STORED": "v1beta1",
        "OBJECTS": "6",
        "REWRITTEN": "6",
        "TRANSLATED": "6",
        "REMAINING": "0",
        "FAILED": "0",
        "PRUNED": "yes",
    }
    lines = migrate.err.splitlines()
    assert lines[0] == f"{due.name}: bringing objects to v1beta1"
    assert lines[-1] == "Succeeded"
    assert all(line.startswith(f"{due.name}: ") for line in lines[:-1])


async def test_a_wide_table_is_not_folded(kind: Kind, cli: Cli) -> None:
    """Twenty versions are more than any terminal is wide."""
    versions = [f"v{number}alpha{number}" for number in range(1, 25)]
    await kind.change(kind.document(storage="v1alpha1", versions=versions))
    ran = await cli("status", kind.name, environment={"COLUMNS": "40"})
    assert len(ran.rows) == 2
    assert sorted(ran.rows[1][2].split(",")) == sorted(versions)


async def test_a_run_that_settles_says_so(due: Kind, cli: Cli) -> None:
    """Seconds without a word look like a hang; who waits wants to know for what."""
    await due.change(due.document(storage="v1beta1", default=True))
    ran = await cli("migrate", due.name, "--settle", "3")
    assert ran.code == 0
    assert re.match(
        rf"{re.escape(due.name)}: waiting \d\.\d s more, until requests have ended that began before", ran.err
    )


async def test_all_means_every_crd(due: Kind, cli: Cli, cluster: HttpCluster) -> None:
    """The one that is left out is the one whose old version cannot be removed."""

    async def others() -> list[str]:
        found = (await cluster.list_page(CRDS)).json()["items"]
        return [
            f"{each['metadata']['name']}: deleted {each['metadata'].get('deletionTimestamp')}, {each.get('status')}"
            for each in found
            if each["metadata"]["name"] != due.name
        ]

    async def alone() -> bool:  # those of the tests before take a moment to go
        return not await others()

    try:
        await until(alone, "CRDs of other tests are still there")
    except AssertionError as error:
        raise AssertionError("\n".join([str(error), *await others()])) from None
    second = Kind(cluster, due.etcd, f"second.{due.group}")
    await second.create(second.document(storage="v1alpha1"))
    try:
        names = sorted((due.name, second.name))
        for command in (["status"], ["plan", "--all"], ["migrate", "--all", "--settle", "0"]):
            ran = await cli(*command, "-o", "json")
            assert [each["name"] for each in ran.json["crds"]] == names
        assert await due.stored_versions() == ["v1beta1"]
        assert (await cli("plan", "--all")).code == 0
    finally:
        await second.remove()


async def test_one_that_cannot_be_migrated_does_not_spoil_the_plan_for_all(
    due: Kind, cli: Cli, cluster: HttpCluster
) -> None:
    """A cluster has CRDs in every state: asked for all, those are told; asked for by name, it is an error."""
    second = Kind(cluster, due.etcd, f"second.{due.group}")
    await second.create(second.document(storage="v1beta1", served=["v1alpha1"]))
    try:
        every = await cli("plan", "--all")
        assert every.code == 3
        assert f"restow: the storage version v1beta1 of {second.name} is not served" in every.err
        assert {row[0] for row in every.rows} >= {due.name, second.name}
        named = await cli("plan", due.name, second.name)
        assert named.code == 2
    finally:
        await second.remove()


async def test_manifests_name_crds(due: Kind, cli: Cli, tmp_path: Path) -> None:
    """A release's own manifests say what to migrate: a file, a folder, or a pipe."""
    manifest = json.dumps(due.document(storage="v1beta1"))
    (tmp_path / "crd.yaml").write_text(f"kind: Namespace\nmetadata: {{name: x}}\n---\n{manifest}")
    for given, stdin in ((tmp_path / "crd.yaml", ""), (tmp_path, ""), ("-", manifest)):
        ran = await cli("plan", "-f", given, "-o", "json", stdin=stdin)
        assert ran.code == 3
        assert [each["name"] for each in ran.json["crds"]] == [due.name]
    assert (await cli("migrate", "-f", tmp_path, "--settle", "0")).code == 0
    assert await due.stored_versions() == ["v1beta1"]


@pytest.mark.parametrize(
    ("flags", "done"),
    [
        (["-n", "other"], {"other/w3", "other/w4", "other/w5"}),
        (["-l", "parity=odd"], {"default/w1", "other/w3", "other/w5"}),
        (["-n", "other", "-l", "parity in (even)"], {"other/w4"}),
    ],
)
async def test_a_part_of_the_objects_is_never_pruned(flags: list[str], done: set[str], due: Kind, cli: Cli) -> None:
    """The objects outside are still stored at the old version, and a prune would lose them without a word."""
    plan = await cli("plan", due.name, *flags, "-o", "json")
    assert plan.json["crds"][0]["objects"] == len(done)
    ran = await cli("migrate", due.name, "--settle", "0", *flags, "-o", "json")
    assert (ran.code, ran.json["crds"][0]["pruned"]) == (0, False)
    assert "only a part" in ran.json["crds"][0]["prunedReason"]
    found = await stored_versions_of_objects(due)
    assert {key for key, version in found.items() if version == "v1beta1"} == done
    assert await due.stored_versions() == ["v1alpha1", "v1beta1"]
    assert (await cli("plan", due.name)).code == 3


@pytest.mark.parametrize(
    ("flags", "stored", "entries", "pruned"),
    [
        (["--no-prune"], "v1beta1", "v1beta1", False),
        (["--skip-phase", "prune"], "v1beta1", "v1beta1", False),
        (["--skip-phase", "managed-fields"], "v1beta1", "v1alpha1", True),
        (["--managed-fields", "keep"], "v1beta1", "v1alpha1", True),
        (["--skip-phase", "storage", "--skip-phase", "managed-fields"], "v1alpha1", "v1alpha1", False),
        (["--skip-phase", "storage"], "v1beta1", "v1beta1", False),
        (["--only", "prune"], "v1beta1", "v1alpha1", True),
        (["--only", "storage"], "v1beta1", "v1alpha1", False),
        (["--only", "managed-fields"], "v1beta1", "v1beta1", False),
        (["-A"], "v1beta1", "v1beta1", True),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else None,
)
async def test_phases_that_are_switched_off(
    flags: list[str], stored: str, entries: str, pruned: bool, due: Kind, cli: Cli
) -> None:
    """Whoever switches a phase off has a reason; a write all the same would be the thing they feared."""
    before = {key: owners(found) for key, found in (await due.stored()).items()}
    ran = await cli("migrate", due.name, "--settle", "0", *flags, "-o", "json")
    assert ran.code == 0, ran.err
    after = await due.stored()
    assert set((await stored_versions_of_objects(due)).values()) == {stored}
    assert {version for found in after.values() for version in entry_versions(found)} == {entries}
    assert {key: owners(found) for key, found in after.items()} == before
    assert ran.json["crds"][0]["pruned"] is pruned
    assert await due.stored_versions() == (["v1beta1"] if pruned else ["v1alpha1", "v1beta1"])


async def test_stripped_owners_are_told(due: Kind, cli: Cli) -> None:
    """Owners that are dropped on purpose must be known by name, since their next apply may conflict."""
    await due.change(due.document(storage="v1beta1", served=["v1beta1"]))
    ran = await cli("migrate", due.name, "--settle", "0", "--managed-fields", "strip")
    assert ran.code == 0
    assert f"{due.name}: stripped 6 managedFields entries of alice at {due.group}/v1alpha1" in ran.err


async def test_prune_alone(due: Kind, cli: Cli) -> None:
    """It proves first: objects stored at the old version are written, their managedFields left as they are."""
    ran = await cli("migrate", due.name, "--only", "prune", "-o", "json")
    assert (ran.code, ran.json["crds"][0]["pruned"]) == (0, True)
    assert misfit(ran.json, REPORT) == ""
    assert set((await stored_versions_of_objects(due)).values()) == {"v1beta1"}
    assert {version for found in (await due.stored()).values() for version in entry_versions(found)} == {"v1alpha1"}
    again = await cli("migrate", due.name, "--only", "prune", "-o", "json")
    assert (again.code, again.json["crds"][0]["requests"]["write"]) == (0, 0)


async def test_the_report_is_written_to_a_file_too(due: Kind, cli: Cli, tmp_path: Path) -> None:
    """A Job keeps its report next to its log, whatever it prints."""
    file = tmp_path / "report.json"
    ran = await cli("migrate", due.name, "--settle", "0", "-o", "json", "--report", file)
    assert json.loads(file.read_text()) == ran.json
    table = await cli("migrate", due.name, "--report", file)
    assert table.rows[0][0] == "NAME"
    assert json.loads(file.read_text())["result"] == "Succeeded"
    refused = await cli("migrate", "absent.example.com", "--report", file)
    assert refused.code == 2
    assert json.loads(file.read_text())["result"] == "Refused"


async def test_a_run_repeated_does_nothing(due: Kind, cli: Cli) -> None:
    """Hooks run at every upgrade: what is done must cost no request about objects, and be told as done."""
    await cli("migrate", due.name, "--settle", "0")
    stored = await due.stored()
    ran = await cli("migrate", due.name, "-o", "json")
    (crd,) = ran.json["crds"]
    assert (ran.code, crd["requests"]["list"], crd["requests"]["write"]) == (0, 0, 0)
    assert f"{due.name}: nothing is due: " in ran.err
    assert await due.stored() == stored


@pytest.mark.parametrize(
    "arguments",
    [["status"], ["status", "-o", "json"], ["plan", "--all"], ["migrate", "{name}", "--dry-run", "-o", "yaml"]],
    ids=" ".join,
)
async def test_a_closed_pipe_is_no_traceback(arguments: list[str], due: Kind, kubeconfig: Path) -> None:
    """``restow status | head -1`` closes the pipe while there is more to say."""
    command = [*RESTOW, *(each.format(name=due.name) for each in arguments), "--kubeconfig", str(kubeconfig)]

    def run() -> subprocess.CompletedProcess[str]:
        reader, writer = os.pipe()
        os.close(reader)
        try:
            return subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, check=False, timeout=120)
        finally:
            os.close(writer)

    ran = await asyncio.to_thread(run)
    assert ran.returncode == 1
    assert "Traceback" not in ran.stderr
    assert "BrokenPipe" not in ran.stderr
    assert "Exception ignored" not in ran.stderr


async def test_a_migration_outlives_the_reader_of_its_progress(due: Kind, kubeconfig: Path) -> None:
    """A pager that is closed, or a log that is rotated away, must not leave a migration half done."""
    command = [*RESTOW, "migrate", due.name, "--settle", "0", "-o", "json", "--kubeconfig", str(kubeconfig)]

    def run() -> subprocess.CompletedProcess[str]:
        reader, writer = os.pipe()
        os.close(reader)
        try:
            return subprocess.run(command, stdout=subprocess.PIPE, stderr=writer, text=True, check=False, timeout=120)
        finally:
            os.close(writer)

    ran = await asyncio.to_thread(run)
    assert (ran.returncode, json.loads(ran.stdout)["result"]) == (0, "Succeeded")
    assert await due.stored_versions() == ["v1beta1"]


async def test_head_gets_its_line(due: Kind, kubeconfig: Path) -> None:
    """What was asked for arrives, and the shell sees no complaint."""
    restow_command = " ".join(f"'{part}'" for part in RESTOW)
    line = f"{restow_command} status --kubeconfig '{kubeconfig}' | head -1"
    ran = await asyncio.to_thread(subprocess.run, ["sh", "-c", line], capture_output=True, text=True, check=False)
    assert ran.stdout.startswith("NAME")
    assert ran.stderr == ""


async def test_kubectl_finds_its_plugin(due: Kind, kubeconfig: Path) -> None:
    """``kubectl restow`` is how cluster administrators expect to call it."""
    kubectl = (await find_binaries(("kubectl",)))["kubectl"]
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    ran = await asyncio.to_thread(
        restow,
        "restow",
        "status",
        due.name,
        command=(str(kubectl),),
        environment={"PATH": path, "KUBECONFIG": str(kubeconfig)},
    )
    assert ran.code == 0, ran.err
    assert ran.rows[1][0] == due.name


async def test_the_environment_names_the_cluster(due: Kind, kubeconfig: Path, tmp_path: Path) -> None:
    """KUBECONFIG and --context, as with kubectl."""
    document: Document = yaml.safe_load(kubeconfig.read_text())
    current = document.pop("current-context")
    (tmp_path / "config").write_text(json.dumps(document))
    environment = {"KUBECONFIG": os.pathsep.join([str(tmp_path / "absent"), str(tmp_path / "config")])}
    ran = await asyncio.to_thread(restow, "status", due.name, "--context", current, environment=environment)
    assert ran.code == 0
    ran = await asyncio.to_thread(restow, "status", due.name, environment=environment)
    assert f"names no current-context: give --context NAME (it has {current})" in ran.refusal
