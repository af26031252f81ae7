"""The flags of the connection at a real API server: impersonation, limits of requests, names that do not exist."""

from __future__ import annotations

import asyncio
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from restow.controlplane.plane import ControlPlane
from restow.kube import Impersonation, connect
from restow.kube.errors import ApiError
from restow.kube.resources import Resource
from tests.apiserver.access import Access, Right, on_crd, on_objects
from tests.apiserver.kind import Kind
from tests.restow.commandline import Cli, restow

REVIEWS = Resource("authentication.k8s.io", "v1", "selfsubjectreviews", namespaced=False)
REVIEW = b'{"apiVersion": "authentication.k8s.io/v1", "kind": "SelfSubjectReview"}'
WHOM = Impersonation("jane", "7", ("developers", "admins"), {"example.com/Scope": ("read", "write")})


@pytest.fixture
def silent() -> Iterator[str]:
    """The address of a server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield f"http://127.0.0.1:{server.getsockname()[1]}"


async def test_the_api_server_takes_us_for_whom_we_impersonate(kubeconfig: Path) -> None:
    """Every field counts: with a group less, another user is tried."""
    async with connect(kubeconfig, impersonate=WHOM) as cluster:
        user = (await cluster.create(REVIEWS, REVIEW)).json()["status"]["userInfo"]
    assert (user["username"], user["uid"]) == ("jane", "7")
    assert set(user["groups"]) == {"developers", "admins", "system:authenticated"}
    assert user["extra"] == {"example.com/scope": ["read", "write"]}


async def test_a_kubeconfig_impersonates(kubeconfig: Path, tmp_path: Path) -> None:
    """Break-glass contexts are written so; they were refused before."""
    document = yaml.safe_load(kubeconfig.read_text())
    document["users"][0]["user"] |= {"as": "jane", "as-groups": ["developers"], "as-user-extra": {"a%b": ["c"]}}
    file = tmp_path / "kubeconfig"
    file.write_text(yaml.safe_dump(document))
    async with connect(file) as cluster:
        user = (await cluster.create(REVIEWS, REVIEW)).json()["status"]["userInfo"]
    assert (user["username"], user["extra"]) == ("jane", {"a%b": ["c"]})
    assert "developers" in user["groups"]


async def test_a_command_has_the_rights_of_whom_it_impersonates(kind: Kind, cli: Cli, access: Access) -> None:
    """--as is for trying a role before a Job gets it: the answer must be that user's."""
    await access.user("jane-who-reads", on_crd(kind, "get"), on_objects(kind, "list"))
    assert (await cli("status", kind.name, "--as", "jane-who-reads")).code == 0
    refused = await cli("status", kind.name, "--as", "jane-who-does-not", "--as-group", "nobodies")
    assert refused.code == 2
    assert 'User "jane-who-does-not" cannot get' in refused.err
    by_group = await cli("status", kind.name, "--as", "jane-who-does-not", "--as-group", "system:masters")
    assert by_group.code == 0


async def test_an_attribute_of_whom_it_impersonates_needs_a_right(kind: Kind, cli: Cli, access: Access) -> None:
    """Rights can depend on attributes of a user: the API server must be asked with them, and asks for its own right."""
    flags = ("--as", "jane-of-a-scope", "--as-group", "system:masters", "--as-user-extra", "example.com/scope=read")
    assert (await cli("status", kind.name, *flags)).code == 0
    names = (Right("", "users", ("impersonate",)), Right("", "groups", ("impersonate",)))
    user = await access.user("impersonator-of-a-scope", *names)
    refused = await asyncio.to_thread(restow, "status", kind.name, *flags, kubeconfig=user.kubeconfig)
    assert refused.code == 2
    assert "cannot impersonate" in refused.err
    await access.grant(user, Right("authentication.k8s.io", "userextras/example.com/scope", ("impersonate",)))
    assert (await asyncio.to_thread(restow, "status", kind.name, *flags, kubeconfig=user.kubeconfig)).code == 0


