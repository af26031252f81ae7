"""``make release``: build all files of a release in dist/release/, with the same bytes each time.

    python deploy/release.py FOLDER [--sbom FILE]

The files depend only on the files that git tracks, on the pinned build environment and on SOURCE_DATE_EPOCH (by default
the time of the last commit): archives are sorted and have one time, one owner and fixed modes.

Only ``[project.urls]`` in pyproject.toml has the project's address. The links of the README in the wheel's metadata and
the addresses in the krew manifest are derived from it.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import io
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import yaml
from click.shell_completion import get_completion_class

from restow.main import main as program
from restow.manpages import pages

__all__ = ["Release", "absolute_links", "krew_manifest", "main", "packed"]

ROOT: Final = Path(__file__).parents[1]
SUMS: Final = "SHA256SUMS"
_LINK: Final = re.compile(r"(?<=\]\()(?!https?:|#|mailto:)(?P<path>[^)\s]+)(?=\))")
_COMPLETIONS: Final = {"bash": "restow.bash", "zsh": "_restow", "fish": "restow.fish"}
_LAUNCHER: Final = """#!/bin/sh
# kubectl restow: runs the restow of PATH, which is a Python program and comes on its own.
if ! command -v restow >/dev/null 2>&1; then
  echo "kubectl-restow: restow is not installed: pip install 'restow[cli]' (see HOMEPAGE)" >&2
  exit 2
fi
exec restow "$@"
"""


@dataclass(frozen=True, slots=True)
class Release:
    """The project to release, and the addresses of the release.

    Attributes:
        project: the table ``[project]`` of pyproject.toml.
        epoch: the time of every file, in seconds.
    """

    project: Mapping[str, Any]
    epoch: int

    @property
    def version(self) -> str:
        """The version of the release."""
        return str(self.project["version"])

    @property
    def home(self) -> str:
        """The address of the project."""
        return str(self.project["urls"]["Homepage"]).rstrip("/")

    @property
    def files(self) -> str:
        """The address for downloads of this release's files."""
        return f"{str(self.project['urls']['Releases']).rstrip('/')}/v{self.version}"

    @property
    def sources(self) -> str:
        """The address of the source tree at this release."""
        return f"{str(self.project['urls']['Source']).rstrip('/')}/blob/v{self.version}"


def absolute_links(text: str, base: str) -> str:
    """Return Markdown with URLs in place of relative links: a package index shows the README without the tree."""
    return _LINK.sub(lambda link: f"{base}/{link['path']}", text)


def packed(top: str, files: Mapping[str, Path | bytes], epoch: int, programs: frozenset[str] = frozenset()) -> bytes:
    """Return a reproducible tar.gz of files below a folder, without links."""
    archive = io.BytesIO()
    with (
        gzip.GzipFile(filename="", fileobj=archive, mode="wb", mtime=epoch) as zipped,
        tarfile.open(fileobj=zipped, mode="w", format=tarfile.PAX_FORMAT) as tar,
    ):
        for name in sorted(files):
            source = files[name]
            content = source if isinstance(source, bytes) else source.read_bytes()
            entry = tarfile.TarInfo(f"{top}/{name}")
            entry.size, entry.mtime, entry.mode = len(content), epoch, 0o755 if name in programs else 0o644
            tar.addfile(entry, io.BytesIO(content))
    return archive.getvalue()


def tracked(*folders: str) -> dict[str, Path]:
    """Return the tracked files of the tree by path; with ``folders``, their files by the path in the folder."""
    command = ["git", "-C", str(ROOT), "ls-files", "-z", "--", *folders]
    listed = subprocess.run(command, check=True, capture_output=True, text=True).stdout.split("\0")  # noqa: S603
    names = [name for name in listed if name and (ROOT / name).is_file()]
    return {name.removeprefix(f"{folders[0]}/") if folders else name: ROOT / name for name in names}


def distributions(release: Release, folder: Path) -> Path:
    """Build the wheel and the sdist from a copy of the tree; return the wheel."""
    with tempfile.TemporaryDirectory(prefix="restow-release-") as scratch:
        copy = Path(scratch) / "restow"
        for name, source in tracked().items():
            (copy / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(source, copy / name)
            (copy / name).chmod(0o644)
        readme = copy / "README.md"
        readme.write_text(absolute_links(readme.read_text(encoding="utf-8"), release.sources), encoding="utf-8")
        command = [sys.executable, "-m", "build", "--no-isolation", "--outdir", scratch, str(copy)]
        environment = os.environ | {"SOURCE_DATE_EPOCH": str(release.epoch)}
        subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL, umask=0o022)  # noqa: S603
        (wheel,), (sdist,) = Path(scratch).glob("*.whl"), Path(scratch).glob("*.tar.gz")
        shutil.copyfile(wheel, folder / wheel.name)
        with tarfile.open(sdist) as archive:
            (top,) = {each.name.partition("/")[0] for each in archive}
            files = {
                each.name.partition("/")[2]: archive.extractfile(each).read()  # type: ignore[union-attr] # a file
                for each in archive
                if each.isfile()
            }
        (folder / sdist.name).write_bytes(packed(top, files, release.epoch))
        return folder / wheel.name


