"""Random kinds for the property tests: two versions' schemas with the rules between them, grown together."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import Any

from hypothesis import strategies as st

from restow.conversion import ABSENT, Graph, Registry, rules
from restow.crds import Crd, Schema

GROUP, KIND = "random.example.dev", "Thing"
SCALARS = (
    {"type": "string"},
    {"type": "integer"},
    {"type": "boolean"},
    {"type": "number"},
    {"type": "string", "nullable": True},
)
ANYTHING = {"x-kubernetes-preserve-unknown-fields": True}
LEAF_RULES = (
    "same",
    "rename",
    "move",
    "enum",
    "enum lossy",
    "wrap",
    "unwrap",
    "constant",
    "spoke constant",
    "default",
    "hub default",
    "shown default",
    "object default",
    "default around",
    "stash",
    "spoke stash",
    "drop",
    "pair",
    "group",
    "functions",
    "swap",
    "collapse",
    "annotation",
    "box",
    "deep box",
    "lift",
    "lift lens",
    "sink",
)
FAR_RULES = ("box", "deep box", "lift", "lift lens", "sink")
NESTED_RULES = (
    "object",
    "required object",
    "each",
    "keyless each",
    "each_value",
    "inside",
    "renamed each",
    "hidden each",
    "plain list",
    "union",
    "presence",
    "tree",
    "opaque each",
    "described",
)


@dataclass
class Scope:
    """What one object has in either version, and the rules of it."""

    spoke: dict[str, Any] = field(default_factory=dict)
    hub: dict[str, Any] = field(default_factory=dict)
    rules: list[rules.Rule] = field(default_factory=list)
    required: list[str] = field(default_factory=list)

    def schemas(self) -> tuple[dict[str, Any], dict[str, Any]]:
        more = {"required": self.required} if self.required else {}
        return obj(self.spoke, **more), obj(self.hub, **more)


def obj(properties: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, **more}


def keyed(items: dict[str, Any], key: str = "id") -> dict[str, Any]:
    return {
        "type": "array",
        "items": {**items, "required": [*items.get("required", ()), key]},
        "x-kubernetes-list-type": "map",
        "x-kubernetes-list-map-keys": [key],
    }


def negated(value: Any) -> Any:
    return not value if isinstance(value, bool) else value


def summed(leaves: dict[str, Any]) -> Any:
    return [[name, value] for name, value in sorted(leaves.items())]


def parted(value: Any) -> Any:
    return dict(value) if isinstance(value, list) else ABSENT


def is_secret(item: dict[str, Any]) -> bool:
    return item.get("secret") is True


def clamped(value: Any) -> Any:
    return max(-10, min(10, value)) if isinstance(value, int) else value


@st.composite
def scopes(
    draw: st.DrawFn,
    depth: int = 2,
    *,
    path: str = "",
    root: bool = False,
    top: Scope | None = None,
    branch: bool = False,
) -> Scope:
    """Draw an object; paths in rules of nested plain objects start at the enclosing scope (`top`), as authors write.

    Rules of one `branch` fill in no required field: objects of the other branches would lack it.
    """
    scope = Scope()
    leaves = tuple(kind for kind in LEAF_RULES if not branch or kind != "object default")
    kinds = leaves if depth == 0 else leaves + NESTED_RULES * 2
    for number, kind in enumerate(draw(st.lists(st.sampled_from(kinds), max_size=5))):
        name = f"{'abcdef'[number]}{kind[:2].replace(' ', '')}"
        if kind in NESTED_RULES:
            nested(draw, scope, kind, name, path, depth, top or scope)
        elif kind in FAR_RULES:
            far(draw, scope, kind, name, path, draw(st.sampled_from(SCALARS)), top or scope)
        else:
            leaf(draw, scope, kind, name, path, draw(st.sampled_from(SCALARS)), root)
    return scope


def far(draw: Any, scope: Scope, kind: str, name: str, path: str, schema: dict[str, Any], top: Scope) -> None:
    """Add rules that tie fields of different objects together: of one that is made, or of the scope's root."""
    a, b, lifted = name, f"{name}New", f"{path.replace('.', '')}{name}Up"
    match kind:
        case "box" | "deep box":
            inner = {b: schema, "kind": {"type": "string"}, "count": {"type": "integer"}, "hidden": schema}
            where = f"{name}Box" if kind == "box" else f"{name}Box.in"
            scope.spoke |= {a: schema, f"{name}Count": {"type": "integer"}}
            scope.hub[f"{name}Box"] = obj(inner) if kind == "box" else obj({"in": obj(inner), "kind": schema})
            if kind == "deep box":
                scope.rules.append(rules.stash(hub=f"{path}{name}Box.kind"))
            scope.rules += [
                rules.move(path + a, f"{path}{where}.{b}"),
                rules.default(f"{path}{name}Count", 1, hub=f"{path}{where}.count"),
                rules.constant(hub=f"{path}{where}.kind", value="fixed"),
                rules.stash(hub=f"{path}{where}.hidden"),
            ]
        case "lift" if draw(st.booleans()):
            scope.spoke[a] = top.hub[lifted] = schema
            scope.rules.append(rules.move(path + a, lifted))
        case "lift":
            scope.spoke[a] = top.hub[lifted] = {"type": "integer"}
            scope.rules.append(rules.default(path + a, 1, hub=lifted))
        case "lift lens":
            scope.spoke[a] = top.hub[lifted] = {"type": "integer"}
            scope.rules.append(rules.pair(path + a, lifted, up=clamped, down=clamped, loses="both"))
        case "sink":
            top.spoke[lifted] = scope.hub[a] = schema
            scope.rules.append(rules.move(lifted, path + a))


