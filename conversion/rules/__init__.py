"""The rules that authors declare. Each rule defines both directions.

By convention the first path is the spoke's, the second the hub's. All rules leave an absent field absent and a null
field null, and never change a field that they do not claim.

    rename, move            the same value at another path
    enum, wrap, unwrap      the same value in another form
    pair, functions         a group of leaves, converted by the author's functions
    constant, default       a field of one version that the other version implies
    stash, drop             a field of one version alone: kept in the stash, or dropped on purpose
    waive                   a field that one version requires and the other may lack, on purpose
    each, each_value, inside    rules inside list items, map values, or one object
    when                    rules for one branch of a union
"""

from restow.conversion.rules.lens import functions, pair, unwrap, wrap
from restow.conversion.rules.move import move, rename
from restow.conversion.rules.onesided import constant, default, drop, stash, waive
from restow.conversion.rules.protocol import Rule
from restow.conversion.rules.scopes import each, each_value, inside
from restow.conversion.rules.standard.casts import cast
from restow.conversion.rules.standard.copies import copy
from restow.conversion.rules.standard.enums import enum
from restow.conversion.rules.standard.lists import conditions, select
from restow.conversion.rules.standard.maps import fields, keyed, keys
from restow.conversion.rules.standard.numbers import duration, quantity, scale
from restow.conversion.rules.standard.objects import described, gather, json, spread
from restow.conversion.rules.standard.texts import join, split, template
from restow.conversion.rules.unions import when

__all__ = [
    "Rule",
    "cast",
    "conditions",
    "constant",
    "copy",
    "default",
    "described",
    "drop",
    "duration",
    "each",
    "each_value",
    "enum",
    "fields",
    "functions",
    "gather",
    "inside",
    "join",
    "json",
    "keyed",
    "keys",
    "move",
    "pair",
    "quantity",
    "rename",
    "scale",
    "select",
    "split",
    "spread",
    "stash",
    "template",
    "unwrap",
    "waive",
    "when",
    "wrap",
]
