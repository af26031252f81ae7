"""Static validation: rules for one profile alone, and against the object that it replaces. Pure.

The rules are Gardener's; where the documents' own examples would break one, it warns instead (the latest Kubernetes
version may have an expiration). Everything is validated as it reads with Gardener's defaults filled in
(``restow.cloudprofile.profiles.defaults``). Paths and types of findings are those of Gardener's API server.
"""

from __future__ import annotations

from restow.cloudprofile.validation.profiles import (
    missing_sections,
    validate,
    validate_namespaced,
    validate_namespaced_update,
    validate_rendered,
    validate_update,
)

__all__ = [
    "missing_sections",
    "validate",
    "validate_namespaced",
    "validate_namespaced_update",
    "validate_rendered",
    "validate_update",
]
