"""Images for nodes that can pull none: tar files for ``ctr image import``, made of what this machine has.

``restow.local/restow:test`` is this interpreter with its standard library and C libraries, the packages of
requirements/image.txt, and the wheel of this checkout. It has the user, entry point and environment of
deploy/image/Dockerfile, and no shell. ``restow.local/pause:1`` is busybox.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import re
import shutil
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

__all__ = ["PAUSE", "REPOSITORY", "TAG", "images"]

ROOT: Final = Path(__file__).parents[2]
REPOSITORY: Final = "restow.local/restow"
TAG: Final = "test"
PAUSE: Final = "restow.local/pause:1"
_LIBRARIES: Final = re.compile(r"(/\S+) \(0x")
_UNUSED: Final = (
    "site-packages",
    "test",
    "tests",
    "idlelib",
    "ensurepip",
    "lib2to3",
    "tkinter",
    "turtledemo",
    "config-*",
    "distutils",
    "unittest",
    "venv",
    "xmlrpc",
    "_codecs_*",
    "pydoc_data",
    "sqlite3",
    "curses",
    "_tkinter.*",
    "_sqlite3.*",
    "_curses*",
    "_test*",
    "_ctypes_test.*",
    "xxlimited*",
    "nis.*",
    "readline.*",
)
_PACKAGES: Final = "opt/restow/site-packages"
_INSTALL: Final = (sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--no-compile")
_TRIM: Final = ROOT / "deploy" / "image" / "trim.py"
_ENTRY: Final = """#!/usr/local/bin/python3
import sys
from restow.scripts import restow
sys.exit(restow())
"""


def images(cache: Path) -> list[Path]:
    """Return the images as tar files below ``cache``; the layer that takes long stays while its sources do."""
    cache.mkdir(parents=True, exist_ok=True)
    requirements = ROOT / "requirements" / "image.txt"
    sources = requirements.read_bytes() + Path(__file__).read_bytes() + _TRIM.read_bytes() + sys.version.encode()
    base = cache / f"base-{hashlib.sha256(sources).hexdigest()[:12]}.tar"
    product, pause = cache / "restow.tar", cache / "pause.tar"
    with tempfile.TemporaryDirectory(prefix="restow-image-") as name:
        folder = Path(name)
        if not base.exists():
            _fill(folder / "base", requirements)
            for old in cache.glob("base-*.tar"):
                old.unlink()
            _layer(folder / "base", base)
        _run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT)
        target = folder / "product" / _PACKAGES
        _run(*_INSTALL, "--target", target, "--no-deps", "--no-index", "--find-links", folder, "restow")
        _compile(folder / "product", target)
        _write(
            product, f"{REPOSITORY}:{TAG}", [base, _layer(folder / "product", folder / "product.tar")], _configuration()
        )
        _copy(Path("/bin/busybox"), folder / "pause" / "bin" / "busybox")
        command = {"Entrypoint": ["/bin/busybox", "sleep", "1000000000"]}
        _write(pause, PAUSE, [_layer(folder / "pause", folder / "pause.tar")], command)
    return [product, pause]


def _configuration() -> dict[str, Any]:
    environment = {
        "PATH": "/opt/restow/bin:/usr/local/bin",
        "PYTHONPATH": f"/{_PACKAGES}",
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONUNBUFFERED": "1",
    }
    return {
        "Entrypoint": ["restow"],
        "Env": [f"{name}={value}" for name, value in environment.items()],
        "User": "65532:65532",
        "WorkingDir": "/",
    }


def _fill(root: Path, requirements: Path) -> None:
    """Lay out the files of the product's image without the product."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    target, standard = root / _PACKAGES, root / "usr" / "local" / "lib" / version
    _run(*_INSTALL, "--target", target, "--only-binary=:all:", "--require-hashes", "-r", requirements)
    _run(sys.executable, _TRIM, target)
    unused = shutil.ignore_patterns("__pycache__", *_UNUSED)
    shutil.copytree(sysconfig.get_path("stdlib"), standard, ignore=unused, symlinks=True)
    for folder in (target, standard):
        _compile(root, folder)
    interpreter = Path(sys.executable).resolve()
    binaries = [interpreter, *standard.rglob("*.so"), *target.rglob("*.so")]
    for name, source in (("python3", interpreter), (version, interpreter)):
        _copy(source, root / "usr" / "local" / "bin" / name)
    _libraries(root, binaries)
    if strip := shutil.which("strip"):
        _run(strip, "--strip-unneeded", *sorted(path for path in root.rglob("*.so*") if path.is_file()))
    entry = root / "opt" / "restow" / "bin" / "restow"
    entry.parent.mkdir(parents=True)
    entry.write_text(_ENTRY)
    entry.chmod(0o755)
    for folder in ("tmp", "etc", "proc", "dev", "sys"):
        (root / folder).mkdir()
    (root / "etc" / "nsswitch.conf").write_text("hosts: files dns\n")


