"""Kubeconfig files as kubectl reads them: several merged into one, relative paths resolved, one context chosen.

kubernetes-asyncio merges differently: it takes the current context from the last file where kubectl takes the first, it
resolves a user's certificate relative to the file of the cluster, it requires a user, and its errors about a file that
is not a kubeconfig do not help to fix it.

Messages name files, contexts and settings, never the contents of a user's entry.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from restow.kube.errors import ConfigError

__all__ = ["KubeContext", "choose_context"]

_PATHS = {
    "clusters": ("certificate-authority",),
    "users": ("client-certificate", "client-key", "tokenFile"),
}
_IMPERSONATION = ("as", "as-uid", "as-groups", "as-user-extra")


@dataclass(frozen=True, slots=True)
class KubeContext:
    """One context of the merged files, with its namespace (or ``default``), cluster and user; paths are absolute."""

    context: str
    namespace: str
    cluster: Mapping[str, Any]
    user: Mapping[str, Any]

    def to_document(self) -> dict[str, Any]:
        """Return a kubeconfig with only this context."""
        name = self.context
        return {
            "current-context": name,
            "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
            "clusters": [{"name": name, "cluster": dict(self.cluster)}],
            "users": [{"name": name, "user": dict(self.user)}],
        }

    def __repr__(self) -> str:
        return f"KubeContext(context={self.context!r})"


def choose_context(files: Sequence[Path], context: str | None = None) -> KubeContext:
    """Read the files and return a context, by default the current one; the first file that sets something wins.

    Raises:
        ConfigError: a file cannot be read or is malformed, or no file has the context, its cluster or its user.
    """
    documents = [_read(file) for file in files]
    where = f"kubeconfig {os.pathsep.join(map(str, files))!r}"
    contexts = _merged("contexts", documents, files)
    known = f"it has {', '.join(sorted(contexts))}" if contexts else "it has none"
    name = str(context or next((each["current-context"] for each in documents if each.get("current-context")), ""))
    if not name:
        msg = f"{where} names no current-context: give --context NAME ({known})"
        raise ConfigError(msg)
    if name not in contexts:
        msg = f"{where} has no context {name!r}: give --context NAME ({known})"
        raise ConfigError(msg)
    entry = contexts[name]
    cluster = _lookup("cluster", entry, _merged("clusters", documents, files), f"context {name!r} of {where}")
    if not cluster.get("server"):
        msg = f"cluster {entry['cluster']!r} of {where} names no server: set its server to https://HOST:PORT"
        raise ConfigError(msg)
    user: Mapping[str, Any] = {}
    if entry.get("user"):
        user = _lookup("user", entry, _merged("users", documents, files), f"context {name!r} of {where}")
    if any(key in user for key in _IMPERSONATION):
        msg = f"user {entry['user']!r} of {where} impersonates another ('as'), which is not supported: choose another"
        raise ConfigError(msg)
    return KubeContext(name, str(entry.get("namespace") or "default"), cluster, user)


def _read(file: Path) -> Mapping[str, Any]:
    try:
        document = yaml.safe_load(file.read_bytes())
    except OSError as error:
        msg = f"kubeconfig {str(file)!r} cannot be read: {error.strerror}"
        raise ConfigError(msg) from error
    except (yaml.YAMLError, ValueError) as error:
        mark = getattr(error, "problem_mark", None)
        line = "" if mark is None else f" (line {mark.line + 1})"
        msg = f"kubeconfig {str(file)!r} is not YAML{line}: name another file, or fix this one"
        raise ConfigError(msg) from error
    if document is None:  # an empty file merges as nothing
        return {}
    if not isinstance(document, Mapping):
        msg = f"{str(file)!r} is not a kubeconfig: it holds no mapping at its top"
        raise ConfigError(msg)
    return document


def _merged(kind: str, documents: Sequence[Mapping[str, Any]], files: Sequence[Path]) -> dict[str, Mapping[str, Any]]:
    """Return the named entries (``clusters``, ``contexts``, ``users``) of all files."""
    merged: dict[str, Mapping[str, Any]] = {}
    for document, file in zip(documents, files, strict=True):
        entries = document.get(kind) or []
        if not isinstance(entries, list) or not all(isinstance(each, Mapping) and "name" in each for each in entries):
            msg = f"kubeconfig {str(file)!r} is malformed: {kind} must be a list of entries with names"
            raise ConfigError(msg)
        for each in entries:
            content = each.get(kind.removesuffix("s")) or {}
            if isinstance(content, Mapping):
                merged.setdefault(str(each["name"]), _with_whole_paths(kind, content, file.absolute().parent))
    return merged


def _with_whole_paths(kind: str, entry: Mapping[str, Any], folder: Path) -> Mapping[str, Any]:
    """Resolve paths relative to their file; a plugin's command is a path only if it has a slash."""
    whole = dict(entry)
    for key in _PATHS.get(kind, ()):
        if whole.get(key):
            whole[key] = str(folder / str(whole[key]))
    if whole.get("tokenFile"):
        whole.pop("token", None)  # the file is the one that gets renewed
    plugin = whole.get("exec")
    if isinstance(plugin, Mapping) and os.sep in str(plugin.get("command", "")):
        whole["exec"] = {**plugin, "command": str(folder / str(plugin["command"]))}
    return whole


def _lookup(
    kind: str, entry: Mapping[str, Any], known: Mapping[str, Mapping[str, Any]], where: str
) -> Mapping[str, Any]:
    name = str(entry.get(kind) or "")
    if name not in known:
        msg = f"{where} names the {kind} {name!r}, which is not there: add it, or choose another with --context NAME"
        raise ConfigError(msg)
    return known[name]
