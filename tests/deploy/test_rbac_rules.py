"""``restow rbac`` itself: how rights are gathered into rules, and what the command refuses to guess."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from restow.commands.rbac import command
from restow.conversion.certificates import Url
from restow.conversion.certificates.wiring.documents import stash_name
from restow.kube.resources import ENDPOINT_SLICES
from restow.migrator import Engine
from restow.rbac import FAMILY, Asked, Command, Grant, ServiceAccount, grants, manifests, plain, to_yaml
from tests.deploy.rendering import rights

CRD = "widgets.example.com"
_asked = st.builds(
    Asked,
    crds=st.lists(st.sampled_from([CRD, "gadgets.example.com", "parts.other.dev"]), unique=True).map(tuple),
    namespaces=st.lists(st.sampled_from(["a", "b"]), unique=True).map(tuple),
    home=st.sampled_from(["a", "home"]),
    everything=st.booleans(),
    prunes=st.booleans(),
    shards=st.booleans(),
    proxied=st.sampled_from([(), (("a", "hook", 443),)]),
    own_ca=st.sampled_from([None, ("home", "hook")]),
    installs_crds=st.booleans(),
    controls=st.booleans(),
    maintains=st.booleans(),
    keeps=st.sampled_from([(), (CRD,)]),
    dependents=st.booleans(),
    moves=st.booleans(),
    written=st.sampled_from([(), ("secrets", "deployments.apps")]),
    least=st.booleans(),
)
_commands = st.lists(st.sampled_from(Command), min_size=1, unique=True)


@given(commands=_commands, asked=_asked)
def test_rules_grant_what_is_needed_and_nothing_else(commands: list[Command], asked: Asked) -> None:
    """Gathering into rules must neither lose a right, nor give one by crossing verbs with names."""
    needed = grants(commands, asked)
    granted = [Grant(group, resource, verb, "", name, at) for group, resource, verb, name, at in rights(_roles(needed))]
    for each in needed:
        assert any(right.covers(each) for right in granted), each
    for right in granted:
        assert any(each.key == right.key for each in needed), right
    assert len({right.key for right in granted}) == len(granted)


def _roles(needed: tuple[Grant, ...]) -> list[dict[str, object]]:
    return plain(manifests(needed, "r"))


@given(commands=_commands, asked=_asked)
def test_the_yaml_is_the_manifests_with_reasons(commands: list[Command], asked: Asked) -> None:
    """What is piped into kubectl has to be what was tested; each rule has its reason above it."""
    documents = manifests(grants(commands, asked), "r", ServiceAccount("home", "me"))
    text = to_yaml(documents)
    assert list(yaml.safe_load_all(text)) == plain(documents)
    lines = text.splitlines()
    for before, line in pairwise(lines):
        assert not line.startswith(("  - apiGroups", "  - nonResourceURLs")) or before.startswith("  # ")


def test_wildcards_are_not_granted_unless_asked_for() -> None:
    """Least privilege: groups, resources and verbs are always named."""
    asked = Asked(crds=(CRD,), everything=True, shards=True, own_ca=("a", "b"), installs_crds=True, maintains=True)
    for right in grants(list(Command), asked):
        assert "*" not in (right.group, right.resource, right.verb)
        assert right.why
        assert right.verb not in ("escalate", "bind", "impersonate", "deletecollection")
        # Nothing is deleted but by its name, except for what replicas made in their own namespace under other names.
        made = (right.resource, right.optional != "") in (("leases", True), ("configmaps", False))
        assert right.verb != "delete" or right.name or (right.namespace and made)


def test_dependents_are_looked_for_by_one_optional_right() -> None:
    """It lets its holder read every Secret: only by a flag, only for commands that look, and never needed."""
    asked = Asked(crds=(CRD,), dependents=True, keeps=(CRD,))
    looks = {Command.READY, Command.REFERENCES, Command.PLAN, Command.REPORT, Command.EMBEDDING, Command.OPERATOR}
    found = {
        each: [one for one in grants([each], asked) if "*" in (one.group, one.resource, one.verb)] for each in Command
    }
    assert {each for each, wide in found.items() if wide} == looks
    assert all(one.optional for wide in found.values() for one in wide)
    (wide,) = found[Command.READY]
    assert (wide.group, wide.resource, wide.verb) == ("*", "*", "list")
    assert wide.optional
    assert wide not in grants([Command.READY], Asked(crds=(CRD,), dependents=True, least=True))
    ran = CliRunner().invoke(command, [CRD, "--for", "ready", "--dependents", "-o", "json"])
    assert rights(yaml.safe_load(ran.stdout)["items"]) == rights(_roles(grants([Command.READY], asked)))


def test_a_move_writes_where_it_is_asked_to() -> None:
    """The right to patch every object of a cluster is granted by its flag alone, and can be narrowed."""
    wide = grants([Command.REFERENCES], Asked(crds=(CRD,), moves=True))
    assert {each.verb for each in wide if each.resource == "*"} == {"list", "get", "patch"}
    asked = Asked(crds=(CRD,), moves=True, written=("configmaps", "deployments.apps"), namespaces=("a",))
    narrow = [each for each in grants([Command.REFERENCES], asked) if each.verb not in ("get", "list")]
    assert {(each.group, each.resource, each.verb, each.namespace) for each in narrow} == {
        ("", "configmaps", "patch", "a"),
        ("apps", "deployments", "patch", "a"),
    }
    move = (CRD, "--for", "references --version v1 --move v2")
    said = printed(*move, "--resource", "a/configmaps", "--resource", "a/deployments.apps")
    assert rights(said) == rights(_roles(grants([Command.REFERENCES], asked)))


@pytest.mark.parametrize("command", Command)
def test_api_servers_are_looked_at_by_an_optional_right(command: Command) -> None:
    """Who relies on the look at lag needs it, nothing else does, and nothing fails without it."""
    looks = {Command.MIGRATE, Command.READY, Command.OPERATOR, Command.EMBEDDING}

    def found(*, least: bool) -> list[Grant]:
        asked = Asked(crds=(CRD,), keeps=(CRD,), home="home", least=least)
        return [each for each in grants([command], asked) if each.resource == ENDPOINT_SLICES.plural]

    keys = {(each.group, each.verb, each.name, each.namespace) for each in found(least=False)}
    assert keys == ({(ENDPOINT_SLICES.group, "list", "", "default")} if command in looks else set())
    assert found(least=True) == []


def test_an_operator_that_migrates_nothing_looks_at_no_api_server() -> None:
    """A right in a namespace that is not the operator's needs a reason."""
    assert all(each.resource != ENDPOINT_SLICES.plural for each in grants([Command.OPERATOR], Asked(home="home")))


