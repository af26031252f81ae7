"""Shortcuts of standard rules (``Standard.quick``): they give what the functions give, and only what comes back."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from restow.conversion import ABSENT, Registry, rules
from restow.conversion.model.values import same
from restow.conversion.rules.known import Inline, Remembered, Shortcut
from restow.conversion.rules.lens import Lens
from restow.conversion.rules.protocol import Rule
from restow.conversion.rules.sides import Direction
from tests.conversion.rules.standardkinds import CASES

GROUP, KIND = "shortcuts.example.dev", "Thing"
DIRECTIONS: tuple[Direction, Direction] = ("up", "down")
FURTHER = {
    "a size in thousandths": rules.quantity("a", unit="m"),
    "a size in kilobytes": rules.quantity("a", unit="k", text="hub"),
    "a size with an exponent": rules.quantity("a", format="exponent"),
    "a duration in hours": rules.duration("a", unit="h", text="hub"),
    "a third": rules.scale("a", factor="2/3"),
    "a text or a number": rules.cast("a", spoke_type="int-or-string", hub_type="string"),
    "a text as a boolean": rules.cast("a", spoke_type="string", hub_type="boolean"),
    "a text as a number": rules.cast("a", spoke_type="string", hub_type="number"),
}


def _lenses() -> dict[str, Lens]:
    """Return every rule that has shortcuts, by its name."""
    found = {name: case.rule() for name, case in CASES.items()} | FURTHER
    return {name: rule for name, rule in found.items() if isinstance(rule, Lens) and _shortcuts(rule)}


def _shortcuts(lens: Lens) -> dict[Direction, Shortcut]:
    return {} if lens.standard is None else dict(lens.standard.quick)


def _given(shortcut: Shortcut, value: Any) -> Any:
    """Return what the generated code gives for a value."""
    if not isinstance(shortcut, Inline):
        return shortcut(value)
    names = {"VALUE": value}
    return eval(shortcut.code, names) if eval(shortcut.when, names) else ABSENT


scalars = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.integers(-2000, 20_000),
    st.integers(-9, 9).map(lambda number: 1024**5 * number),
    st.floats(allow_nan=False, allow_infinity=False),
    st.integers(-2000, 20_000).map(float),
)
texts = st.one_of(
    st.text(max_size=5),
    st.integers(-2000, 2000).map(str),
    st.from_regex(r"[+-]?[0-9]{0,3}(\.[0-9]{1,3})?(Ki|Mi|Gi|k|M|m|e3|h|m|s|ms|h5m|m0s|h0m1s)?", fullmatch=True),
    st.sampled_from(
        ["true", "false", "True", "1", "0", "00", "-0", "٣", "1_000", " 1", "", "9" * 40, "${A}", "{{ a }}"]
    ),
    st.lists(st.sampled_from(["a", "b", "", "$(A)", "a,b"]), max_size=4).map(",".join),
)
values = st.recursive(
    scalars | texts,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["app", "application", "name", "key", "a"]), inner, max_size=3)
    ),
    max_leaves=6,
)


@pytest.mark.parametrize("name", sorted(_lenses()))
def test_a_shortcut_gives_what_the_functions_give_and_the_inverse_takes_back(name: str) -> None:
    """With a shortcut no inverse is asked: what it gives wrongly would be lost without a trace."""
    lens = _lenses()[name]

    @given(value=values)
    @example(value=True)
    @example(value=1.0)
    @example(value=10**18)
    @example(value=2**63 - 1)
    @example(value=2**63)
    @example(value=-(2**63))
    @example(value=-(2**63) - 1)
    @example(value="1" * 18)
    def check(value: Any) -> None:
        for direction, shortcut in _shortcuts(lens).items():
            forward, inverse = (lens.up, lens.down) if direction == "up" else (lens.down, lens.up)
            for _ in range(2):  # the second time from the memory
                found = _given(shortcut, value)
                if found is not ABSENT:
                    assert same(found, forward(value)), (direction, value)
                    assert same(inverse(found), value), (direction, value)

    check()


def _converted(rule: Rule, value: Any) -> Any:
    registry = Registry()
    registry.kind(GROUP, KIND, hub="v2").spoke("v1")(lambda: [rule])
    graph = registry.freeze()
    thing = {"apiVersion": f"{GROUP}/v1", "kind": KIND, "metadata": {"name": "a"}, "a": value}
    return [graph.convert(thing, f"{GROUP}/v2")["a"] for _ in range(2)]


def test_the_memory_is_bounded() -> None:
    """Texts that never come again, or long ones, would fill the memory of a webhook that runs for months."""
    (remembered,) = [
        shortcut for shortcut in _shortcuts(rules.quantity("a")).values() if isinstance(shortcut, Remembered)
    ]
    for number in range(1, 5000):
        remembered(f"{number}k")
    assert 0 < len(remembered.known) <= 1024
    quick_split = next(each for each in _shortcuts(rules.split("a")).values() if isinstance(each, Remembered))
    assert quick_split("a," * 5000) != ABSENT
    assert not quick_split.known


def test_two_objects_never_share_a_remembered_list() -> None:
    """A caller who changes a converted object would change all that are converted after it."""
    first, second = _converted(rules.split("a"), "x,y")
    assert first == second == ["x", "y"]
    first.append("z")
    assert second == ["x", "y"]
    assert _converted(rules.split("a"), "x,y")[0] == ["x", "y"]


def test_what_is_remembered_for_one_rule_is_not_another_rules() -> None:
    """Two rules give different numbers for one text."""
    assert _converted(rules.quantity("a", unit="Mi"), "2Gi")[1] == 2048
    assert _converted(rules.quantity("a", unit="Ki"), "2Gi")[1] == 2048 * 1024
    assert _converted(rules.cast("a", spoke_type="string", hub_type="integer"), "7")[1] == 7
    assert _converted(rules.cast("a", spoke_type="string", hub_type="int-or-string"), "x")[1] == "x"
