"""What may be asked of a migration."""

from __future__ import annotations

from typing import Any

import pytest

from restow.migrator import Engine, ManagedFields, Options, Phase, Scope, Shard


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"concurrency": 0}, "Options.concurrency must be 1 or more, not 0"),
        ({"concurrency": -3}, "Options.concurrency must be 1 or more, not -3"),
        ({"concurrency": 1.5}, "Options.concurrency must be a whole number, not of type float"),
        ({"concurrency": True}, "Options.concurrency must be a whole number, not of type bool"),
        ({"passes": 0}, "Options.passes must be 1 or more, not 0"),
        ({"page_size": 0}, "Options.page_size must be 1 or more, not 0"),
        ({"page_size": "500"}, "Options.page_size must be a whole number, not of type str"),
        ({"rate": 0}, "Options.rate must be a number of writes per second above 0, not 0"),
        ({"rate": float("nan")}, "Options.rate must be a number of writes per second above 0, not nan"),
        ({"settle_s": -1}, "Options.settle_s must be a number of seconds from 0 on, not -1"),
        ({"settle_s": float("inf")}, "Options.settle_s must be a number of seconds from 0 on, not inf"),
        ({"settle_s": None}, "Options.settle_s must be a number of seconds from 0 on, not of type NoneType"),
        ({"patience_s": float("nan")}, "Options.patience_s must be a number of seconds from 0 on, not nan"),
        ({"native_patience_s": "1h"}, "Options.native_patience_s must be a number of seconds from 0 on, not of type"),
        ({"engine": "nativ"}, "Options.engine knows direct, native, auto, not 'nativ'"),
        ({"scope": 1}, "Options.scope must be made of Scope, not of type int"),
        ({"managed_fields": "drop"}, "Options.managed_fields knows translate, strip, keep, not 'drop'"),
        ({"skip": "prune"}, "Options.skip must be a collection, not of type str"),
        ({"skip": ["prune", "list"]}, "Options.skip knows storage, managed-fields, prune, not 'list'"),
        ({"dry_run": "false"}, "Options.dry_run must be True or False, not of type str"),
        ({"namespace": ""}, "Options.namespace must not be empty: give None where there is none"),
        ({"selector": ""}, "Options.selector must not be empty: give None where there is none"),
        ({"selector": {"a": "b"}}, "Options.selector must be a string or None, not of type dict"),
        ({"conversion_url": "ftp://h"}, "Options.conversion_url: this is no URL of a conversion webhook"),
        ({"api_servers": "https://10.0.0.1:6443"}, "Options.api_servers must be a collection, not of type str"),
        ({"api_servers": ["10.0.0.1:6443"]}, "Options.api_servers takes https://HOST:PORT, not '10.0.0.1:6443'"),
        ({"shard": "0/2"}, "Options.shard must be a Shard or None, not of type str"),
        ({"shard": Shard(0, 2), "namespace": "a"}, "a shard is a part of all objects"),
        ({"shard": Shard(0, 2), "selector": "a=b"}, "a shard is a part of all objects"),
        ({"shard": Shard(0, 2), "engine": Engine.NATIVE}, "the engine native goes with no shard"),
        ({"engine": Engine.NATIVE, "namespace": "a"}, "the engine native goes with no namespace"),
        ({"engine": Engine.NATIVE, "selector": "a=b"}, "the engine native goes with no namespace"),
        ({"engine": "native", "dry_run": True}, "the engine native goes with no namespace, selector or dry run"),
    ],
)
def test_what_cannot_be_meant_is_refused_when_it_is_asked_for(options: dict[str, Any], said: str) -> None:
    """In the middle of a run it is a traceback, or a dry run that writes, hours after an operator has started."""
    with pytest.raises((TypeError, ValueError)) as caught:
        Options(**options)
    assert str(caught.value).startswith(said)


@pytest.mark.parametrize(
    "options",
    [
        {"shard": Shard(0, 2), "dry_run": True},
        {"shard": Shard(0, 2), "engine": Engine.AUTO},
        {"engine": Engine.AUTO, "namespace": "a", "dry_run": True},
        {"engine": Engine.NATIVE},
        {"settle_s": 0, "native_patience_s": 0.5, "rate": 0.1, "page_size": 1},
    ],
)
def test_what_goes_together_is_taken(options: dict[str, Any]) -> None:
    """A check that refuses what works is a release that nobody can upgrade to."""
    assert all(getattr(Options(**options), name) == value for name, value in options.items())


def test_settings_read_from_a_file_are_taken_as_they_are_spelled() -> None:
    """A string that equals an enum's value and is none made the engine ``native`` a ``direct`` one without a word."""
    given: Any = {"engine": "native", "scope": "removed", "managed_fields": "strip", "skip": ["prune"]}
    options = Options(**given, api_servers=["https://h:1"])
    assert options.engine is Engine.NATIVE
    assert options.scope is Scope.REMOVED
    assert options.managed_fields is ManagedFields.STRIP
    assert (options.skip, options.api_servers) == (frozenset({Phase.PRUNE}), ("https://h:1",))
    assert hash(options)
