"""Binaries from the published envtest archives: index, download, checksum, safe extraction.

The index (YAML) maps ``releases`` → ``v1.36.2`` → ``envtest-v1.36.2-linux-amd64.tar.gz`` → ``hash`` (sha512, hex) and
``selfLink``. Not every patch release of Kubernetes has archives: if the pinned one has none, the newest of the same
minor is used, and reported.

Invariants: no part of an archive is read before its checksum is verified; only regular files are extracted, by an
expected name, into one folder. An unreachable host costs a few seconds, not minutes.
"""

from __future__ import annotations

import asyncio
import hashlib
import shutil
import tarfile
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

import aiohttp
import yaml

from restow.controlplane.binaries.cache import install, scratch
from restow.controlplane.binaries.search import BINARIES
from restow.controlplane.errors import BinariesUnavailableError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from restow.controlplane.binaries.search import BinarySearch, BuildProgress

_CHUNK = 1 << 20
_INDEX_LIMIT = 16 << 20  # bytes; the real index has about 0.1 MB
_INDEX_TIMEOUT = aiohttp.ClientTimeout(total=10, connect=4)
_ARCHIVE_TIMEOUT = aiohttp.ClientTimeout(total=None, connect=4, sock_read=20)


@dataclass(frozen=True, slots=True)
class Archive:
    """One entry of the index."""

    version: str
    url: str
    sha512: str


async def fetch_archive(names: Sequence[str], search: BinarySearch, progress: BuildProgress) -> None:
    """Install the named binaries into the cache folder from a published archive.

    The caller holds the cache's lock.

    Raises:
        BinariesUnavailableError: the download is disabled or fails, or the archive lacks a binary; in each case nothing
            is installed.
    """
    if search.offline:
        message = "not tried, because RESTOW_CONTROLPLANE_OFFLINE is set."
        raise BinariesUnavailableError(message)
    wanted = [name for name in names if BINARIES[name].in_archive]
    if not wanted:
        message = f"the published archives do not have {', '.join(names)}."
        raise BinariesUnavailableError(message)
    work = scratch(search.folder)
    try:
        async with aiohttp.ClientSession(trust_env=True) as session:
            index = await _read_index(session, search.index_url)
            archive = choose_archive(index, search.version, search.platform)
            progress(f"Downloading the envtest archive of Kubernetes {archive.version} from {archive.url}.")
            file = work / "archive.tar.gz"
            await _download(session, archive, file)
        await asyncio.to_thread(extract, file, wanted, work)
        for name in wanted:
            install(work / name, search.folder, name)
    except (aiohttp.ClientError, TimeoutError, OSError) as error:
        message = f"{search.index_url} or an archive that it names could not be read: {_reason(error)}."
        raise BinariesUnavailableError(message) from error
    finally:
        shutil.rmtree(work, ignore_errors=True)
    progress(f"Installed {', '.join(wanted)} of Kubernetes {archive.version} into {search.folder}.")


def choose_archive(index: object, version: str, platform: tuple[str, str]) -> Archive:
    """Return the archive of exactly this version, else of the newest patch release of its minor.

    A pre-release is never chosen instead of another version.

    Raises:
        BinariesUnavailableError: the index has no archive for the platform, or the document is not an index.
    """
    releases = index.get("releases") if isinstance(index, dict) else None
    if not isinstance(releases, dict):
        message = "the index of archives has no 'releases'; is it the right URL?"
        raise BinariesUnavailableError(message)
    system, architecture = platform
    candidates: dict[str, Archive] = {}
    for tag, files in releases.items():
        entry = files.get(f"envtest-{tag}-{system}-{architecture}.tar.gz") if isinstance(files, dict) else None
        if isinstance(entry, dict) and isinstance(entry.get("hash"), str) and isinstance(entry.get("selfLink"), str):
            candidate = str(tag).removeprefix("v")
            candidates[candidate] = Archive(candidate, entry["selfLink"], entry["hash"].lower())
    if version in candidates:
        return candidates[version]
    minor = version.rpartition(".")[0] + "."
    patches = [each for each in candidates if each.startswith(minor) and each.removeprefix(minor).isdecimal()]
    if not patches:
        message = f"the index has no archive of Kubernetes {version} or its minor for {system}/{architecture}."
        raise BinariesUnavailableError(message)
    return candidates[max(patches, key=lambda each: int(each.removeprefix(minor)))]


def extract(file: Path, names: Sequence[str], target: Path) -> None:
    """Write the named binaries of a tar.gz into a folder, by their base names.

    Links and other special files are skipped, and the folders in a member's path do not count.

    Raises:
        BinariesUnavailableError: the archive is malformed or lacks a binary.
    """
    try:
        with tarfile.open(file, "r:gz") as archive:
            missing = set(names)
            for member in archive:
                name = PurePosixPath(member.name).name
                if name not in missing or not member.isreg():
                    continue
                content = archive.extractfile(member)
                if content is not None:
                    with content, (target / name).open("wb") as output:
                        shutil.copyfileobj(content, output, _CHUNK)
                    missing.discard(name)
    except (tarfile.TarError, EOFError, OSError) as error:
        message = f"the archive could not be read: {error}."
        raise BinariesUnavailableError(message) from error
    if missing:
        message = f"the archive does not have {', '.join(sorted(missing))}."
        raise BinariesUnavailableError(message)


async def _read_index(session: aiohttp.ClientSession, url: str) -> object:
    body = bytearray()
    async with session.get(url, timeout=_INDEX_TIMEOUT) as response:
        _check(response)
        async for chunk in response.content.iter_chunked(_CHUNK):
            body += chunk
            if len(body) > _INDEX_LIMIT:
                message = f"{url} is longer than {_INDEX_LIMIT >> 20} MiB, so it is no index of archives."
                raise BinariesUnavailableError(message)
    try:
        return yaml.safe_load(bytes(body))
    except yaml.YAMLError as error:
        message = f"{url} is no YAML; is it the right URL?"
        raise BinariesUnavailableError(message) from error


async def _download(session: aiohttp.ClientSession, archive: Archive, file: Path) -> None:
    digest = hashlib.sha512()
    async with session.get(archive.url, timeout=_ARCHIVE_TIMEOUT) as response:
        _check(response)
        with file.open("wb") as output:
            async for chunk in response.content.iter_chunked(_CHUNK):
                digest.update(chunk)
                output.write(chunk)
    if digest.hexdigest() != archive.sha512:
        message = (
            f"the sha512 of {archive.url} is {digest.hexdigest()[:16]}…, but {archive.sha512[:16]}… in the "
            "index; nothing of it was used. Was the download cut short, or changed on the way?"
        )
        raise BinariesUnavailableError(message)


def _check(response: aiohttp.ClientResponse) -> None:
    if response.status != HTTPStatus.OK:
        message = f"{response.url} answered {response.status}."
        raise BinariesUnavailableError(message)


def _reason(error: BaseException) -> str:
    return str(error) or ("no answer in time" if isinstance(error, TimeoutError) else type(error).__name__)
