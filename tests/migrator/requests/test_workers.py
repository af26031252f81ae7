"""How many processes a run has, and what it refuses to share with them."""

from __future__ import annotations

from pathlib import Path

import pytest

from restow.kube import connect
from restow.migrator import Migration, Migrator, NamedConverters, Options
from restow.migrator.requests import workers
from restow.migrator.requests.passes import own_webhook
from restow.migrator.requests.workers import available_cpus, cgroup_quota, plan_workers
from tests.memory.cluster import MemoryCluster

KUBECONFIG = """
apiVersion: v1
kind: Config
current-context: a
clusters: [{name: a, cluster: {server: "http://127.0.0.1:1"}}]
users: [{name: a, user: {}}]
contexts: [{name: a, context: {cluster: a, user: a}}]
"""


@pytest.fixture
def kubeconfig(tmp_path: Path) -> Path:
    """A cluster that nothing is sent to."""
    file = tmp_path / "config"
    file.write_text(KUBECONFIG)
    return file


@pytest.mark.parametrize(
    ("asked", "cpus", "concurrency", "count"),
    [(1, 8, 32, None), (4, 1, 32, 4), (4, 8, 2, 2), (4, 8, 1, None), ("auto", 1, 32, None), ("auto", 99, 32, 8)],
)
async def test_how_many(
    kubeconfig: Path, monkeypatch: pytest.MonkeyPatch, asked: int | str, cpus: int, concurrency: int, count: int | None
) -> None:
    """More processes than CPUs or writes in flight only cost memory; one worker alone costs the way to it."""
    monkeypatch.setattr(workers, "available_cpus", lambda: cpus)
    async with connect(kubeconfig) as cluster:
        plan = plan_workers(cluster, Options(processes=asked, concurrency=concurrency), own_webhook)
    assert (plan and plan.count) == count
    if plan is not None:
        assert (plan.connection.host, plan.connection.context) == ("http://127.0.0.1:1", "a")


async def test_what_cannot_travel_is_refused_when_the_run_is_made(kubeconfig: Path) -> None:
    """An embedder that learns it in the middle of a run has half a migration."""
    with pytest.raises(ValueError, match="a worker process cannot open a cluster of type MemoryCluster again"):
        Migration(MemoryCluster(), Options(processes=2))
    with pytest.raises(ValueError, match="a worker process cannot open a cluster of type MemoryCluster again"):
        Migrator(MemoryCluster(), {"a.b": Options(processes=2)})
    async with connect(kubeconfig) as cluster:
        with pytest.raises(ValueError, match=r"Give NamedConverters\('module:function'\)"):
            Migration(cluster, Options(processes=2), converters=lambda _crd: None)
        Migration(cluster, Options(processes=2), converters=NamedConverters("a:b"))
        Migration(cluster, converters=lambda _crd: None)


@pytest.mark.parametrize("factory", ["", "module", ":function", "module:"])
def test_a_name_is_module_and_function(factory: str) -> None:
    """A name that nothing can be imported by is noticed in the workers only, otherwise."""
    with pytest.raises(ValueError, match="module:function"):
        NamedConverters(factory)


@pytest.mark.parametrize("value", [0, -1, 65, "two", True, 1.5, None])
def test_processes_are_checked(value: object) -> None:
    """A value of another kind fails where the processes are started, after the first write."""
    with pytest.raises((ValueError, TypeError), match="processes"):
        Options(processes=value)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("membership", "files", "quota"),
    [
        ("0::/a/b", {"a/b/cpu.max": "250000 100000", "a/cpu.max": "max 100000"}, 2.5),
        ("0::/a/b", {"a/b/cpu.max": "max 100000", "a/cpu.max": "150000 100000"}, 1.5),
        ("0::/", {"cpu.max": "50000 100000"}, 0.5),
        ("0::/a", {"a/cpu.max": "max 100000"}, None),
        ("0::/../outside", {"cpu.max": "300000 100000"}, 3.0),
        (
            "3:cpu,cpuacct:/a",
            {"cpu,cpuacct/a/cpu.cfs_quota_us": "200000", "cpu,cpuacct/a/cpu.cfs_period_us": "100000"},
            2,
        ),
        ("3:cpu:/a", {"cpu/cpu.cfs_quota_us": "400000", "cpu/cpu.cfs_period_us": "100000"}, 4),
        ("3:cpu:/a", {"cpu/a/cpu.cfs_quota_us": "-1", "cpu/a/cpu.cfs_period_us": "100000"}, None),
        ("4:memory:/a", {"memory/a/cpu.cfs_quota_us": "1", "memory/a/cpu.cfs_period_us": "1"}, None),
        ("0::/a", {"a/cpu.max": "garbage"}, None),
    ],
)
def test_the_smallest_quota_counts(tmp_path: Path, membership: str, files: dict[str, str], quota: float | None) -> None:
    """A container with two CPUs on a node of 64 would start a process for each of the 64."""
    (tmp_path / "cgroup").write_text(f"{membership}\n")
    for name, text in files.items():
        file = tmp_path / "mount" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")
    assert cgroup_quota(tmp_path / "cgroup", tmp_path / "mount") == quota
    assert cgroup_quota(tmp_path / "no such file") is None
    assert available_cpus() >= 1
