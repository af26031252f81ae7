"""``restow profile``: each subcommand on a manifest, at a fixed time."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.restow.commandline import restow
from tests.restow.offline import REGISTRY, run

NOW = "2026-11-21T00:00:00Z"


def stage(classification, start=None):
    return {"classification": classification} | ({} if start is None else {"startTime": start})


def profile(*versions, **more):
    return {
        "apiVersion": "core.gardener.cloud/v1beta2",
        "kind": "CloudProfile",
        "metadata": {"name": "local"},
        "spec": {"kubernetes": {"versions": list(versions)}, **more},
    }


OLD = {
    "version": "1.30.5",
    "lifecycle": [stage("supported"), stage("expired", "2026-09-01T00:00:00Z")],
}
NEXT = {
    "version": "1.31.2",
    "lifecycle": [stage("supported"), stage("deprecated", "2027-01-01T00:00:00Z")],
}
NAMESPACED = {
    "apiVersion": "core.gardener.cloud/v1beta2",
    "kind": "NamespacedCloudProfile",
    "metadata": {"name": "mine", "namespace": "garden-a"},
    "spec": {
        "parent": {"kind": "CloudProfile", "name": "local"},
        "kubernetes": {"versions": [{"version": "1.30.5", "lifecycle": [stage("expired", "2027-06-01T00:00:00Z")]}]},
    },
}


@pytest.fixture
def manifest(tmp_path):
    def write(*documents) -> Path:
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.yaml"
        path.write_text(yaml.safe_dump_all(documents))
        return path

    return write


def test_evaluate(manifest):
    """What a version is now, what it becomes and when; a date in the wrong column would be planned by."""
    ran = restow("profile", "evaluate", "-f", manifest(profile(OLD, NEXT)), "--at", NOW)
    assert ran.code == 0
    assert ran.rows[1:] == [
        ["local", "Kubernetes", "1.30.5", "expired"],
        ["local", "Kubernetes", "1.31.2", "supported", "deprecated", "2027-01-01T00:00:00Z"],
    ]


def test_a_manifest_of_the_old_version_says_the_same(manifest):
    """Manifests of v1beta1 would be read as if their versions never expired."""
    old = profile({"version": "1.30.5", "expirationDate": "2026-09-01T00:00:00Z"})
    old["apiVersion"] = "core.gardener.cloud/v1beta1"
    ran = restow("profile", "evaluate", "-f", manifest(old), "--at", NOW, "-o", "json")
    assert [each["classification"] for each in ran.json["versions"]] == ["expired"]


def test_timeline(manifest, tmp_path):
    """On the terminal and as a file; neither may need anything but the manifest."""
    path = manifest(profile(OLD, NEXT))
    ran = restow("profile", "timeline", "-f", path, "--at", NOW)
    assert ran.code == 0
    assert "▼ 2026-11-21" in ran.out
    assert "x expired" in ran.out
    drawn = restow("profile", "timeline", "-f", path, "--at", NOW, "--svg", tmp_path / "chart.svg")
    assert (drawn.code, drawn.out) == (0, "")
    assert (tmp_path / "chart.svg").read_text().startswith("<svg ")


@pytest.mark.parametrize("at", ["v1beta1", "v1beta2"])
def test_the_version_that_a_project_adds_is_whole(manifest, at):
    """The commands would say of GEP-25's own manifest what the operator does not."""
    end = {"expirationDate": "2030-08-08T23:59:59Z"}
    if at == "v1beta2":
        end = {"lifecycle": [stage("expired", end["expirationDate"])]}
    rest = {"machineTypes": [], "regions": [], "type": "aws"}
    images = [{"name": "suse-chost", "updateStrategy": "major", "versions": [{"version": "15.4"}]}]
    child = {
        **NAMESPACED,
        "apiVersion": f"core.gardener.cloud/{at}",
        "spec": {
            "parent": NAMESPACED["spec"]["parent"],
            "machineImages": [{"name": "suse-chost", "versions": [{"version": "16.4", **end}]}],
        },
    }
    path = manifest(profile(OLD, NEXT, machineImages=images, **rest), child)
    (image,) = restow("profile", "render", "-f", path).yaml["machineImages"]
    assert image["versions"][1]["lifecycle"] == [stage("supported"), stage("expired", "2030-08-08T23:59:59Z")]
    assert restow("profile", "validate", "-f", path, "--at", NOW).code == 0


