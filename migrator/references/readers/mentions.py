"""Find the places in an object that name a version of a kind, in the spellings that controllers use.

``Spelling`` is the table of them. A map names the kind by its fields for group, version and kind or resource. A text
names it as ``group/version/Kind`` or in the path of a URL. An expression (CEL, Rego) compares with the quoted group and
version, or, in a policy whose rules name the group, with the quoted version. A text that has only the words is none of
these: the group, the version and the kind have to stand in one map or text.

``Spellings.mentions`` walks an object once, without recursion. ``can_hold_mentions`` decides from a schema whether
objects have to be read whole for it. Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final, TypeAlias

from restow.kube.resources import Object
from restow.migrator.references.reference import SoughtVersion

Steps: TypeAlias = tuple[str | int, ...]
"""A place in an object: fields and indexes."""


class Spelling(StrEnum):
    """The ways in which an object names a version of a kind."""

    TYPE = "{apiVersion, kind}"
    RESOURCE = "{apiVersion, resource}"
    GROUP_KIND = "{group, version, kind}"
    GROUP_RESOURCE = "{group, version, resource}"
    RULE = "{apiGroups, apiVersions, resources}"
    TEXT = "group/version/Kind"
    URL = "/apis/group/version/resource"
    EXPRESSION = "'group/version' in an expression"


_GROUPS: Final = ("apiGroup", "apiGroups", "group", "groups")
_VERSIONS: Final = ("apiVersion", "apiVersions", "version", "versions")
_TYPES: Final = ("kind", "kinds", "resource", "resources")

_LEFT_OUT: Final = frozenset({"involvedObject", "regarding", "related"})
"""The fields for the subjects of Events, which are records that no client looks up."""

_PROSE: Final = frozenset({"description", "message", "messageExpression", "reason"})
"""The fields with texts for people, such as the API server's ``no matches for kind "Widget" in version "…"``."""

_OWN: Final = frozenset({"apiVersion", "kind", "metadata"})

_TEXT_FIELDS: Final = re.compile(
    r"(kinds|gv[kr]s?|groupversion(kind|resource)s?|apiversions|resources|expression|rego|urlpath)\Z", re.IGNORECASE
)
"""The names of declared fields that have room for a text or an expression."""

_LABELS: Final = re.compile(r"(labels|annotations|selector)\Z", re.IGNORECASE)
"""The names of maps of strings that name no versions; most kinds have one."""


@dataclass(frozen=True, slots=True)
class Mention:
    """One place that names a version.

    Attributes:
        of: the version.
        spelling: the way in which the place names it.
        steps: the place of the map or text.
        text: the place of the text with the version.
        template: that text with ``{}`` for the version; empty in expressions.
        holder: the map; empty for texts.
        goes_on: whether the same list or expression names another served version too.
    """

    of: SoughtVersion
    spelling: Spelling
    steps: Steps
    text: Steps
    template: str = ""
    holder: Mapping[str, Any] = field(default_factory=dict)
    goes_on: bool = False


class Spellings:
    """The texts by which objects name some versions, indexed for one walk over each object."""

    def __init__(self, versions: Iterable[SoughtVersion]) -> None:
        self.versions = tuple(versions)
        self._types: dict[str, list[SoughtVersion]] = {"*": list(self.versions)}
        self._texts: dict[str, list[tuple[SoughtVersion, str]]] = {}
        for of in self.versions:
            for name in of.types:
                self._types.setdefault(name, []).append(of)
            for template in _templates(of):
                self._texts.setdefault(_filled(template, of.version), []).append((of, template))
        self._short = {f"{of.version}/{of.kind}".encode() for of in self.versions}
        self._named: dict[bytes, list[bytes]] = {}
        for of in self.versions:
            self._named.setdefault(of.group.encode(), [b'*"']).extend((of.kind.encode(), of.plural.encode()))

    def may_be_in(self, text: bytes) -> bool:
        """Return whether an object may have a mention, from its JSON; quick, and true more often than needed."""
        return (
            any(group in text and any(name in text for name in names) for group, names in self._named.items())
            or any(short in text for short in self._short)
            or (b'"apiVersions"' in text and b'*"' in text)
        )

    def mentions(self, root: Any) -> Iterator[Mention]:
        """Yield each place in a value that names one of the versions."""
        expressions: list[tuple[Steps, str]] = []
        ruled: dict[SoughtVersion, bool] = {}
        stack: list[tuple[Steps, Any]] = [((), root)]
        while stack:
            steps, value = stack.pop()
            children: list[tuple[str | int, Any]]
            if isinstance(value, dict):
                yield from self._in_map(steps, value, ruled)
                children = [(key, child) for key, child in value.items() if key not in _LEFT_OUT]
            else:
                children = list(enumerate(value))
            siblings = value if isinstance(value, list) else ()
            for key, child in children:
                if isinstance(child, str) and key not in _PROSE:
                    if "/" in child:
                        yield from self._in_text((*steps, key), child, siblings)
                    if ("'" in child or '"' in child) and steps[:1] != ("status",):
                        expressions.append(((*steps, key), child))
            stack += [((*steps, key), child) for key, child in reversed(children) if isinstance(child, (dict, list))]
        for steps, expression in expressions:
            yield from self._in_expression(steps, expression, ruled)

    def _in_map(self, steps: Steps, value: Mapping[str, Any], ruled: dict[SoughtVersion, bool]) -> Iterator[Mention]:
        types = [text for key in _TYPES if key in value for _, text in texts_at(value, key)]
        near = dict.fromkeys(of for text in types for of in self._types.get(text.partition("/")[0], ()))
        if not near:
            return
        groups = {text for key in _GROUPS for _, text in texts_at(value, key)}
        for of in near:
            if "apiGroups" in value and groups & {of.group, "*"}:
                ruled[of] = ruled.get(of, False) or of.group in groups
            for key in _VERSIONS:
                for place, text in texts_at(value, key):
                    if text == of.api_version or (text == of.version and groups & {of.group, "*"}):
                        spelling = _spelling(value, key, of, whole=text == of.api_version)
                        template = text[: -len(of.version)] + "{}"
                        yield Mention(of, spelling, steps, (*steps, key, *place), template, value)

    def _in_text(self, steps: Steps, text: str, siblings: Sequence[Any]) -> Iterator[Mention]:
        for of, template in self._texts.get(text, []) or self._texts.get(text.rpartition("/")[0], []):
            goes_on = any(_filled(template, other) in siblings for other in of.others)
            more = text[len(_filled(template, of.version)) :]
            yield Mention(of, Spelling.TEXT, steps, steps, template + more, goes_on=goes_on)
        if "/apis/" in text:
            for of in self.versions:
                if re.search(rf"/apis/{re.escape(of.api_version)}/(.*/)?{of.plural}\b(?!-)", text):
                    yield Mention(of, Spelling.URL, steps, steps)

    def _in_expression(self, steps: Steps, text: str, ruled: Mapping[SoughtVersion, bool]) -> Iterator[Mention]:
        for of in self.versions:
            typed = any(_quotes(text, name) for name in of.types)
            if _quotes(text, of.api_version):
                found = typed or of in ruled
            else:
                found = "ersion" in text and _quotes(text, of.version)
                found = found and (ruled.get(of, False) or (typed and _quotes(text, of.group)))
            if found:
                others = [*of.others, *(f"{of.group}/{other}" for other in of.others)]
                goes_on = any(_quotes(text, other) for other in others)
                yield Mention(of, Spelling.EXPRESSION, steps, steps, goes_on=goes_on)


