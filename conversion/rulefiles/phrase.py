"""Writes the rules in a message as an author of rule files writes them: ``- rename: {spoke: spec.a, hub: spec.b}``.

Messages are written once, with rules as calls of Python. Here each call becomes an item of a list of rules, each single
argument (``key="name"``) a field, and ``rules.each`` without arguments the name of the rule. What an author has to
choose (``…``) stays open. A text that is no call passes as it is.

Pure.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping
from inspect import signature
from typing import Any, Final

from restow.conversion.manifests.emit import Style, flow, scalar
from restow.conversion.rulefiles.vocabulary import vocabulary

_STYLE: Final = Style(quote='"')
_CALL: Final = re.compile(r"\brules\.([a-z_]+)(\(?)")
_ARGUMENT: Final = re.compile(r'\b([a-z_]+)=((?:"[^"]*"|\[[^\]]*\]|\([^)]*\)|\{[^{}…]*\}|True|False|…)?)')

#: The options of a kind, which a rule file spells in another way than Python.
_OPTIONS: Final[Mapping[str, str]] = {"hub_schema": "hubSchema", "keyless": "keyless", "leaves": "leaves"}
_OPEN: Final = "…"
_ANY_FIELDS: Final = "{…: …}"
_AMONG: Final = re.compile(r"\[… (\"[^\"]*\") …\]")
_MARK: Final = "open_"


def as_data(text: str) -> str:
    """Return a message whose rules are written as data."""
    return "".join(_parts(text))


def _parts(text: str) -> Iterator[str]:
    position = 0
    for call in _CALL.finditer(text):
        if call.start() < position or call[1] not in vocabulary():
            continue
        yield _ARGUMENT.sub(_argument, text[position : call.start()])
        position = _end(text, call.end()) if call[2] else call.end()
        rule = _rule(text[call.start() : position]) if call[2] else None
        yield text[call.start() : position] if call[2] and rule is None else _item(call[1], rule)
    yield _ARGUMENT.sub(_argument, text[position:].replace("with spoke(…)", "as an item of spokes"))


def _item(name: str, rule: dict[str, Any] | None) -> str:
    """Return a rule as an item of a list, or only its name."""
    return name if rule is None else f"- {name}: {flow(rule[name], _STYLE).replace(_ANY_FIELDS, '{…}')}"


def _end(text: str, start: int) -> int:
    """Return the position after the parenthesis that closes the one before ``start``."""
    depth, quote, position = 1, "", start
    while depth and position < len(text):
        letter = text[position]
        if quote:
            position += letter == "\\"
            quote = "" if letter == quote else quote
        elif letter in "\"'":
            quote = letter
        else:
            depth += (letter in "([{") - (letter in ")]}")
        position += 1
    return position


def _rule(call: str) -> dict[str, Any] | None:
    """Return the rule of a call as data; None if it is none."""
    try:
        source = _AMONG.sub(f"[{_MARK}, \\1, {_MARK}]", call).replace("{…}", f"{{{_MARK}: {_MARK}}}")
        return _called(ast.parse(source.replace(_OPEN, _MARK), mode="eval").body)
    except (SyntaxError, TypeError, ValueError):
        return None


def _called(node: ast.expr) -> dict[str, Any]:
    if not isinstance(node, ast.Call) or not isinstance(node.func, ast.Attribute):
        message = "no call of a rule"
        raise TypeError(message)
    constructor = vocabulary()[node.func.attr]
    positional = [_value(each) for each in node.args]
    named = {each.arg or "": _value(each.value) for each in node.keywords}
    return {constructor.name: dict(signature(constructor.make).bind(*positional, **named).arguments)}


def _value(node: ast.expr) -> Any:
    match node:
        case ast.Call():
            return _called(node)
        case ast.Name(id=name) if name == _MARK:
            return _OPEN
        case ast.List(elts=elements) | ast.Tuple(elts=elements):
            return [_value(each) for each in elements]
        case ast.Dict(keys=keys, values=values):
            return {_value(key): _value(each) for key, each in zip(keys, values, strict=True) if key is not None}
        case _:
            value = ast.literal_eval(node)
            return value.replace(_MARK, _OPEN) if isinstance(value, str) else value


def _argument(found: re.Match[str]) -> str:
    name, value = found[1], found[2]
    known = name in _OPTIONS or any(name in constructor.parameters for constructor in vocabulary().values())
    if not known:
        return found[0]
    name = _OPTIONS.get(name, name)
    if not value:
        return f"{name}:"
    return f"{name}: {_OPEN if value == _OPEN else _inline(ast.literal_eval(value))}"


def _inline(value: Any) -> str:
    value = [*value] if isinstance(value, tuple) else value
    return flow(value, _STYLE) if isinstance(value, dict | list) else scalar(value, _STYLE)
