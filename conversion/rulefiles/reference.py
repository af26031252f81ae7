"""The reference of the rules: ``restow rules list`` and ``explain``, and the page of the documentation.

What a rule and its parameters mean comes from the vocabulary, so from the constructors' docstrings. Here are an example
of each rule, with what both versions show, what the rule loses, and its use in a project whose conversions exist here.

Pure.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from textwrap import fill, indent
from typing import Any, Final

from restow.conversion.rulefiles.phrase import as_data
from restow.conversion.rulefiles.vocabulary import Parameter, parameter_schema, vocabulary


@dataclass(frozen=True, slots=True)
class Example:
    """A rule as a list item of YAML, and an object of the spoke and of the hub, each of which becomes the other.

    ``loses`` is what only the stash brings back, or what is gone. ``port`` is a project and its kind, ``ported`` the
    rule as that project's conversions have it.
    """

    rule: str
    spoke: str
    hub: str
    loses: str
    port: str = ""
    ported: str = ""


_NOTHING: Final = "nothing"
_INNER: Final = "what the rules inside lose"

#: The rules by what they are for, in the order in which an author needs them.
EXAMPLES: Final[Mapping[str, Mapping[str, Example]]] = {
    "Names and places": {
        "rename": Example(
            "- rename: {spoke: spec.ttl, hub: spec.timeToLive}",
            "spec: {ttl: 3}",
            "spec: {timeToLive: 3}",
            _NOTHING,
            "Kueue, ClusterQueue",
            "- rename: {spoke: spec.cohort, hub: spec.cohortName}",
        ),
        "move": Example(
            "- move: {spoke: spec.image, hub: spec.container.image}",
            "spec: {image: nginx}",
            "spec: {container: {image: nginx}}",
            _NOTHING,
            "Cluster API, Machine",
            "- move: {spoke: status.infrastructureReady, hub: status.initialization.infrastructureProvisioned}",
        ),
        "inside": Example(
            "- inside:\n    spoke: spec.net\n    hub: spec.network\n    rules:\n    - rename: {spoke: old, hub: new}",
            "spec: {net: {old: 1}}",
            "spec: {network: {new: 1}}",
            _INNER,
        ),
        "spread": Example(
            "- spread:\n    spoke: spec.config\n    hub: {spec.network: [cidr], spec.storage: {class: storageClass}}",
            "spec: {config: {cidr: 10.0.0.0/8, class: fast}}",
            "spec: {network: {cidr: 10.0.0.0/8}, storage: {storageClass: fast}}",
            _NOTHING,
        ),
        "gather": Example(
            "- gather:\n    spoke: {spec.network: [cidr], spec.storage: [class]}\n    hub: spec.config",
            "spec: {network: {cidr: 10.0.0.0/8}, storage: {class: fast}}",
            "spec: {config: {cidr: 10.0.0.0/8, class: fast}}",
            _NOTHING,
        ),
        "copy": Example(
            "- copy: {spoke: [spec.profile, spec.profileName], hub: spec.profile}",
            "spec: {profile: small, profileName: small}",
            "spec: {profile: small}",
            "a copy that differs from the one that counts, and that a copy is missing, come back from the stash",
        ),
    },
    "Fields of one version": {
        "stash": Example(
            "- stash: {hub: spec.weight}",
            "spec: {image: nginx}",
            "spec: {image: nginx}",
            "nothing, while the annotation is there; above its budget the largest entries go first",
            "MetalLB, BGPPeer",
            "- stash: {hub: spec.vrf}",
        ),
        "drop": Example(
            "- drop: {spoke: spec.debug, acknowledge: the controller has not read it since 0.3}",
            "spec: {image: nginx}",
            "spec: {image: nginx}",
            "the field, for good",
        ),
        "constant": Example(
            "- constant: {hub: spec.tier, value: basic}",
            "spec: {image: nginx}",
            "spec: {image: nginx, tier: basic}",
            "nothing; another value comes back from the stash",
            "Cluster API, Machine",
            "- constant: {spoke: kind, value: Node}",
        ),
        "default": Example(
            "- default: {spoke: spec.replicas, value: 1}",
            "spec: {image: nginx}",
            "spec: {image: nginx, replicas: 1}",
            "nothing; whether the field was spelled out comes back from the stash",
        ),
        "waive": Example(
            "- waive: {hub: spec.owner, acknowledge: no object was ever made without}",
            "spec: {image: nginx}",
            "spec: {image: nginx}",
            "nothing; the converted object may lack a field that its version requires",
            "Kueue, ClusterQueue",
            "- waive: {hub: spec.admissionScope.admissionMode, acknowledge: v1beta2 knows no name for another mode}",
        ),
    },
    "Values": {
        "enum": Example(
            "- enum: {spoke: spec.mode, values: {public: Public, private: Private}, down: {Mesh: private}}",
            "spec: {mode: public}",
            "spec: {mode: Public}",
            "a value of `up` or `down`, or one that the other version's enum does not have, comes back from the stash",
            "Kueue, ClusterQueue",
            "- enum: {spoke: spec.flavorFungibility.whenCanBorrow, values: {}, up: {Borrow: MayStopSearch}}",
        ),
        "cast": Example(
            "- cast: {spoke: spec.port, spoke_type: string, hub_type: integer}",
            'spec: {port: "80"}',
            "spec: {port: 80}",
            "another spelling (`080`) and a text that is no such value come back from the stash",
        ),
        "duration": Example(
            "- duration: {spoke: spec.ttl, hub: spec.ttlSeconds, unit: s}",
            "spec: {ttl: 1m30s}",
            "spec: {ttlSeconds: 90}",
            "another spelling (`90s`), parts of a unit, and a text that is no duration come back from the stash",
            "Cluster API, Machine",
            "- duration: {spoke: spec.nodeDrainTimeout, hub: spec.deletion.nodeDrainTimeoutSeconds, unit: s}",
        ),
        "quantity": Example(
            "- quantity: {spoke: spec.memory, hub: spec.memoryMiB, unit: Mi}",
            "spec: {memory: 1Gi}",
            "spec: {memoryMiB: 1024}",
            "another spelling (`1024Mi`), parts of a unit, and a text that is no quantity come back from the stash",
        ),
        "scale": Example(
            "- scale: {spoke: spec.sizeGiB, hub: spec.sizeMiB, factor: 1024}",
            "spec: {sizeGiB: 2}",
            "spec: {sizeMiB: 2048}",
            "parts of a unit, and numbers of more than 64 bits, come back from the stash",
        ),
        "pair": Example(
            "- pair:\n"
            "    spoke: [spec.host, spec.port]\n"
            "    hub: spec.url\n"
            '    up: \'"http://" + self["spec.host"] + ":" + string(self["spec.port"])\'\n'
            "    down: |-\n"
            '      [self.replace("http://", "").split(":")].map(x, {"spec.host": x[0], "spec.port": int(x[1])})[0]\n'
            "    loses: down\n"
            "    on_error: keep",
            "spec: {host: db, port: 80}",
            'spec: {url: "http://db:80"}',
            "what the inverse does not give back comes back from the stash; `loses` names the directions",
            "Kueue, ClusterQueue",
            "- pair:\n"
            "    spoke: [spec.admissionChecks, spec.admissionChecksStrategy.admissionChecks]\n"
            "    hub: spec.admissionChecksStrategy.admissionChecks\n"
            "    loses: up\n"
            "    up: |-\n"
            '      size(self[?"spec.admissionChecks"].orValue([])) > 0\n'
            '      ? self["spec.admissionChecks"].map(name, {"name": name})\n'
            '      : self[?"spec.admissionChecksStrategy.admissionChecks"].orValue(absent)\n'
            "    down: '{\"spec.admissionChecksStrategy.admissionChecks\": self}'",
        ),
        "functions": Example(
            "- functions:\n"
            "    spoke: spec.name\n"
            "    hub: spec.label\n"
            '    up: \'{"spec": {"label": "app/" + self.spec.name}}\'\n'
            '    down: \'{"spec": {"name": self.spec.label.replace("app/", "")}}\'\n'
            "    loses: down",
            "spec: {name: shop}",
            "spec: {label: app/shop}",
            "as with `pair`",
        ),
    },
    "Texts": {
        "join": Example(
            "- join: {spoke: spec.servers}",
            "spec: {servers: [a, b]}",
            'spec: {servers: "a,b"}',
            "a list with the separator in an item comes back from the stash",
        ),
        "split": Example(
            '- split: {spoke: spec.servers, separator: " "}',
            "spec: {servers: a b}",
            "spec: {servers: [a, b]}",
            "a list with the separator in an item comes back from the stash",
        ),
        "template": Example(
            "- template:\n"
            "    spoke: spec.address\n"
            "    hub: {host: spec.host, port: spec.port}\n"
            '    pattern: "(?P<host>[^:]+)(?::(?P<port>[0-9]+))?"\n'
            "    types: {port: integer}",
            'spec: {address: "db:5432"}',
            "spec: {host: db, port: 5432}",
            "a text that does not match, and fields that make no text, come back from the stash",
        ),
        "json": Example(
            '- json: {spoke: "metadata.annotations[\\"example.dev/limits\\"]", hub: spec.limits}',
            "metadata: {name: a, annotations: {example.dev/limits: '{\"cpu\":1}'}}\nspec: {image: nginx}",
            "metadata: {name: a}\nspec: {image: nginx, limits: {cpu: 1}}",
            "another spelling, and a text that the schema of the object cannot hold, come back from the stash",
        ),
    },
    "Lists and maps": {
        "each": Example(
            "- each:\n    spoke: spec.items\n    key: id\n    rules:\n    - rename: {spoke: old, hub: new}",
            "spec: {items: [{id: a, old: 1}]}",
            "spec: {items: [{id: a, new: 1}]}",
            _INNER,
            "Tekton, Task",
            "- each:\n"
            "    spoke: spec.sidecars\n"
            "    key: name\n"
            "    rules:\n"
            "    - rename: {spoke: resources, hub: computeResources}",
        ),
        "each_value": Example(
            "- each_value:\n    spoke: spec.pools\n    rules:\n    - rename: {spoke: old, hub: new}",
            "spec: {pools: {a: {old: 1}}}",
            "spec: {pools: {a: {new: 1}}}",
            _INNER,
        ),
        "keyed": Example(
            "- keyed: {spoke: spec.ports, key: name}",
            "spec: {ports: [{name: web, port: 80}]}",
            "spec: {ports: {web: {port: 80}}}",
            "the order, items without the key, and further items of a key come back from the stash",
        ),
        "fields": Example(
            "- fields: {spoke: {cpu: spec.cpuLimit, memory: spec.memoryLimit}, hub: spec.limits}",
            'spec: {cpuLimit: "1", memoryLimit: 2Gi}',
            'spec: {limits: {cpu: "1", memory: 2Gi}}',
            "other entries of the map come back from the stash, unless `rest` names a map for them",
        ),
        "keys": Example(
            "- keys: {spoke: spec.selector, names: {app: application}}",
            "spec: {selector: {app: shop, tier: web}}",
            "spec: {selector: {application: shop, tier: web}}",
            "an entry whose key is in the way of a new name comes back from the stash",
        ),
        "wrap": Example(
            '- wrap: {spoke: spec.host, hub: "spec.hosts[]"}',
            "spec: {host: db}",
            "spec: {hosts: [db]}",
            "a list that does not have exactly one item comes back from the stash",
        ),
        "unwrap": Example(
            '- unwrap: {spoke: "spec.zones[]", hub: spec.zone}',
            "spec: {zones: [a]}",
            "spec: {zone: a}",
            "a list that does not have exactly one item comes back from the stash",
        ),
        "select": Example(
            "- select: {spoke: status.ready, hub: status.conditions, where: {type: Ready}, field: status}",
            'status: {ready: "True"}',
            'status: {conditions: [{type: Ready, status: "True"}]}',
            "the other items and fields come back from the stash, unless `rest` names a list for the items",
        ),
        "conditions": Example(
            "- conditions: {spoke: status.conditions, hub: status.deprecated.conditions, names: {cause: reason}}",
            "status: {conditions: [{type: Ready, cause: Started}]}",
            "status: {deprecated: {conditions: [{type: Ready, reason: Started}]}}",
            "fields that one version alone has come back from the stash",
        ),
    },
    "Unions and opaque fields": {
        "when": Example(
            "- when:\n"
            "    field: spec.type\n"
            "    equals: S3\n"
            "    rules:\n"
            "    - rename: {spoke: spec.size, hub: spec.sizeGb}",
            "spec: {type: S3, size: 5}",
            "spec: {type: S3, sizeGb: 5}",
            _INNER,
        ),
        "described": Example(
            "- described: {spoke: spec.config, by: hub}",
            "spec: {config: {x: 1}}",
            "spec: {config: {x: 1}}",
            "a value that the schema cannot hold comes back from the stash; with `partial`, what it can hold is shown",
        ),
    },
}

_CALL: Final = re.compile(r"`((?:{})\(.*?\))`(?!`)".format("|".join(vocabulary())))


def example_of(name: str) -> Example:
    """Return the example of a rule."""
    return next(examples[name] for examples in EXAMPLES.values() if name in examples)


def summary(name: str) -> str:
    """Return what a rule is for, in a sentence, without its example in Python."""
    text = re.sub(rf"[:.] `{name}\(.*?\)`.*?(?=\.(\s|$))", "", vocabulary()[name].text)
    return text.replace("..", ".")


def details(name: str) -> Mapping[str, str]:
    """Return what each parameter of a rule is, with rules as a file has them; what two have in common is said once."""
    said: dict[str, str] = {}
    for each in vocabulary()[name].parameters.values():
        text = each.text or _UNSAID.get(each.name, "")
        text = re.sub(rf"^`{each.name}` (is|are) ([a-z])", lambda found: found[2].upper(), text)
        text = as_data(_CALL.sub(lambda call: f"`{as_data('rules.' + call[1])}`", text))
        same = next((other for other, known in said.items() if text and known == text), None)
        said[each.name] = text if same is None else f"See `{same}`."
    return said


_UNSAID: Final[Mapping[str, str]] = {
    "spoke": "The path in the version of the spoke.",
    "hub": "The path in the hub.",
    "rules": "The rules inside; their paths start there.",
    "acknowledge": "The reason, for whoever reads the rules.",
    "value": "The value, as JSON.",
    "up": "What the hub shows for a value of the spoke.",
    "down": "What the spoke shows for a value of the hub.",
}


def kind_of(parameter: Parameter) -> str:
    """Return what a file has as the parameter: ``string``, ``list of rules``, ``CEL expression``."""
    if parameter.shape == "rules":
        return "list of rules"
    return "CEL expression" if parameter.shape == "expression" else _type(parameter_schema(parameter))


def _type(schema: Mapping[str, Any]) -> str:
    if "enum" in schema:
        return " | ".join(map(str, schema["enum"]))
    if "anyOf" in schema:
        return " | ".join(dict.fromkeys(map(_type, schema["anyOf"])))
    if schema.get("type") == "array":
        return f"list of {_type(schema['items'])}" if "items" in schema else "list"
    if schema.get("type") == "object":
        return f"map to {_type(schema['additionalProperties'])}"
    return str(schema.get("type", "any"))


def explained(name: str) -> str:
    """Return what ``restow rules explain`` prints about a rule."""
    example, parameters = example_of(name), vocabulary()[name].parameters.values()
    parts = [
        f"RULE:  {name}\n\n{_filled(summary(name))}",
        f"EXAMPLE:\n{indent(example.rule, '  ')}",
        f"SPOKE:\n{indent(example.spoke, '  ')}",
        f"HUB:\n{indent(example.hub, '  ')}",
        f"LOSES:\n{_filled(example.loses)}",
        *([f"USED BY:  {example.port}\n{indent(example.ported, '  ')}"] if example.port else []),
        "PARAMETERS:\n" + "\n".join(_parameter(each, details(name)[each.name]) for each in parameters),
    ]
    return "\n\n".join(parts) + "\n"


def _parameter(parameter: Parameter, text: str) -> str:
    head = f"  {parameter.name}  <{kind_of(parameter)}>{'  -required-' if parameter.required else ''}"
    return f"{head}\n{_filled(text, '    ')}"


def _filled(text: str, before: str = "  ") -> str:
    return fill(text, 100, initial_indent=before, subsequent_indent=before, break_on_hyphens=False)


def page() -> str:
    """Return the page of the documentation: every rule, its YAML first."""
    return _HEAD + "".join(
        f"\n## {title}\n" + "".join(_section(name, example) for name, example in examples.items())
        for title, examples in EXAMPLES.items()
    )


_HEAD: Final = """\
# Rules

