"""The same value at another path.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from restow.conversion.model.fieldpath import Path, argument, parse
from restow.conversion.rules.protocol import (
    Counterpart,
    Defect,
    Rule,
    SchemaQuestions,
    Surroundings,
    claimed_paths,
    declared,
)
from restow.conversion.rules.sides import Side, opposite


@dataclass(frozen=True, slots=True, kw_only=True)
class Move(Rule):
    """The same value at another path."""

    def counterpart(self, path: Path, side: Side) -> Counterpart | None:
        """Return the path from the other end of the move on."""
        (here,), (there,) = claimed_paths(self, side), claimed_paths(self, opposite(side))
        return Counterpart((*there, *path[len(here) :]), (self,))

    @property
    def moves(self) -> bool:
        """Whether the value is the same in both versions: always."""
        return True

    def check(self, around: Surroundings) -> Iterator[Defect]:  # noqa: ARG002
        """Yield that a new name is in another object."""
        spoke, hub = parse(self.spoke[0]), parse(self.hub[0])
        if self.name == "rename" and spoke[:-1] != hub[:-1]:
            fix = f"Use rules.move({argument(spoke)}, {argument(hub)})"
            yield Defect(f"{self.label} names another object", fix, path=spoke)

    def advice_inside(self, other: Rule, rest: Path) -> str:
        """Return a default with both paths, or the rule that moves the object and takes rules for its fields."""
        if not rest:
            return ""
        spoke, hub = parse(self.spoke[0]), parse(self.hub[0])
        if other.name == "default":
            paths = [argument((*path, *rest)) for path in (spoke, hub)]
            return f"Write rules.default({paths[0]}, …, hub={paths[1]}), since {self.label} moves the field"
        moved_as = f"rules.inside({argument(spoke)}, […], hub={argument(hub)})"
        return f"Write {moved_as} instead of {self.label}, and in it {other.label} with paths from there on"

    def ask(self, schemas: SchemaQuestions) -> None:
        """Ask for one schema."""
        schemas.same(self)
        schemas.guaranteed(self)


@declared
def rename(spoke: str, hub: str) -> Rule:
    """A field with another name in the same object: ``rename("spec.ttl", "spec.timeToLive")``.

    The value may be a whole subtree.
    """
    return Move(spoke=(spoke,), hub=(hub,))


@declared
def move(spoke: str, hub: str) -> Rule:
    """A field at another path: ``move("spec.image", "spec.container.image")``.

    An object that the move empties is removed, unless the target's schema requires it. Objects on the new path are
    created.
    """
    return Move(spoke=(spoke,), hub=(hub,))