def test_secrets_are_named() -> None:
    """Whoever may read all Secrets of a namespace is its administrator."""
    found = [each for each in grants([Command.OPERATOR], Asked(own_ca=("a", "hook"))) if each.resource == "secrets"]
    assert {(each.verb, each.name, each.namespace) for each in found} == {
        ("get", "hook", "a"),
        ("update", "hook", "a"),
        ("get", "hook-ca", "a"),
        ("update", "hook-ca", "a"),
        ("create", "", "a"),
    }


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--for", "migrate"), "name the CRDs"),
        (("--for", "migrate --all"), "name the CRDs"),
        (("widgets", "--for", "migrate"), "<plural>.<group>"),
        (("--for", "serve"), "serve needs no right"),
        (("--for", "serve --own-ca a/b"), "name the CRDs"),
        ((CRD, "--for", "serve --own-ca b"), "--own-ca takes NAMESPACE/SERVICE"),
        ((CRD, "--for", "serve --own-ca https:/a"), "--own-ca takes NAMESPACE/SERVICE"),
        ((CRD, "--for", "serve --own-ca http://a"), "must begin with https://"),
        ((CRD, "--for", "migrate", "--proxied", "https://a"), "--proxied takes NAMESPACE/SERVICE"),
        ((CRD, "--for", "references", "--resource", "secrets"), 'give --for "references --move VERSION"'),
        ((CRD, "--for", "migrate --no-prun"), "No such option '--no-prun'"),
        ((CRD, "--for", "migrate --engine fast"), "'fast' is not one of"),
        ((CRD, "--for", "migrate --engine"), "'--engine' requires an argument"),
        ((CRD, "--for", "embedding extra"), "unexpected 'extra'"),
        ((CRD, "--for", "conversions"), "--for takes a command with its flags, one of status"),
        ((CRD, "--for", "convert"), "--for takes a command with its flags, one of status"),
        ((CRD, "--for", "migrate 'a"), "--for takes a command with its flags, one of status"),
        ((CRD, "--for", ""), "--for takes a command with its flags, one of status"),
        ((CRD, "--for", "embedding"), "give --service-account"),
        (("--for", "embedding", "--service-account", "a/b"), "name the CRDs"),
        (("--for", "operator"), "give --service-account"),
        (("--for", "operator --migrate all", "--service-account", "a/b"), "name the CRDs"),
        ((CRD, "--for", "migrate --shards 2"), "give --service-account"),
        ((CRD, "--for", "migrate", "--service-account", "b"), "--service-account takes NAMESPACE/NAME"),
        ((), "--for"),
    ],
)
def test_what_is_not_said_is_not_guessed(arguments: tuple[str, ...], said: str) -> None:
    """A Role for less than is meant fails at night."""
    ran = CliRunner().invoke(command, arguments)
    assert ran.exit_code == 2
    assert said in ran.output


