"""``restow profile evaluate``: show the classification of every version at a time."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from restow.cli import options
from restow.cli.exits import InputError
from restow.cli.printing import print_data, print_table
from restow.commands.profile.inputs import Profile, at_option, files_option, moment, offers, read_profiles

if TYPE_CHECKING:
    from restow.cloudprofile.objects import Object


@click.command("evaluate")
@files_option
@at_option
@options.output
def command(files: tuple[Path, ...], at: str | None, output: str) -> None:
    """Show the classification of every version of profiles at a time, the next one, and when it begins.

    A NamespacedCloudProfile is shown with the versions of its parent, which the manifests must have.

    Exit codes: 0 shown; 1 an API server would refuse a profile; 2 usage, or a manifest that is none.

    \b
    restow profile evaluate -f cloudprofile.yaml --at 2026-03-01T00:00:00Z
    """
    now = moment(at)
    found = [row for profile, spec in offers(read_profiles(files)) for row in _rows(profile, spec, now)]
    if output != "table":
        print_data({"at": _written(now), "versions": found}, output)
        return
    columns = ("profile", "of", "version", "classification", "next", "from")
    print_table(columns, ([row[name] or "" for name in columns] for row in found))


def _rows(profile: Profile, spec: Object, now: datetime) -> Iterator[dict[str, Any]]:
    from restow.cloudprofile.objects import image_versions, kubernetes_versions, machine_images
    from restow.cloudprofile.versions.lifecycle import classification_at, next_transition

    lists = [("Kubernetes", kubernetes_versions(spec))]
    lists += [(str(image.get("name") or ""), image_versions(image)) for image in machine_images(spec)]
    for group, versions in lists:
        for version in versions:
            name = str(version.get("version") or "")
            try:
                change = next_transition(version, now)
                is_now = classification_at(version, now)
                becomes = None if change is None else classification_at(version, change)
            except ValueError as error:
                raise InputError(f"{profile.kind} {profile.name}, {group} {name}: {error}") from error
            yield {
                "profile": profile.name,
                "of": group,
                "version": name,
                "classification": is_now.value,
                "next": None if becomes is None else becomes.value,
                "from": None if change is None else _written(change),
            }


def _written(at: datetime) -> str:
    return at.isoformat().replace("+00:00", "Z")
