"""The import of aiohttp for commands, without the CA certificates of the machine.

aiohttp makes two TLS contexts when it is imported, and reads all of these certificates into each: a quarter of the CPU
of a short command. No request of restow uses them, since each has a context of its own. What a plugin of the process
does with them reads the certificates at the first connection. Only commands do this: their process is restow's own.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from ssl import SSLContext
from typing import Any, Final

_LOADERS: Final = ("load_default_certs", "set_default_verify_paths")
_USES: Final = ("wrap_bio", "wrap_socket")


@contextmanager
def _certificates_at_first_use() -> Iterator[None]:
    """Defer the certificates of the contexts that are made meanwhile."""
    loaders = {name: getattr(SSLContext, name) for name in _LOADERS}
    for name, load in loaders.items():
        setattr(SSLContext, name, _deferred(load))
    try:
        yield
    finally:
        for name, load in loaders.items():
            setattr(SSLContext, name, load)


def _deferred(load: Callable[..., None]) -> Callable[..., None]:
    def defer(context: SSLContext, *args: Any) -> None:
        for use in _USES:
            setattr(context, use, _loading(context, use, lambda: load(context, *args)))

    return defer


def _loading(context: SSLContext, use: str, load: Callable[[], None]) -> Callable[..., Any]:
    def loaded(*args: Any, **kwargs: Any) -> Any:
        for each in _USES:
            vars(context).pop(each, None)
        load()
        return getattr(context, use)(*args, **kwargs)

    return loaded


def import_quickly() -> None:
    """Import aiohttp, unless something has imported it before."""
    with _certificates_at_first_use():
        importlib.import_module("aiohttp")
