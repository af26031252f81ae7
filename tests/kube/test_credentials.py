"""Where to go and as whom: kubeconfigs merged as kubectl does, credentials renewed in time, and what is told if not."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from restow.controlplane.plane import ControlPlane
from restow.kube import Resource, connect
from restow.kube import credentials as renewal
from restow.kube.client import HttpCluster
from restow.kube.cluster import Request
from restow.kube.credentials import load_connection
from restow.kube.errors import ConfigError, CredentialsExpired, Forbidden, Unauthorized, Unreachable
from restow.kube.resources import CRDS
from tests.kube.recording import Recording, always, kubeconfig, serving

WIDGETS = Resource("example.com", "v1", "widgets", namespaced=True)
SELF = Resource("authentication.k8s.io", "v1", "selfsubjectreviews", namespaced=False)
START = datetime(2026, 1, 1, 12, tzinfo=UTC)
SERVER = "http://server.example.test"
SECRET = "hunter2-is-not-for-messages"
WITH_CLUSTER = """
current-context: b
contexts: [{name: b, context: {cluster: k, user: u}}]
clusters: [{name: k, cluster: {server: "https://h"}}]
"""


class Clock:
    """A clock that stands still until it is told."""

    def __init__(self) -> None:
        self.now = START

    def __call__(self) -> datetime:
        return self.now

    def passes(self, **span: float) -> None:
        self.now += timedelta(**span)


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither this machine's clusters nor its proxies."""
    for name in ("KUBECONFIG", "KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"):
        monkeypatch.delenv(name, raising=False)
    for name in ("HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "ALL_PROXY"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.lower(), raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))


class Plugin:
    """An exec plugin: the n-th run answers with the n-th status, and the last one from then on; None fails."""

    def __init__(self, folder: Path, *statuses: Mapping[str, Any] | None) -> None:
        self.runs_file = folder / "runs"
        answers = folder / "answers.json"
        answers.write_text(json.dumps(statuses))
        self.script = folder / "plugin"
        self.script.write_text(
            f"#!{sys.executable}\n"
            "import json, os\n"
            f"with open({str(self.runs_file)!r}, 'a') as file:\n"
            "    file.write('.')\n"
            f"runs = os.path.getsize({str(self.runs_file)!r})\n"
            f"statuses = json.load(open({str(answers)!r}))\n"
            "info = json.loads(os.environ['KUBERNETES_EXEC_INFO'])\n"
            "status = statuses[min(runs, len(statuses)) - 1]\n"
            "if status is None:\n"
            "    raise SystemExit('the vault is sealed')\n"
            "print(json.dumps({'apiVersion': info['apiVersion'], 'kind': 'ExecCredential', 'status': status}))\n"
        )
        self.script.chmod(0o700)
        self.user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": str(self.script)}}

    @property
    def runs(self) -> int:
        """How often it was run."""
        return self.runs_file.stat().st_size if self.runs_file.exists() else 0


def token(number: int, **expires_in: float) -> dict[str, str]:
    """What a plugin answers: a token, and when it expires if it tells."""
    expiry = {"expirationTimestamp": (START + timedelta(**expires_in)).isoformat()} if expires_in else {}
    return {"token": f"token-{number}"} | expiry


async def ask(cluster: HttpCluster) -> None:
    await cluster.get(WIDGETS, "w", "ns")


class TestExecPlugins:
    """Clouds hand out tokens for minutes, and a migration runs for hours."""

    @asynccontextmanager
    async def running(
        self, folder: Path, plugin: Plugin, *accepted: str, clock: Clock | None = None
    ) -> AsyncIterator[tuple[HttpCluster, Recording]]:
        """A client with the plugin, of a server that accepts these tokens only, or any if none is named."""

        async def answer(request: web.BaseRequest) -> web.StreamResponse:
            known = not accepted or request.headers["Authorization"].removeprefix("Bearer ") in accepted
            return await always(200 if known else 401, {"kind": "Widget"})(request)

        async with serving(answer) as server:
            config = kubeconfig(folder / "kubeconfig", server.url, plugin.user)
            async with connect(config, now=clock or Clock()) as cluster:
                yield cluster, server

    async def test_a_token_is_renewed_before_it_expires(self, tmp_path: Path) -> None:
        """Renewed on expiry only, each request in flight at that moment would fail."""
        clock = Clock()
        plugin = Plugin(tmp_path, token(1, minutes=10), token(2, minutes=20), token(3, minutes=30))
        async with self.running(tmp_path, plugin, clock=clock) as (cluster, server):
            for minutes in (0.0, 8.9, 0.2, 5.0, 5.0):
                clock.passes(minutes=minutes)
                await ask(cluster)
        assert server.tokens == [f"Bearer token-{number}" for number in (1, 1, 2, 2, 3)]
        assert plugin.runs == 3

    async def test_a_short_lived_token_is_not_renewed_at_every_request(self, tmp_path: Path) -> None:
        """A plugin that takes a second, run for each of a million objects, would be the migration's whole time."""
        clock = Clock()
        plugin = Plugin(tmp_path, token(1, seconds=40), token(2, seconds=80))
        async with self.running(tmp_path, plugin, clock=clock) as (cluster, server):
            for seconds in (0.0, 15.0, 10.0):
                clock.passes(seconds=seconds)
                await ask(cluster)
        assert server.tokens == [f"Bearer token-{number}" for number in (1, 1, 2)]

    async def test_a_token_that_is_refused_is_renewed_once(self, tmp_path: Path) -> None:
        """A token revoked before its time must not end the run."""
        plugin = Plugin(tmp_path, token(1), token(2))
        async with self.running(tmp_path, plugin, "token-2") as (cluster, server):
            await ask(cluster)
            await ask(cluster)
        assert server.tokens == [f"Bearer token-{number}" for number in (1, 2, 2)]
        assert plugin.runs == 2

    async def test_a_user_who_is_refused_twice_is_refused(self, tmp_path: Path) -> None:
        """Trying on would hammer both the plugin and the API server for ever."""
        plugin = Plugin(tmp_path, token(1), token(2), token(3))
        async with self.running(tmp_path, plugin, "token-3") as (cluster, server):
            with pytest.raises(Unauthorized):
                await ask(cluster)
        assert len(server.requests) == plugin.runs == 2

    async def test_many_refused_requests_renew_once_together(self, tmp_path: Path) -> None:
        """Sixteen writes in flight must not start sixteen plugins, each perhaps with a browser window."""
        plugin = Plugin(tmp_path, token(1), token(2))
        async with self.running(tmp_path, plugin, "token-2") as (cluster, _server):
            await asyncio.gather(*(ask(cluster) for _ in range(16)))
        assert plugin.runs == 2

    async def test_a_watch_renews_too(self, tmp_path: Path) -> None:
        """A reconciler that only watches would otherwise die of its first expired token."""
        plugin = Plugin(tmp_path, token(1), token(2))
        async with (
            self.running(tmp_path, plugin, "token-2") as (cluster, server),
            cluster.watch(WIDGETS, params={}) as lines,
        ):
            assert [line async for line in lines] == [b'{"kind": "Widget"}']
        assert server.tokens == ["Bearer token-1", "Bearer token-2"]

    @pytest.mark.apiserver
    async def test_client_certificates_are_taken_and_renewed(self, control_plane: ControlPlane, tmp_path: Path) -> None:
        """A plugin may answer with a certificate, which does not tell its end: a 401 is the time to renew it."""
        expired = control_plane.user("exec-early", valid_for=-timedelta(minutes=1))
        renewed = control_plane.user("exec-late")
        plugin = Plugin(
            tmp_path,
            *(
                {
                    "clientCertificateData": user.certificate_file.read_text(),
                    "clientKeyData": user.key_file.read_text(),
                }
                for user in (expired, renewed)
            ),
        )
        config = kubeconfig(
            tmp_path / "kubeconfig",
            control_plane.server,
            plugin.user,
            **{"certificate-authority": str(control_plane.ca_file)},
        )
        async with connect(config) as cluster:
            for _ in range(2):
                answer = (await cluster.create(SELF, b"{}")).json()
                assert answer["status"]["userInfo"]["username"] == "exec-late"
        assert plugin.runs == 2

    async def test_the_command_may_lie_next_to_the_kubeconfig(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """kubectl takes a command with a slash relative to the kubeconfig, not to where one happens to stand."""
        plugin = Plugin(tmp_path, token(1))
        plugin.user["exec"]["command"] = "./plugin"
        monkeypatch.chdir("/")
        connection = await load_connection(kubeconfig(tmp_path / "kubeconfig", SERVER, plugin.user))
        assert connection.authorization == "Bearer token-1"

    @pytest.mark.parametrize(
        ("script", "said"),
        [
            ("echo log in first >&2; exit 3", "exec: process returned 3. log in first"),
            ("echo nonsense", "exec: failed to decode process output"),
            ('echo \'{"apiVersion": "v0", "kind": "ExecCredential", "status": {}}\'', "api version v0"),
            (
                'echo \'{"apiVersion": "client.authentication.k8s.io/v1", "kind": "ExecCredential", "status": {}}\'',
                "neither a token nor a client certificate",
            ),
        ],
    )
    async def test_a_plugin_that_fails_is_told(self, script: str, said: str, tmp_path: Path) -> None:
        """Going on as nobody would give a 403 that sends the reader to an administrator."""
        plugin = Plugin(tmp_path, {})
        plugin.user["exec"] |= {"command": "/bin/sh", "args": ["-c", script]}
        with pytest.raises(ConfigError, match=r"context 'c' of kubeconfig '.*kubeconfig' cannot be used") as caught:
            await load_connection(kubeconfig(tmp_path / "kubeconfig", SERVER, plugin.user))
        assert said in str(caught.value)
        assert "\n" not in str(caught.value)

    async def test_a_plugin_that_is_not_installed_is_told(self, tmp_path: Path) -> None:
        """The name of the missing command is what the reader needs."""
        user = {"exec": {"apiVersion": "client.authentication.k8s.io/v1", "command": "no-such-plugin"}}
        with pytest.raises(ConfigError, match="No such file or directory: 'no-such-plugin'"):
            await load_connection(kubeconfig(tmp_path / "kubeconfig", SERVER, user))


class TestRenewalsThatFail:
    """A plugin or a token file that fails for a moment must cost a run of hours nothing that waiting would save."""

    async def test_valid_credentials_are_used_until_they_end(
        self, tmp_path: Path, caplog: pytest.LogCaptureFixture
    ) -> None:
        """An object that failed for a hiccup of the plugin, though its token was good, was the whole run's failure."""
        clock = Clock()
        plugin = Plugin(tmp_path, token(1, minutes=10), None, None, token(2, minutes=30))
        async with serving(always(200, {})) as server:
            config = kubeconfig(tmp_path / "kubeconfig", server.url, plugin.user)
            async with connect(config, now=clock) as cluster:
                clock.passes(minutes=9)
                await asyncio.gather(*(ask(cluster) for _ in range(16)))
                assert plugin.runs == 2, "sixteen requests, and one attempt that failed"
                clock.passes(seconds=10)
                await ask(cluster)
                assert plugin.runs == 3
                assert "the vault is sealed" in caplog.text
                assert len(caplog.records) == 1, "a failure is logged once, not at every attempt"
                clock.passes(seconds=10)
                await ask(cluster)
        assert server.tokens == [*["Bearer token-1"] * 17, "Bearer token-2"]

    async def test_what_has_ended_is_an_outage_that_passes(self, tmp_path: Path) -> None:
        """A configuration's error is final to every caller, and would end each object of the run."""
        clock = Clock()
        plugin = Plugin(tmp_path, token(1, minutes=10), None, None, token(2, minutes=30))
        async with serving(always(200, {})) as server:
            config = kubeconfig(tmp_path / "kubeconfig", server.url, plugin.user)
            async with connect(config, now=clock) as cluster, cluster.at(f"{server.url}/") as aside:
                clock.passes(minutes=11)
                refusals = await asyncio.gather(*(ask(cluster) for _ in range(16)), return_exceptions=True)
                assert {type(each) for each in refusals} == {CredentialsExpired}
                assert "the vault is sealed" in str(refusals[0])
                assert (plugin.runs, server.requests) == (2, [])
                clock.passes(seconds=1)
                with pytest.raises(Unreachable, match="are no longer good, and could not be renewed"):
                    await ask(aside)
                clock.passes(seconds=1)
                await ask(aside)
                await ask(cluster)
        assert server.tokens == ["Bearer token-2"] * 2

    async def test_a_refused_token_that_cannot_be_renewed_is_an_outage_too(self, tmp_path: Path) -> None:
        """A token that was revoked, and a plugin that is down for the moment: both pass."""
        clock, plugin = Clock(), Plugin(tmp_path, token(1), None, token(2))

        async def answer(request: web.BaseRequest) -> web.StreamResponse:
            return await always(200 if request.headers["Authorization"] == "Bearer token-2" else 401)(request)

        async with serving(answer) as server:
            config = kubeconfig(tmp_path / "kubeconfig", server.url, plugin.user)
            async with connect(config, now=clock) as cluster:
                with pytest.raises(CredentialsExpired):
                    await ask(cluster)
                clock.passes(seconds=1)
                await ask(cluster)

    async def test_a_token_file_may_be_missing_for_a_moment(self, tmp_path: Path) -> None:
        """Tools that rotate a file by removing it first are many."""
        clock, file = Clock(), tmp_path / "token"
        file.write_text("one")
        async with serving(always(200, {})) as server:
            config = kubeconfig(tmp_path / "kubeconfig", server.url, {"tokenFile": str(file)})
            async with connect(config, now=clock) as cluster:
                file.unlink()
                clock.passes(minutes=2)
                await ask(cluster)
                file.write_text("two")
                clock.passes(seconds=10)
                await ask(cluster)
        assert server.tokens == ["Bearer one", "Bearer two"]

    async def test_a_plugin_that_hangs_holds_nothing_up_while_the_token_is_good(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """One that asks a person to log in would otherwise stop a run long before its token ends."""
        monkeypatch.setattr(renewal, "_TIMEOUT_WHILE_VALID", 0.01)
        monkeypatch.setattr(renewal, "_TIMEOUT", 0.01)
        clock, plugin = Clock(), Plugin(tmp_path, token(1, minutes=10), token(2, minutes=30))
        door, answering = tmp_path / "door", tmp_path / "answering"
        os.mkfifo(door)
        async with serving(always(200, {})) as server:
            config = kubeconfig(tmp_path / "kubeconfig", server.url, plugin.user)
            async with connect(config, now=clock) as cluster:
                plugin.script.rename(answering)
                plugin.script.write_text(f"#!/bin/sh\nread _ < '{door}'\nexec '{answering}'\n")
                plugin.script.chmod(0o700)
                clock.passes(minutes=9)
                await ask(cluster)
                clock.passes(minutes=2)
                with pytest.raises(CredentialsExpired, match="did not end yet"):
                    await ask(cluster)
                monkeypatch.setattr(renewal, "_TIMEOUT", 60.0)
                await asyncio.to_thread(door.write_text, "\n")
                await ask(cluster)
        assert server.tokens == ["Bearer token-1", "Bearer token-2"]

    async def test_a_run_never_changes_its_server(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """Another context chosen meanwhile (`kubectl config use-context`) must not send the rest of a run elsewhere."""
        clock, plugin = Clock(), Plugin(tmp_path, token(1, minutes=10), token(2, minutes=20))
        async with serving(always(200, {})) as server, serving(always(200, {})) as other:
            config = kubeconfig(tmp_path / "kubeconfig", server.url, plugin.user)
            added = kubeconfig(tmp_path / "added", other.url, {"token": "t"}, name="other")
            monkeypatch.setenv("KUBECONFIG", os.pathsep.join(map(str, (config, added))))
            async with connect(now=clock) as cluster:
                document = json.loads(config.read_text())
                config.write_text(json.dumps(document | {"current-context": "other"}))
                clock.passes(minutes=9.5)
                await ask(cluster)
                kubeconfig(config, other.url, plugin.user)
                clock.passes(minutes=20)
                with pytest.raises(CredentialsExpired, match="start again"):
                    await ask(cluster)
        assert (server.tokens, other.tokens) == (["Bearer token-2"], [])

    @pytest.mark.apiserver
    async def test_connections_are_kept_while_the_certificates_are_the_same(
        self, control_plane: ControlPlane, tmp_path: Path
    ) -> None:
        """Each minute's look at a token file would otherwise cost 32 handshakes with the API server."""
        ca, file = tmp_path / "ca.crt", tmp_path / "token"
        ca.write_bytes(control_plane.ca_file.read_bytes())
        file.write_text("one")
        config = kubeconfig(
            tmp_path / "kubeconfig",
            control_plane.server,
            {"tokenFile": str(file)},
            **{"certificate-authority": str(ca)},
        )
        first = await load_connection(config)
        file.write_text("two")
        again = await load_connection(config, known=first)
        assert (again.tls, again.authorization) == (first.tls, "Bearer two")
        ca.write_bytes(ca.read_bytes() + control_plane.user("another").certificate_file.read_bytes())
        assert (await load_connection(config, known=again)).tls is not first.tls


class TestTokenFiles:
    """The kubelet and many a tool rotate tokens in place."""

    async def test_it_is_read_again_every_minute(self, tmp_path: Path) -> None:
        """A projected token expires within the hour; the newline at its end is no part of it."""
        clock, file = Clock(), tmp_path / "token"
        file.write_text("one\n")
        async with serving(always(200, {})) as server:
            config = kubeconfig(tmp_path / "kubeconfig", server.url, {"tokenFile": "token", "token": "stale"})
            async with connect(config, now=clock) as cluster:
                await ask(cluster)
                file.write_text("two\n")
                clock.passes(seconds=59)
                await ask(cluster)
                clock.passes(seconds=1)
                await ask(cluster)
        assert server.tokens == ["Bearer one", "Bearer one", "Bearer two"]

    async def test_it_is_read_again_when_it_is_refused(self, tmp_path: Path) -> None:
        """Rotated a second ago: the minute must not be waited for."""
        file = tmp_path / "token"
        file.write_text("one")

        async def answer(request: web.BaseRequest) -> web.StreamResponse:
            accepted = request.headers["Authorization"] == "Bearer two"
            file.write_text("two")
            return await always(200 if accepted else 401)(request)

        async with serving(answer) as server:
            config = kubeconfig(tmp_path / "kubeconfig", server.url, {"tokenFile": str(file)})
            async with connect(config, now=Clock()) as cluster:
                await ask(cluster)
        assert server.tokens == ["Bearer one", "Bearer two"]

    async def test_a_file_that_holds_no_token_is_told(self, tmp_path: Path) -> None:
        """The HTTP library's own complaint of such a header would show the token."""
        (tmp_path / "token").write_text(f"{SECRET}\nand more")
        config = kubeconfig(tmp_path / "kubeconfig", SERVER, {"tokenFile": "token"})
        with pytest.raises(ConfigError, match="the token of context 'c'") as caught:
            await load_connection(config)
        assert SECRET not in str(caught.value)

    async def test_no_secret_shows_in_a_repr(self, tmp_path: Path) -> None:
        """Tracebacks with local variables, and debuggers, show reprs."""
        connection = await load_connection(kubeconfig(tmp_path / "kubeconfig", SERVER, {"token": SECRET}))
        assert connection.authorization == f"Bearer {SECRET}"
        assert SECRET not in repr(connection)


class TestKubeconfigs:
    """Which file, which context, and what of it."""

    async def test_several_files_are_merged_and_the_first_one_wins(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """kubectl takes the current context, and an entry that two files name, from the first of them."""
        first = kubeconfig(tmp_path / "first", "http://first.example.test", {"token": "1"}, name="one")
        second = kubeconfig(tmp_path / "second", "http://second.example.test", {"token": "2"}, name="two")
        again = kubeconfig(tmp_path / "again", "http://again.example.test", {"token": "3"}, name="one")
        missing, empty = tmp_path / "missing", tmp_path / "empty"
        empty.touch()
        monkeypatch.setenv("KUBECONFIG", os.pathsep.join(map(str, (missing, empty, first, "", again, second))))
        current, chosen = await load_connection(), await load_connection(context="two")
        assert (current.host, current.authorization, current.namespace) == (
            "http://first.example.test",
            "Bearer 1",
            "of-one",
        )
        assert (chosen.host, chosen.authorization) == ("http://second.example.test", "Bearer 2")

    @pytest.mark.apiserver
    async def test_a_context_may_join_entries_of_two_files(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, control_plane: ControlPlane
    ) -> None:
        """Clusters in one file and users in another, each with paths relative to its own folder."""
        admin = control_plane.admin
        for name, files in (("clusters", [admin.ca_file]), ("users", [admin.certificate_file, admin.key_file])):
            (tmp_path / name).mkdir()
            for file in files:
                (tmp_path / name / file.name).write_bytes(file.read_bytes())
        cluster = {"server": control_plane.server, "certificate-authority": admin.ca_file.name}
        user = {"client-certificate": admin.certificate_file.name, "client-key": admin.key_file.name}
        documents = {
            "clusters": {
                "clusters": [{"name": "k", "cluster": cluster}],
                "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
                "current-context": "c",
            },
            "users": {"users": [{"name": "u", "user": user}]},
        }
        for name, document in documents.items():
            (tmp_path / name / "config").write_text(json.dumps(document))
        monkeypatch.setenv("KUBECONFIG", os.pathsep.join(str(tmp_path / name / "config") for name in documents))
        async with connect() as connected:
            answer = (await connected.create(SELF, b"{}")).json()
        assert answer["status"]["userInfo"]["username"] == "admin"

    async def test_the_flag_names_one_file_whatever_the_environment_says(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The wrong cluster would be migrated."""
        monkeypatch.setenv("KUBECONFIG", str(kubeconfig(tmp_path / "other", "http://other.example.test")))
        odd = tmp_path / f"with{os.pathsep}in it"
        assert (await load_connection(kubeconfig(odd, SERVER))).host == SERVER
        assert (await load_connection("")).host == "http://other.example.test"  # as kubectl takes an empty flag

    async def test_the_home_folders_file_is_the_default(self, tmp_path: Path) -> None:
        """Where neither flag nor environment names one."""
        (tmp_path / "home" / ".kube").mkdir(parents=True)
        kubeconfig(tmp_path / "home" / ".kube" / "config", SERVER + "/")
        assert (await load_connection()).host == SERVER

    async def test_a_context_without_a_user_is_anonymous(self, tmp_path: Path) -> None:
        """``kubectl proxy`` needs no user, and its kubeconfigs have none."""
        document = {
            "current-context": "c",
            "contexts": [{"name": "c", "context": {"cluster": "c"}}],
            "clusters": [{"name": "c", "cluster": {"server": SERVER}}],
        }
        (tmp_path / "kubeconfig").write_text(json.dumps(document))
        connection = await load_connection(tmp_path / "kubeconfig")
        assert (connection.host, connection.authorization, connection.namespace) == (SERVER, None, "default")

    async def test_basic_authentication(self, tmp_path: Path) -> None:
        """What stands in front of an API server may want it."""
        connection = await load_connection(
            kubeconfig(tmp_path / "kubeconfig", SERVER, {"username": "me", "password": "x"})
        )
        assert connection.authorization == "Basic " + base64.b64encode(b"me:x").decode()

    @pytest.mark.apiserver
    async def test_tls_verification_can_be_switched_off(self, control_plane: ControlPlane, tmp_path: Path) -> None:
        """``insecure-skip-tls-verify`` is how one reaches a test cluster of which one has no CA."""
        config = kubeconfig(tmp_path / "kubeconfig", control_plane.server, **{"insecure-skip-tls-verify": True})
        async with connect(config) as cluster:
            with pytest.raises(Forbidden, match="system:anonymous"):  # answered, then
                await cluster.list_page(CRDS)

    @pytest.mark.parametrize(
        ("text", "said"),
        [
            ("{{{", "is not YAML (line 1): name another file, or fix this one"),
            ("a: b\nc: [", "is not YAML (line 2)"),
            ("a: 2026-99-99", "is not YAML"),
            ("hello", "is not a kubeconfig"),
            ("[]", "is not a kubeconfig"),
            ("", "names no current-context: give --context NAME (it has none)"),
            ("contexts: {a: b}", "is malformed: contexts must be a list of entries with names"),
            ("contexts: [{name: b}, {name: a}]", "names no current-context: give --context NAME (it has a, b)"),
            ("current-context: x\ncontexts: [{name: b}]", "has no context 'x': give --context NAME (it has b)"),
            (
                "current-context: b\ncontexts: [{name: b, context: {cluster: k}}]",
                "names the cluster 'k', which is not there",
            ),
            (
                "current-context: b\ncontexts: [{name: b, context: {cluster: k}}]\nclusters: [{name: k}]",
                "cluster 'k'",
            ),
            (
                WITH_CLUSTER,
                "names the user 'u', which is not there",
            ),
            (
                WITH_CLUSTER + "users: [{name: u, user: {as-groups: root}}]",
                "as-groups must be a list of texts",
            ),
        ],
    )
    async def test_what_is_no_kubeconfig_is_told(self, text: str, said: str, tmp_path: Path) -> None:
        """The message must say which file and what to do, not quote a Python error."""
        file = tmp_path / "kubeconfig"
        file.write_text(text)
        with pytest.raises(ConfigError) as caught:
            await load_connection(file)
        assert said in str(caught.value)
        assert str(file) in str(caught.value)
        assert "\n" not in str(caught.value)

    @pytest.mark.parametrize("server", ["127.0.0.1:6443", "ftp://host", "https://", "6443"])
    async def test_a_server_that_is_no_url_is_told(self, server: str, tmp_path: Path) -> None:
        """Told as unreachable, one would look for the fault in the network."""
        with pytest.raises(ConfigError, match=r"it must be a URL, https://HOST:PORT"):
            await load_connection(kubeconfig(tmp_path / "kubeconfig", server))

    @pytest.mark.parametrize(
        ("cluster", "user", "said"),
        [
            ({"certificate-authority-data": "aGVsbG8="}, {}, "the certificate-authority of context 'c'"),
            ({"certificate-authority": "absent.crt"}, {}, "absent.crt"),
            ({}, {"client-certificate-data": "aGVsbG8=", "client-key-data": "aGVsbG8="}, "client certificate and key"),
            ({}, {"client-certificate": "absent.crt", "client-key": "absent.key"}, "absent.crt"),
        ],
    )
    async def test_broken_certificates_are_told(
        self, cluster: dict[str, str], user: dict[str, str], said: str, tmp_path: Path
    ) -> None:
        """Which of the three it is, or which file is missing."""
        config = kubeconfig(tmp_path / "kubeconfig", "https://server.example.test", user, **cluster)
        with pytest.raises(ConfigError) as caught:
            await load_connection(config)
        assert said in str(caught.value)
        assert "_ssl.c" not in str(caught.value)

    async def test_files_that_are_not_there_or_not_files_are_told(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A directory is not missing; an environment variable that leads nowhere must not lead elsewhere."""
        with pytest.raises(ConfigError, match=f"kubeconfig '{tmp_path}' cannot be read: Is a directory"):
            await load_connection(tmp_path)
        with pytest.raises(ConfigError, match="nowhere' does not exist: give --kubeconfig FILE or set KUBECONFIG"):
            await load_connection(tmp_path / "nowhere")
        with pytest.raises(ConfigError, match="this is not a pod"):
            await load_connection()
        with pytest.raises(ConfigError, match=r"config' does not exist"):
            await load_connection(context="other")
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
        monkeypatch.setenv("KUBECONFIG", str(tmp_path / "nowhere"))
        with pytest.raises(ConfigError, match="nowhere' does not exist"):
            await load_connection()


@pytest.mark.apiserver
class TestPods:
    """The service account of a pod; its files stand at fixed places, which are moved here."""

    @pytest.fixture
    def account(self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, control_plane: ControlPlane) -> Path:
        """The folder of a service account."""
        (tmp_path / "token").write_text("first\n")
        (tmp_path / "ca.crt").write_bytes(control_plane.ca_file.read_bytes())
        (tmp_path / "namespace").write_text("team-a\n")
        for module in ("clientconfig", "credentials"):
            monkeypatch.setattr(f"restow.kube.{module}.ACCOUNT", tmp_path)
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "10.96.0.1")
        monkeypatch.setenv("KUBERNETES_SERVICE_PORT", "443")
        return tmp_path

    async def test_the_service_account_is_used(self, account: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """A Job has no kubeconfig; its token is rotated in place and must be read again."""
        connection = await load_connection(now=lambda: START)
        assert (connection.host, connection.namespace) == ("https://10.96.0.1:443", "team-a")
        assert connection.authorization == "Bearer first"
        assert connection.renew_at == START + timedelta(minutes=1)
        assert connection.tls is not None
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", "fd00::1")
        assert (await load_connection()).host == "https://[fd00::1]:443"

    async def test_a_kubeconfig_goes_before_it(self, account: Path) -> None:
        """As with kubectl in a pod."""
        assert (await load_connection(kubeconfig(account / "kubeconfig", SERVER))).host == SERVER

    @pytest.mark.parametrize("missing", ["token", "ca.crt"])
    async def test_a_pod_without_its_account_is_told(self, missing: str, account: Path) -> None:
        """``automountServiceAccountToken: false`` is a common reason."""
        (account / missing).unlink()
        with pytest.raises(ConfigError, match="this pod's service account cannot be used"):
            await load_connection()

    async def test_its_token_is_renewed_on_the_way(
        self, account: Path, control_plane: ControlPlane, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """A request with a token that the server does not know must read the file again, once."""
        host, _, port = control_plane.server.removeprefix("https://").partition(":")
        monkeypatch.setenv("KUBERNETES_SERVICE_HOST", host)
        monkeypatch.setenv("KUBERNETES_SERVICE_PORT", port)
        accounts = Resource("", "v1", "serviceaccounts", namespaced=True)
        async with connect(control_plane.kubeconfig) as admin:
            await admin.create(accounts, b'{"metadata": {"name": "restow"}}', "default")
            reply = await admin.send(Request("create", accounts, "restow", "default", "token", b"{}"))
        async with connect() as cluster:
            (account / "token").write_text(reply.json()["status"]["token"] + "\n")
            answer = (await cluster.create(SELF, b"{}")).json()
        async with connect(control_plane.kubeconfig) as admin:
            await admin.delete(accounts, "restow", "default")
        assert answer["status"]["userInfo"]["username"] == "system:serviceaccount:default:restow"


@pytest.mark.parametrize(
    ("server", "no_proxy", "proxied"),
    [
        ("https://api.example.test:6443", "", True),
        ("https://api.example.test:6443", "other.test", True),
        ("https://api.example.test:6443", "api.example.test", False),
        ("https://api.example.test:6443", ".example.test", False),
        ("https://api.example.test:6443", "example.test", False),
        ("https://api.example.test:6443", "api.example.test:6443", False),
        ("https://api.example.test:6443", "api.example.test:443", True),
        ("https://api.example.test:6443", "*", False),
        ("https://10.96.0.1:443", "10.96.0.0/12, .svc", False),
        ("https://10.96.0.1:443", "10.0.0.0/16", True),
        ("https://10.96.0.1:443", "10.96.0.1", False),
        ("https://[fd00::1]:443", "fd00::/8", False),
        ("https://127.0.0.1:6443", "", False),
        ("https://localhost:6443", "", False),
        ("http://api.example.test:8080", "", False),
    ],
)
async def test_the_environments_proxy(
    server: str, no_proxy: str, proxied: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As kubectl: networks in NO_PROXY count (or a pod would ask the proxy for its own API server), loopback never."""
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example.test:3128")
    monkeypatch.setenv("NO_PROXY", no_proxy)
    connection = await load_connection(kubeconfig(tmp_path / "kubeconfig", server))
    assert connection.proxy == ("http://proxy.example.test:3128" if proxied else None)


@pytest.mark.parametrize(
    ("proxy", "used"),
    [
        ("proxy.example.test:3128", "http://proxy.example.test:3128"),
        ("https://p.example.test", "https://p.example.test"),
    ],
)
async def test_ways_to_name_a_proxy(proxy: str, used: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a scheme it is an http proxy; the kubeconfig's own goes before the environment's."""
    monkeypatch.setenv("HTTPS_PROXY", proxy)
    server = "https://api.example.test"
    assert (await load_connection(kubeconfig(tmp_path / "kubeconfig", server))).proxy == used
    own = kubeconfig(tmp_path / "kubeconfig", server, **{"proxy-url": "http://own.example.test"})
    assert (await load_connection(own)).proxy == "http://own.example.test"


async def test_a_proxy_that_is_not_supported_is_told(tmp_path: Path) -> None:
    """Its URL may hold a password, and the HTTP library would fail at the first request only."""
    config = kubeconfig(tmp_path / "kubeconfig", SERVER, **{"proxy-url": f"socks5://me:{SECRET}@localhost"})
    with pytest.raises(ConfigError, match="is a socks5 proxy: only http and https proxies") as caught:
        await load_connection(config)
    assert SECRET not in str(caught.value)
