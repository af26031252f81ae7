"""``restow serve`` as people run it: what it refuses, and a life from the ready line to the exit code."""

from __future__ import annotations

import asyncio
import os
import platform
import re
import signal
import socket
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import aiohttp
import pytest
import yaml

from restow.cli.exits import InputError
from restow.cli.registries import ConversionSource, load_crds
from restow.conversion.server.metrics import METRICS
from restow.crds import Crd
from tests.conversion.server.apiserver import api_server
from tests.conversion.server.gateways import CRD, CRD_DOCUMENT, CRD_NAME, GROUP, KIND, new, old
from tests.conversion.server.webhooks import GATEWAYS, LOOPBACK, Authority
from tests.restow.commandline import Ran, restow
from tests.restow.forked import Forked, start_unforked

REGISTRY = "tests.conversion.server.gateways:registry"
ROOT = Path(__file__).parents[2]


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    """Who signs the serving certificates; a first pair is there."""
    made = Authority(tmp_path)
    made.issue()
    return made


@pytest.fixture
def crd_file(tmp_path: Path) -> Path:
    """The CRD among other documents, as ``kubectl get -o yaml`` and people write them."""
    file = tmp_path / "crds.yaml"
    other = {"apiVersion": "v1", "kind": "ConfigMap"}
    file.write_text(yaml.safe_dump_all([other, {"kind": "List", "items": [other, CRD_DOCUMENT]}, None]))
    return file


# What is refused.


def serve(authority: Authority, *arguments: str | Path, registry: str = REGISTRY, cwd: Path = ROOT) -> Ran:
    files = ("--cert", authority.certificate, "--key", authority.key)
    return restow("serve", "--registry", registry, *files, *arguments, cwd=cwd)


def module(folder: Path, text: str) -> str:
    (folder / "conversions.py").write_text(text)
    return "conversions"


@pytest.mark.parametrize(
    ("text", "attribute", "refusal"),
    [
        ("", "registry", "--registry conversions:registry: conversions has no registry"),
        (
            "registry = 7",
            "registry",
            "--registry conversions:registry is of the type int, and not a Registry or Graph",
        ),
        ("registry =", "registry", "--registry: importing conversions failed: SyntaxError: "),
        ("1 / 0", "registry", "--registry: importing conversions failed: ZeroDivisionError: division by zero ("),
        ("import nonsense_x", "registry", "--registry: importing conversions failed: ModuleNotFoundError: No module"),
    ],
)
def test_a_registry_that_cannot_be_loaded(
    authority: Authority, tmp_path: Path, text: str, attribute: str, refusal: str
) -> None:
    """One sentence with the author's mistake in it, and no traceback of ours."""
    ran = serve(authority, registry=f"{module(tmp_path, text)}:{attribute}", cwd=tmp_path)
    assert ran.refusal.startswith(refusal)


def test_a_module_that_is_not_there(authority: Authority) -> None:
    """Most often the command was started in another folder."""
    assert serve(authority, registry="nonsense.conversions:registry").refusal == (
        "--registry: there is no module nonsense here or on PYTHONPATH"
    )


@pytest.mark.parametrize("spec", ["conversions", ":registry", "conversions:", ""])
def test_what_names_no_attribute(authority: Authority, spec: str) -> None:
    """As with every wrong flag: usage, and 2."""
    ran = serve(authority, registry=spec)
    assert ran.code == 2
    assert "--registry takes module:attribute" in ran.err


def test_a_refusal_of_nothing_is_refused(authority: Authority, crd_file: Path) -> None:
    """A flag that installs nothing looks like protection; it ends before the cluster is asked for anything."""
    tls = ("--cert", authority.certificate.parent / "tls.crt", "--key", authority.certificate.parent / "tls.key")
    own = ("--own-ca", "a/b", "--crd", crd_file, *tls)
    ran = serve(authority, "--refuse-unconvertible", *own)
    assert ran.code == 2
    assert "no rule for these CRDs keeps a value" in " ".join(ran.err.split())
    ran = serve(authority, "--refuse-unconvertible", "--crd", crd_file)
    assert ran.code == 2
    assert "--refuse-unconvertible needs --own-ca" in " ".join(ran.err.split())


def test_all_defects_are_told(authority: Authority, tmp_path: Path, crd_file: Path) -> None:
    """A registry that does not fit its CRDs is never served; its author wants to see all at once."""
    text = (
        "from restow.conversion import Registry\n"
        f"registry = Registry()\nkind = registry.kind({GROUP!r}, {KIND!r}, hub='v1')\n"
        "kind.spoke('v1alpha1')(lambda: [])\n"
    )
    ran = serve(authority, "--crd", crd_file, registry=f"{module(tmp_path, text)}:registry", cwd=tmp_path)
    assert ran.code == 2
    first, *defects = ran.err.splitlines()
    assert re.fullmatch(
        r"restow: --registry conversions:registry cannot be used, the conversions have \d+ defects:", first
    )
    assert len(defects) > 3
    assert all(line.startswith(f"- {KIND}.{GROUP} v1") for line in defects)


