"""The chart as Helm renders it: who may what, how it runs, and what it refuses."""

from __future__ import annotations

import json
import runpy
import subprocess
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from docs.examples.provider.conversions import CRDS, graph, registry
from restow.cli.exits import Exit
from restow.cli.registries import load_crds
from restow.cloudprofile.profiles.admission import MODIFY_KUBERNETES, MODIFY_MACHINE_IMAGES, MODIFY_PROVIDER_CONFIG
from restow.commands.migrate import EXITS
from restow.commands.migrate import command as migrate
from restow.commands.operator import command as operator
from restow.commands.serve import command as serve
from restow.commands.unwire import command as unwire
from restow.conversion.certificates import Service
from restow.conversion.certificates.wiring.documents import (
    refusal_configuration,
    refusal_name,
    stash_configuration,
    stash_name,
)
from restow.conversion.operate import worker
from restow.conversion.server import Limits
from restow.rbac import FAMILY, Asked, Command, grants, manifests, plain
from tests.apiserver.test_hostile_callers import MIB, MOST_FOR_CONNECTIONS
from tests.deploy.rendering import (
    CHART,
    NAMESPACE,
    ROOT,
    VALUES,
    Document,
    Helm,
    container,
    is_hook,
    of_kind,
    rights,
    templates,
    the,
)

BY_NAME = {file.stem: file for file in VALUES}
NAMED = ("--set", "networkPolicy.apiServerCIDRs={10.0.0.0/28}")
STASHES = '[{"apiGroups": ["edge.example.dev"], "apiVersions": ["v1"], "resources": ["gateways"]}]'
UNTRUSTED = (
    "webhook.secretName=s,webhook.restoresStash[0].apiGroups={a.dev},webhook.restoresStash[0].apiVersions={v1},"
    "webhook.restoresStash[0].resources={as}"
)
MONITORED = ("--set", "monitoring.prometheusRule.enabled=true,monitoring.serviceMonitor.enabled=true")


@pytest.mark.parametrize("values", VALUES, ids=list(BY_NAME))
def test_helm_finds_nothing_to_say(values: Path, helm: Helm) -> None:
    """A warning of ``helm lint`` is the first thing that a user sees."""
    said = helm.run("lint", "--strict", CHART, "--values", values)
    assert "WARNING" not in said and "ERROR" not in said, said


