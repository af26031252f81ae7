"""The places where binaries are searched for, their order, and the message if they are in none."""

from __future__ import annotations

from pathlib import Path

import pytest

from restow.controlplane.binaries import BINARIES, BinarySearch, find_binaries
from restow.controlplane.binaries.search import (
    DEFAULT_MINOR,
    BinarySource,
    go_module,
    kubernetes_version,
    minors,
    pinned_version,
)
from restow.controlplane.errors import BinariesUnavailableError, ControlPlaneError

OFFLINE = {"RESTOW_CONTROLPLANE_OFFLINE": "true", "RESTOW_CONTROLPLANE_SOURCE": "archive"}
NAMED, ASSETS, CACHE = "named", "assets", "cache"


def _put(path: Path, mode: int = 0o755) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("#!/bin/sh\n")
    path.chmod(mode)
    return path


def _search(folder: Path, **environment: str) -> BinarySearch:
    return BinarySearch.from_environment({"RESTOW_CONTROLPLANE_CACHE": str(folder / CACHE), **OFFLINE, **environment})


@pytest.mark.parametrize("name", sorted(BINARIES))
@pytest.mark.parametrize(
    ("places", "expected"),
    [
        ({NAMED, ASSETS, CACHE}, NAMED),
        ({ASSETS, CACHE}, ASSETS),
        ({CACHE}, CACHE),
        ({NAMED}, NAMED),
        ({NAMED, CACHE}, NAMED),
    ],
)
async def test_the_first_place_wins(tmp_path: Path, name: str, places: set[str], expected: str) -> None:
    """A binary that the user named would be ignored in favour of another one."""
    environment = {"KUBEBUILDER_ASSETS": str(tmp_path / ASSETS)}
    search = _search(tmp_path, **environment)
    path_of = {NAMED: tmp_path / "elsewhere", ASSETS: tmp_path / ASSETS / name, CACHE: search.folder / name}
    for place in places:
        _put(path_of[place])
    if NAMED in places:
        search = _search(tmp_path, **environment, **{BINARIES[name].environment: str(path_of[NAMED])})
    assert await find_binaries([name], search) == {name: path_of[expected]}


async def test_each_binary_is_looked_for_by_itself(tmp_path: Path) -> None:
    """A folder KUBEBUILDER_ASSETS without a controller manager (like envtest's) would hide the cached one."""
    search = _search(tmp_path, KUBEBUILDER_ASSETS=str(tmp_path / ASSETS))
    etcd = _put(tmp_path / ASSETS / "etcd")
    manager = _put(search.folder / "kube-controller-manager")
    found = await find_binaries(["kube-controller-manager", "etcd"], search)
    assert found == {"kube-controller-manager": manager, "etcd": etcd}


@pytest.mark.parametrize("mode", [None, 0o644])
async def test_a_named_file_that_cannot_run_is_an_error(tmp_path: Path, mode: int | None) -> None:
    """A mistyped TEST_ASSET_ETCD would silently run the tests with another etcd."""
    path = tmp_path / "etcd"
    if mode is not None:
        _put(path, mode)
    with pytest.raises(ControlPlaneError, match=f"TEST_ASSET_ETCD names {path}"):
        await find_binaries(["etcd"], _search(tmp_path, TEST_ASSET_ETCD=str(path)))


async def test_a_file_in_the_cache_that_cannot_run_does_not_count(tmp_path: Path) -> None:
    """A half-installed file would be started."""
    search = _search(tmp_path)
    _put(search.folder / "etcd", 0o644)
    with pytest.raises(BinariesUnavailableError):
        await find_binaries(["etcd"], search)


async def test_nowhere_is_explained_way_by_way(tmp_path: Path) -> None:
    """A user would see only the failure, without the attempts and the next step."""
    sentences: list[str] = []
    search = BinarySearch(
        cache=tmp_path, version="1.2.3", offline=True, sources=(BinarySource.ARCHIVE, BinarySource.BUILD)
    )
    with pytest.raises(BinariesUnavailableError) as caught:
        await find_binaries(["kubectl", "etcd"], search, sentences.append)
    text = str(caught.value)
    for part in ("kubectl, etcd", "1.2.3", "TEST_ASSET_KUBECTL, TEST_ASSET_ETCD", "KUBEBUILDER_ASSETS"):
        assert part in text
    assert f"cache: they are not in {tmp_path / '1.2.3-linux-amd64'}" in text
    assert "archive: not tried, because RESTOW_CONTROLPLANE_OFFLINE is set" in text
    assert f"build: the build makes Kubernetes {', '.join(map(pinned_version, minors()))} only, not 1.2.3" in text
    assert "python -m restow.controlplane binaries" in text
    assert len(sentences) == 2


