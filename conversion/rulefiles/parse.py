"""Reads one ``ConversionRules`` document, and reports every mistake with its place in the document and its remedy.

The document is decoded JSON, as it comes from a file or from an API server. Parsing checks its form: names, parameters,
types. Freezing the registry checks the meaning of the rules together, and whether they fit the CRD.

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Final, Literal, get_args, get_origin

import msgspec

from restow.conversion.compile.adoption import Adopted
from restow.conversion.definition.registry import Registry
from restow.conversion.model.errors import ConversionError, Diagnostic
from restow.conversion.model.fieldpath import pointer
from restow.conversion.rulefiles.phrase import as_data
from restow.conversion.rulefiles.vocabulary import API_VERSION, KIND, TAKE_OVER, Constructor, Parameter, vocabulary
from restow.conversion.rules.protocol import OnError, Rule, ungrouped
from restow.conversion.rules.scopes import Keyless
from restow.conversion.stash.annotation import DEFAULT_BUDGET

#: Names of fields and indexes of items, starting at the root of the document.
Place = tuple[str | int, ...]

#: Deeper rules are a mistake or an attack: no CRD of the examined catalogues nests its lists half as deep.
_MAX_DEPTH: Final = 32
#: The most rules of one document: ten times the number that the largest ported kind needs.
_MOST_RULES: Final = 5_000

_SPEC: Final[Mapping[str, tuple[Any, bool]]] = {
    "target": (dict, True),
    "hub": (str, True),
    "hubSchema": (dict, False),
    "stash": (dict, False),
    "onError": (str, False),
    "takeOver": (str, False),
    "adopt": (list, False),
    "leaves": (list, False),
    "keyless": (list, False),
    "spokes": (list, True),
}
_TARGET: Final[Mapping[str, tuple[Any, bool]]] = {"group": (str, True), "kind": (str, True)}
_STASH: Final[Mapping[str, tuple[Any, bool]]] = {"annotation": (str, False), "budget": (int, False)}
_ADOPT: Final[Mapping[str, tuple[Any, bool]]] = {
    "annotation": (str, True),
    "version": (str, True),
    "fields": (list, False),
    "stays": (bool, False),
}
_KEYLESS: Final[Mapping[str, tuple[Any, bool]]] = {"lists": (list, True), "acknowledge": (str, True)}
_SPOKE: Final[Mapping[str, tuple[Any, bool]]] = {"version": (str, True), "rules": (list, True)}
_TYPES: Final[Mapping[type, str]] = {
    bool: "a boolean",
    dict: "an object",
    float: "a number",
    int: "an integer",
    list: "a list",
    str: "a text",
    type(None): "null",
}


@dataclass(frozen=True, slots=True)
class Problem:
    """One mistake: its place in the document, the problem, and the remedy."""

    place: Place
    problem: str
    fix: str

    def __str__(self) -> str:
        return f"{pointer(self.place) or '/'}: {self.problem}. {self.fix}."


class RulesInvalid(ConversionError):
    """The document declares no conversions; ``problems`` lists every mistake."""

    def __init__(self, problems: Sequence[Problem]) -> None:
        self.problems = tuple(problems)
        super().__init__("\n".join(map(str, self.problems)))


@dataclass(frozen=True, slots=True)
class ConversionRules:
    """The conversions of one kind, as a document declares them.

    ``spokes`` are rules by version. ``places`` has the place of each rule in the document, by version and label.
    """

    name: str
    group: str
    kind: str
    hub: str
    spokes: Mapping[str, tuple[Rule, ...]]
    hub_schema: Mapping[str, Any] | None = None
    stash: str | None = None
    stash_budget: int = DEFAULT_BUDGET
    on_error: OnError | None = None
    adopt: tuple[Adopted, ...] = ()
    leaves: tuple[str, ...] = ()
    keyless: tuple[Keyless, ...] = ()
    places: Mapping[tuple[str, str], Place] = field(default_factory=dict, compare=False, repr=False)

    def place_of(self, diagnostic: Diagnostic) -> Place:
        """Return the place of a diagnostic in the document: the rule that it names, else the spoke.

        A diagnostic about a field of the hub names the spoke in its text.
        """
        found = self.places.get((diagnostic.version, ""), ("spec",))
        if diagnostic.version == self.hub:
            words = {word.strip(".,") for word in diagnostic.problem.split()}
            found = next((self.places[version, ""] for version in self.spokes if version in words), found)
        for (version, label), place in self.places.items():
            if label and label in diagnostic.problem and diagnostic.version in (version, self.hub):
                found = place  # if two rules collide, take the later one
        return found


def registry_of(documents: Iterable[ConversionRules]) -> Registry:
    """Return the registry that documents declare, not yet checked: ``Registry.freeze`` checks it."""
    registry = Registry(phrase=as_data)
    for each in documents:
        kind = registry.kind(
            each.group,
            each.kind,
            hub=each.hub,
            hub_schema=each.hub_schema,
            stash=each.stash,
            stash_budget=each.stash_budget,
            on_error=each.on_error,
            adopt=each.adopt,
            leaves=each.leaves,
            keyless=each.keyless,
        )
        for version, declared in each.spokes.items():
            kind.spoke(version)(lambda declared=declared: declared)  # type: ignore[misc]  # bound now
    return registry


def parse(document: Any) -> ConversionRules:
    """Return the conversions that a document declares.

    Raises:
        RulesInvalid: the document has mistakes; the error lists all of them.
    """
    reader = _Reader()
    found = reader.document(document)
    if reader.problems:
        raise RulesInvalid(reader.problems)
    assert found is not None
    return found


@dataclass(slots=True)
class _Reader:
    """Reads one document and collects its mistakes."""

    problems: list[Problem] = field(default_factory=list)
    places: dict[tuple[str, str], Place] = field(default_factory=dict)
    count: int = 0

    def say(self, place: Place, problem: str, fix: str) -> None:
        self.problems.append(Problem(place, problem, fix))

    def document(self, document: Any) -> ConversionRules | None:
        if not isinstance(document, dict):
            self.say((), f"is {_type(document)}", f"Write an object with apiVersion: {API_VERSION} and kind: {KIND}")
            return None
        for name, wanted in (("apiVersion", API_VERSION), ("kind", KIND)):
            if document.get(name) != wanted:
                self.say((name,) if name in document else (), f"{name} is not {wanted}", f"Write {name}: {wanted}")
        self._unknown(document, {"apiVersion", "kind", "metadata", "spec", "status"}, ())
        spec = self._object(document.get("spec"), _SPEC, ("spec",))
        if spec is None:
            return None
        target = self._object(spec.get("target"), _TARGET, ("spec", "target")) if "target" in spec else None
        stash = self._object(spec.get("stash", {}), _STASH, ("spec", "stash")) or {}
        on_error = spec.get("onError")
        if on_error not in (None, *get_args(OnError)):
            self.say(("spec", "onError"), "is neither keep nor fail", "Write keep or fail")
        if "takeOver" in spec and not re.fullmatch(TAKE_OVER, spec["takeOver"]):
            self.say(("spec", "takeOver"), "names no webhook", "Write <namespace>/<Service>[:port][/path], or a URL")
        adopt = tuple(self._adopted(spec.get("adopt", ())))
        leaves = spec.get("leaves", [])
        if not all(isinstance(version, str) for version in leaves):
            self.say(("spec", "leaves"), "has a version that is no text", "Write a list of versions")
        keyless = tuple(self._keyless(spec.get("keyless", ())))
        spokes = self._spokes(spec.get("spokes"))
        if self.problems or target is None:
            return None
        metadata = document.get("metadata")
        named = metadata.get("name") if isinstance(metadata, dict) else None
        return ConversionRules(
            name=named if isinstance(named, str) else "",
            group=target["group"],
            kind=target["kind"],
            hub=spec["hub"],
            spokes=spokes,
            hub_schema=spec.get("hubSchema"),
            stash=stash.get("annotation"),
            stash_budget=stash.get("budget", DEFAULT_BUDGET),
            on_error=on_error,
            adopt=adopt,
            leaves=tuple(leaves),
            keyless=keyless,
            places=self.places,
        )

    def _adopted(self, documents: Sequence[Any]) -> Iterable[Adopted]:
        for index, each in enumerate(documents):
            place: Place = ("spec", "adopt", index)
            found = self._object(each, _ADOPT, place)
            if found is None or not {"annotation", "version"} <= found.keys():
                continue
            paths = found.get("fields", [])
            if not all(isinstance(path, str) for path in paths):
                self.say((*place, "fields"), "has a path that is no text", "Write a list of paths")
            yield Adopted(found["annotation"], found["version"], tuple(paths), found.get("stays", False))

    def _keyless(self, documents: Sequence[Any]) -> Iterable[Keyless]:
        for index, each in enumerate(documents):
            place: Place = ("spec", "keyless", index)
            found = self._object(each, _KEYLESS, place)
            if found is None or not _KEYLESS.keys() <= found.keys():
                continue
            paths = found["lists"]
            if not all(isinstance(path, str) for path in paths):
                self.say((*place, "lists"), "has a path that is no text", "Write a list of paths")
                continue
            self.places |= {("", f"keyless={path} "): (*place, "lists", at) for at, path in enumerate(paths)}
            yield Keyless(paths, acknowledge=found["acknowledge"])

    def _object(self, value: Any, fields: Mapping[str, tuple[Any, bool]], place: Place) -> dict[str, Any] | None:
        """Return an object whose fields have the right types; every other field or value is a mistake."""
        if not isinstance(value, dict):
            said = f"is {_type(value)}" if value is not None else "is missing"
            self.say(place, said, f"Write an object with the fields {', '.join(fields)}")
            return None
        self._unknown(value, fields, place)
        found = {}
        for name, (wanted, required) in fields.items():
            if name not in value:
                if required:
                    self.say(place, f"has no {name}", f"Add {name}: {_TYPES[wanted]}")
            elif not isinstance(value[name], wanted) or (wanted is int and isinstance(value[name], bool)):
                self.say((*place, name), f"is {_type(value[name])}", f"Write {_TYPES[wanted]}")
            elif wanted is str and not value[name]:
                self.say((*place, name), "is empty", f"Write {_TYPES[wanted]}")
            else:
                found[name] = value[name]
        return found

    def _unknown(self, value: Mapping[str, Any], known: Iterable[str], place: Place) -> None:
        names = [*known]
        for name in value:
            if name not in names:
                near = get_close_matches(name, names, n=1)
                fix = f"Write {near[0]}" if near else f"Remove it; the fields are {', '.join(names)}"
                self.say((*place, name), f"{name[:100]} is no field of this object", fix)

    def _spokes(self, spokes: Any) -> dict[str, tuple[Rule, ...]]:
        found: dict[str, tuple[Rule, ...]] = {}
        for index, each in enumerate(spokes if isinstance(spokes, list) else ()):
            place: Place = ("spec", "spokes", index)
            spoke = self._object(each, _SPOKE, place)
            if spoke is None or "version" not in spoke or "rules" not in spoke:
                continue
            version = spoke["version"]
            if version in found:
                self.say((*place, "version"), f"the spoke {version} stands here a second time", "Declare it once")
            self.places[version, ""] = place
            found[version] = self._rules(spoke["rules"], (*place, "rules"), version, 0)
        return found

    def _rules(self, documents: list[Any], place: Place, version: str, depth: int) -> tuple[Rule, ...]:
        self.count += len(documents)
        if depth > _MAX_DEPTH or self.count > _MOST_RULES:
            limit = f"{_MAX_DEPTH} levels" if depth > _MAX_DEPTH else f"{_MOST_RULES} rules"
            if not any(each.problem.startswith("has more than") for each in self.problems):
                self.say(place, f"has more than {limit}", "Split the rules, or write them in Python")
            return ()
        rules = (self._rule(each, (*place, index), version, depth) for index, each in enumerate(documents))
        return tuple(rule for rule in rules if rule is not None)

    def _rule(self, document: Any, place: Place, version: str, depth: int) -> Rule | None:
        if not isinstance(document, dict) or len(document) != 1:
            said = f"has {len(document)} fields" if isinstance(document, dict) else f"is {_type(document)}"
            self.say(place, f"{said}, and a rule has one", "Write the name of one rule: rename: {spoke: …, hub: …}")
            return None
        ((name, arguments),) = document.items()
        constructor = vocabulary().get(name)
        if constructor is None:
            near = get_close_matches(name, vocabulary(), n=1)
            fix = f"Write {near[0]}" if near else f"The rules are {', '.join(vocabulary())}"
            self.say((*place, name), f"there is no rule {name[:100]}", fix)
            return None
        if not isinstance(arguments, dict):
            names = ", ".join(constructor.parameters)
            self.say((*place, name), f"{name} is {_type(arguments)}", f"Write an object with its parameters: {names}")
            return None
        given = self._arguments(constructor, arguments, (*place, name), version, depth)
        if given is None:
            return None
        rule = constructor.make(**given)
        for each in ungrouped([rule]):
            self.places.setdefault((version, each.label), place)
        return rule

    def _arguments(
        self, constructor: Constructor, arguments: dict[str, Any], place: Place, version: str, depth: int
    ) -> dict[str, Any] | None:
        before = len(self.problems)
        for name in arguments:
            if name not in constructor.parameters:
                near = get_close_matches(name, constructor.parameters, n=1)
                fix = f"Write {near[0]}" if near else f"Its parameters are {', '.join(constructor.parameters)}"
                self.say((*place, name), f"{constructor.name} has no parameter {name[:100]}", fix)
        given: dict[str, Any] = {}
        for name, parameter in constructor.parameters.items():
            if name in arguments:
                given[name] = self._argument(constructor, parameter, arguments[name], (*place, name), version, depth)
            elif parameter.required:
                self.say(place, f"{constructor.name} has no {name}", f"Add {name}: {parameter.text or '…'}"[:300])
        return given if len(self.problems) == before else None

    def _argument(
        self, constructor: Constructor, parameter: Parameter, value: Any, place: Place, version: str, depth: int
    ) -> Any:
        what = f"{parameter.name} of {constructor.name}"
        if parameter.shape == "rules":
            if isinstance(value, list):
                return self._rules(value, place, version, depth + 1)
            self.say(place, f"{what} is {_type(value)}", "Write a list of rules")
            return None
        if parameter.shape == "expression" and not isinstance(value, str):
            self.say(place, f"{what} is {_type(value)}", "Write a CEL expression over self, as a text")
            return None
        try:
            return msgspec.convert(value, parameter.type, strict=True)
        except msgspec.ValidationError as error:
            words = ", ".join(map(str, get_args(parameter.type))) if get_origin(parameter.type) is Literal else ""
            fix = f"Write one of {words}" if words else f"Correct {parameter.name}"
            self.say(place, f"{what} is of a wrong type: {_told(error)}", fix)
            return None


def _type(value: Any) -> str:
    return _TYPES.get(type(value), f"a {type(value).__name__}")


def _told(error: msgspec.ValidationError) -> str:
    """Return msgspec's message, which names types and places and never values, except those of an enum."""
    text = str(error).replace("`", "").replace("$", "").removesuffix(" - at ")
    return text[:1].lower() + text[1:]
