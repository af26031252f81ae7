"""The chart's alerts, as Prometheus evaluates them: each fires on what it is for, and on nothing like it.

``promtool test rules`` feeds series to the rendered rules and looks at the alerts at a moment.
"""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from restow.conversion.certificates.ca.metrics import CertificateMetrics
from restow.conversion.server.metrics import METRICS, Snapshot
from restow.conversion.server.run import exposition
from restow.kube.clockcheck import ClockCheck
from restow.operator.metrics import OperatorMetrics
from tests.deploy.rendering import CHART, ROOT, Document, Helm, of_kind, the
from tests.memory.cluster import MemoryCluster

WITH = (
    *("--set", "operator.enabled=true", "--set", "monitoring.prometheusRule.enabled=true"),
    *("--set", "monitoring.serviceMonitor.enabled=true", "--set", "monitoring.dashboard.enabled=true"),
    *("--set", "migration.enabled=true", "--set", "migration.crds={widgets.example.com}"),
)
OF = 'namespace="my-system",job="edge-restow-operator",instance="a"'
OTHER = OF.replace('instance="a"', 'instance="b"')
IS = {"namespace": "my-system", "job": "edge-restow-operator"}
JOB = 'namespace="my-system",job_name="edge-restow-migration-1"'
RETRY = 'namespace="my-system",job_name="edge-restow-migration-2"'
DEPLOYMENT = 'namespace="my-system",deployment="edge-restow-operator"'
HEALTHY = {f"up{{{OF}}}": "1x600"}
DAY = 86400


@dataclass(frozen=True)
class Case:
    """What is scraped once a minute, and which alerts there are after some minutes.

    Attributes:
        alert: by name.
        why: what the case is.
        series: values as promtool writes them; ``1x9`` is 1 ten times, ``0+2x9`` grows by 2.
        after: minutes.
        fires: the labels by which an alert differs from those of others; None where it is silent.
    """

    alert: str
    why: str
    series: Mapping[str, str]
    after: int
    fires: Mapping[str, str] | None = None


def failures(values: str) -> dict[str, str]:
    """A webhook that converts, and fails so often."""
    good = f'restow_conversion_reviews_total{{{OF},crd="c",result="success"}}'
    return {good: "0+60x600", f'restow_conversion_reviews_total{{{OF},crd="c",result="failure"}}': values}


def refused(why: str, values: str) -> dict[str, str]:
    return {f'restow_webhook_refused_total{{{OF},why="{why}"}}': values}


def keeping(failures: str, success: str) -> dict[str, str]:
    """How the keeping of certificates goes."""
    return {
        f"restow_webhook_keeping_failures_total{{{OF}}}": failures,
        f"restow_webhook_keeping_last_success_timestamp_seconds{{{OF}}}": success,
    }


def led(leads: int, **numbers: str) -> dict[str, str]:
    """What a replica tells of a migration."""
    found = {f'restow_leader{{{OF},lease="my-system/restow-operator-migrator"}}': f"{leads}x600"}
    for name, values in numbers.items():
        more = ',outcome="rewritten"' if name == "objects_total" else ""
        found[f'restow_migrator_{name}{{{OF},crd="c"{more}}}'] = values
    return found


def job(failed: str, completed: str | None = None, created: str = "6000x60") -> dict[str, str]:
    """A migration that fails, with one pod more than it needs, and another that succeeds or is yet to."""
    found = {
        f'kube_job_failed{{{JOB},condition="true"}}': failed,
        f"kube_job_created{{{JOB}}}": created,
        f"kube_job_status_failed{{{JOB}}}": "1x60",
    }
    return found | ({} if completed is None else {f"kube_job_status_completion_time{{{RETRY}}}": completed})


