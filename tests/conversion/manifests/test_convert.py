"""Whole manifests: what changes is what has to change, and everything else is kept byte for byte."""

from __future__ import annotations

import json
from typing import Any

import pytest
import yaml
from hypothesis import HealthCheck, assume, example, given, settings
from hypothesis import strategies as st

from restow.conversion.manifests import (
    Converted,
    NoTargetVersion,
    Status,
    Targets,
    convert_manifest,
    objects_of,
    read,
    write_yaml,
)
from restow.conversion.manifests import convert as manifest
from restow.conversion.manifests.edit import Edit, rewrite
from restow.conversion.model.values import same
from restow.conversion.testing import objects
from restow.crds.documents import NotYaml
from tests.conversion.example import CRDS, graph
from tests.conversion.manifests.commented import Text, documents, roots
from tests.conversion.randomkinds import GROUP, KIND, kinds

RELAXED = settings(suppress_health_check=list(HealthCheck), deadline=None)
OLD, NEW = "edge.example.dev/v1alpha1", "edge.example.dev/v1"
HEAD = f"apiVersion: {OLD}\nkind: Gateway\n"


@pytest.fixture(autouse=True)
def no_last_resort(monkeypatch: pytest.MonkeyPatch) -> None:
    """No document here needs to be rewritten as a whole: a test that does so would lose comments unnoticed."""

    def refuse(text: str, *_rest: Any) -> Any:
        pytest.fail(f"rewritten as a whole: {text}")

    monkeypatch.setattr(manifest, "rewrite", refuse)


def converted(text: str, to: str = "v1", **options: Any) -> Converted:
    found = convert_manifest(text, graph, Targets.of(graph, to, CRDS), **options)
    for before, after in zip(read_loosely(text), read_loosely(found.text), strict=True):
        assert len([*objects_of(before)]) == len([*objects_of(after)])
    return found


def read_loosely(text: str) -> list[Any]:
    try:
        return [document.data for document in read(text.removeprefix("\ufeff"))]
    except NotYaml:
        return []


