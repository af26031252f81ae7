"""Prints rules: a registry as ``ConversionRules`` documents, and drafted rules as a document or as Python.

A printed registry reads back as the same rules, and prints as the same bytes. A rule without inner rules is printed on
one line if it fits. A drafted rule is printed next to its reason.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Any, Final

from restow.conversion.compile.adoption import Adopted
from restow.conversion.definition.drafts import DraftedRule
from restow.conversion.definition.registry import Kind, Registry
from restow.conversion.definition.suggestions import python_source
from restow.conversion.manifests.emit import Style, flow, scalar
from restow.conversion.manifests.emit import field as emit_field
from restow.conversion.model.errors import ConversionError
from restow.conversion.model.values import is_json
from restow.conversion.rulefiles.phrase import as_data
from restow.conversion.rulefiles.vocabulary import API_VERSION, KIND, vocabulary
from restow.conversion.rules.protocol import Rule
from restow.conversion.stash.annotation import DEFAULT_BUDGET

_STYLE: Final = Style(quote='"')  # texts inside CEL have single quotes
_WIDTH: Final = 120


class NotData(ConversionError):
    """The rules hold Python functions, which a document cannot express; ``rules`` names them by version."""

    def __init__(self, rules: Sequence[str]) -> None:
        self.rules = tuple(rules)
        named = "\n".join(f"- {each}" for each in self.rules)
        super().__init__(f"these rules hold functions of Python: write standard rules or CEL expressions\n{named}")


def dump(registry: Registry) -> str:
    """Return the documents of a registry's kinds.

    Raises:
        NotData: a rule holds a function, or is not in the vocabulary.
    """
    return "---\n".join("".join(_lines(document_of(kind))) for kind in registry.kinds)


def document_of(kind: Kind) -> dict[str, Any]:
    """Return the document of one kind, as JSON.

    Raises:
        NotData: a rule holds a function, or is not in the vocabulary.
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
    if kind.on_error is not None:
        spec["onError"] = kind.on_error
    if kind.adopt:
        spec["adopt"] = [_adopted(each) for each in kind.adopt]
    if kind.leaves:
        spec["leaves"] = [*kind.leaves]
    if kind.keyless:
        spec["keyless"] = [{"lists": [*each.lists], "acknowledge": each.acknowledge} for each in kind.keyless]
    spec["spokes"] = [
        {"version": version, "rules": [_rule(rule, version, bad) for rule in rules()]} for version, rules in kind.spokes
    ]
    if bad:
        raise NotData(bad)
    metadata = {"name": f"{kind.kind.lower()}.{kind.group}"}
    return {"apiVersion": API_VERSION, "kind": KIND, "metadata": metadata, "spec": spec}


def _adopted(adopted: Adopted) -> dict[str, Any]:
    found: dict[str, Any] = {"annotation": adopted.annotation, "version": adopted.version}
    found |= {"fields": [*adopted.fields]} if adopted.fields else {}
    return found | ({"stays": True} if adopted.stays else {})


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
    """Return a value in which lists and objects of JSON replace Python's other sequences and mappings."""
    if isinstance(value, Mapping):
        if not all(isinstance(name, str) for name in value):
            return [[_json(name), _json(each)] for name, each in value.items()]
        return {name: _json(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [_json(each) for each in value]
    return value


def rule_lines(rule: Rule, column: int) -> Iterator[str]:
    """Yield the lines of one rule, as a list item that begins at ``column``.

    Raises:
        NotData: the rule holds a function, or is not in the vocabulary.
    """
    bad: list[str] = []
    document = _rule(rule, "", bad)
    if bad:
        raise NotData(bad)
    yield from islice(_field("rules", [document], column), 1, None)


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


def draft_as_yaml(drafts: Sequence[DraftedRule], *, group: str, kind: str, hub: str, spoke: str) -> str:
    """Return a document with the drafted rules of one spoke, and their reasons as comments."""
    head = (
        f"apiVersion: {API_VERSION}\n"
        f"kind: {KIND}\n"
        f"metadata: {{name: {kind.lower()}.{group}}}\n"
        "spec:\n"
        f"  target: {{group: {group}, kind: {kind}}}\n"
        f"  hub: {hub}\n"
        "  spokes:\n"
        f"  - version: {spoke}\n"
    )
    if not drafts:
        return f"{head}    rules: []\n"
    return head + "    rules:\n" + "".join(_yaml(drafts, 4))


def _yaml(drafts: Sequence[DraftedRule], column: int) -> Iterator[str]:
    for draft in drafts:
        if draft.why:
            yield f"{' ' * column}# {as_data(draft.why)}\n"
        if not draft.inner:
            yield from rule_lines(draft.rule, column)
            continue
        indent = " " * column
        yield f"{indent}- {draft.rule.name}:\n"
        for name, value in draft.rule.arguments.items():
            if name != "rules":
                yield f"{indent}    {name}: {_inline(value)}\n"
        yield f"{indent}    rules:\n"
        yield from _yaml(draft.inner, column + 4)


def draft_as_python(drafts: Sequence[DraftedRule], *, group: str, kind: str, hub: str, spoke: str) -> str:
    """Return a module with the drafted rules of one spoke, and their reasons as comments."""
    name = kind.lower()
    lines = (
        "from restow.conversion import Registry, rules\n\n"
        "registry = Registry()\n"
        f'{name} = registry.kind("{group}", "{kind}", hub="{hub}")\n\n\n'
        f'@{name}.spoke("{spoke}")\n'
        f"def {spoke}() -> list[rules.Rule]:\n"
        "    return [\n"
    )
    return "".join(chain([lines], _python(drafts, 8), ["    ]\n"]))


def _python(drafts: Sequence[DraftedRule], column: int) -> Iterator[str]:
    indent = " " * column
    for draft in drafts:
        if draft.why:
            yield f"{indent}# {draft.why}\n"
        if not draft.inner:
            yield f"{indent}{python_source(draft.rule)},\n"
            continue
        yield f'{indent}rules.{draft.rule.name}(\n{indent}    "{draft.rule.spoke[0]}",\n{indent}    [\n'
        yield from _python(draft.inner, column + 8)
        yield f"{indent}    ],\n"
        if draft.rule.spoke != draft.rule.hub:
            yield f'{indent}    hub="{draft.rule.hub[0]}",\n'
        yield f"{indent}),\n"
