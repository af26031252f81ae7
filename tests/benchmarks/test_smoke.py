"""The benchmark programs of docs/benchmarks.md run, and what does not depend on the machine's speed is as claimed."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import msgspec
import pytest

from benchmarks.figures import pages, renew
from benchmarks.records import load

_ROOT = Path(__file__).parent.parent.parent

pytestmark = pytest.mark.timeout(1800)  # for a machine three times slower; the first run builds a Go program


def check_quotes(folder, names):
    """Have the pages quote what was just measured; ``names``: of the records, and what the pages call them."""
    written = load(folder)
    assert set(written) == set(names)
    found = {shown: msgspec.structs.replace(written[name], name=shown) for name, shown in names.items()}
    for page in pages():
        renewed = renew(page.name, page.read_text(), load() | found)
        assert renewed.problems == [], "a table or a figure that a page quotes has another name by now"


@pytest.mark.apiserver
@pytest.mark.usefixtures("control_plane")  # where there is none to be had, this test goes as the others that need one
def test_quick_run(tmp_path):
    """A broken section, a contender that leaves its work undone, or more writes than claimed would show here."""
    file = tmp_path / "results.json"
    sections = ["startup", "writes", "memory", "throughput", "neighbour", "webhook", "shards", "scale", "proof"]
    command = [sys.executable, "-m", "benchmarks.migration", "--quick", "--json", str(file)]
    command += ["--sections", ",".join(sections), "--record", str(tmp_path / "records")]
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
    check_quotes(tmp_path / "records", {f"migration.{name}": f"migration.{name}" for name in sections})


def test_quick_run_of_conversions(tmp_path):
    """A webhook that does not start, answers wrongly, or a broken section would show here."""
    file = tmp_path / "results.json"
    sections = ["sparse", "dense", "levels", "memory"]
    command = [sys.executable, "-m", "benchmarks.conversion", "--quick", "--json", str(file)]
    command += ["--sections", ",".join(sections), "--record", str(tmp_path / "records")]
    done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr

    found = json.loads(file.read_bytes())
    assert list(found["sections"]) == sections
    claims = [claim for section in found["sections"].values() for claim in section["claims"]]
    assert len(claims) == 6
    assert all(claim["claim"] in done.stdout for claim in claims)
    assert all(claim["figure"] > 0 for claim in claims[:5])
    check_quotes(tmp_path / "records", {f"conversion.{name}": f"conversion.{name}" for name in sections})


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


@pytest.mark.apiserver
@pytest.mark.usefixtures("control_plane")
def test_quick_run_of_references(tmp_path):
    """A contender that misses a reference, or a cluster that is not filled, would show here."""
    file = tmp_path / "results.json"
    command = [sys.executable, "-m", "benchmarks.references", "--quick", "--without-helm", "--json", str(file)]
    command += ["--record", str(tmp_path / "records")]
    done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(file.read_bytes())
    assert {run["contender"]: run["found"] for run in found["runs"]} == {
        "restow references": 16,
        "restow references, objects alone": 4,
        "kubectl get | jq, custom resources alone": 4,
        "restow references, Helm alone": 12,
    }
    (claim,) = found["claims"]
    assert claim["holds"], claim
    check_quotes(tmp_path / "records", {"references.quick": "references.full"})


@pytest.mark.apiserver
@pytest.mark.usefixtures("control_plane")
def test_quick_run_of_cloudprofile(tmp_path):
    """An operator that writes a status twice, or reads Shoots one by one, would show here."""
    file = tmp_path / "results.json"
    command = [sys.executable, "-m", "benchmarks.cloudprofile", "--quick", "--requests", "2", "--json", str(file)]
    command += ["--record", str(tmp_path / "records")]
    done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = json.loads(file.read_bytes())
    assert all(claim["holds"] for claim in found["claims"]), found["claims"]
    assert all(rate["webhook"] > 0 and rate["rules"] > 0 for rate in found["found"]["rates"])
    check_quotes(tmp_path / "records", {"cloudprofile.quick": "cloudprofile.usual"})


def quick_claims(module, tmp_path):
    """Run a benchmark that has one section; return its claims by name, each of which it prints."""
    file = tmp_path / "results.json"
    command = [sys.executable, "-m", module, "--quick", "--json", str(file)]
    command += ["--record", str(tmp_path / "records")]
    done = subprocess.run(command, cwd=_ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    claims = {claim["claim"]: claim for claim in json.loads(file.read_bytes())["claims"]}
    assert all(claim in done.stdout for claim in claims)
    return claims


@pytest.mark.apiserver
@pytest.mark.usefixtures("control_plane")
def test_quick_run_of_rules(tmp_path):
    """A cost of a kind, or of a change, that grows with the number of kinds would show here."""
    claims = quick_claims("benchmarks.rules", tmp_path)
    assert claims["requests of a change, last / first step"]["holds"], claims
    check_quotes(tmp_path / "records", {"rules": "rules"})


@pytest.mark.apiserver
@pytest.mark.usefixtures("control_plane")
def test_quick_run_of_tenants(tmp_path):
    """A hostile kind that fails the reads of another one, or ends the leader, would show here."""
    claims = quick_claims("benchmarks.tenants", tmp_path)
    assert claims["failed reads of the others"]["holds"], claims
    assert claims["changes of the leader"]["holds"], claims
    assert set(load(tmp_path / "records")) == {"tenants"}