UGLY: list[Any] = [
    pytest.param(
        """\
# Copyright of somebody

# the gateway of the shop
apiVersion:   edge.example.dev/v1alpha1   # soon v1
kind: "Gateway"
metadata:
      name: shop           # do not rename
      labels: { app: shop , tier:  'x' }
spec:

      # who may come in
      mode: public # everybody

      # ask security before changing this
      certificate: >-
            shop
            certificate
      host: 'shop.example.dev' # the public name

      listeners:
      # the first one
      -   title: web     # its name
          # in seconds
          timeoutSeconds: 0x1E   # half a minute

          protocol:   TCP
      # the second one
      - title: "admin"
        timeoutSeconds:   45
        # nothing else here
      # no more listeners
status: {phase: Ready}   # by the controller
# the end
""",
        """\
# Copyright of somebody

# the gateway of the shop
apiVersion:   edge.example.dev/v1   # soon v1
kind: "Gateway"
metadata:
      name: shop           # do not rename
      labels: { app: shop , tier:  'x' }
spec:

      # who may come in
      mode: Public # everybody

      tls:
            # ask security before changing this
            certificate: >-
                  shop
                  certificate
      hosts: # the public name
      - shop.example.dev

      listeners:
      # the first one
      -   name: web     # its name
          # in seconds
          timeout: 30s   # half a minute

          protocol:   TCP
      # the second one
      - name: "admin"
        timeout:   45s
        protocol: HTTP
        # nothing else here
      # no more listeners
status: {phase: Ready}   # by the controller
# the end
""",
        id="comments-in-every-position",
    ),
    pytest.param(
        "\ufeff"
        + HEAD.replace("\n", "\r\n")
        + "metadata:\r\n  name: a\r\nspec:\r\n  # above\r\n  host: a # beside\r\n",
        "\ufeff"
        + HEAD.replace("\n", "\r\n").replace(OLD, NEW)
        + "metadata:\r\n  name: a\r\nspec:\r\n  # above\r\n  hosts: # beside\r\n  - a\r\n",
        id="byte-order-mark-and-windows-line-breaks",
    ),
    pytest.param(
        HEAD + "spec:\n  host: a",
        HEAD.replace(OLD, NEW) + "spec:\n  hosts:\n  - a",
        id="no-line-break-at-the-end",
    ),
    pytest.param(
        "%YAML 1.1\n---\n# one\n" + HEAD + "spec: {host: a}\n...\n# between\n---\n# nothing\n---\n" + HEAD + "...\n",
        "%YAML 1.1\n---\n# one\n"
        + HEAD.replace(OLD, NEW)
        + "spec: {hosts: [a]}\n...\n# between\n---\n# nothing\n---\n"
        + HEAD.replace(OLD, NEW)
        + "...\n",
        id="markers-directives-and-empty-documents",
    ),
    pytest.param(
        HEAD + "metadata:\n  labels: &labels\n    app: a # kept\n  annotations: *labels\nspec:\n  selector: *labels\n",
        HEAD.replace(OLD, NEW)
        + "metadata:\n  labels: &labels\n    app: a # kept\n  annotations: *labels\nspec:\n  selector: *labels\n",
        id="anchors-that-nothing-touches",
    ),
    pytest.param(
        HEAD
        + "base: &base\n  protocol: UDP # for all\nspec:\n  listeners:\n  - &first\n    <<: *base\n    title: a\n"
        + "  - <<: *base # again\n    title: b # second\n",
        HEAD.replace(OLD, NEW)
        + "base: &base\n  protocol: UDP # for all\nspec:\n  listeners:\n  - &first\n    <<: *base\n    name: a\n"
        + "  - <<: *base # again\n    name: b # second\n",
        id="merge-keys-that-nothing-touches",
    ),
    pytest.param(
        HEAD + "base: &base\n  timeoutSeconds: 5\nspec:\n  listeners:\n  - <<: *base # all\n    title: a\n",
        HEAD.replace(OLD, NEW)
        + "base: &base\n  timeoutSeconds: 5\nspec:\n  listeners:\n  - name: a\n    timeout: 5s\n    protocol: HTTP\n",
        id="merge-key-whose-fields-change",
    ),
    pytest.param(
        HEAD + "metadata: {name: &name shop}\nspec:\n  certificate: *name # same\n  host: *name\n",
        HEAD.replace(OLD, NEW)
        + "metadata: {name: &name shop}\nspec:\n  tls:\n    certificate: *name # same\n  hosts:\n  - shop\n",
        id="aliases-that-move",
    ),
    pytest.param(
        HEAD + "spec:\n  ? host # H\n  : a\n  other:\n    ? x # X\n    : [1]\n",
        HEAD.replace(OLD, NEW) + "spec:\n  other:\n    x:\n    - 1\n  hosts:\n  - a\n",
        id="question-marks-are-rewritten-where-they-change",
    ),
    pytest.param(
        HEAD + "status:\n  ? x # X\n  : [1]\nspec:\n  host: a\n",
        HEAD.replace(OLD, NEW) + "status:\n  ? x # X\n  : [1]\nspec:\n  hosts:\n  - a\n",
        id="question-marks-that-nothing-touches",
    ),
    pytest.param(
        HEAD + "spec:\n  mode: &mode private # M\n  other: *mode # O\n",
        HEAD.replace(OLD, NEW) + "spec:\n  mode: &mode Private # M\n  other: private # O\n",
        id="anchor-whose-value-changes",
    ),
    pytest.param(
        HEAD + "spec:\n  certificate: c\n\n   # C\n\n  # X\n  x: 1\n",
        HEAD.replace(OLD, NEW) + "spec:\n  tls:\n    certificate: c\n\n     # C\n\n  # X\n  x: 1\n",
        id="comment-below-a-blank-line",
    ),
    pytest.param(
        HEAD + "spec:\n  certificate: &cert |\n    BEGIN\n      x\n    END\n\n  # keeps\n  copy: *cert\n",
        HEAD.replace(OLD, NEW)
        + "spec:\n  tls:\n    certificate: &cert |\n      BEGIN\n        x\n      END\n\n  # keeps\n  copy: *cert\n",
        id="block-text-that-moves-deeper",
    ),
    pytest.param(
        HEAD + 'spec:\n  certificate: "a\\\n    b \\u00e9\\t"\n  long: ' + "word " * 60 + "end\n",
        HEAD.replace(OLD, NEW)
        + 'spec:\n  tls:\n    certificate: "a\\\n      b \\u00e9\\t"\n  long: '
        + "word " * 60
        + "end\n",
        id="long-and-folded-texts",
    ),
    pytest.param(
        HEAD
        + 'spec:\n  mode:\tprivate\t# tabs\n  other: "\ttab"\n  listeners: [\n\t{title: a},\n\t{title: b} # c\n  ]\n',
        HEAD.replace(OLD, NEW)
        + 'spec:\n  mode:\tPrivate\t# tabs\n  other: "\ttab"\n'
        + "  listeners: [\n\t{name: a, protocol: HTTP},\n\t{name: b, protocol: HTTP} # c\n  ]\n",
        id="tabs",
    ),
    pytest.param(
        HEAD + "spec:\n    # only this\n    debug: true # gone\n",  # an object that a rule empties goes too
        HEAD.replace(OLD, NEW),
        id="the-last-field-is-dropped",
    ),
    pytest.param(
        "- not\n- an object\n---\njust a text\n---\n" + HEAD + "metadata: {}\nspec: null # later\n---\n42\n",
        "- not\n- an object\n---\njust a text\n---\n"
        + HEAD.replace(OLD, NEW)
        + "metadata: {}\nspec: null # later\n---\n42\n",
        id="documents-that-are-no-objects",
    ),
]