@pytest.mark.parametrize("values", VALUES, ids=list(BY_NAME))
def test_kinds_of_others_are_what_their_projects_say(values: Path, helm: Helm, tools: dict[str, Path]) -> None:
    """Unknown fields, wrong types and bad PromQL show only where cert-manager or Prometheus are installed, else."""
    text = helm.text("--values", values, *MONITORED)
    done = subprocess.run([tools["manifestcheck"]], input=text, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    groups = ("cert-manager.io", "monitoring.coreos.com")
    expected = [each for each in yaml.safe_load_all(text) if each and each["apiVersion"].split("/")[0] in groups]
    assert len(done.stdout.splitlines()) == len(expected)


def test_the_check_of_others_kinds_can_fail(tools: dict[str, Path]) -> None:
    """A field that there is not, and an expression that is none, are found."""
    rule = {"apiVersion": "monitoring.coreos.com/v1", "kind": "PrometheusRule", "metadata": {"name": "r"}}
    for spec, said in (
        ({"groups": [{"name": "g", "rules": [{"alert": "A", "expr": "sum by ("}]}]}, "A: "),
        ({"groups": [{"name": "g", "rulez": []}]}, "rulez"),
    ):
        text = json.dumps(rule | {"spec": spec})
        done = subprocess.run([tools["manifestcheck"]], input=text, capture_output=True, text=True, check=False)
        assert done.returncode == 1
        assert said in done.stderr


MIGRATOR_LEASE = "restow-operator-standalone-migrator"


def asked_of(name: str) -> tuple[Command, Asked]:
    """What a values file comes to."""
    values = yaml.safe_load(BY_NAME[name].read_text())
    if "migration" in values:
        found = values["migration"]
        shards = found.get("shards", 1) > 1
        return Command.MIGRATE, Asked(crds=tuple(found["crds"]), home=NAMESPACE, shards=shards)
    if "migrator" in values:
        return Command.EMBEDDING, Asked(crds=tuple(values["migrator"]["crds"]), home=NAMESPACE, lease=MIGRATOR_LEASE)
    if "webhook" in values:
        found = values["webhook"]
        own = (NAMESPACE, "edge-restow-webhook") if found.get("certificate") == "own-ca" else None
        return Command.SERVE, Asked(crds=tuple(found["crds"]), home=NAMESPACE, own_ca=own)
    if "conversions" in values:
        found = values["conversions"]
        return Command.CONVERSIONS, Asked(
            crds=tuple(found.get("targets", ())),
            home=NAMESPACE,
            own_ca=None if found.get("certificate") == "cert-manager" else (NAMESPACE, "edge-restow-conversions"),
            crossplane=found.get("crossplane", False),
            restores_stashes=found.get("restoreStashes", False),
            refuses_unconvertible=found.get("refuseUnconvertible", False),
        )
    found = values["operator"]
    own = (NAMESPACE, "edge-restow-operator") if found.get("certificate", "own-ca") == "own-ca" else None
    keeps = FAMILY if found.get("migrate") == ["family"] else ()
    return Command.OPERATOR, Asked(
        home=NAMESPACE,
        own_ca=own,
        maintains=found.get("maintainShoots", False),
        keeps=keeps,
        dependents="referencesEvery" in found,
    )


@pytest.mark.parametrize("name", BY_NAME)
def test_rights_are_those_of_restow_rbac(name: str, helm: Helm) -> None:
    """Those are tried out against an API server, one by one; what the chart adds or forgets is not."""
    command, asked = asked_of(name)
    expected = rights(plain(manifests(grants([command], asked), "x")))
    found = helm.render("--values", BY_NAME[name])
    assert rights(lasting(found)) == expected


def lasting(documents: list[Document]) -> list[Document]:
    """What is there while the release is: without what belongs to an uninstall, or to the users of admission."""
    return [
        each
        for each in documents
        if not each["metadata"]["name"].endswith(":custom-verbs") and not is_hook(each, "pre-delete")
    ]


@pytest.mark.parametrize(
    ("name", "crds"),
    [("webhook-own-ca", ("gateways.edge.example.dev", "caches.edge.example.dev")), ("operator", FAMILY)],
)
def test_an_uninstall_takes_the_webhook_out_of_the_crds_first(name: str, crds: tuple[str, ...], helm: Helm) -> None:
    """A CRD that names a webhook which is gone blocks namespaces; the hook needs rights that nothing else has."""
    documents = [each for each in helm.render("--values", BY_NAME[name]) if is_hook(each, "pre-delete")]
    server = f"edge-restow-{name.partition('-')[0]}"
    asked = Asked(crds=crds, home=NAMESPACE, own_ca=(NAMESPACE, server))
    assert rights(documents) == rights(plain(manifests(grants([Command.UNWIRE], asked), "x")))
    assert container(the(documents, "Job"))["args"] == ["unwire", f"--server={NAMESPACE}/{server}"]
    weights = {each["kind"]: int(each["metadata"]["annotations"].get("helm.sh/hook-weight", 0)) for each in documents}
    assert all(weight < weights["Job"] for kind, weight in weights.items() if kind != "Job")
    assert all("hook-succeeded" in each["metadata"]["annotations"]["helm.sh/hook-delete-policy"] for each in documents)
    kept = helm.render("--values", BY_NAME["webhook-cert-manager"])
    assert container(the([each for each in kept if is_hook(each, "pre-delete")], "Job"))["args"][-1] == "--keep-server"
    component = name.partition("-")[0]
    without = helm.render("--values", BY_NAME[name], "--set", f"{component}.unwire=false")
    assert [each for each in without if is_hook(each, "pre-delete")] == []


def test_an_uninstall_asks_whether_rules_need_their_operator(helm: Helm) -> None:
    """The finalizer of rules outlives the operator; the hook needs no right to write where no CRD is named."""
    named, unnamed, without = (
        [each for each in helm.render("--set", f"conversions.enabled=true,{more}") if is_hook(each, "pre-delete")]
        for more in ("conversions.targets={as.a.dev}", "conversions.certificate=own-ca", "conversions.unwire=false")
    )
    assert without == []
    expected = ["unwire", f"--server={NAMESPACE}/edge-restow-conversions", "--keep-server"]
    assert [container(the(each, "Job"))["args"] for each in (named, unnamed)] == [expected, expected]
    assert {verb for _, _, verb, _, _ in rights(unnamed)} == {"list", "get"}
    crds = ("apiextensions.k8s.io", "customresourcedefinitions")
    assert rights(named) - rights(unnamed) == {
        *((*crds, verb, "as.a.dev", None) for verb in ("get", "patch")),
        *(("a.dev", "as", verb, "", None) for verb in ("list", "get")),
    }


@pytest.mark.parametrize(
    ("flags", "command", "asked"),
    [
        (
            ("--set", "migrator.enabled=true,migrator.crds={as.a.dev,bs.b.dev},migrator.leastRights=true"),
            Command.EMBEDDING,
            Asked(crds=("as.a.dev", "bs.b.dev"), home=NAMESPACE, lease=MIGRATOR_LEASE, least=True),
        ),
        (
            (
                *("--values", BY_NAME["webhook-own-ca"]),
                *("--set-json", f"webhook.restoresStash={STASHES}"),
            ),
            Command.SERVE,
            Asked(
                crds=("gateways.edge.example.dev", "caches.edge.example.dev"),
                home=NAMESPACE,
                own_ca=(NAMESPACE, "edge-restow-webhook"),
                restores_stashes=True,
            ),
        ),
        (
            (
                *("--values", BY_NAME["webhook-own-ca"]),
                *("--set-json", f"webhook.refusesUnconvertible={STASHES}"),
            ),
            Command.SERVE,
            Asked(
                crds=("gateways.edge.example.dev", "caches.edge.example.dev"),
                home=NAMESPACE,
                own_ca=(NAMESPACE, "edge-restow-webhook"),
                refuses_unconvertible=True,
            ),
        ),
        (
            ("--values", BY_NAME["operator-cert-manager"], "--set", "operator.leastRights=true"),
            Command.OPERATOR,
            Asked(home=NAMESPACE, maintains=True, keeps=FAMILY, least=True),
        ),
        (
            ("--set", "migration.enabled=true,migration.crds={a.example.com},migration.leastRights=true"),
            Command.MIGRATE,
            Asked(crds=("a.example.com",), least=True),
        ),
        (
            ("--set", "operator.enabled=true,operator.leastRights=true"),
            Command.OPERATOR,
            Asked(home=NAMESPACE, own_ca=(NAMESPACE, "edge-restow-operator"), least=True),
        ),
        (
            ("--set", "operator.enabled=true,operator.maintainShoots=true"),
            Command.OPERATOR,
            Asked(home=NAMESPACE, own_ca=(NAMESPACE, "edge-restow-operator"), maintains=True),
        ),
        (
            ("--set", "operator.enabled=true,operator.crds=operator"),
            Command.OPERATOR,
            Asked(home=NAMESPACE, own_ca=(NAMESPACE, "edge-restow-operator"), installs_crds=True),
        ),
        (
            (
                *("--set", "conversions.enabled=true,conversions.crds=operator,conversions.targets={*}"),
                *("--set", "conversions.crossplane=true,conversions.restoreStashes=true"),
                *("--set", "conversions.refuseUnconvertible=true"),
            ),
            Command.CONVERSIONS,
            Asked(
                home=NAMESPACE,
                own_ca=(NAMESPACE, "edge-restow-conversions"),
                installs_crds=True,
                crossplane=True,
                restores_stashes=True,
                refuses_unconvertible=True,
            ),
        ),
        (
            (
                *("--set", "conversions.enabled=true,conversions.leastRights=true,conversions.restoreStashes=true"),
                *("--set", "conversions.targets={as.a.dev,bs.b.dev},conversions.refuseUnconvertible=true"),
            ),
            Command.CONVERSIONS,
            Asked(
                crds=("as.a.dev", "bs.b.dev"),
                home=NAMESPACE,
                own_ca=(NAMESPACE, "edge-restow-conversions"),
                restores_stashes=True,
                refuses_unconvertible=True,
                least=True,
            ),
        ),
    ],
    ids=[
        "migrator-least",
        "stashes",
        "refusals",
        "operator-least",
        "least",
        "operator-least-own-ca",
        "maintaining",
        "installing",
        "conversions-of-any-kind",
        "conversions-least",
    ],
)
def test_rights_of_other_values(flags: tuple[str, ...], command: Command, asked: Asked, helm: Helm) -> None:
    """What no values file shows."""
    assert rights(lasting(helm.render(*flags))) == rights(plain(manifests(grants([command], asked), "x")))


def test_rules_are_for_no_crd_unless_one_is_opened(helm: Helm) -> None:
    """An operator that may write every CRD by default is the way to every kind for whoever finds a way around it."""
    flags = ("--set", "conversions.enabled=true,conversions.crossplane=true,conversions.restoreStashes=true")
    more = "conversions.refuseUnconvertible=true"
    none = rights(lasting(helm.render(*flags, "--set", more)))
    one = rights(lasting(helm.render(*flags, "--set", f"{more},conversions.targets={{jobs.example.dev}}")))
    assert none < one
    assert all("jobs" in str(each) or "crossplane" in str(each) for each in one - none), one - none
    assert not any("jobs" in str(each) or "crossplane" in str(each) for each in none)


def test_the_migrator_may_do_to_a_group_what_it_may_to_a_name(helm: Helm) -> None:
    """A wildcard is no name: as one, RBAC would grant nothing; and no CRD may be migrated unless one is opened."""

    def found(*crds: str) -> set[tuple[str, str, str, str]]:
        flags = [f"--set=migrator.crds={{{each}}}" for each in crds]
        granted = rights(lasting(helm.render("--set=migrator.enabled=true", *flags)))
        return {each[:4] for each in granted if each[4] is None}

    named, group, none = found("as.a.dev"), found("*.a.dev"), found()
    objects = {("a.dev", "as", verb, "") for verb in ("get", "list", "patch")}
    assert named - none == objects | {
        ("apiextensions.k8s.io", resource, verb, "as.a.dev")
        for resource, verb in (
            ("customresourcedefinitions", "get"),
            ("customresourcedefinitions", "patch"),
            ("customresourcedefinitions/status", "patch"),
        )
    }
    assert {(of, "as" if resource == "*" else resource, verb) for of, resource, verb, _ in group} == {
        each[:3] for each in named
    }
    assert not any(name for *_, name in group)


@pytest.mark.parametrize("name", ["migration-job", "operator-cert-manager", "migrator"])
def test_releases_share_no_name_in_default(name: str, helm: Helm) -> None:
    """Helm refuses to install a release over another one's Role, and all have theirs in that namespace."""
    names: list[tuple[str, str]] = []
    for namespace in ("one", "two"):
        documents = lasting(helm.render("--values", BY_NAME[name], namespace=namespace))
        found = [each for each in documents if each["metadata"].get("namespace") == "default"]
        binding = the(found, "RoleBinding")
        assert binding["roleRef"]["name"] == the(found, "Role")["metadata"]["name"]
        account = the(documents, "ServiceAccount")["metadata"]
        assert [(each["namespace"], each["name"]) for each in binding["subjects"]] == [(namespace, account["name"])]
        names += [(each["kind"], each["metadata"]["name"]) for each in found]
    assert len(set(names)) == len(names) == 4


def test_the_custom_verbs_are_those_that_admission_asks_for(helm: Helm) -> None:
    """A misspelt verb would lock everybody out."""
    roles = of_kind(helm.render("--values", BY_NAME["operator"]), "ClusterRole")
    (role,) = (each for each in roles if each["metadata"]["name"].endswith(":custom-verbs"))
    verbs = (MODIFY_KUBERNETES, MODIFY_MACHINE_IMAGES, MODIFY_PROVIDER_CONFIG)
    expected = {("core.gardener.cloud", "namespacedcloudprofiles", verb, "", None) for verb in verbs}
    assert rights([role]) == expected


@pytest.mark.parametrize("values", VALUES, ids=list(BY_NAME))
def test_pods_are_restricted(values: Path, helm: Helm) -> None:
    """Where nobody enforces the restricted profile, the chart has to; and a token is mounted only where it is used."""
    documents = helm.render("--values", values)
    granted = {
        subject["name"]
        for each in of_kind(documents, "RoleBinding", "ClusterRoleBinding")
        for subject in each["subjects"]
    }
    for template in templates(documents):
        spec = template["spec"]
        assert spec["securityContext"]["runAsNonRoot"]
        assert spec["automountServiceAccountToken"] == (spec["serviceAccountName"] in granted)
        for each in spec["containers"]:
            context = each["securityContext"]
            assert context == {
                "allowPrivilegeEscalation": False,
                "readOnlyRootFilesystem": True,
                "capabilities": {"drop": ["ALL"]},
            }
            assert each["resources"]["limits"]["memory"]


@pytest.mark.parametrize("values", VALUES, ids=list(BY_NAME))
def test_commands_are_understood(values: Path, helm: Helm) -> None:
    """A renamed flag shows here, and not as a crash loop."""
    commands = {"migrate": migrate, "serve": serve, "operator": operator, "unwire": unwire}
    for workload in of_kind(helm.render("--values", values), "Job", "Deployment"):
        name, *arguments = container(workload)["args"]
        flags = [each for each in arguments if not each.startswith("--crd=")]
        known = {option for parameter in commands[name].params for option in parameter.opts}
        assert {flag.partition("=")[0] for flag in flags if flag.startswith("--")} <= known
        assert CliRunner().invoke(commands[name], ["--help"]).exit_code == 0


#: What a process takes without requests: with 400 kinds, or with a large CloudProfile (docs/benchmarks.md).
AT_REST = 250 * MIB


@pytest.mark.parametrize(("name", "workers"), [("webhook-own-ca", 0), ("operator", 0), ("conversions", 2)])
def test_what_may_be_at_work_fits_into_the_memory(name: str, workers: int, helm: Helm) -> None:
    """The kernel would end the pod, and with it the conversions of all kinds, before a request is refused."""
    (workload,) = of_kind(helm.render("--values", BY_NAME[name]), "Deployment")
    pod = container(workload)
    given = {flag: text for flag, _, text in (each.partition("=") for each in pod["args"])}
    in_flight = int(given["--max-in-flight-mib"]) * MIB
    folders = [each.get("emptyDir") or {} for each in workload["spec"]["template"]["spec"]["volumes"]]
    files = sum(size(each["sizeLimit"]) for each in folders if each.get("medium") == "Memory")
    most = AT_REST + MOST_FOR_CONNECTIONS + files + workers * worker.MEMORY + 4 * in_flight
    assert most <= size(pod["resources"]["limits"]["memory"]), f"{most / MIB:.0f} MiB"
    assert in_flight - in_flight // 4 >= Limits().body, "the largest review is always too much"


def size(text: str) -> int:
    """A quantity in bytes."""
    return int(text[:-2]) * {"Mi": MIB, "Gi": 1024 * MIB}[text[-2:]]


@pytest.mark.parametrize("name", ["migration-job", "migration-indexed-job"])
def test_the_job_tells_what_to_try_again(name: str, helm: Helm) -> None:
    """Refused: never again; failed objects: five tries; an eviction, or an API server out of reach: no try at all."""
    job = the(helm.render("--values", BY_NAME[name]), "Job")
    rules = job["spec"]["podFailurePolicy"]["rules"]
    by_code = {code: rule["action"] for rule in rules for code in rule.get("onExitCodes", {}).get("values", ())}
    assert by_code == {
        Exit.REFUSED: "FailJob",
        Exit.DUE: "FailJob",
        Exit.FAILURES: "Count",
        Exit.OUT_OF_REACH: "Ignore",
    }
    assert set(EXITS.values()) <= {Exit.DONE, *by_code}
    assert {rule["onExitCodes"]["containerName"] for rule in rules if "onExitCodes" in rule} == {"restow"}
    conditions = [rule for rule in rules if "onPodConditions" in rule]
    assert conditions == [{"action": "Ignore", "onPodConditions": [{"type": "DisruptionTarget"}]}]
    assert job["metadata"]["annotations"]["helm.sh/hook"] == "post-install,post-upgrade"
    assert job["spec"]["template"]["spec"]["restartPolicy"] == "Never"


def test_without_the_hook_each_revision_has_its_job(helm: Helm) -> None:
    """A Job's template cannot be changed: the same name twice fails every upgrade after the first."""
    flags = ("--values", BY_NAME["migration-job"], "--set", "migration.hook=false")
    job = the(helm.render(*flags), "Job")
    assert job["metadata"]["name"] == "edge-restow-migration-1"
    assert "annotations" not in job["metadata"]


def test_shards_are_the_completions(helm: Helm) -> None:
    """A shard that never runs means a migration that never ends."""
    job = the(helm.render("--values", BY_NAME["migration-indexed-job"]), "Job")
    assert (job["spec"]["completionMode"], job["spec"]["completions"], job["spec"]["parallelism"]) == ("Indexed", 4, 4)
    assert "--shards=4" in container(job)["args"]


@pytest.mark.parametrize(
    "name", ["webhook-cert-manager", "webhook-own-ca", "operator", "operator-cert-manager", "conversions"]
)
def test_what_serves_survives_a_node(name: str, helm: Helm) -> None:
    """A conversion webhook that is down hides objects: two replicas apart, drained, and never both evicted."""
    documents = helm.render("--values", BY_NAME[name])
    deployment, budget = the(documents, "Deployment")["spec"], the(documents, "PodDisruptionBudget")["spec"]
    pod = deployment["template"]["spec"]
    assert deployment["replicas"] == 2
    assert deployment["strategy"]["rollingUpdate"] == {"maxUnavailable": 0, "maxSurge": 1}
    assert budget["maxUnavailable"] == 1
    assert pod["affinity"]["podAntiAffinity"] and pod["topologySpreadConstraints"]
    assert pod["terminationGracePeriodSeconds"] > 10 + 15  # the defaults of --drain-seconds and --finish-seconds
    labels = deployment["template"]["metadata"]["labels"].items()
    for selector in (
        deployment["selector"]["matchLabels"],
        budget["selector"]["matchLabels"],
        the(documents, "Service")["spec"]["selector"],
        the(documents, "NetworkPolicy")["spec"]["podSelector"]["matchLabels"],
    ):
        assert selector.items() <= labels
    probes = container(the(documents, "Deployment"))
    assert probes["readinessProbe"]["httpGet"] == {"path": "/readyz", "port": "metrics"}
    assert probes["livenessProbe"]["httpGet"] == {"path": "/livez", "port": "metrics"}


@pytest.mark.parametrize("name", ["webhook-own-ca", "operator", "conversions", "migrator"])
def test_a_rollout_in_the_nodes_network_ends(name: str, helm: Helm) -> None:
    """With a replica on each node a further pod finds no free port: nothing would ever be rolled out."""
    flags = ("--values", BY_NAME[name], "--set", f"{name.partition('-')[0]}.hostNetwork=true")
    deployment = the(helm.render(*flags), "Deployment")["spec"]
    assert deployment["strategy"]["rollingUpdate"] == {"maxUnavailable": 1, "maxSurge": 1}
    assert deployment["template"]["spec"]["hostNetwork"] is True


def test_a_webhook_that_asks_nobody_reaches_nobody(helm: Helm) -> None:
    """It converts objects of all namespaces: it must not be able to tell anyone."""
    policy = the(helm.render("--values", BY_NAME["webhook-cert-manager"]), "NetworkPolicy")["spec"]
    assert (policy["policyTypes"], policy["egress"]) == (["Ingress", "Egress"], [])


def selected(peer: Document, labels: Document, namespace: Document, *, same: bool) -> bool:
    """Whether a peer of a NetworkPolicy is a pod with these labels, in the policy's own or a labelled namespace."""
    pods = peer.get("podSelector", {}).get("matchLabels", {})
    spaces = peer.get("namespaceSelector")
    at_home = same if spaces is None else spaces.get("matchLabels", {}).items() <= namespace.items()
    return "ipBlock" not in peer and at_home and pods.items() <= labels.items()


def may_reach(helm: Helm, caller: str, *flags: str, namespace: Document | None = None) -> bool:
    """Whether the webhook of webhook-own-ca admits the pod of another values file, and that may reach it."""
    policy = the(helm.render("--values", BY_NAME["webhook-own-ca"], *NAMED, *flags), "NetworkPolicy")["spec"]
    (https,) = (rule for rule in policy["ingress"] if rule["ports"][0]["port"] == "https")
    documents = lasting(helm.render("--values", BY_NAME[caller]))
    (template,) = templates(documents)
    labels, same = template["metadata"]["labels"], namespace is None
    admitted = any(selected(peer, labels, namespace or {}, same=same) for peer in https["from"])
    leaves = [rule for each in of_kind(documents, "NetworkPolicy") for rule in each["spec"]["egress"]]
    target = {"app.kubernetes.io/name": "restow", "app.kubernetes.io/component": "webhook"}
    let_out = not leaves or any(
        9443 in [port["port"] for port in rule["ports"]]
        or any(selected(peer, target, {}, same=same) for peer in rule.get("to", ()))
        for rule in leaves
    )
    return admitted and let_out


def test_only_named_addresses_may_call(helm: Helm) -> None:
    """With the API servers' addresses known, nobody else has objects converted, but for who migrates them."""
    policy = the(helm.render("--values", BY_NAME["webhook-own-ca"], *NAMED), "NetworkPolicy")["spec"]
    (https,) = (rule for rule in policy["ingress"] if rule["ports"][0]["port"] == "https")
    assert https["from"][0] == {"ipBlock": {"cidr": "10.0.0.0/28"}}
    assert not any(selected(peer, {"app": "else"}, {}, same=True) for peer in https["from"])


@pytest.mark.parametrize(
    "caller", ["migration-job", "operator-cert-manager", "webhook-own-ca", "conversions", "migrator"]
)
def test_who_migrates_reaches_the_webhook(caller: str, helm: Helm) -> None:
    """Locked out, a migration finds its converter out of reach until its deadline; elsewhere it takes a value."""
    assert may_reach(helm, caller)
    elsewhere = {"kubernetes.io/metadata.name": "elsewhere"}
    callers = json.dumps([{"namespaceSelector": {"matchLabels": elsewhere}}])
    assert not may_reach(helm, caller, namespace=elsewhere)
    if caller == "migration-job":
        assert may_reach(helm, caller, "--set-json", f"networkPolicy.callers={callers}", namespace=elsewhere)


@pytest.mark.parametrize("name", ["operator", "operator-cert-manager"])
def test_crds_and_configurations_name_the_service(name: str, helm: Helm) -> None:
    """The packaged ones name another Service: every request would fail."""
    documents = helm.render("--values", BY_NAME[name])
    service = the(documents, "Service")["metadata"]
    crds = of_kind(documents, "CustomResourceDefinition")
    hooks = of_kind(documents, "MutatingWebhookConfiguration", "ValidatingWebhookConfiguration")
    named = [each["spec"]["conversion"]["webhook"]["clientConfig"]["service"] for each in crds]
    named += [hook["clientConfig"]["service"] for each in hooks for hook in each["webhooks"]]
    assert len(crds) == 3
    assert {(each["namespace"], each["name"]) for each in named} == {(service["namespace"], service["name"])}
    injected = name == "operator-cert-manager"
    assert len(hooks) == (2 if injected else 0)  # with a CA of its own it installs them itself
    for each in (*crds, *hooks):
        annotation = each["metadata"]["annotations"].get("cert-manager.io/inject-ca-from")
        assert annotation == (f"{service['namespace']}/{service['name']}" if injected else None)
    for each in crds:
        assert each["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"


def test_the_packaged_configurations_are_the_operators() -> None:
    """deploy/chart/restow/files/webhooks.yaml is written by ``restow operator --print-webhooks``."""
    ran = CliRunner().invoke(operator, ["--print-webhooks", "restow-system/restow-webhook"])
    assert (CHART / "files" / "webhooks.yaml").read_text() == ran.stdout


def test_files_reach_the_webhook(helm: Helm, tmp_path: Path) -> None:
    """Conversions from a ConfigMap: mounted where the command looks, and a change rolls the pods."""
    (tmp_path / "c.py").write_text("registry = None\n")
    (tmp_path / "g.yaml").write_text("a: 1\n")
    flags = (
        "--values",
        BY_NAME["webhook-own-ca"],
        "--set-file",
        f"webhook.files.manifests/gateways\\.yaml={tmp_path / 'g.yaml'}",
        "--set=webhook.crdFiles={manifests/gateways.yaml}",
    )
    rendered = [
        helm.render(*flags, "--set-file", f"webhook.files.conversions\\.py={tmp_path / file}")
        for file in ("c.py", "g.yaml")
    ]
    first, other = (the(each, "Deployment")["spec"]["template"] for each in rendered)
    data = the(rendered[0], "ConfigMap")["data"]
    assert data == {"conversions.py": "registry = None\n", "manifests__gateways.yaml": "a: 1\n"}
    (mounted,) = (each["configMap"]["items"] for each in first["spec"]["volumes"] if each["name"] == "files")
    assert {each["path"]: data[each["key"]] for each in mounted} == {
        "conversions.py": "registry = None\n",
        "manifests/gateways.yaml": "a: 1\n",
    }
    (used,) = first["spec"]["containers"]
    assert used["workingDir"] == "/etc/restow" and "--crd=/etc/restow/manifests/gateways.yaml" in used["args"]
    assert first["metadata"]["annotations"] != other["metadata"]["annotations"]


def test_rules_that_are_data_reach_the_webhook(helm: Helm, tmp_path: Path) -> None:
    """Whoever writes no Python would need an image of their own, or another component, to serve a file of rules."""
    (tmp_path / "c.yaml").write_text("kind: ConversionRules\n")
    flags = [
        f"--set-file=webhook.files.{name}\\.yaml={tmp_path / 'c.yaml'}"
        for name in ("conversions", "gateways", "caches")
    ]
    documents = helm.render("--values", BY_NAME["webhook-rules"], *flags)
    arguments = container(the(lasting(documents), "Deployment"))["args"]
    assert "--rules=/etc/restow/conversions.yaml" in arguments
    assert not any(each.startswith("--registry") for each in arguments)
    assert the(documents, "ConfigMap")["data"] == dict.fromkeys(
        ("conversions.yaml", "gateways.yaml", "caches.yaml"), "kind: ConversionRules\n"
    )


def test_files_that_are_named_are_given(helm: Helm, tmp_path: Path) -> None:
    """A pod whose file is missing starts again and again; the rollout stands until its deadline."""
    flags = ["--values", BY_NAME["webhook-rules"], "--set-file", f"webhook.files.other\\.yaml={tmp_path / 'c.yaml'}"]
    (tmp_path / "c.yaml").write_text("kind: ConversionRules\n")
    assert "there is no file conversions.yaml" in helm.run("template", "edge", CHART, *flags, code=1)
    (tmp_path / "mounted.yaml").write_text(
        yaml.safe_dump({"webhook": {"volumeMounts": [{"name": "rules", "mountPath": "/etc/restow/conversions.yaml"}]}})
    )
    helm.render(*flags, "--values", tmp_path / "mounted.yaml")


@pytest.mark.parametrize(
    ("setting", "said"),
    [
        ("migration.enabled=true", "/migration/crds"),
        ("migration.crds={Widgets}", "pattern"),
        ("migraton.enabled=true", "migraton"),
        ("image.digest=sha256:12", "/image/digest"),
        ("webhook.enabled=true", "/webhook/registry"),
        ("webhook.enabled=true,webhook.registry=a:b,webhook.rules={c.yaml}", "/webhook/rules"),
        ("webhook.enabled=true,webhook.registry=a:b,webhook.certificate=own-ca", "/webhook/crds"),
        ("webhook.enabled=true,webhook.registry=a:b,webhook.certificate=secret", "/webhook/secretName"),
        (f"webhook.enabled=true,webhook.registry=a:b,webhook.certificate=secret,{UNTRUSTED}", "deny every update"),
        ("webhook.serviceAccount.create=false", "/webhook/serviceAccount/name"),
        ("logLevel=loud", "/logLevel"),
        ("conversions.targets={Jobs}", "pattern"),
        ("conversions.certificate=secret", "/conversions/secretName"),
        ("webhook.clientCA.pem=none", "/webhook/clientCA/pem"),
        ("operator.enabled=true,operator.clientCA.names={apiserver}", "give pem or configMap too"),
        ("operator.applyManagement=true", "/operator/management"),
        ("conversions=null", "missing property 'conversions'"),  # as with --reuse-values of a chart that had none
        ("webhook.autoscaling=null", "missing property 'autoscaling'"),
        ("operator.enabled=true,operator.certificate=cert-manager,operator.crds=operator", "give chart or none"),
    ],
)
def test_wrong_values_are_told(setting: str, said: str, helm: Helm) -> None:
    """A typing error should cost a second, not an upgrade at night."""
    assert said in helm.run("template", "edge", CHART, "--set", setting, code=1)


def test_every_value_is_in_the_schema() -> None:
    """A value that the schema does not know could not be set."""
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())

    def compare(value: Any, part: dict[str, Any], path: str) -> None:
        part = schema["definitions"][part["$ref"].rpartition("/")[2]] if "$ref" in part else part
        if isinstance(value, dict) and "properties" in part:
            assert value.keys() <= part["properties"].keys(), path
            assert path.endswith("resources") or value.keys() == part["properties"].keys() - {"global"}, path
            for key, child in value.items():
                compare(child, part["properties"][key], f"{path}/{key}")

    compare(values, schema, "")


def test_the_table_of_values_and_the_copied_crds_are_current() -> None:
    """``make charts`` writes them; a value without a word about it is one that nobody finds."""
    generate = runpy.run_path(str(ROOT / "deploy" / "generate.py"))
    file, text = generate["readme"]()
    assert file.read_text() == text
    rows = [line.split(" | ") for line in text.splitlines() if line.startswith("| `")]
    assert [row[0] for row in rows if row[2].strip(" |") == ""] == []
    copies = dict(generate["crds"]())
    assert {each: each.read_text() for each in (CHART / "files" / "crds").iterdir()} == copies


def test_a_packaged_chart_has_no_link(helm: Helm, tmp_path: Path) -> None:
    """Helm warns of links at each command, and a copy of the chart's folder lacks what they lead to."""
    assert [file for file in CHART.rglob("*") if file.is_symlink()] == []
    helm.run("package", CHART, "--destination", tmp_path)
    (package,) = tmp_path.glob("*.tgz")
    with tarfile.open(package) as packed:
        members = {member.name: member for member in packed.getmembers()}
    assert all(member.isfile() for member in members.values())
    assert "restow/README.md" in members and "restow/files/crds/core.gardener.cloud_shoots.yaml" in members
    flags = ("--set", "operator.enabled=true", "--namespace", NAMESPACE)
    assert helm.run("template", "edge", package, *flags) == helm.run("template", "edge", CHART, *flags)


KNOBS: Document = {
    "annotations": {"argocd.argoproj.io/sync-wave": "1"},
    "podAnnotations": {"sidecar.istio.io/inject": "false"},
    "podLabels": {"team": "edge", "app.kubernetes.io/name": "mine"},
    "priorityClassName": "system-cluster-critical",
    "env": [{"name": "HTTPS_PROXY", "value": "http://proxy:3128"}],
    "volumes": [{"name": "ca", "configMap": {"name": "ca"}}],
    "volumeMounts": [{"name": "ca", "mountPath": "/etc/ca"}],
    "affinity": {"nodeAffinity": {}},
    "topologySpreadConstraints": [{"maxSkew": 2, "topologyKey": "zone", "whenUnsatisfiable": "DoNotSchedule"}],
    "nodeSelector": {"disk": "fast"},
    "tolerations": [{"operator": "Exists"}],
    "serviceAccount": {"create": False, "name": "there-already"},
}


@pytest.mark.parametrize("name", ["migration-job", "webhook-own-ca", "operator", "conversions", "migrator"])
def test_pods_are_adapted_to_the_cluster(name: str, helm: Helm, tmp_path: Path) -> None:
    """What cert-manager's and KEDA's charts let one set: proxies, sidecars, priorities, accounts, OpenShift's ids."""
    component = name.partition("-")[0]
    ids = dict.fromkeys(("runAsUser", "runAsGroup", "fsGroup"))
    more = {component: KNOBS, "podSecurityContext": ids, "logLevel": "debug", "logFormat": "json"}
    (tmp_path / "values.yaml").write_text(yaml.safe_dump(more))
    documents = lasting(helm.render("--values", BY_NAME[name], "--values", tmp_path / "values.yaml"))
    (template,) = templates(documents)
    spec, (used,) = template["spec"], template["spec"]["containers"]
    (workload,) = of_kind(documents, "Job", "Deployment")
    assert KNOBS["annotations"].items() <= workload["metadata"]["annotations"].items()
    assert template["metadata"]["annotations"]["sidecar.istio.io/inject"] == "false"
    assert template["metadata"]["labels"]["team"] == "edge"
    assert template["metadata"]["labels"]["app.kubernetes.io/name"] == "restow", "the chart's selectors need it"
    for key in ("priorityClassName", "affinity", "topologySpreadConstraints", "nodeSelector", "tolerations"):
        assert spec[key] == KNOBS[key], key
    assert spec["securityContext"] == {"runAsNonRoot": True, "seccompProfile": {"type": "RuntimeDefault"}}
    logs = [{"name": "RESTOW_LOG_LEVEL", "value": "debug"}, {"name": "RESTOW_LOG_FORMAT", "value": "json"}]
    assert used["env"] == [*logs, *KNOBS["env"]]
    assert KNOBS["volumes"][0] in spec["volumes"] and KNOBS["volumeMounts"][0] in used["volumeMounts"]
    assert of_kind(documents, "ServiceAccount") == []
    subjects = [one for each in of_kind(documents, "RoleBinding", "ClusterRoleBinding") for one in each["subjects"]]
    assert {one["name"] for one in subjects} == {spec["serviceAccountName"]} == {"there-already"}
    flags = ("--values", BY_NAME[name], "--set", "rbac.create=false,operator.customVerbsRole=false")
    assert of_kind(helm.render(*flags), "Role", "ClusterRole", "RoleBinding", "ClusterRoleBinding") == []


@pytest.mark.parametrize("name", ["webhook-own-ca", "operator", "conversions"])
def test_admission_can_ask_for_certificates(name: str, helm: Helm, tmp_path: Path) -> None:
    """A CA that the process does not read lets everyone ask, and a flag that it does not know ends it."""
    component = name.partition("-")[0]
    (tmp_path / "ca.crt").write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    given = ("--set-file", f"{component}.clientCA.pem={tmp_path / 'ca.crt'}")
    documents = helm.render(
        "--values", BY_NAME[name], *given, "--set", f"{component}.clientCA.names={{kube-apiserver}}"
    )
    maps = {each["metadata"]["name"]: each["data"] for each in of_kind(documents, "ConfigMap")}
    made = f"edge-restow-{component}-client-ca"
    assert maps[made] == {"ca.crt": (tmp_path / "ca.crt").read_text()}
    value = f"{component}.clientCA"
    own = ("--values", BY_NAME[name], "--set", f"{value}.configMap=bundle,{value}.require=all")
    for found, source, flags in (
        (documents, made, ["--require-client-cert=admission", "--client-name=kube-apiserver"]),
        (helm.render(*own), "bundle", ["--require-client-cert=all"]),
    ):
        deployment = the(found, "Deployment")
        volumes = deployment["spec"]["template"]["spec"]["volumes"]
        assert {"name": "client-ca", "configMap": {"name": source}} in volumes
        used = container(deployment)
        (mount,) = (each for each in used["volumeMounts"] if each["name"] == "client-ca")
        assert [each for each in used["args"] if "client" in each] == [
            f"--client-ca={mount['mountPath']}/ca.crt",
            *flags,
        ]
    without = container(the(helm.render("--values", BY_NAME[name]), "Deployment"))
    assert not [each for each in without["args"] if "client" in each]


def test_the_crd_of_rules_stays(helm: Helm) -> None:
    """Without the CRD all rules of the cluster would go with a release, and what they convert with them."""
    crd = the(helm.render("--values", BY_NAME["conversions"]), "CustomResourceDefinition")
    assert crd["metadata"]["name"] == "conversionrules.restow.dev"
    assert crd["metadata"]["annotations"]["helm.sh/resource-policy"] == "keep"
    packaged = yaml.safe_load((ROOT / "crds" / "manifests" / "restow.dev_conversionrules.yaml").read_text())
    assert crd["spec"] == packaged["spec"]
    for crds, flags in (("operator", ["--install-crds"]), ("none", [])):
        documents = helm.render("--values", BY_NAME["conversions"], "--set", f"conversions.crds={crds}")
        assert of_kind(documents, "CustomResourceDefinition") == []
        assert [each for each in container(the(documents, "Deployment"))["args"] if "crds" in each] == flags


def test_labels_for_everything_cannot_break_a_selector(helm: Helm) -> None:
    """Two entries of one key are no YAML to strict readers; a Service whose selector meets no pod sends nothing."""
    flags = ("--values", BY_NAME["webhook-own-ca"])
    mine = "commonLabels.tier=edge,commonLabels.app\\.kubernetes\\.io/name=mine"
    text = helm.run("template", "edge", CHART, *flags, "--set", mine)
    assert "name: mine" not in text
    for document in helm.render(*flags, "--set", mine):
        labels = document["metadata"]["labels"]
        assert labels["tier"] == "edge" and labels["app.kubernetes.io/name"] == "restow"
    assert of_kind(helm.render(*flags, "--set", "commonLabels=null,webhook.podLabels=null"), "Deployment")


def test_names_are_overridden(helm: Helm) -> None:
    """Everything has the name, or a Service is not found."""
    for setting, expected in (("fullnameOverride=hooks", "hooks"), ("nameOverride=hooks", "edge-hooks")):
        documents = lasting(helm.render("--values", BY_NAME["webhook-own-ca"], "--set", setting))
        assert {each["metadata"]["name"].rpartition(":")[2] for each in documents if "Service" in each["kind"]} == {
            f"{expected}-webhook"
        }
        assert f"--own-ca={NAMESPACE}/{expected}-webhook" in container(the(documents, "Deployment"))["args"]


def test_replicas_are_scaled_or_counted(helm: Helm) -> None:
    """A Deployment that says its replicas undoes what the autoscaler did at every upgrade."""
    flags = ("--values", BY_NAME["webhook-own-ca"], "--set", "webhook.autoscaling.enabled=true")
    documents = helm.render(*flags)
    scaler, deployment = the(documents, "HorizontalPodAutoscaler")["spec"], the(documents, "Deployment")
    assert "replicas" not in deployment["spec"]
    assert scaler["scaleTargetRef"]["name"] == deployment["metadata"]["name"]
    assert (scaler["minReplicas"], scaler["maxReplicas"]) == (2, 6)


def test_the_step_s_configuration_is_the_one_that_restow_installs(helm: Helm) -> None:
    """Two writings of it drift apart: one denied every update while the webhook was down."""
    crds = load_crds([ROOT / "docs" / "examples" / "provider" / "manifests" / "gateways.yaml"])
    documents = helm.render("--values", BY_NAME["webhook-cert-manager"])
    service = the(documents, "Service")["metadata"]
    address = Service(service["namespace"], service["name"], "/mutate/conversion-stash")
    expected: Document = dict(stash_configuration(stash_name(address), address, graph, crds))  # type: ignore[arg-type]
    rendered = the(documents, "MutatingWebhookConfiguration")
    (webhook,) = expected["webhooks"]
    del webhook["rules"][0]["scope"]  # which the values do not say
    assert (rendered["metadata"]["name"], rendered["webhooks"]) == (expected["metadata"]["name"], [webhook])
    own = helm.render("--values", BY_NAME["webhook-own-ca"], "--set-json", f"webhook.restoresStash={STASHES}")
    assert of_kind(own, "MutatingWebhookConfiguration") == [], "nobody would fill its caBundle: each UPDATE is denied"
    assert "--restore-stashes" in container(the(own, "Deployment"))["args"]


def test_the_configuration_of_refusals_is_the_one_that_restow_installs(helm: Helm) -> None:
    """Two writings of it drift apart: a wrong path refuses every write."""
    crds = load_crds([ROOT / "docs" / "examples" / "provider" / "manifests" / "gateways.yaml"])
    asked = ("--set-json", f"webhook.refusesUnconvertible={STASHES}")
    documents = helm.render("--values", BY_NAME["webhook-cert-manager"], *asked)
    service = the(documents, "Service")["metadata"]
    address = Service(service["namespace"], service["name"], "/admit/refuse-unconvertible")
    keeping = registry.freeze(CRDS, on_error="keep")
    expected: Document = dict(refusal_configuration(refusal_name(address), address, keeping, crds))
    rendered = the(documents, "ValidatingWebhookConfiguration")
    (webhook,) = expected["webhooks"]
    del webhook["rules"][0]["scope"]  # which the values do not say
    assert (rendered["metadata"]["name"], rendered["webhooks"]) == (expected["metadata"]["name"], [webhook])
    assert rendered["metadata"]["annotations"]["cert-manager.io/inject-ca-from"] == f"{NAMESPACE}/{service['name']}"
    own = helm.render("--values", BY_NAME["webhook-own-ca"], *asked)
    assert of_kind(own, "ValidatingWebhookConfiguration") == [], "nobody would fill its caBundle: each write is denied"
    assert "--refuse-unconvertible" in container(the(own, "Deployment"))["args"]
    assert refusal_configuration("r", address, graph, crds)["webhooks"] == [], "nothing is kept, so nothing is refused"


def test_a_digest_wins_over_a_tag(helm: Helm) -> None:
    """A tag can be moved."""
    digest = f"sha256:{'0' * 64}"
    flags = ("--values", BY_NAME["migration-job"], "--set", f"image.tag=v1,image.digest={digest}")
    assert container(the(helm.render(*flags), "Job"))["image"] == f"registry.example.com/restow@{digest}"
