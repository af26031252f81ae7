"""Converts a manifest: a stream of YAML or JSON documents, each one object or a list of them.

All text that the conversion does not change stays as it was.

A computed field must not be made from a template expression (Helm, envsubst, Kubernetes variables). ``without`` takes
such fields out of an object before a conversion, and ``with_spared`` puts them back where they were. ``mentions``
reports versions of converted kinds that a conversion does not reach:

- other kinds of the same group, for which there are no rules: they stay at their version;
- Kustomize: patches and targets name a group, version and kind, and are parts of objects;
- ConfigMaps and Secrets can hold manifests as text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any, Final

from restow.conversion.compile.graph import Graph
from restow.conversion.explain import Explanation, FieldLinks, LeafEnding, OriginKind, SourceLeaf, explain
from restow.conversion.manifests.document import (
    JsonText,
    YamlDocument,
    YamlMapping,
    YamlNode,
    YamlScalar,
    comments,
    data,
    missing,
    read,
    read_json,
    write_json,
)
from restow.conversion.manifests.edit import Edit, edit, rewrite
from restow.conversion.model.errors import ConversionError, ObjectError, RuleFailed
from restow.conversion.model.fieldpath import Steps, pointer, steps_of, value_at
from restow.conversion.model.values import ABSENT, Json, same
from restow.conversion.stash.annotation import unseal
from restow.crds import Crd
from restow.crds.documents import NotYaml
from restow.kube.resources import qualified_name

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


class NoTargetVersion(ConversionError):
    """No kind has the requested version; the message names the existing ones."""


@dataclass(frozen=True, slots=True)
class Targets:
    """The target apiVersion for each (group, kind); ``lists``: the kind of each (group, list kind)."""

    versions: Mapping[tuple[str, str], str]
    lists: Mapping[tuple[str, str], str]

    @classmethod
    def of(cls, graph: Graph, to: str, crds: Iterable[Crd] = ()) -> Targets:
        """Return the targets for ``v1beta2`` (every kind that has it) or ``group/v1beta2``.

        Raises:
            NoTargetVersion: no kind of the graph has that version.
        """
        group, _, version = to.rpartition("/")
        versions = {
            name: f"{name[0]}/{version}"
            for name, kind in graph.kinds.items()
            if version in kind.visible_versions and (not group or group == name[0])
        }
        if not versions:
            known = (
                f"{kind}.{its_group} ({', '.join(each.visible_versions)})"
                for (its_group, kind), each in graph.kinds.items()
            )
            raise NoTargetVersion(f"no kind has the version {to[:100]}; there are {'; '.join(known) or 'none'}")
        lists = {(its_group, f"{kind}List"): kind for its_group, kind in graph.kinds}
        return cls(versions, lists | {(crd.group, crd.list_kind): crd.kind for crd in crds})

    def of_object(self, api_version: object, kind: object) -> str | None:
        """Return the target apiVersion of an object, None if it is not to be converted."""
        if not isinstance(api_version, str) or not isinstance(kind, str):
            return None
        return self.versions.get((api_version.rpartition("/")[0], kind))

    def kind_of_items(self, api_version: object, kind: object) -> str | None:
        """Return the kind of the items of a typed list, None if it is no such list."""
        if not isinstance(api_version, str) or not isinstance(kind, str):
            return None
        return self.lists.get((api_version.rpartition("/")[0], kind))

    @property
    def groups(self) -> frozenset[str]:
        """The groups of the kinds to convert."""
        return frozenset(group for group, _ in self.versions)


LAST_APPLIED: Final = "kubectl.kubernetes.io/last-applied-configuration"


class Status(StrEnum):
    """The outcome for an object."""

    CONVERTED = "converted"
    CURRENT = "current"
    """It already has the requested version."""
    FAILED = "failed"
    """It could not be converted, and is unchanged."""
    OTHER = "other"
    """The request did not name its kind."""


@dataclass(frozen=True, slots=True)
class ObjectOutcome:
    """One object. ``line`` is the line of its document, ``pointer`` its place in it (empty for a whole document).

    ``error`` is a sentence without values, ``lost`` the fields that a stash would have kept and that nothing keeps now,
    ``spared`` the fields with template expressions that are left as they are, ``warnings`` are sentences.
    """

    status: Status
    line: int
    pointer: str
    api_version: str
    kind: str
    namespace: str
    name: str
    target: str = ""
    error: str = ""
    lost: tuple[SourceLeaf, ...] = ()
    spared: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    before: Json | None = field(default=None, repr=False)
    after: Json | None = field(default=None, repr=False)
    explanation: Explanation | None = field(default=None, repr=False)

    def taken_back(self, why: str) -> ObjectOutcome:
        """Return the outcome of an object that was converted, but then had to stay as it was."""
        if self.status is not Status.CONVERTED:
            return self
        return replace(self, status=Status.FAILED, error=why, lost=(), warnings=(), after=None, explanation=None)

    @property
    def title(self) -> str:
        """The name of the object in messages."""
        names = qualified_name(self.namespace, self.name)
        return " ".join(part for part in (self.kind, names) if part) or "a document without a kind"


@dataclass(slots=True)
class Work:
    """One document under conversion: its objects so far, its new data, and the links of its fields to old ones."""

    graph: Graph
    targets: Targets
    line: int
    keeps_stash: bool = True
    outcomes: list[ObjectOutcome] = field(default_factory=list)
    links: dict[Steps, FieldLinks] = field(default_factory=dict)

    def trace(self, place: Steps) -> tuple[Steps, bool] | None:
        """Return the old place of a field of the document, as ``FieldLinks.trace`` does for one object."""
        for size in range(len(place), -1, -1):
            links = self.links.get(place[:size])
            if links is not None:
                found = links.trace(place[size:])
                return None if found is None else (place[:size] + found[0], found[1])
        return place, True


def objects_of(document: Any, place: Steps = ()) -> Iterator[tuple[str, Json]]:
    """Yield the objects of a document with their pointers; items of a typed list get their type from the list."""
    if not isinstance(document, dict):
        return
    kind, items = document.get("kind"), document.get("items")
    if not isinstance(kind, str) or not kind.endswith("List") or not isinstance(items, list):
        yield pointer(place), document
        return
    given = {} if kind == "List" else {"apiVersion": document.get("apiVersion"), "kind": kind.removesuffix("List")}
    for index, item in enumerate(items):
        if isinstance(item, dict):
            yield from objects_of({**given, **item}, (*place, "items", index))


def convert_objects(work: Work, document: Any, place: Steps = (), given: Mapping[str, str] | None = None) -> Any:
    """Return a document with its objects converted; objects that cannot be converted are unchanged.

    ``given`` are the apiVersion and kind that an item of a typed list may leave out.
    """
    if not isinstance(document, dict):
        work.outcomes.append(_outcome(work, Status.OTHER, {}, place))
        return document
    whole = {**(given or {}), **document}
    api_version, kind = whole.get("apiVersion"), whole.get("kind")
    item_kind = work.targets.kind_of_items(api_version, kind)
    if isinstance(document.get("items"), list) and (item_kind or (api_version, kind) == ("v1", "List")):
        return _list(work, document, place, item_kind)
    target = work.targets.of_object(api_version, kind)
    if target is None or target == api_version:
        status = Status.OTHER if target is None else Status.CURRENT
        warnings = tuple(mentions(whole, work.targets.versions)) if target is None else ()
        work.outcomes.append(replace(_outcome(work, status, whole, place), warnings=warnings))
        return document
    converted = _convert(work, whole, place, target)
    left_out = (given or {}).keys() - document.keys()
    return {name: value for name, value in converted.items() if name not in left_out}


def _list(work: Work, document: Json, place: Steps, item_kind: str | None) -> Json:
    version = document.get("apiVersion", "")
    given = {} if item_kind is None else {"apiVersion": version, "kind": item_kind}
    begin = len(work.outcomes)
    items = [
        convert_objects(work, item, (*place, "items", index), given) for index, item in enumerate(document["items"])
    ]
    target = None if item_kind is None else work.targets.of_object(version, item_kind)
    has_failed = any(outcome.status is Status.FAILED for outcome in work.outcomes[begin:])
    if target is None or target == version:
        return {**document, "items": items}
    if not has_failed:
        return {**document, "apiVersion": target, "items": items}
    if all(isinstance(item, dict) and "apiVersion" in item for item in document["items"]):
        return {**document, "items": items}
    _take_back(work, begin, place)
    return document


def _take_back(work: Work, begin: int, place: Steps) -> None:
    """Undo a list's conversion after one item failed: items without apiVersion have that of the list."""
    why = "another item of its list cannot be converted, and items without apiVersion have that of their list"
    work.outcomes[begin:] = [outcome.taken_back(why) for outcome in work.outcomes[begin:]]
    for known in [known for known in work.links if known[: len(place)] == place]:
        del work.links[known]


