"""Which CRDs are meant by targets, and which options cannot be a reconciler's."""

from __future__ import annotations

from typing import Any

import pytest

from restow.crds import Crd
from restow.migrator.model.options import Engine, Options, Phase, Shard
from restow.migrator.operate.reconciler import choice, in_group, labelled
from tests.migrator import builders as b

WIDGETS = b.crd()
DEFAULT = Options(resume=True)
OTHER = Options(skip=frozenset({Phase.PRUNE}))


def with_labels(**labels: str) -> Crd:
    document = WIDGETS.document
    return Crd.from_document({**document, "metadata": document["metadata"] | {"labels": labels}})


def test_names_have_the_default_options_and_exclude_all_others() -> None:
    """What no name stands for must not even be read."""
    chosen = choice(["widgets.example.com"], DEFAULT)
    assert chosen.options_of(WIDGETS) is DEFAULT
    assert chosen.excludes("gadgets.example.com") and not chosen.excludes("widgets.example.com")
    assert choice(["gadgets.example.com"], DEFAULT).options_of(WIDGETS) is None


def test_a_mapping_gives_each_its_own_options() -> None:
    """One CRD is pruned, another is not yet."""
    chosen = choice({"widgets.example.com": OTHER, "gadgets.example.com": DEFAULT}, DEFAULT)
    assert chosen.options_of(WIDGETS) is OTHER and chosen.excludes("others.example.com")


@pytest.mark.parametrize(
    ("answer", "options"), [(True, DEFAULT), (False, None), (None, None), (OTHER, OTHER)], ids=repr
)
def test_a_function_chooses_by_what_the_crd_holds(answer: Any, options: Options | None) -> None:
    """It says whether, or with what; and no name is excluded unseen."""
    chosen = choice(lambda _crd: answer, DEFAULT)
    assert chosen.options_of(WIDGETS) is options and not chosen.excludes("anything.example.org")


def test_a_group_means_its_subgroups_too() -> None:
    """infrastructure.cluster.x-k8s.io belongs to cluster.x-k8s.io, notexample.com not to example.com."""
    assert in_group("example.com")(WIDGETS) and in_group("com")(WIDGETS)
    assert not in_group("ample.com")(WIDGETS) and not in_group("sub.example.com")(WIDGETS)


def test_a_label_may_be_asked_for_with_or_without_its_value() -> None:
    """Operators mark their CRDs so."""
    labelled_crd = with_labels(part="of-it")
    assert labelled("part")(labelled_crd) and labelled("part", "of-it")(labelled_crd)
    assert not labelled("part", "of-other")(labelled_crd) and not labelled("other")(labelled_crd)
    assert not labelled("part")(WIDGETS)


@pytest.mark.parametrize(
    ("targets", "message"),
    [
        ([], "without targets"),
        ({}, "without targets"),
        (["widgets"], "'widgets' is no name of a CRD"),
        ("widgets.example.com", r"write \['widgets.example.com'\]"),
    ],
    ids=["none", "no mapping", "a plural", "a string"],
)
def test_a_slip_is_told_at_once(targets: Any, message: str) -> None:
    """A migrator that watches nothing would be found out when the old version is gone."""
    with pytest.raises(ValueError, match=message):
        choice(targets, DEFAULT)


@pytest.mark.parametrize(
    "options",
    [
        Options(dry_run=True),
        Options(namespace="one"),
        Options(selector="a=b"),
        Options(ignore_mark=True),
        Options(shard=Shard(0, 2)),
    ],
    ids=["dry run", "namespace", "selector", "ignore mark", "shard"],
)
def test_options_that_never_finish_a_crd_are_refused(options: Options) -> None:
    """Such runs leave no mark, so a reconciler would begin again for ever."""
    for made in (
        lambda: choice(["widgets.example.com"], options),
        lambda: choice({"widgets.example.com": options}, DEFAULT),
        lambda: choice(lambda _crd: options, DEFAULT).options_of(WIDGETS),
    ):
        with pytest.raises(ValueError, match="a reconciler finishes CRDs"):
            made()


def test_engines_are_a_reconcilers_too() -> None:
    """Who stores objects again is no matter of when."""
    assert choice(["widgets.example.com"], Options(engine=Engine.NATIVE)).options_of(WIDGETS) is not None
