"""Images for nodes that can pull none: tar files for ``ctr image import``, made of what this machine has.

``restow.local/restow:test`` is this interpreter with its standard library and C libraries, the packages of
requirements/image.txt, and the wheel of this checkout. It has the user, entry point and environment of
deploy/image/Dockerfile, and no shell. ``restow.local/pause:1`` is busybox.
"""

from __future__ import annotations

import compileall
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
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

__all__ = ["PAUSE", "REPOSITORY", "TAG", "images"]

ROOT: Final = Path(__file__).parents[2]
REPOSITORY: Final = "restow.local/restow"
TAG: Final = "test"
PAUSE: Final = "restow.local/pause:1"
_LIBRARIES: Final = re.compile(r"(/\S+) \(0x")
_UNUSED: Final = ("site-packages", "test", "tests", "idlelib", "ensurepip", "lib2to3", "tkinter", "turtledemo", "config-*")
_PACKAGES: Final = "opt/restow/site-packages"
_ENTRY: Final = """#!/usr/local/bin/python3
import sys
from restow.scripts import restow
sys.exit(restow())
"""


def images(cache: Path) -> list[Path]:
    """Return the images as tar files below ``cache``; one of the same content is not made again."""
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="restow-image-") as name:
        folder = Path(name)
        _run(sys.executable, "-m", "build", "--wheel", "--no-isolation", "--outdir", folder, ROOT)
        (wheel,) = folder.glob("*.whl")
        requirements = ROOT / "requirements" / "image.txt"
        sources = (wheel, requirements, Path(__file__))
        digest = hashlib.sha256(b"".join(each.read_bytes() for each in sources) + sys.version.encode()).hexdigest()[:12]
        product, pause = cache / f"restow-{digest}.tar", cache / "pause.tar"
        if not product.exists():
            _fill(folder / "root", wheel, requirements)
            _write(product, folder / "root", f"{REPOSITORY}:{TAG}", _configuration())
            for old in set(cache.glob("restow-*.tar")) - {product}:
                old.unlink()
    if not pause.exists():
        _pause(pause)
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


def _fill(root: Path, wheel: Path, requirements: Path) -> None:
    """Lay out the files of the product's image."""
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    target, standard = root / _PACKAGES, root / "usr" / "local" / "lib" / version
    install = (sys.executable, "-m", "pip", "install", "-q", "--disable-pip-version-check", "--target", target)
    _run(*install, "--only-binary=:all:", "--require-hashes", "-r", requirements)
    _run(*install, "--no-deps", "--no-index", wheel)
    unused = shutil.ignore_patterns("__pycache__", *_UNUSED)
    shutil.copytree(sysconfig.get_path("stdlib"), standard, ignore=unused, symlinks=True)
    compileall.compile_dir(standard, quiet=2)
    interpreter = Path(sys.executable).resolve()
    binaries = [interpreter, *standard.rglob("*.so"), *target.rglob("*.so")]
    for name, source in (("python3", interpreter), (version, interpreter)):
        _copy(source, root / "usr" / "local" / "bin" / name)
    _libraries(root, binaries)
    entry = root / "opt" / "restow" / "bin" / "restow"
    entry.parent.mkdir(parents=True)
    entry.write_text(_ENTRY)
    entry.chmod(0o755)
    for folder in ("tmp", "etc", "proc", "dev", "sys"):
        (root / folder).mkdir()
    (root / "etc" / "nsswitch.conf").write_text("hosts: files dns\n")


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


def _pause(archive: Path) -> None:
    with tempfile.TemporaryDirectory(prefix="restow-image-") as name:
        root = Path(name)
        _copy(Path("/bin/busybox"), root / "bin" / "busybox")
        _write(archive, root, PAUSE, {"Entrypoint": ["/bin/busybox", "sleep", "1000000000"]})


def _write(archive: Path, root: Path, tag: str, configuration: dict[str, Any]) -> None:
    """Write a folder as an image of one layer, complete or not at all."""
    layer = root.with_name(f"{root.name}-layer.tar")
    with tarfile.open(layer, "w") as tar:
        for path in sorted(root.rglob("*")):
            tar.add(path, path.relative_to(root).as_posix(), recursive=False, filter=_owned_by_root)
    with layer.open("rb") as content:
        digest = hashlib.file_digest(content, "sha256").hexdigest()
    architecture = {"x86_64": "amd64", "aarch64": "arm64"}[os.uname().machine]
    image = {
        "architecture": architecture,
        "os": "linux",
        "config": configuration,
        "rootfs": {"type": "layers", "diff_ids": [f"sha256:{digest}"]},
    }
    made = archive.with_suffix(".new")
    with tarfile.open(made, "w") as tar:
        _add(tar, "config.json", json.dumps(image).encode())
        _add(tar, "manifest.json", json.dumps([{"Config": "config.json", "RepoTags": [tag], "Layers": ["layer.tar"]}]).encode())
        tar.add(layer, "layer.tar")
    layer.unlink()
    made.replace(archive)


def _sorted(root: Path) -> Iterator[Path]:
    return iter(sorted(root.rglob("*")))


def _owned_by_root(member: tarfile.TarInfo) -> tarfile.TarInfo:
    """Root owns everything, everybody may read it, and only /tmp is for writing; the modules' times are whole seconds."""
    member.uid = member.gid = 0
    member.uname = member.gname = "root"
    member.mode = 0o1777 if member.name == "tmp" else (member.mode & 0o755) | 0o444 | (0o111 if member.isdir() else 0)
    member.mtime = int(member.mtime)
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
        raise SystemExit(f"test-node: {' '.join(map(str, command[:5]))} … failed: {done.stdout[-2000:]}{done.stderr[-2000:]}")
