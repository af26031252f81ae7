"""Formats that Kubernetes admits: names of objects, parts of a profile and labels; quantities. Pure.

Each function returns a phrase with the fault of a text, or an empty string. The rules of names are those of
apimachinery's ``IsDNS1123Subdomain``, ``IsQualifiedName`` and ``IsValidLabelValue``; the grammar of quantities
(``500m``, ``16Gi``, ``1e3``) is that of its ``resource.Quantity``, and JSON numbers are quantities too.
"""

from __future__ import annotations

import re

from restow.conversion.rules.standard.numbertexts import parse_quantity

_SUBDOMAIN = re.compile(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*", flags=re.ASCII)
_NAME = re.compile(r"([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]", flags=re.ASCII)
_MAX_SUBDOMAIN = 253
_MAX_NAME = 63

_NAME_RULE = (
    f"must consist of 1 to {_MAX_NAME} letters, digits, '-', '_' or '.', and begin and end with a letter or a digit"
)


def subdomain_fault(name: str) -> str:
    """Return the fault of an object's name."""
    if len(name) <= _MAX_SUBDOMAIN and _SUBDOMAIN.fullmatch(name):
        return ""
    return (
        f"must be a lowercase DNS subdomain (RFC 1123) of at most {_MAX_SUBDOMAIN} characters: lower-case letters, "
        "digits, '-' and '.', beginning and ending with a letter or a digit"
    )


def part_name_fault(name: str) -> str:
    """Return the fault of the name of an image, a machine type or the like: a qualified name without prefix."""
    return "" if _is_name(name) else _NAME_RULE


def label_key_fault(key: str) -> str:
    """Return the fault of a label's key, which is a name with an optional DNS subdomain before a ``/``."""
    prefix, slash, name = key.rpartition("/")
    if slash and (fault := subdomain_fault(prefix)):
        return f"prefix {fault}"
    return "" if _is_name(name) else _NAME_RULE


def label_value_fault(value: str) -> str:
    """Return the fault of a label's value, which may be empty."""
    return "" if not value or _is_name(value) else _NAME_RULE


def _is_name(name: str) -> bool:
    return len(name) <= _MAX_NAME and bool(_NAME.fullmatch(name))


def quantity_fault(value: object) -> str:
    """Return the fault of a quantity that has to be 0 or more, or an empty string."""
    size = quantity_of(value)
    if size is None:
        return "must be a quantity like 2, 500m or 16Gi"
    return "must be greater than or equal to 0" if size < 0 else ""


#: No quantity that is compared has an exponent beyond this, whatever a client writes.
_LARGEST_EXPONENT = 200
_EXPONENT = re.compile(r"(?<=[eE])[+-]?\d{1,60}\Z", flags=re.ASCII)


def quantity_of(value: object) -> int | None:
    """Return the billionths that a quantity stands for, or None if it is not a quantity."""
    if value is None or isinstance(value, bool):
        return None
    return parse_quantity(_EXPONENT.sub(_bounded, str(value)))


def _bounded(exponent: re.Match[str]) -> str:
    return str(max(-_LARGEST_EXPONENT, min(int(exponent[0]), _LARGEST_EXPONENT)))
