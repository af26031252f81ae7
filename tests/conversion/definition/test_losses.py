"""The lossless report: what each kind of rule may lose, and what becomes of that."""

from __future__ import annotations

import pytest

from restow.conversion import Registry, rules
from restow.conversion.definition.losses import RuleLoss, rule_losses
from restow.conversion.rules.protocol import Loss

LOSSLESS, STASHED, DROPPED = Loss.LOSSLESS, Loss.STASHED, Loss.DROPPED
AS_IT_IS = {"up": lambda value: value, "down": lambda value: value}


def of(rule: rules.Rule) -> list[RuleLoss]:
    registry = Registry()
    registry.kind("a.dev", "A", hub="v2").spoke("v1")(lambda: [rule])
    return rule_losses(registry.freeze().kind("a.dev", "A"))


@pytest.mark.parametrize(
    ("rule", "up", "down"),
    [
        (rules.rename("a", "b"), LOSSLESS, LOSSLESS),
        (rules.move("a", "b.c"), LOSSLESS, LOSSLESS),
        (rules.enum("a", {"x": "X"}), LOSSLESS, LOSSLESS),
        (rules.enum("a", {"x": "X"}, down={"Y": "x"}), LOSSLESS, STASHED),
        (rules.wrap("a", "b[]"), LOSSLESS, STASHED),
        (rules.unwrap("a[]", "b"), STASHED, LOSSLESS),
        (rules.constant("a", 1), STASHED, LOSSLESS),
        (rules.constant(hub="a", value=1), LOSSLESS, STASHED),
        (rules.default("a", 1), STASHED, STASHED),
        (rules.stash("a"), STASHED, LOSSLESS),
        (rules.stash(hub="a"), LOSSLESS, STASHED),
        (rules.drop("a", acknowledge="old"), DROPPED, LOSSLESS),
        (rules.drop(hub="a", acknowledge="old"), LOSSLESS, DROPPED),
        (rules.waive(hub="a", acknowledge="old"), Loss.WAIVED, LOSSLESS),
        (rules.waive("a", acknowledge="old"), LOSSLESS, Loss.WAIVED),
        (rules.default("a", 1, omitted_in="hub", hides=False), STASHED, STASHED),
        (rules.pair("a", "b", **AS_IT_IS, forget=bool, acknowledge="old"), DROPPED, LOSSLESS),
        (rules.pair("a", "b", **AS_IT_IS), LOSSLESS, LOSSLESS),
        (rules.pair("a", "b", **AS_IT_IS, loses="both"), STASHED, STASHED),
    ],
)
def test_each_kind_of_rule(rule: rules.Rule, up: Loss, down: Loss) -> None:
    """A verdict that is too good hides a loss."""
    (found,) = of(rule)
    assert (found.up, found.down) == (up, down)
    assert found.reason == ("old" if {DROPPED, Loss.WAIVED} & {up, down} else "")


def test_rules_inside_of_others_have_their_whole_paths() -> None:
    """``title`` alone could be any field."""
    outer, inner, deepest = of(
        rules.each("spec.a", [rules.each_value("m", [rules.rename("x", "y")], hub="n")], hub="spec.b", hide=bool)
    )
    assert (outer.down, outer.title) == (STASHED, "each(.spec.a <-> .spec.b)")
    assert inner.title == "each_value(.spec.a[].m <-> .spec.b[].n)"
    assert deepest.paths == ((".spec.a[].m{}.x",), (".spec.b[].n{}.y",))
    assert (deepest.kind, deepest.version, deepest.hub) == ("A.a.dev", "v1", "v2")
    assert of(rules.stash(hub="w"))[0].title == "stash(.w)"