def _compile(root: Path, folder: Path) -> None:
    """Compile modules in a process of its own, to the same bytes whenever and wherever this runs."""
    shutil.rmtree(folder / "bin", ignore_errors=True)  # names this interpreter
    always = ("--invalidation-mode", "unchecked-hash")
    _run(sys.executable, "-m", "compileall", "-qq", *always, "-s", root, "-p", "/", folder)


def _libraries(root: Path, binaries: list[Path]) -> None:
    """Copy the C libraries that the binaries name to where the loader looks for them."""
    own = root / "lib" / f"{os.uname().machine}-linux-gnu"
    found = subprocess.run(["ldd", *binaries], capture_output=True, text=True, check=False).stdout
    for path in sorted(set(_LIBRARIES.findall(found))):
        if not path.startswith(str(root)):
            _copy(Path(path), root / path.lstrip("/") if "/ld-" in path else own / Path(path).name)


def _copy(source: Path, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    shutil.copy2(source, target)


def _layer(root: Path, target: Path) -> Path:
    """Write a folder as a layer, complete or not at all."""
    made = target.with_suffix(".new")
    with tarfile.open(made, "w") as tar:
        for path in sorted(root.rglob("*")):
            tar.add(path, path.relative_to(root).as_posix(), recursive=False, filter=_owned_by_root)
    return made.replace(target)


def _write(archive: Path, tag: str, layers: Sequence[Path], configuration: dict[str, Any]) -> None:
    """Write an image, complete or not at all."""
    digests = []
    for each in layers:
        with each.open("rb") as content:
            digests.append(f"sha256:{hashlib.file_digest(content, 'sha256').hexdigest()}")
    image = {
        "architecture": {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine],
        "os": "linux",
        "config": configuration,
        "rootfs": {"type": "layers", "diff_ids": digests},
    }
    names = [each.name for each in layers]
    manifest = [{"Config": "config.json", "RepoTags": [tag], "Layers": names}]
    made = archive.with_suffix(".new")
    with tarfile.open(made, "w") as tar:
        _add(tar, "config.json", json.dumps(image).encode())
        _add(tar, "manifest.json", json.dumps(manifest).encode())
        for each in layers:
            tar.add(each, each.name, filter=_owned_by_root)
    made.replace(archive)


def _owned_by_root(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Root owns everything, everybody may read it, only /tmp is for writing; no time differs between two builds."""
    member.uid = member.gid = 0
    member.uname = member.gname = "root"
    member.mode = 0o1777 if member.name == "tmp" else (member.mode & 0o755) | 0o444 | (0o111 if member.isdir() else 0)
    member.mtime = 0
    return member


def _add(tar: tarfile.TarFile, name: str, content: bytes) -> None:
    member = tarfile.TarInfo(name)
    member.size = len(content)
    tar.addfile(member, io.BytesIO(content))


def _run(*command: str | Path) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment.pop("PYTHONPYCACHEPREFIX", None)
    done = subprocess.run(command, capture_output=True, text=True, check=False, env=environment, cwd=ROOT)
    if done.returncode:
        raise SystemExit(
            f"test-node: {' '.join(map(str, command[:5]))} … failed: {done.stdout[-2000:]}{done.stderr[-2000:]}"
        )
