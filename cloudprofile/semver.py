"""Versions of Kubernetes and of machine images, parsed and ordered as Gardener does. Pure.

Gardener reads versions with Masterminds/semver: an image's version leniently (``1``, ``1.2``, ``v1.2.3``,
``1.2.3-suffix``, ``18.04.2025``), a Kubernetes version only as ``x.y.z``. Order is that of semver.org: build metadata
does not count, a pre-release comes before its release. ``1.2`` and ``1.2.0`` are the same version, spelled twice.

``packaging`` reads PEP 440 and refuses most of these; the ``semver`` package is strict where Gardener is lenient.
"""

from __future__ import annotations

import functools
import re
from dataclasses import dataclass

__all__ = ["InvalidVersion", "Version", "parse", "parse_kubernetes"]

_LENIENT = re.compile(
    r"v?(\d{1,20})(?:\.(\d{1,20}))?(?:\.(\d{1,20}))?"
    r"(?:-([0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*))?"
    r"(?:\+[0-9A-Za-z-]+(?:\.[0-9A-Za-z-]+)*)?",
    flags=re.ASCII,
)
_KUBERNETES = re.compile(r"\d+\.\d+\.\d+", flags=re.ASCII)
_MAX_SEGMENT = 2**64 - 1  # what Gardener's library can hold; more is no version


class InvalidVersion(ValueError):
    """A string is no version."""


@functools.total_ordering
@dataclass(frozen=True, slots=True)
class Version:
    """A version, ordered; equal versions may be spelled differently.

    Attributes:
        major, minor, patch: its numbers; what is not written is 0.
        prerelease: the dot-separated identifiers behind the first ``-``; empty for a release.
    """

    major: int
    minor: int = 0
    patch: int = 0
    prerelease: tuple[str, ...] = ()

    @property
    def line(self) -> tuple[int, int]:
        """Major and minor version: what "per minor" means."""
        return self.major, self.minor

    @property
    def release(self) -> Version:
        """The version without pre-release."""
        return Version(self.major, self.minor, self.patch)

    def __lt__(self, other: object) -> bool:
        if not isinstance(other, Version):
            return NotImplemented
        return self._key < other._key

    @property
    def _key(self) -> tuple[int, int, int, bool, tuple[tuple[bool, int, str], ...]]:
        identifiers = tuple(
            (False, int(part), "") if part.isdigit() else (True, 0, part)  # numbers come before words
            for part in self.prerelease
        )
        return self.major, self.minor, self.patch, not self.prerelease, identifiers

    def __str__(self) -> str:
        suffix = "-" + ".".join(self.prerelease) if self.prerelease else ""
        return f"{self.major}.{self.minor}.{self.patch}{suffix}"


@functools.lru_cache(maxsize=4096)  # profiles name the same few hundred versions again and again
def parse(text: str) -> Version:
    """Read a machine image's version, leniently.

    Raises:
        InvalidVersion: a version cannot be read.
    """
    match = _LENIENT.fullmatch(text)
    if match is None:
        raise InvalidVersion(f"{text!r} is no semantic version like 1.2.3")
    numbers = [int(part or 0) for part in match.groups()[:3]]
    identifiers = tuple(match[4].split(".")) if match[4] else ()
    if max(numbers) > _MAX_SEGMENT or any(part.isdigit() and part != "0" and part[0] == "0" for part in identifiers):
        raise InvalidVersion(f"{text!r} is no semantic version: a number in it is too large or has leading zeros")
    return Version(numbers[0], numbers[1], numbers[2], identifiers)


def parse_kubernetes(text: str) -> Version:
    """Read a Kubernetes version: three numbers, no ``v``, no suffix.

    Raises:
        InvalidVersion: a version cannot be read.
    """
    if not _KUBERNETES.fullmatch(text):
        raise InvalidVersion(f"{text!r} is no Kubernetes version like 1.31.4: three numbers without prefix and suffix")
    return parse(text)