def leaf(draw: Any, scope: Scope, kind: str, name: str, path: str, schema: dict[str, Any], root: bool) -> None:
    a, b = name, f"{name}New"
    letters, words = {"type": "string", "enum": ["a", "b"]}, {"type": "string", "enum": ["A", "B", "C"]}
    match kind:
        case "same":
            scope.spoke[a] = scope.hub[a] = schema
        case "rename":
            scope.spoke[a], scope.hub[b] = schema, schema
            scope.rules.append(rules.rename(path + a, path + b))
        case "move":
            where = draw(st.sampled_from(["shared", "private"]))
            scope.spoke[a] = schema
            box = obj({b: schema, "rest": {"type": "string"}}) if where == "shared" else obj({b: schema})
            scope.hub[f"{name}Box"] = box
            if where == "shared":
                scope.spoke[f"{name}Box"] = obj({"rest": {"type": "string"}})
            scope.rules.append(rules.move(path + a, f"{path}{name}Box.{b}"))
        case "enum":
            scope.spoke[a], scope.hub[a] = letters, {"type": "string", "enum": ["A", "B"]}
            scope.rules.append(rules.enum(path + a, {"a": "A", "b": "B"}))
        case "enum lossy":
            scope.spoke[a], scope.hub[b] = letters, words
            scope.rules.append(rules.enum(path + a, {"a": "A", "b": "B"}, hub=path + b, down={"C": "a"}))
        case "wrap":
            scope.spoke[a], scope.hub[b] = schema, {"type": "array", "items": schema}
            scope.rules.append(rules.wrap(path + a, f"{path}{b}[]"))
        case "unwrap":
            scope.spoke[a], scope.hub[b] = {"type": "array", "items": schema}, schema
            scope.rules.append(rules.unwrap(f"{path}{a}[]", path + b))
        case "constant":
            scope.hub[a] = {"type": "string"}
            scope.rules.append(rules.constant(hub=path + a, value="fixed"))
        case "spoke constant":
            scope.spoke[a] = {"type": "integer"}
            scope.rules.append(rules.constant(path + a, 7))
        case "default":
            scope.spoke[a] = {"type": "integer"}
            scope.hub[b] = {"type": "integer"}
            scope.rules.append(rules.default(path + a, 1, hub=path + b))
        case "hub default" | "shown default":
            scope.spoke[a] = {"type": "integer"}
            scope.hub[b] = {"type": "integer"}
            side, hides = ("hub", draw(st.booleans())) if kind == "hub default" else ("spoke", False)
            scope.rules.append(rules.default(path + a, 1, hub=path + b, omitted_in=side, hides=hides))
        case "object default":
            side, hides = draw(st.sampled_from(["spoke", "hub"])), draw(st.booleans())
            scope.spoke[a] = obj({"old": schema, "n": {"type": "integer"}, "own": schema})
            scope.hub[a] = obj({"new": schema, "n": {"type": "integer"}})
            filled = scope.hub if side == "spoke" else scope.spoke
            filled[a] |= {"required": ["n"]}
            scope.rules += [
                rules.default(path + a, {}, omitted_in=side, hides=hides),
                rules.default(f"{path}{a}.n", 1, omitted_in=side, hides=draw(st.booleans())),
                rules.rename(f"{path}{a}.old", f"{path}{a}.new"),
                rules.stash(f"{path}{a}.own"),
            ]
        case "default around":
            side, hides = draw(st.sampled_from(["spoke", "hub"])), draw(st.booleans())
            scope.spoke[a], scope.hub[b] = letters, {"type": "string", "enum": ["A", "B"]}
            scope.rules += [
                rules.enum(path + a, {"a": "A", "b": "B"}, hub=path + b),
                rules.default(path + a, "A" if side == "spoke" else "a", hub=path + b, omitted_in=side, hides=hides),
            ]
        case "stash":
            scope.hub[a] = draw(st.sampled_from([schema, obj({"x": schema, "y": schema})]))
            scope.rules.append(rules.stash(hub=path + a))
        case "spoke stash":
            scope.spoke[a] = schema
            scope.rules.append(rules.stash(path + a))
        case "drop":
            scope.spoke[a] = schema
            scope.rules.append(rules.drop(path + a, acknowledge="nobody reads it"))
        case "pair":
            scope.spoke[a] = scope.hub[a] = {"type": "boolean"}
            scope.rules.append(rules.pair(path + a, path + a, up=negated, down=negated))
        case "group":
            pair_of = (path + a, path + b)
            scope.spoke |= {a: {"type": "integer"}, b: {"type": "string"}}
            scope.hub[f"{name}Sum"] = {
                "type": "array",
                "items": {"type": "array", "items": {"x-kubernetes-int-or-string": True}},
            }
            target = f"{path}{name}Sum"
            scope.rules.append(
                rules.pair(
                    pair_of,
                    target,
                    up=summed,
                    down=lambda v, known=pair_of: (
                        {key: part for key, part in parted(v).items() if key in known} if pairs(v) else {}
                    ),
                    loses="down",
                )
            )
        case "functions":
            scope.spoke[a], scope.hub[b] = {"type": "integer"}, {"type": "integer"}
            scope.rules.append(
                rules.functions(
                    spoke=[path + a],
                    hub=[path + b],
                    up=partial(moved, source=path + a, target=path + b, change=clamped),
                    down=partial(moved, source=path + b, target=path + a, change=clamped),
                    loses="both",
                )
            )
        case "swap":
            scope.spoke |= {a: schema, b: schema}
            scope.hub |= {a: schema, b: schema}
            scope.rules += [rules.rename(path + a, path + b), rules.rename(path + b, path + a)]
        case "collapse":
            scope.spoke[a], scope.hub[a] = obj({"in": schema, "more": {"type": "string"}}), schema
            scope.rules += [rules.move(f"{path}{a}.in", path + a), rules.stash(f"{path}{a}.more")]
        case "annotation" if root and not path:
            scope.hub[a] = {"type": "string"}
            scope.rules.append(rules.move(f'metadata.annotations["x.dev/{name}"]', a))


