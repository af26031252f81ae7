"""What must never change about an object, whatever version it is stored at: its content, and who owns which of it.

Both are said in the words of the old version, so that two states of an object compare across conversions. An owner's
share is the set of the object's *values* that are its own, list items named by their keys: a list owned as a whole and
the same list owned item by item are the same share. Written without restow's own code, so that it cannot agree with it
by accident. Pure.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

Document = dict[str, Any]
Path = tuple[str, ...]
Owner = tuple[str, str, str]
Shares = dict[Owner, frozenset[Path]]

KEYS = {"conditions": "type", "parts": "name"}
"""Lists that are keyed in some version, by the key."""

DEFAULT = "Retain"
"""The value of ``spec.policy`` that a new version may add by default."""

_HOST = ("host", "address")
_RENAMED = {"address": "host"}
_BOOKKEEPING = ("resourceVersion", "managedFields", "generation")
_NOBODYS = (("spec", "policy"), ("metadata", "name"))


def converted(found: Document, api_version: str) -> Document:
    """An object at another version, as a conversion webhook would answer: absent in, absent out."""
    moved = {"metadata": {}} | found | {"apiVersion": api_version}  # the server wants metadata, and need not send it
    spec = found.get("spec")
    if isinstance(spec, dict):
        was, wanted = (_host_at(version) for version in (found["apiVersion"], api_version))
        spec = dict(spec)
        if was != wanted and was in spec:
            spec[wanted] = spec.pop(was)
        if not api_version.endswith("/v2"):
            spec.pop("policy", None)
        moved["spec"] = spec
    return moved


def content(stored: Document) -> Document:
    """What an object says, in the old version's words, without what every write may change."""
    plain = {key: value for key, value in stored.items() if key not in ("apiVersion", "metadata")}
    plain["metadata"] = {key: value for key, value in stored["metadata"].items() if key not in _BOOKKEEPING}
    if isinstance(plain.get("spec"), dict):
        spec = {_RENAMED.get(key, key): value for key, value in plain["spec"].items()}
        if spec.get("policy") == DEFAULT:
            del spec["policy"]
        plain["spec"] = spec
    return plain


def shares(stored: Document) -> Shares:
    """Who owns which values of an object."""
    found: Shares = {}
    for entry in stored["metadata"].get("managedFields") or []:
        owner = (entry["manager"], entry["operation"], entry.get("subresource", ""))
        paths = {_renamed(path) for path in _owned(entry["fieldsV1"], stored, ())}
        found[owner] = found.get(owner, frozenset()) | frozenset(path for path in paths if path not in _NOBODYS)
    return {owner: paths for owner, paths in found.items() if paths}


def manifest(stored: Document, paths: frozenset[Path]) -> Document:
    """The part of an object that is at these paths, as a manifest without its name; at the version it is stored at."""
    made: Document = {}
    moved = "host" not in stored.get("spec", {})
    for path in sorted(paths):
        if path[0] != "metadata" or path[1] in ("labels", "annotations"):
            renamed = moved and path[:2] == ("spec", "host")
            _put(made, ("spec", "address", *path[2:]) if renamed else path, stored)
    return made


def _put(made: Document, path: Path, stored: Document) -> None:
    here: Any = made
    there: Any = stored
    for place, name in enumerate(path):
        last = place == len(path) - 1
        if isinstance(there, list):
            key = KEYS[path[place - 1]]
            there = next(item for item in there if item[key] == name)
            found = next((item for item in here if item[key] == name), None)
            if found is None:
                found = {key: name}
                here.append(found)
            here = found
            continue
        there = there[name]
        if last:
            here[name] = there
        else:
            here = here.setdefault(name, [] if isinstance(there, list) else {})


def _owned(fields: Document, live: Any, path: Path) -> Iterator[Path]:
    for element, node in fields.items():
        if element == ".":
            continue
        name, child = _step(element, live, path)
        if child is None:
            continue
        if not node or set(node) == {"."}:
            yield from _values(child, (*path, name))
        else:
            yield from _owned(node, child, (*path, name))


def _step(element: str, live: Any, path: Path) -> tuple[str, Any]:
    """The name of a path element, and the value it stands for; None where the object has none."""
    kind, _, rest = element.partition(":")
    if kind == "f":
        if path == ("spec",) and rest in _HOST and isinstance(live, dict):  # an entry may be of another version
            rest = next((name for name in _HOST if name in live), rest)
        return rest, live.get(rest) if isinstance(live, dict) else None
    if kind == "k" and isinstance(live, list):
        wanted = json.loads(rest)
        item = next((item for item in live if all(item.get(key) == value for key, value in wanted.items())), None)
        return str(wanted[KEYS[path[-1]]]), item
    return element, None


def _values(live: Any, path: Path) -> Iterator[Path]:
    if isinstance(live, dict) and live:
        for name, child in live.items():
            yield from _values(child, (*path, name))
    elif isinstance(live, list) and live and path[-1] in KEYS:
        for item in live:
            yield from _values(item, (*path, str(item[KEYS[path[-1]]])))
    else:
        yield path


def _renamed(path: Path) -> Path:
    return (path[0], _RENAMED.get(path[1], path[1]), *path[2:]) if len(path) > 1 and path[0] == "spec" else path


def _host_at(api_version: str) -> str:
    return "host" if not api_version.endswith("/v2") else "address"
