"""Where the API server is and how to prove who we are, read by kubernetes-asyncio's configuration loaders.

kubernetes-asyncio understands kubeconfig files (merged from ``KUBECONFIG``), exec plugins, OIDC and the service
account of a pod; only that half of it is used. It is imported here, lazily, since it costs 0.4 s and 70 MB.
What its loaders leave to the caller is done here: credentials that expire are loaded anew (``Connection.renew_at``),
client certificates of exec plugins included.
"""

from __future__ import annotations

import os
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from restow.kube.errors import ConfigError

__all__ = ["Connection", "load_connection"]

_DEFAULT_KUBECONFIG = "~/.kube/config"
_NAMESPACE_FILE = Path("/var/run/secrets/kubernetes.io/serviceaccount/namespace")
_TOKEN_FILE_PERIOD = timedelta(minutes=1)  # the kubelet rotates projected tokens in place; client-go re-reads as often
_RENEWAL_MARGIN = timedelta(minutes=1)


@dataclass(frozen=True, slots=True)
class Connection:
    """Everything needed to open a session: no secret of it ever shows in a ``repr``.

    Attributes:
        host: ``https://host:port``, without a trailing slash.
        tls: the TLS context, client certificate included; None for plain http.
        server_hostname: the name to verify the server's certificate against, where it is not the host's.
        proxy: URL of the proxy to go through, or None.
        authorization: value of the Authorization header, or None with client certificates.
        namespace: the namespace of the context or pod.
        renew_at: when to load the credentials anew, or None if they do not expire.
    """

    host: str
    tls: ssl.SSLContext | None
    server_hostname: str | None
    proxy: str | None
    authorization: str | None
    namespace: str
    renew_at: datetime | None

    def __repr__(self) -> str:
        return f"Connection(host={self.host!r}, namespace={self.namespace!r})"


async def load_connection(
    kubeconfig: str | os.PathLike[str] | None = None,
    context: str | None = None,
    *,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> Connection:
    """Load as kubectl does: the given file, else ``KUBECONFIG``, else ``~/.kube/config``, else the pod's account.

    Raises:
        ConfigError: nothing usable is configured; the message says what was looked at.
    """
    files = os.fspath(kubeconfig) if kubeconfig is not None else os.environ.get("KUBECONFIG") or _DEFAULT_KUBECONFIG
    present = [file for file in files.split(os.pathsep) if file and Path(file).expanduser().is_file()]
    if present:
        paths = os.pathsep.join(str(Path(file).expanduser()) for file in present)
        return await _from_kubeconfig(paths, context, now)
    if kubeconfig is not None or os.environ.get("KUBECONFIG") or context is not None:
        msg = f"kubeconfig {files!r} does not exist: give --kubeconfig FILE or set KUBECONFIG"
        raise ConfigError(msg)
    if "KUBERNETES_SERVICE_HOST" in os.environ:
        return _from_pod(now)
    msg = (
        f"no cluster is configured: {files} does not exist and this is not a pod; give --kubeconfig FILE or "
        "set KUBECONFIG"
    )
    raise ConfigError(msg)


async def _from_kubeconfig(paths: str, context: str | None, now: Callable[[], datetime]) -> Connection:
    from kubernetes_asyncio import config as kube_config

    settings = _empty_configuration()
    try:
        loader = await kube_config.load_kube_config(
            config_file=paths, context=context, client_configuration=settings, persist_config=False
        )
        chosen = (loader.current_context or {}).get("context", {})
    except Exception as error:  # the loader raises whatever its YAML, assertions and plugins raise
        msg = f"kubeconfig {paths!r} cannot be used: {_first_line(error)}"
        raise ConfigError(msg) from error
    renew_at = getattr(loader, "exec_plugin_expiry", None)
    if renew_at is not None:
        renew_at -= _RENEWAL_MARGIN
    elif loader._user is not None and "tokenFile" in loader._user:
        renew_at = now() + _TOKEN_FILE_PERIOD
    return _connection(settings, namespace=chosen.get("namespace") or "default", renew_at=renew_at)


def _from_pod(now: Callable[[], datetime]) -> Connection:
    from kubernetes_asyncio import config as kube_config

    settings = _empty_configuration()
    try:
        kube_config.load_incluster_config(client_configuration=settings, try_refresh_token=False)
        namespace = _NAMESPACE_FILE.read_text(encoding="utf-8").strip() if _NAMESPACE_FILE.exists() else "default"
    except Exception as error:
        msg = f"this pod's service account cannot be used: {_first_line(error)}"
        raise ConfigError(msg) from error
    return _connection(settings, namespace=namespace, renew_at=now() + _TOKEN_FILE_PERIOD)


def _empty_configuration() -> Any:
    from kubernetes_asyncio.client.configuration import Configuration

    # Configuration() would copy a process-wide default that a host program may have set.
    return type.__call__(Configuration)


def _connection(settings: Any, *, namespace: str, renew_at: datetime | None) -> Connection:
    host = str(settings.host).rstrip("/")
    return Connection(
        host=host,
        tls=_tls(settings) if host.startswith("https") else None,
        server_hostname=settings.tls_server_name,
        proxy=settings.proxy or _proxy_of_environment(host),
        authorization=settings.api_key.get("BearerToken"),
        namespace=namespace,
        renew_at=renew_at,
    )


def _tls(settings: Any) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=settings.ssl_ca_cert)
        if settings.cert_file:
            context.load_cert_chain(settings.cert_file, keyfile=settings.key_file)
    except (OSError, ssl.SSLError) as error:
        msg = f"the certificates of the kubeconfig cannot be used: {_first_line(error)}"
        raise ConfigError(msg) from error
    if not settings.verify_ssl:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _proxy_of_environment(host: str) -> str | None:
    """HTTPS_PROXY and NO_PROXY, read once: aiohttp would look them and ~/.netrc up at every request."""
    url = urlsplit(host)
    proxy = getproxies().get(url.scheme)
    return None if proxy is None or proxy_bypass(url.hostname or "") else proxy


def _first_line(error: Exception) -> str:
    text = str(error).strip().splitlines()
    return text[0][:300] if text else type(error).__name__
