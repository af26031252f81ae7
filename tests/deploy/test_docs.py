"""docs/deploying.md and docs/howto/helm-argocd-flux.md: each command and each manifest as it stands there."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.deploy.rendering import ROOT, VALUES, Helm, container, of_kind, the
from tests.docs.blocks import Block, parse
from tests.restow.commandline import restow


def looked_after(block: Block) -> bool:
    """Whether this file runs a block, and no other one."""
    return block.directives.get("tested by", "").endswith(Path(__file__).name)


PAGE = "docs/deploying.md"
HOWTO = "docs/howto/helm-argocd-flux.md"
PARSED, ALL_OF_HOWTO = (parse(page, (ROOT / page).read_text(encoding="utf-8")) for page in (PAGE, HOWTO))
HOWTO_PARSED = [block for block in ALL_OF_HOWTO if looked_after(block)]
BLOCKS = [block.text for block in PARSED if block.language == "sh"]
HOWTO_BLOCKS = [block.text for block in HOWTO_PARSED if block.language == "sh"]


def commands(program: str, blocks: list[str] = BLOCKS) -> list[list[str]]:
    """The commands of a program in all blocks, without the program itself."""
    lines = "\n".join(blocks).replace("\\\n", "").splitlines()
    words = (shlex.split(line, comments=True) for line in lines)
    return [arguments[1:] for arguments in words if arguments and arguments[0] == program]


def test_every_command_is_tried_somewhere() -> None:
    """A block that no test runs grows stale."""
    programs = {shlex.split(line)[0] for block in BLOCKS for line in block.replace("\\\n", "").splitlines()}
    assert programs == {"helm", "kubectl", "kustomize", "make", "python", "restow"}


def test_the_printed_role_is_the_command_s() -> None:
    """It is what people copy."""
    printed = next(block.text for block in PARSED if block.language == "yaml")
    assert restow(*commands("restow")[0]).out == printed


@pytest.mark.parametrize("arguments", commands("restow"), ids=" ".join)
def test_rbac(arguments: list[str]) -> None:
    """Every way to ask for rights gives some."""
    ran = restow(*arguments)
    assert ran.code == 0, ran.err
    documents = list(yaml.safe_load_all(ran.out))
    assert all(each["rules"] for each in documents if each["kind"] in ("Role", "ClusterRole"))
    assert of_kind(documents, "Role", "ClusterRole")


@pytest.mark.parametrize("arguments", commands("helm", BLOCKS + HOWTO_BLOCKS), ids=" ".join)
def test_helm(arguments: list[str], helm: Helm, tmp_path: Path) -> None:
    """Installed as it stands there, up to where a cluster would be needed: rendered."""
    assert arguments[:2] == ["upgrade", "--install"]
    (tmp_path / "conversions.yaml").write_text("kind: ConversionRules\n")
    here = [each.replace("=conversions.yaml", f"={tmp_path}/conversions.yaml") for each in arguments[2:]]
    for name in ("gateways.yaml", "caches.yaml"):
        (tmp_path / name).write_text("kind: CustomResourceDefinition\n")
        here = [each.replace(f"={name}", f"={tmp_path}/{name}") for each in here]
    documents = list(yaml.safe_load_all(helm.run("template", *here)))
    assert of_kind(filter(None, documents), "Deployment", "Job")


def seconds(duration: str) -> int:
    """A duration of Helm's or Flux's, in whole units."""
    return int(duration[:-1]) * {"s": 1, "m": 60, "h": 3600}[duration[-1]]


def job_of(helm: Helm, tmp_path: Path, values: dict[str, Any]) -> dict[str, Any]:
    """The Job that the chart makes of values."""
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(values))
    return the(helm.render("--values", tmp_path / "values.yaml"), "Job")


@pytest.mark.parametrize("arguments", commands("helm", HOWTO_BLOCKS), ids=" ".join)
def test_helm_waits_for_the_job_or_not_at_all(arguments: list[str], helm: Helm) -> None:
    """Helm that gives up before the Job does fails an upgrade that goes well, or rolls it back."""
    job = the(filter(None, yaml.safe_load_all(helm.run("template", *arguments[2:]))), "Job")
    hooked = "helm.sh/hook" in job["metadata"].get("annotations", {})
    timeout = arguments[arguments.index("--timeout") + 1] if "--timeout" in arguments else "5m"
    assert not hooked or seconds(timeout) > job["spec"]["activeDeadlineSeconds"]
    assert not (hooked and "--rollback-on-failure" in arguments)
    assert "--wait-for-jobs" not in arguments
    (waiting,) = commands("kubectl", HOWTO_BLOCKS)
    selector = dict(each.split("=") for each in waiting[waiting.index("--selector") + 1].split(","))
    assert selector.items() <= job["metadata"]["labels"].items()


def test_a_job_of_another_namespace_may_call(helm: Helm, tmp_path: Path) -> None:
    """What the page writes as values has to reach the policy."""
    _, values, _ = (block.text for block in PARSED if block.language == "yaml")
    (tmp_path / "values.yaml").write_text(values)
    (file,) = (each for each in VALUES if each.stem == "webhook-own-ca")
    policy = the(helm.render("--values", file, "--values", tmp_path / "values.yaml"), "NetworkPolicy")["spec"]
    (https,) = (rule for rule in policy["ingress"] if rule["ports"][0]["port"] == "https")
    assert all(each in https["from"] for each in yaml.safe_load(values)["networkPolicy"]["callers"])


def test_api_servers_show_a_certificate(helm: Helm, tmp_path: Path) -> None:
    """What the page writes as values has to reach the command line."""
    *_, values = (block.text for block in PARSED if block.language == "yaml")
    (tmp_path / "values.yaml").write_text(values)
    documents = helm.render("--set", "operator.enabled=true", "--values", tmp_path / "values.yaml")
    arguments = container(the(documents, "Deployment"))["args"]
    assert {"--client-ca=/etc/restow-client-ca/ca.crt", "--client-name=kube-apiserver"} <= {*arguments}


def test_argo_cd_and_flux_have_values_that_work(helm: Helm, tmp_path: Path) -> None:
    """A Job with another revision's name cannot be changed (Argo CD), and one that is waited for times out (Flux)."""
    documents = [yaml.safe_load(block.text) for block in HOWTO_PARSED if block.language == "yaml"]
    (argo,), (flux,) = of_kind(documents, "Application"), of_kind(documents, "HelmRelease")
    job = job_of(helm, tmp_path, argo["spec"]["source"]["helm"]["valuesObject"])
    assert job["metadata"]["annotations"] == {
        "helm.sh/hook": "post-install,post-upgrade",
        "helm.sh/hook-delete-policy": "before-hook-creation",
        "helm.sh/hook-output-log-policy": "hook-failed",
    }
    assert job["spec"]["ttlSecondsAfterFinished"] > 0, "Argo CD would not see how it ended"
    job = job_of(helm, tmp_path, flux["spec"]["values"])
    assert "annotations" not in job["metadata"]
    assert flux["spec"]["install"] == flux["spec"]["upgrade"] == {"disableWaitForJobs": True}


def test_the_role_to_bind_is_there(helm: Helm) -> None:
    """``kubectl create rolebinding`` takes any name, also one that nothing has."""
    (arguments,) = commands("kubectl")
    (named,) = (each.partition("=")[2] for each in arguments if each.startswith("--clusterrole="))
    (install,) = (each for each in commands("helm") if "deploy/values/operator.yaml" in each)
    documents = yaml.safe_load_all(helm.run("template", *install[2:]))
    assert named in {each["metadata"]["name"] for each in of_kind(filter(None, documents), "ClusterRole")}


def test_kustomize_and_make(tools: dict[str, Path]) -> None:
    """The folders and arguments that they name are there; test_kustomize.py and test_image.py run them."""
    (kustomize,), (make,) = commands("kustomize"), commands("make")
    assert (ROOT / kustomize[-1] / "kustomization.yaml").exists()
    assert make[0] == "image"
    assert [each.partition("=")[0] for each in make[1:]] == ["BASE", "TAG"]
