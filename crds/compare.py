"""The effects of a schema change on objects and their owners.

Before it writes, the migrator compares two versions of a CRD: whether renaming the version is enough to translate a
managedFields entry, whether a re-encode would persist a default, whether it would drop a field. Every result is a
tuple of paths (``restow.crds.paths``), each once, in the order of the document.

Pure. No function mutates a schema or an object. Every walk ends, because it follows declared nodes and a document has
finitely many.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from restow.crds.ownedpaths import children
from restow.crds.paths import ROOT, field_path, items_path, values_path
from restow.crds.schema import ANY, IMPLICIT_PROPERTIES, UNDESCRIBED, Schema
from restow.crds.schemadiff import common, names, shared

if TYPE_CHECKING:
    from collections.abc import Iterator


def topology_differences(old: Schema, new: Schema) -> tuple[str, ...]:
    """Return the places that both schemas know but own differently.

    A place differs if one schema owns it as one leaf and the other as many (atomic against set, map or granular), if a
    list is a set in one schema and a map in the other or has other keys, or if no kind of value fits both (scalar
    against list). Nothing below such a place is compared, except below lists that differ only in their keys. A place of
    any type compares by what both schemas admit: ``any`` is a granular map and an atomic list. If the result is empty,
    an entry of managedFields can move between the versions by renaming.
    """
    return _unique(place.path for place in shared(old, new, _owned_by_part) if _owned_otherwise(place.old, place.new))


def retyped_fields(old: Schema, new: Schema) -> tuple[str, ...]:
    """Return the places where ``old`` admits a value whose type ``new`` does not admit.

    An object with such a value can be read at the new version, but the API server cannot type it. The server then finds
    no owner for any field of the object, and a write empties managedFields. Places within atomic lists count too.
    """
    return _unique(
        place.path
        for place in shared(old, new, lambda old, _: (old.admits_list, old.admits_map))
        if (place.old.admits_list and not place.new.admits_list)
        or (place.old.admits_map and not place.new.admits_map)
        or place.old.scalars - place.new.scalars
    )


def added_defaults(old: Schema, new: Schema, *, webhook: bool = False) -> tuple[str, ...]:
    """Return the places where ``new`` has a default that an object stored under ``old`` may lack.

    The server inserts a default where the parent object exists and the field is missing, or null although the field is
    not nullable. So a place counts unless ``old`` rules that out: ``old`` has its own default, requires the field, or
    does not know a parent object that ``new`` does not create by a default. Defaults of items and map values only
    replace null. Objects inside a defaulted object count with it.

    With ``webhook``, objects come through a conversion webhook. A webhook may produce any field that ``new`` declares,
    so only a default at the same place of ``old`` rules a place out.

    The object's own metadata has no defaults and is skipped; the metadata of an embedded resource may have some.
    Source: apiextensions ``schema/defaulting``.
    """
    return _unique(_added_defaults(old, new, ROOT, webhook=webhook))


def dropped_fields(old: Schema, new: Schema) -> tuple[str, ...]:
    """Return the places that ``old`` keeps and ``new`` prunes, without the places below them.

    A declared field is listed by its own path. The values of a map are listed as ``{}`` where ``new`` has no map. An
    object is listed by its path where ``old`` keeps its undeclared fields and ``new`` does not.
    """
    return _unique(_dropped(old, new, ROOT))


def pruned_paths(obj: Mapping[str, Any], schema: Schema) -> tuple[str, ...]:
    """Return the places of an object that the API server drops when it writes it under ``schema``.

    Only the uppermost dropped fields are listed. Unknown fields of metadata (also of embedded resources) are included.
    Null values that the server drops are not, because they hold no data.
    Source: apiextensions ``schema/pruning`` and ``schema/objectmeta``.
    """
    return _unique(_pruned(obj, schema, ROOT))


def _unique(paths: Iterator[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(paths))


def _owned_by_part(old: Schema, new: Schema) -> tuple[bool, bool]:
    lists, maps = common(old, new)
    return (
        lists and old.list_type == new.list_type != "atomic",
        maps and old.map_type == new.map_type == "granular",
    )


def _owned_otherwise(old: Schema, new: Schema) -> bool:
    lists, maps = common(old, new)
    if not (lists or maps or (old.admits_scalar and new.admits_scalar)):
        return True
    return (lists and _list_topology(old) != _list_topology(new)) or (maps and old.map_type != new.map_type)


def _list_topology(schema: Schema) -> tuple[str | None, frozenset[str]]:
    return schema.list_type, frozenset(schema.list_keys)


def _added_defaults(old: Schema | None, new: Schema, path: str, *, webhook: bool) -> Iterator[str]:
    """Walk ``new`` with its counterpart ``old``, which is None where a default or a webhook created the value."""
    if old is None or webhook or old.admits_map:
        yield from _added_defaults_of_fields(old, new, path, webhook=webhook)
        yield from _added_defaults_of_values(old, new, path, webhook=webhook)
    items = _described(new.items)
    if items and (old is None or webhook or old.admits_list):
        old_items = (old.items or UNDESCRIBED) if old else None
        yield from _default_for_null(old_items, items, items_path(path), webhook=webhook)
        yield from _added_defaults(old_items, items, items_path(path), webhook=webhook)


def _added_defaults_of_fields(old: Schema | None, new: Schema, path: str, *, webhook: bool) -> Iterator[str]:
    for name, node in _declared(new).items():
        if new.is_root and name in IMPLICIT_PROPERTIES:
            continue
        new_field, old_field = Schema(node), _stored_field(old, name)
        below = field_path(path, name)
        if new_field.has_default and _may_lack(old, name, new_field, webhook=webhook):
            yield below
        if old is None or old_field or new_field.has_default or webhook:
            yield from _added_defaults(old_field, new_field, below, webhook=webhook)


def _added_defaults_of_values(old: Schema | None, new: Schema, path: str, *, webhook: bool) -> Iterator[str]:
    values = _described(new.values)
    if values is None:
        return
    below = values_path(path)
    for old_value in _stored_values(old, new, webhook=webhook):
        yield from _default_for_null(old_value, values, below, webhook=webhook)
        yield from _added_defaults(old_value, values, below, webhook=webhook)


def _stored_values(old: Schema | None, new: Schema, *, webhook: bool) -> Iterator[Schema | None]:
    """Yield the schemas under which the values of the map ``new`` may have been stored."""
    if old is None or (webhook and not old.values):
        yield None
        return
    if old.values:
        yield old.values
    for name, field in old.properties.items():
        if not new.is_declared(name):
            yield field


def _stored_field(old: Schema | None, name: str) -> Schema | None:
    """Return the field of ``old`` as declared, because the metadata of an embedded resource may have defaults."""
    if old is None:
        return None
    node = _declared(old).get(name)
    return old.field(name) if node is None else Schema(node, legacy=old.legacy)


def _declared(schema: Schema) -> Mapping[str, Mapping[str, Any]]:
    return schema.node.get("properties") or {}


def _described(schema: Schema | None) -> Schema | None:
    return None if schema is ANY or schema is UNDESCRIBED else schema


def _may_lack(old: Schema | None, name: str, new_field: Schema, *, webhook: bool) -> bool:
    if old is None or name not in _declared(old):  # a default of map values does not fill in a missing one
        return True
    old_field = Schema(_declared(old)[name])
    may_be_null = old_field.nullable and not new_field.nullable
    if old_field.has_default:
        return may_be_null
    return webhook or may_be_null or name not in old.required


def _default_for_null(old: Schema | None, new: Schema, path: str, *, webhook: bool) -> Iterator[str]:
    if not new.has_default or new.nullable:
        return
    if old is None or old.nullable or old.kind == "any" or (webhook and not old.has_default):
        yield path


def _dropped(old: Schema, new: Schema, path: str) -> Iterator[str]:
    if old.node is new.node and (old.unpruned, old.legacy) == (new.unpruned, new.legacy):
        return
    yield from _dropped_values(old, new, path)
    for name in names(old, new):
        if new.is_root and name in IMPLICIT_PROPERTIES:  # unknown metadata of an object was never stored
            continue
        old_field, new_field = old.field(name), new.field(name)
        below = field_path(path, name)
        if old_field and new_field:
            yield from _dropped(old_field, new_field, below)
        elif old_field:
            yield below
    yield from _dropped_items(old, new, path)


def _dropped_values(old: Schema, new: Schema, path: str) -> Iterator[str]:
    if old.values is None or not old.admits_map:
        return
    if new.values is not None:
        yield from _dropped(old.values, new.values, values_path(path))
    elif old.values is not ANY:
        yield values_path(path)
    elif new.admits_map or old.kind == "map":  # an untyped value that `new` does not admit is refused, not pruned
        yield path


def _dropped_items(old: Schema, new: Schema, path: str) -> Iterator[str]:
    if old.items is None or not old.admits_list or (old.kind == "any" and not new.admits_list):
        return
    if new.items is not None or old.items is not ANY:  # otherwise the place itself is already listed
        yield from _dropped(old.items, new.items or UNDESCRIBED, items_path(path))


def _pruned(value: object, schema: Schema, path: str) -> Iterator[str]:
    for step, child, below in children(value, schema):
        if not isinstance(step, str):
            yield from _pruned(child, below or UNDESCRIBED, items_path(path))
        elif below is None:
            yield field_path(path, step)
        else:
            yield from _pruned(child, below, field_path(path, step))