@pytest.mark.parametrize(("before", "after"), UGLY)
def test_ugly_manifests(before: str, after: str) -> None:
    """People's own way of writing survives; a tool that reformats is run once and never again."""
    found = converted(before)
    assert found.text == after
    assert not found.having(Status.FAILED)
    assert converted(found.text).text == found.text


def test_what_goes_takes_its_comment_and_that_is_told() -> None:
    """A comment must not get lost without a word."""
    found = converted(HEAD + "spec:\n  host: a\n  # why we debug\n  debug: true # for now\n")
    assert found.text == HEAD.replace(OLD, NEW) + "spec:\n  hosts:\n  - a\n"
    assert [(note.line, note.text.rpartition("# ")[2]) for note in found.notes] == [(5, "why we debug"), (6, "for now")]


def test_a_computed_field_takes_the_place_and_the_comments_of_what_it_was_made_of() -> None:
    """Comments follow the rules, not a guess by name."""
    text = (
        f"apiVersion: {NEW}\nkind: Gateway\nstatus:\n  # set by the controller\n  phase: Broken # today\n  other: 1\n"
    )
    assert converted(text, "v1beta1").text == (
        "apiVersion: edge.example.dev/v1beta1\nkind: Gateway\nstatus:\n"
        "  # set by the controller\n  ready: false # today\n  reason: Broken\n  other: 1\n"
    )


KEPT = """\
apiVersion: edge.example.dev/v1
kind: Gateway
metadata:
  name: a # A
spec:
  x: 1
  tls:
    # min
    minVersion: '1.3'
"""


def test_what_the_target_cannot_say_goes_to_the_stash_and_comes_back() -> None:
    """That is what lossless means offline."""
    found = converted(KEPT, "v1alpha1")
    assert found.text == (
        "apiVersion: edge.example.dev/v1alpha1\nkind: Gateway\nmetadata:\n  name: a # A\n  annotations:\n"
        "    edge.example.dev/conversion-stash: "
        """'{"format":1,"kept":{"v1":{".spec.tls.minVersion":{"gone":1,"is":"1.3"}}}}'\n"""
        "spec:\n  x: 1\n"
    )
    back = converted(found.text)
    assert same(read(back.text)[0].data, read(KEPT)[0].data)
    assert "annotations" not in back.text


def test_without_a_stash_losses_are_told() -> None:
    """Who does not want the annotation must hear what that costs."""
    found = converted(KEPT, "v1alpha1", keeps_stash=False)
    assert found.text == (
        "apiVersion: edge.example.dev/v1alpha1\nkind: Gateway\nmetadata:\n  name: a # A\nspec:\n  x: 1\n"
    )
    (outcome,) = found.having(Status.CONVERTED)
    assert [(leaf.pointer, leaf.rule) for leaf in outcome.lost] == [
        ("/spec/tls/minVersion", "stash(spec.tls.minVersion)")
    ]


def test_without_a_stash_that_of_others_goes_too_and_that_is_told() -> None:
    """Entries of other versions travel in the same annotation."""
    old = converted(KEPT, "v1alpha1").text
    stash = json.dumps({"format": 1, "kept": {"v9": {".spec.x": {"is": 1}}}})
    text = old.replace(old.partition("stash: ")[2].partition("\n")[0], f"'{stash}'")
    (outcome,) = converted(text, "v1beta1", keeps_stash=False).having(Status.CONVERTED)
    assert outcome.warnings == ("what earlier conversions kept in its stash is lost too",)


