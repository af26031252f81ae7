"""Puts a leaf into a folder as kubelet puts a mounted Secret there, so that certificate and key change as one.

    FOLDER/tls.crt -> ..data/tls.crt        the names that a server is given
    FOLDER/tls.key -> ..data/tls.key
    FOLDER/..data  -> ..RANDOM              renamed into place: the one moment at which both change
    FOLDER/..RANDOM/tls.crt, tls.key

A server that reads certificate and key one after the other can still meet the moment in between; it has to check that
they belong together, and read again.

Source: kubernetes ``pkg/volume/util/atomic_writer.go``.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import tempfile
from pathlib import Path
from typing import Final

from restow.conversion.certificates.authority import CertificateError, Leaf

__all__ = ["CERTIFICATE", "KEY", "install", "installed"]

CERTIFICATE: Final = "tls.crt"
KEY: Final = "tls.key"
_DATA: Final = "..data"


def installed(folder: Path) -> Leaf | None:
    """Return the leaf in a folder, None if there is none that can be read."""
    try:
        current = (folder / _DATA).resolve(strict=True)
        return Leaf((current / CERTIFICATE).read_bytes(), (current / KEY).read_bytes())
    except (OSError, CertificateError):
        return None


def install(folder: Path, leaf: Leaf) -> bool:
    """Put a leaf there; return whether that was a change. Only the owner may read it.

    Raises:
        OSError: a file cannot be read or written.
    """
    if installed(folder) == leaf:
        return False
    folder.mkdir(parents=True, exist_ok=True)
    fresh = Path(tempfile.mkdtemp(prefix="..", dir=folder))  # mode 0700
    for name, content in ((CERTIFICATE, leaf.certificate), (KEY, leaf.key)):
        with os.fdopen(os.open(fresh / name, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb") as file:
            file.write(content)
    before = _current(folder)
    _link(folder / _DATA, fresh.name)
    for name in (CERTIFICATE, KEY):
        if not (folder / name).is_symlink():
            _link(folder / name, f"{_DATA}/{name}")
    if before is not None:
        shutil.rmtree(before, ignore_errors=True)
    return True


def _current(folder: Path) -> Path | None:
    with contextlib.suppress(OSError):
        return folder / (folder / _DATA).readlink()
    return None


def _link(path: Path, target: str) -> None:
    """Make or replace a symbolic link in one step."""
    aside = path.with_name(f"{path.name}.tmp")
    aside.unlink(missing_ok=True)
    aside.symlink_to(target)
    aside.replace(path)
