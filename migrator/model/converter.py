"""The ``Converter`` Protocol, by which a migration converts objects: in this process, or through a webhook.

A converter must accept *partial* objects (no spec, list items with nothing but their keys, no status), which API
servers send too. What is absent in one version is absent in the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

__all__ = [
    "Answer",
    "Converter",
    "ConverterDown",
    "Json",
    "Unconverted",
]


Json: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Unconverted:
    """Stands in the place of an object that could not be converted.

    Attributes:
        message: why, in a sentence.
        refused: the converter itself says that it cannot be; otherwise it gave no answer that could be used, and may
            well give one another time.
    """

    message: str
    refused: bool = True


Answer: TypeAlias = Json | Unconverted


class ConverterDown(Exception):
    """No object can be converted now; the message says why, and what to do.

    Attributes:
        unreachable: the converter's name where it was out of reach for too long, and running again may help.
    """

    def __init__(self, message: str, *, unreachable: str = "") -> None:
        super().__init__(message)
        self.unreachable = unreachable


class Converter(Protocol):
    """Converts objects of one or of several kinds between their versions.

    It never changes the objects that it receives; its answers may share parts with them. The migrator reads apiVersion,
    kind and all other fields of an answer; of metadata it reads labels and annotations only.
    """

    async def convert(self, objects: Sequence[Json], api_version: str) -> Sequence[Answer]:
        """Return the objects at another version (``group/version``), in the same order.

        The answer for an object that cannot be converted is an ``Unconverted``.

        Raises:
            ConverterDown: no object can be converted now, and a retry would not help.
        """
        ...