def test_one_supported_version_of_a_minor(manifest):
    """``validate`` would admit what admission refuses, or refuse dates of v1beta1 that admission admits."""

    def of(fields):
        made = profile(*({"version": f"1.31.{patch}", **fields} for patch in (1, 2)))
        return manifest({**made, "apiVersion": "core.gardener.cloud/v1beta1"})

    twice = restow("profile", "validate", "-f", of({"classification": "supported"}), "--at", NOW)
    assert twice.code == 1
    assert "must not overlap per minor version" in twice.out
    assert restow("profile", "validate", "-f", of({"expirationDate": "2030-01-01T00:00:00Z"}), "--at", NOW).code == 0


def test_render(manifest):
    """The override of a project, on the parent's version, as the controller will write it."""
    ran = restow("profile", "render", "-f", manifest(profile(OLD, NEXT), NAMESPACED))
    assert ran.code == 0
    first = ran.yaml["kubernetes"]["versions"][0]
    assert first["lifecycle"] == [stage("supported"), stage("expired", "2027-06-01T00:00:00Z")]
    alone = restow("profile", "render", "-f", manifest(NAMESPACED))
    assert 'names CloudProfile "local", which is not in the manifests' in alone.refusal


def test_validate(manifest):
    """Each refused field with its rule and exit code 1; a pipeline stops by that."""
    path = manifest(profile(OLD, NEXT))
    assert restow("profile", "validate", "-f", path, "--at", NOW).code == 0
    backwards = profile({"version": "1.30.5", "lifecycle": [stage("deprecated"), stage("supported", NOW)]})
    ran = restow("profile", "validate", "-f", manifest(backwards), "--at", NOW, "-o", "json")
    assert ran.code == 1
    assert ran.json["allowed"] is False
    fields = [each["field"] for each in ran.json["remarks"] if each["level"] == "refused"]
    assert "spec.kubernetes.versions[0].lifecycle[1].classification" in fields
    kept = restow("profile", "validate", "-f", path, "--old", path, "--at", NOW)
    assert kept.out == "1 profile would be admitted.\n"


def test_forced_target(manifest):
    """The chain, and the gap that breaks it off."""
    path = manifest(profile(OLD, NEXT))
    ran = restow("profile", "forced-target", "1.30.5", "-f", path, "--at", NOW)
    assert (ran.code, ran.out.split("  ")[0]) == (0, "1.30.5 -> 1.31.2")
    gap = restow("profile", "forced-target", "1.30.5", "-f", manifest(profile(OLD)), "--at", NOW, "-o", "json")
    assert gap.code == 1
    assert "add a version of 1.31" in gap.json["gap"]


