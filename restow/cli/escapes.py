r"""Show control characters in text from manifests and servers as escapes, for example ``\u001b``.

A control character in a name or a message could move a terminal's cursor, set its title, or start a line that looks
like restow's own. This module imports nothing: ``restow --help`` needs it, and must not load the libraries of
``printing``.
"""

from __future__ import annotations

import re

#: C0 and C1, DEL, line separators, lone surrogates, and characters that change the direction of text (UAX #9) and so
#: can hide its content. Tabs are harmless and stay.
_CONTROLS = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")


def has_controls(text: str) -> bool:
    """Return whether a text contains control characters."""
    return _CONTROLS.search(text) is not None


def escaped(text: str) -> str:
    """Escape the control characters of a multi-line text; the escapes mean the same in JSON and quoted YAML."""
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


def visible(text: str) -> str:
    """Escape the control characters of a text, its line feeds too, so that it stays one line."""
    return escaped(text).replace("\n", "\\n")
