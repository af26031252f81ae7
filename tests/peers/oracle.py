"""The conversions of a project, as its own code has them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from tests.peers.recordings import Program

__all__ = ["Answer", "Oracle"]


@dataclass(frozen=True)
class Answer:
    """What an oracle gave for one object: the converted one, or what its conversion said instead."""

    object: dict[str, Any] | None
    error: str = ""
    panic: str = ""


class Oracle:
    """A program that converts objects, or its recording."""

    def __init__(self, program: Program) -> None:
        self._program = program

    def convert(self, obj: Mapping[str, Any], target: str) -> Answer:
        """Return the object at another apiVersion, by the project's own code."""
        answer = self._program.ask({"kind": obj["kind"], "from": obj["apiVersion"], "to": target, "object": obj})
        converted = answer.get("object")
        if converted is not None:
            converted = {**converted, "apiVersion": target, "kind": obj["kind"]}
        return Answer(converted, answer.get("error", ""), answer.get("panic", ""))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._program.close()