def definition(name: str) -> dict[str, Any]:
    """The CRD of this name, with one version."""
    plural, _, group = name.partition(".")
    version = {"name": "v1", "served": True, "storage": True, "schema": {"openAPIV3Schema": {"type": "object"}}}
    names = {"kind": plural.title(), "plural": plural}
    return {
        "apiVersion": "apiextensions.k8s.io/v1",
        "kind": "CustomResourceDefinition",
        "metadata": {"name": name},
        "spec": {"group": group, "scope": "Namespaced", "names": names, "versions": [version]},
    }


def test_manifests_name_their_crds(tmp_path: Path) -> None:
    """A file of CRDs in the place of their names."""
    file = tmp_path / "crds.yaml"
    file.write_text(yaml.safe_dump_all(definition(name) for name in (CRD, "a.b.dev")))
    ran = CliRunner().invoke(command, [str(file), "--for", "ready", "-o", "json"])
    assert ran.exit_code == 0, ran.output
    found = yaml.safe_load(ran.stdout)["items"]
    assert rights(found) == rights(plain(manifests(grants([Command.READY], Asked(crds=(CRD, "a.b.dev"))), "r")))


def printed(*arguments: str) -> list[dict[str, Any]]:
    """The manifests that the command prints."""
    ran = CliRunner().invoke(command, [*arguments, "-o", "json"])
    assert ran.exit_code == 0, ran.output
    return list(yaml.safe_load(ran.stdout)["items"])


def test_a_webhook_at_a_url_has_its_secrets_next_to_the_process() -> None:
    """``serve --own-ca https://…`` keeps them in its own namespace; any other would leave it without its rights."""
    asked = (CRD, "--for", "serve --own-ca https://127.0.0.1:9443/ --restore-stashes")
    for account, home in ((("--service-account", "edge/hook"), "edge"), ((), "default")):
        found = rights(printed(*asked, *account))
        secrets = {(name, at) for _, resource, _, name, at in found if resource == "secrets"}
        assert secrets == {("restow-webhook", home), ("restow-webhook-ca", home), ("", home)}
        configurations = {name for _, resource, _, name, _ in found if resource.endswith("webhookconfigurations")}
        assert configurations == {stash_name(Url("https://127.0.0.1:9443"))}


@pytest.mark.parametrize(
    ("text", "expected", "asked"),
    [
        ("migrate", Command.MIGRATE, {}),
        ("migrate --no-prune", Command.MIGRATE, {"prunes": False}),
        ("migrate --dry-run", Command.MIGRATE, {"prunes": False}),
        ("migrate --skip-phase prune", Command.MIGRATE, {"prunes": False}),
        ("migrate --only storage", Command.MIGRATE, {"prunes": False}),
        ("migrate --only prune", Command.MIGRATE, {}),
        ("migrate -l a=b", Command.MIGRATE, {"prunes": False}),
        ("migrate -n a", Command.MIGRATE, {"namespaces": ("a",)}),
        ("migrate --engine native", Command.MIGRATE, {"engine": Engine.NATIVE}),
        ("migrate --shard 0/2", Command.MIGRATE, {"shards": True}),
        ("plan --references", Command.PLAN, {"dependents": True}),
        ("report --profiles", Command.REPORT, {"profiles": True}),
        ("status --all", Command.STATUS, {"everything": True}),
        ("references --version v1 --undo", Command.REFERENCES, {"moves": True}),
        ("unwire --server a/b", Command.UNWIRE, {"own_ca": ("a", "b")}),
        ("operator --no-controllers --migrate family", Command.OPERATOR, {"controls": False, "keeps": FAMILY}),
        ("operator --maintain-shoots", Command.OPERATOR, {"maintains": True}),
        ("operator --conversions --install-crds", Command.CONVERSIONS, {"installs_crds": True}),
        ("embedding --lease mine", Command.EMBEDDING, {"lease": "mine"}),
    ],
)
def test_a_command_is_read_by_its_own_parser(text: str, expected: Command, asked: dict[str, Any]) -> None:
    """A second list of flags would part from the first one, and a Role from what its command does."""
    said = printed(CRD, "--for", text, "--service-account", "home/me")
    account = ServiceAccount("home", "me")
    needed = grants([expected], Asked(crds=(CRD,), home="home", **asked))
    assert said == plain(manifests(needed, f"restow-{expected}-{CRD}", account))


def test_roles_are_named_after_their_crds() -> None:
    """The second team's apply would take the first one's rights away."""
    names = [
        {each["metadata"]["name"] for each in printed(*crds, "--for", "migrate")}
        for crds in ((CRD,), ("gadgets.example.com",), (CRD, "gadgets.example.com"), (CRD, "parts.other.dev"))
    ]
    assert names[0] == {f"restow-migrate-{CRD}"}
    assert len(set().union(*names)) == len(names)
    assert names[2] == {
        each["metadata"]["name"]
        for each in printed(CRD, "gadgets.example.com", "--for", "migrate --shards 2", "--service-account=a/b")
        if each["kind"] != "ServiceAccount"
    }
