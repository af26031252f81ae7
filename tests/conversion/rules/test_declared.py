"""Rules record what their author declared, so that they can be printed."""

from __future__ import annotations

from restow.conversion import rules


def test_a_rule_knows_its_constructor_and_the_arguments_that_were_given() -> None:
    """A rule would be printed with other arguments than its author gave, or with arguments that were left out."""
    inner = rules.rename("a", "b")
    rule = rules.each("spec.items", [inner], key="name")
    assert rule.name == "each"
    assert rule.arguments == {"spoke": "spec.items", "rules": [inner], "key": "name"}
    assert inner.arguments == {"spoke": "a", "hub": "b"}


def test_every_public_constructor_records_its_arguments() -> None:
    """A constructor without the decorator would make rules that cannot be printed."""
    constructors = [getattr(rules, name) for name in rules.__all__ if name != "Rule"]
    assert all(hasattr(constructor, "__wrapped__") for constructor in constructors)
