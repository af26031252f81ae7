"""The objects that a conformance run sends: given ones, or reproducible ones generated from the CRD's own schemas.

Generated objects have every declared field at least once (the first of each version is the largest found), and further
ones have some; see ``restow.conversion.testing.strategies``. Schemas do not describe all that a webhook may require of
an object (CEL rules are not known here): pass samples of your own if it refuses generated ones.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, TypeVar

from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import seed as with_seed
from hypothesis import strategies as st

from restow.conversion.model.values import Json, canonical
from restow.conversion.testing.findings import support
from restow.conversion.testing.strategies import Generator, objects, partial_objects
from restow.crds import Crd, Schema

_T = TypeVar("_T")

_SEED: Final = 20240501
_DRAWN: Final = 60  # parts of objects drawn per version; those of different shape are kept
_UID: Final = "7d0ca1b8-0000-4000-8000-{:012x}"


@dataclass(frozen=True)
class Samples:
    """A kind and objects of it.

    Attributes:
        crd: the kind, its versions and schemas.
        given: your own objects; for versions without any, objects are generated.
        acknowledged: places that may lose data on purpose, by the version that has them:
            ``{"v1alpha1": (".spec.debug",)}``, written as ``restow.crds.paths`` defines. Their values may change or
            vanish on a round trip.
        seed: another number gives other objects.
        count: how many objects of each version are generated; there are at most twice as many parts of objects.
    """

    crd: Crd
    given: Sequence[Json] = ()
    acknowledged: Mapping[str, Sequence[str]] = field(default_factory=dict)
    seed: int = _SEED
    count: int = 12

    def __post_init__(self) -> None:
        if len(self.versions) < 2:
            msg = f"{self.crd.name} serves only {', '.join(self.versions) or 'no version'}: nothing is ever converted"
            raise ValueError(msg)
        for obj in self.given:
            if obj.get("kind") != self.crd.kind or self.version_of(obj) not in self.versions:
                msg = f"a sample is {obj.get('apiVersion')} {obj.get('kind')}, which {self.crd.name} does not serve"
                raise ValueError(msg)

    @property
    def versions(self) -> tuple[str, ...]:
        """The names of the versions that objects are converted between: all served ones and the stored one."""
        return tuple(dict.fromkeys((self.crd.storage.name, *self.crd.served)))

    @property
    def ways(self) -> tuple[tuple[str, str], ...]:
        """Every ordered pair of versions."""
        return tuple((left, right) for left in self.versions for right in self.versions if left != right)

    def api_version(self, version: str) -> str:
        """``group/version``."""
        return f"{self.crd.group}/{version}"

    def version_of(self, obj: Json) -> str:
        """The version of an object, empty if it is of another group."""
        group, _, version = str(obj.get("apiVersion", "")).rpartition("/")
        return version if group == self.crd.group else ""

    def schema(self, version: str) -> Schema:
        """The schema of a version."""
        found = self.crd.version(version)
        assert found is not None
        return found.schema

    def objects(self, version: str) -> tuple[Json, ...]:
        """Objects of a version, the fullest first; with a name, a uid and, if the kind has one, a namespace."""
        return self._objects[version]

    @cached_property
    def _objects(self) -> Mapping[str, tuple[Json, ...]]:
        return {version: self._ranked(version) for version in self.versions}

    def _ranked(self, version: str) -> tuple[Json, ...]:
        own = [obj for obj in self.given if self.version_of(obj) == version]
        if not own:
            return tuple(self.named(obj, number) for number, obj in enumerate(self._generated(version)))
        return tuple(self.named(obj, number, **_kept(obj)) for number, obj in enumerate(sorted(own, key=_size)))

    def full(self, version: str, number: int = 0) -> Json:
        """The fullest object of a version, under a name of its own."""
        obj = self.objects(version)[0]
        return self.named(obj, number, **_kept(obj))

    def bare(self, version: str) -> Json:
        """An object with nothing but its kind."""
        return {"apiVersion": self.api_version(version), "kind": self.crd.kind}

    def parts(self, version: str) -> list[tuple[Json, Json]]:
        """Objects of a version, each with a part of its spec as a manager of managedFields could own it."""
        return self._parts[version]

    @cached_property
    def _parts(self) -> Mapping[str, list[tuple[Json, Json]]]:
        return {version: self._drawn_parts(version) for version in self.versions}

    def _drawn_parts(self, version: str) -> list[tuple[Json, Json]]:
        strategy = partial_objects(self.schema(version), self.api_version(version), self.crd.kind)
        has_body = self._has_body(version)
        drawn = _examples(strategy.filter(lambda pair: has_body(pair[1])), _DRAWN, self.seed)
        shapes = {canonical(sorted(support(part, self.schema(version)))): (whole, part) for whole, part in drawn}
        kept = list(shapes.values())[: 2 * self.count]
        return [(self.named(whole, number), self.named(part, number)) for number, (whole, part) in enumerate(kept)]

    def named(self, obj: Json, number: int, **metadata: Any) -> Json:
        """Return the object with a name and uid derived from ``number``, and further metadata."""
        names = {"name": f"sample-{number}", "uid": _UID.format(number)}
        names |= {"namespace": "default"} if self.crd.namespaced else {}
        return {**obj, "metadata": {**names, **metadata}}

    def _generated(self, version: str) -> Iterable[Json]:
        """Objects with every declared field, and others with some."""
        schema, api_version = self.schema(version), self.api_version(version)
        full = objects(schema, api_version, self.crd.kind, generator=Generator(complete=True))
        some = objects(schema, api_version, self.crd.kind).filter(self._has_body(version))
        count = -(-self.count // 2)
        return (*sorted(_examples(full, count, self.seed), key=_size), *_examples(some, count, self.seed))

    def _has_body(self, version: str) -> Callable[[Json], bool]:
        """Return a filter for objects with content; other cases cover the empty ones."""
        names = ["spec"] if self.schema(version).is_declared("spec") else list(self.schema(version).properties)
        return lambda obj: any(obj.get(name) for name in names if name not in ("apiVersion", "kind", "metadata"))


def _size(obj: Json) -> int:
    """The sort key of an object: a larger object comes first."""
    return -len(canonical(obj))


def _kept(obj: Json) -> Json:
    """The labels and annotations to keep: those of given samples may hold data that a version cannot express."""
    metadata = obj.get("metadata") or {}
    return {name: metadata[name] for name in ("labels", "annotations") if metadata.get(name)}


def _examples(strategy: st.SearchStrategy[_T], count: int, seed: int) -> list[_T]:
    """Draw reproducible values; ``strategy.example()`` is neither reproducible nor meant for this."""
    found: list[_T] = []

    @with_seed(seed)
    @settings(
        max_examples=count,
        database=None,
        deadline=None,
        phases=(Phase.generate,),
        suppress_health_check=list(HealthCheck),
    )
    @given(strategy)
    def collect(value: _T) -> None:
        found.append(value)

    collect()
    return found