LIST = """\
# a list
apiVersion: v1
kind: List
metadata: {resourceVersion: ""}   # as kubectl prints it
items:
# first
- apiVersion: edge.example.dev/v1alpha1 # old
  kind: Gateway
  metadata: {name: a}
  spec: {host: a}
# somebody else's
- apiVersion: v1
  kind:   ConfigMap
  data: {a:   "b"}   # untouched
- apiVersion: v1
  kind: List
  items:
  - kind: Gateway
    apiVersion: edge.example.dev/v1alpha1
    spec:
      host: b   # B
"""


def test_lists_are_converted_inside() -> None:
    """What kubectl get prints must do; other kinds, comments and nested lists included."""
    found = converted(LIST)
    assert found.text == (
        LIST.replace(OLD, NEW).replace("{host: a}", "{hosts: [a]}").replace("host: b   # B", "hosts: # B\n      - b")
    )
    assert [(outcome.status, outcome.pointer) for outcome in found.outcomes] == [
        (Status.CONVERTED, "/items/0"),
        (Status.OTHER, "/items/1"),
        (Status.CONVERTED, "/items/2/items/0"),
    ]


TYPED = """\
apiVersion: edge.example.dev/v1alpha1
kind: GatewayList
items:
- metadata: {name: a} # no type of its own
  spec: {host: a}
- {spec: {host: b}}
"""


def test_typed_lists_are_converted_with_their_items() -> None:
    """Their items have no type of their own, so the list's version is theirs."""
    found = converted(TYPED)
    assert found.text == TYPED.replace(OLD, NEW).replace("host: a", "hosts: [a]").replace("host: b", "hosts: [b]")


@pytest.fixture
def brittle(monkeypatch: pytest.MonkeyPatch) -> None:
    """A graph that fails for objects named ``bad``."""
    from restow.conversion import ObjectError, Registry, rules

    def up(value: Any) -> Any:
        if value == "bad":
            raise ObjectError("is not understood")
        return value

    registry = Registry()
    kind = registry.kind("edge.example.dev", "Gateway", hub="v1")
    kind.spoke("v1alpha1")(lambda: [rules.pair("spec.a", "spec.b", up=up, down=lambda value: value)])
    monkeypatch.setitem(globals(), "graph", registry.freeze())


@pytest.mark.usefixtures("brittle")
def test_an_object_that_fails_stays_as_it_was_and_the_others_go_on() -> None:
    """One bad object must not stop a release, nor be half converted."""
    bad = HEAD + "metadata: {name: x}\nspec: {a: bad} # B\n"
    good = HEAD + "spec: {a: good} # G\n"
    found = convert_manifest(f"{bad}---\n{good}", graph, Targets.of(graph, "v1"))
    assert found.text == f"{bad}---\n" + good.replace(OLD, NEW).replace("a:", "b:")
    (failed,) = found.having(Status.FAILED)
    assert (failed.title, failed.line) == ("Gateway x", 1)
    assert failed.error.startswith("/spec/a: is not understood (pair(spec.a <-> spec.b)) at ")


@pytest.mark.usefixtures("brittle")
def test_a_typed_list_with_an_item_that_fails_stays_as_a_whole() -> None:
    """Items without a type would change their version with the list."""
    text = TYPED.replace("host: a", "a: bad").replace("host: b", "a: good")
    found = convert_manifest(text, graph, Targets.of(graph, "v1"))
    assert found.text == text
    assert [outcome.status for outcome in found.outcomes] == [Status.FAILED, Status.FAILED]
    typed = text.replace("- metadata", f"- apiVersion: {OLD}\n  kind: Gateway\n  metadata")
    typed = typed.replace("- {spec", f"- {{apiVersion: {OLD}, kind: Gateway, spec")
    found = convert_manifest(typed, graph, Targets.of(graph, "v1"))
    assert [outcome.status for outcome in found.outcomes] == [Status.FAILED, Status.CONVERTED]
    assert found.text == typed.replace(f"{{apiVersion: {OLD}", f"{{apiVersion: {NEW}").replace("a: good", "b: good")


