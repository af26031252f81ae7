"""Static validation: what can be said of one profile alone, and of one beside the object that it replaces. Pure.

The rules are Gardener's; where the documents' own examples would break one, it warns instead (the latest Kubernetes
version may have an expiration). Everything is validated as it reads with Gardener's defaults filled in
(``restow.cloudprofile.defaults``). Paths and types of findings are those that Gardener's API server answers with.
"""

from __future__ import annotations

from restow.cloudprofile.validation.cloudprofile import missing_sections, validate, validate_update
from restow.cloudprofile.validation.namespaced import validate_namespaced, validate_namespaced_update, validate_rendered

__all__ = [
    "missing_sections",
    "validate",
    "validate_namespaced",
    "validate_namespaced_update",
    "validate_rendered",
    "validate_update",
]
