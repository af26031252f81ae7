"""The process that converts the objects of kinds whose rules have expressions, and tries their revisions.

It reads tasks from its standard input, and writes replies to its standard output, one at a time. It knows nothing of a
cluster. Memory has a limit, which the kernel keeps, so an expression that needs more fails. The process that started
this one ends it when a task takes too long, and it ends with that process. The file that is its argument holds the
index of the object at work, for who asks which object ended it.
"""

from __future__ import annotations

import ctypes
import mmap
import os
import signal
import struct
import sys
from collections.abc import Callable
from contextlib import suppress
from typing import BinaryIO, Final, Literal

import msgspec

from restow.conversion.compile.graph import Graph
from restow.conversion.model.errors import ObjectError, ReviewError
from restow.conversion.operate.revisions import Revision
from restow.conversion.operate.trial import tried
from restow.conversion.reviews.admission import AdmissionReview
from restow.conversion.reviews.admissionsteps import refuse_kept, restore_stash
from restow.conversion.reviews.conversion import ReviewTooLarge
from restow.conversion.reviews.tally import Kept, Tally, answered

#: The most address space of the process, in bytes; the interpreter and its libraries take a quarter.
MEMORY: Final = 320 * 1024 * 1024

#: The lengths of the head and of the body that follow.
HEAD: Final = struct.Struct("<II")
_INDEX: Final = struct.Struct("<I")
_DIES_WITH_PARENT: Final = 1  # PR_SET_PDEATHSIG


class Task(msgspec.Struct, array_like=True):
    """What to do with the body.

    Attributes:
        does: ``review`` answers a ConversionReview; ``try`` converts a list of objects to every version and back;
            ``restore`` and ``refuse`` are the admission steps.
        revision: the name of the revision.
        most: the most bytes of an object.
        stored_status: see ``restore_stash``.
        text: the stored form of the revision, if the worker does not have it.
        forgets: the revisions that are not needed any more.
    """

    does: Literal["review", "try", "restore", "refuse"]
    revision: str
    most: int = 0
    stored_status: bool = False
    text: str = ""
    forgets: tuple[str, ...] = ()


class TaskReply(msgspec.Struct, array_like=True):
    """What came of a task, beside the body.

    ``failed`` says which error was raised with ``message``: ``review``, ``too-large``, ``object``, ``memory``, or
    ``defect`` for any other one. ``failures`` has a text for each object that was tried, empty if it converts.
    """

    failed: str = ""
    message: str = ""
    tally: Tally | None = None
    kept: list[Kept] = []
    failures: list[str] = []


def _done(graph: Graph, task: Task, body: bytes, at: Callable[[int], None]) -> tuple[TaskReply, bytes]:
    match task.does:
        case "review":
            answer, tally, kept = answered(graph, body, task.most, at)
            return TaskReply(tally=tally, kept=[*map(Kept.of, kept)]), answer
        case "try":
            failures = []
            for index, obj in enumerate(msgspec.json.decode(body)):
                at(index)
                failures.append(tried(graph, obj))
            return TaskReply(failures=failures), b""
        case "restore":
            request = AdmissionReview.of(body).request
            return TaskReply(), msgspec.json.encode(restore_stash(graph, request, stored_status=task.stored_status))
        case "refuse":
            return TaskReply(), msgspec.json.encode(refuse_kept(graph, AdmissionReview.of(body).request))


def _replied(graphs: dict[str, Graph], task: Task, body: bytes, at: Callable[[int], None]) -> tuple[TaskReply, bytes]:
    try:
        for name in task.forgets:
            graphs.pop(name, None)
        if task.text:
            graphs[task.revision] = Revision.read(task.revision, task.text).graph()
        return _done(graphs[task.revision], task, body, at)
    except ReviewTooLarge as error:
        return TaskReply("too-large", str(error)), b""
    except ReviewError as error:
        return TaskReply("review", str(error)), b""
    except ObjectError as error:
        return TaskReply("object", str(error)), b""
    except MemoryError:
        return TaskReply("memory"), b""
    except Exception as error:  # noqa: BLE001 a defect: only its type is sure to show no value
        return TaskReply("defect", type(error).__name__), b""


def _serve(source: BinaryIO, sink: BinaryIO, progress: mmap.mmap) -> None:
    graphs: dict[str, Graph] = {}

    def at(index: int) -> None:
        _INDEX.pack_into(progress, 0, index)

    _write(sink, TaskReply(), b"")  # ready
    while head := source.read(HEAD.size):
        task, body = (source.read(length) for length in HEAD.unpack(head))
        at(0)
        _write(sink, *_replied(graphs, msgspec.msgpack.decode(task, type=Task), body, at))


def _write(sink: BinaryIO, reply: TaskReply, answer: bytes) -> None:
    encoded = msgspec.msgpack.encode(reply)
    sink.writelines((HEAD.pack(len(encoded), len(answer)), encoded, answer))
    sink.flush()


def _ends_with(parent: int) -> None:
    """Have the kernel end this process when the one that started it is gone, even in the middle of a task."""
    with suppress(OSError, AttributeError):  # there is no such call but on Linux
        ctypes.CDLL(None, use_errno=True).prctl(_DIES_WITH_PARENT, signal.SIGKILL)
    if os.getppid() != parent:
        sys.exit(1)


def main(parent: str, progress: str, niceness: str) -> None:
    """Serve until the input ends."""
    import resource  # Windows has none, and imports this module for Task

    _ends_with(int(parent))
    os.nice(int(niceness))
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with os.fdopen(os.dup(1), "wb") as sink, mmap.mmap(int(progress), _INDEX.size) as shared:
        os.dup2(2, 1)  # whatever prints does not write into a reply
        _serve(sys.stdin.buffer, sink, shared)


if __name__ == "__main__":
    main(*sys.argv[1:])
