"""Golden ConversionReviews: recorded requests and the expected answers.

A folder of ``NAME.request.json`` and ``NAME.response.json``; answers are compared as JSON, so indentation is free.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from restow.conversion.compile.graph import Graph
from restow.conversion.model.fieldpath import pointer
from restow.conversion.model.values import same
from restow.conversion.reviews.conversion import convert_review
from restow.conversion.testing.findings import differences
from restow.conversion.testing.laws import LawBroken

__all__ = ["check_golden", "golden_reviews"]

_REQUEST = ".request.json"


def golden_reviews(folder: Path) -> list[Path]:
    """Return the recorded requests of a folder, sorted by name, as parameters for a test.

    Raises:
        ValueError: the folder has no ``NAME.request.json``.
    """
    found = sorted(folder.glob(f"*{_REQUEST}"))
    if not found:
        message = f"{folder} has no recorded reviews (NAME{_REQUEST})"
        raise FileNotFoundError(message)
    return found


def check_golden(graph: Graph, request: Path, *, record: bool = False) -> None:
    """Answer a recorded request and compare; with ``record``, write down the answer as the expected one.

    Raises:
        LawBroken: the answer differs; the message names the first place that does.
    """
    expected_path = request.with_name(request.name.removesuffix(_REQUEST) + ".response.json")
    answer = convert_review(graph, request.read_bytes())
    if record:
        expected_path.write_bytes(msgspec.json.format(answer) + b"\n")
        return
    actual, expected = msgspec.json.decode(answer), msgspec.json.decode(expected_path.read_bytes())
    if not same(actual, expected):
        place = pointer(next(differences(actual, expected)).steps)
        message = f"the answer to {request.name} is not {expected_path.name}: see {place or '/'}"
        raise LawBroken("golden", message)
