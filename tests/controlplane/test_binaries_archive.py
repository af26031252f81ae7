"""The published archives, served by a local server: installed binaries, and refused archives."""

from __future__ import annotations

import hashlib
import io
import tarfile
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer, unused_port

from restow.controlplane.binaries import BinarySearch, find_binaries
from restow.controlplane.binaries.archive import choose_archive
from restow.controlplane.binaries.search import BinarySource
from restow.controlplane.errors import BinariesUnavailableError

VERSION = "1.36.3"
CONTENT = {
    "controller-tools/envtest/etcd": b"#!/bin/sh\necho etcd\n",
    "controller-tools/envtest/kube-apiserver": b"#!/bin/sh\necho kube-apiserver\n",
    "controller-tools/envtest/kubectl": b"#!/bin/sh\necho kubectl\n",
}
Handler = Callable[[web.Request], Awaitable[web.StreamResponse]]


@dataclass
class Published:
    """The content that the local server publishes; a test changes it before a search."""

    archive: bytes = b""
    sha512: str = ""
    tag: str = f"v{VERSION}"
    system: str = "linux-amd64"
    index: str | None = None
    cut_at: int | None = None
    requests: list[str] = field(default_factory=list)
    url: str = ""

    def publish(self, members: dict[str, bytes], *, links: dict[str, str] | None = None) -> None:
        """Pack an archive and set its correct checksum."""
        self.archive = _pack(members, links or {})
        self.sha512 = hashlib.sha512(self.archive).hexdigest()

    async def serve_index(self, request: web.Request) -> web.Response:
        """Answer with the index."""
        self.requests.append(request.path)
        name = f"envtest-{self.tag}-{self.system}.tar.gz"
        entry = f"{{hash: {self.sha512}, selfLink: '{self.url}archive.tar.gz'}}"
        return web.Response(text=self.index or f"releases:\n  {self.tag}:\n    {name}: {entry}\n")

    async def serve_archive(self, request: web.Request) -> web.StreamResponse:
        """Answer with the archive, or with its beginning."""
        self.requests.append(request.path)
        if self.cut_at is None:
            return web.Response(body=self.archive)
        response = web.StreamResponse()
        response.content_length = len(self.archive)
        await response.prepare(request)
        await response.write(self.archive[: self.cut_at])
        assert request.transport is not None
        request.transport.close()
        return response


def _pack(members: dict[str, bytes], links: dict[str, str]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w:gz") as archive:
        for name, content in members.items():
            info = tarfile.TarInfo(name)
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
        for name, target in links.items():
            info = tarfile.TarInfo(name)
            info.type, info.linkname = tarfile.SYMTYPE, target
            archive.addfile(info)
    return buffer.getvalue()


@pytest.fixture
async def published(monkeypatch: pytest.MonkeyPatch) -> AsyncIterator[Published]:
    """Serve an index and one good archive."""
    for proxy in ("http_proxy", "HTTP_PROXY", "all_proxy", "ALL_PROXY"):
        monkeypatch.delenv(proxy, raising=False)
    published = Published()
    published.publish(CONTENT)
    application = web.Application()
    application.router.add_get("/index.yaml", published.serve_index)
    application.router.add_get("/archive.tar.gz", published.serve_archive)
    async with TestServer(application) as server:
        published.url = str(server.make_url("/"))
        yield published


def _search(folder: Path, published: Published) -> BinarySearch:
    return BinarySearch(
        cache=folder,
        version=VERSION,
        sources=(BinarySource.ARCHIVE,),
        index_url=f"{published.url}index.yaml",
        platform=("linux", "amd64"),
    )


def _installed(search: BinarySearch) -> set[str]:
    return {path.name for path in search.folder.iterdir()} - {".lock"}


async def test_a_good_archive_is_installed(tmp_path: Path, published: Published) -> None:
    """Binaries would be missing, not executable, changed, or installed without being requested."""
    search = _search(tmp_path, published)
    found = await find_binaries(["kube-apiserver", "etcd"], search, lambda _: None)
    assert {name: path.read_bytes() for name, path in found.items()} == {
        "kube-apiserver": CONTENT["controller-tools/envtest/kube-apiserver"],
        "etcd": CONTENT["controller-tools/envtest/etcd"],
    }
    assert _installed(search) == {"kube-apiserver", "etcd"}
    assert all(path.stat().st_mode & 0o777 == 0o755 for path in found.values())


async def test_what_is_cached_is_not_fetched_again(tmp_path: Path, published: Published) -> None:
    """Every test run would download 100 MB."""
    search = _search(tmp_path, published)
    await find_binaries(["etcd"], search, lambda _: None)
    await find_binaries(["etcd"], search, lambda _: None)
    assert published.requests == ["/index.yaml", "/archive.tar.gz"]


def _wrong_checksum(published: Published) -> None:
    published.sha512 = "f" * 128


def _truncated(published: Published) -> None:
    published.cut_at = len(published.archive) // 2


def _truncated_silently(published: Published) -> None:
    published.archive = published.archive[:-40]


def _not_an_archive(published: Published) -> None:
    published.archive = b"<html>blocked</html>"
    published.sha512 = hashlib.sha512(published.archive).hexdigest()


def _missing_platform(published: Published) -> None:
    published.system = "darwin-arm64"


def _missing_version(published: Published) -> None:
    published.tag = "v1.35.0"


def _link(published: Published) -> None:
    published.publish({}, links={"controller-tools/envtest/etcd": "/bin/sh"})


def _index_is_html(published: Published) -> None:
    published.index = "<html>blocked</html>"


def _index_is_no_yaml(published: Published) -> None:
    published.index = "releases: [\n"


def _archive_is_not_found(published: Published) -> None:
    published.index = (
        f"releases: {{v{VERSION}: {{envtest-v{VERSION}-linux-amd64.tar.gz: "
        f"{{hash: {'f' * 128}, selfLink: '{published.url}nothing'}}}}}}"
    )


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (_wrong_checksum, "sha512"),
        (_truncated, "could not be read"),
        (_truncated_silently, "sha512"),
        (_not_an_archive, "the archive could not be read"),
        (_missing_platform, "no archive of Kubernetes 1.36.3 or its minor for linux/amd64"),
        (_missing_version, "no archive of Kubernetes 1.36.3 or its minor for linux/amd64"),
        (_link, "does not have etcd"),
        (_index_is_html, "no 'releases'"),
        (_index_is_no_yaml, "is no YAML"),
        (_archive_is_not_found, "answered 404"),
    ],
)
async def test_nothing_is_installed_from_a_bad_archive(
    tmp_path: Path, published: Published, damage: Callable[[Published], None], sentence: str
) -> None:
    """A damaged or hostile archive would leave a file in the cache, or outside of it."""
    damage(published)
    search = _search(tmp_path / "a" / "b" / "cache", published)
    with pytest.raises(BinariesUnavailableError, match=sentence):
        await find_binaries(["etcd"], search, lambda _: None)
    assert _installed(search) == set()
    assert [path.name for path in tmp_path.rglob("etcd")] == []