async def test_an_unusable_cache_folder_is_explained(tmp_path: Path) -> None:
    """A read-only home would end in a traceback instead of a sentence with the variable to set."""
    (tmp_path / CACHE).write_text("a file in the way")
    with pytest.raises(BinariesUnavailableError, match="set RESTOW_CONTROLPLANE_CACHE"):
        await find_binaries(["etcd"], _search(tmp_path))


async def test_an_unknown_name_is_refused(tmp_path: Path) -> None:
    """A mistyped name would be searched for on the network."""
    with pytest.raises(ControlPlaneError, match="no binary named kube-dns"):
        await find_binaries(["kube-dns"], _search(tmp_path))


@pytest.mark.parametrize(
    ("environment", "attribute", "value"),
    [
        ({}, "sources", (BinarySource.ARCHIVE, BinarySource.BUILD)),
        ({"RESTOW_CONTROLPLANE_SOURCE": "build"}, "sources", (BinarySource.BUILD,)),
        ({"RESTOW_CONTROLPLANE_SOURCE": "archive"}, "sources", (BinarySource.ARCHIVE,)),
        ({}, "offline", False),
        ({"RESTOW_CONTROLPLANE_OFFLINE": "1"}, "offline", True),
        ({"RESTOW_CONTROLPLANE_OFFLINE": "false"}, "offline", False),
        ({"RESTOW_KUBERNETES": "v1.35.2"}, "version", "1.35.2"),
        ({"RESTOW_KUBERNETES": "1.35"}, "version", pinned_version("1.35")),
        ({"RESTOW_KUBERNETES": ""}, "version", pinned_version()),
        ({"RESTOW_CONTROLPLANE_INDEX": "http://mirror/i.yaml"}, "index_url", "http://mirror/i.yaml"),
        ({"XDG_CACHE_HOME": "/x"}, "cache", Path("/x/restow/controlplane")),
        ({"XDG_CACHE_HOME": "/x", "RESTOW_CONTROLPLANE_CACHE": "/y"}, "cache", Path("/y")),
    ],
)
def test_the_environment_is_read(environment: dict[str, str], attribute: str, value: object) -> None:
    """A documented variable would have no effect."""
    assert getattr(BinarySearch.from_environment(environment), attribute) == value


@pytest.mark.parametrize(
    "environment", [{"RESTOW_CONTROLPLANE_SOURCE": "docker"}, {"RESTOW_CONTROLPLANE_OFFLINE": "perhaps"}]
)
def test_a_wrong_value_is_refused(environment: dict[str, str]) -> None:
    """A mistyped value would be taken as the default."""
    with pytest.raises(ControlPlaneError, match=next(iter(environment))):
        BinarySearch.from_environment(environment)


def test_the_version_is_the_pinned_one() -> None:
    """The cache folder and the linked-in version would differ from the release that go.mod builds."""
    for minor in minors():
        assert f"\tk8s.io/kubernetes v{pinned_version(minor)} " in go_module(minor).read_text()
        assert pinned_version(minor).startswith(f"{minor}.")
    assert BinarySearch.from_environment({}).version == pinned_version(DEFAULT_MINOR)


def test_the_minors_are_in_order_and_the_default_is_one_of_them() -> None:
    """``make test-matrix`` would omit a minor, or begin with the newest (1.9 is older than 1.10)."""
    assert list(minors()) == sorted(minors(), key=lambda minor: [int(part) for part in minor.split(".")])
    assert len(minors()) >= 3
    assert DEFAULT_MINOR in minors()


def test_a_flag_counts_more_than_the_environment() -> None:
    """``--kubernetes 1.34`` would start another version because of a variable in the environment."""
    search = BinarySearch.from_environment({"RESTOW_KUBERNETES": "1.35"}, kubernetes="1.34")
    assert search.version == pinned_version("1.34")


@pytest.mark.parametrize(
    ("text", "said"),
    [("1.2", "Kubernetes 1.2 is not pinned here; there are 1.34, 1.35,"), ("newest", "is no Kubernetes version")],
)
def test_a_kubernetes_that_cannot_be_had_is_refused(text: str, said: str) -> None:
    """A mistyped minor would be searched for on the network, or replaced by the default."""
    with pytest.raises(ControlPlaneError, match=said):
        kubernetes_version(text)