def _convert(work: Work, obj: Json, place: Steps, target: str) -> Json:
    warnings = []
    if LAST_APPLIED in _annotations(obj):
        warnings.append(f"the annotation {LAST_APPLIED} is left as it is, at the old version; kubectl apply renews it")
    try:
        work.graph.route(obj["kind"], obj["apiVersion"], target, visible=True)
        explanation, spared = _explained(work.graph, obj, target)
        result = with_spared(explanation.result, obj, spared)
    except ObjectError as error:
        failed = replace(_outcome(work, Status.FAILED, obj, place), target=target, error=error.with_line)
        work.outcomes.append(failed)
        return obj
    warnings += [_spared(steps, rule) for steps, rule in spared.items()]
    lost = [leaf for leaf in explanation.source_leaves if leaf.ending is LeafEnding.LOST]
    if not work.keeps_stash and explanation.stash_after is not None:
        key = work.graph.kind(target.rpartition("/")[0], obj["kind"]).stash_key
        result, _ = unseal(result, key)
        lost += [leaf for leaf in explanation.source_leaves if leaf.ending is LeafEnding.STASHED]
        if explanation.stash_after["kept"].keys() - set(explanation.route):
            warnings.append("what earlier conversions kept in its stash is lost too")
    work.links[place] = explanation.links
    work.outcomes.append(
        replace(
            _outcome(work, Status.CONVERTED, obj, place),
            target=target,
            lost=tuple(lost),
            spared=tuple(pointer(steps) for steps in spared),
            warnings=tuple(warnings),
            before=obj,
            after=result,
            explanation=explanation,
        )
    )
    return result


