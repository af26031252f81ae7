"""Choose the CRDs that a reconciler migrates, and the options of each. Pure.

An operator names its CRDs, if needed with options for each, or passes a function that chooses them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from restow.crds import Crd
from restow.migrator.model.options import Options

Targets: TypeAlias = Iterable[str] | Mapping[str, Options] | Callable[[Crd], Options | bool | None]
"""Names (``<plural>.<group>``), options by name, or a function that returns a CRD's options or whether it is one."""


def in_group(group: str) -> Callable[[Crd], bool]:
    """Return targets: the CRDs of an API group, and of its subgroups (``example.com``: ``infra.example.com`` too)."""
    return lambda crd: crd.group == group or crd.group.endswith(f".{group}")


def labelled(key: str, value: str | None = None) -> Callable[[Crd], bool]:
    """Return targets: the CRDs with a label, of any value unless one is given."""

    def has(crd: Crd) -> bool:
        labels = crd.document["metadata"].get("labels") or {}
        return key in labels and value in (None, labels[key])

    return has


@dataclass(frozen=True, slots=True)
class Choice:
    """The meaning of ``Targets``; ``choice`` creates it.

    Attributes:
        names: the only names that can be targets, or None if a function decides from the CRD.
        options_of: returns the options for a CRD, or None if it is not a target.
    """

    names: frozenset[str] | None
    options_of: Callable[[Crd], Options | None]

    def excludes(self, name: str) -> bool:
        """Return whether no CRD of this name can be a target."""
        return self.names is not None and name not in self.names


def choice(targets: Targets, default: Options) -> Choice:
    """Return the choice for targets.

    Raises:
        ValueError: no target is given, a name is not ``<plural>.<group>``, or the options do not finish a CRD.
    """
    _check(default)
    if callable(targets):
        choose = targets
        return Choice(None, lambda crd: _options(choose(crd), default))
    if isinstance(targets, str):
        msg = f"targets are several names, a mapping or a function: write [{targets!r}]"
        raise ValueError(msg)  # noqa: TRY004 - a string is an iterable of names by its type
    by_name = dict(targets) if isinstance(targets, Mapping) else dict.fromkeys(targets, default)
    for name, options in by_name.items():
        if "." not in name:
            msg = f"{name!r} is no name of a CRD: give <plural>.<group> (kubectl get crds)"
            raise ValueError(msg)
        _check(options)
    if not by_name:
        msg = "a migrator without targets has nothing to do: name CRDs, or give a function that chooses them"
        raise ValueError(msg)
    return Choice(frozenset(by_name), lambda crd: by_name.get(crd.name))


def _options(chosen: Options | bool | None, default: Options) -> Options | None:
    if isinstance(chosen, Options):
        _check(chosen)
        return chosen
    return default if chosen else None


def _check(options: Options) -> None:
    """Refuse options with which a run cannot finish a CRD, because the reconciler would repeat it forever."""
    unfit = {
        "namespace or selector": options.partial,
        "shard": options.shard is not None,
        "dry_run": options.dry_run,
        "ignore_mark": options.ignore_mark,
    }
    for name, given in unfit.items():
        if given:
            msg = (
                f"a reconciler finishes CRDs, and knows by a mark that it did, so its options cannot have {name}: use "
            )
            msg += "Migration for such a run"
            raise ValueError(msg)
