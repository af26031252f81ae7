"""An author's conversions as a migrator's converter, and the flags that name them."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from restow.cli.registries import ConversionSource, GraphConverter, graph_converters, load_converters
from restow.conversion import Registry, rules
from restow.migrator import MigrationRefused, Unconverted
from tests.migrator import builders as b
from tests.restow.commandline import restow

V1, V2 = b.api_version("v1"), b.api_version("v2")
CRD = "widgets.example.com"


def refuse(_value: Any) -> Any:
    """An author's function that cannot take every value."""
    if _value == "odd":
        raise ValueError("secret")
    return _value


def registry(*versions: str) -> Registry:
    """Widgets with v2 as their hub, and these spokes."""
    made = Registry()
    kind = made.kind(b.GROUP, "Widget", hub="v2")
    for version in versions:
        kind.spoke(version)(lambda: [rules.pair("spec.host", "spec.address", up=refuse, down=refuse)])
    return made


def widget(host: str, version: str = V1) -> dict[str, Any]:
    """An object."""
    return {"apiVersion": version, "kind": "Widget", "metadata": {"name": host}, "spec": {"host": host}}


def test_each_object_is_answered_for_by_itself() -> None:
    """One that the rules refuse must be named without its values, and not stop the others."""
    converter = GraphConverter(registry("v1").freeze())
    good, odd, other, last = asyncio.run(
        converter.convert([widget("a"), widget("odd"), widget("b") | {"kind": "Gadget"}, widget("c")], V2)
    )
    assert isinstance(good, dict) and good["spec"] == {"address": "a"}
    assert isinstance(odd, Unconverted) and odd.refused and "secret" not in odd.message
    assert isinstance(other, Unconverted) and "Gadget" in other.message
    assert isinstance(last, dict) and last["spec"] == {"address": "c"}


def test_other_tasks_have_their_turn() -> None:
    """A page that is converted at a stretch would starve the writes in flight, and a Lease."""
    turns = 0

    async def others() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    async def run() -> None:
        concurrent = asyncio.create_task(others())
        await GraphConverter(registry("v1").freeze()).convert([widget("a")] * 20_000, V2)
        concurrent.cancel()

    asyncio.run(run())
    assert turns > 2


def test_kinds_that_the_graph_does_not_know_are_left_to_their_webhooks() -> None:
    """``--all`` with one provider's registry meets every other provider's CRD, too."""
    assert graph_converters(registry("v1").freeze())(b.crd(webhook=True)) is not None
    assert graph_converters(Registry().freeze())(b.crd(webhook=True)) is None


def test_a_graph_of_another_release_is_refused() -> None:
    """Entries would be stripped, or objects fail, for want of a version that the right registry knows."""
    with pytest.raises(MigrationRefused, match="but not its version v1: it is of another release"):
        graph_converters(registry("v0").freeze())(b.crd(webhook=True))
    assert graph_converters(registry("v0", "v1").freeze())(b.crd(webhook=True)) is not None


def test_the_flags_name_a_registry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The module is looked for where people stand, as with the other commands."""
    text = f"from restow.conversion import Registry\nmine = Registry()\nmine.kind({b.GROUP!r}, 'Widget', hub='v2')\n"
    (tmp_path / "widget_provider.py").write_text(text)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(tmp_path)
    assert load_converters(ConversionSource("widget_provider:mine"))(b.crd(("v2",), webhook=True)) is not None


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--crd", __file__], "--crd says what --registry or --rules is for: give both"),
        (["--registry", "nonsense"], "--registry takes module:attribute"),
        (["--registry", "nowhere.at.all:x"], "there is no module nowhere"),
        (["--conversion-url", "localhost:9443"], "give https://HOST:PORT/PATH"),
        (["--conversion-url", "http://hook.example.com"], "http only for this machine"),
    ],
)
@pytest.mark.parametrize("command", ["plan", "migrate"])
def test_wrong_use(command: str, arguments: list[str], said: str) -> None:
    """Told before any server is asked."""
    ran = restow(command, CRD, *arguments, kubeconfig=Path("/nonexistent"))
    assert ran.code == 2 and said in " ".join(ran.err.split()) and ran.out == ""
