"""``restow rules``: print conversion rules as data, and their JSON Schema."""

from __future__ import annotations

from typing import Any

import click
import msgspec

from restow.cli.exits import InputError
from restow.cli.printing import print_text
from restow.cli.registries import registry_at
from restow.conversion.rulefiles import NotData, dump, json_schema


@click.group("rules")
def command() -> None:
    """Print conversion rules as data, and their JSON Schema.

    A file of ConversionRules declares conversions without Python. Every command that takes --registry takes such a file
    as --rules.

    Exit codes: 0 printed; 2 usage, or the rules cannot be printed.

    \b
    restow rules print --registry example.conversions:registry > conversions.yaml
    """


@command.command("print")
@click.option("--registry", required=True, metavar="MODULE:ATTR", help="The Registry of Python to print.")
def print_rules(**flags: Any) -> None:
    """Print a registry of Python as a file of ConversionRules.

    The file converts as the registry does, and prints as the same bytes. Rules that hold functions of Python cannot be
    printed: write them as standard rules, or with CEL expressions.

    Exit codes: 0 printed; 2 usage, or a rule holds a function.

    \b
    restow rules print --registry example.conversions:registry > conversions.yaml
    """
    try:
        print_text(dump(registry_at(flags["registry"])))
    except NotData as error:
        first, *rules = str(error).splitlines()
        raise InputError(first, rules) from error


@command.command("schema")
def schema() -> None:
    """Print the JSON Schema of ConversionRules, by which editors complete and check a file.

    Exit codes: 0 printed; 2 usage.

    \b
    restow rules schema > conversionrules.schema.json
    """
    print_text(msgspec.json.format(msgspec.json.encode(json_schema()), indent=2).decode() + "\n")
