"""The benchmark programs of docs/benchmarks.md run, and what does not depend on the machine's speed is as claimed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

_ROOT = Path(__file__).parent.parent.parent


@pytest.mark.apiserver
@pytest.mark.timeout(600)
@pytest.mark.usefixtures("control_plane")  # where there is none to be had, this test goes as the others that need one
def test_quick_run(tmp_path):
    """A broken section, a contender that leaves its work undone, or more writes than claimed would show here."""
    file = tmp_path / "results.json"
    sections = ["startup", "writes", "memory", "throughput", "neighbour", "webhook", "shards", "scale", "proof"]
    command = [sys.executable, "-m", "benchmarks.migration", "--quick", "--json", str(file)]
    command += ["--sections", ",".join(sections)]
    done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

    found = json.loads(file.read_bytes())
    assert list(found["sections"]) == sections
    claims = [claim for section in found["sections"].values() for claim in section["claims"]]
    writes = {claim["claim"]: claim["figure"] for claim in claims if "writes per object" in claim["claim"]}
    assert writes == {
        "writes per object": 1.0,
        "1 shard: writes per object": 1.0,
        "2 shards: writes per object": 1.0,
        "4 shards: writes per object": 1.0,
        "strategy Webhook: writes per object": 1.0,
        "strategy Webhook, conversions in process: writes per object": 1.0,
        "combined patch: writes per object": 1.0,
        "identity apply: writes per object": 1.0,
        "empty patch: writes per object": 1.0,
        "identity apply, then combined patch: writes per object": 2.0,
        "writes per object of a run that proves": 1.0,
    }
    stored = [claim["figure"] for claim in claims if "changed what is stored" in claim["claim"]]
    assert stored == [0.0]
    contenders = {run["contender"] for run in found["runs"]}
    assert {"restow migrate", "restow, as a library", "native StorageVersionMigration"} <= contenders
    assert all(run["seconds"] > 0 and run["server_cpu"] > 0 for run in found["runs"])
    for claim in claims:
        assert claim["claim"] in done.stdout


@pytest.mark.timeout(300)
def test_quick_run_of_conversions(tmp_path):
    """A webhook that does not start, answers wrongly, or a broken section would show here."""
    file = tmp_path / "results.json"
    sections = ["sparse", "dense", "levels", "memory"]
    command = [sys.executable, "-m", "benchmarks.conversion", "--quick", "--json", str(file)]
    command += ["--sections", ",".join(sections)]
    done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

    found = json.loads(file.read_bytes())
    assert list(found["sections"]) == sections
    claims = [claim for section in found["sections"].values() for claim in section["claims"]]
    assert len(claims) == 6
    assert all(claim["claim"] in done.stdout for claim in claims)
    assert all(claim["figure"] > 0 for claim in claims[:5])


@pytest.mark.timeout(1200)  # the first run builds a Go program
def test_quick_run_next_to_controller_runtime(tmp_path):
    """A contender that does not build, or an object that the two convert differently, would show here."""
    file = tmp_path / "results.json"
    command = [sys.executable, "-m", "benchmarks.conversion", "--quick", "--sections", "peers", "--json", str(file)]
    done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

    claims = json.loads(file.read_bytes())["sections"]["peers"]["claims"]
    assert [claim["claim"].partition(":")[0] for claim in claims] == [
        "1 object, 1 connection",
        "1 object, 8 connections",
        "100 objects, 1 connection",
    ]
    assert all(claim["figure"] > 0 and claim["claim"] in done.stdout for claim in claims)