CASES = [
    Case("RestowConversionFails", "each review fails", failures("0+1x60"), 20, {"crd": "c"}),
    Case("RestowConversionFails", "the first failures are in the first series", failures("0 0+2x60"), 17, {"crd": "c"}),
    Case("RestowConversionFails", "none fails", failures("0x60"), 60),
    Case("RestowConversionFails", "it has only begun", failures("0x20 0+1x60"), 25),
    Case("RestowConversionFails", "one client sent one bad object", failures("0x20 1x40"), 27),
    Case("RestowConversionFails", "what failed an hour ago is over", failures("0+1x20 21x60"), 60),
    Case("RestowConversionFailed", "one client sent one bad object", failures("0x20 1x40"), 27, {"crd": "c"}),
    Case("RestowConversionFailed", "none fails", failures("0x60"), 60),
    Case(
        "RestowAdmissionFails",
        "it cannot read",
        {f'restow_admission_reviews_total{{{OF},step="s",result="failed"}}': "0+1x60"},
        30,
        {"step": "s"},
    ),
    Case(
        "RestowAdmissionFails",
        "it denies and allows",
        {
            f'restow_admission_reviews_total{{{OF},step="s",result="denied"}}': "0+9x60",
            f'restow_admission_reviews_total{{{OF},step="s",result="failed"}}': "0x20 1x40",
        },
        35,
    ),
    Case("RestowWebhookDefect", "one defect", refused("defect", "0x5 1x60"), 10, {}),
    Case("RestowWebhookDefect", "others", refused("overload", "0+9x60") | refused("defect", "3x60"), 30),
    Case("RestowWebhookOverloaded", "it turns away", refused("overload", "0+30x60"), 30, {}),
    Case("RestowWebhookOverloaded", "too many connections", refused("too-many-connections", "0+30x60"), 30, {}),
    Case("RestowWebhookOverloaded", "a burst that is over", refused("overload", "0x5 600x60"), 12),
    Case("RestowRequestsRefused", "somebody sends nonsense", refused("no-review", "0+30x60"), 30, {"why": "no-review"}),
    Case(
        "RestowRequestsRefused",
        "somebody is slow on purpose",
        {f'restow_webhook_aborted_total{{{OF},while="headers"}}': "0+30x60"},
        30,
        {"why": "slow-headers"},
    ),
    Case("RestowRequestsRefused", "a scanner once", refused("no-such-path", "0x5 90x60"), 13),
    Case("RestowRequestsRefused", "a pod that starts", refused("starting", "0+30x4 120x60"), 12),
    Case(
        "RestowCertificateExpires",
        "nobody renews it",
        {f"restow_webhook_certificate_expiry_timestamp_seconds{{{OF}}}": f"{4 * DAY}x60"},
        30,
        {},
    ),
    Case(
        "RestowCertificateExpires",
        "it is good for a month",
        {f"restow_webhook_certificate_expiry_timestamp_seconds{{{OF}}}": f"{30 * DAY}x60"},
        30,
    ),
    Case(
        "RestowCertificateRefused",
        "a pair does not match",
        {f'restow_webhook_certificate_loads_total{{{OF},result="refused"}}': "0x5 1x60"},
        8,
        {},
    ),
    Case(
        "RestowCertificateRefused",
        "it is renewed",
        {
            f'restow_webhook_certificate_loads_total{{{OF},result="refused"}}': "0x60",
            f'restow_webhook_certificate_loads_total{{{OF},result="loaded"}}': "1x5 2x60",
        },
        30,
    ),
    Case("RestowWiringIncomplete", "a CRD stays", {f"restow_webhook_wiring_problems{{{OF}}}": "1x60"}, 30, {}),
    Case("RestowWiringIncomplete", "healed at once", {f"restow_webhook_wiring_problems{{{OF}}}": "0x5 1x2 0x60"}, 8),
    Case("RestowWiringContested", "at each sync", {f"restow_webhook_wiring_contested{{{OF}}}": "1x60"}, 30, {}),
    Case("RestowWiringContested", "never", {f"restow_webhook_wiring_contested{{{OF}}}": "0x60"}, 30),
    Case("RestowKeepingFailed", "a Secret cannot be read", keeping("0+2x60", "60x60"), 20, {}),
    Case("RestowKeepingFailed", "it hangs", keeping("0x60", "60x60"), 40, {}),
    Case("RestowKeepingFailed", "a restart of the API server", keeping("0x5 3x60", "0+60x60"), 30),
    Case(
        "RestowAuthorityExpires",
        "its rotation hangs",
        {f"restow_webhook_authority_expiry_timestamp_seconds{{{OF}}}": f"{20 * DAY}x200"},
        100,
        {},
    ),
    Case(
        "RestowAuthorityExpires",
        "the next one is due in a year",
        {f"restow_webhook_authority_expiry_timestamp_seconds{{{OF}}}": f"{200 * DAY}x200"},
        100,
    ),
    Case(
        "RestowAuthorityExpires",
        "it is not known",
        {f"restow_webhook_authority_expiry_timestamp_seconds{{{OF}}}": " ".join(["NaN"] * 101)},
        100,
    ),
    Case(
        "RestowAuthorityExpires",
        "it is not kept here",
        {f"restow_webhook_authority_expiry_timestamp_seconds{{{OF}}}": "0x200"},
        100,
    ),
    Case("RestowNobodyLeads", "none of them", {f'restow_leader{{{OF},lease="l"}}': "0x60"}, 10, {"lease": "l"}),
    Case(
        "RestowNobodyLeads",
        "the other one",
        {
            f'restow_leader{{{OF},lease="l"}}': "0x60",
            f'restow_leader{{{OTHER},lease="l"}}': "1x60",
        },
        10,
    ),
    Case(
        "RestowClockDiffers",
        "that of a replica's machine",
        {
            f'restow_clock_difference_seconds{{{OF},answer="closest"}}': "-3x60",
            f'restow_clock_difference_seconds{{{OTHER},answer="closest"}}': "0x60",
        },
        20,
        {"answer": "closest"},
    ),
    Case(
        "RestowClockDiffers",
        "it was set right",
        {f'restow_clock_difference_seconds{{{OF},answer="closest"}}': "45x5 0x60"},
        20,
    ),
    Case(
        "RestowControllersFail",
        "they end at once",
        {f'restow_operator_work_ended_total{{{OF},work="controllers"}}': "0+1x60"},
        30,
        {"work": "controllers"},
    ),
    Case(
        "RestowControllersFail",
        "an API server restarted",
        {f'restow_operator_work_ended_total{{{OF},work="controllers"}}': "0x5 1x60"},
        10,
    ),
    Case(
        "RestowReconcilesFail",
        "most of them",
        {
            f'restow_controller_reconciles_total{{{OF},controller="k",result="failed"}}': "0+2x60",
            f'restow_controller_reconciles_total{{{OF},controller="k",result="succeeded"}}': "0+1x60",
        },
        40,
        {"controller": "k"},
    ),
    Case(
        "RestowReconcilesFail",
        "a conflict now and then",
        {
            f'restow_controller_reconciles_total{{{OF},controller="k",result="failed"}}': "0+1x60",
            f'restow_controller_reconciles_total{{{OF},controller="k",result="succeeded"}}': "0+9x60",
        },
        40,
    ),
    Case("RestowMigrationDue", "for a day", led(1, due="1x600"), 400, {"crd": "c"}),
    Case("RestowMigrationDue", "an hour's work", led(1, due="1x60 0x600"), 400),
    Case("RestowMigrationDue", "said by one that led once", led(0, due="1x600"), 400),
    Case(
        "RestowMigrationStalled",
        "nothing moves",
        led(1, objects_remaining="5x600", objects_total="0+9x10 90x600"),
        60,
        {"crd": "c"},
    ),
    Case(
        "RestowMigrationStalled",
        "each object fails",
        led(1, objects_remaining="5x600")
        | {f'restow_migrator_objects_total{{{OF},crd="c",outcome="failed"}}': "0+5x600"},
        60,
        {"crd": "c"},
    ),
    Case(
        "RestowMigrationStalled",
        "it gets on",
        led(1, objects_remaining="9000-9x600", objects_total="0+9x600"),
        60,
    ),
    Case("RestowMigrationStalled", "done", led(1, objects_remaining="0x600", objects_total="9x600"), 60),
    Case("RestowMigrationStalled", "said by one that led once", led(0, objects_remaining="5x600"), 60),
    Case("RestowWebhookDown", "no pod answers", {f"up{{{OF}}}": "0x60"}, 5, {}),
    Case("RestowWebhookDown", "there is no pod at all", {}, 5, {}),
    Case(
        "RestowWebhookDown",
        "pods that do not get ready",
        HEALTHY | {f"kube_deployment_status_replicas_available{{{DEPLOYMENT}}}": "0x60"},
        5,
        {},
    ),
    Case(
        "RestowWebhookDown",
        "one of two",
        {f"up{{{OF}}}": "0x60", f"up{{{OTHER}}}": "1x60"},
        5,
    ),
    Case(
        "RestowWebhookDown",
        "another release's",
        HEALTHY | {'up{namespace="other",job="edge-restow-operator",instance="c"}': "0x60"},
        5,
    ),
    Case("RestowMigrationFailed", "the Job failed", job("1x60"), 5, {"job_name": "edge-restow-migration-1"}),
    Case("RestowMigrationFailed", "a pod failed, the next one did it", job("0x60"), 5),
    Case("RestowMigrationFailed", "a later Job did it", job("1x60", "7000x60"), 5),
    Case(
        "RestowMigrationFailed",
        "an earlier Job had done it",
        job("1x60", "5000x60"),
        5,
        {"job_name": "edge-restow-migration-1"},
    ),
]


