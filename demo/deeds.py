"""What clients did while the migration ran: the record that the checks take into account. Pure."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

from demo.cast import Database

__all__ = ["Deeds"]


@dataclass(slots=True)
class Deeds:
    """What the clients did.

    Attributes:
        storage: GiB of each database that the platform resized, by number.
        connections: what the editor set last, by number.
        spec_writes: how often each database's spec was changed, by number.
        created, deleted: databases that came and went.
        refusals: answers that were no success.
    """

    storage: dict[int, int] = field(default_factory=dict)
    connections: dict[int, int] = field(default_factory=dict)
    spec_writes: Counter[int] = field(default_factory=Counter)
    created: list[Database] = field(default_factory=list)
    deleted: list[Database] = field(default_factory=list)
    refusals: list[str] = field(default_factory=list)

    @property
    def written(self) -> set[str]:
        """Keys of the databases that clients wrote and that are still there."""
        return {Database(number).key for number in self.spec_writes} | {each.key for each in self.created}

    @property
    def writes(self) -> int:
        """All writes that succeeded."""
        return self.spec_writes.total() + len(self.created) + len(self.deleted)
