"""Translate the managedFields entries of a page of objects, with all of their conversions sent together."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import TypeAlias

from restow.migrator.model.converter import Answer, Converter, Json, Unconverted
from restow.migrator.model.report import CrdReport
from restow.migrator.ownership.conversion import Conversion
from restow.migrator.ownership.policy import EntryPolicies
from restow.migrator.ownership.translation import Translation, translate
from restow.migrator.requests.lister import Item
from restow.migrator.requests.wire import Meta

Work: TypeAlias = tuple[Meta, Json | None, Translation | None]
"""An object to finish: its listed metadata, its content if it was read, and its translation if it has one."""

_SLICE_S = 0.01
"""Seconds of work on objects before the writes in flight get a turn."""


class Translator:
    """Translates the entries of objects of one CRD.

    Args:
        converter: converts the objects.
        rules: the CRD's policies.
        report: counts the conversions.
    """

    def __init__(self, converter: Converter, rules: EntryPolicies, report: CrdReport) -> None:
        self._converter = converter
        self._rules = rules
        self._report = report

    async def works(self, items: Sequence[Item]) -> list[Work]:
        """Return objects with the translation of entries that have to be converted; such objects are whole.

        Raises:
            ConverterDown: nothing can be converted now.
        """
        if not self._rules.translates:
            return [(meta, live, None) for meta, live in items]
        whole = [(meta, live) for meta, live in items if live is not None]
        translations = await self.translate(whole)
        return [(*item, translation) for item, translation in zip(whole, translations, strict=True)]

    async def translate(self, objects: Sequence[tuple[Meta, Json]]) -> list[Translation]:
        """Return the translation of the entries of each object.

        Raises:
            ConverterDown: nothing can be converted now.
        """
        steps = [translate(meta.managed_fields, live, self._rules) for meta, live in objects]
        done: dict[int, Translation] = {}
        answers: dict[int, Sequence[Answer] | None] = dict.fromkeys(range(len(steps)))
        clock = asyncio.get_running_loop().time
        pause_at = clock() + _SLICE_S
        while answers:
            asked: dict[int, list[Conversion]] = {}
            for number, given in answers.items():
                try:
                    asked[number] = next(steps[number]) if given is None else steps[number].send(given)
                except StopIteration as end:
                    done[number] = end.value
                except RecursionError:
                    done[number] = Translation(failure=_TOO_DEEP)
                if clock() >= pause_at:
                    await asyncio.sleep(0)
                    pause_at = clock() + _SLICE_S
            found = iter(await self._convert([each for batch in asked.values() for each in batch]))
            answers = {number: [next(found) for _ in batch] for number, batch in asked.items()}
        return [done[number] for number in range(len(steps))]

    async def _convert(self, asked: Sequence[Conversion]) -> list[Answer]:
        """Request all conversions, those to one version together."""
        answers: list[Answer] = [_UNANSWERED] * len(asked)
        for version in dict.fromkeys(each.api_version for each in asked):
            places = [place for place, each in enumerate(asked) if each.api_version == version]
            self._report.conversions += len(places)
            found = await self._converter.convert([asked[place].obj for place in places], version)
            for place, answer in zip(places, found, strict=True):
                answers[place] = answer
        return answers


_UNANSWERED = Unconverted("it was not answered for", refused=False)

_TOO_DEEP = (
    "it is nested too deeply for its managedFields to be converted here; nothing was written. Make the object flatter, "
    "or delete it, then run again"
)
