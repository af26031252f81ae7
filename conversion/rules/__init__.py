"""The vocabulary of declarations: one rule says both directions.

By convention the first path is the spoke's, the second the hub's. All rules keep what is absent absent and null
null, and never touch what they do not claim.

    rename, move            the same value at another path
    enum, wrap, unwrap      the same value, spelled otherwise
    pair, functions         a group of leaves by functions of the author
    constant, default       a field of one version that the other one only implies
    stash, drop             a field that one version alone has: kept, or knowingly let go
    each, each_value, inside    rules inside of list items, map values, one object
"""

from restow.conversion.rules.constructors import (
    constant,
    default,
    drop,
    each,
    each_value,
    enum,
    functions,
    inside,
    move,
    pair,
    rename,
    stash,
    unwrap,
    wrap,
)
from restow.conversion.rules.model import Rule

__all__ = [
    "Rule",
    "constant",
    "default",
    "drop",
    "each",
    "each_value",
    "enum",
    "functions",
    "inside",
    "move",
    "pair",
    "rename",
    "stash",
    "unwrap",
    "wrap",
]
