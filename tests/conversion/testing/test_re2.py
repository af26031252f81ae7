"""RE2 patterns in Python: what Go matches, and nothing else."""

from __future__ import annotations

import re
import warnings

import pytest

from restow.conversion.testing.re2 import NotTranslatable, translate

#: pattern, texts that Go's regexp finds a match in, texts that it does not. Each was asked of Go 1.24.
CASES = [
    (r"^a$", ["a"], ["a\n", "\na", "ba"]),
    (r"(?m)^a$", ["a", "a\n", "b\na\nc"], ["ab"]),
    (r"^((?i)january|february)$", ["JANUARY", "february", "February"], ["march", "january "]),
    (r"^a(?i)b|c$", ["aB", "xC"], ["AB"]),
    (r"^(?i:k)l$", ["Kl", "\u212al"], ["KL"]),
    (r"^\d\w\s$", ["1a ", "1_\t"], ["\u0663a ", "1\u00e4 ", "1a\x0b"]),
    (r"^[[:alpha:]_-]+$", ["a_-Z"], ["1", "\u00e4"]),
    (r"^[^[:digit:]]$", ["a", "\n"], ["5"]),
    (r"^\pL\p{Nd}\P{L}$", ["a\u06631"], ["aaa"]),
    (r"^\Q.*\E$", [".*"], ["ab"]),
    (r"^a{,2}$", ["a{,2}"], ["", "aa"]),
    (r"^(?P<x>a)(?:b)$", ["ab"], ["ba"]),
    (r"^\x41\x{42}\103\z", ["ABC"], ["ABC\n"]),
    (r"^[]a]$", ["]", "a"], ["b"]),
    (r"^[a\]\-\\]+$", ["a]-\\"], ["b"]),
    (r"^.$", ["a", "\r"], ["\n", ""]),
    (r"(?s)^.$", ["\n"], ["ab"]),
    (r"^(?U)a+?$", ["aaa"], [""]),
    (
        r"^(\+|-)?(([0-9]+(\.[0-9]*)?)|(\.[0-9]+))(([KMGTPE]i)|[numkMGTPE]|([eE](\+|-)?[0-9]*))?$",
        ["1Gi", ".5"],
        ["1 Gi"],
    ),
    (r"a|", ["", "b"], []),
    (r"\bfoo\b", ["a foo", "\u00e4foo\u00e4"], ["afoo"]),
    (r"^[\w.-]+$", ["a.b-c"], ["\u00e9"]),
    (r"^[[a]$", ["[", "a"], ["]"]),
    (r"^(?i)[a-c]+$", ["aBC"], ["d"]),
    (r"^(?i)[^k]$", ["a"], ["K", "\u212a"]),
]


@pytest.mark.parametrize(("pattern", "matched", "refused"), CASES, ids=[each[0] for each in CASES])
def test_what_go_matches(pattern: str, matched: list[str], refused: list[str]) -> None:
    """A string that Python accepts and Go refuses makes a law fail that holds."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        compiled = re.compile(translate(pattern))
    assert [text for text in matched if not compiled.search(text)] == []
    assert [text for text in refused if compiled.search(text)] == []


@pytest.mark.parametrize(
    "pattern", [r"(?=a)", r"(a)\1", "a**", "(", ")", "[a", "a{2000}", r"\y", r"\p{Greek}", "*", "[b-a]"]
)
def test_what_cannot_be_translated(pattern: str) -> None:
    """Whatever Go refuses, or Python cannot say, is refused with a reason, not with a crash."""
    with pytest.raises(NotTranslatable):
        translate(pattern)
