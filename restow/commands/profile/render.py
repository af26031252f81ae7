"""``restow profile render``: render a NamespacedCloudProfile with its parent."""

from __future__ import annotations

from pathlib import Path

import click

from restow.cli.printing import print_data
from restow.commands.profile.inputs import files_option, one, read_profiles, rendered


@click.command("render")
@files_option
@click.option("-o", "--output", type=click.Choice(["yaml", "json"]), default="yaml", help="How to print the result.")
def command(files: tuple[Path, ...], output: str) -> None:
    """Render a NamespacedCloudProfile with its parent, as `status.cloudProfileSpec` will have it.

    The manifests have one NamespacedCloudProfile and the CloudProfile that it names.

    Exit codes: 0 rendered; 1 an API server would refuse a profile; 2 usage, or a manifest that is none.

    \b
    restow profile render -f cloudprofile.yaml -f namespacedcloudprofile.yaml
    """
    profiles = read_profiles(files)
    namespaced = one(profiles, "NamespacedCloudProfile")
    print_data(rendered(namespaced, profiles), output)
