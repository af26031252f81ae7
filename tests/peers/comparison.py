"""Compares restow's conversions of one kind with those of its project: converted, there and back, and edited between.

Each object is drawn by a seed of its own, which a failure names. The laws of restow's own side are strict: a round trip
is the identity to the byte, and an edit is read back as it was written. Of the oracle's side the differences are
compared with the table, and what its own round trips lose is counted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from random import Random
from typing import Any

from restow.conversion.compile.graph import Graph, KindGraph
from restow.conversion.model.errors import ObjectError
from restow.conversion.model.values import ABSENT, Json, same
from restow.crds import Crd, Schema
from restow.crds.paths import ROOT
from tests.peers.differences import Difference, Entry, Phase, Table, differences, significant
from tests.peers.edits import Step, edit_of, item_keys, replaced
from tests.peers.objects import Generator
from tests.peers.oracle import Answer, Oracle

__all__ = ["Comparison", "Findings", "smallest"]


@dataclass
class Findings:
    """What the comparison of many objects gave.

    Attributes:
        objects: how many were generated.
        equal: for how many the two conversions said the same.
        alike: for how many more they said the same, spelled otherwise.
        errors: for how many the oracle returned an error.
        panics: for how many it panicked.
        lossy: of how many the oracle's own round trip lost something.
        explained: how often each row of the table was used.
        unexplained: differences without a row, with the object that each was first found for, by its label.
        broken: laws that restow's own side broke, with the object, by a sentence.
    """

    objects: int = 0
    equal: int = 0
    alike: int = 0
    errors: int = 0
    panics: int = 0
    lossy: int = 0
    explained: Counter[Entry] = field(default_factory=Counter)
    unexplained: dict[str, tuple[str, Difference, Json]] = field(default_factory=dict)
    counts: Counter[str] = field(default_factory=Counter)
    broken: dict[str, tuple[str, Json]] = field(default_factory=dict)


@dataclass
class Comparison:
    """The comparison of one kind.

    Attributes:
        graph: restow's conversions.
        crd: the kind's CRD.
        versions: the two versions, the hub first.
        choices: values of fields whose schema does not tell them, by version and path.
        stashes: annotations in which the project keeps what a version cannot say.
        table: the explained differences.
    """

    graph: Graph
    crd: Crd
    versions: tuple[str, str]
    choices: Mapping[str, Mapping[str, Sequence[Any]]]
    stashes: Sequence[str]
    table: Table

    @property
    def kind(self) -> KindGraph:
        """The compiled conversions of the kind."""
        return self.graph.kind(self.crd.group, self.crd.kind)

    @cached_property
    def item_keys(self) -> frozenset[str]:
        """The paths of the fields by which the rules find the items of lists, in both versions."""
        return frozenset(item_keys(self.kind.spokes[self.versions[1]].rules, ROOT))

    def run(self, oracle: Oracle, seeds: range) -> Findings:
        """Compare one object of each version for each seed."""
        findings = Findings()
        for seed in seeds:
            for source, target in (self.versions, self.versions[::-1]):
                name = f"{self.crd.kind} {source} {seed}"
                random = Random(name)
                obj = self.generator(source).object(random)
                findings.objects += 1
                self._compare(oracle, findings, name, obj, target, random)
        return findings

    def generator(self, version: str) -> Generator:
        """Return the generator of objects of a version."""
        return Generator(self.schema(version), self.api(version), self.crd.kind, self.choices.get(version, {}))

    def schema(self, version: str) -> Schema:
        """Return the schema of a version."""
        known = self.crd.version(version)
        assert known is not None
        return known.schema

    def api(self, version: str) -> str:
        """Return the apiVersion of a version."""
        return f"{self.crd.group}/{version}"

    def _compare(self, oracle: Oracle, findings: Findings, name: str, obj: Json, target: str, random: Random) -> None:
        try:
            self._compare_one(oracle, findings, name, obj, target, random)
        except ObjectError as error:
            findings.broken.setdefault(f"restow fails: {error}", (name, obj))

    def _compare_one(
        self, oracle: Oracle, findings: Findings, name: str, obj: Json, target: str, random: Random
    ) -> None:
        source = obj["apiVersion"].rpartition("/")[2]
        shown = self.graph.convert(obj, self.api(target))
        self._check_round_trip(findings, name, obj, shown)
        answer = oracle.convert(obj, self.api(target))
        found = list(self.differences("conversion", answer, shown, target))
        self._count(findings, name, obj, found)
        findings.equal += not found
        findings.alike += bool(found) and all(self._is_spelling(each) for each in found)
        findings.errors += bool(answer.error)
        findings.panics += bool(answer.panic)
        edit = self._edit(random, answer.object, shown, target)
        if edit is not None:
            self._check_edit(findings, name, obj, shown, edit(shown))
        if answer.object is None:
            return
        changed = self._changes(oracle, obj, answer.object)
        lost = frozenset(each.at for each in changed)
        findings.lossy += any(not self._is_spelling(each) for each in changed)
        if edit is not None:
            ours = self.graph.convert(edit(shown), obj["apiVersion"])
            theirs = oracle.convert(edit(answer.object), obj["apiVersion"])
            self._count(findings, name, obj, list(self.differences("edit", theirs, ours, source, lost)))

    def differences(
        self, phase: Phase, go: Answer, restow: Json, target: str, lost: frozenset[str] = frozenset()
    ) -> Iterator[Difference]:
        """Yield what differs between an oracle's answer and restow's object.

        ``lost`` are the places that Go changes there and back.
        """
        if go.object is None:
            yield Difference(self.crd.kind, phase, target, ROOT, "restow", go.error or go.panic, restow)
            return
        left, right = (significant(each, (*self.stashes, self.kind.stash_key)) for each in (go.object, restow))
        for at, who, one, other, quantity in differences(left, right, self.schema(target)):
            yield Difference(self.crd.kind, phase, target, at, who, one, other, at in lost, quantity)

    def _is_spelling(self, found: Difference) -> bool:
        entry = self.table.entry(found)
        return entry is not None and entry.spelling

    def _edit(self, random: Random, go: Json | None, restow: Json, version: str) -> Callable[[Json], Json] | None:
        """Return an edit of one field that both sides show, the same for both."""
        ours = significant(restow, (self.kind.stash_key,))
        theirs = ours if go is None else significant(go, self.stashes)
        return edit_of(random, theirs, ours, self.generator(version), self.item_keys)

    def _count(self, findings: Findings, name: str, obj: Json, found: list[Difference]) -> None:
        for each in found:
            entry = self.table.entry(each)
            if entry is None:
                findings.unexplained.setdefault(each.label, (name, each, obj))
                findings.counts[each.label] += 1
            else:
                findings.explained[entry] += 1

    def _changes(self, oracle: Oracle, obj: Json, converted: Json) -> list[Difference]:
        """Return what the oracle's own round trip changes in an object."""
        source = obj["apiVersion"].rpartition("/")[2]
        back = oracle.convert(converted, obj["apiVersion"])
        return list(self.differences("conversion", back, obj, source))

    def _check_round_trip(self, findings: Findings, name: str, obj: Json, shown: Json) -> None:
        back = self.graph.convert(shown, obj["apiVersion"])
        if not same(back, obj):
            at = next(iter(differences(obj, back, None)), (ROOT,))
            findings.broken.setdefault(f"restow's round trip over {shown['apiVersion']} changes {at[0]}", (name, obj))

    def _check_edit(self, findings: Findings, name: str, obj: Json, shown: Json, edited: Json) -> None:
        """Check that an edit is read back as it was written, and changes nothing else of what is stored."""
        stored = self.graph.convert(edited, obj["apiVersion"])
        read = self.graph.convert(stored, edited["apiVersion"])
        for place in _changed(*(_without(each, self.kind.stash_key) for each in (edited, read))):
            broken = f"an edit at {edited['apiVersion']} of {_shown(place)} is not read back"
            findings.broken.setdefault(broken, (name, obj))
        # What the edit touches in the stored version, as far as it can be told without the stash.
        plain = (self.graph.convert(_without(each, self.kind.stash_key), obj["apiVersion"]) for each in (shown, edited))
        touched = list(_changed(*plain))
        if any(isinstance(_at(shown, place), dict) for place in _changed(shown, edited)):
            touched += [place[:-1] for place in touched]  # what an object hides goes with the object
        source = obj["apiVersion"].rpartition("/")[2]
        found = [
            Difference(self.crd.kind, "elsewhere", source, _shown(place), "restow", ABSENT, ABSENT)
            for place in _changed(*(_without(each, self.kind.stash_key) for each in (obj, stored)))
            if not any(place[: len(each)] == each[: len(place)] for each in touched)
        ]
        self._count(findings, name, obj, found)


