"""``restow convert --review``: replaying, comparing, and making reviews."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.restow.commandline import restow
from tests.restow.offline import CRDS, GATEWAY, OLD, PROVIDER, REGISTRY, ROOT, Ran, run

REVIEWS = PROVIDER / "reviews"
REQUEST = REVIEWS / "gateway-down.request.json"
RESPONSE = REVIEWS / "gateway-down.response.json"


def review(*arguments: str | Path, stdin: str | bytes = "") -> Ran:
    return run("convert", *REGISTRY, *CRDS, *arguments, stdin=stdin)


def test_a_recorded_request_gets_the_recorded_answer() -> None:
    """Replaying must be what the webhook does."""
    ran = review("--review", "-f", REQUEST)
    assert (ran.code, ran.err) == (0, "")
    assert ran.json == json.loads(RESPONSE.read_text())
    assert review("--review", "-f", "-", "-o", "yaml", stdin=REQUEST.read_text()).yaml == ran.json


def test_a_request_may_be_yaml() -> None:
    """People keep them as such."""
    text = review("--make-review", "Gateway.edge.example.dev", "--to", "v1", "-f", "-", "-o", "yaml", stdin=GATEWAY).out
    answer = review("--review", "-f", "-", stdin=text)
    assert answer.json["response"]["convertedObjects"][0]["spec"]["hosts"] == ["shop.example.dev"]


def test_the_difference_to_a_golden_answer(tmp_path: Path) -> None:
    """Nothing and 0, or what differs and 1."""
    assert review("--review", "-f", REQUEST, "--golden", RESPONSE) == Ran(0, "", "")
    golden = tmp_path / "golden.json"
    golden.write_text(RESPONSE.read_text().replace('"host"', '"hostName"'))
    ran = review("--review", "-f", REQUEST, "--golden", golden)
    assert ran.code == 1
    assert [line.partition(":")[0] for line in ran.out.splitlines()] == [
        "+ /response/convertedObjects/0/spec/host",
        "- /response/convertedObjects/0/spec/hostName",
    ]


def test_a_failure_is_told() -> None:
    """The message is what the API server would show."""
    made = review("--make-review", "gateways.edge.example.dev", "--to", "v1", "-f", "-", stdin=GATEWAY).json
    made["request"]["objects"][0]["apiVersion"] = "edge.example.dev/v7"
    ran = review("--review", "-f", "-", stdin=json.dumps(made))
    assert ran.code == 1
    assert ran.json["response"]["result"]["status"] == "Failure"
    assert "has no version v7" in ran.err


def test_making_a_review(tmp_path: Path) -> None:
    """Of the objects of that kind alone, and the same bytes each time: golden files are compared."""
    (tmp_path / "a.yaml").write_text(f"{GATEWAY}---\nkind: ConfigMap\napiVersion: v1\n")
    (tmp_path / "b.yaml").write_text(f"apiVersion: v1\nkind: List\nitems:\n- kind: Gateway\n  apiVersion: {OLD}\n")
    ran = review("--make-review", "gateways.edge.example.dev", "--to", "v1beta1", "-f", tmp_path)
    request = ran.json["request"]
    assert request["desiredAPIVersion"] == "edge.example.dev/v1beta1"
    assert [item["kind"] for item in request["objects"]] == ["Gateway", "Gateway"]
    assert (
        review("--make-review", "Gateway.edge.example.dev", "--to", "edge.example.dev/v1beta1", "-f", tmp_path).out
        == ran.out
    )


@pytest.mark.parametrize(
    ("arguments", "stdin", "said"),
    [
        (["-f", "-"], "{}", "stdin: the body is no ConversionReview"),
        (["-f", "-"], "a: b: c\n", "stdin:1: no YAML"),
        (["-f", "-"], "a: 1\n---\nb: 1\n", "stdin: give one document that JSON can say"),
        (
            ["-f", "-", "--make-review", "widgets.example.dev", "--to", "v1"],
            GATEWAY,
            "--make-review: the registry converts Gateway",
        ),
        (
            ["-f", "-", "--make-review", "Gateway.edge.example.dev", "--to", "v3"],
            GATEWAY,
            "--to: Gateway.edge.example.dev has no version v3",
        ),
        (
            ["-f", "-", "--make-review", "Cache.edge.example.dev", "--to", "v3"],
            GATEWAY,
            "there is no Cache of edge.example.dev",
        ),
    ],
)
def test_refusals(arguments: list[str], stdin: str, said: str) -> None:
    """Exit code 2 and one sentence."""
    if "--make-review" not in arguments:
        arguments = ["--review", *arguments]
    assert review(*arguments, stdin=stdin).refusal.startswith(said)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--review", "-f", REQUEST, "-f", RESPONSE], "give one review"),
        (["--review", "-f", "-", "--to", "v1"], "--review answers a review"),
        (["--review", "-f", "-", "--make-review", "Gateway.edge.example.dev"], "--review answers a review"),
        (["--make-review", "Gateway.edge.example.dev", "-f", "-"], "Missing option '--to'"),
        (["--make-review", "Gateway.edge.example.dev", "--to", "v1", "-f", "-", "--in-place"], "--make-review writes"),
        (["-f", "-", "--to", "v1", "--golden", RESPONSE], "--golden is the recorded response of a review"),
    ],
)
def test_wrong_use(arguments: list[str | Path], said: str) -> None:
    """A flag that has no effect on a review would be taken for one that had."""
    ran = review(*arguments)
    assert (ran.code, said in ran.err) == (2, True)


def test_as_a_process() -> None:
    """In a pipe: made here, answered there."""
    made = restow(
        "convert",
        "--make-review",
        "Gateway.edge.example.dev",
        "--to",
        "v1",
        "-f",
        "-",
        *REGISTRY,
        stdin=GATEWAY,
        cwd=ROOT,
    )
    answer = restow("convert", "--review", "-f", "-", *REGISTRY, stdin=made.out, cwd=ROOT)
    assert (answer.code, answer.err) == (0, "")
    assert answer.json["response"]["result"] == {"status": "Success"}
