"""Whom requests impersonate: the headers of client-go, out of a kubeconfig and of flags."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from restow.kube import Impersonation
from restow.kube.credentials import load_connection
from restow.kube.errors import ConfigError

FULL = {
    "as": "jane",
    "as-uid": "7",
    "as-groups": ["developers", "admins"],
    "as-user-extra": {"example.com/Scope": ["read", "write"], "a%b": ["c"]},
}


def kubeconfig(folder: Path, **user: Any) -> Path:
    """A file with one user and two clusters."""
    file = folder / "kubeconfig"
    servers = [{"name": name, "cluster": {"server": f"http://{name}:1"}} for name in ("here", "there")]
    context = {"name": "c", "context": {"cluster": "here", "user": "u", "namespace": "team"}}
    users = [{"name": "u", "user": {"token": "t", **user}}, {"name": "other", "user": {"token": "o"}}]
    document = {"current-context": "c", "contexts": [context], "clusters": servers, "users": users}
    file.write_text(yaml.safe_dump(document))
    return file


async def test_a_user_entry_becomes_the_headers_of_client_go(tmp_path: Path) -> None:
    """An API server that gets a group less, or a key in another encoding, decides about another user."""
    assert (await load_connection(kubeconfig(tmp_path, **FULL))).impersonation == (
        ("Impersonate-User", "jane"),
        ("Impersonate-Uid", "7"),
        ("Impersonate-Group", "developers"),
        ("Impersonate-Group", "admins"),
        ("Impersonate-Extra-a%25b", "c"),
        ("Impersonate-Extra-example.com%2FScope", "read"),
        ("Impersonate-Extra-example.com%2FScope", "write"),
    )


async def test_flags_replace_the_fields_that_they_set(tmp_path: Path) -> None:
    """kubectl merges so; a script with --as works the same with restow."""
    flags = Impersonation("bob", groups=("viewers",))
    found = await load_connection(kubeconfig(tmp_path, **{"as": "jane", "as-groups": ["a", "b"]}), impersonate=flags)
    assert found.impersonation == (("Impersonate-User", "bob"), ("Impersonate-Group", "viewers"))


@pytest.mark.parametrize(
    ("user", "flags", "said"),
    [
        ({"as-groups": ["a"]}, Impersonation(), "without a user"),
        ({}, Impersonation(uid="7"), "without a user"),
        ({"as": "jane\nbob"}, Impersonation(), "control character"),
        ({"as": "jane", "as-groups": "a"}, Impersonation(), "as-groups must be a list"),
        ({"as": "jane", "as-user-extra": {"k": "v"}}, Impersonation(), "as-user-extra must be a mapping"),
        ({"as": 7}, Impersonation(), "as and as-uid must be texts"),
    ],
)
async def test_what_cannot_be_impersonated_is_refused(
    user: dict[str, Any], flags: Impersonation, said: str, tmp_path: Path
) -> None:
    """Requests that silently run as the real user would have more rights than were asked for."""
    with pytest.raises(ConfigError, match=said) as caught:
        await load_connection(kubeconfig(tmp_path, **user), impersonate=flags)
    assert "bob" not in str(caught.value)


async def test_cluster_and_user_replace_those_of_the_context(tmp_path: Path) -> None:
    """kubectl's --cluster and --user; the namespace stays the context's."""
    found = await load_connection(kubeconfig(tmp_path, **FULL), cluster="there", user="other")
    assert (found.host, found.authorization, found.namespace) == ("http://there:1", "Bearer o", "team")
    assert found.impersonation == ()


@pytest.mark.parametrize("flag", ["cluster", "user"])
async def test_an_unknown_cluster_or_user_is_refused_with_the_known_ones(flag: str, tmp_path: Path) -> None:
    """The name is in the file, so the message can list what is there."""
    known = {"cluster": "here, there", "user": "other, u"}[flag]
    with pytest.raises(ConfigError, match=rf"has no {flag} 'nope': give another --{flag} NAME \(it has {known}\)"):
        await load_connection(kubeconfig(tmp_path), **{flag: "nope"})


async def test_a_cluster_needs_no_context(tmp_path: Path) -> None:
    """A file of clusters and users alone is enough for kubectl with both flags."""
    file = kubeconfig(tmp_path)
    document = yaml.safe_load(file.read_text())
    del document["current-context"]
    file.write_text(yaml.safe_dump(document))
    with pytest.raises(ConfigError, match="names no current-context"):
        await load_connection(file, user="other")
    found = await load_connection(file, cluster="there", user="other")
    assert (found.host, found.authorization, found.context) == ("http://there:1", "Bearer o", None)