def _changed(before: Any, after: Any, place: tuple[Step, ...] = ()) -> Iterator[tuple[Step, ...]]:
    """Yield the places that differ: fields, items of lists of the same length, and lists of another length."""
    if isinstance(before, dict) and isinstance(after, dict):
        for name in sorted({*before, *after}):
            yield from _changed(before.get(name, ABSENT), after.get(name, ABSENT), (*place, name))
    elif isinstance(before, list) and isinstance(after, list) and len(before) == len(after):
        for index, (one, other) in enumerate(zip(before, after, strict=True)):
            yield from _changed(one, other, (*place, index))
    elif not same(before, after):
        yield place


def _at(value: Any, place: tuple[Step, ...]) -> Any:
    for step in place:
        value = value[step] if isinstance(value, list) or step in value else ABSENT
    return value


def _shown(place: tuple[Step, ...]) -> str:
    return ".".join("[]" if isinstance(step, int) else step for step in ("", *place)).replace(".[]", "[]")


def _without(obj: Json, annotation: str) -> Json:
    metadata = obj["metadata"]
    annotations = {name: text for name, text in metadata.get("annotations", {}).items() if name != annotation}
    rest = {name: value for name, value in metadata.items() if name != "annotations"}
    return {**obj, "metadata": {**rest, **({"annotations": annotations} if annotations else {})}}


def smallest(obj: Json, still: Callable[[Json], bool]) -> Json:
    """Return a small part of an object for which ``still`` holds, by leaving out what is not needed."""
    left = 400
    changed = True
    while changed and left > 0:
        changed = False
        for place in sorted(_all_places(obj), key=len):
            left -= 1
            try:
                part = replaced(obj, place, ABSENT)
            except (KeyError, IndexError):
                continue
            if left > 0 and still(part):
                obj, changed = part, True
                break
    return obj


def _all_places(value: Any, steps: tuple[Step, ...] = ()) -> Iterator[tuple[Step, ...]]:
    children: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for step, child in children:
        if steps or step not in ("apiVersion", "kind", "metadata"):
            yield (*steps, step)
            yield from _all_places(child, (*steps, step))
