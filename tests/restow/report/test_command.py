"""``restow report`` without a cluster: a run, a policy, and wrong use."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.restow.commandline import restow
from tests.restow.report.sample import HOSTILE, POLICY, run_json


@pytest.fixture
def run_file(tmp_path: Path) -> Path:
    """The report of a run."""
    file = tmp_path / "run.json"
    file.write_text(json.dumps(run_json()))
    return file


def test_a_run_and_a_policy_need_no_cluster(run_file: Path, tmp_path: Path):
    """A report is often made where the Job's file has been copied to, far from the cluster."""
    page = tmp_path / "report.html"
    ran = restow("report", "-f", run_file, "--policy", POLICY, "-o", page)
    assert (ran.code, ran.out, ran.err) == (0, "", f"{page} written\n")
    text = page.read_text(encoding="utf-8")
    assert "till-7" in text and "v1.18" in text
    assert HOSTILE not in text


def test_from_stdin_to_stdout(run_file: Path):
    """``restow migrate -o json | restow report -f - -o -`` is how a pipeline makes its artifact."""
    ran = restow("report", "-f", "-", "-o", "-", stdin=run_file.read_text())
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("<!doctype html>") and ran.out.endswith("</html>\n")


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["-o", "x.html"], "say what to show"),
        (["--all"], "Missing option '-o'"),
        (["a.example.com", "--all", "-o", "x.html"], "name CRDs or give --all, not both"),
        (["--profiles", "--at", "v1.14", "-o", "x.html"], "--at needs --policy"),
        (["-f", __file__, "-o", "x.html"], "is no JSON report of restow migrate"),
        (["--policy", POLICY, "--at", "v9", "a.example.com", "-o", "x.html"], "v9 is no release of the policy"),
        (["--policy", __file__, "-o", "x.html"], "cannot be read as YAML"),
        (["--all", "-o", "/nonexistent/x.html"], "is no folder to write to"),
    ],
)
def test_wrong_use(arguments: list[str | Path], said: str, tmp_path: Path):
    """Exit code 2 and a sentence, before any cluster is asked."""
    ran = restow("report", *arguments, cwd=tmp_path)
    assert ran.code == 2
    assert said in ran.err
    assert list(tmp_path.iterdir()) == []