@pytest.mark.parametrize("last_resort", [True, False])
def test_an_edit_that_went_wrong_is_never_written(last_resort: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """If editing fails, the document is rewritten as a whole, or left alone; a note says which."""
    text = HEAD + "spec:\n  host: a # H\n"

    def wrong(_text: str, _root: Any, *_rest: Any) -> Edit:
        return Edit(0, len(text), HEAD.replace(OLD, NEW))

    monkeypatch.setattr(manifest, "edit", wrong)
    monkeypatch.setattr(manifest, "rewrite", rewrite if last_resort else wrong)
    found = convert_manifest(f"{text}---\n{text}", graph, Targets.of(graph, "v1"))
    if last_resort:
        assert found.text == "---\n".join([HEAD.replace(OLD, NEW) + "spec:\n  hosts:\n  - a\n"] * 2)
        assert [note.line for note in found.notes] == [4, 9]
    else:
        assert found.text == f"{text}---\n{text}"
        assert [outcome.error for outcome in found.having(Status.FAILED)] == [
            "its text cannot be edited into the converted form"
        ] * 2
        assert found.documents[0]["apiVersion"] == OLD


def test_what_was_last_applied_is_left_alone_with_a_word() -> None:
    """kubectl's own annotation is a text about the past."""
    text = HEAD + "metadata:\n  annotations:\n    kubectl.kubernetes.io/last-applied-configuration: |\n      {}\n"
    found = converted(text)
    assert found.text == text.replace(OLD, NEW)
    assert "last-applied-configuration is left as it is" in found.outcomes[0].warnings[0]


DUPLICATES = HEAD + "spec:\n  host: a\n  host: b\n"
PROBLEMS: list[Any] = [
    pytest.param(DUPLICATES, "line 5: the key host a second time", id="duplicate-key"),
    pytest.param(HEAD + "spec: {? [a] : b}\n", "line 3: a key that is no text", id="key-that-is-a-list"),
    pytest.param(HEAD + "spec: {null: b}\n", "line 3: a key that is no text", id="key-null"),
    pytest.param(HEAD + "spec:\n  x: .inf\n", "line 4: a number that JSON does not have", id="infinity"),
    pytest.param(HEAD + "spec: !vault {a: b}\n", "line 3: the tag !vault", id="tag-of-an-object"),
    pytest.param(HEAD + "spec: {a: !Ref b}\n", "line 3: a scalar with the tag !Ref", id="tag-of-a-scalar"),
    pytest.param(HEAD + "spec: {a: !!int b}\n", "line 3: a scalar with the tag tag:yaml.org,2002:int", id="wrong-tag"),
    pytest.param(
        HEAD + "spec: {<<: 5}\n", "line 3: a merge key with something else than objects", id="merging-a-number"
    ),
    pytest.param(
        HEAD + "b: &b {x: 1}\nspec:\n  x: 2\n  <<: *b\n",
        "line 6: a merge key behind a field that it brings too",
        id="ambiguous-merge",
    ),
]


@pytest.mark.parametrize(("text", "problem"), PROBLEMS)
def test_what_json_cannot_say_fails_its_object_only(text: str, problem: str) -> None:
    """kubectl refuses it, or takes one of two meanings; guessing would write the wrong one."""
    whole = f"{text}---\n{HEAD}"
    found = converted(whole)
    assert found.text == f"{text}---\n{HEAD.replace(OLD, NEW)}"
    (failed,) = found.having(Status.FAILED)
    assert failed.error == f"the document has what JSON cannot represent ({problem})"
    elsewhere = text.replace(OLD, "other.example.dev/v1")
    assert [outcome.status for outcome in converted(elsewhere).outcomes] == [Status.OTHER]
    assert converted(elsewhere).text == elsewhere


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("{{ if .Values.gateway }}\n" + HEAD + "{{ end }}\n", 2),
        (HEAD + "spec:\n{{- toYaml .Values.spec | nindent 2 }}\n", 4),
        (HEAD + "a: *missing\n", 3),
        (HEAD + "a: &a [*a]\n", 3),
        ("a: b: c\n", 1),
        ("\x00", 1),
        ("[" * 5000, 1),
    ],
)
def test_what_is_no_yaml_is_told_with_its_line(text: str, line: int) -> None:
    """Templates are common in charts: they are left alone, and a person is sent to the place."""
    with pytest.raises(NotYaml) as refused:
        converted(text)
    assert refused.value.line == line


def test_aliases_cannot_be_used_to_fill_the_memory() -> None:
    """A few lines can stand for billions of values."""
    text = "a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
    text += "".join(f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]\n" for n in range(1, 9))
    with pytest.raises(NotYaml, match="aliases expand to too many values"):
        read(text)


