"""Versions and version ranges, parsed and ordered as Gardener does with Masterminds/semver. Pure.

An image's version is parsed leniently (``1``, ``1.2``, ``v1.2.3``, ``1.2.3-suffix``, ``18.04.2025``), a Kubernetes
version only as ``x.y.z``. The order is that of semver.org: build metadata does not count, a pre-release comes before
its release. ``1.2`` and ``1.2.0`` are two spellings of the same version.

A range is the value of an image's ``kubeletVersionConstraint``: comparisons with ``=  !=  >  <  >=  <=  ~  ^`` (also
``=>``, ``=<``, ``~>``), joined by blanks or commas (all must hold) and by ``||`` (one must hold); ``1.2 - 1.4`` is a
closed range; numbers may be omitted or be ``x``, ``X``, ``*``. A pre-release is admitted only if a comparison of its
group names one.

``packaging`` parses PEP 440 and refuses most of these versions; the ``semver`` package is strict where Gardener is
lenient. The range languages of npm and of Python's packages agree with this one in neither syntax nor meaning.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass, field

_LENIENT = re.compile(
    r"v?(\d{1,20})(?:\.(\d{1,20}))?(?:\.(\d{1,20}))?"
    r"(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?"
    r"(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?",
    flags=re.ASCII,
)
_KUBERNETES = re.compile(r"\d+\.\d+\.\d+", flags=re.ASCII)
_MOST_DIGITS = 20
_MAX_SEGMENT = 2**64 - 1  # the most that Gardener's library can hold; a larger number is no version


class InvalidVersion(ValueError):
    """An error: a string is not a version."""


@dataclass(frozen=True, slots=True, order=True)
class SemanticVersion:
    """A version, ordered; equal versions may be spelled differently.

    Attributes:
        major, minor, patch: its numbers; omitted ones are 0.
        prerelease: the dot-separated identifiers behind the first ``-``; empty for a release.
    """

    major: int = field(compare=False)
    minor: int = field(default=0, compare=False)
    patch: int = field(default=0, compare=False)
    prerelease: tuple[str, ...] = field(default=(), compare=False)
    _key: tuple[int, int, int, bool, tuple[tuple[bool, int, str], ...]] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        identifiers = tuple(
            (False, int(part), "") if _is_number(part) else (True, 0, part)  # numbers come before words
            for part in self.prerelease
        )
        key = (self.major, self.minor, self.patch, not self.prerelease, identifiers)
        object.__setattr__(self, "_key", key)  # computed once: versions are parsed once and compared often

    @property
    def line(self) -> tuple[int, int]:
        """The major and minor version, by which "per minor" rules group."""
        return self.major, self.minor

    @property
    def release(self) -> SemanticVersion:
        """The version without pre-release."""
        return SemanticVersion(self.major, self.minor, self.patch)

    def __str__(self) -> str:
        suffix = "-" + ".".join(self.prerelease) if self.prerelease else ""
        return f"{self.major}.{self.minor}.{self.patch}{suffix}"


def _is_number(part: str) -> bool:
    """Return whether an identifier compares as a number; one that Gardener's library cannot hold compares as a word."""
    return part.isdigit() and len(part) <= _MOST_DIGITS and int(part) <= _MAX_SEGMENT


@functools.lru_cache(maxsize=4096)  # profiles contain the same few hundred versions many times
def parse(text: str) -> SemanticVersion:
    """Parse a machine image's version, leniently.

    Raises:
        InvalidVersion: the text is not such a version.
    """
    match = _LENIENT.fullmatch(text)
    if match is None:
        raise InvalidVersion(f"{text!r} is no semantic version like 1.2.3")
    numbers = [int(part or 0) for part in match.groups()[:3]]
    identifiers = tuple(match[4].split(".")) if match[4] else ()
    if max(numbers) > _MAX_SEGMENT or any(part.isdigit() and part != "0" and part[0] == "0" for part in identifiers):
        raise InvalidVersion(f"{text!r} is no semantic version: a number in it is too large or has leading zeros")
    return SemanticVersion(numbers[0], numbers[1], numbers[2], identifiers)


def parse_kubernetes(text: str) -> SemanticVersion:
    """Parse a Kubernetes version: three numbers, no ``v``, no suffix.

    Raises:
        InvalidVersion: the text is not such a version.
    """
    if not _KUBERNETES.fullmatch(text):
        raise InvalidVersion(f"{text!r} is no Kubernetes version like 1.31.4: three numbers without prefix and suffix")
    return parse(text)


_OPERATOR = r"(=>|=<|>=|<=|!=|~>|=|>|<|~|\^)?"
_NUMBER = r"(\d+|[xX*])"
_VERSION = rf"v?{_NUMBER}(?:\.{_NUMBER})?(?:\.{_NUMBER})?(-[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?(?:\+[0-9A-Za-z.-]+)?"
_COMPARISON = re.compile(rf"\s*{_OPERATOR}\s*{_VERSION}\s*", flags=re.ASCII)
_SEPARATOR = re.compile(r"(?<=\s)|,\s*")
_HYPHEN = re.compile(rf"({_VERSION})\s+-\s+({_VERSION})", flags=re.ASCII)
_SPELLINGS = {"": "=", "=>": ">=", "=<": "<=", "~>": "~"}
_MAX_LENGTH = 512


class InvalidRange(ValueError):
    """An error: a string is not a range of versions."""


@dataclass(frozen=True, slots=True)
class _Comparison:
    operator: str
    bound: SemanticVersion
    given: int  # how many numbers of the bound are written; the others are 0 and match any number

    def admits(self, version: SemanticVersion) -> bool:
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
            case _:  # ^: the first number that is not 0 stays equal
                return version >= self.bound and _numbers(version, self._fixed) == _numbers(self.bound, self._fixed)

    @property
    def _fixed(self) -> int:
        numbers = _numbers(self.bound, self.given)
        return next((place for place, number in enumerate(numbers, start=1) if number), self.given)


def _numbers(version: SemanticVersion, count: int) -> tuple[int, ...]:
    return (version.major, version.minor, version.patch)[:count]


@dataclass(frozen=True, slots=True)
class VersionRange:
    """A range of versions: groups of comparisons; in one group all of them have to hold."""

    groups: tuple[tuple[_Comparison, ...], ...]

    def admits(self, version: SemanticVersion) -> bool:
        """Return whether the version is in the range."""
        return any(
            all(comparison.admits(version) for comparison in group)
            for group in self.groups
            if not version.prerelease or any(comparison.bound.prerelease for comparison in group)
        )


def parse_range(text: str) -> VersionRange:
    """Parse a range.

    Raises:
        InvalidRange: the text is not a range, or longer than 512 characters.
    """
    if len(text) > _MAX_LENGTH:
        raise InvalidRange(f"a range of versions may have {_MAX_LENGTH} characters at most")
    spelled_out = _HYPHEN.sub(lambda match: f">={match[1]}, <={match[6]}", text)
    return VersionRange(tuple(_parse_group(group) for group in spelled_out.split("||")))


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
