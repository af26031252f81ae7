"""The ``Converter`` Protocol, through which a migration converts objects: in this process, or by a webhook.

A converter must accept *partial* objects (no spec, list items with only their keys, no status), which API servers send
too. A field that is absent in one version is absent in the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

Json: TypeAlias = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Unconverted:
    """The answer for an object that could not be converted.

    Attributes:
        message: the reason, a sentence.
        refused: whether the converter refused the object; otherwise it gave no usable answer, and a retry may help.
    """

    message: str
    refused: bool = True


Answer: TypeAlias = Json | Unconverted


class ConverterDown(Exception):
    """No object can be converted now; the message says why, and what to do.

    Attributes:
        unreachable: the converter's name if it was unreachable for too long, so that a later run may help.
    """

    def __init__(self, message: str, *, unreachable: str = "") -> None:
        super().__init__(message)
        self.unreachable = unreachable


class Converter(Protocol):
    """Converts objects of one or of several kinds between their versions.

    It never changes the objects that it receives; its answers may share parts with them. The migrator reads all fields
    of an answer, but of its metadata only labels and annotations.
    """

    async def convert(self, objects: Sequence[Json], api_version: str) -> Sequence[Answer]:
        """Return the objects at another version (``group/version``), in the same order.

        The answer for an object that cannot be converted is an ``Unconverted``.

        Raises:
            ConverterDown: no object can be converted now, and a retry would not help.
        """
        ...
