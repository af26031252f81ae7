"""How a failure is told in a log without telling what it happened to have in hand. Pure.

This room's own errors are sentences made for that, but a server's refusal of an invalid object quotes the invalid
values, and the text of any other exception may hold some too (``KeyError`` its key, ``ValueError`` its value). So of
a 422 only the fields are told, and of foreign exceptions the type and the way to it.
"""

from __future__ import annotations

import traceback
from pathlib import PurePath

from restow.kube.errors import Invalid, KubeError

__all__ = ["describe_failure"]

_FRAMES = 6  # the innermost ones


def describe_failure(error: BaseException) -> str:
    """Return what a log may say of ``error``; of a group, what it may say of each error in it."""
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(describe_failure(one) for one in error.exceptions)
    if isinstance(error, Invalid):
        fields = ", ".join(f"{cause.get('field', '?')} ({cause.get('reason', '?')})" for cause in error.details.causes)
        return f"{error.verb} {error.target}: refused as invalid (422){': ' if fields else ''}{fields}"
    if isinstance(error, KubeError):
        return str(error)
    frames = traceback.extract_tb(error.__traceback__)[-_FRAMES:]
    way = " > ".join(f"{PurePath(frame.filename).name}:{frame.lineno} {frame.name}" for frame in frames)
    return f"{type(error).__name__} ({way})" if way else type(error).__name__
