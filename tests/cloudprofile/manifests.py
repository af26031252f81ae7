"""Manifests as the rules see them: JSON, times as written."""

from __future__ import annotations

from typing import Any, ClassVar

import yaml

__all__ = ["manifest"]


class _Loader(yaml.SafeLoader):
    """Reads an unquoted time as the string that it is, as an API server's YAML does."""

    yaml_implicit_resolvers: ClassVar[dict[str, Any]] = {
        letter: [(tag, pattern) for tag, pattern in resolvers if tag != "tag:yaml.org,2002:timestamp"]
        for letter, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


def manifest(text: str) -> Any:
    """Return the object that a YAML document describes."""
    return yaml.load(text, _Loader)