def test_crds_that_cannot_be_read(authority: Authority, tmp_path: Path) -> None:
    """Each with its file."""
    bad = tmp_path / "bad.yaml"
    for text, refusal in (
        ("a: [", f"{bad} cannot be read as YAML (line 2: "),
        ("kind: ConfigMap", f"{bad} holds no CustomResourceDefinition"),
        ("kind: CustomResourceDefinition", f"{bad}:1: the document is not a CustomResourceDefinition of"),
    ):
        bad.write_text(text)
        assert serve(authority, "--crd", bad).refusal.startswith(refusal)


def test_certificates_that_cannot_be_used(authority: Authority) -> None:
    """Found before anything listens."""
    authority.key.write_text("secret")
    ran = serve(authority)
    assert "are no certificate with its key" in ran.refusal
    assert "secret" not in ran.err
    authority.certificate.unlink()
    assert "cannot be read" in serve(authority).refusal


def test_a_port_that_is_taken(authority: Authority) -> None:
    """With its number and the flag that names another."""
    with socket.create_server((LOOPBACK, 0)) as taken:
        port = taken.getsockname()[1]
        ran = serve(authority, "--bind", LOOPBACK, "--port", str(port))
    assert ran.refusal.startswith(f"cannot listen on {LOOPBACK}:{port} (--port): Address already in use")


@pytest.mark.parametrize(
    "command",
    [
        ("serve", "--registry", REGISTRY, "--cert", "tls.crt", "--key", "tls.key", "--crd"),
        ("operator", "--cert", "tls.crt", "--key", "tls.key", "--management"),
    ],
    ids=lambda words: words[0],
)
async def test_a_hangup_during_the_start_does_not_end_it(command: tuple[str, ...], tmp_path: Path) -> None:
    """A certificate that is renewed while a node is busy would end each new process by the signal."""
    fifo = tmp_path / "read.yaml"
    os.mkfifo(fifo)
    process = await start_unforked(*command, str(fifo), cwd=ROOT, stderr=PIPE)
    writing = await opened_by(process, fifo)
    process.send_signal(signal.SIGHUP)
    os.write(writing, b"]")
    os.close(writing)
    assert process.stderr is not None
    async with asyncio.timeout(60):
        said = (await process.stderr.read()).decode()
        assert (await process.wait(), str(fifo) in said) == (2, True), said


async def opened_by(process: asyncio.subprocess.Process, fifo: Path) -> int:
    """Return the writing end of a pipe, once the process reads it."""
    async with asyncio.timeout(60):
        while process.returncode is None:
            with suppress(OSError):
                return os.open(fifo, os.O_WRONLY | os.O_NONBLOCK)
            await asyncio.sleep(0.02)
    raise AssertionError("the process ended before it read the file")


def test_a_missing_library_is_named() -> None:
    """The server's own libraries are an extra: a Job that only migrates does not carry them."""
    script = "import sys; sys.modules['prometheus_client'] = None; from restow.main import main; main()"
    ran = restow("serve", "--cert", "c", "--key", "k", command=(sys.executable, "-c", script))
    assert ran.refusal == "restow serve needs prometheus_client: pip install 'restow[operator]'"


# Loading, as other commands do it too.


def test_a_registry_or_a_graph(monkeypatch: pytest.MonkeyPatch) -> None:
    """Authors who freeze themselves, and those who do not."""
    monkeypatch.chdir(ROOT)
    assert ConversionSource(REGISTRY).graph([CRD]).kind(GROUP, KIND).hub_schema is not None
    assert ConversionSource(REGISTRY).graph().kind(GROUP, KIND).hub_schema is None
    from tests.conversion.server.gateways import graph

    assert ConversionSource(REGISTRY.replace("registry", "graph")).graph() is graph
    with pytest.raises(InputError, match=r"has no registry\.nothing"):
        ConversionSource(f"{REGISTRY}.nothing").graph()


def test_crds_are_found_wherever_they_stand(crd_file: Path, tmp_path: Path) -> None:
    """In lists, between other documents; dates stay texts, as for the API server."""
    assert [crd.name for crd in load_crds([crd_file])] == [CRD_NAME]
    dated = {**CRD_DOCUMENT, "metadata": {"name": CRD_NAME, "annotations": {"since": "DATE"}}}
    file = tmp_path / "dated.yaml"
    file.write_text(yaml.safe_dump(dated).replace("DATE", "2024-01-01"))
    (found,) = load_crds([file])
    assert isinstance(found, Crd)
    assert found.annotations == {"since": "2024-01-01"}