def test_manage(manifest, tmp_path):
    """What would be changed and why, exit code 3; nothing where the configuration enables nothing."""
    config = tmp_path / "config.yaml"
    config.write_text("controllers: {cloudProfile: {kubernetesVersionManagement: {enabled: true}}}\n")
    path = manifest(profile({"version": "1.31.1"}, {"version": "1.31.2"}))
    ran = restow("profile", "manage", "-f", path, "--config", config, "--at", NOW, "-o", "json")
    assert ran.code == 3
    assert [(each["version"], each["becomes"].split(",")[0]) for each in ran.json["changes"]] == [
        ("1.31.1", "deprecated"),
        ("1.31.2", "supported"),
    ]
    applied = restow("profile", "manage", "-f", path, "--config", config, "--at", NOW, "--apply")
    assert applied.yaml["spec"]["kubernetes"]["versions"][1]["lifecycle"] == [stage("supported")]
    config.write_text("controllers: {cloudProfile: {}}\n")
    assert restow("profile", "manage", "-f", path, "--config", config).code == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["evaluate"], "Missing option '-f'"),
        (["evaluate", "--at", "yesterday"], "--at: 'yesterday' is not a time like"),
        (["timeline", "--from", NOW, "--to", NOW], "--from must be before --to"),
        (["forced-target", "x"], "x"),
        (["forced-target", "1", "--image", "os"], "has no machine image os"),
        (["manage", "--config", __file__], "config"),
    ],
)
def test_wrong_use(manifest, arguments, said):
    """Exit code 2 and a sentence, never a traceback or a guess."""
    file = [] if arguments == ["evaluate"] else ["-f", manifest(profile(OLD))]
    ran = restow("profile", *arguments, *file)
    assert ran.code == 2
    assert said in ran.err


def commands(path: Path, config: Path) -> list[list[str | Path]]:
    """Every subcommand on one manifest, which holds a CloudProfile and a NamespacedCloudProfile."""
    return [
        ["validate", "-f", path],
        ["validate", "-f", path, "--old", path],
        ["evaluate", "-f", path],
        ["timeline", "-f", path],
        ["render", "-f", path, "-o", "json"],
        ["manage", "-f", path, "--config", config],
        ["forced-target", "1.30.5", "-f", path],
    ]


@pytest.fixture
def config(tmp_path):
    path = tmp_path / "config.yaml"
    path.write_text("controllers: {cloudProfile: {kubernetesVersionManagement: {enabled: true}}}")
    return path


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("version: 1.31.2", "version: 1.31"), "spec.kubernetes.versions[1].version must be a string, not a number"),
        (("'2027-01-01T00:00:00Z'", "2025"), "versions[1].lifecycle[1].startTime must be a string, not a number"),
        (("regions: []", "regions: eu"), "spec.regions must be a list, not a string"),
        (("name: local", "name: true"), "metadata.name must be a string, not a boolean"),
        (("regions: []", "regions: [null]"), "spec.regions[0] must be an object, not null"),
    ],
)
def test_a_value_of_a_wrong_type_is_told_with_its_place(change, said, tmp_path, config):
    """``version: 1.31`` without quotes was a traceback, or another version, depending on the subcommand."""
    text = yaml.safe_dump_all([profile(OLD, NEXT, regions=[]), NAMESPACED])
    assert change[0] in text
    path = tmp_path / "profiles.yaml"
    path.write_text(text.replace(*change, 1))
    for arguments in commands(path, config):
        done = run("profile", *arguments)
        refusal = done.refusal
        assert refusal.startswith(f"{path}:1: document 1: CloudProfile: ")
        assert said in refusal
    assert ("(put it in quotes)" in refusal) is ("must be a string" in said)


def test_what_an_api_server_leaves_out_no_rule_meets(tmp_path, config):
    """A null is no list; a version without its number cannot be managed, and validation says so by its own rule."""
    path = tmp_path / "profiles.yaml"
    nothing = profile(OLD, NEXT, regions=None, machineImages=None, machineTypes=None)
    path.write_text(yaml.safe_dump_all([nothing, NAMESPACED]))
    for arguments in commands(path, config):
        assert run("profile", *arguments).code in (0, 1, 3)
    path.write_text(yaml.safe_dump_all([profile(OLD, {}), NAMESPACED]))
    assert "spec.kubernetes.versions[1].version must be a string, not nothing" in (
        run("profile", "manage", "-f", path, "--config", config).refusal
    )
    assert "is no Kubernetes version" in run("profile", "validate", "-f", path).out


BOMB = "a: &a [x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{name}: &{name} [{', '.join([f'*{before}'] * 9)}]\n" for before, name in zip("abcdefg", "bcdefgh", strict=True)
)
"""Nine values, each of which stands for nine, and so on: 43 million in 400 bytes."""