async def test_impersonation_that_is_not_allowed_is_refused(access: Access, kind: Kind) -> None:
    """The right to impersonate is asked of the real user, and the refusal names whom."""
    user = await access.user("no-impersonator", on_crd(kind, "get"))
    async with connect(user.kubeconfig, impersonate=Impersonation("jane")) as cluster:
        with pytest.raises(ApiError, match="cannot impersonate") as caught:
            await cluster.create(REVIEWS, REVIEW)
    assert caught.value.status == 403


async def test_a_request_that_takes_too_long_ends_with_exit_code_4(silent: str, tmp_path: Path) -> None:
    """Without a limit a script waits for over a minute; the limit must also bound the retries of a read."""
    file = tmp_path / "kubeconfig"
    file.write_text(
        yaml.safe_dump(
            {
                "current-context": "c",
                "contexts": [{"name": "c", "context": {"cluster": "c", "user": "u"}}],
                "clusters": [{"name": "c", "cluster": {"server": silent}}],
                "users": [{"name": "u", "user": {}}],
            }
        )
    )
    limit = ("--request-timeout", "200ms")
    ran = await asyncio.to_thread(
        restow, "status", "-v=6", *limit, kubeconfig=file, environment={"RESTOW_PATIENCE": ""}
    )
    assert ran.code == 4, ran.err
    assert f"{silent} did not answer in time" in ran.err
    version = await asyncio.to_thread(restow, "version", *limit, "-o", "json", kubeconfig=file)
    assert (version.code, version.json["server"]) == (0, None)
    assert f"no version of the API server: get /version: {silent} did not answer in time" in version.err


async def test_version_names_the_api_server(cli: Cli, server_minor: tuple[int, int]) -> None:
    """A bug report needs both versions."""
    server = (await cli("version", "-o", "json")).json["server"]
    assert server["version"].startswith("v{}.{}.".format(*server_minor))
    assert ["API server", server["version"]] in (await cli("version")).rows
    assert "server" not in (await cli("version", "--client", "-o", "json")).json


@pytest.mark.parametrize("command", ["migrate", "plan"])
@pytest.mark.parametrize("named", [True, False], ids=["one CRD", "--all"])
async def test_a_namespace_that_does_not_exist_is_an_error(kind: Kind, cli: Cli, command: str, named: bool) -> None:
    """Success with 0 objects after a slip of the pen is taken for a namespace that is migrated."""
    which = kind.name if named else "--all"
    ran = await cli(command, which, "-n", "kube-pubilc")
    assert ran.refusal.startswith("there is no namespace 'kube-pubilc' on ")
    assert ran.refusal.endswith(": did you mean kube-public?")
    assert (await cli(command, kind.name, "-n", "kube-public")).code == 0


@pytest.mark.parametrize("command", ["status", "plan", "migrate"])
async def test_a_mistyped_crd_is_answered_with_the_nearest(
    kind: Kind, cli: Cli, control_plane: ControlPlane, command: str
) -> None:
    """kubectl takes a short name, and restow does not: the sentence has the one that was meant."""
    mistyped = kind.name.replace(".", "s.", 1)
    ran = await cli(command, mistyped)
    # The CRDs of other tests, on their way out, may follow.
    nearest = re.escape(f"there is no CRD {mistyped!r} on {control_plane.server}: did you mean {kind.name}")
    assert re.fullmatch(rf"{nearest}(, [\w.-]+)?( or [\w.-]+)?\?", ran.refusal)


async def test_a_mistyped_version_is_answered_with_the_nearest(kind: Kind, cli: Cli) -> None:
    """The versions of a CRD differ by a few letters."""
    ran = await cli("ready", kind.name, "--drop", "v1aplha1")
    assert ran.refusal.endswith("did you mean v1alpha1?")


async def test_status_takes_all(kind: Kind, cli: Cli) -> None:
    """The other commands need --all, so people give it here too."""
    every = (await cli("status", "--all", "-o", "json")).json
    assert kind.name in {crd["name"] for crd in every["crds"]}
    assert every == (await cli("status", "-o", "json")).json
    assert (await cli("status", "--all", kind.name)).code == 2
