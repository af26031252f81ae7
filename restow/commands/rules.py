"""``restow rules``: the rules that a file can have, conversion rules as data, and their JSON Schema."""

from __future__ import annotations

import click
from click.shell_completion import CompletionItem

from restow.cli.exits import InputError
from restow.cli.printing import print_data, print_table, print_text
from restow.cli.shared import dressed


class _Group(click.Group):
    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        found = super().get_command(context, name)
        return found and dressed(found)

    def format_commands(self, _context: click.Context, formatter: click.HelpFormatter) -> None:
        with formatter.section("Commands"):
            formatter.write_dl([(name, (each.help or "").partition("\n")[0]) for name, each in self.commands.items()])


@click.command("rules", cls=_Group)
def command() -> None:
    """List, explain and print conversion rules, or their JSON Schema.

    A file of ConversionRules declares conversions without Python. Every command that takes --registry takes such a file
    as --rules.

    Exit codes: 0 printed; 2 usage, there is no such rule, or a rule holds a function.

    \b
    restow rules list
    """


@command.command("list")
def list_rules() -> None:
    """List the rules that a file of ConversionRules can have.

    Exit codes: 0 printed; 2 usage.

    \b
    restow rules list
    """
    from restow.conversion.rulefiles.reference import EXAMPLES, summary

    rows = ((name, title, summary(name)) for title, examples in EXAMPLES.items() for name in examples)
    print_table(("rule", "for", "what it is"), rows)


def _completed(_context: click.Context, _parameter: click.Parameter, incomplete: str) -> list[CompletionItem]:
    from restow.conversion.rulefiles.vocabulary import vocabulary

    return [CompletionItem(name) for name in vocabulary() if name.startswith(incomplete)]


@command.command("explain")
@click.argument("rule", shell_complete=_completed)
def explain_rule(rule: str) -> None:
    """Explain a rule: its YAML, what both versions show, what it loses.

    What the parameters are is printed too, and where a real project uses the rule.

    Exit codes: 0 printed; 2 usage, or there is no such rule.

    \b
    restow rules explain duration
    """
    from restow.conversion.rulefiles.reference import explained
    from restow.conversion.rulefiles.vocabulary import vocabulary
    from restow.kube.suggestions import did_you_mean

    if rule not in vocabulary():
        advice = did_you_mean(rule, [*vocabulary()]) or "restow rules list names them"
        raise InputError(f"there is no rule {rule}: {advice}")
    print_text(explained(rule))


@command.command("print")
@click.option("--registry", required=True, metavar="MODULE:ATTR", help="The Registry of Python to print.")
def print_registry(registry: str) -> None:
    """Print a registry of Python as a file of ConversionRules.

    The file converts as the registry does, and prints as the same bytes. Rules that hold functions of Python cannot be
    printed: write them as standard rules, or with CEL expressions.

    Exit codes: 0 printed; 2 usage, or a rule holds a function.

    \b
    restow rules print --registry example.conversions:registry > conversions.yaml
    """
    from restow.cli.registries import registry_at
    from restow.conversion.rulefiles import NotData, dump

    try:
        print_text(dump(registry_at(registry)))
    except NotData as error:
        first, *rules = str(error).splitlines()
        raise InputError(first, rules) from error


@command.command("schema")
def print_schema() -> None:
    """Print the JSON Schema, by which editors complete and check a file.

    Exit codes: 0 printed; 2 usage.

    \b
    restow rules schema > conversionrules.schema.json
    """
    from restow.conversion.rulefiles import json_schema

    print_data(json_schema(), "json")
