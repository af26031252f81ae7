"""Manifests in the form that the rules read: JSON, times as written."""

from __future__ import annotations

from typing import Any

from restow.crds.documents import load_documents

__all__ = ["manifest"]


def manifest(text: str) -> Any:
    """Return the object that a YAML document describes."""
    [document] = load_documents(text)
    return document
