"""What a removed version's schema was, as far as its field sets show it. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from restow.crds import Schema
from restow.crds.fieldpath import FieldSet, is_leaf, normal

__all__ = ["Unknown", "was_whole"]


@dataclass(frozen=True, slots=True)
class Unknown:
    """Stands for the schema of a version that is no longer in the CRD.

    What it was can be told in part: where any manager of that version owns something *below* a list or map, that one
    was granular.

    Attributes:
        owned: the union of what all managers of the version own here.
        others: the union of what all other entries own here, of whatever version, where a leaf may stand for an empty
            keyed list. That is so in an Update entry only: an apply of an empty keyed list owns nothing. The leaf then
            stands for the items that no other entry owns.
    """

    owned: FieldSet
    others: FieldSet = field(default_factory=dict)

    def below(self, name: str) -> Unknown:
        """What is known of the child at this path element."""
        return Unknown(self.owned.get(name, {}), self.others.get(name, {}))

    def left_to(self, items: FieldSet) -> FieldSet:
        """Return the items, by their path elements, that no other entry owns."""
        taken = {normal(name) for name in self.others}
        return {name: node for name, node in items.items() if normal(name) not in taken}


def was_whole(schema: Schema | Unknown, value: Any = None) -> bool:
    """Whether what is owned at this very place is the whole value there."""
    if isinstance(schema, Unknown):
        # Of objects, an empty one is owned just so far more often than one that was atomic.
        return is_leaf(schema.owned) and not isinstance(value, dict)
    return schema.is_whole(value)