def _templates(of: SoughtVersion) -> tuple[str, ...]:
    """Return the texts that name a kind at a version, with ``{}`` for the version; the short ones are Kyverno's."""
    return f"{of.group}/{{}}/{of.kind}", f"{of.group}/{{}}/*", f"*/{{}}/{of.kind}", f"{{}}/{of.kind}"


def _filled(template: str, version: str) -> str:
    return template.replace("{}", version)


def _spelling(value: Mapping[str, Any], key: str, of: SoughtVersion, *, whole: bool) -> Spelling:
    if isinstance(value[key], list):
        return Spelling.RULE
    kind = any(text in of.types for name in ("kind", "kinds") for _, text in texts_at(value, name))
    if whole:
        return Spelling.TYPE if kind else Spelling.RESOURCE
    return Spelling.GROUP_KIND if kind else Spelling.GROUP_RESOURCE


def _quotes(text: str, what: str) -> bool:
    return f"'{what}'" in text or f'"{what}"' in text


def texts_at(value: Mapping[str, Any], key: str) -> list[tuple[Steps, str]]:
    """Return (place, text) of the string in a field; of each string in its list if its name is in the plural."""
    found = value.get(key)
    if not key.endswith("s"):
        return [((), found)] if isinstance(found, str) else []
    items = found if isinstance(found, list) else []
    return [((index,), each) for index, each in enumerate(items) if isinstance(each, str)]


def pointer_of(steps: Iterable[str | int]) -> str:
    """Return the JSON pointer (RFC 6901) of a place."""
    return "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in steps)


def object_name(obj: Object) -> tuple[str, str]:
    """Return namespace and name of an object; empty if it has none."""
    found = mapping(obj.get("metadata"))
    return str(found.get("namespace") or ""), str(found.get("name") or "")


def can_hold_mentions(schema: Mapping[str, Any] | None) -> bool:
    """Return whether objects of this schema can name a version below their own apiVersion and kind.

    If a CRD's schema declares every field and has no room for a spelling, the metadata of its objects is enough. There
    is room in open objects, in maps of strings other than labels, in maps with the fields of a spelling, and in fields
    whose name says that they hold a text or an expression.
    """
    if schema is None or schema.get("x-kubernetes-preserve-unknown-fields"):
        return True
    stack: list[tuple[str, Any]] = [
        (name, node) for name, node in mapping(schema.get("properties")).items() if name not in _OWN
    ]
    while stack:
        name, node = stack.pop()
        if not isinstance(node, dict):
            continue
        if node.get("x-kubernetes-preserve-unknown-fields") or node.get("x-kubernetes-embedded-resource"):
            return True
        fields, values = mapping(node.get("properties")), node.get("additionalProperties")
        if values is True or (_is_text(values) and not _LABELS.search(name)):
            return True
        if _has_fields(fields) or (_is_text(node) and _TEXT_FIELDS.match(name)):
            return True
        stack += [*fields.items(), ("", values), (name, node.get("items"))]
    return False


def _has_fields(fields: Mapping[str, Any]) -> bool:
    texts = {name for name, node in fields.items() if _is_text(node)}
    versioned = not texts.isdisjoint(_VERSIONS) and (not texts.isdisjoint(_GROUPS) or "apiVersion" in texts)
    return versioned and not texts.isdisjoint(_TYPES)


def _is_text(node: Any) -> bool:
    """Return whether a schema is that of a string, or of a list of strings."""
    each = node.get("items") if isinstance(node, dict) and node.get("type") == "array" else node
    return isinstance(each, dict) and each.get("type") == "string"


def mapping(value: Any) -> Mapping[str, Any]:
    """Return a value that is a JSON object; an empty one for any other."""
    return value if isinstance(value, dict) else {}
