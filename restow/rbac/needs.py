"""The requests of each command to an API server, and the rights that they need. Pure.

The table was found by running every command with exactly these rights, and without each one of them. The API server's
audit log shows that each right is used.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

from restow.cloudprofile.objects import CLOUD_PROFILES, NAMESPACED_CLOUD_PROFILES, SHOOTS
from restow.conversion.certificates.wiring.clientconfig import Service, Url
from restow.conversion.certificates.wiring.crd import COMPOSITES
from restow.conversion.certificates.wiring.documents import refusal_name, stash_name
from restow.conversion.operate.revisions import CONFIGURATION as RULES_CONFIGURATION
from restow.crds import conversionrules
from restow.crds.aggregation import API_SERVICES
from restow.crds.conversionrules import CONVERSION_RULES
from restow.kube.resources import (
    CONFIG_MAPS,
    CRDS,
    ENDPOINT_SLICES,
    EVENTS,
    LEASES,
    NAMESPACES,
    SECRETS,
    SUBJECT_ACCESS_REVIEWS,
    Resource,
)
from restow.migrator import Engine
from restow.migrator.requests.native import NATIVE_MIGRATIONS
from restow.rbac.asked import Asked, Command, Target
from restow.rbac.roles import Grant

LEASE: Final = "restow-operator"
CONFIGURATION: Final = "restow-cloudprofile"
_FAMILY: Final = (CLOUD_PROFILES, NAMESPACED_CLOUD_PROFILES, SHOOTS)
FAMILY: Final = tuple(each.full_name for each in _FAMILY)
"""The CRDs of the CloudProfile family, which the operator serves."""
_ADMISSION: Final = "admissionregistration.k8s.io"
_RUNS: Final = "migrator: report runs as Events on the CRD"
_LOGGED: Final = "only the log reports it"
_ELSEWHERE: Final = "see whether another API server serves the group of the CRDs: they would hide its objects"
_CONFIGURATIONS: Final = ("mutatingwebhookconfigurations", "validatingwebhookconfigurations")
_IN_MEMORY: Final = "ready cannot say yes, and the next process looks at all objects"
_AT_ONCE: Final = "wire it again at once when another client removes the CA bundle or the address"
_LATER: Final = "it takes up to 30 s until that is noticed, and no other version can be read meanwhile"


def grants(commands: Iterable[Command], asked: Asked) -> tuple[Grant, ...]:
    """Return the rights that these commands need, each right once for each reason.

    Raises:
        ValueError: the name of a CRD is not ``<plural>.<group>``.
    """
    found = (grant for command in commands for grant in _NEEDS[command](asked))
    return tuple(dict.fromkeys(grant for grant in found if not (asked.least and grant.optional)))


def _status(asked: Asked) -> Iterator[Grant]:
    yield from _reads_crds(asked)
    yield from _shows_rules()


def _plan(asked: Asked) -> Iterator[Grant]:
    yield from _reads_crds(asked)
    for target in asked.targets:
        yield from _on_objects(asked, target, "list", why="count the objects that are due")
        why, without = "try the writes of a sample with dryRun=All; nothing is stored", "nothing is tried"
        for verb in ("get", "patch"):
            yield from _on_objects(asked, target, verb, why=why, optional=without)
    yield from _checks_namespaces(asked)
    yield from _looks_everywhere(asked)
    yield from _asks_webhooks(asked)


def _looks_everywhere(asked: Asked) -> Iterator[Grant]:
    if asked.dependents:
        yield Grant("*", "*", "list", _NAMES_IT, optional="it names the resources that it has not looked at")


def _ready(asked: Asked) -> Iterator[Grant]:
    yield from _reads_crds(asked)
    for target in asked.targets:
        yield from _on_objects(asked, target, "list", why="find objects that still have entries of the version")
    yield from _looks_at_servers()
    yield from _looks_everywhere(asked)
    yield from _asks_webhooks(asked)


def _references(asked: Asked) -> Iterator[Grant]:
    yield from _reads_crds(asked)
    why, without = "find who writes the version, from managedFields", "it says so, and exits with 1"
    for target in asked.targets:
        yield Grant(target.group, target.plural, "list", why, optional=without)
    why, without = (
        "find the fields in which objects can name a version, by the schemas of all CRDs",
        "all are read whole",
    )
    yield Grant(CRDS.group, CRDS.plural, "list", why, optional=without)
    if asked.moves:
        yield from _moves_references(asked)
    elif asked.dependents:
        without = "it names the resources that it has not looked at, and exits with 1"
        yield Grant("*", "*", "list", _NAMES_IT, optional=without)
    why, without = "count requests at the version, from the API server's metrics", "it says so, and exits with 1"
    yield Grant("", "/metrics", "get", why, optional=without)


def _moves_references(asked: Asked) -> Iterator[Grant]:
    yield Grant("*", "*", "list", _NAMES_IT)
    why = "--move: compare the uid in an ownerReference with that of the owner"
    for target in asked.targets:
        yield Grant(target.group, target.plural, "get", why)
    narrow = "" if asked.written else ". Name the resources (--resource) to narrow this"
    for name in asked.written or ("*.*",):
        plural, _, group = name.partition(".")
        for place in asked.places:
            why = f"--move: write references at the other version{narrow}"
            yield Grant(group, plural, "patch", why, namespace=place)
            yield Grant(group, plural, "get", "--move: read what another client wrote meanwhile", namespace=place)
            if "." in group:  # no built-in resource has references in its status
                why, without = "--move: write references in the status", "those in the status fail"
                yield Grant(group, f"{plural}/status", "patch", why, namespace=place, optional=without)
    if not asked.written or SECRETS.plural in asked.written:
        for place in asked.places:
            why = "--move: keep what a Helm release was before in a Secret; --undo: take it back"
            for verb in ("create", "get", "delete"):
                yield Grant("", SECRETS.plural, verb, why, namespace=place)
    yield from _asks_webhooks(asked)


def _migrate(asked: Asked) -> Iterator[Grant]:
    yield from _reads_crds(asked)
    for target in asked.targets:
        why = "list the objects, read those that changed meanwhile, and write each at the storage version"
        for verb in ("list", "get", "patch"):
            yield from _on_objects(asked, target, verb, why=why)
    yield from _looks_at_servers()
    if asked.prunes and not asked.namespaces:
        yield from _prunes(asked)
    if asked.shards:
        yield from _keeps_records(asked)
    yield from _ENGINES[asked.engine]()
    yield from _checks_namespaces(asked)
    yield from _asks_webhooks(asked)


def _report(asked: Asked) -> Iterator[Grant]:
    yield from _reads_crds(asked)
    for target in asked.targets:
        yield from _on_objects(asked, target, "list", why="count objects and owners of fields")
    if asked.targets or asked.everything:
        yield from _shows_rules()
    yield from _looks_everywhere(asked)
    if asked.profiles:
        for resource in (CLOUD_PROFILES, NAMESPACED_CLOUD_PROFILES):
            yield _on(resource, "list", "draw the lifecycles of profiles")


def _shows_rules() -> Iterator[Grant]:
    yield _on(CONVERSION_RULES, "list", "show how far ConversionRules are", optional="none are shown")


def _doctor(asked: Asked) -> Iterator[Grant]:
    why = "read the objects at each version, as their clients do"
    yield from _reads_crds(asked)
    for target in asked.targets:
        for verb in ("list", "get"):
            yield from _on_objects(asked, target, verb, why=why)
        without = "it does not see whether a migration can leave its mark"
        yield _on_crd(target.name, "patch", "try to leave restow's mark, as a dry run", optional=without)
    if not asked.targets:  # only the namespace's conditions name the CRDs
        yield _on(NAMESPACES, "get", "--namespace: read what the namespace waits for")
        yield Grant(CRDS.group, CRDS.plural, "list", "--namespace: find the CRDs of what it waits for")
        yield Grant(CRDS.group, CRDS.plural, "get", "read these CRDs")
        for verb in ("list", "get"):
            yield Grant("*", "*", verb, why, optional="it names the versions that it has not looked at")
    without = "namespaces that wait for objects to be deleted are not found"
    yield _on(NAMESPACES, "list", "find namespaces that are being deleted", optional=without)


def _unwire(asked: Asked) -> Iterator[Grant]:
    for target in asked.targets:
        for verb in ("get", "patch"):
            yield _on_crd(target.name, verb, "set the conversion strategy None")
        for verb in ("list", "get"):
            yield from _on_objects(asked, target, verb, why="prove that no object needs the webhook")
    without = "it does not notice that they would wire the CRD again"
    yield _on(CONVERSION_RULES, "list", "see whether ConversionRules keep the CRD wired", optional=without)
    if asked.own_ca is None:
        return
    namespace, secret = asked.own_ca
    yield Grant(CRDS.group, CRDS.plural, "list", "find the CRDs that call the server")
    without = "only the CRDs that Crossplane makes of them are looked at"
    yield _on(COMPOSITES, "list", "find Crossplane's definitions that call the server", optional=without)
    for plural in _CONFIGURATIONS:
        yield Grant(_ADMISSION, plural, "list", "find the webhook configurations of the server")
    address = Url(asked.url) if asked.url else Service(namespace, secret)
    why = "remove the server's webhook configuration"
    yield Grant(_ADMISSION, _CONFIGURATIONS[0], "delete", why, stash_name(address))
    yield Grant(_ADMISSION, _CONFIGURATIONS[1], "delete", why, refusal_name(address))
    for plural in _CONFIGURATIONS if {*FAMILY} <= {*asked.crds} else ():
        yield Grant(_ADMISSION, plural, "delete", why, CONFIGURATION)
    for name in (secret, f"{secret}-ca"):
        for verb in ("get", "delete"):
            yield _in(namespace, SECRETS, verb, "remove the server's certificate and its CA", name)
    for verb in ("list", "delete"):
        yield _in(namespace, LEASES, verb, "remove the Leases of processes that have ended", optional="they stay")


def _serve(asked: Asked) -> Iterator[Grant]:
    if asked.own_ca is not None:
        yield from _keeps_certificates(*asked.own_ca)
        for target in asked.targets:
            yield from _wires(target.name)
        why = "report values that a rule cannot convert, and keeps (on_error)"
        yield _on(EVENTS, "create", why, optional=_LOGGED)
        address = Url(asked.url) if asked.url else Service(*asked.own_ca)
        if asked.refuses_unconvertible:
            yield from _keeps_configuration(_CONFIGURATIONS[1], refusal_name(address))
        if asked.restores_stashes:
            yield from _keeps_configuration(_CONFIGURATIONS[0], stash_name(address))


def _operator(asked: Asked) -> Iterator[Grant]:
    if asked.installs_crds or asked.own_ca is not None:
        yield _on(API_SERVICES, "list", _ELSEWHERE)
    if asked.installs_crds:
        for name in FAMILY:
            yield _on_crd(name, "patch", "apply the packaged CRDs")
            yield _on_crd(name, "get", "wait until they are served")
            yield _on_crd(name, "create", "apply the packaged CRDs")
    if asked.own_ca is not None:
        yield from _keeps_certificates(*asked.own_ca)
        for name in FAMILY:
            yield from _wires(name)
        for plural in _CONFIGURATIONS:
            yield from _keeps_configuration(plural, CONFIGURATION)
    yield from _admits()
    if asked.controls:
        yield from _elects(asked, LEASE, "controllers")
        yield from _controls(asked)
    if asked.keeps:
        yield from _elects(asked, f"{LEASE}-migrator", "migrator")
        yield from _keeps_migrated(asked, asked.keeps)
        yield from _looks_everywhere(asked)
        yield _on(EVENTS, "create", _RUNS, optional=_LOGGED)


def _conversions(asked: Asked) -> Iterator[Grant]:
    if asked.installs_crds:
        yield _on(API_SERVICES, "list", _ELSEWHERE)
        for verb in ("patch", "get", "create"):
            yield _on_crd(conversionrules.NAME, verb, "apply the CRD of ConversionRules, and wait until it is served")
    if asked.own_ca is not None:
        yield from _keeps_certificates(*asked.own_ca)
    # The list and watch of the other step, below, include this configuration.
    yield from _keeps_configuration(_CONFIGURATIONS[1], RULES_CONFIGURATION, watches=not asked.refuses_unconvertible)
    if asked.restores_stashes:
        yield from _keeps_step(asked, _CONFIGURATIONS[0], "conversion-stash", "restores stashes")
    if asked.refuses_unconvertible:
        yield from _keeps_step(asked, _CONFIGURATIONS[1], "refuse-unconvertible", "refuses what no rule converts")
    yield from _elects(asked, f"{LEASE}-conversions", "gates")
    for verb in ("list", "watch", "get", "patch"):
        yield _on(CONVERSION_RULES, verb, "follow the rules; keep their finalizer")
    yield _on(CONVERSION_RULES, "patch", "say in the status how far they are", subresource="status")
    for verb in ("list", "watch"):
        yield Grant(CRDS.group, CRDS.plural, verb, "find the CRD of a kind, and notice changes of its schemas")
    for name in asked.crds or ("",):
        for verb in ("get", "patch"):
            yield _on_crd(name, verb, "check rules against the CRD; keep the webhook's address and CA bundle in it")
    if asked.crossplane:
        for name in asked.crds or ("",):
            for verb in ("get", "patch"):
                why = "keep the webhook's address and CA bundle in the definition from which Crossplane makes a CRD"
                yield Grant(COMPOSITES.group, COMPOSITES.plural, verb, why, name)
            for verb in ("list", "watch"):
                yield Grant(COMPOSITES.group, COMPOSITES.plural, verb, _AT_ONCE, name, optional=_LATER)
    why = "rehearse rules on every live object, and read them at every version; nothing is written"
    if asked.crds:
        for target in asked.targets:
            yield from _on_objects(asked, target, "list", why=why)
    else:
        yield Grant("*", "*", "list", f"{why}. Name the CRDs to narrow this")
    why = "admission: whether whoever writes rules may change their CRD"
    yield _on(SUBJECT_ACCESS_REVIEWS, "create", why)
    for verb in ("list", "watch", "get", "create", "patch", "delete"):
        why = "keep the last good rules, who declared them, and what replicas report of them"
        yield _in(asked.home, CONFIG_MAPS, verb, why)
    for verb in ("list", "create", "patch"):
        yield _in(asked.home, LEASES, verb, "know which replicas live: each renews a Lease of its own")
    without = "they stay, and the leader waits 15 s for a replica that has ended"
    yield _in(asked.home, LEASES, "delete", "remove the Leases of replicas that ended", optional=without)
    yield _on(
        EVENTS,
        "create",
        "report each gate that opens or closes, and values that a rule keeps (onError)",
        optional=_LOGGED,
    )


def _keeps_step(asked: Asked, plural: str, step: str, does: str) -> Iterator[Grant]:
    for name in [f"{step}.{name}" for name in asked.crds] or [""]:
        for verb in ("get", "patch", "create"):
            why = f"have API servers ask the step that {does}, by the current CA"
            yield Grant(_ADMISSION, plural, verb, why, name)
        yield Grant(_ADMISSION, plural, "delete", "remove that with the rules", name)
    for verb in ("list", "watch"):
        yield Grant(_ADMISSION, plural, verb, _AT_ONCE, optional=_LATER)


def _embedding(asked: Asked) -> Iterator[Grant]:
    yield from _elects(asked, asked.lease, "migrator")
    yield from _keeps_migrated(asked, asked.crds)
    yield from _looks_everywhere(asked)
    yield _in("default", EVENTS, "create", _RUNS, optional=_LOGGED)  # Events about cluster-scoped objects


def _admits() -> Iterator[Grant]:
    for resource in (CLOUD_PROFILES, NAMESPACED_CLOUD_PROFILES):
        yield _on(resource, "get", "admission: the profile that another one, or a Shoot, refers to")
    for resource in (NAMESPACED_CLOUD_PROFILES, SHOOTS):
        yield _on(resource, "list", "admission: who uses what is to go")
    why = "admission: whether the user holds a custom verb like modify-spec-kubernetes"
    yield _on(SUBJECT_ACCESS_REVIEWS, "create", why)


def _elects(asked: Asked, lease: str, who: str) -> Iterator[Grant]:
    for verb in ("get", "update"):
        yield _in(asked.home, LEASES, verb, f"elect the one replica that runs the {who}", lease)
    yield _in(asked.home, LEASES, "create", "make the lease; RBAC cannot restrict create by name")


def _controls(asked: Asked) -> Iterator[Grant]:
    for resource in _FAMILY:
        for verb in ("list", "watch"):
            yield _on(resource, verb, "controllers: follow profiles and who uses them")
    for resource in (CLOUD_PROFILES, NAMESPACED_CLOUD_PROFILES):
        yield _on(resource, "patch", "controllers: the finalizer; with --apply-management also the spec")
        yield _on(resource, "patch", "controllers: the status", subresource="status")
    if asked.maintains:
        yield _on(SHOOTS, "get", "maintenance: read the whole Shoot once it is due")
        yield _on(SHOOTS, "patch", "maintenance: apply update targets to Shoots")
        yield _on(SHOOTS, "patch", "maintenance: say so in their status", subresource="status")
    why = "controllers: tell of refused versions and of what was changed"
    yield _on(EVENTS, "create", why, optional=_LOGGED)


def _keeps_migrated(asked: Asked, crds: tuple[str, ...]) -> Iterator[Grant]:
    for verb in ("list", "watch"):
        yield Grant(CRDS.group, CRDS.plural, verb, "migrator: notice what is due on which CRD")
    migration = replace(asked, crds=crds, namespaces=(), shards=False, prunes=True, engine=Engine.DIRECT)
    for grant in _migrate(migration):
        marks = (grant.resource, grant.verb) == (CRDS.plural, "patch")
        yield replace(grant, why=f"migrator: {grant.why}", optional=_IN_MEMORY if marks else grant.optional)


def _reads_crds(asked: Asked) -> Iterator[Grant]:
    for target in asked.targets:
        yield _on_crd(target.name, "get", "read the CRD")
    if asked.everything:
        yield Grant(CRDS.group, CRDS.plural, "list", "find all CRDs (--all)")


def _looks_at_servers() -> Iterator[Grant]:
    why = "look at each API server for one that lags"
    without = "only what answers at the address of the kubeconfig is looked at"
    yield _in("default", ENDPOINT_SLICES, "list", why, optional=without)  # the namespace of the Service kubernetes


def _prunes(asked: Asked) -> Iterator[Grant]:
    for target in asked.targets:
        why = "set status.storedVersions once every object is done"
        yield Grant(CRDS.group, f"{CRDS.plural}/status", "patch", why, target.name)
        for verb in ("list", "watch"):
            why = "prove that a CRD which is edited in mid-run kept its storage version"
            yield _on_crd(target.name, verb, why, optional="such a run looks at all objects again")
        yield _on_crd(target.name, "patch", "leave the proof on the CRD that every object is done")


def _keeps_records(asked: Asked) -> Iterator[Grant]:
    for target in asked.targets:
        name = f"restow-shards.{target.name}"
        for verb in ("get", "update"):
            yield _in(asked.home, CONFIG_MAPS, verb, "shards: tell one another what is done", name)
    yield _in(asked.home, CONFIG_MAPS, "create", "shards: make that record; RBAC cannot restrict create by name")


def _leaves_storing_to_the_cluster() -> Iterator[Grant]:
    for verb in ("list", "create", "get"):
        yield _on(NATIVE_MIGRATIONS[0], verb, "engine native: make the cluster's own migration, and follow it")
    why, without = "engine native: take it away once it has served", "it stays, and restow reports that"
    yield _on(NATIVE_MIGRATIONS[0], "delete", why, optional=without)


def _waits_for_the_cluster() -> Iterator[Grant]:
    why, without = "engine auto: wait for the cluster's own migration", "a run at the same time is refused"
    for verb in ("list", "get"):
        yield _on(NATIVE_MIGRATIONS[0], verb, why, optional=without)


def _checks_namespaces(asked: Asked) -> Iterator[Grant]:
    for namespace in asked.namespaces:
        why, without = "check that the namespace exists", "a mistyped namespace counts as an empty one"
        yield _in(namespace, NAMESPACES, "get", why, namespace, optional=without)


def _asks_webhooks(asked: Asked) -> Iterator[Grant]:
    for namespace, name, port in asked.proxied:
        why = "ask the conversion webhook from outside of the cluster"
        yield Grant("", "services/proxy", "create", why, f"https:{name}:{port}", namespace)


def _keeps_certificates(namespace: str, service: str) -> Iterator[Grant]:
    for name in (service, f"{service}-ca"):
        for verb in ("get", "update"):
            yield _in(namespace, SECRETS, verb, "keep the serving certificate and its CA", name)
    yield _in(namespace, SECRETS, "create", "make both Secrets; RBAC cannot restrict create by name")


def _keeps_configuration(plural: str, name: str, *, watches: bool = True) -> Iterator[Grant]:
    for verb in ("get", "patch", "create"):
        yield Grant(_ADMISSION, plural, verb, "have API servers ask the admission steps, by the current CA", name)
    for verb in ("list", "watch") if watches else ():
        yield Grant(_ADMISSION, plural, verb, _AT_ONCE, name, optional=_LATER)


def _wires(name: str) -> Iterator[Grant]:
    for verb in ("get", "patch"):
        yield _on_crd(name, verb, "keep the webhook's address and CA bundle in the CRD")
    for verb in ("list", "watch"):
        yield _on_crd(name, verb, _AT_ONCE, optional=_LATER)


def _on_objects(asked: Asked, target: Target, verb: str, *, why: str, optional: str = "") -> Iterator[Grant]:
    for place in asked.places:
        yield Grant(target.group, target.plural, verb, why, namespace=place, optional=optional)


def _on_crd(name: str, verb: str, why: str, *, optional: str = "") -> Grant:
    return Grant(CRDS.group, CRDS.plural, verb, why, name, optional=optional)


def _on(resource: Resource, verb: str, why: str, *, subresource: str = "", optional: str = "") -> Grant:
    plural = f"{resource.plural}/{subresource}" if subresource else resource.plural
    return Grant(resource.group, plural, verb, why, optional=optional)


def _in(namespace: str, resource: Resource, verb: str, why: str, name: str = "", *, optional: str = "") -> Grant:
    return Grant(resource.group, resource.plural, verb, why, name, namespace, optional)


_NAMES_IT: Final = (
    "find objects of any kind that name the version, Helm releases in Secrets included; RBAC cannot restrict list to "
    "metadata"
)
_ENGINES: Final = {
    Engine.DIRECT: lambda: iter(()),
    Engine.NATIVE: _leaves_storing_to_the_cluster,
    Engine.AUTO: _waits_for_the_cluster,
}
_NEEDS: Final = {
    Command.STATUS: _status,
    Command.PLAN: _plan,
    Command.READY: _ready,
    Command.REFERENCES: _references,
    Command.MIGRATE: _migrate,
    Command.REPORT: _report,
    Command.DOCTOR: _doctor,
    Command.UNWIRE: _unwire,
    Command.SERVE: _serve,
    Command.OPERATOR: _operator,
    Command.CONVERSIONS: _conversions,
    Command.EMBEDDING: _embedding,
}