#: Rules that put a value into a list, or take it out, unchanged: a template expression keeps its meaning.
_WRAPPERS: Final = ("wrap(", "unwrap(")
#: Rules that read a text, and show nothing of one that they cannot read.
_READERS: Final = ("cast(", "duration(", "json(", "quantity(", "split(")


def _explained(graph: Graph, obj: Json, target: str) -> tuple[Explanation, dict[Steps, str]]:
    """Convert an object without the fields that a rule would compute from template expressions.

    Returns the explanation and these fields, each with its rule. A tool fills in the expression after the conversion,
    so any value that is computed from its text is wrong.
    """
    spared: dict[Steps, str] = {}
    while True:
        try:
            explanation = explain(graph, without(obj, spared), target)
        except RuleFailed as error:
            steps = steps_of(obj, error.pointer)
            if steps in spared or not has_template(value_at(obj, steps)):
                raise
            spared[steps] = error.rule
            continue
        found = {
            source: ", ".join(leaf.origin.rules)
            for leaf in explanation.leaves
            if leaf.origin.how is OriginKind.COMPUTED
            and not all(rule.startswith(_WRAPPERS) for rule in leaf.origin.rules)
            and any(has_template(value_at(obj, source)) for source in leaf.origin.sources)
            for source in leaf.origin.sources
        }
        found |= {
            leaf.place: leaf.rule
            for leaf in explanation.source_leaves
            if leaf.ending is LeafEnding.STASHED
            and leaf.rule.startswith(_READERS)
            and has_template(value_at(obj, leaf.place))
        }
        if not found.keys() - spared.keys():
            return explanation, spared
        spared |= found


def _spared(steps: Steps, rule: str) -> str:
    return (
        f"{pointer(steps)} is left as it is, since {rule} would compute from a template expression: "
        "write what the expression has to give, and the field's new place, by hand"
    )


def _outcome(work: Work, status: Status, obj: Json, place: Steps) -> ObjectOutcome:
    metadata = obj.get("metadata")
    names = metadata if isinstance(metadata, dict) else {}
    texts = (obj.get("apiVersion"), obj.get("kind"), names.get("namespace"), names.get("name"))
    api_version, kind, namespace, name = (text if isinstance(text, str) else "" for text in texts)
    return ObjectOutcome(status, work.line, pointer(place), api_version, kind, namespace, name)


def _annotations(obj: Json) -> Json:
    metadata = obj.get("metadata")
    annotations = metadata.get("annotations") if isinstance(metadata, dict) else None
    return annotations if isinstance(annotations, dict) else {}


_MARK: Final = "\ufeff"
_UNWRITABLE: Final = "its text cannot be edited into the converted form"


@dataclass(frozen=True, slots=True)
class Note:
    """A remark about a line of the old text."""

    line: int
    text: str


@dataclass(frozen=True, slots=True)
class Converted:
    """A converted manifest. ``documents`` has the data of all documents, ABSENT for one that JSON cannot represent."""

    text: str = field(repr=False)
    documents: tuple[Any, ...] = field(repr=False)
    outcomes: tuple[ObjectOutcome, ...]
    notes: tuple[Note, ...] = ()

    def having(self, status: Status) -> tuple[ObjectOutcome, ...]:
        """Return the objects with this status."""
        return tuple(outcome for outcome in self.outcomes if outcome.status is status)


