"""The Hypothesis profiles of the conversion toolkit's own tests, for the laws of these conversions."""

from __future__ import annotations

import tests.conversion.conftest  # noqa: F401 registers and loads them