def pairs(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(v, list) and len(v) == 2 and isinstance(v[0], str) for v in value)


def moved(tree: dict[str, Any], source: str, target: str, change: Any) -> dict[str, Any]:
    value: Any = tree
    for step in source.split("."):
        value = value[step]
    value = change(value)
    for step in reversed(target.split(".")):
        value = {step: value}
    return dict(value)


def nested(draw: Any, scope: Scope, kind: str, name: str, path: str, depth: int, top: Scope) -> None:
    if kind in ("object", "required object"):
        inner = draw(scopes(depth - 1, path=f"{path}{name}.", top=top))
        if kind == "required object":
            scope.required.append(name)
        scope.spoke[name], scope.hub[name] = inner.schemas()
        scope.rules += inner.rules
        return
    if kind in ("union", "presence"):
        branches(draw, scope, kind, name, path, top)
        return
    inner = draw(scopes(0 if kind in ("tree", "opaque each", "described") else depth - 1))
    spoke, hub = inner.schemas()
    identity = {"id": {"type": "string"}}
    target = f"{name}New" if draw(st.booleans()) else name
    match kind:
        case "each":
            spoke["properties"] |= identity
            hub["properties"] |= identity
            scope.spoke[name], scope.hub[target] = keyed(spoke), keyed(hub)
            scope.rules.append(rules.each(path + name, inner.rules, hub=path + target, key="id"))
        case "hidden each":
            spoke["properties"] |= identity
            hub["properties"] |= {**identity, "secret": {"type": "boolean"}}
            scope.spoke[name], scope.hub[target] = keyed(spoke), keyed(hub)
            declared = [*inner.rules, rules.stash(hub="secret")]
            scope.rules.append(rules.each(path + name, declared, hub=path + target, key="id", hide=is_secret))
        case "renamed each":
            spoke["properties"]["name"] = {"type": "string"}
            hub["properties"] |= identity
            scope.spoke[name], scope.hub[target] = keyed(spoke, "name"), keyed(hub)
            scope.rules.append(
                rules.each(path + name, [*inner.rules, rules.rename("name", "id")], hub=path + target, key="id")
            )
        case "keyless each":
            scope.spoke[name], scope.hub[target] = (
                {"type": "array", "items": spoke},
                {"type": "array", "items": hub},
            )
            no_key = "random items have none"
            scope.rules.append(rules.each(path + name, inner.rules, hub=path + target, acknowledge=no_key))
        case "each_value":
            scope.spoke[name] = {"type": "object", "additionalProperties": spoke}
            scope.hub[target] = {"type": "object", "additionalProperties": hub}
            scope.rules.append(rules.each_value(path + name, inner.rules, hub=path + target))
        case "inside":
            scope.spoke[name], scope.hub[target] = spoke, hub
            scope.rules.append(rules.inside(path + name, inner.rules, hub=path + target))
        case "tree":
            tree(draw, scope, inner, name, target, path)
        case "opaque each":
            scope.spoke[name] = scope.hub[target] = ANYTHING
            if draw(st.booleans()):
                scope.rules.append(
                    rules.each(path + name, inner.rules, hub=path + target, acknowledge="no schema, no key")
                )
            else:
                scope.rules.append(rules.inside(path + name, inner.rules, hub=path + target))
        case "described":
            opaque = draw(st.sampled_from([ANYTHING, {"type": "object", **ANYTHING}]))
            by = draw(st.sampled_from(["spoke", "hub"]))
            scope.spoke[name], scope.hub[target] = (spoke, opaque) if by == "spoke" else (opaque, spoke)
            scope.rules.append(rules.described(path + name, path + target, by=by))
        case "plain list":
            scope.spoke[name] = scope.hub[name] = {"type": "array", "items": spoke}


