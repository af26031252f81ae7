"""Kubeconfig files as kubectl reads them: several merged into one, relative paths resolved, one context chosen.

kubernetes-asyncio merges differently: it takes the current context from the last file, where kubectl takes the first;
it resolves a user's certificate relative to the file of the cluster; it requires a user; and its errors about a file
that is not a kubeconfig do not help to fix it.

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
from restow.kube.impersonation import Impersonation

_PATHS = {
    "clusters": ("certificate-authority",),
    "users": ("client-certificate", "client-key", "tokenFile"),
}


@dataclass(frozen=True, slots=True)
class KubeContext:
    """One context of the merged files, with its namespace (or ``default``), cluster and user; paths are absolute.

    The name of the context is empty if only a cluster was chosen.
    """

    context: str
    namespace: str
    cluster: Mapping[str, Any]
    user: Mapping[str, Any]
    impersonation: Impersonation

    def to_document(self) -> dict[str, Any]:
        """Return a kubeconfig with only this context."""
        name = self.context or "chosen"
        return {
            "current-context": name,
            "contexts": [{"name": name, "context": {"cluster": name, "user": name}}],
            "clusters": [{"name": name, "cluster": dict(self.cluster)}],
            "users": [{"name": name, "user": dict(self.user)}],
        }

    def __repr__(self) -> str:
        return f"KubeContext(context={self.context!r})"


def choose_context(
    files: Sequence[Path], context: str | None = None, *, cluster: str | None = None, user: str | None = None
) -> KubeContext:
    """Read the files and return a context, by default the current one; the first file that sets something wins.

    Args:
        files: the kubeconfig files.
        context: the name of the context; its cluster and user apply unless ``cluster`` and ``user`` replace them.
        cluster: the name of a cluster.
        user: the name of a user.

    Raises:
        ConfigError: a file cannot be read or is malformed, or no file has the context, its cluster or its user.
    """
    documents = [_read(file) for file in files]
    where = f"kubeconfig {os.pathsep.join(map(str, files))!r}"
    contexts = _merged("contexts", documents, files)
    name = str(context or next((each["current-context"] for each in documents if each.get("current-context")), ""))
    if not name and cluster is None:
        msg = f"{where} names no current-context: give --context NAME ({_listed(contexts)})"
        raise ConfigError(msg)
    if name and name not in contexts:
        msg = f"{where} has no context {name!r}: give --context NAME ({_listed(contexts)})"
        raise ConfigError(msg)
    entry = contexts.get(name, {})
    server = _lookup("cluster", cluster, name, entry, _merged("clusters", documents, files), where)
    if not server.get("server"):
        which = cluster or entry.get("cluster")
        msg = f"cluster {which!r} of {where} names no server: set its server to https://HOST:PORT"
        raise ConfigError(msg)
    account: Mapping[str, Any] = {}
    if user is not None or entry.get("user"):
        account = _lookup("user", user, name, entry, _merged("users", documents, files), where)
    try:
        impersonation = Impersonation.of_entry(account)
    except ValueError as error:
        msg = f"user {user or entry.get('user')!r} of {where} is malformed: {error}"
        raise ConfigError(msg) from error
    namespace = str(entry.get("namespace") or "default")
    return KubeContext(name, namespace, server, Impersonation.without_entries(account), impersonation)


def context_names(files: Sequence[Path]) -> tuple[str, ...]:
    """Return the names of all contexts of the files, in their order.

    Raises:
        ConfigError: a file cannot be read or is malformed.
    """
    return tuple(_merged("contexts", [_read(file) for file in files], files))


def _listed(known: Mapping[str, Any]) -> str:
    return f"it has {', '.join(sorted(known))}" if known else "it has none"


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
    if document is None:  # an empty file adds nothing
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
        whole.pop("token", None)  # only the file gets renewed
    plugin = whole.get("exec")
    if isinstance(plugin, Mapping) and os.sep in str(plugin.get("command", "")):
        whole["exec"] = {**plugin, "command": str(folder / str(plugin["command"]))}
    return whole


def _lookup(
    kind: str,
    chosen: str | None,
    context: str,
    entry: Mapping[str, Any],
    known: Mapping[str, Mapping[str, Any]],
    where: str,
) -> Mapping[str, Any]:
    """Return the cluster or user that was chosen by name, else the context's own."""
    if chosen is not None and chosen not in known:
        msg = f"{where} has no {kind} {chosen!r}: give another --{kind} NAME ({_listed(known)})"
        raise ConfigError(msg)
    name = chosen if chosen is not None else str(entry.get(kind) or "")
    if name not in known:
        msg = (
            f"context {context!r} of {where} names the {kind} {name!r}, which is not there: add it, or choose another "
            "with --context NAME"
        )
        raise ConfigError(msg)
    return known[name]
