"""docs/deploying.md: each command as it stands there."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest
import yaml

from tests.deploy.rendering import ROOT, Helm, of_kind
from tests.docs.blocks import parse
from tests.restow.commandline import restow

PAGE = "docs/deploying.md"
PARSED = parse(PAGE, (ROOT / PAGE).read_text(encoding="utf-8"))
BLOCKS = [block.text for block in PARSED if block.language == "sh"]


def commands(program: str) -> list[list[str]]:
    """The commands of a program in all blocks, without the program itself."""
    lines = "\n".join(BLOCKS).replace("\\\n", "").splitlines()
    words = (shlex.split(line, comments=True) for line in lines)
    return [arguments[1:] for arguments in words if arguments and arguments[0] == program]


def test_every_command_is_tried_somewhere() -> None:
    """A block that no test runs grows stale."""
    programs = {shlex.split(line)[0] for block in BLOCKS for line in block.replace("\\\n", "").splitlines()}
    assert programs == {"helm", "kubectl", "kustomize", "make", "python", "restow"}


def test_the_printed_role_is_the_command_s() -> None:
    """It is what people copy."""
    (printed,) = (block.text for block in PARSED if block.language == "yaml")
    assert restow(*commands("restow")[0]).out == printed


@pytest.mark.parametrize("arguments", commands("restow"), ids=" ".join)
def test_rbac(arguments: list[str]) -> None:
    """Every way to ask for rights gives some."""
    ran = restow(*arguments)
    assert ran.code == 0, ran.err
    documents = list(yaml.safe_load_all(ran.out))
    assert all(each["rules"] for each in documents if each["kind"] in ("Role", "ClusterRole"))
    assert of_kind(documents, "Role", "ClusterRole")


@pytest.mark.parametrize("arguments", commands("helm"), ids=" ".join)
def test_helm(arguments: list[str], helm: Helm, tmp_path: Path) -> None:
    """Installed as it stands there, up to where a cluster would be needed: rendered."""
    assert arguments[:2] == ["upgrade", "--install"]
    (tmp_path / "conversions.py").write_text("registry = None\n")
    (tmp_path / "gateways.yaml").write_text("kind: CustomResourceDefinition\n")
    here = [each.replace("=conversions.py", f"={tmp_path}/conversions.py") for each in arguments[2:]]
    here = [each.replace("=gateways.yaml", f"={tmp_path}/gateways.yaml") for each in here]
    documents = list(yaml.safe_load_all(helm.run("template", *here)))
    assert of_kind(filter(None, documents), "Deployment", "Job")


def test_the_role_to_bind_is_there(helm: Helm) -> None:
    """`kubectl create rolebinding` takes any name, also one that nothing has."""
    (arguments,) = commands("kubectl")
    (named,) = (each.partition("=")[2] for each in arguments if each.startswith("--clusterrole="))
    documents = yaml.safe_load_all(helm.run("template", *commands("helm")[-1][2:]))
    assert named in {each["metadata"]["name"] for each in of_kind(filter(None, documents), "ClusterRole")}


def test_kustomize_and_make(tools: dict[str, Path]) -> None:
    """The folders and arguments that they name are there; test_kustomize.py and test_image.py run them."""
    (kustomize,), (make,) = commands("kustomize"), commands("make")
    assert (ROOT / kustomize[-1] / "kustomization.yaml").exists()
    assert make[0] == "image"
    assert [each.partition("=")[0] for each in make[1:]] == ["BASE", "TAG"]
