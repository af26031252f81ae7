"""CRDs that ask to be migrated: the label ``restow.dev/migrate: "true"``, and annotations with the policy.

| annotation | value |
|---|---|
| ``restow.dev/migrate-scope`` | which managedFields entries are migrated (``Scope``) |
| ``restow.dev/migrate-rate`` | the most writes per second |
| ``restow.dev/migrate-window`` | when objects may be written, in UTC: ``22:00-06:00`` or ``Sat,Sun 22:00-06:00`` |
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Final

from restow.crds import Crd
from restow.migrator.model.callbacks import MigrationRefused
from restow.migrator.model.options import Options, Scope

LABEL: Final = "restow.dev/migrate"
SCOPE: Final = "restow.dev/migrate-scope"
RATE: Final = "restow.dev/migrate-rate"
WINDOW: Final = "restow.dev/migrate-window"

_DAYS: Final = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
_WINDOW: Final = re.compile(
    r"(?:((?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)(?:,(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun))*) )?"
    r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]):([0-5]\d)",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class Window:
    """A part of the day, in UTC.

    Attributes:
        begins: the minute of the day.
        minutes: how long it lasts, at most a day.
        days: the weekdays on which it begins, 0 for Monday.
    """

    begins: int
    minutes: int
    days: frozenset[int] = frozenset(range(7))

    @classmethod
    def parse(cls, text: str) -> Window:
        """Read ``[Mon,…] HH:MM-HH:MM``; an end that is not after the begin is on the next day.

        Raises:
            ValueError: the text is something else.
        """
        found = _WINDOW.fullmatch(text)
        if found is None:
            msg = f"{text!r} is no window: give HH:MM-HH:MM in UTC, with weekdays before it if it is not open on all"
            msg += " of them (Sat,Sun 22:00-06:00)"
            raise ValueError(msg)
        begins, ends = (60 * int(found[at]) + int(found[at + 1]) for at in (2, 4))
        days = map(_DAYS.index, found[1].split(",")) if found[1] else range(7)
        return cls(begins, (ends - begins) % 1440 or 1440, frozenset(days))

    def next(self, now: datetime) -> tuple[datetime, datetime]:
        """Return begin and end of the present window, or else of the next one."""
        midnight = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        for day in range(-1, 8):
            begin = midnight + timedelta(days=day, minutes=self.begins)
            end = begin + timedelta(minutes=self.minutes)
            if begin.weekday() in self.days and end > now:
                return begin, end
        raise AssertionError(self)  # pragma: no cover - each week has each day


@dataclass(frozen=True, slots=True)
class Policy:
    """How and when a CRD is migrated; without a window at any time."""

    options: Options
    window: Window | None = None


def asking(default: Options) -> Callable[[Crd], Policy | None]:
    """Return targets: the CRDs with the label, each with the policy of its annotations.

    The function raises MigrationRefused, with a sentence, for an annotation that cannot be used.
    """

    def chosen(crd: Crd) -> Policy | None:
        labels = crd.document["metadata"].get("labels") or {}
        return policy(crd, default) if labels.get(LABEL) == "true" else None

    return chosen


def policy(crd: Crd, default: Options) -> Policy:
    """Return the policy of a CRD's annotations; ``default`` has what they leave out.

    Raises:
        MigrationRefused: an annotation cannot be used; the message names it.
    """
    options, window = default, None
    for name, value in sorted(crd.annotations.items()):
        if not name.startswith(f"{LABEL}-"):
            continue
        try:
            if name == SCOPE:
                options = replace(options, scope=_scope(value))
            elif name == RATE:
                options = replace(options, rate=_rate(value))
            elif name == WINDOW:
                window = Window.parse(value)
            else:
                msg = f"restow knows {SCOPE}, {RATE} and {WINDOW}"
                raise ValueError(msg)
        except ValueError as error:
            msg = f"the annotation {name} of {crd.name} cannot be used: {error}. Correct it, or remove it"
            raise MigrationRefused(msg) from error
    return Policy(options, window)


def _scope(value: str) -> Scope:
    try:
        return Scope(value)
    except ValueError:
        msg = f"{value!r} is no scope: give {', '.join(Scope)}"
        raise ValueError(msg) from None


def _rate(value: str) -> float:
    if re.fullmatch(r"\d{1,6}(\.\d{1,3})?", value, re.ASCII) is None or not float(value) > 0:
        msg = f"{value!r} is no rate: give writes per second, such as 50"
        raise ValueError(msg)
    return float(value)
