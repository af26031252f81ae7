"""``restow explain``: the tables, the JSON, one field, and its exit codes."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.restow.commandline import restow
from tests.restow.offline import CONVERTED, CRDS, GATEWAY, REGISTRY, ROOT, Ran, run


def explain(*arguments: str | Path, to: str = "v1", text: str = GATEWAY) -> Ran:
    return run("explain", "-f", "-", "--to", to, *REGISTRY, *CRDS, *arguments, stdin=text)


def rows(text: str) -> list[list[str]]:
    return [line.split() for line in text.splitlines()]


def test_the_table() -> None:
    """A person sees where each field came from, and by which rule."""
    ran = explain()
    assert ran.code == 0
    told = rows(ran.out)
    assert told[0] == ["Gateway", "web/shop:", "v1alpha1", "->", "v1"]
    assert told[1] == ["FIELD", "VALUE", "HOW", "FROM", "RULE"]
    assert ["/kind", '"Gateway"', "copied", "-", "-"] in told
    assert [
        "/spec/hosts/0",
        '"shop.example.dev"',
        "computed",
        "/spec/host",
        *["wrap(spec.host", "<->", "spec.hosts)"],
    ] in told


def test_losses_stash_and_server_are_told() -> None:
    """What is not in the result is what people ask about."""
    text = CONVERTED.replace("certificate: c # keep", "minVersion: '1.3'\n  odd: 1")
    ran = explain(to="v1alpha1", text=text)
    told = rows(ran.out)
    assert ["/spec/listeners/0/protocol", "implied", "-", *["default(protocol", "<->", "protocol)"]] in [
        row[:6] for row in told
    ]
    assert ["/spec/tls/minVersion", "stashed", "v1", ".spec.tls.minVersion", "stash(spec.tls.minVersion)"] in told
    assert 'stash after: {"kept":{"v1":{".spec.tls.minVersion":{"gone":1,"is":"1.3"}}}}' in ran.out
    assert "The API server will drop .spec.odd: no fields of this version." in ran.out
    back = run("convert", "-f", "-", "--to", "v1alpha1", *REGISTRY, stdin=text).out
    assert "stash before: {" in explain(text=back).out


def test_why_one_field() -> None:
    """Also by the name it had before, and for what is gone."""
    (told,) = explain("--why", "/spec/tls", "-o", "json").json["objects"]
    assert [(leaf["pointer"], leaf["how"], leaf["from"]) for leaf in told["leaves"]] == [
        ("/spec/tls/certificate", "moved", ["/spec/certificate"])
    ]
    assert "stash" not in told
    for path in ("spec.listeners[0].timeoutSeconds", "/spec/listeners/0/timeoutSeconds"):
        (told,) = explain("--why", path, "-o", "yaml").yaml["objects"]
        assert [leaf["pointer"] for leaf in told["leaves"]] == ["/spec/listeners/0/timeout"]
    text = GATEWAY.replace("host:", "debug: true\n  host:")
    (told,) = explain("--why", '["spec"].debug', "-o", "json", text=text).json["objects"]
    assert told["fates"] == [
        {
            "pointer": "/spec/debug",
            "ending": "dropped",
            "rule": "drop(spec.debug)",
            "reason": "only read by the first prototype of the controller",
        }
    ]


def test_the_json() -> None:
    """Everything that the tables have, for programs."""
    (told,) = explain("-o", "json").json["objects"]
    assert told["object"] == "Gateway web/shop"
    assert told["route"] == ["v1alpha1", "v1"]
    assert {"pointer": "/spec/listeners/0/protocol", "value": "HTTP", "how": "default", "from": []}.items() <= next(
        leaf for leaf in told["leaves"] if leaf["pointer"].endswith("protocol")
    ).items()
    assert told["stash"] == {"before": None, "after": None}
    assert told["server"] == {"drops": [], "fillsIn": []}


BACKUPS = """\
apiVersion: restow.dev/v1alpha1
kind: ConversionRules
metadata: {name: backups.example.dev}
spec:
  target: {group: example.dev, kind: Backup}
  hub: v2
  spokes:
  - version: v1
    rules:
    - when: {field: spec.type, equals: S3, rules: [{rename: {spoke: spec.bucket, hub: spec.place}}]}
    - when: {field: spec.type, equals: Disk, rules: [{rename: {spoke: spec.path, hub: spec.place}}]}
