"""``restow profile manage``: show what automatic version management would change."""

from __future__ import annotations

from pathlib import Path

import click

from restow.cli import options
from restow.cli.exits import Exit, InputError
from restow.cli.printing import echo, print_data, print_table
from restow.commands.profile.inputs import at_option, files_option, moment, one, read_profiles, without_stash


@click.command("manage")
@files_option
@click.option(
    "--config",
    required=True,
    type=click.Path(exists=True, dir_okay=False, allow_dash=True, path_type=Path),
    metavar="FILE",
    help="YAML with kubernetesVersionManagement and its sibling, below controllers.cloudProfile.",
)
@at_option
@click.option("--apply", "applied", is_flag=True, help="Print the changed manifest (v1beta2) instead of the plan.")
@options.output
def command(files: tuple[Path, ...], config: Path, at: str | None, applied: bool, output: str) -> None:
    """Show what automatic version management would change in a CloudProfile, and why.

    Both parts are off unless the configuration enables them. Nothing is written anywhere: pipe the manifest of --apply
    to where your profiles are kept.

    Exit codes: 0 nothing would change; 1 an API server would refuse the profile; 2 usage, or a manifest that is none; 3
    something would.

    \b
    restow profile manage -f cloudprofile.yaml --config policy.yaml
    restow profile manage -f cloudprofile.yaml --config policy.yaml --apply
    """
    from restow.cloudprofile.management import InvalidConfiguration, manage, read_configuration

    profile = one(read_profiles(files), "CloudProfile")
    try:
        with click.open_file(str(config), encoding="utf-8") as text:
            wanted = read_configuration(text.read())
        managed = manage(profile.written.get("spec") or {}, wanted, moment(at))
    except (InvalidConfiguration, OSError, UnicodeDecodeError) as error:
        raise InputError(f"{config}: {error}") from error
    except ValueError as error:
        raise InputError(f"CloudProfile {profile.name}: {error}") from error
    if applied:
        manifest = {**without_stash(profile.written), "spec": managed.spec}
        print_data(manifest, "json" if output == "json" else "yaml")
        return
    rows = [
        {"of": each.key[0] or "Kubernetes", "version": each.key[1], "becomes": each.what, "why": each.why}
        for each in managed.changes
    ]
    if output != "table":
        print_data({"changes": rows}, output)
    elif rows:
        print_table(("of", "version", "becomes", "why"), ([*row.values()] for row in rows))
    else:
        echo(f"Nothing is to be changed in CloudProfile {profile.name}.")
    raise SystemExit(int(Exit.DUE if rows else Exit.DONE))
