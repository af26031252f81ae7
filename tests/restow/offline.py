"""Running the offline commands: in this process by click's runner, or as a process where that matters."""

from __future__ import annotations

import json
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import yaml
from click.testing import CliRunner

ROOT = Path(__file__).resolve().parents[2]
PROVIDER = ROOT / "docs" / "examples" / "provider"
REGISTRY = ("--registry", "docs.examples.provider.conversions:registry")
CRDS = ("--crd", str(PROVIDER / "manifests"))
OLD, NEW = "edge.example.dev/v1alpha1", "edge.example.dev/v1"

GATEWAY = f"""\
# the shop's gateway
apiVersion: {OLD} # old
kind: Gateway
metadata:
  name: shop
  namespace: web
spec:
  certificate: c # keep
  host: shop.example.dev
  listeners:
  - title: web
    timeoutSeconds: 30
"""

CONVERTED = f"""\
# the shop's gateway
apiVersion: {NEW} # old
kind: Gateway
metadata:
  name: shop
  namespace: web
spec:
  tls:
    certificate: c # keep
  hosts:
  - shop.example.dev
  listeners:
  - name: web
    timeout: 30s
    protocol: HTTP
"""


@dataclass(frozen=True)
class Ran:
    """What became of a run: its exit code, and what it said on which stream."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)

    @property
    def yaml(self) -> Any:
        return yaml.safe_load(self.out)

    @property
    def refusal(self) -> str:
        """The one sentence of a run that was refused."""
        assert self.code == 2, (self.code, self.out, self.err)
        assert self.out == ""
        (line,) = self.err.splitlines()
        return line.removeprefix("restow: ")


def run(name: str, *arguments: str | Path, stdin: str | bytes = "") -> Ran:
    """Run a command in this process."""
    command = import_module(f"restow.commands.{name}").command
    done = CliRunner().invoke(command, [str(each) for each in arguments], input=stdin)
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return Ran(done.exit_code, done.stdout_bytes.decode(), done.stderr_bytes.decode())