def branches(draw: Any, scope: Scope, kind: str, name: str, path: str, top: Scope) -> None:
    """Add a union of two branches with rules of their own, and one field that either branch calls something else."""
    spoke_type, hub_type, values = name, draw(st.sampled_from([name, f"{name}New"])), ("a", "b")
    if kind == "union":
        how = draw(st.sampled_from(["same", "enum", "default"]))
        values = ("A", "B", "C") if how == "enum" else ("a", "b", "c")
        scope.spoke[spoke_type] = {"type": "string", "enum": ["a", "b", "c"]}
        scope.hub[hub_type] = {"type": "string", "enum": [*values]}
        ends = (path + spoke_type, path + hub_type)
        if how == "enum":
            scope.rules.append(rules.enum(ends[0], {"a": "A", "b": "B", "c": "C"}, hub=ends[1]))
        elif how == "default":
            scope.rules.append(rules.default(ends[0], "a", hub=ends[1]))
        elif spoke_type != hub_type:
            scope.rules.append(rules.rename(*ends))
    scope.spoke[f"{name}Size"] = draw(st.sampled_from(SCALARS))
    for branch in ("a", "b"):
        box, size = f"{name}{branch}Box", f"{name}{branch}Size"
        inner = draw(scopes(0, path=f"{path}{box}.", top=top, branch=True))
        scope.spoke[box], scope.hub[box] = inner.schemas()
        declared = [*inner.rules, rules.rename(f"{path}{name}Size", path + size)]
        scope.hub[size] = scope.spoke[f"{name}Size"]
        if kind == "union":
            equals = ["a", "c"] if branch == "a" and draw(st.booleans()) else branch
            scope.rules.append(rules.when(declared, field=path + spoke_type, equals=equals, hub=path + hub_type))
        else:
            scope.rules.append(rules.when(declared, has=path + box))


