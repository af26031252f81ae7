"""What the API server answered to a write, also where it refused: refusals are what the demo is about. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

__all__ = ["Answer", "DemoError"]


class DemoError(Exception):
    """The story cannot go on; the message says why."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the API server answered: an object, or a refusal in its own words (``409 Conflict: …``)."""

    object: Mapping[str, Any] = field(default_factory=dict)
    refusal: str = ""

    def accepted(self) -> Answer:
        """Return this answer, for writes without which the story cannot go on.

        Raises:
            DemoError: it is a refusal.
        """
        if self.refusal:
            msg = f"the demo cannot go on, since the API server answered {self.refusal}"
            raise DemoError(msg)
        return self

    @property
    def entries(self) -> list[Mapping[str, Any]]:
        """The object's managedFields."""
        return list(self.object.get("metadata", {}).get("managedFields", []))
