"""The folder that a server loads its certificate from: both files change as one, and only if there is a change."""

from __future__ import annotations

import stat
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from restow.conversion.certificates.ca.authority import Authority, CertificateError, LeafCertificate
from restow.conversion.certificates.ca.store import CERTIFICATE, KEY, install, installed

NOW = datetime(2026, 5, 4, tzinfo=UTC)
AUTHORITY = Authority.create("test", now=NOW, valid_for=timedelta(days=9))


def leaf() -> LeafCertificate:
    """A new leaf."""
    return AUTHORITY.issue(["localhost"], now=NOW, valid_for=timedelta(days=1))


def test_the_layout_is_that_of_a_mounted_secret(tmp_path: Path) -> None:
    """A server that watches a mounted Secret must not have to know the difference."""
    first = leaf()
    assert install(tmp_path / "tls", first)
    folder = tmp_path / "tls"
    assert (folder / CERTIFICATE).read_bytes() == first.certificate and (folder / KEY).read_bytes() == first.key
    assert str((folder / CERTIFICATE).readlink()) == "..data/tls.crt" and (folder / "..data").is_symlink()
    assert installed(folder) == first
    key = (folder / KEY).stat()
    assert stat.S_IMODE(key.st_mode) == 0o600
    assert stat.S_IMODE((folder / "..data").resolve().stat().st_mode) == 0o700


def test_the_same_leaf_changes_nothing(tmp_path: Path) -> None:
    """A server would load it again and again."""
    first = leaf()
    install(tmp_path, first)
    before = (tmp_path / "..data").readlink()
    assert not install(tmp_path, first) and (tmp_path / "..data").readlink() == before


def test_nothing_is_left_of_the_one_before(tmp_path: Path) -> None:
    """Private keys would pile up."""
    for _ in range(3):
        install(tmp_path, leaf())
    assert len([path for path in tmp_path.iterdir() if path.is_dir() and not path.is_symlink()]) == 1


def test_no_reader_ever_meets_a_pair_that_does_not_belong_together(tmp_path: Path) -> None:
    """A server would load it, and fail at every handshake."""
    leaves = [leaf() for _ in range(30)]
    install(tmp_path, leaves[0])
    done = threading.Event()
    torn: list[str] = []
    seen: set[bytes] = set()

    def read() -> None:
        while not done.is_set():
            try:
                current = (tmp_path / "..data").resolve(strict=True)
                pair = (current / CERTIFICATE).read_bytes(), (current / KEY).read_bytes()
            except OSError:  # the folder went between looking it up and reading: look again
                continue
            try:
                seen.add(LeafCertificate(*pair).certificate)
            except CertificateError as error:
                torn.append(str(error))

    reader = threading.Thread(target=read)
    reader.start()
    try:
        for each in leaves:
            install(tmp_path, each)
            while each.certificate not in seen:
                pass
    finally:
        done.set()
        reader.join()
    assert not torn and len(seen) == len(leaves)


@pytest.mark.parametrize("broken", ["missing", "torn", "garbage"])
def test_what_cannot_be_read_is_none(tmp_path: Path, broken: str) -> None:
    """A missing or torn certificate is replaced; raising would keep the server from starting."""
    if broken != "missing":
        install(tmp_path, leaf())
        (tmp_path / "..data" / KEY).write_bytes(leaf().key if broken == "torn" else b"")
    assert installed(tmp_path) is None
    assert install(tmp_path, leaf()) and installed(tmp_path) is not None