def tree(draw: Any, scope: Scope, inner: Scope, name: str, target: str, path: str) -> None:
    """Add a tree whose schema ends on its third level, where anything goes."""
    ours, theirs = ("kids", "kids") if draw(st.booleans()) else ("kids", "children")
    spoke, hub = inner.schemas()
    below: dict[str, Any] = {"type": "array", "items": {"x-kubernetes-preserve-unknown-fields": True}}
    levels = (below, below)
    for _ in range(2):
        levels = (
            {"type": "array", "items": {**spoke, "properties": {**spoke["properties"], ours: levels[0]}}},
            {"type": "array", "items": {**hub, "properties": {**hub["properties"], theirs: levels[1]}}},
        )
    again = [f"{ours}[]"] if ours == theirs else {f"{ours}[]": f"{theirs}[]"}
    if draw(st.booleans()):
        scope.spoke[name], scope.hub[target] = levels
        scope.rules.append(rules.each(path + name, inner.rules, hub=path + target, recurse=again, acknowledge="atomic"))
    else:
        scope.spoke[name], scope.hub[target] = levels[0]["items"], levels[1]["items"]
        scope.rules.append(rules.inside(path + name, inner.rules, hub=path + target, recurse=again))


def crd(versions: dict[str, dict[str, Any]], *, group: str = GROUP, kind: str = KIND) -> Crd:
    """Return a CRD whose first version is the storage version."""
    plural = f"{kind.lower()}s"
    return Crd.from_document(
        {
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {"name": f"{plural}.{group}"},
            "spec": {
                "group": group,
                "scope": "Namespaced",
                "names": {"kind": kind, "plural": plural},
                "versions": [
                    {
                        "name": name,
                        "served": True,
                        "storage": not index,
                        "schema": {"openAPIV3Schema": schema},
                    }
                    for index, (name, schema) in enumerate(versions.items())
                ],
            },
        }
    )


def freeze(spokes: dict[str, list[rules.Rule]], document: Crd, *, hub: str = "v2", **options: Any) -> Graph:
    """Freeze one kind from its spokes' rules."""
    registry = Registry()
    kind = registry.kind(document.group, document.kind, hub=hub, **options)
    for version, declared in spokes.items():
        kind.spoke(version)(partial(list, declared))
    return registry.freeze([document])


@st.composite
def kinds(draw: st.DrawFn) -> tuple[Graph, Crd]:
    """Draw a kind with the hub v2 and the spoke v1, frozen and thus found complete."""
    scope = draw(scopes(root=True))
    spoke, hub = scope.schemas()
    document = crd({"v2": hub, "v1": spoke})
    return freeze({"v1": scope.rules}, document), document


@st.composite
def families(draw: st.DrawFn, **options: Any) -> tuple[Graph, dict[str, Schema]]:
    """Draw a kind of more versions, and their schemas.

    v1 is the drawn spoke and v0 one just like it, so that there is a way from spoke to spoke; v3 is like the hub, which
    is v2 or no version at all.
    """
    scope = draw(scopes(root=True))
    spoke, hub = scope.schemas()
    spokes: dict[str, list[rules.Rule]] = {"v1": scope.rules, "v0": scope.rules, "v3": []}
    if draw(st.booleans()):
        document = crd({"v2": hub, "v1": spoke, "v0": spoke, "v3": hub})
        graph = freeze(spokes, document, **options)
    else:
        document = crd({"v3": hub, "v1": spoke, "v0": spoke})
        derived = hub if draw(st.booleans()) else None
        graph = freeze(spokes, document, hub="internal", hub_schema=derived, **options)
    return graph, {version.name: version.schema for version in document.versions}