# A life.


@dataclass
class Served:
    """A server in a process of its own."""

    process: Forked
    port: int
    probes_port: int
    authority: Authority
    ready_line: str

    @property
    def url(self) -> str:
        """Where conversions of gateways are served."""
        return f"https://{LOOPBACK}:{self.port}{GATEWAYS}"

    async def probe(self, path: str) -> tuple[int, str]:
        """Ask a probe."""
        async with (
            aiohttp.ClientSession(connector=aiohttp.TCPConnector(force_close=True)) as session,
            session.get(f"http://{LOOPBACK}:{self.probes_port}{path}") as answer,
        ):
            return answer.status, await answer.text()

    async def ready(self) -> None:
        """Wait until it is."""
        while (await self.probe("/readyz"))[0] != 200:
            await asyncio.sleep(0.02)

    async def ended(self, number: int) -> tuple[int, str]:
        """Send a signal; return the exit code and what was said since."""
        self.process.send_signal(number)
        assert self.process.stderr is not None
        async with asyncio.timeout(30):
            return await self.process.wait(), (await self.process.stderr.read()).decode()

    def children(self) -> set[int]:
        """Return its child processes."""
        pid = self.process.pid
        return {int(each) for each in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()}


@asynccontextmanager
async def served(authority: Authority, *arguments: str | Path) -> AsyncIterator[Served]:
    """Run one on free ports."""
    ports = ("--bind", LOOPBACK, "--port", "0", "--metrics-port", "0")
    files = ("--cert", str(authority.certificate), "--key", str(authority.key))
    process = await Forked.start(
        "serve",
        "--registry",
        REGISTRY,
        *files,
        *ports,
        *map(str, arguments),
        cwd=ROOT,
        stdout=PIPE,
        stderr=PIPE,
    )
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        async with asyncio.timeout(30):
            line = (await process.stderr.readline()).decode()
        found = re.search(r"serving .* at port (\d+), probes and metrics at port (\d+)", line)
        assert found, line
        yield Served(process, int(found[1]), int(found[2]), authority, line)
        assert await process.stdout.read() == b""
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()


async def test_a_life_alone(authority: Authority, crd_file: Path) -> None:
    """One line, one process, conversions, a new certificate on SIGHUP, and 0 after SIGTERM."""
    async with served(authority, "--crd", crd_file, "--drain-seconds", "0.2") as server:
        assert (
            f"serving /convert/{CRD_NAME}, /admit/refuse-unconvertible, /mutate/conversion-stash at port"
            in server.ready_line
        )
        await server.ready()
        metrics = (await server.probe("/metrics"))[1]
        for series in (  # what alerts look at: an increase from nothing to 1 is none
            f'restow_conversion_reviews_total{{crd="{CRD_NAME}",result="failure"}} 0.0',
            'restow_admission_reviews_total{result="failed",step="conversion-stash"} 0.0',
            'restow_webhook_certificate_loads_total{result="refused"} 0.0',
            *(
                f'restow_webhook_refused_total{{why="{why}"}} 0.0'
                for why in METRICS["restow_webhook_refused_total"].starts
            ),
            'restow_webhook_aborted_total{while="headers"} 0.0',
            f'restow_build_info{{python="{platform.python_version()}",version="{version("restow")}"}} 1.0',
            "process_resident_memory_bytes ",
        ):
            assert f"\n{series}" in metrics, metrics
        assert server.children() == set()
        async with api_server(authority.client()) as api:
            assert await api.convert(server.url, old(timeoutSeconds=5)) == [new(timeout="5s")]
        authority.issue()
        server.process.send_signal(signal.SIGHUP)
        while 'certificate_loads_total{result="loaded"} 2.0' not in (await server.probe("/metrics"))[1]:
            await asyncio.sleep(0.02)
        code, said = await server.ended(signal.SIGTERM)
    assert code == 0
    assert "INFO restow.conversion.server.tls: serving the new certificate in" in said
    assert "Traceback" not in said


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, -signal.SIGTERM), (signal.SIGINT, 1)])
async def test_a_second_signal_ends_it_at_once(authority: Authority, number: signal.Signals, code: int) -> None:
    """Whoever sends it does not want to wait for the drain."""
    async with served(authority, "--drain-seconds", "3600") as server:
        await server.ready()
        server.process.send_signal(number)
        while (await server.probe("/readyz")) != (503, "draining\n"):
            await asyncio.sleep(0.02)
        found, said = await server.ended(number)
    assert found == code
    assert "Traceback" not in said
