"""docs/rules.md: every rule of a file, written from the source that ``restow rules explain`` prints."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from restow.conversion.rulefiles import load
from restow.conversion.rulefiles.reference import EXAMPLES, example_of, explained, page, summary
from restow.conversion.rulefiles.vocabulary import vocabulary
from tests.docs.blocks import ROOT

PAGE = ROOT / "docs" / "rules.md"
PORTED = [name for examples in EXAMPLES.values() for name, example in examples.items() if example.port]


def test_the_page_is_what_its_source_says() -> None:
    """An author would read of another rule than the command explains. RESTOW_RENEW_GOLDEN=1 writes the page."""
    if os.environ.get("RESTOW_RENEW_GOLDEN"):
        PAGE.write_text(page(), encoding="utf-8")
    assert PAGE.read_text(encoding="utf-8") == page()


def test_every_rule_is_explained_once() -> None:
    """A new rule would be in the schema of files alone, and in no reference."""
    names = [name for examples in EXAMPLES.values() for name in examples]
    assert sorted(names) == sorted(vocabulary())


@pytest.mark.parametrize("name", vocabulary())
def test_an_example_converts_both_ways(name: str) -> None:
    """An author copies it, and trusts what both versions are said to show."""
    example = example_of(name)
    document: dict[str, Any] = {"apiVersion": "restow.dev/v1alpha1", "kind": "ConversionRules"}
    spokes = [{"version": "v1", "rules": yaml.safe_load(example.rule)}]
    document["spec"] = {"target": {"group": "example.dev", "kind": "Thing"}, "hub": "v2", "spokes": spokes}
    graph = load(yaml.safe_dump(document)).freeze()
    for source, target in ((("v1", example.spoke), ("v2", example.hub)), (("v2", example.hub), ("v1", example.spoke))):
        obj, expected = (
            {"apiVersion": f"example.dev/{v}", "kind": "Thing", **yaml.safe_load(t)} for v, t in (source, target)
        )
        assert graph.convert(obj, expected["apiVersion"]) == expected


@pytest.mark.parametrize("name", PORTED)
def test_a_use_is_that_of_a_project(name: str) -> None:
    """An invented use would not be what the project's own Go does, which the ports are compared with."""
    example = example_of(name)
    kind = example.port.split(", ")[1]
    (wanted,) = yaml.safe_load(example.ported)
    assert wanted in [rule for found, rule in ported() if found == kind]


def ported() -> Iterator[tuple[str, Any]]:
    """The rules of all ports, each with its kind."""
    for file in (ROOT / "tests" / "peers").glob("*.yaml"):
        for document in yaml.safe_load_all(file.read_text(encoding="utf-8")):
            for spoke in document["spec"]["spokes"]:
                yield from ((document["spec"]["target"]["kind"], rule) for rule in all_of(spoke["rules"]))


def all_of(rules: list[Any]) -> Iterator[Any]:
    """Rules, and those inside of them."""
    for rule in rules:
        yield rule
        (arguments,) = rule.values()
        yield from all_of(arguments.get("rules", []))


@pytest.mark.parametrize("name", vocabulary())
def test_nothing_is_said_in_python(name: str) -> None:
    """An author of YAML would have to translate calls and keyword arguments."""
    said = explained(name).partition("PARAMETERS:")
    for text in (summary(name), said[2]):
        assert not any(f"{each}(" in text for each in vocabulary())
        assert not any(f"{parameter}=" in text for each in vocabulary().values() for parameter in each.parameters)
    assert "True" not in said[2] and "False" not in said[2]