PRETTY = """\
{
    "kind": "Gateway",
    "apiVersion": "edge.example.dev/v1alpha1",
    "spec": {
        "host": "a\\u00e9",
        "listeners": [{"title": "x", "timeoutSeconds": 1.0}]
    },
    "status": {}
}
"""


def test_json_stays_json() -> None:
    """Indentation, order and escapes of what does not change are kept in JSON too."""
    assert converted(PRETTY).text == (
        PRETTY.replace(OLD, NEW)
        .replace('"host": "a\\u00e9"', '"hosts": [\n            "aé"\n        ]')
        .replace('{"title": "x", "timeoutSeconds": 1.0}', '{"name": "x", "timeout": "1s", "protocol": "HTTP"}')
    )
    small = '{"apiVersion":"edge.example.dev/v1alpha1","kind":"Gateway","spec":{"host":"a","x":[1,2]}}'
    assert json.loads(converted(small).text) == json.loads(
        small.replace(OLD, NEW).replace('"host":"a"', '"hosts":["a"]')
    )


def test_json_that_is_no_yaml() -> None:
    """Several values in a row, and escaped surrogates: kubectl takes them, YAML's grammar does not."""
    first = '{"apiVersion": "edge.example.dev/v1alpha1", "kind": "Gateway", "spec": {"host": "\\ud83d\\udea2"}}'
    other = '{"kind": "Other", "x":   1.50}'
    found = convert_manifest(f"{first}\n\n{other}\n{first}", graph, Targets.of(graph, "v1"))
    new = first.replace(OLD, NEW).replace('"host": "\\ud83d\\udea2"', '"hosts": ["\\ud83d\\udea2"]')
    assert found.text == f"{new}\n\n{other}\n{new}"


def test_targets() -> None:
    """A version by itself means every kind that has it, with a group those of that group only."""
    assert Targets.of(graph, "v1").versions == {
        ("edge.example.dev", "Gateway"): NEW,
        ("edge.example.dev", "Cache"): NEW,
    }
    assert set(Targets.of(graph, "edge.example.dev/v1beta1").versions) == {("edge.example.dev", "Gateway")}
    for wrong in ("v7", "internal", "other.example.dev/v1"):
        with pytest.raises(NoTargetVersion, match=r"Cache.edge.example.dev \(v1, v2, v3\)"):
            Targets.of(graph, wrong)


@pytest.mark.parametrize("version", ["v7", "internal"])
def test_an_object_at_an_unknown_version_fails(version: str) -> None:
    """Passing it on unchanged would look like success."""
    text = f"apiVersion: edge.example.dev/{version}\nkind: Cache\n"
    found = converted(text)
    assert found.text == text
    assert f"has no version {version}" in found.having(Status.FAILED)[0].error


@RELAXED
@given(st.data())
def test_converting_the_text_and_converting_the_data_are_the_same(data: st.DataObject) -> None:
    """Parsing the converted text gives the converted object, whatever the kind, the rules and the way of writing."""
    kind_graph, crd = data.draw(kinds())
    source, target = data.draw(st.sampled_from([("v1", "v2"), ("v2", "v1")]))
    schema = next(version.schema for version in crd.versions if version.name == source)
    values = objects(schema, f"{GROUP}/{source}", KIND, unknown=data.draw(st.booleans()))
    text = data.draw(documents(values))
    (document,) = read(text.text)
    assume(same(document.data, text.value))
    found = convert_manifest(text.text, kind_graph, Targets.of(kind_graph, target))
    assert same(read(found.text)[0].data, kind_graph.convert(text.value, f"{GROUP}/{target}"))


@RELAXED
@given(st.lists(documents(), max_size=3))
def test_other_kinds_pass_byte_for_byte(texts: list[Text]) -> None:
    """A manifest of others is none of our business, whatever is in it."""
    text = "---\n".join(each.text.removeprefix("---\n") for each in texts)
    assert converted(text).text == text


@RELAXED
@given(roots())
@example({"a": 1e-06})
def test_yaml_of_our_own_means_the_same_to_every_reader(value: dict[str, Any]) -> None:
    """What ``-o yaml`` prints must not be taken for something else by kubectl, or by readers of YAML 1.1."""
    text = write_yaml(value)
    assert same(read(text)[0].data, value)
    loaded = yaml.safe_load(text)
    assert json.dumps(loaded) == json.dumps(value)