"""


def test_the_field_that_decides_about_a_branch_is_shown(tmp_path: Path) -> None:
    """In a union, where a field comes from is half of the answer; the other half is which branch the object is in."""
    rules = tmp_path / "conversions.yaml"
    rules.write_text(BACKUPS)
    backup = "apiVersion: example.dev/v1\nkind: Backup\nspec: {type: S3, bucket: nightly}\n"
    arguments = ("explain", "-f", "-", "--to", "v2", "--rules", rules)
    told = rows(run(*arguments, stdin=backup).out)
    assert ["/spec/place", '"nightly"', "moved", "/spec/bucket", "(branch", "by", "/spec/type)"] in [
        row[:7] for row in told
    ]
    (asked,) = run(*arguments, "--why", "spec.type", "-o", "json", stdin=backup).json["objects"]
    place = next(leaf for leaf in asked["leaves"] if leaf["pointer"] == "/spec/place")
    assert (place["from"], place["branchBy"]) == (["/spec/bucket"], ["/spec/type"])


def test_several_objects_and_other_kinds() -> None:
    """Lists, other kinds and objects that are there already are no obstacle."""
    text = f"{GATEWAY}---\nkind: ConfigMap\napiVersion: v1\n---\n{CONVERTED}---\n{GATEWAY.replace('shop', 'two')}"
    ran = explain(text=text)
    assert [line for line in ran.out.splitlines() if "->" in line and line.startswith("Gateway")] == [
        "Gateway web/shop: v1alpha1 -> v1",
        "Gateway web/two: v1alpha1 -> v1",
    ]


def test_an_object_that_fails() -> None:
    """It is named, the others are explained, and the exit code says so."""
    ran = explain(text=f"{GATEWAY}---\nkind: Gateway\napiVersion: edge.example.dev/v7\n")
    assert ran.code == 1
    assert "Gateway web/shop" in ran.out
    assert "stdin:14: Gateway without a name cannot be converted to edge.example.dev/v1" in ran.err


@pytest.mark.parametrize(
    ("arguments", "text", "said"),
    [
        ((), "kind: ConfigMap\napiVersion: v1\n", "there is nothing to convert to v1 in stdin"),
        ((), "a: b: c\n", "stdin:1: no YAML: mapping values are not allowed in this context"),
        ((), "a: 1\na: 2\n", "stdin: the document has what JSON cannot say (line 2: the key a a second time)"),
        (("--why", "spec.nothing"), GATEWAY, "--why spec.nothing: there is no such field"),
    ],
)
def test_refusals(arguments: tuple[str, ...], text: str, said: str) -> None:
    """Exit code 2 and one sentence."""
    assert explain(*arguments, text=text).refusal.startswith(said)


def test_wrong_use() -> None:
    """A path that cannot be read is told at once."""
    ran = explain("--why", "spec..x")
    assert (ran.code, ran.out) == (2, "")
    assert "takes a JSON pointer (/spec/ports/0) or a path (spec.ports[0])" in ran.err


def test_as_a_process() -> None:
    """No colours and no broken lines in a pipe."""
    ran = restow("explain", "-f", "-", "--to", "v1", *REGISTRY, "--why", "spec.tls", stdin=GATEWAY, cwd=ROOT)
    assert ran.code == 0
    assert ran.rows[1:] == [
        ["FIELD", "VALUE", "HOW", "FROM", "RULE"],
        [
            "/spec/tls/certificate",
            '"c"',
            "moved",
            "/spec/certificate",
            "move(spec.certificate <-> spec.tls.certificate)",
        ],
    ]
