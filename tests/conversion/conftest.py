"""Hypothesis profiles for the laws of conversion, chosen by RESTOW_HYPOTHESIS_PROFILE.

- `default`: few objects and always the same ones, so that the suite is quick and its failures are the change's own;
- `nightly`: ten thousand new objects of every kind and direction. A failure prints a line to reproduce it with.
"""

from __future__ import annotations

import os

from hypothesis import settings

settings.register_profile("default", max_examples=60, derandomize=True, deadline=None, print_blob=True)
settings.register_profile("nightly", max_examples=10_000, derandomize=False, deadline=None, print_blob=True)
settings.load_profile(os.environ.get("RESTOW_HYPOTHESIS_PROFILE", "default"))
