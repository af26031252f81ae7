"""The laws of conversion, each a plain check of one object: ``Laws(graph.kind(…)).round_trip(obj, "v1beta1")``.

A broken law raises ``LawBroken`` with the finding. Hypothesis shrinks it to the smallest such object. A profiler
watches each conversion for calls that a pure function cannot make (clocks, randomness, files, environment), because
converting twice in the same second would not tell a clock from a constant.

The laws accept the differences that the rules declare (``allowances``).
"""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from restow.conversion.compile.graph import KindGraph
from restow.conversion.model.errors import RuleFailed
from restow.conversion.model.fieldpath import parse, pointer
from restow.conversion.model.values import Json, canonical, same
from restow.conversion.rules.protocol import Rule
from restow.conversion.rules.sides import Side
from restow.conversion.stash.annotation import parse_stash
from restow.conversion.testing.allowances import (
    emptied_lists,
    filled_empties,
    forgiven,
    has_hub_drops,
    has_joint,
    has_judgement,
    is_joint,
    made_empties,
    made_rule,
    remembered,
    undeclared_losses,
)
from restow.conversion.testing.findings import (
    Difference,
    RulePlace,
    compact,
    described,
    differences,
    empties,
    empty_places,
    fields,
    responsible,
    shown_steps,
    travelled,
)
from restow.conversion.testing.functions import impure_calls
from restow.conversion.testing.itemedits import item_edits
from restow.conversion.testing.scalars import out_of_bounds
from restow.crds import pruned_paths


class LawBroken(AssertionError):
    """A conversion broke a law; ``law`` is the name of its method in ``Laws``, ``finding`` describes the failure."""

    def __init__(self, law: str, message: str) -> None:
        self.law = law
        self.finding = message
        super().__init__(f"{law}: {message}")


