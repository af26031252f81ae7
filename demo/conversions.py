"""The half of the journey that needs no cluster: check rules, convert a manifest, and see what is compiled."""

from __future__ import annotations

import asyncio
from pathlib import Path

from demo.client import DemoError
from demo.narration import Narration
from restow import crds
from restow.conversion.rulefiles import load
from restow.main import main

__all__ = ["show_conversions"]

_FOLDER = "docs/examples/profile"
_CHECKOUT = Path(__file__).parents[1]
_FROM = f"--rules {_FOLDER}/conversions.yaml --crd {_FOLDER}/crd.yaml"


async def show_conversions(narration: Narration) -> None:
    """Run the commands on the files of an example, and show a part of the generated function."""
    narration.say(f"{_FOLDER}/conversions.yaml says, as data, what differs between v1 and v2 of a CRD:")
    rules = (_CHECKOUT / _FOLDER / "conversions.yaml").read_text(encoding="utf-8")
    for line in rules.partition("    rules:\n")[2].splitlines():
        narration.output(line.strip())
    for said, command in (
        ("Do the rules account for every field of both schemas?", f"check {_FROM}"),
        (
            "restow converts manifests, and keeps comments and order:",
            f"convert {_FROM} -f {_FOLDER}/profile.yaml --to v2",
        ),
        ("It explains where each field came from:", f"explain {_FROM} -f {_FOLDER}/profile.yaml --to v2"),
    ):
        narration.say(said)
        narration.command(f"restow {command}")
        await asyncio.to_thread(_run, command)
    _show_compiled(narration, rules)


def _run(command: str) -> None:
    """Run a command in this process; it prints where this process prints."""
    words = [str(_CHECKOUT / word) if word.startswith(_FOLDER) else word for word in command.split()]
    try:
        main.main(words, prog_name="restow", standalone_mode=False)
    except SystemExit as end:
        if end.code:
            message = f"restow {command} ended with {end.code}."
            raise DemoError(message) from None


def _show_compiled(narration: Narration, rules: str) -> None:
    """Show what the compiler made of the first rule."""
    graph = load(rules).freeze(crds.load(_CHECKOUT / _FOLDER / "crd.yaml"))
    lines = graph.kind("core.example.dev", "Profile").routes["v1", "v2"].source.splitlines()
    function = lines[: next(number for number, line in enumerate(lines) if "convert_with_stash" in line)]
    narration.say(
        f"The rules became a function of {len(function)} lines, generated and compiled once. These rename spec.ttl, "
        "without a look at the rules:"
    )
    for line in function:
        if "_ttl_" in line and "_image_" not in line:
            narration.output(line.strip())