def test_aliases_that_stand_for_millions_are_refused_by_every_reader(tmp_path, config):
    """``render -o json`` took 3.7 GB of memory for 400 bytes of YAML."""
    bomb = tmp_path / "bomb.yaml"
    head = "apiVersion: core.gardener.cloud/v1beta2\nkind: CloudProfile\nmetadata: {name: local}\n"
    bomb.write_text(f"{head}spec:\n  providerConfig:\n" + "".join(f"    {line}\n" for line in BOMB.splitlines()))
    said = "its aliases expand to too many values"
    for arguments in commands(bomb, config):
        assert said in run("profile", *arguments).refusal
    plain = tmp_path / "plain.yaml"
    plain.write_text(BOMB)
    manifest = tmp_path / "profile.yaml"
    manifest.write_text(yaml.safe_dump(profile(OLD)))
    for command, *arguments in (
        ("profile", "manage", "-f", manifest, "--config", plain),
        ("timeline", "-f", plain),
        ("plan", "-f", plain),
        ("operator", "--own-ca", "a/b", "--management", plain),
        ("check", *REGISTRY, "--crd", plain),
        ("explain", "-f", plain, "--to", "v1", *REGISTRY),
        ("convert", "-f", plain, "--to", "v1", *REGISTRY),
        ("roundtrip", "-f", plain, *REGISTRY),
        ("convert", "--review", "-f", plain, *REGISTRY),
    ):
        done = run(command, *arguments)
        assert done.code in (1, 2), command
        assert said in done.err, command


@pytest.mark.parametrize("text", ["", "kind: Deployment", "a: 1", "- a", "kind: A\ncontrollers: {}"])
def test_a_policy_must_be_one(text, tmp_path, manifest):
    """Any other file was a policy by which nothing is managed, and nothing said so."""
    policy = tmp_path / "policy.yaml"
    policy.write_text(text)
    for ran in (
        run("operator", "--own-ca", "a/b", "--management", policy),
        run("profile", "manage", "-f", manifest(profile(OLD)), "--config", policy),
    ):
        assert "policy.yaml: this is no ControllerManagerConfiguration" in ran.refusal or "document" in ran.refusal


def test_a_project_is_shown_with_its_parent(manifest):
    """A sparse override would be read as if it were a whole lifecycle: GEP-32's example says unavailable then."""
    parent = profile(OLD, NEXT, {"version": "1.32.0", "lifecycle": [stage("preview"), stage("supported", NOW)]})
    child = {
        **NAMESPACED,
        "spec": {
            "parent": {"kind": "CloudProfile", "name": "local"},
            "kubernetes": {
                "versions": [{"version": "1.32.0", "lifecycle": [stage("supported", "2027-06-01T00:00:00Z")]}]
            },
        },
    }
    path = manifest(parent, child)
    ran = restow("profile", "evaluate", "-f", path, "--at", NOW, "-o", "json")
    found = {(each["profile"], each["version"]): each["classification"] for each in ran.json["versions"]}
    assert found["local", "1.32.0"] == "supported"
    assert found["garden-a/mine", "1.32.0"] == "preview"
    assert found["garden-a/mine", "1.30.5"] == "expired"
    forced = restow("profile", "forced-target", "1.30.5", "-f", path, "--at", NOW)
    assert forced.out.startswith("1.30.5 -> 1.31.2")
    alone = restow("profile", "evaluate", "-f", manifest(child), "--at", NOW)
    assert 'names CloudProfile "local", which is not in the manifests' in alone.refusal


def test_the_defaults_of_the_schema_count(manifest):
    """An image without updateStrategy would be updated elsewhere than by the operator: it is major there."""
    versions = [{"version": "1.0.0", "lifecycle": [stage("expired")]}, {"version": "1.0.1"}, {"version": "2.1.0"}]
    path = manifest(profile(NEXT, machineImages=[{"name": "ubuntu", "versions": versions}]))
    ran = restow("profile", "forced-target", "1.0.0", "--image", "ubuntu", "-f", path, "--at", NOW)
    assert (
        ran.out
        == "1.0.0 -> 1.0.1  (Machine image version expired - force update required (image update strategy: major))\n"
    )