@dataclass(frozen=True, slots=True)
class Laws:
    """The laws of one kind's conversions. Versions are names (``v1beta1``); objects are JSON trees.

    Every law holds only if conversions are total: an author's function that raises breaks the law ``total``.
    """

    kind: KindGraph

    def convert(self, obj: Json, target: str) -> Json:
        """Convert as the graph does."""
        source = obj["apiVersion"].rpartition("/")[2]
        try:
            return obj if source == target else self.kind.routes[source, target].function(obj)
        except RuleFailed as error:
            problem = f"the conversion from {source} to {target} fails: {error.with_line}"
            fix = "return a value for everything that the schema admits: one object that fails hides all of a LIST"
            raise LawBroken("total", described(problem, obj, fix=fix)) from error

    def round_trip(self, obj: Json, via: str) -> None:
        """Going to another version and back gives the same object, except for fields that rules drop on purpose.

        Nothing is lost on the way that no rule declared: a stash entry of a lossless rule is a wrong inverse.
        """
        source = _version(obj)
        there = self.convert(obj, via)
        back = self.convert(there, source)
        expected = obj
        if self.kind.hub not in (via, source) and has_hub_drops(self._rules(via)):
            lifted = forgiven(self.convert(obj, self.kind.hub), self._rules(via), "hub")
            expected = self.convert(lifted, source)
        back = remembered(obj, back, self._rules(source))
        for rules, side in self._droppers(source, via):
            expected, back = forgiven(expected, rules, side), forgiven(back, rules, side)
        problem = f"{source} -> {via} -> {source} does not give the object back"
        self._equal("round_trip", problem, obj, (expected, there, back), (source, via))
        for passing, (rules, direction) in self._lossy_legs(source, via):
            for label in undeclared_losses(self._stash(there).get(passing, {}), rules, direction):
                problem = f"{label} loses something from {source} to {via} without declaring it"
                bare = self.convert(_without_stash(there, self.kind.stash_key), source)
                fields = self._travelled(differences(obj, bare), there, (source, via))
                fix = f'let up and down be inverses of each other, or declare the loss: loses="{direction}"'
                raise LawBroken("round_trip", described(problem, obj, fields=fields, fix=fix))

    def forget(self, obj: Json, via: str) -> None:
        """A value that replaces a forgotten one on a round trip means the same: it converts to the same object."""
        source = _version(obj)
        there = _without_stash(self.convert(obj, via), self.kind.stash_key)
        back = self.convert(self.convert(obj, via), source)
        again = _without_stash(self.convert(back, via), self.kind.stash_key)
        found = list(differences(there, again))
        if found:
            problem = f"what {source} forgets on the way to {via} does not mean the same when it comes back"
            shown = [f"{pointer(each.steps)} differs at {via}" for each in found]
            fix = "forget only values that convert to the same as what comes back for them"
            raise LawBroken("forget", described(problem, obj, fields=shown, fix=fix))

    def path_independence(self, obj: Json, via: str, target: str) -> None:
        """A detour over a third version gives the same result as the direct way."""
        if via in self.kind.spokes and has_hub_drops(self._rules(via)):
            return
        straight, there = self.convert(obj, target), self.convert(obj, via)
        detour = self.convert(there, target)
        source = _version(obj)
        found = list(differences(straight, detour))
        if found:
            problem = f"{source} -> {via} -> {target} ends elsewhere than {source} -> {target}"
            shown = [
                f"{pointer(each.steps)}: straight {compact(each.left)}, over {via} {compact(each.right)}"
                for each in found
            ]
            rule = responsible(self.kind, target, via, found[0].steps)
            fix = f"declare what {via} cannot keep with loses=, so that the stash carries it to {target}"
            raise LawBroken("path_independence", described(problem, obj, rule=rule, fields=shown, fix=fix))

    def determinism(self, obj: Json, target: str) -> None:
        """The same object gives the same bytes, whatever the order of its fields, and depends on nothing else."""
        first = self.convert(obj, target)
        for again in (copy.deepcopy(obj), _reordered(obj)):
            second = self.convert(again, target)
            if canonical(second) != canonical(first):
                shown = [
                    f"{pointer(each.steps)}: once {compact(each.left)}, then {compact(each.right)}"
                    for each in differences(first, second)
                ]
                problem = f"converting the same object to {target} twice gives different bytes"
                rule = self._responsible_at(first, second, target, _version(obj))
                fix = "compute the result from the arguments alone: no counter, no set order, no state"
                raise LawBroken("determinism", described(problem, obj, rule=rule, fields=shown, fix=fix))
        calls = impure_calls(lambda: self.convert(obj, target))
        if calls:
            problem = f"the conversion to {target} calls {', '.join(sorted(calls))}"
            fix = "compute the result from the arguments alone; a controller may write what depends on the time"
            raise LawBroken("determinism", described(problem, obj, fix=fix))

    def unchanged_input(self, obj: Json, target: str) -> None:
        """A conversion does not change its input."""
        before = copy.deepcopy(obj)
        self.convert(obj, target)
        if not same(before, obj):
            found = next(differences(before, obj))
            rule = responsible(self.kind, _version(before), target, found.steps)
            shown = [f"{pointer(found.steps)}: {compact(found.left)} became {compact(found.right)}"]
            fix = "return a new value: {**value, …} or a comprehension, never value[…] = …"
            problem = f"the conversion to {target} changes its input"
            raise LawBroken("unchanged_input", described(problem, before, rule=rule, fields=shown, fix=fix))

    def partial(self, whole: Json, part: Json, target: str) -> None:
        """A partial object gives nothing that the whole object would not give, and no new null, {} or [].

        If a rule ties several fields together, ``hide`` judges an item by its fields, or a field shows only values that
        fit it, a part of them may have another meaning than all of them. Within the fields that such rules write, only
        the second half holds, and a list whose items are all hidden is empty.
        """
        source, hub = _version(whole), self.kind.hub
        self._check_part(whole, part, hub if source != hub and has_joint(self._rules(source)) else target)
        schema = self.kind.schema(target)
        some = self.convert(part, target)
        hidden = Counter({"[]": emptied_lists(some, self._rules(target), "spoke")})
        filled = filled_empties(some, self._rules(target), "spoke")
        if source != hub:
            filled += filled_empties(self.convert(part, hub), self._rules(source), "hub")
        side: Side = "hub" if target == hub else "spoke"
        made = made_empties(some, self._rules(source if side == "hub" else target), side)
        invented = _without_exchanged(empties(some, schema) - hidden - filled - made, empties(part, None))
        if invented:
            what = min(invented)
            places = [steps for steps, kind in empty_places(some, schema) if kind == what]
            known = {steps for steps, kind in empty_places(part, None) if kind == what}
            place = next((steps for steps in places if steps not in known), places[0])
            problem = (
                f"a part of an object converted to {target} has {what} at {pointer(place)}, which no field stands for"
            )
            rule = responsible(self.kind, target, source, place)
            fix = "return ABSENT (restow.conversion.ABSENT) where there is nothing to say"
            raise LawBroken("partial", described(problem, part, rule=rule, fix=fix))

    def _check_part(self, whole: Json, part: Json, target: str) -> None:
        schema, key = self.kind.schema(target), self.kind.stash_key
        full, some = (fields(_without_stash(self.convert(each, target), key), schema) for each in (whole, part))
        side: Side = "hub" if target == self.kind.hub else "spoke"
        rules = self._rules(_version(whole) if side == "hub" else target)
        extra = sorted(steps for steps in some - full if not is_joint(steps, rules, side))
        if extra:
            problem = f"a part of an object converted to {target} has {shown_steps(extra[0])}, which the whole has not"
            found = responsible(self.kind, target, _version(whole), extra[0])
            fix = "write a field only if the fields that it is made of are there; a missing one is no default"
            raise LawBroken("partial", described(problem, part, rule=found, fix=fix))

    def validity(self, obj: Json, target: str) -> None:
        """A valid object of one version has the other's types, required fields and enums, and no undeclared fields.

        Only required fields that rules waive may be missing. Values that an author's function made also respect bounds
        and patterns. A field that both versions have, with bounds that differ, passes unchanged: the check of the
        schemas reports it. CEL rules are not evaluated.
        """
        schema = self.kind.schema(target)
        if schema is None:
            return
        converted = self.convert(obj, target)
        source = _version(obj)
        found = next((violation for violation, waived in self.kind.missing(converted, source) if not waived), None)
        if found is None and (self.kind.hub != target or not self.kind.is_internal):
            pruned = next(iter(pruned_paths(converted, schema)), None)
            found = None if pruned is None else f"{pruned} is not declared there, so the server would prune it"
        if found is not None:
            problem = f"an object converted to {target} does not fit its schema: {found}"
            rule = self._rule_of_path(found.partition(" ")[0], target, source)
            fix = "return what the schema admits, or change the schema"
            raise LawBroken("validity", described(problem, obj, rule=rule, fix=fix))
        for place, value, keyword in out_of_bounds(converted, schema):
            rule = responsible(self.kind, target, source, place)
            if made_rule(rule):
                problem = (
                    f"an object converted to {target} does not fit its schema: {pointer(place)} violates {keyword}"
                )
                shown = [f"{pointer(place)}: {target} {compact(value)}"]
                fix = f"return what the {keyword} of {target} admits, and declare the rest with loses="
                raise LawBroken("validity", described(problem, obj, rule=rule, fields=shown, fix=fix))

    def edits_win(self, obj: Json, edited: Json) -> None:
        """A client reads back at a version what it wrote there, whatever earlier values a stash holds.

        ``obj`` is an object of another version, ``edited`` the object that the client sends instead of the shown one,
        with the stash that it received. Kinds whose rules judge edits (``merge``, ``hide``) are exempt: there the
        author decides.
        """
        version = _version(edited)
        source = _version(obj)
        if any(has_judgement(self._rules(name)) for name in (version, source) if name in self.kind.spokes):
            return
        text = _annotation(self.convert(obj, version), self.kind.stash_key)
        if text is None:
            return
        metadata = edited.get("metadata") or {}
        annotations = {**(metadata.get("annotations") or {}), self.kind.stash_key: text}
        sent = {**edited, "metadata": {**metadata, "annotations": annotations}}
        read = self.convert(self.convert(sent, source), version)
        left, right = _without_stash(sent, self.kind.stash_key), _without_stash(read, self.kind.stash_key)
        right = remembered(left, right, self._rules(version))
        for rules, side in self._droppers(version, source):
            left, right = forgiven(left, rules, side), forgiven(right, rules, side)
        problem = f"an edit at {version} is not what is read back there, over {source}"
        self._equal("edits_win", problem, sent, (left, self.convert(sent, source), right), (version, source))

    def _equal(
        self, law: str, problem: str, obj: Json, way: tuple[Json, Json, Json], versions: tuple[str, str]
    ) -> None:
        """Compare an object with the result of its round trip; ``way`` holds the object, its conversion, the result."""
        expected, there, back = way
        found = list(differences(expected, back))
        if not found:
            return
        rule = responsible(self.kind, *versions, found[0].steps)
        fields = self._travelled(found, there, versions)
        direction = "up" if versions[0] != self.kind.hub else "down"
        fix = "map the field with a rule, or keep it with rules.stash"
        if rule is not None:
            fix = f'let up and down be inverses of each other, or declare what is lost: loses="{direction}"'
        raise LawBroken(law, described(problem, obj, rule=rule, fields=fields, fix=fix))

    def _travelled(self, found: Iterable[Difference], there: Json, versions: tuple[str, str]) -> list[str]:
        return [travelled(each, there, versions, responsible(self.kind, *versions, each.steps)) for each in found]

    def _responsible_at(self, left: Json, right: Json, source: str, target: str) -> RulePlace | None:
        found = next(differences(left, right), None)
        return None if found is None else responsible(self.kind, source, target, found.steps)

    def _rule_of_path(self, path: str, source: str, target: str) -> RulePlace | None:
        """Return the rule for a path in the notation of ``restow.crds.paths``, up to its first list or map."""
        names = path.split("[", 1)[0].split("{", 1)[0]
        return responsible(self.kind, source, target, parse(names)) if names.strip(".") else None

    def edits_of_items(self, obj: Json, version: str, choice: int = 0) -> None:
        """An edit of the items of a list without keys loses no fields that the items hide at that version.

        ``choice`` selects one of the edits of the object as ``version`` shows it: one or all items are changed, one is
        inserted, copied or removed, or they change places. One of the two versions is the hub. Fields that did not fit
        into the stash are not expected.
        """
        source, hub = _version(obj), self.kind.hub
        shown = self.convert(obj, version)
        parsed = parse_stash(_annotation(shown, self.kind.stash_key))
        if hub not in (source, version) or (parsed is not None and parsed[0].dropped):
            return
        side: Side = "hub" if version == hub else "spoke"
        edits = list(item_edits(obj, shown, self._rules(source if side == "hub" else version), side))
        if not edits:
            return
        edit = edits[choice % len(edits)]
        expected, back = edit.expected, edit.without_added(self.convert(edit.shown, source))
        if edit.added is not None:  # an added item may itself have a stash entry
            expected, back = (_without_stash(each, self.kind.stash_key) for each in (expected, back))
        for rules, side in self._droppers(source, version):
            expected, back = forgiven(expected, rules, side), forgiven(back, rules, side)
        problem = f"an edit of a list at {version} ({edit.name}) takes away what its items hide"
        self._equal("edits_of_items", problem, obj, (expected, edit.shown, back), (source, version))

    def _rules(self, version: str) -> tuple[Rule, ...]:
        spoke = self.kind.spokes.get(version)
        return () if spoke is None else spoke.rules

    def _droppers(self, source: str, via: str) -> Iterator[tuple[tuple[Rule, ...], Any]]:
        if source == self.kind.hub:
            yield self._rules(via), "hub"
        else:
            yield self._rules(source), "spoke"

    def _lossy_legs(self, source: str, via: str) -> Iterator[tuple[str, tuple[tuple[Rule, ...], Any]]]:
        if source != self.kind.hub:
            yield source, (self._rules(source), "up")
        if via != self.kind.hub:
            yield self.kind.hub, (self._rules(via), "down")

    def _stash(self, obj: Json) -> dict[str, Any]:
        parsed = parse_stash(_annotation(obj, self.kind.stash_key))
        return {} if parsed is None else dict(parsed[0].kept)


def _version(obj: Json) -> str:
    return str(obj["apiVersion"]).rpartition("/")[2]


def _without_exchanged(found: Counter[str], known: Counter[str]) -> Counter[str]:
    """Return the empty values that have no counterpart: {} that became [], or the reverse, means the same."""
    invented, gone = found - known, known - found
    for new, old in (("{}", "[]"), ("[]", "{}")):
        invented[new] -= min(invented[new], gone[old])
    return +invented


def _annotation(obj: Json, key: str) -> str | None:
    metadata = obj.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    return annotations.get(key) if isinstance(annotations, dict) else None


def _without_stash(obj: Json, key: str) -> Json:
    metadata = obj.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("annotations"), dict):
        return obj
    annotations = {name: text for name, text in metadata["annotations"].items() if name != key}
    rest = {name: value for name, value in metadata.items() if name != "annotations"}
    return {**obj, "metadata": {**rest, **({"annotations": annotations} if annotations else {})}}


def _reordered(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _reordered(value[name]) for name in reversed(value)}
    if isinstance(value, list):
        return [_reordered(item) for item in value]
    return value