Every rule of a file of [ConversionRules](conversion.md#rules-as-data): its YAML, what both versions show, what it
loses, its parameters. `restow rules list` names them, and `restow rules explain RULE` says more of each. In Python,
constructors have the names and parameters of the rules. [Converting](conversion.md#the-rules) explains how rules work
together, and [Write conversions for a CRD](howto/write-conversions.md) how to find them.

What "comes back from the stash" is kept in an [annotation](conversion.md#the-stash) of the object, and an edit in the
other version takes precedence. A field that no rule names is the same in both versions.
"""

_CHECKED: Final = "<!-- tested by: tests/docs/test_rules_page.py -->"


def _section(name: str, example: Example) -> str:
    used = f"\n{example.port}:\n\n{_CHECKED}\n```yaml\n{example.ported}\n```\n" if example.port else ""
    return (
        f"\n### {name}\n\n{_CHECKED}\n```yaml\n{example.rule}\n```\n\n{summary(name)}\n\n"
        f"| spoke | hub |\n|---|---|\n| {_cell(example.spoke)} | {_cell(example.hub)} |\n\n"
        f"Loses: {example.loses}.\n{used}\n" + "".join(_bullets(name))
    )


def _cell(text: str) -> str:
    return "<br>".join(f"`{line}`" for line in text.splitlines()).replace("|", "\\|")


def _bullets(name: str) -> Iterator[str]:
    known = details(name)
    for each in vocabulary()[name].parameters.values():
        required = ", required" if each.required else ""
        first = re.split(r"(?<=[.:]) (?=[A-Z`])", known[each.name])[0]
        first = re.sub(r":$", ".", first)
        yield f"- `{each.name}` ({kind_of(each)}{required})" + (f": {first}\n" if first else "\n")
