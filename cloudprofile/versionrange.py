"""Ranges of versions, as an image's ``kubeletVersionConstraint`` writes them. Pure.

The language is that of Masterminds/semver, which Gardener reads it with: comparisons with ``=  !=  >  <  >=  <=  ~  ^``
(also ``=>``, ``=<``, ``~>``), joined by blanks or commas (all must hold) and by ``||`` (one must hold); ``1.2 - 1.4``
is a closed range; numbers may be left out or be ``x``, ``X``, ``*``. A pre-release is admitted only where a comparison
of its group names one. The range languages of npm and of Python's packages agree with it in neither syntax nor meaning.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from restow.cloudprofile.semver import InvalidVersion, Version, parse

__all__ = ["InvalidRange", "VersionRange", "parse_range"]

_OPERATOR = r"(=>|=<|>=|<=|!=|~>|=|>|<|~|\^)?"
_NUMBER = r"(\d+|[xX*])"
_VERSION = rf"v?{_NUMBER}(?:\.{_NUMBER})?(?:\.{_NUMBER})?(-[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?(?:\+[0-9A-Za-z.-]+)?"
_COMPARISON = re.compile(rf"\s*{_OPERATOR}\s*{_VERSION}\s*", flags=re.ASCII)
_SEPARATOR = re.compile(r"(?<=\s)|,\s*")
_HYPHEN = re.compile(rf"({_VERSION})\s+-\s+({_VERSION})", flags=re.ASCII)
_SPELLINGS = {"": "=", "=>": ">=", "=<": "<=", "~>": "~"}
_MAX_LENGTH = 512


class InvalidRange(ValueError):
    """A string is no range of versions."""


@dataclass(frozen=True, slots=True)
class _Comparison:
    operator: str
    bound: Version
    given: int  # how many numbers of the bound are written; the others are 0 and stand for any

    def admits(self, version: Version) -> bool:
        same = self.given == 0 or _numbers(version, self.given) == _numbers(self.bound, self.given)
        match self.operator:
            case "=":
                return same if self.given < 3 else version == self.bound
            case "!=":
                return not same if self.given < 3 else version != self.bound
            case ">":
                return version > self.bound and (self.given in {0, 3} or not same)
            case "<":
                return version < self.bound
            case ">=":
                return version >= self.bound
            case "<=":
                return version <= self.bound or (self.given < 3 and same)
            case "~":
                return version >= self.bound and _numbers(version, min(self.given, 2)) == _numbers(
                    self.bound, min(self.given, 2)
                )
            case _:  # ^: the first number that is not 0 stays
                return version >= self.bound and _numbers(version, self._fixed) == _numbers(self.bound, self._fixed)

    @property
    def _fixed(self) -> int:
        numbers = _numbers(self.bound, self.given)
        return next((place for place, number in enumerate(numbers, start=1) if number), self.given)


def _numbers(version: Version, count: int) -> tuple[int, ...]:
    return (version.major, version.minor, version.patch)[:count]


@dataclass(frozen=True, slots=True)
class VersionRange:
    """A range of versions: groups of comparisons, of which one has to hold wholly."""

    groups: tuple[tuple[_Comparison, ...], ...]

    def admits(self, version: Version) -> bool:
        """Whether the version is in the range."""
        return any(_group_admits(group, version) for group in self.groups)


def _group_admits(group: tuple[_Comparison, ...], version: Version) -> bool:
    if version.prerelease and not any(comparison.bound.prerelease for comparison in group):
        return False
    return all(comparison.admits(version) for comparison in group)


def parse_range(text: str) -> VersionRange:
    """Read a range.

    Raises:
        InvalidRange: a range of versions cannot be read.
    """
    if len(text) > _MAX_LENGTH:
        raise InvalidRange(f"a range of versions may have {_MAX_LENGTH} characters at most")
    return VersionRange(tuple(_parse_group(_spell_out_hyphens(group)) for group in text.split("||")))


def _spell_out_hyphens(group: str) -> str:
    return _HYPHEN.sub(lambda match: f">={match[1]}, <={match[6]}", group)


def _parse_group(text: str) -> tuple[_Comparison, ...]:
    comparisons = []
    position = 0
    while match := _COMPARISON.match(text, position):
        comparisons.append(_comparison(match, text))
        position = match.end()
        if position == len(text):
            return tuple(comparisons)
        separator = _SEPARATOR.match(text, position)
        if separator is None:
            break
        position = separator.end()
    raise InvalidRange(f"{text!r} is no range of versions like '>= 1.30, < 1.33'")


def _comparison(match: re.Match[str], text: str) -> _Comparison:
    operator, *numbers, prerelease = match.groups()
    written = []
    for number in numbers:
        if number is None or number in "xX*":
            break
        written.append(number)
    try:
        bound = parse(".".join([*written, "0", "0", "0"][:3]) + (prerelease or ""))
    except InvalidVersion as error:
        raise InvalidRange(f"{text!r} is no range of versions: {error}") from error
    return _Comparison(_SPELLINGS.get(operator or "", operator), bound, len(written))
