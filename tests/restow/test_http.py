"""The import of aiohttp by commands, which reads no certificates that nobody uses."""

from __future__ import annotations

import subprocess
import sys

SCRIPT = """
import ssl
methods = {name: getattr(ssl.SSLContext, name) for name in ("load_default_certs", "set_default_verify_paths")}
from restow.cli.http import import_quickly
import_quickly()
from aiohttp.connector import _SSL_CONTEXT_UNVERIFIED, _SSL_CONTEXT_VERIFIED
assert all(getattr(ssl.SSLContext, name) is method for name, method in methods.items())
contexts = (_SSL_CONTEXT_VERIFIED, _SSL_CONTEXT_UNVERIFIED)
print(*(each.cert_store_stats()["x509"] for each in contexts))
for each in contexts:
    each.wrap_bio(ssl.MemoryBIO(), ssl.MemoryBIO(), server_hostname="a.example.com")
print(*(each.cert_store_stats() == ssl.create_default_context().cert_store_stats() for each in contexts))
"""


def test_certificates_are_read_at_the_first_connection() -> None:
    """Each command would read all CAs of the machine twice; or other code of the process could verify no server."""
    ran = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, check=False)
    assert (ran.stdout, ran.stderr) == ("0 0\nTrue True\n", "")
