"""The log of a process: one line on stderr per record, with time, level and logger, as text or as JSON.

Every command that logs uses this format. Text is for people and for ``grep``:

    2026-01-31T12:00:00.000Z WARNING restow.kube.listwatch: the watch of widgets.example.com ended

JSON has the same content as ``time``, ``level``, ``logger`` and ``message``. It adds ``exception`` with the traceback,
and the extra fields of the record (``migration``, ``details``) under their names. Callers put no bodies and no
credentials into records.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final

import click

from restow.cli.escapes import escaped

LEVELS: Final = ("debug", "info", "warning", "error")
FORMATS: Final = ("text", "json")

_SHOWS_REQUESTS: Final = 6  # kubectl -v=6 shows each request with its status

_KEY: Final = "restow.cli.logs."
_OF_EVERY_RECORD: Final = {*vars(logging.makeLogRecord({})), "message", "asctime", "taskName"}


def remember(context: click.Context, parameter: click.Parameter, value: str | int | None) -> None:
    """Store -v, --log-level or --log-format until the log is set up; a click callback."""
    context.meta[f"{_KEY}{parameter.name}"] = value


def is_verbose() -> bool:
    """Return whether the user gave -v with a number above 0."""
    context = click.get_current_context(silent=True)
    return context is not None and bool(context.meta.get(f"{_KEY}verbosity"))


def log_to_stderr(default: str = "warning") -> None:
    """Set up the log of a process that runs one command; an existing setup stays unchanged.

    -v or --log-level sets the lowest level of restow's own records; without them, ``default`` does. For other packages'
    records the lowest level is at least warning.
    """
    context = click.get_current_context(silent=True)
    asked: Mapping[str, Any] = {} if context is None else context.meta
    level = (_level(asked.get(f"{_KEY}verbosity")) or asked.get(f"{_KEY}log_level") or default).upper()
    handler = _Stderr()
    handler.setFormatter(_Json() if asked.get(f"{_KEY}log_format") == "json" else _Text())
    others = max(logging.getLevelNamesMapping()[level], logging.WARNING)
    logging.basicConfig(level=others, handlers=[handler])
    logging.getLogger("restow").setLevel(level)
    # The package also raises every error that it logs.
    logging.getLogger("kubernetes_asyncio").setLevel(logging.CRITICAL)
    logging.captureWarnings(capture=True)


def _level(verbosity: int | None) -> str:
    """Return the level for kubectl's -v number; empty for 0 and None."""
    if not verbosity:
        return ""
    return "debug" if verbosity >= _SHOWS_REQUESTS else "info"


class _Stderr(logging.Handler):
    """Writes to the current ``sys.stderr``: the live view replaces it, to print lines above its bars."""

    def emit(self, record: logging.LogRecord) -> None:
        try:
            sys.stderr.write(f"{self.format(record)}\n")
        except Exception:  # noqa: BLE001 - what logging asks of a handler
            self.handleError(record)


class _Text(logging.Formatter):
    """Formats a record as one line; only a traceback adds lines."""

    def format(self, record: logging.LogRecord) -> str:
        line = f"{_time(record)} {record.levelname} {record.name}: {_escaped(_message(record))}"
        for name, value in _details(record).items():
            line += f" {name}={_escaped(_encoded(value))}"
        if trace := self._trace(record):
            line += "\n" + "\n".join(map(_escaped, trace.splitlines()))
        return line

    def _trace(self, record: logging.LogRecord) -> str:
        return self.formatException(record.exc_info) if record.exc_info else ""


class _Json(_Text):
    """Formats a record as one JSON object on one line."""

    def format(self, record: logging.LogRecord) -> str:
        fields: dict[str, Any] = {
            "time": _time(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": _message(record),
        }
        if trace := self._trace(record):
            fields["exception"] = trace
        fields |= {name: value for name, value in vars(record).items() if name not in (*_OF_EVERY_RECORD, *fields)}
        if details := _details(record):
            fields["details"] = details
        return _encoded(fields)


def _time(record: logging.LogRecord) -> str:
    """Return the time of a record in RFC 3339, in UTC, with milliseconds."""
    return datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _message(record: logging.LogRecord) -> str:
    """Return the record's sentence; with details only the event, because the record's message repeats the details."""
    details = getattr(record, "details", None)
    return str(details["event"]) if isinstance(details, dict) and "event" in details else record.getMessage()


def _details(record: logging.LogRecord) -> dict[str, Any]:
    details = getattr(record, "details", None)
    return {name: value for name, value in details.items() if name != "event"} if isinstance(details, dict) else {}


def _encoded(value: Any) -> str:
    import msgspec

    return msgspec.json.encode(value, enc_hook=str).decode()


def _escaped(text: str) -> str:
    """Escape a text so that it cannot start a new line."""
    return escaped(text).replace("\n", "\\u000a")
