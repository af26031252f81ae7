"""Everybody applies what they own, as their tools do all day: nothing changes unless an owner was lost. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from demo import cast
from demo.answers import Answer
from demo.cast import Database
from demo.checks import Check
from demo.truth import World

__all__ = ["Apply", "applies", "no_conflicts", "nothing_written"]


@dataclass(frozen=True, slots=True)
class Apply:
    """One server-side apply."""

    database: Database
    manager: str
    manifest: Mapping[str, Any]
    status: bool = False


def applies(databases: Sequence[Database], version: str, storage: Mapping[int, int]) -> Iterator[Apply]:
    """Yield what every applying manager applies of these databases; ``storage`` names sizes that were changed since."""
    for each in databases:
        number = each.number
        manifest = cast.platform_manifest(each, version, storage=storage.get(number))
        yield Apply(each, cast.PLATFORM, manifest)
        if number >= cast.CREATED_FROM:
            continue
        if number in cast.BACKED_UP:
            yield Apply(each, cast.BACKUP, cast.backup_manifest(each, version))
        if number in cast.WATCHED:
            yield Apply(each, cast.CONTROLLER, cast.status_manifest(each, version), status=True)


def no_conflicts(when: str, what: str, wanted: Sequence[Apply], answers: Sequence[Answer]) -> Check:
    """Judge that no apply was refused."""
    pairs = zip(wanted, answers, strict=True)
    wrong = (f"{each.database.key}: {each.manager}: {answer.refusal}" for each, answer in pairs if answer.refusal)
    return Check(when, what, len(wanted), tuple(wrong))


def nothing_written(when: str, what: str, wanted: Sequence[Apply], before: World, now: World) -> Check:
    """Judge that applying what is owned already wrote nothing: what is stored is the same, byte for byte."""
    keys = sorted({each.database.key for each in wanted})
    wrong = (f"{key} was written" for key in keys if _digest(before, key) != _digest(now, key))
    return Check(when, what, len(keys), tuple(wrong))


def _digest(world: World, key: str) -> str:
    each = world.get(key)
    return each.digest if each else ""
