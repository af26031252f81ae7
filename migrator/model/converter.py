"""The ``Converter`` Protocol: what a migration needs of conversions. An in-process graph or a webhook fulfils it.

A converter must take *partial* objects (no spec, list items with nothing but their keys, no status), as the API server
sends them too: what is absent in one version is absent in the other.
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

    It never changes what it is given; what it answers may share parts with it. Only apiVersion, kind and the fields
    beside metadata are looked at, and of metadata labels and annotations.
    """

    async def convert(self, objects: Sequence[Json], api_version: str) -> Sequence[Answer]:
        """Return the objects at another version (``group/version``), each in its place, or why that cannot be.

        Raises:
            ConverterDown: there is no use in asking again for any object.
        """
        ...
