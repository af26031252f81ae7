"""``restow rules``: print conversion rules as data, or their JSON Schema."""

from __future__ import annotations

import click

from restow.cli.exits import InputError
from restow.cli.printing import print_data, print_text


@click.command("rules")
@click.option("--registry", metavar="MODULE:ATTR", help="The Registry of Python to print.")
@click.option("--schema", is_flag=True, help="Print the JSON Schema, by which editors complete and check a file.")
def command(registry: str | None, schema: bool) -> None:
    """Print conversion rules as data, or their JSON Schema.

    A file of ConversionRules declares conversions without Python. Every command that takes --registry takes such a file
    as --rules. The file converts as the registry does, and prints as the same bytes. Rules that hold functions of
    Python cannot be printed: write them as standard rules, or with CEL expressions.

    Exit codes: 0 printed; 2 usage, or a rule holds a function.

    \b
    restow rules --registry example.conversions:registry > conversions.yaml
    restow rules --schema > conversionrules.schema.json
    """
    if (registry is None) is not schema:
        msg = "give --registry MODULE:ATTR or --schema"
        raise click.UsageError(msg)
    from restow.cli.registries import registry_at
    from restow.conversion.rulefiles import NotData, dump, json_schema

    if registry is None:
        print_data(json_schema(), "json")
        return
    try:
        print_text(dump(registry_at(registry)))
    except NotData as error:
        first, *rules = str(error).splitlines()
        raise InputError(first, rules) from error