def krew_manifest(release: Release, archive: str, digest: str) -> dict[str, Any]:
    """Return the krew manifest of the plugin."""
    systems = [{"key": "os", "operator": "In", "values": ["darwin", "linux"]}]
    return {
        "apiVersion": "krew.googlecontainertools.github.com/v1alpha2",
        "kind": "Plugin",
        "metadata": {"name": "restow"},
        "spec": {
            "version": f"v{release.version}",
            "homepage": release.home,
            "shortDescription": "Upgrade the storage version of CRDs",
            "description": f"{release.project['description']}.\n",
            "caveats": "The plugin runs restow, which is a Python program: pip install 'restow[cli]'.\n",
            "platforms": [
                {
                    "selector": {"matchExpressions": systems},
                    "uri": f"{release.files}/{archive}",
                    "sha256": digest,
                    "bin": "kubectl-restow",
                    "files": [{"from": "kubectl-restow", "to": "."}, {"from": "LICENSE", "to": "."}],
                }
            ],
        },
    }


def archives(release: Release, wheel: Path) -> dict[str, bytes]:
    """Return the archives of the chart, the manifests, the image's context and the kubectl plugin, by name."""
    version, epoch = release.version, release.epoch
    crds = {f"crds/{name}": path for name, path in tracked("crds/manifests").items() if name.endswith(".yaml")}
    bases = {f"kustomize/{name}": path for name, path in tracked("deploy/kustomize").items()}
    context = {
        "Dockerfile": ROOT / "deploy" / "image" / "Dockerfile",
        "deploy/image/trim.py": ROOT / "deploy" / "image" / "trim.py",
        "requirements/image.txt": ROOT / "requirements" / "image.txt",
        f"dist/{wheel.name}": wheel,
    }
    plugin: dict[str, Path | bytes] = {
        "kubectl-restow": _LAUNCHER.replace("HOMEPAGE", release.home).encode(),
        "LICENSE": ROOT / "LICENSE",
    }
    return {
        f"restow-chart-{version}.tgz": packed("restow", tracked("deploy/chart/restow"), epoch),
        f"restow-manifests-{version}.tar.gz": packed(f"restow-manifests-{version}", crds | bases, epoch),
        f"restow-image-{version}.tar.gz": packed(f"restow-image-{version}", context, epoch),
        f"kubectl-restow-{version}.tar.gz": packed(".", plugin, epoch, frozenset({"kubectl-restow"})),
    }


def texts(release: Release) -> dict[str, str]:
    """Return the shell completions and the manual pages, by name."""
    made = {f"man/{name}": text for name, text in pages(program, "restow", release.version).items()}
    for shell, name in _COMPLETIONS.items():
        completion = get_completion_class(shell)
        assert completion is not None, f"click completes {shell}"
        made[f"completions/{name}"] = completion(program, {}, "restow", "_RESTOW_COMPLETE").source() + "\n"
    return made


def build(release: Release, folder: Path, sbom: Path | None) -> None:
    """Write a release into an empty folder, with the checksums of all files."""
    wheel = distributions(release, folder)
    for name, content in archives(release, wheel).items():
        (folder / name).write_bytes(content)
    for name, text in texts(release).items():
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")
    plugin = f"kubectl-restow-{release.version}.tar.gz"
    manifest = krew_manifest(release, plugin, hashlib.sha256((folder / plugin).read_bytes()).hexdigest())
    (folder / "krew").mkdir()
    (folder / "krew" / "restow.yaml").write_text(yaml.safe_dump(manifest, sort_keys=False), encoding="utf-8")
    if sbom is not None:
        shutil.copyfile(sbom, folder / f"restow-{release.version}.cdx.json")
    built = sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())
    sums = "".join(f"{hashlib.sha256((folder / name).read_bytes()).hexdigest()}  {name}\n" for name in built)
    (folder / SUMS).write_text(sums, encoding="utf-8")


def main(arguments: list[str]) -> int:
    """Build the release; return the exit code."""
    parser = argparse.ArgumentParser(prog="release.py", description="Build a release into a folder.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--sbom", type=Path, help="the software bill of materials (make sbom)")
    options = parser.parse_args(arguments)
    asked = os.environ.get("SOURCE_DATE_EPOCH")
    command = ["git", "-C", str(ROOT), "log", "-1", "--format=%ct"]
    epoch = int(asked or subprocess.run(command, check=True, capture_output=True, text=True).stdout)  # noqa: S603
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    if options.folder.exists():
        shutil.rmtree(options.folder)
    options.folder.mkdir(parents=True)
    build(Release(project, epoch), options.folder, options.sbom)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
