"""The flags of several clusters: which clusters they mean, what each process is called with, and how the run ends."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from restow.cli.exits import Exit
from restow.cli.fleet import exit_code, own_words
from tests.restow.commandline import Ran, restow

AWAY = {"RESTOW_PATIENCE": "0"}


def kubeconfig(folder: Path, name: str, **servers: str) -> Path:
    """A kubeconfig with a context for each server; the first one is current."""
    file = folder / name
    file.write_text(
        yaml.safe_dump(
            {
                "current-context": next(iter(servers), ""),
                "contexts": [{"name": each, "context": {"cluster": each, "user": "u"}} for each in servers],
                "clusters": [{"name": each, "cluster": {"server": url}} for each, url in servers.items()],
                "users": [{"name": "u", "user": {}}],
            }
        )
    )
    return file


@pytest.fixture
def three(tmp_path: Path) -> Path:
    """Three contexts, two of the same API server; nothing answers at port 9."""
    return kubeconfig(
        tmp_path, "three", a="http://127.0.0.1:9", b="http://127.0.0.1:9/", c="http://localhost:9", d="http://[::1]:9"
    )


def clusters(ran: Ran) -> dict[str, int | None]:
    """Each cluster's exit code, in the order of the table."""
    return {each["name"]: each["exitCode"] for each in json.loads(ran.out)["clusters"]}


@pytest.mark.parametrize(
    ("codes", "code"),
    [
        ([0, 0], Exit.DONE),
        ([0, 3], Exit.DUE),
        ([3, 4], Exit.OUT_OF_REACH),
        ([4, 2], Exit.REFUSED),
        ([2, 1, 4, 0], Exit.FAILURES),
        ([4, None], Exit.OUT_OF_REACH),
        ([0, None], Exit.FAILURES),
        ([None], Exit.FAILURES),
        ([4, -15], Exit.FAILURES),
    ],
)
def test_the_most_severe_exit_code_is_that_of_the_fleet(codes: list[int | None], code: Exit) -> None:
    """A Job retries 1 and 4, and gives up after 2 and 3: a failure must not be hidden by a cluster that is well."""
    assert exit_code(codes) is code


@pytest.mark.parametrize(
    ("words", "left"),
    [
        ("plan --contexts a,b -o json w", "plan w"),
        ("plan --contexts=a --parallel 2 --output=yaml w -A", "plan w -A"),
        ("migrate --keep-going --all-contexts -oyaml w --only prune", "migrate w --only prune"),
        ("status --kubeconfig-dir d -- --contexts", "status -- --contexts"),
        ("plan --kubeconfig f --request-timeout 1s", "plan --kubeconfig f --request-timeout 1s"),
    ],
)
def test_a_process_gets_the_flags_of_its_command_only(words: str, left: str) -> None:
    """A fleet flag that is passed on starts a fleet in each process; one cut too many changes its work."""
    assert own_words(words.split()) == left.split()


def test_a_cluster_that_is_away_has_a_row_and_its_reason(three: Path) -> None:
    """One API server that does not answer must not hide the others, nor the exit code that a Job retries."""
    ran = restow("status", "--contexts", "c,a", kubeconfig=three, environment=AWAY)
    assert ran.code == Exit.OUT_OF_REACH, ran.err
    assert [row[:2] for row in ran.rows] == [["CLUSTER", "RESULT"], ["c", "out of reach"], ["a", "out of reach"]]
    assert "c: restow: " in ran.err and "a: restow: " in ran.err


def test_an_api_server_with_two_contexts_is_one_cluster(three: Path) -> None:
    """Two migrations of one cluster at the same time disturb each other."""
    ran = restow("status", "--all-contexts", "-o", "json", kubeconfig=three, environment=AWAY)
    assert list(clusters(ran)) == ["a", "c", "d"]
    assert "left out: b names the same API server as a" in ran.err


def test_a_migration_ends_at_the_first_failure(three: Path) -> None:
    """The canary is for finding a failure in one cluster, before it is one of all."""
    flags = ("migrate", "widgets.example.com", "--patience", "0", "--contexts", "a,c,d", "-o", "json")
    ran = restow(*flags, kubeconfig=three, environment=AWAY)
    assert clusters(ran) == {"a": 4, "c": None, "d": None}
    assert ran.code == 4
    assert ran.err.splitlines()[-1] == "not started: c, d. Run again: what is done is skipped"
    ran = restow(*flags, "--keep-going", kubeconfig=three, environment=AWAY)
    assert clusters(ran) == {"a": 4, "c": 4, "d": 4}


def test_a_folder_has_one_cluster_in_each_file(tmp_path: Path) -> None:
    """Secrets are mounted so, with hidden entries; a file that is no kubeconfig is refused alone."""
    kubeconfig(tmp_path, "one", x="http://127.0.0.1:9", y="http://localhost:9")
    kubeconfig(tmp_path, "two", x="http://[::1]:9")
    (tmp_path / "broken").write_text("- no kubeconfig")
    (tmp_path / "..data").mkdir()
    (tmp_path / ".hidden").write_text("")
    ran = restow("plan", "--kubeconfig-dir", tmp_path, "-o", "json", environment=AWAY)
    assert clusters(ran) == {"broken": 2, "one": 4, "two": 4}
    assert ran.code == 2


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        ("plan --contexts a --all-contexts", "each select the clusters: give one"),
        ("plan --contexts a --context b", "--context is for one cluster"),
        ("plan --contexts a --cluster b", "--cluster is for one cluster"),
        ("migrate w.example.com --contexts a --report r.json", "--report is for one cluster"),
        ("migrate -f - --contexts a", "-f - is for one cluster"),
        ("ready w.example.com --drop v1 --contexts a --api-server https://h", "--api-server is for one cluster"),
        ("plan --contexts nowhere", "'nowhere' is not a context of kubeconfig"),
        ("plan --contexts ,", "there is no cluster to work with"),
    ],
)
def test_what_has_no_meaning_for_several_clusters_is_refused(flags: str, said: str, three: Path) -> None:
    """A file that each cluster overwrites, or an address in one of them, would be found out too late."""
    ran = restow(*flags.split(), kubeconfig=three, environment=AWAY)
    assert ran.code == 2
    assert said in " ".join(ran.err.split())
