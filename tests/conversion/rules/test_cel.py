"""CEL expressions as functions: what they get and give, what stops them, and what they are refused for."""

from __future__ import annotations

import re
import subprocess
import sys
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from restow.conversion import ABSENT, DefinitionError, ObjectError, Registry, rules
from restow.conversion.model.errors import ValueBeyondLimits
from restow.conversion.rules.cel import CelFunction

#: Each level doubles a text: one KiB becomes a GiB.
DOUBLING = "cel.bind(a0, self, " + "".join(f"cel.bind(a{n + 1}, a{n}+a{n}, " for n in range(20)) + "a20" + ")" * 21


def evaluated(text: str, *values: Any) -> Any:
    """The value of an expression over ``self`` and reads."""
    function = CelFunction(text, ("self",))
    assert function.problem() == ""
    return function(*values)


@pytest.mark.parametrize(
    ("text", "values", "expected"),
    [
        ("self + 1", (1,), 2),
        ("string(self) + 's'", (90,), "90s"),
        ("int(self.split(':')[1])", ("host:80",), 80),
        ("self.?port.orValue(80)", ({},), 80),
        ("has(self.port) ? self.port : absent", ({},), ABSENT),
        ("{'a': self.?x.orValue(absent), 'b': 1}", ({},), {"b": 1}),
        ("[1, absent, 2]", (None,), [1, 2]),
        ("self == null", (None,), True),
        ("reads[0] + self", ("x", "prefix-"), "prefix-x"),
        ("reads[0] == null", ("x", ABSENT), True),
        ("self.map(key, key).sort()", ({"b": 1, "a": 2, "c": 3},), ["a", "b", "c"]),
        ("double(self) / 2.0", (3,), 1.5),
        ("double(self) / 2.0", (4,), 2),
        ("self", (2**63 - 1,), 2**63 - 1),
        ("self.replace('a', 'b').upperAscii()", ("aé",), "Bé"),
        ("self.split('')", ("ab",), ["a", "b"]),
        ("self.split(',', 2)", ("a,b,c",), ["a", "b,c"]),
        ("self.substring(1, 3).reverse()", ("abcd",), "cb"),
        ("self.charAt(2)", ("ab",), ""),
        ("self.lastIndexOf('a')", ("aba",), 2),
        ("[self, 'x'].join('-')", ("a",), "a-x"),
        ("self.matches('(?i)^a+$')", ("AAA",), True),
        ("cel.bind(parts, self.split(':'), parts[1] + parts[0])", ("a:b",), "ba"),
        ("lists.range(size(self)).map(i, self[i] + string(i))", (["a", "b"],), ["a0", "b1"]),
    ],
)
def test_an_expression_gives_json(text: str, values: tuple[Any, ...], expected: Any) -> None:
    """A rule in CEL would give another value than its author wrote, or something that JSON does not have."""
    found = evaluated(text, *values)
    assert found == expected
    assert type(found) is type(expected)


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("now()", "undeclared reference to `now` at column 4"),
        ("self ==", "Syntax error"),
        ("selff + 1", "undeclared reference to `selff`"),
        ("1 + 'a'", "found no matching overload for `_+_`"),
        ("self.?port", "gives an optional value: write .orValue(absent) behind it"),
        ("self.foo(1)", "undeclared reference to `foo`"),
        (r"'a\u0000b'", "has U+0000: leave it out"),
        (r"self.matches('[\x00-\x1f]')", "has U+0000: leave it out"),
        (r"self + b'\\\000'", "has U+0000: leave it out"),
    ],
)
def test_a_bad_expression_is_refused_before_use(text: str, problem: str) -> None:
    """An expression that can never work would be found by the first request of a client."""
    assert problem in CelFunction(text, ("self",)).problem()


