"""Prints a registry as ``ConversionRules`` documents.

A printed registry reads back as the same rules, and prints as the same bytes. A rule without rules inside of it stands
on one line where it fits.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from restow.conversion.definition.registry import Kind, Registry
from restow.conversion.manifests.emit import Style, flow, scalar
from restow.conversion.manifests.emit import field as emit_field
from restow.conversion.model.errors import ConversionError
from restow.conversion.model.values import is_json
from restow.conversion.rulefiles.parse import API_VERSION, KIND
from restow.conversion.rulefiles.vocabulary import vocabulary
from restow.conversion.rules.model import Rule
from restow.conversion.stash.annotation import DEFAULT_BUDGET

__all__ = ["NotData", "document_of", "dump"]

_STYLE: Final = Style(quote='"')  # CEL's own texts have single quotes
_WIDTH: Final = 120


class NotData(ConversionError):
    """Rules hold functions of Python, which no document can; ``rules`` names them by version."""

    def __init__(self, rules: Sequence[str]) -> None:
        self.rules = tuple(rules)
        named = "\n".join(f"- {each}" for each in self.rules)
        super().__init__(f"these rules hold functions of Python: write standard rules or CEL expressions\n{named}")


def dump(registry: Registry) -> str:
    """Return the documents of a registry's kinds.

    Raises:
        NotData: a rule holds a function, or is none of the vocabulary.
    """
    return "---\n".join("".join(_lines(document_of(kind))) for kind in registry.kinds)


def document_of(kind: Kind) -> dict[str, Any]:
    """Return the document of one kind, as JSON.

    Raises:
        NotData: a rule holds a function, or is none of the vocabulary.
    """
    bad: list[str] = []
    spec: dict[str, Any] = {"target": {"group": kind.group, "kind": kind.kind}, "hub": kind.hub}
    if kind.hub_schema is not None:
        spec["hubSchema"] = kind.hub_schema
    stash: dict[str, Any] = {}
    if kind.stash != f"{kind.group}/conversion-stash":
        stash["annotation"] = kind.stash
    if kind.stash_budget != DEFAULT_BUDGET:
        stash["budget"] = kind.stash_budget
    if stash:
        spec["stash"] = stash
    spec["spokes"] = [
        {"version": version, "rules": [_rule(rule, version, bad) for rule in rules()]} for version, rules in kind.spokes
    ]
    if bad:
        raise NotData(bad)
    metadata = {"name": f"{kind.kind.lower()}.{kind.group}"}
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": spec}


def _rule(rule: Rule, version: str, bad: list[str]) -> dict[str, Any]:
    constructor = vocabulary().get(rule.name)
    if constructor is None:
        bad.append(f"{version} {rule.label}")
        return {}
    arguments: dict[str, Any] = {}
    for name, parameter in constructor.parameters.items():
        if name not in rule.arguments:
            continue
        value = rule.arguments[name]
        if parameter.shape == "rules":
            arguments[name] = [_rule(inner, version, bad) for inner in value]
        elif value is None and parameter.type is not Any:
            continue
        else:
            arguments[name] = value = _json(value)
            if not is_json(value):
                bad.append(f"{version} {rule.label}: {name}")
    return {rule.name: arguments}


def _json(value: Any) -> Any:
    """Return a value with the lists and objects that JSON has in place of Python's other ones."""
    if isinstance(value, Mapping):
        if not all(isinstance(name, str) for name in value):
            return [[_json(name), _json(each)] for name, each in value.items()]
        return {name: _json(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_json(each) for each in value]
    return value


def _lines(document: Mapping[str, Any]) -> Iterator[str]:
    spec = document["spec"]
    for name in ("apiVersion", "kind", "metadata"):
        yield f"{name}: {_inline(document[name])}\n"
    yield "spec:\n"
    for name, value in spec.items():
        if name != "spokes":
            yield f"  {name}: {_inline(value)}\n"
    yield "  spokes:" + ("\n" if spec["spokes"] else " []\n")
    for spoke in spec["spokes"]:
        yield f"  - version: {_inline(spoke['version'])}\n"
        yield from _field("rules", spoke["rules"], 4)


def _field(name: str, rules: Sequence[Mapping[str, Any]], column: int) -> Iterator[str]:
    yield f"{' ' * column}{name}:" + ("\n" if rules else " []\n")
    for rule in rules:
        ((word, arguments),) = rule.items()
        indent = " " * column
        line = f"{indent}- {word}: {_inline(arguments)}\n"
        parameters = vocabulary()[word].parameters
        if (
            len(line) <= _WIDTH
            and "\\n" not in line
            and not any(parameters[each].shape == "rules" for each in arguments)
        ):
            yield line
            continue
        yield f"{indent}- {word}:\n"
        for each, value in sorted(arguments.items(), key=lambda given: parameters[given[0]].shape == "rules"):
            if parameters[each].shape == "rules":
                yield from _field(each, value, column + 4)
            elif isinstance(value, str):
                yield emit_field(each, value, column + 4, _STYLE)
            else:
                yield f"{indent}    {each}: {_inline(value)}\n"


def _inline(value: Any) -> str:
    return flow(value, _STYLE) if isinstance(value, dict | list) else scalar(value, _STYLE)
