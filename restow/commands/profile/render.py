"""``restow profile render``: what a NamespacedCloudProfile and its parent make together."""

from __future__ import annotations

from pathlib import Path

import click

from restow.cli.exits import InputError
from restow.cli.printing import print_data
from restow.cloudprofile.objects import parent_of
from restow.cloudprofile.profiles.rendering import render
from restow.commands.profile.inputs import files_option, one, read_profiles

__all__ = ["command"]


@click.command("render")
@files_option
@click.option("-o", "--output", type=click.Choice(["yaml", "json"]), default="yaml", help="How to print the result.")
def command(files: tuple[Path, ...], output: str) -> None:
    """Render a NamespacedCloudProfile with its parent, as `status.cloudProfileSpec` will have it.

    The manifests have one NamespacedCloudProfile and the CloudProfile that it names.

    Exit codes: 0 rendered; 2 usage, or a manifest that is none.

    \b
    restow profile render -f cloudprofile.yaml -f namespacedcloudprofile.yaml
    """
    profiles = read_profiles(files)
    namespaced = one(profiles, "NamespacedCloudProfile")
    wanted = parent_of(namespaced.document)
    parents = [each for each in profiles if each.kind == "CloudProfile" and wanted and each.name == wanted.name]
    if not parents:
        raise InputError(f"NamespacedCloudProfile {namespaced.name} names {wanted}, which is not in the manifests")
    try:
        rendered = render(parents[0].spec, namespaced.spec)
    except ValueError as error:
        raise InputError(f"NamespacedCloudProfile {namespaced.name} cannot be rendered: {error}") from error
    print_data(rendered, output)