@pytest.mark.parametrize(
    ("text", "value", "reason"),
    [
        ("int(self)", "secret", "cannot convert string to int"),
        ("self.a", {"secret": 1}, "Key not found in map"),
        ("self + 1.5", 1, "No matching overloads found"),
        ("1 / self", 0, "divide by zero"),
        ("timestamp('2020-01-01T00:00:00Z')", 1, "gives a datetime"),
        ("b'secret'", 1, "gives a bytearray"),
        ("{1: 2}", 1, "gives a dict"),
        ("self.sort()", ["a", 1], "only texts, or only numbers, can be sorted"),
    ],
)
def test_an_evaluation_that_fails_shows_no_value(text: str, value: Any, reason: str) -> None:
    """A failing expression would put a value of a client's object into a log, or fail without a reason."""
    with pytest.raises(ObjectError, match=reason) as raised:
        evaluated(text, value)
    assert "secret" not in str(raised.value).replace(repr(text), "")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("self.map(a, self.map(b, self.map(c, a)))", [*range(100)]),
        ("self.names.map(name, self.prefix + name)", {"prefix": "p" * 100_000, "names": ["n"] * 9_000}),
        ("self.replace('a', self)", "a" * 100_000),
        ("lists.range(20000).size()", "a"),
        ("lists.range(10000).map(i, self + 'a')", "a" * 10_000),
        ("self.split('').join(self)", "a" * 10_000),
        ("self.split('')", "a" * 200_000),
        ("self.split(',').map(a, self.split(',').map(b, self))", ",".join(["a" * 200] * 90)),
        (DOUBLING, "a" * 1024),
        ("self.matches('((a{1,100}){1,10})b')", "a" * 100_000),
        ("self.matches(self)", "(a{1,100}){1,10}" * 1_000),
    ],
)
def test_the_cost_of_an_evaluation_is_bounded(text: str, value: Any) -> None:
    """One object of a client would take all memory or time of the webhook, or fail every list of its kind."""
    with pytest.raises(ValueBeyondLimits):
        evaluated(text, value)


TEXTS_OF_A_LIST = [f"item{number}" for number in range(500)]
PAIRS = [{"name": f"n{number}", "value": f"v{number}", "ports": [1, 2]} for number in range(500)]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("self.map(x, x.trim()).join(',')", TEXTS_OF_A_LIST),
        ("self.map(k, k + '=' + self[k]).sort().join(',')", {each["name"]: each["value"] for each in PAIRS}),
        ("self.map(e, e.name + '=' + e.value).join(' ')", PAIRS),
        ("self.split(',').map(l, l.trim()).join(',')", ",".join(TEXTS_OF_A_LIST)),
        ("lists.range(self.size()).map(i, self[i] + '-' + string(i)).join(',')", TEXTS_OF_A_LIST[:100]),
        ("self.map(x, x.replace('_', '-'))", TEXTS_OF_A_LIST),
        ("self.filter(x, x.name != 'A').map(x, x.value)", PAIRS),
        ("self.map(x, x.ports.map(p, string(p)))", PAIRS),
        ("self.map(x, {'a': x.name, 'b': x.value, 'c': x.name + ':' + x.value})", PAIRS),
        ("self.all(x, x.matches('^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$'))", TEXTS_OF_A_LIST),
        ("self.filter(x, self.filter(y, y == x).size() == 1)", TEXTS_OF_A_LIST[:90]),
        ("cel.bind(p, '^[a-z]+$', self.matches(p))", "a" * 1024),
        ("self + '\"' + \"map(x, '+')\" // ', + map(x,", "a" * 100_000),
    ],
)
def test_ordinary_expressions_are_evaluated(text: str, value: Any) -> None:
    """A bound that is too low hides the values of honest clients in the stash, and nobody is told."""
    assert evaluated(text, value)


@pytest.mark.parametrize(
    "value", [2**63, -(2**63) - 1, [{"a": 2**70}], float("inf"), "a\0b", [{"a\0": 1}], [{"a": "\0"}]]
)
def test_a_value_that_the_language_lacks_is_told_apart_from_a_defect(value: Any) -> None:
    """One integer of a client would fail every list of the kind, and U+0000 cut a text, although the rule is right."""
    with pytest.raises(ValueBeyondLimits):
        evaluated("self", value)


