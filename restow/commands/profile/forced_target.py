"""``restow profile forced-target``: show the targets of a version's updates, step by step."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from restow.cli import options
from restow.cli.exits import Exit, InputError
from restow.cli.printing import echo, print_data, say
from restow.commands.profile.inputs import at_option, files_option, moment, offers, one, read_profiles

if TYPE_CHECKING:
    from restow.cloudprofile.objects import Object


@click.command("forced-target")
@click.argument("version")
@files_option
@click.option("--image", metavar="NAME", help="VERSION is one of this machine image, not of Kubernetes.")
@at_option
@options.output
def command(version: str, files: tuple[Path, ...], image: str | None, at: str | None, output: str) -> None:
    """Show where updates take a Shoot on VERSION: the automatic one, and the forced ones until none is forced.

    The manifests have one CloudProfile; or one NamespacedCloudProfile and its parent, for Shoots of that project.

    Exit codes: 0 shown; 1 a forced update has nowhere to go, or an API server would refuse a profile; 2 usage, or a
    manifest that is none.

    \b
    restow profile forced-target 1.31.4 -f cloudprofile.yaml
    restow profile forced-target 1592.1.0 --image gardenlinux -f cloudprofile.yaml
    """
    profiles = read_profiles(files)
    kinds = {each.kind for each in profiles}
    profile = one(profiles, "NamespacedCloudProfile" if "NamespacedCloudProfile" in kinds else "CloudProfile")
    ((_, spec),) = (each for each in offers(profiles) if each[0] is profile)
    now = moment(at)
    name = f"{profile.kind} {profile.name}"
    try:
        answer = _kubernetes(spec, version, now) if image is None else _image(name, spec, image, version, now)
    except ValueError as error:
        raise InputError(f"{name}: {error}") from error
    show(answer, output)
    raise SystemExit(int(Exit.FAILURES if answer["gap"] else Exit.DONE))


def _kubernetes(spec: Object, version: str, now: datetime) -> dict[str, Any]:
    from restow.cloudprofile.objects import kubernetes_versions
    from restow.cloudprofile.versions.updates import auto_target, due, forced_chain

    versions = kubernetes_versions(spec)
    why = due(versions, version, now, auto_update=False)
    chain = forced_chain(versions, version, now)
    return {
        "version": version,
        "automatic": auto_target(versions, version, now),
        "forced": list(chain.steps),
        "why": None if why is None else why.reason,
        "gap": None if chain.gap is None else chain.gap.detail,
    }


def _image(profile: str, spec: Object, name: str, version: str, now: datetime) -> dict[str, Any]:
    from restow.cloudprofile.objects import machine_images
    from restow.cloudprofile.versions.updates import image_due, image_target

    image = next((each for each in machine_images(spec) if each.get("name") == name), None)
    if image is None:
        raise InputError(f"{profile} has no machine image {name}")
    why = image_due(image, {"name": name, "version": version}, now, auto_update=False)
    steps, gap = _chain(image, name, version, now)
    return {
        "version": version,
        "automatic": image_target(image, version, now, forced=False),
        "forced": steps,
        "why": None if why is None else why.reason,
        "gap": gap,
    }


def _chain(image: Object, name: str, version: str, now: datetime) -> tuple[list[str], str | None]:
    from restow.cloudprofile.versions.updates import NoUpdateTarget, image_due, image_target

    steps: list[str] = []
    is_due: Callable[[str], Any] = lambda current: image_due(  # noqa: E731 - a name for a long call
        image, {"name": name, "version": current}, now, auto_update=False
    )
    while is_due(version):
        try:
            target = image_target(image, version, now, forced=True)
        except NoUpdateTarget as error:
            return steps, str(error)
        if target is None:
            break
        steps.append(target)
        version = target
    return steps, None


def show(answer: dict[str, Any], form: str) -> None:
    """Print the chain of updates on one line, or everything as JSON or YAML."""
    if form != "table":
        print_data(answer, form)
        return
    if answer["why"] is None:
        echo(f"{answer['version']}: no update is forced; automatic update: {answer['automatic'] or 'none'}")
        return
    echo(" -> ".join((answer["version"], *answer["forced"])) + f"  ({answer['why']})")
    if answer["gap"]:
        say(answer["gap"], style="red")
