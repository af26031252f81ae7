"""``restow convert``: what it prints, what it writes, what it leaves alone, and its exit codes."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

import pytest

from tests.restow.commandline import restow
from tests.restow.offline import CONVERTED, CRDS, GATEWAY, NEW, OLD, REGISTRY, ROOT, Ran, run

OTHER = "kind:   ConfigMap # untouched\napiVersion: v1\n"
TEMPLATE = "{{- if .Values.on }}\nkind: Secret\n{{- end }}\n"


def convert(*arguments: str | Path, to: str = "v1", stdin: str | bytes = "") -> Ran:
    return run("convert", "--to", to, *REGISTRY, *arguments, stdin=stdin)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A manifest to convert."""
    path = tmp_path / "gateway.yaml"
    path.write_text(GATEWAY)
    return path


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder as charts are: manifests, another kind, a template, notes, and a folder in it."""
    made = tmp_path / "chart"
    (made / "deep").mkdir(parents=True)
    (made / "a.yaml").write_text(GATEWAY)
    (made / "b.yml").write_text(OTHER)
    (made / "c.yaml").write_text(TEMPLATE)
    (made / "deep" / "d.json").write_text(json.dumps({"apiVersion": OLD, "kind": "Gateway"}))
    (made / "notes.txt").write_text(GATEWAY)
    return made


def texts(folder: Path) -> dict[str, str]:
    return {str(path.relative_to(folder)): path.read_text() for path in folder.rglob("*") if path.is_file()}


def test_it_prints_the_converted_manifest(file: Path) -> None:
    """The first thing that everybody tries."""
    ran = convert("-f", file)
    assert (ran.code, ran.out, ran.err) == (0, CONVERTED, "1 object converted\n")
    assert file.read_text() == GATEWAY


def test_stdin_byte_for_byte() -> None:
    """In a pipe, line breaks and byte order marks are as they come."""
    text = "\ufeff" + GATEWAY.replace("\n", "\r\n")
    ran = convert("-f", "-", stdin=text.encode())
    assert ran.out == "\ufeff" + CONVERTED.replace("\n", "\r\n")


def test_as_a_process() -> None:
    """With the working directory on the path, as people call it; the result on stdout alone."""
    ran = restow("convert", "-f", "-", "--to", "v1", *REGISTRY, *CRDS, stdin=GATEWAY, cwd=ROOT)
    assert (ran.code, ran.out, ran.err) == (0, CONVERTED, "1 object converted\n")


def test_several_files_are_one_stream(folder: Path) -> None:
    """kubectl apply -f - must take what comes out."""
    ran = convert("-f", folder, "-f", folder / "deep")
    assert ran.code == 0
    assert ran.out == f'{CONVERTED}---\n{OTHER}---\n{{"apiVersion": "{NEW}", "kind": "Gateway"}}'
    assert ran.err.splitlines()[-1] == "2 objects converted, 1 of other kinds"


def test_in_place(folder: Path) -> None:
    """Only what changes is written, with its mode, and templates stay."""
    (folder / "a.yaml").chmod(0o640)
    before = texts(folder)
    ran = convert("-f", folder, "-R", "--in-place")
    assert (ran.code, ran.out) == (0, "")
    assert f"{folder / 'c.yaml'}:1: left as it is, no YAML but a template: " in ran.err
    after = texts(folder)
    assert after == before | {
        "a.yaml": CONVERTED,
        "deep/d.json": json.dumps({"apiVersion": NEW, "kind": "Gateway"}),
    }
    assert stat.S_IMODE((folder / "a.yaml").stat().st_mode) == 0o640
    assert convert("-f", folder, "-R", "--in-place", "--diff").out == ""


def test_links_are_followed(file: Path, tmp_path: Path) -> None:
    """A link stays a link, and what it points to is converted."""
    link = tmp_path / "link.yaml"
    link.symlink_to(file)
    assert convert("-f", link, "--in-place").code == 0
    assert link.is_symlink()
    assert file.read_text() == CONVERTED


def test_a_write_that_fails_leaves_the_file_and_nothing_else(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A full disk must not cost the manifest."""

    def full(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    ran = convert("-f", file, "--in-place")
    assert ran.code == 2
    assert f"{file} cannot be written: No space left on device" in ran.err
    assert [path.name for path in file.parent.iterdir()] == [file.name]
    assert file.read_text() == GATEWAY


def test_a_file_with_a_failure_is_not_written(tmp_path: Path) -> None:
    """Half a release converted is worse than none; the other files go on."""
    bad = f"{GATEWAY}---\napiVersion: edge.example.dev/v7\nkind: Gateway\nmetadata: {{name: odd}}\n"
    (tmp_path / "bad.yaml").write_text(bad)
    (tmp_path / "good.yaml").write_text(GATEWAY)
    ran = convert("-f", tmp_path, "--in-place")
    assert ran.code == 1
    assert texts(tmp_path) == {"bad.yaml": bad, "good.yaml": CONVERTED}
    assert f"{tmp_path / 'bad.yaml'}:14: Gateway odd: cannot be converted to {NEW}: " in ran.err
    assert "has no version v7" in ran.err
    assert "not written, as not all of it could be converted" in ran.err
    printed = convert("-f", tmp_path / "bad.yaml")
    assert printed.code == 1
    assert printed.out == bad.replace(GATEWAY, CONVERTED)


def test_check(folder: Path) -> None:
    """In CI: names what would change, writes nothing, and exits with 3."""
    before = texts(folder)
    ran = convert("-f", folder, "-R", "--check")
    assert (ran.code, ran.out.splitlines()) == (3, [str(folder / "a.yaml"), str(folder / "deep" / "d.json")])
    assert texts(folder) == before
    convert("-f", folder, "-R", "--in-place")
    ran = convert("-f", folder, "-R", "--check")
    assert (ran.code, ran.out) == (0, "")
    assert ran.err.splitlines()[-1] == "0 objects converted, 2 there already, 1 of other kinds"


def test_diff(file: Path) -> None:
    """Field by field, by pointers; with -o for programs."""
    ran = convert("-f", file, "--diff")
    assert ran.out.splitlines() == [
        f"{file}:2: Gateway web/shop: {OLD} -> {NEW}",
        f'  ~ /apiVersion: "{OLD}" -> "{NEW}"',
        '  - /spec/certificate: "c"',
        '  - /spec/host: "shop.example.dev"',
        '  + /spec/hosts: ["shop.example.dev"]',
        '  + /spec/listeners/0/name: "web"',
        '  + /spec/listeners/0/protocol: "HTTP"',
        '  + /spec/listeners/0/timeout: "30s"',
        "  - /spec/listeners/0/timeoutSeconds: 30",
        '  - /spec/listeners/0/title: "web"',
        '  + /spec/tls: {"certificate":"c"}',
    ]
    (told,) = convert("-f", file, "--diff", "-o", "json").json["objects"]
    assert (told["file"], told["line"], told["name"], told["to"]) == (str(file), 2, "shop", NEW)
    assert {"change": "removed", "pointer": "/spec/host", "before": "shop.example.dev"} in told["changes"]
    assert convert("-f", file, "--diff", "--check").code == 3


def test_output_as_data(file: Path, folder: Path) -> None:
    """One object is an object, several are a List, as kubectl has it; and YAML is quoted for kubectl."""
    assert convert("-f", file, "-o", "json").json["spec"]["hosts"] == ["shop.example.dev"]
    several = convert("-f", folder, "-o", "json").json
    assert [several["kind"], *(item["kind"] for item in several["items"])] == ["List", "Gateway", "ConfigMap"]
    odd = convert("-f", "-", "-o", "yaml", stdin=GATEWAY.replace("certificate: c", 'certificate: "on"') + "---\n{}\n")
    assert "certificate: 'on'\n" in odd.out
    assert odd.out.endswith("---\n{}\n")


def test_what_no_data_can_say_is_not_left_out_in_silence() -> None:
    """A text can be passed on as it is, data cannot."""
    text = f"{GATEWAY}---\nkind: Odd\nkind: Other\n"
    assert convert("-f", "-", stdin=text).code == 0
    ran = convert("-f", "-", "-o", "json", stdin=text)
    assert (ran.code, ran.json["kind"]) == (1, "Gateway")
    assert "stdin: 1 document left out of the result" in ran.err


def test_no_stash(file: Path) -> None:
    """What the old version cannot say is left out, and said to be."""
    file.write_text(CONVERTED.replace("certificate: c", 'minVersion: "1.3"'))
    ran = convert("-f", file, "--no-stash", to="v1alpha1")
    assert "conversion-stash" not in ran.out
    assert f"{file}:2: Gateway web/shop: lost: /spec/tls/minVersion (stash(spec.tls.minVersion))" in ran.err
    assert "conversion-stash" in convert("-f", file, to="v1alpha1").out


def test_comments_that_go_are_told(file: Path) -> None:
    """Nothing disappears in silence."""
    file.write_text(GATEWAY.replace("  host:", "  debug: true # why\n  host:"))
    assert f"{file}:9: this comment was removed with its field: # why" in convert("-f", file).err


@pytest.mark.parametrize(
    ("name", "text", "code"),
    [
        ("mine.yaml", f"{{{{ if .on }}}}\napiVersion: {OLD}\n", 1),
        ("other.yaml", TEMPLATE, 0),
        ("binary.yaml", "", 0),
    ],
)
def test_what_is_no_manifest_in_a_folder(name: str, text: str, code: int, file: Path) -> None:
    """A template that speaks of the group must not be overlooked; one of others is not our concern."""
    path = file.parent / name
    path.write_bytes(text.encode() or b"\xff\xfe\x00")
    ran = convert("-f", file.parent, "--in-place")
    assert ran.code == code
    assert f"{path}" in ran.err
    assert ("look after it by hand" in ran.err) is bool(code)
    assert file.read_text() == CONVERTED
    assert convert("-f", path, "--in-place").code == 1


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--to", "v1", *REGISTRY], "say which manifests: -f FILE"),
        (["--to", "v1", "-f", "-"], "say what to convert with: --rules FILE"),
        (["-f", "-", *REGISTRY], "Missing option '--to'"),
        (["--to", "v1", "-f", "-", *REGISTRY, "--in-place"], "--in-place needs files, not stdin"),
        (["--to", "v1", "-f", "-", "-f", "-", *REGISTRY], "-f - can be given once"),
        (["--to", "v1", "-f", __file__, *REGISTRY, "--in-place", "--check"], "--in-place writes and --check does not"),
        (["--to", "v1", "-f", "/nonexistent.yaml", *REGISTRY], "'/nonexistent.yaml' does not exist"),
        (["--to", "v1", "-f", "-", "--registry", "no_such_module:x"], "there is no module no_such_module"),
        (["--to", "v1", "-f", "-", "--registry", "json"], "--registry takes module:attribute"),
        (["--to", "v9", "-f", "-", *REGISTRY], "no kind has the version v9; there are Gateway.edge.example.dev"),
    ],
)
def test_wrong_use(arguments: list[Any], said: str) -> None:
    """Exit code 2, a hint, and nothing done."""
    ran = run("convert", *arguments)
    assert ran.code == 2
    assert said in ran.err
    assert ran.out == ""


def test_an_empty_folder_is_refused(tmp_path: Path) -> None:
    """Success on nothing would hide a wrong path."""
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "a.yaml").write_text(GATEWAY)
    assert convert("-f", tmp_path).refusal.endswith("(-R looks into the folders in it too)")
    assert convert("-f", tmp_path, "-R").code == 0
