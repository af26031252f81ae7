"""``make release``: the same bytes each time, and each part works where it is put.

docs/installing.md describes the parts; ``test_the_page_lists_every_file`` holds it to that.
"""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from restow.main import COMMANDS
from tests.deploy.rendering import ROOT, Helm
from tests.packaging.conftest import BIN, run

pytestmark = pytest.mark.timeout(900)

EPOCH = "1750000000"
KREW = {
    "spec": {"version", "homepage", "shortDescription", "description", "caveats", "platforms"},
    "platform": {"selector", "uri", "sha256", "bin", "files"},
}
"""Every field of krew's Plugin (v1alpha2) that the manifest has; krew refuses fields that it does not know."""


def release(folder: Path, umask: int) -> Path:
    """Build it as ``make release`` does, but for the bill of materials, which needs tools of its own."""
    command = [sys.executable, str(ROOT / "deploy" / "release.py"), str(folder)]
    environment = os.environ | {"SOURCE_DATE_EPOCH": EPOCH, "PYTHONHASHSEED": str(umask)}
    done = subprocess.run(command, capture_output=True, text=True, umask=umask, env=environment, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture(scope="module")
def released(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a release."""
    return release(tmp_path_factory.mktemp("release") / "first", 0o022)


def named(folder: Path, pattern: str) -> Path:
    """The one file of this name."""
    (found,) = folder.glob(pattern)
    return found


def unpacked(archive: Path, folder: Path) -> Path:
    """The one folder in an archive."""
    with tarfile.open(archive) as tar:
        assert all(each.isfile() for each in tar), "a link leads nowhere once it is unpacked elsewhere"
        tar.extractall(folder, filter="data")
    (top,) = folder.iterdir()
    return top


def test_two_builds_have_the_same_sums(released: Path, tmp_path: Path) -> None:
    """Whoever builds it again must be able to see that the published files are of this tree."""
    again = release(tmp_path / "again", 0o077)
    assert (again / "SHA256SUMS").read_text() == (released / "SHA256SUMS").read_text()


def test_the_sums_are_of_all_files(released: Path) -> None:
    """A file without a sum can be exchanged unnoticed."""
    listed = dict(line.split("  ")[::-1] for line in (released / "SHA256SUMS").read_text().splitlines())
    files = {path.relative_to(released).as_posix(): path for path in released.rglob("*") if path.is_file()}
    del files["SHA256SUMS"]
    assert listed == {name: hashlib.sha256(path.read_bytes()).hexdigest() for name, path in files.items()}


def test_the_page_lists_every_file(released: Path) -> None:
    """A reader looks for a file by the name on the page."""
    page = (ROOT / "docs" / "contributing.md").read_text(encoding="utf-8").replace("VERSION", version_of(released))
    names = {path.name if path.is_file() else f"{path.name}/" for path in released.iterdir()}
    assert [name for name in names if f"`{name}`" not in page] == []


def test_the_sdist_builds_the_wheel_of_the_release(released: Path, tmp_path: Path) -> None:
    """Distributions build from the sdist: what they get must be what the others got."""
    source = unpacked(named(released, "restow-[0-9]*.tar.gz"), tmp_path / "sdist")
    environment = os.environ | {"SOURCE_DATE_EPOCH": EPOCH}
    command = [sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", str(tmp_path), str(source)]
    subprocess.run(command, check=True, capture_output=True, env=environment)
    assert named(tmp_path, "*.whl").read_bytes() == named(released, "*.whl").read_bytes()


def test_the_wheel_works_in_an_empty_environment(released: Path, tmp_path: Path) -> None:
    """The command must come with all that it imports."""
    run(BIN / "uv", "venv", "-q", "--python", sys.executable, tmp_path / "venv")
    wheel = f"restow[cli] @ {named(released, '*.whl').as_uri()}"
    into = ("--python", tmp_path / "venv", "--constraint", ROOT / "requirements" / "runtime.txt")
    run(BIN / "uv", "pip", "install", "-q", *into, wheel)
    version = run(tmp_path / "venv" / "bin" / "restow", "version", "--client", "-o", "json", cwd=tmp_path)
    assert f'"version": "{version_of(released)}"' in version


def version_of(released: Path) -> str:
    """The released version."""
    return named(released, "*.whl").name.split("-")[1]


def test_the_metadata_has_urls_and_no_relative_link(released: Path) -> None:
    """A package index shows the README without the tree: a relative link leads to a page of the index."""
    with zipfile.ZipFile(named(released, "*.whl")) as wheel:
        (name,) = (each for each in wheel.namelist() if each.endswith(".dist-info/METADATA"))
        metadata = wheel.read(name).decode()
    head, _, readme = metadata.partition("\n\n")
    assert {"Homepage", "Documentation", "Source"} <= set(
        re.findall(r"^Project-URL: (\w+), https://", head, re.MULTILINE)
    )
    links = re.findall(r"\]\(([^)\s]+)\)", readme)
    assert links
    assert [link for link in links if not link.startswith(("https://", "#"))] == []


def test_no_other_file_names_the_place_of_publication() -> None:
    """Once the project has another address, one table is to be changed."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    home = project["urls"]["Homepage"]
    listed = subprocess.run(["git", "-C", str(ROOT), "grep", "-l", home], capture_output=True, text=True, check=True)
    assert listed.stdout.split() == ["pyproject.toml"]


def test_helm_takes_the_chart(released: Path, helm: Helm, tmp_path: Path) -> None:
    """A package with a link, or without a template, fails at whoever installs it."""
    chart = named(released, "restow-chart-*.tgz")
    assert "kind: Deployment" in helm.run("template", "r", chart, "--set", "operator.enabled=true")
    top = unpacked(chart, tmp_path / "chart")
    assert top.name == "restow"
    about = yaml.safe_load((top / "Chart.yaml").read_text())
    assert (about["version"], about["appVersion"]) == (version_of(released),) * 2


def test_the_manifests_can_be_read(released: Path, tmp_path: Path) -> None:
    """They are for kubectl apply -f and -k; each base's files must be in the archive."""
    top = unpacked(named(released, "restow-manifests-*.tar.gz"), tmp_path)
    kinds = {document["kind"] for file in (top / "crds").iterdir() for document in yaml.safe_load_all(file.read_text())}
    assert kinds == {"CustomResourceDefinition"}
    for base in (top / "kustomize").glob("*/kustomization.yaml"):
        for name in yaml.safe_load(base.read_text()).get("resources", []):
            assert (base.parent / name).exists(), f"{base} names {name}"


def test_the_context_of_the_image_has_what_its_file_copies(released: Path, tmp_path: Path) -> None:
    """An engine stops at the first file that is not there."""
    top = unpacked(named(released, "restow-image-*.tar.gz"), tmp_path)
    text = (top / "Dockerfile").read_text()
    given = dict(re.findall(r"^ARG (\w+)=(\S+)$", text, re.MULTILINE))
    sources = re.findall(r"^COPY ([^-]\S*)", text, re.MULTILINE)
    copied = [re.sub(r"\$\{(\w+)\}", lambda found: given[found[1]], name) for name in sources]
    assert len(copied) == 3
    assert all((top / name).exists() for name in copied)
    assert named(top / "dist", "*").read_bytes() == named(released, "*.whl").read_bytes()


@pytest.mark.parametrize(
    ("shell", "script"),
    [
        ("bash", 'source "$0" && complete -p restow'),
        ("zsh", 'autoload -U compinit && compinit -D && source "$0" && print -r -- ${_comps[restow]}'),
        ("fish", "source $argv[1]; complete -c restow"),
    ],
)
def test_the_completions_are_taken_by_the_shell(released: Path, shell: str, script: str) -> None:
    """A script that the shell cannot read prints an error at each new terminal."""
    file = {"bash": "restow.bash", "zsh": "_restow", "fish": "restow.fish"}[shell]
    assert (released / "completions" / file).stat().st_size
    if shutil.which(shell) is None:
        pytest.skip(f"there is no {shell} here")
    done = subprocess.run(
        [shell, "-c", script, str(released / "completions" / file)], capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert "restow" in done.stdout


def test_every_command_has_a_manual_page(released: Path) -> None:
    """``man restow-plan`` is how some look a flag up."""
    pages = {path.stem for path in (released / "man").iterdir()}
    assert {"restow", *(f"restow-{name}" for name in COMMANDS)} <= pages


@pytest.fixture
def manifest(released: Path) -> dict[str, Any]:
    """The krew manifest."""
    found: dict[str, Any] = yaml.safe_load((released / "krew" / "restow.yaml").read_text())
    return found


def test_krew_takes_the_manifest(released: Path, manifest: dict[str, Any]) -> None:
    """krew's rules: known fields, a version of v and three numbers, the sum of the archive, the binary in it."""
    assert (manifest["apiVersion"], manifest["kind"]) == ("krew.googlecontainertools.github.com/v1alpha2", "Plugin")
    assert manifest.keys() == {"apiVersion", "kind", "metadata", "spec"}
    assert re.fullmatch(r"[a-z0-9][a-z0-9-]*", manifest["metadata"]["name"])
    spec = manifest["spec"]
    assert spec.keys() == KREW["spec"]
    assert re.fullmatch(r"v\d+\.\d+\.\d+", spec["version"])
    assert len(spec["shortDescription"]) <= 50
    (platform,) = spec["platforms"]
    assert platform.keys() == KREW["platform"]
    archive = released / platform["uri"].rpartition("/")[2]
    assert platform["sha256"] == hashlib.sha256(archive.read_bytes()).hexdigest()
    with tarfile.open(archive) as tar:
        entries = {os.path.normpath(each.name): each for each in tar}
    assert entries.keys() == {each["from"] for each in platform["files"]}
    assert "LICENSE" in entries
    assert entries[platform["bin"]].mode == 0o755


def test_the_plugin_runs_the_installed_restow(released: Path, tmp_path: Path) -> None:
    """The plugin is a few lines of shell: it must pass the arguments on, and say what is missing."""
    with tarfile.open(named(released, "kubectl-restow-*.tar.gz")) as tar:
        tar.extractall(tmp_path, filter="data")
    plugin = tmp_path / "kubectl-restow"
    assert version_of(released) in run("env", f"PATH={BIN}:/usr/bin:/bin", plugin, "--version")
    missing = run("env", "PATH=/usr/bin:/bin", plugin, "plan", code=2)
    assert "restow is not installed: pip install 'restow[cli]'" in missing
