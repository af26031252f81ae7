"""The address of a webhook in a flag: ``NAMESPACE/SERVICE[:PORT]`` or ``https://HOST[:PORT]``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from restow.conversion.certificates.wiring.clientconfig import Address

KEPT_IN: Final = "restow-webhook"
"""The Secret with the certificate of a webhook at a URL, in the client's default namespace."""

_SERVICE = re.compile(r"(?P<namespace>[a-z0-9-]+)/(?P<name>[a-z0-9-]+)(:(?P<port>\d{1,5}))?", re.ASCII)


def read_address(text: str, flag: str = "--own-ca") -> Address:
    """Return the webhook's address in a flag's value: ``NAMESPACE/SERVICE[:PORT]`` or ``https://HOST[:PORT]``.

    Raises:
        click.UsageError: the text is not such an address.
    """
    from restow.conversion.certificates import Service, Url

    found = _SERVICE.fullmatch(text)
    try:
        if text.startswith("https://"):
            return Url(text.rstrip("/"))
        if found is not None:
            return Service(found["namespace"], found["name"], port=int(found["port"] or 443))
    except ValueError as error:
        msg = f"{flag} {text!r}: {error}"
        raise click.UsageError(msg) from error
    msg = f"{flag} takes NAMESPACE/SERVICE[:PORT] or https://HOST[:PORT], not {text!r}"
    raise click.UsageError(msg)


def at(address: Address, path: str) -> Address:
    """Return the address of one path of the webhook."""
    from restow.conversion.certificates import Service, Url

    if isinstance(address, Service):
        return Service(address.namespace, address.name, path, address.port)
    return Url(address.url + path)
