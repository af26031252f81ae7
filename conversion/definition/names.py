"""Reads the names of fields: their words, the unit of a number, and whether two names can mean the same.

Names show differences that schemas do not: ``timeoutMinutes`` and ``timeoutSeconds`` are both integers, but one is no
rename of the other.

Pure.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import SequenceMatcher
from fractions import Fraction
from typing import Final

_WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+")

#: Abbreviations of exactly one longer word; any other beginning of a word may be another word (port, portal).
_ABBREVIATIONS: Final = {
    "addr": "address",
    "anno": "annotations",
    "args": "arguments",
    "cert": "certificate",
    "certs": "certificates",
    "cfg": "config",
    "conf": "config",
    "config": "configuration",
    "desc": "description",
    "env": "environment",
    "img": "image",
    "max": "maximum",
    "min": "minimum",
    "msg": "message",
    "ns": "namespace",
    "num": "number",
    "ref": "reference",
    "refs": "references",
    "repo": "repository",
}


@dataclass(frozen=True, slots=True)
class Unit:
    """The unit of a number: its quantity, its size in the smallest unit of that quantity, and its symbol.

    ``is_vague``: the unit is used with two different sizes (MB).
    """

    measures: str
    size: Fraction
    symbol: str = ""
    is_vague: bool = False


def _units() -> dict[str, Unit]:
    found: dict[str, Unit] = {}
    times = (
        ("ns", Fraction(1, 10**9), "ns nanos nanosecond nanoseconds"),
        ("us", Fraction(1, 10**6), "us micros microsecond microseconds"),
        ("ms", Fraction(1, 1000), "ms millis millisecond milliseconds"),
        ("s", Fraction(1), "sec secs second seconds"),
        ("m", Fraction(60), "mins minute minutes"),
        ("h", Fraction(3600), "hr hrs hour hours"),
        ("d", Fraction(86400), "day days"),
    )
    for symbol, size, spellings in times:
        found |= {word: Unit("time", size, symbol) for word in spellings.split()}
    found |= {word: Unit("bytes", Fraction(1), "") for word in ("byte", "bytes")}
    for power, letter in enumerate("kmgtp", 1):
        binary = Unit("bytes", Fraction(1024**power), f"{letter.upper()}i")
        found |= dict.fromkeys((f"{letter}ib", f"{letter}i"), binary)
        found[f"{letter}b"] = Unit("bytes", Fraction(1000**power), "k" if power == 1 else letter.upper(), is_vague=True)
    for name, power in (("mebi", 2), ("gibi", 3)):
        found[f"{name}bytes"] = Unit("bytes", Fraction(1024**power), f"{name[0].upper()}i")
    found |= {word: Unit("cpu", Fraction(1), "") for word in ("cores", "cpus")}
    found |= {word: Unit("cpu", Fraction(1, 1000), "m") for word in ("millicores", "millicpu", "millicpus")}
    found |= {word: Unit("share", Fraction(1, 100)) for word in ("percent", "percentage")}
    found |= {word: Unit("share", Fraction(1)) for word in ("ratio", "fraction")}
    return found


_UNITS: Final = _units()

#: Words that give two names different meanings if only one name has them, or each has another one.
_OPPOSITES: Final = tuple(
    frozenset(each.split())
    for each in (
        "min minimum least",
        "max maximum most",
        "enable enabled enables",
        "disable disabled disables",
        "no not without never",
        "include included includes",
        "exclude excluded excludes except",
        "allow allowed allows",
        "deny denied forbid forbidden block blocked",
        "from source src",
        "to target destination dst",
        "start begin first",
        "end stop finish last",
        "before previous old",
        "after next new",
        "lower low",
        "upper high",
        "request requests",
        "limit limits",
        "read",
        "write",
        "internal private",
        "external public",
        "soft",
        "hard",
        "reason message",
        "domain domains",
        "group",
        "version",
        "id uid uuid",
        "namespace",
        "url uri",
        "secret",
        "key",
    )
)


def words(name: str) -> tuple[str, ...]:
    """Return the words of a camel-case name, in lower case."""
    return tuple(word.lower() for word in _WORDS.findall(name))


def without_unit(name: str) -> tuple[str, Unit | None]:
    """Return the name without the unit at its end, and the unit: ``timeoutSeconds`` is a ``timeout`` in seconds."""
    found = [*_WORDS.finditer(name)]
    for count in (2, 1):  # MiB is two words in camel case
        if len(found) > count - 1 and (unit := _UNITS.get(name[found[-count].start() :].lower())) is not None:
            base = name[: found[-count].start()]
            return (base.removesuffix("In")), unit
    return name, None


def singular(name: str) -> str:
    """Return a name in the singular, in lower case; irregular forms are not handled."""
    name = name.lower()
    if name.endswith("ies"):
        return f"{name[:-3]}y"
    if name.endswith(("ses", "xes", "ches", "shes")):
        return name[:-2]
    return name[:-1] if name.endswith("s") and not name.endswith("ss") else name


def are_one_name(left: str, right: str) -> bool:
    """Return whether two names are one name, spelled or abbreviated differently: ttl and timeToLive."""
    if means_another(left, right):
        return False
    ours, theirs = words(left), words(right)
    if left.lower() == right.lower() or "".join(ours) == "".join(theirs):
        return True
    if _initials(ours) == right.lower() or _initials(theirs) == left.lower():
        return True
    same_length = len(ours) == len(theirs)
    return same_length and all(_is_short_for(one, other) for one, other in zip(ours, theirs, strict=True))


def _is_short_for(one: str, other: str) -> bool:
    short, long = sorted((one, other), key=len)
    return short == long or _ABBREVIATIONS.get(short) == long


def _initials(parts: tuple[str, ...]) -> str:
    return "".join(word[0] for word in parts) if len(parts) > 1 else ""


def means_another(left: str, right: str) -> bool:
    """Return whether one of two names has a word that changes its meaning: another unit, an opposite."""
    if without_unit(left)[1] != without_unit(right)[1]:
        return True
    ours, theirs = frozenset(words(left)), frozenset(words(right))
    if left.lower() == right.lower() or "".join(words(left)) == "".join(words(right)):
        return False
    if _initials(words(left)) == right.lower() or _initials(words(right)) == left.lower():
        return False
    return any(bool(ours & opposite) != bool(theirs & opposite) for opposite in _OPPOSITES)


def likeness(left: str, right: str) -> float:
    """Return how alike two names are, from 0 to 1: by their letters, or because one abbreviates the other."""
    if left.lower() == right.lower():
        return 1.0
    if are_one_name(left, right):
        return 0.9
    ours, theirs = frozenset(words(left)), frozenset(words(right))
    if ours and theirs and (ours <= theirs or theirs <= ours):
        return 0.8
    return SequenceMatcher(None, left.lower(), right.lower()).ratio()