@pytest.fixture(scope="module")
def rendered(helm: Helm) -> list[Document]:
    return helm.render(*WITH)


@pytest.fixture(scope="module")
def groups(rendered: list[Document]) -> list[Document]:
    """The groups of rules, as Prometheus gets them."""
    return list(the(rendered, "PrometheusRule")["spec"]["groups"])


def alerts(groups: list[Document]) -> dict[str, Document]:
    """The alerts by name."""
    return {rule["alert"]: rule for group in groups for rule in group["rules"]}


def promtool(tools: Mapping[str, Path], folder: Path, groups: list[Document], tests: list[Document]) -> str:
    """Test the rules without annotations; return what is wrong."""
    rules = [group | {"rules": [{**rule, "annotations": {}} for rule in group["rules"]]} for group in groups]
    (folder / "rules.yaml").write_text(yaml.safe_dump({"groups": rules}))
    document = {"rule_files": ["rules.yaml"], "evaluation_interval": "1m", "tests": tests}
    (folder / "tests.yaml").write_text(yaml.safe_dump(document))
    command = [tools["promtool"], "test", "rules", "tests.yaml"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr


def asked(case: Case, rule: Document) -> Document:
    """The case as promtool reads it; nothing fires before the rule's ``for`` can be over."""
    expected: list[Any] = []
    if case.fires is not None:
        severity = rule["labels"]["severity"]
        where = {"namespace": "my-system"} if case.alert == "RestowMigrationFailed" else IS
        expected = [{"exp_labels": {"severity": severity, **where, **case.fires}}]
    moments = [(case.after, expected)]
    if "for" in rule:
        number, unit = int(rule["for"][:-1]), rule["for"][-1]
        moments.append((number * {"m": 1, "h": 60}[unit] - 1, []))
    return {
        "name": f"{case.alert}: {case.why}",
        "interval": "1m",
        "input_series": [{"series": name, "values": values} for name, values in case.series.items()],
        "alert_rule_test": [
            {"eval_time": f"{minute}m", "alertname": case.alert, "exp_alerts": found} for minute, found in moments
        ],
    }


def test_alerts_fire_when_they_should_and_only_then(
    groups: list[Document], tools: dict[str, Path], tmp_path: Path
) -> None:
    """An alert that is silent when it is needed, and one that is not when all is well: the second makes the first."""
    known = alerts(groups)
    assert {case.alert for case in CASES if case.fires is not None} == known.keys(), "each has to fire in some case"
    assert {case.alert for case in CASES if case.fires is None} == known.keys(), "each has to be silent in some case"
    said = promtool(tools, tmp_path, groups, [asked(case, known[case.alert]) for case in CASES])
    assert not said, said


def test_the_tests_of_alerts_can_fail(groups: list[Document], tools: dict[str, Path], tmp_path: Path) -> None:
    """A tool that says yes to everything would prove nothing."""
    case = next(case for case in CASES if case.fires is not None)
    test = asked(case, alerts(groups)[case.alert])
    test["alert_rule_test"][0]["exp_alerts"] = []
    assert "FAILED" in promtool(tools, tmp_path, groups, [test])


def test_each_reason_to_refuse_is_in_an_alert(groups: list[Document], tools: dict[str, Path], tmp_path: Path) -> None:
    """Whoever floods the webhook is seen, whatever the reason is called."""
    known = alerts(groups)
    overload = dict.fromkeys(("overload", "too-many-connections", "no-file"), "RestowWebhookOverloaded")
    cases = []
    for why in METRICS["restow_webhook_refused_total"].starts:
        name = overload.get(why, "RestowWebhookDefect" if why == "defect" else "RestowRequestsRefused")
        cases.append(Case(name, why, refused(why, "0+60x60"), 30, {"why": why} if "Requests" in name else {}))
    assert not (said := promtool(tools, tmp_path, groups, [asked(case, known[case.alert]) for case in cases])), said


def test_an_alert_says_what_it_is_and_where_to_read_on(
    groups: list[Document], tools: dict[str, Path], tmp_path: Path
) -> None:
    """At three in the morning nobody searches for the page; and a template that is none is shown as it stands."""
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": groups}))
    command = [tools["promtool"], "check", "rules", "--lint=all", "--lint-fatal", "rules.yaml"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    sections = re.findall(r"^### (\w+)$", (ROOT / "docs" / "alerts.md").read_text(), re.MULTILINE)
    assert sorted(sections) == sorted(alerts(groups))
    for name, rule in alerts(groups).items():
        assert rule["labels"]["severity"] in ("critical", "warning", "info")
        assert rule["annotations"]["summary"] and rule["annotations"]["description"].endswith(".")
        assert rule["annotations"]["runbook_url"] == f"docs/alerts.md#{name.lower()}"


def test_without_a_service_monitor_no_job_is_missed(helm: Helm) -> None:
    """Whoever scrapes otherwise names the job otherwise: an alert on its absence would never end."""
    flags = ("--set", "operator.enabled=true", "--set", "monitoring.prometheusRule.enabled=true")
    rules = alerts(the(helm.render(*flags), "PrometheusRule")["spec"]["groups"])
    assert "absent" not in rules["RestowWebhookDown"]["expr"]


@pytest.mark.parametrize("values", [None, *sorted((ROOT / "deploy" / "values").glob("*.yaml"))], ids=str)
def test_monitoring_is_off_until_asked_for(values: Path | None, helm: Helm) -> None:
    """On a cluster without the Prometheus operator, the documentation's own command would fail."""
    flags = ("--set", "operator.enabled=true") if values is None else ("--values", values)
    documents = helm.render(*flags)
    assert not of_kind(documents, "PrometheusRule", "ServiceMonitor", "PodMonitor")
    assert not [each for each in documents if "grafana_dashboard" in each["metadata"].get("labels", {})]


def exported() -> set[str]:
    """The names of all that serve and operator show, with or without a number yet."""
    text = (
        exposition(Snapshot()) + OperatorMetrics(ClockCheck(MemoryCluster())).text() + CertificateMetrics().text()
    ).decode()
    assert {name.removesuffix("_total") for name in METRICS} <= {
        name.removesuffix("_total") for name in re.findall(r"^# HELP (\S+)", text, re.MULTILINE)
    }
    return set(re.findall(r"^# HELP (\S+)", text, re.MULTILINE))


def dashboards(documents: list[Document]) -> dict[str, Document]:
    """The dashboards by file."""
    (found,) = (each for each in documents if "grafana_dashboard" in each["metadata"].get("labels", {}))
    assert found["kind"] == "ConfigMap"
    return {name: json.loads(text) for name, text in found["data"].items()}


def queries(documents: list[Document]) -> list[str]:
    """What the panels of all dashboards ask."""
    return [
        target["expr"]
        for board in dashboards(documents).values()
        for panel in board["panels"]
        for target in panel.get("targets", ())
    ]


def test_alerts_and_dashboards_look_at_metrics_that_there_are(groups: list[Document], rendered: list[Document]) -> None:
    """An alert on a name that nobody exports is silent for ever, and a panel on it is empty."""
    expressions = [rule["expr"] for rule in alerts(groups).values()] + queries(rendered)
    named = {name for each in expressions for name in re.findall(r"\b((?:restow|process|python)_\w+)", each)}
    named = {re.sub(r"_(bucket|count|sum)$", "", name) for name in named}
    assert named <= exported(), named - exported()
    assert len(named) > 20


def test_dashboards_can_be_loaded(rendered: list[Document], tools: dict[str, Path], tmp_path: Path) -> None:
    """Grafana shows a broken query as an empty panel, and of two dashboards of one uid the later one only."""
    boards = dashboards(rendered)
    assert boards.keys() == {file.name for file in (CHART / "files" / "dashboards").glob("*.json")}
    assert len({board["uid"] for board in boards.values()}) == len(boards) == 2
    for board in boards.values():
        assert len({panel["id"] for panel in board["panels"]}) == len(board["panels"])
    asked_for = (re.sub(r"\$__(rate_interval|range)", "5m", each) for each in queries(rendered))
    rules = [{"record": f"r:{number}", "expr": query} for number, query in enumerate(asked_for)]
    (tmp_path / "rules.yaml").write_text(yaml.safe_dump({"groups": [{"name": "g", "rules": rules}]}))
    command = [tools["promtool"], "check", "rules", "rules.yaml"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