@pytest.mark.parametrize("member", ["controller-tools/../../../etcd", "/tmp/etcd"])
async def test_a_member_cannot_choose_its_folder(tmp_path: Path, published: Published, member: str) -> None:
    """A hostile archive would write a file outside of the cache."""
    published.publish({member: b"etcd"})
    search = _search(tmp_path / "a" / "b" / "cache", published)
    await find_binaries(["etcd"], search, lambda _: None)
    assert [path for path in tmp_path.rglob("etcd") if path.is_file()] == [search.folder / "etcd"]


async def test_an_unreachable_host_is_told_in_one_sentence(tmp_path: Path) -> None:
    """On a closed network the user would get a traceback, or the next source would not be tried."""
    url = f"http://127.0.0.1:{unused_port()}/index.yaml"
    search = BinarySearch(cache=tmp_path, version=VERSION, sources=(BinarySource.ARCHIVE,), index_url=url)
    sentences: list[str] = []
    with pytest.raises(BinariesUnavailableError, match=url):
        await find_binaries(["etcd"], search, sentences.append)
    assert len(sentences) == 1
    assert "The way 'archive' did not lead to etcd" in sentences[0]


async def test_the_controller_manager_is_not_sought_in_archives(tmp_path: Path, published: Published) -> None:
    """A search would download an archive of 100 MB that never has a kube-controller-manager."""
    with pytest.raises(BinariesUnavailableError, match="do not have kube-controller-manager"):
        await find_binaries(["kube-controller-manager"], _search(tmp_path, published), lambda _: None)
    assert published.requests == []


def _index(*versions: str) -> dict[str, object]:
    return {
        "releases": {
            f"v{version}": {f"envtest-v{version}-linux-amd64.tar.gz": {"hash": "AB", "selfLink": version}}
            for version in versions
        }
    }


@pytest.mark.parametrize(
    ("published_versions", "chosen"),
    [
        (["1.36.3", "1.36.9"], "1.36.3"),
        (["1.36.2", "1.36.10", "1.36.9"], "1.36.10"),
        (["1.36.0", "1.36.4-rc.1", "1.37.0", "1.3.6"], "1.36.0"),
    ],
)
def test_the_exact_version_or_the_newest_of_its_minor(published_versions: list[str], chosen: str) -> None:
    """Tests would run on another minor, on a release candidate, or on an older patch than the newest available."""
    archive = choose_archive(_index(*published_versions), "1.36.3", ("linux", "amd64"))
    assert (archive.version, archive.url, archive.sha512) == (chosen, chosen, "ab")


@pytest.mark.parametrize("index", [None, [], {"releases": []}, {"releases": {"v1.36.3": None}}, "text"])
def test_a_foreign_index_is_refused(index: object) -> None:
    """A changed or foreign document would end in a traceback."""
    with pytest.raises(BinariesUnavailableError):
        choose_archive(index, "1.36.3", ("linux", "amd64"))
