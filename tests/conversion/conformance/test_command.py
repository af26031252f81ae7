"""The command, and what it is made of: exit codes, output, samples, acknowledged losses."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from pathlib import Path

import pytest
import yaml

from restow.conversion.testing.conformance import CASES, NotConformant, Samples, check, run
from restow.conversion.testing.conformance.__main__ import main
from tests.conversion.conformance.breakages import BREAKAGES, GOOD, Webhook, lossy, spec
from tests.conversion.conformance.server import Served, served
from tests.conversion.conformance.widgets import GROUP, crd

QUICK = ["--idle", "0.1", "--objects", "4"]


@pytest.fixture
def manifest(tmp_path: Path) -> Path:
    """The CRD as a file, among other documents."""
    path = tmp_path / "crds.yaml"
    path.write_text(yaml.safe_dump_all([{"kind": "Namespace", "metadata": {"name": "x"}}, dict(crd().document)]))
    return path


async def command(webhook: Webhook, folder: Path, *arguments: str) -> int:
    """Serve a webhook and run the command against it."""

    def called(running: Served) -> int:
        ca = folder / "ca.pem"
        ca.write_bytes(running.ca)
        return main([running.url, "--ca", str(ca), *QUICK, *arguments])

    async with served(webhook, folder, **webhook.options) as running:
        return await asyncio.to_thread(called, running)


async def test_a_good_webhook_ends_with_0(tmp_path: Path, manifest: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A pipeline that runs it would stop, or people would read past the verdict."""
    assert await command(GOOD, tmp_path, "--crd", str(manifest)) == 0
    *lines, _, summary = capsys.readouterr().out.splitlines()
    assert [line.split()[2] for line in lines] == [case.name for case in CASES]
    assert "conformant (0 must and 0 should failed" in summary


async def test_a_broken_one_ends_with_1_and_says_what_and_why(
    tmp_path: Path, manifest: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A finding without the API server's own message cannot be matched with what clients see."""
    assert await command(BREAKAGES["uid"].webhook, tmp_path, "--crd", str(manifest), "-o", "json") == 1
    report = json.loads(capsys.readouterr().out)
    [failed] = [case for case in report["cases"] if case["outcome"] == "failed"]
    assert not report["conformant"] and failed["name"] == "uid" and failed["severity"] == "must"
    assert 'expected response.uid="9f3a' in failed["message"] and failed["why"] and failed["source"]


async def test_what_should_be_does_not_decide(tmp_path: Path, manifest: Path) -> None:
    """A webhook that works with API servers of today would count as broken."""
    assert await command(BREAKAGES["wrong-method"].webhook, tmp_path, "--crd", str(manifest)) == 0


async def test_acknowledged_losses_and_samples(tmp_path: Path, manifest: Path) -> None:
    """A loss that is meant would hide those that are not."""
    forgetful = replace(GOOD, convert=spec(lossy).convert)
    arguments = ["--crd", str(manifest), "--name", f"widgets.{GROUP}"]
    assert await command(forgetful, tmp_path, *arguments) == 1
    acknowledged = [f"--acknowledge={version}:.spec.on" for version in ("v1", "v1beta1", "v1alpha1")]
    assert await command(forgetful, tmp_path, *arguments, *acknowledged) == 0
    sample = tmp_path / "sample.yaml"
    objects = [
        {"apiVersion": f"{GROUP}/{version}", "kind": "Widget", "metadata": {"name": "a"}, "spec": {"size": 1}}
        for version in ("v1", "v1beta1")
    ]
    sample.write_text(yaml.safe_dump({"apiVersion": "v1", "kind": "List", "items": objects}))
    known = [*arguments, acknowledged[-1]]
    assert await command(forgetful, tmp_path, *known) == 1
    assert await command(forgetful, tmp_path, *known, "--sample", str(sample)) == 0


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--crd", "/nowhere"], "No such file"),
        (["--crd", "{manifest}", "--name", "other"], "0 such CRDs"),
        (["--crd", "{manifest}", "--acknowledge", "spec.on"], "VERSION:.path"),
        (["--crd", "{manifest}", "--sample", "{manifest}"], "does not serve"),
    ],
)
def test_usage_ends_with_2(
    arguments: list[str], sentence: str, manifest: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A run that could not begin is no verdict on the webhook."""
    filled = [argument.format(manifest=manifest) for argument in arguments]
    with pytest.raises(SystemExit) as ended:
        main(["https://127.0.0.1:1/convert", *filled])
    assert ended.value.code == 2 and sentence in capsys.readouterr().err


async def test_a_webhook_that_is_not_there_is_one_finding() -> None:
    """Fifty times the same sentence hides that nothing was asked at all."""
    report = await run("https://127.0.0.1:1/convert", b"", Samples(crd()), idle_s=0)
    assert report.failed() == ("answers",) and "did not answer" in report.table()
    with pytest.raises(NotConformant, match="answers"):
        await check(CASES[5], "https://127.0.0.1:1/convert", b"", Samples(crd()))


async def test_a_certificate_for_another_name_is_told(tmp_path: Path) -> None:
    """The commonest mistake of all, and the API server's words for it are far from the cause."""
    async with served(GOOD, tmp_path, host="localhost") as running:
        url = running.url.replace("localhost", "127.0.0.1")
        report = await run(url, running.ca, Samples(crd()), cases=CASES[:1])
    assert report.failed() == ("answers",)
    assert "does not verify for the name 127.0.0.1 against the CA bundle" in report.findings[0].message


def test_the_same_objects_each_time() -> None:
    """A finding that is gone in the next run cannot be worked on."""
    first, second, other = (Samples(crd(), seed=seed, count=4) for seed in (1, 1, 2))
    for version in first.versions:
        assert first.objects(version) == second.objects(version) != other.objects(version)
        assert first.parts(version) == second.parts(version)


@pytest.mark.parametrize("name", [case.name for case in CASES])
def test_every_case_is_in_the_document(name: str) -> None:
    """A finding must be explained where people look for it."""
    text = (Path(__file__).parents[3] / "docs" / "conformance.md").read_text(encoding="utf-8")
    case = next(case for case in CASES if case.name == name)
    assert f"| `{name}` | {case.severity} | {case.what} |" in text
