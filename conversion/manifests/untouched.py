"""Finds the parts of a manifest that a conversion does not reach: template expressions, and other mentions of kinds.

A computed field must not be made from a template expression (Helm, envsubst, Kubernetes variables). ``without`` takes
such fields out of an object before a conversion, and ``with_spared`` puts them back where they were.

``mentions`` reports versions of converted kinds in these places:

- other kinds of the same group, for which there are no rules: they stay at their version;
- Kustomize: patches and targets name a group, version and kind, and are parts of objects;
- ConfigMaps and Secrets can hold manifests as text.

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from restow.conversion.model.errors import ObjectError
from restow.conversion.model.fieldpath import Steps, pointer, value_at
from restow.conversion.model.values import ABSENT, Json

_TEMPLATE: Final = re.compile(r"\{\{|\$\{|\$\(")
_PATCHES: Final = ("patches", "patchesStrategicMerge", "patchesJson6902", "replacements", "vars")


def has_template(value: Any) -> bool:
    """Return whether a text in a value has an expression that a tool replaces later: ``{{``, ``${`` or ``$(``."""
    if isinstance(value, str):
        return _TEMPLATE.search(value) is not None
    if isinstance(value, dict):
        return any(has_template(child) for child in value.values())
    return isinstance(value, list) and any(has_template(child) for child in value)


def mentions(obj: Json, versions: Mapping[tuple[str, str], str]) -> Iterator[str]:
    """Yield a sentence for each place of an object of another kind that names a converted kind.

    ``versions`` are the apiVersions that kinds are converted to, by (group, kind).
    """
    groups = {group for group, _ in versions}
    group, _, _ = str(obj.get("apiVersion", "")).rpartition("/")
    kind = obj.get("kind")
    if group in groups and isinstance(kind, str):
        known = ", ".join(sorted(name for its_group, name in versions if its_group == group))
        yield f"stays at {obj['apiVersion']}: there are rules for {known} of {group}, and none for {kind}"
    if kind in ("Kustomization", "Component") or any(name in obj for name in _PATCHES):
        yield from _kustomize(obj, versions)
    elif kind in ("ConfigMap", "Secret"):
        for section in ("data", "stringData"):
            texts = obj.get(section)
            for name, text in texts.items() if isinstance(texts, dict) else ():
                found = _old(text, versions) if isinstance(text, str) else None
                if found:
                    yield f"{pointer((section, name))} holds a manifest with {found}: convert it by hand"


def _kustomize(obj: Json, versions: Mapping[tuple[str, str], str]) -> Iterator[str]:
    for section in _PATCHES:
        entries = obj.get(section)
        for index, entry in enumerate(entries if isinstance(entries, list) else ()):
            place = (section, index)
            if isinstance(entry, str):
                entry = {"patch": entry}  # noqa: PLW2901  # patchesStrategicMerge has the patch itself, or a file
            if not isinstance(entry, dict):
                continue
            for key in ("target", "source", "objref"):
                yield from _target(entry.get(key), (*place, key), versions)
            for number, target in enumerate(entry["targets"] if isinstance(entry.get("targets"), list) else ()):
                select = target.get("select") if isinstance(target, dict) else None
                yield from _target(select, (*place, "targets", number, "select"), versions)
            text = entry.get("patch")
            found = _old(text, versions) if isinstance(text, str) else None
            if found:
                yield f"{pointer(place)} is a patch of {found}: convert it by hand"


def _target(target: Any, place: tuple[str | int, ...], versions: Mapping[tuple[str, str], str]) -> Iterator[str]:
    if not isinstance(target, dict):
        return
    group, version = target.get("group"), target.get("version")
    if isinstance(target.get("apiVersion"), str):
        group, _, version = target["apiVersion"].rpartition("/")
    wanted = versions.get((str(group), str(target.get("kind"))))
    if wanted is not None and version is not None and f"{group}/{version}" != wanted:
        yield (
            f"{pointer(place)} selects {target['kind']} at {group}/{version}: it will not find objects at {wanted}; "
            "correct the version, and the paths of its patch"
        )


def _old(text: str, versions: Mapping[tuple[str, str], str]) -> str | None:
    """Return the apiVersion and kind of the first converted kind that a text has at another version."""
    for (group, kind), wanted in versions.items():
        for found in re.finditer(rf"{re.escape(group)}/(v[0-9a-z]+)", text):
            if found[0] != wanted and re.search(rf"\bkind[\"']?\s*:\s*[\"']?{re.escape(kind)}\b", text):
                return f"{kind} at {found[0]}"
    return None


def without(obj: Json, places: Iterable[Steps]) -> Json:
    """Return an object without the fields at these places; the objects around them stay."""
    for place in places:
        obj = _changed(obj, place, ABSENT)
    return obj


def with_spared(result: Json, source: Json, places: Iterable[Steps]) -> Json:
    """Return a converted object with the fields of its source at these places.

    Raises:
        ObjectError: the object around such a field has moved, so there is no place for the field.
    """
    for place in places:
        in_list = any(isinstance(step, int) for step in place)
        if in_list and value_at(result, place[:-1]).__class__ is not value_at(source, place[:-1]).__class__:
            reason = "the field has a template expression, from which a rule would compute; convert the object by hand"
            raise ObjectError(reason, pointer=pointer(place))
        if value_at(result, place) is ABSENT:
            result = _changed(result, place, value_at(source, place))
    return result


def _changed(value: Any, place: Steps, new: Any) -> Any:
    step, rest = place[0], place[1:]
    if isinstance(value, list) and isinstance(step, int):
        child = _changed(value[step], rest, new) if rest else new
        return [*value[:step], *([] if child is ABSENT else [child]), *value[step + 1 :]]
    if not isinstance(value, dict):
        return value
    child = _changed(value.get(str(step), {}), rest, new) if rest else new
    if child is ABSENT:
        return {name: each for name, each in value.items() if name != step}
    return {**value, str(step): child}