def convert_manifest(text: str, graph: Graph, targets: Targets, *, keeps_stash: bool = True) -> Converted:
    """Convert the objects of a manifest.

    Without ``keeps_stash``, fields that the target version lacks are left out and reported (``ObjectOutcome.lost``).

    Raises:
        NotYaml: the text is neither YAML nor JSON.
    """
    mark = _MARK if text.startswith(_MARK) else ""
    text = text.removeprefix(_MARK)
    run = _Run(text, graph, targets, keeps_stash)
    try:
        documents = read(text)
    except NotYaml:
        values = read_json(text)
        if values is None:
            raise
        written = "".join(run.all_json(values))
    else:
        written = "".join(run.all_yaml(documents))
    return Converted(mark + written, tuple(run.values), tuple(run.outcomes), tuple(run.notes))


@dataclass(slots=True)
class _Run:
    text: str
    graph: Graph
    targets: Targets
    keeps_stash: bool
    values: list[Any] = field(default_factory=list)
    outcomes: list[ObjectOutcome] = field(default_factory=list)
    notes: list[Note] = field(default_factory=list)

    def all_json(self, texts: list[JsonText]) -> Iterator[str]:
        """Yield the new text, piece by piece."""
        position = 0
        for each in texts:
            new = self._converted(each.line, each.value)[0]
            old_text = self.text[each.start : each.end]
            yield self.text[position : each.start]
            yield old_text if same(new, each.value) else write_json(new, old_text)
            position = each.end
        yield self.text[position:]

    def all_yaml(self, documents: list[YamlDocument]) -> Iterator[str]:
        """Yield the new text, document by document."""
        begins = [document.begin for document in documents]
        starts, ends = [0, *begins[1:]], [*begins[1:], len(self.text)]
        if not documents:
            yield self.text
        for document, start, end in zip(documents, starts, ends, strict=False):
            yield self._document(document, start, end)

    def _document(self, document: YamlDocument, start: int, end: int) -> str:
        text = self.text[start:end]
        if document.problem:
            self.outcomes.append(_unsayable(document, text, self.targets))
            self.values.append(ABSENT)
            return text
        value, begin = document.data, len(self.outcomes)
        new, work = self._converted(document.line, value)
        if document.root is None or same(value, new):
            return text
        for made in self._attempts(document.root, new, work):
            written = self.text[start : made.start] + made.text + self.text[made.end : end]
            root = _root(written)
            if root is not None and same(data(root), new):
                self._tell(document, start, end, written, root)
                return written
        self.outcomes[begin:] = [outcome.taken_back(_UNWRITABLE) for outcome in self.outcomes[begin:]]
        self.values[-1] = value
        return text

    def _attempts(self, root: YamlNode, new: Any, work: Work) -> Iterator[Edit]:
        yield edit(self.text, root, new, work)
        yield rewrite(self.text, root, new)

    def _converted(self, line: int, value: Any) -> tuple[Any, Work]:
        work = Work(self.graph, self.targets, line, self.keeps_stash)
        new = convert_objects(work, value)
        self.outcomes += work.outcomes
        self.values.append(new)
        return new, work

    def _tell(self, document: YamlDocument, start: int, end: int, written: str, root: YamlNode) -> None:
        """Note the comments that did not survive."""
        assert document.root is not None
        before = comments(self.text, document.root, start, end)
        for comment in missing(before, comments(written, root, 0, len(written))):
            self.notes.append(Note(comment.line, f"this comment was removed with its field: {comment.text}"))


def _root(text: str) -> YamlNode | None:
    """Return the only document of a text, None if there is none or more than one."""
    try:
        documents = read(text)
    except NotYaml:
        return None
    return documents[0].root if len(documents) == 1 and not documents[0].problem else None


def _unsayable(document: YamlDocument, text: str, targets: Targets) -> ObjectOutcome:
    """Return the outcome of a YAML document that JSON cannot represent: failed, if it may be an object to convert."""
    names = {"apiVersion": "", "kind": ""}
    if isinstance(document.root, YamlMapping):
        for entry in document.root.entries:
            if entry.name in names and isinstance(entry.value, YamlScalar) and isinstance(entry.value.value, str):
                names[entry.name] = entry.value.value
    target = targets.of_object(names["apiVersion"], names["kind"])
    is_ours = target not in (None, names["apiVersion"])
    if names["kind"].endswith("List"):
        is_ours = any(f"{group}/" in text for group in targets.groups)
    status = Status.FAILED if is_ours else Status.OTHER
    error = f"the document has what JSON cannot represent ({document.problem})" if is_ours else ""
    return ObjectOutcome(
        status, document.line, "", names["apiVersion"], names["kind"], "", "", target=target or "", error=error
    )
