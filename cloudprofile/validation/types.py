"""Machine types and volume types. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from restow.cloudprofile.capabilities import ARCHITECTURE, ARCHITECTURES, Definitions
from restow.cloudprofile.findings import Finding, duplicate, forbidden, invalid, not_supported, required
from restow.cloudprofile.names import part_name_fault
from restow.cloudprofile.parts import Object
from restow.cloudprofile.quantity import quantity_fault

__all__ = ["complete_machine_types", "machine_types_in", "volume_types_in"]


def complete_machine_types(machine_types: Sequence[Object], definitions: Definitions, path: str) -> Iterator[Finding]:
    """Validate machine types that have to be complete: those of a CloudProfile or of a rendered profile."""
    yield from machine_types_in(machine_types, definitions, path)
    if definitions:
        return
    for index, machine_type in enumerate(machine_types):
        if not machine_type.get(ARCHITECTURE):
            yield required(f"{path}[{index}].{ARCHITECTURE}", "must provide an architecture")
        if machine_type.get("capabilities"):
            yield forbidden(f"{path}[{index}].capabilities", "must not provide capabilities without global definition")


def machine_types_in(machine_types: Sequence[Object], definitions: Definitions, path: str) -> Iterator[Finding]:
    """Validate what is there of machine types."""
    names: set[str] = set()
    for index, machine_type in enumerate(machine_types):
        below, name = f"{path}[{index}]", machine_type.get("name") or ""
        yield from _name(name, f"{below}.name", "machine type name")
        if name in names:
            yield duplicate(f"{below}.name", name)
            continue
        names.add(name)
        for field in ("cpu", "gpu", "memory"):
            yield from _quantity(machine_type, field, below)
        yield from _architecture(machine_type, definitions, below)
        yield from _capabilities(machine_type, definitions, f"{below}.capabilities")
        if (storage := machine_type.get("storage")) is not None:
            yield from _storage(storage, f"{below}.storage")


def _storage(storage: Object, path: str) -> Iterator[Finding]:
    sizes = [field for field in ("size", "minSize") if storage.get(field) is not None]
    if not sizes:
        yield invalid(path, 'must either configure "size" or "minSize"')
    elif len(sizes) > 1:
        yield invalid(path, 'not allowed to configure both "size" and "minSize"')
    else:
        yield from _quantity(storage, sizes[0], path)


def _architecture(machine_type: Object, definitions: Definitions, path: str) -> Iterator[Finding]:
    written = machine_type.get(ARCHITECTURE) or ""
    if definitions:
        named: Sequence[str] = (machine_type.get("capabilities") or {}).get(ARCHITECTURE) or ()
        if len(named) > 1:
            yield invalid(f"{path}.capabilities.{ARCHITECTURE}", "must not define more than one architecture")
        if len(named) == 1 and written not in {"", named[0]}:
            yield invalid(
                f"{path}.{ARCHITECTURE}",
                f"machine type architecture ({written}) conflicts with the capability architecture ({named[0]})",
            )
    if written and written not in ARCHITECTURES:
        yield not_supported(f"{path}.{ARCHITECTURE}", ARCHITECTURES)


def _capabilities(machine_type: Object, definitions: Definitions, path: str) -> Iterator[Finding]:
    if not definitions:
        return
    for capability, values in (machine_type.get("capabilities") or {}).items():
        if capability not in definitions:
            yield not_supported(path, definitions)
            continue
        for index, value in enumerate(values or ()):
            if value not in definitions[capability]:
                yield not_supported(f"{path}.{capability}[{index}]", definitions[capability])


def volume_types_in(volume_types: Sequence[Object], path: str) -> Iterator[Finding]:
    """Validate volume types."""
    names: set[str] = set()
    for index, volume_type in enumerate(volume_types):
        below, name = f"{path}[{index}]", volume_type.get("name") or ""
        yield from _name(name, f"{below}.name", "volume type name")
        if name in names:
            yield duplicate(f"{below}.name", name)
            continue
        names.add(name)
        yield from _name(volume_type.get("class") or "", f"{below}.class", "volume class")
        yield from _quantity(volume_type, "minSize", below)


def _name(name: str, path: str, what: str) -> Iterator[Finding]:
    if not name:
        yield required(path, f"must provide a {what.rpartition(' ')[2]}")
    elif fault := part_name_fault(name):
        yield invalid(path, f"{what} must be a qualified name without prefix: it {fault}")


def _quantity(item: Object, field: str, path: str) -> Iterator[Finding]:
    value = item.get(field)
    if value is not None and (fault := quantity_fault(value)):
        yield invalid(f"{path}.{field}", fault)