SCHEMA = {
    "typo": ({"version": "1.31.2", "lifcycle": []}, "spec.kubernetes.versions[0].lifcycle", "unknown field"),
    "old field": (
        {"version": "1.31.2", "classification": "supported"},
        "spec.kubernetes.versions[0].classification",
        "classification is a field of core.gardener.cloud/v1beta1",
    ),
    "stage": (
        {"version": "1.31.2", "lifecycle": [stage("retired")]},
        "spec.kubernetes.versions[0].lifecycle[0].classification",
        'Unsupported value: "retired": supported values: "unavailable", "preview"',
    ),
    "twice": (
        {"version": "1.31.2", "lifecycle": [stage("preview"), stage("preview")]},
        "spec.kubernetes.versions[0].lifecycle[1]",
        'Duplicate value: {"classification": "preview"}',
    ),
    "order": (
        {"version": "1.31.2", "lifecycle": [stage("supported"), stage("preview", "2027-01-01T00:00:00Z")]},
        "spec.kubernetes.versions[0].lifecycle[1].classification",
        "preview must be before supported",
    ),
    "going back": (
        {
            "version": "1.31.2",
            "lifecycle": [stage("preview", "2027-01-01T00:00:00Z"), stage("supported", "2026-01-01T00:00:00Z")],
        },
        "spec.kubernetes.versions[0].lifecycle[1]",
        "lifecycle start times must be monotonically increasing",
    ),
    "number": ({"version": "v1.31.2"}, "spec.kubernetes.versions[0].version", '"v1.31.2": must match'),
}


@pytest.mark.parametrize(("version", "field", "rule"), SCHEMA.values(), ids=SCHEMA)
def test_what_the_schema_refuses_is_found(manifest, version, field, rule):
    """A pipeline would go on, and the API server refuse the manifest afterwards."""
    path = manifest(profile(version))
    ran = restow("profile", "validate", "-f", path, "--at", NOW, "-o", "json")
    assert ran.code == 1
    assert any(each["field"] == field and rule in each["rule"] for each in ran.json["remarks"]), ran.json
    other = restow("profile", "evaluate", "-f", path, "--at", NOW)
    assert other.code == 1
    assert field in other.err and rule in other.err


def test_gaps_are_told_by_validate(manifest):
    """An operator would find out by Shoots that cannot be updated."""
    gap = profile(
        {"version": "1.29.1", "lifecycle": [stage("supported"), stage("expired", "2027-01-01T00:00:00Z")]}, NEXT
    )
    ran = restow("profile", "validate", "-f", manifest(gap), "--at", NOW, "-o", "json")
    assert ran.code == 0
    assert any("add a version of 1.30" in each["rule"] for each in ran.json["remarks"])


def test_a_managed_manifest_is_one_to_be_kept(manifest, tmp_path):
    """The notes of the conversion, or the server's defaults, would be committed to where profiles are kept."""
    config = tmp_path / "config.yaml"
    config.write_text("controllers: {cloudProfile: {kubernetesVersionManagement: {enabled: true}}}\n")
    old = profile(
        {"version": "1.31.1", "classification": "preview", "expirationDate": "2027-01-01T00:00:00Z"},
        {"version": "1.31.2"},
    )
    old["apiVersion"] = "core.gardener.cloud/v1beta1"
    old["spec"]["machineTypes"] = [{"name": "t", "cpu": "1", "gpu": "0", "memory": "1Gi"}]
    ran = restow("profile", "manage", "-f", manifest(old), "--config", config, "--at", NOW, "--apply")
    assert ran.yaml["metadata"] == {"name": "local"}
    assert ran.yaml["spec"]["machineTypes"] == old["spec"]["machineTypes"]