@pytest.mark.parametrize(
    "pattern", ["[\\x00-\\x1f]", "^[^\\x00]*$", "[[:cntrl:]]", "\\pC", "[[:^ascii:]]", "a.b", "[\x01-\x1f]"]
)
def test_patterns_judge_every_control_character_as_it_is(pattern: str) -> None:
    """A rule that hides texts with control characters would show one, or the other way round.

    The library cuts a text at U+0000, so that one is refused rather than judged by another character.
    """
    for number in (*range(0xA0), 0xFDD0):
        text = f"a{chr(number)}b"
        for literal in (f"r'{pattern}'", "'" + pattern.replace("\\", "\\\\") + "'"):
            expression = f"self.matches({literal})"
            if number:
                expected = re.search(PYTHONS.get(pattern, pattern), text) is not None
                assert evaluated(expression, text) is expected, number
            else:
                with pytest.raises(ValueBeyondLimits, match="U\\+0000"):
                    evaluated(expression, text)


#: What Python's regular expressions lack.
PYTHONS = {"[[:cntrl:]]": r"[\x00-\x1f\x7f]", r"\pC": "[\0-\x1f\x7f-\x9f]", "[[:^ascii:]]": r"[^\x00-\x7f]"}

TEXTS = st.text(
    st.characters(exclude_categories=["Cs"], exclude_characters="\0") | st.sampled_from("\ufdd0\ufffe"), max_size=8
)
VALUES = st.recursive(
    TEXTS | st.booleans() | st.none() | st.integers(-(2**63), 2**63 - 1),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=8,
)


@given(VALUES)
def test_values_come_back_as_they_were(value: Any) -> None:
    """A character of a client would cut its text, or make two keys equal, which fails every list of the kind."""
    assert evaluated("self", value) == value
    assert evaluated("[self]", value) == [value]
    assert evaluated("{'a': self}", value) == {"a": value}
    assert evaluated("reads[0]", "", value) == value
    if isinstance(value, str):
        assert evaluated("self + ''", value) == value
        assert evaluated("size(self)", value) == len(value)
        assert evaluated("self + self == self + self && self.indexOf(self) == 0", value) is True
        assert evaluated("{self: 1}", value) == {value: 1}
    if isinstance(value, list | dict):
        mapped = evaluated("self.map(x, x)", value)
        assert (mapped == value) if isinstance(value, list) else (sorted(mapped) == sorted(value))


def test_an_object_in_a_result_has_one_order_in_every_process() -> None:
    """The same object would be stored with other bytes by each replica: CEL's maps have no order."""
    script = (
        "from restow.conversion.rules.cel import CelFunction\n"
        "print(list(CelFunction(\"{'b': self, 'a': 1, 'd': 2, 'c': {'z': 1, 'y': 2}}\", ('self',))(1)))"
    )
    found = {subprocess.run([sys.executable, "-c", script], capture_output=True, check=True).stdout for _ in range(3)}
    assert found == {b"['a', 'b', 'c', 'd']\n"}


def test_rules_convert_by_expressions() -> None:
    """An expression would be recorded, and not used, or not checked by its inverse."""
    registry = Registry()
    kind = registry.kind("example.dev", "Widget", hub="v2")
    kind.spoke("v1")(
        lambda: [
            rules.pair("spec.seconds", "spec.period", up="string(self) + 's'", down="int(self.replace('s', ''))"),
            rules.pair(
                ("spec.host", "spec.port"),
                "spec.address",
                up="self['spec.host'] + ':' + string(self['spec.port'])",
                down="{'spec.host': self.split(':')[0], 'spec.port': int(self.split(':')[1])}",
            ),
        ]
    )
    graph = registry.freeze()
    old = {"apiVersion": "example.dev/v1", "kind": "Widget", "spec": {"seconds": 90, "host": "h", "port": 80}}
    new = graph.convert(old, "example.dev/v2")
    assert new["spec"] == {"period": "90s", "address": "h:80"}
    assert graph.convert(new, "example.dev/v1") == old


def test_freezing_refuses_an_expression_with_its_name() -> None:
    """An author would have to search which expression of which rule is wrong."""
    registry = Registry()
    registry.kind("example.dev", "Widget", hub="v2").spoke("v1")(
        lambda: [rules.pair("spec.a", "spec.b", up="selff", down="self")]
    )
    with pytest.raises(
        DefinitionError, match=r"the CEL expression up= of pair\(spec.a <-> spec.b\) is wrong: undeclared"
    ):
        registry.freeze()
