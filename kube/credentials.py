"""The address of the API server and the credentials, renewed before they expire.

``restow.kube.kubeconfig`` finds the entries of a kubeconfig, and ``restow.kube.clientconfig`` reads them and the
service account of a pod. kubernetes-asyncio runs exec plugins and auth providers, and is imported for them only. This
module loads expiring credentials again (``ConnectionSettings.renew_at``), and chooses the environment's proxies as
kubectl does.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import ssl
from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from ipaddress import IPv4Network, IPv6Network, ip_address, ip_network
from pathlib import Path
from urllib.parse import SplitResult, urlsplit
from urllib.request import getproxies, proxy_bypass

from restow.kube.clientconfig import ACCOUNT, ClientConfig
from restow.kube.errors import ConfigError, CredentialsExpired
from restow.kube.impersonation import Impersonation
from restow.kube.kubeconfig import KubeContext, choose_context

_DEFAULT_KUBECONFIG = "~/.kube/config"
_TOKEN_FILE_PERIOD = timedelta(minutes=1)  # the kubelet rotates projected tokens in place; client-go re-reads as often
_RENEWAL_MARGIN = timedelta(minutes=1)
_SHORTEST_PERIOD = timedelta(seconds=1)
_LOADERS_LOG = "kubernetes_asyncio.config.kube_config"
_loading: ContextVar[bool] = ContextVar("restow_loads_credentials", default=False)


@dataclass(frozen=True, slots=True)
class ConnectionSettings:
    """Everything needed to open a session; its ``repr`` shows no secrets.

    Attributes:
        host: ``https://host:port``, without a trailing slash.
        tls: the TLS context, client certificate included; None for plain http.
        server_hostname: the name that the server's certificate is verified against, if not the host's.
        proxy: URL of the proxy to go through, or None.
        authorization: value of the Authorization header, or None with client certificates.
        namespace: the namespace of the context or pod.
        renew_at: when to load the credentials again, or None if they do not expire.
        valid_until: when the credentials expire, as far as they show it.
        context: the kubeconfig's context; None in a pod.
        tls_digest: the digest of the bytes from which ``tls`` was made.
        impersonation: the headers that name the impersonated user; none without one.
    """

    host: str
    tls: ssl.SSLContext | None
    server_hostname: str | None
    proxy: str | None
    authorization: str | None
    namespace: str
    renew_at: datetime | None
    valid_until: datetime | None = None
    context: str | None = None
    tls_digest: bytes = b""
    impersonation: tuple[tuple[str, str], ...] = ()

    def __repr__(self) -> str:
        return f"ConnectionSettings(host={self.host!r}, namespace={self.namespace!r})"


async def load_connection(
    kubeconfig: str | os.PathLike[str] | None = None,
    context: str | None = None,
    *,
    cluster: str | None = None,
    user: str | None = None,
    impersonate: Impersonation | None = None,
    now: Callable[[], datetime] = lambda: datetime.now(UTC),
    known: ConnectionSettings | None = None,
) -> ConnectionSettings:
    """Load as kubectl does: the given file, else ``KUBECONFIG``, else ``~/.kube/config``, else the pod's account.

    Args:
        kubeconfig: as kubectl's flag.
        context: as kubectl's flag.
        cluster, user: as kubectl's flags: names of entries of the kubeconfig that replace the context's own.
        impersonate: as kubectl's --as flags; replaces what the kubeconfig's user sets, field by field.
        now: the clock.
        known: the result of an earlier load. Its TLS context, and so its connections, are kept while the certificates
            are the same. A configuration that now names another server is refused.

    Raises:
        ConfigError: no usable configuration was found, or it names another server than before; the message names the
            files and settings that were read.
    """
    files = kubeconfig_files(kubeconfig, wanted=bool(context or cluster or user))
    flags = impersonate or Impersonation()
    if files:
        chosen = choose_context(files, context, cluster=cluster, user=user)
        loaded, flags = await _from_kubeconfig(files, chosen, now, known), flags.over(chosen.impersonation)
    else:
        loaded = _from_pod(now, known)
    try:
        loaded = replace(loaded, impersonation=flags.headers())
    except ValueError as error:
        raise ConfigError(str(error)) from error
    if known is not None and loaded.host != known.host:
        msg = f"the configuration names the server {loaded.host} now, and this run works with {known.host}: start again"
        raise ConfigError(msg)
    return loaded


def kubeconfig_files(kubeconfig: str | os.PathLike[str] | None, *, wanted: bool) -> list[Path]:
    """Return the kubeconfig files that exist; none in a pod without a named file."""
    if kubeconfig:
        named = [os.fspath(kubeconfig)]
    else:
        named = [file for file in os.environ.get("KUBECONFIG", "").split(os.pathsep) if file]
    files = [Path(file).expanduser() for file in named or [_DEFAULT_KUBECONFIG]]
    if present := [file for file in files if file.exists()]:
        return present
    looked_at = os.pathsep.join(map(str, files))
    if named or wanted:
        msg = f"kubeconfig {looked_at!r} does not exist: give --kubeconfig FILE or set KUBECONFIG"
        raise ConfigError(msg)
    if "KUBERNETES_SERVICE_HOST" in os.environ:
        return []
    msg = (
        f"no cluster is configured: {looked_at} does not exist and this is not a pod; give --kubeconfig FILE or "
        "set KUBECONFIG"
    )
    raise ConfigError(msg)


async def _from_kubeconfig(
    files: Sequence[Path], chosen: KubeContext, now: Callable[[], datetime], known: ConnectionSettings | None
) -> ConnectionSettings:
    where = f"kubeconfig {os.pathsep.join(map(str, files))!r}"
    source, expiry = f"context {chosen.context!r} of {where}" if chosen.context else where, None
    try:
        if chosen.user.get("exec") or chosen.user.get("auth-provider"):
            settings, expiry = await _from_plugin(chosen)
        else:
            settings = ClientConfig.of_entries(chosen.cluster, chosen.user)
    except Exception as error:  # the plugin's loader passes on all errors of its assertions and files
        msg = f"{source} cannot be used: {_first_line(error)}"
        raise ConfigError(msg) from error
    if "exec" in chosen.user and not settings.authorization and not settings.certificate:
        msg = f"{source} cannot be used: its exec plugin answered with neither a token nor a client certificate and key"
        raise ConfigError(msg)
    renew_at = None
    if expiry is not None:
        # A plugin may return the same token until it expires; do not call the plugin at every request then.
        renew_at = max(expiry - min(_RENEWAL_MARGIN, (expiry - now()) / 2), now() + _SHORTEST_PERIOD)
    elif "tokenFile" in chosen.user:
        renew_at = now() + _TOKEN_FILE_PERIOD
    made = _connection(settings, source, known, namespace=chosen.namespace, renew_at=renew_at)
    return replace(made, context=chosen.context or None, valid_until=expiry)


async def _from_plugin(chosen: KubeContext) -> tuple[ClientConfig, datetime | None]:
    """Return what the plugin or provider answers, and when that expires if it says so."""
    from kubernetes_asyncio import config as kube_config
    from kubernetes_asyncio.client.configuration import Configuration

    # Configuration() would copy a process-wide default that a host program may have set.
    loaded = type.__call__(Configuration)
    with _raised_and_not_logged():
        loader = await kube_config.load_kube_config_from_dict(chosen.to_document(), client_configuration=loaded)
    authority, certificate, key = (
        Path(file) if file else None for file in (loaded.ssl_ca_cert, loaded.cert_file, loaded.key_file)
    )
    settings = ClientConfig(
        str(loaded.host),
        authority,
        certificate,
        key,
        verify=loaded.verify_ssl,
        server_name=loaded.tls_server_name,
        proxy=loaded.proxy,
        authorization=loaded.api_key.get("BearerToken"),
    )
    return settings, getattr(loader, "exec_plugin_expiry", None)


def _from_pod(now: Callable[[], datetime], known: ConnectionSettings | None) -> ConnectionSettings:
    file = ACCOUNT / "namespace"
    try:
        settings = ClientConfig.of_pod(os.environ)
        namespace = file.read_text(encoding="utf-8").strip() if file.exists() else "default"
    except (OSError, ValueError) as error:
        msg = f"this pod's service account cannot be used: {_first_line(error)}"
        raise ConfigError(msg) from error
    source, renew_at = "this pod's service account", now() + _TOKEN_FILE_PERIOD
    return _connection(settings, source, known, namespace=namespace, renew_at=renew_at)


def _connection(
    settings: ClientConfig,
    source: str,
    known: ConnectionSettings | None,
    *,
    namespace: str,
    renew_at: datetime | None,
) -> ConnectionSettings:
    host = settings.host.rstrip("/")
    url = urlsplit(host)
    if url.scheme not in ("http", "https") or not url.hostname:
        msg = f"{source} has the server {host!r}: it must be a URL, https://HOST:PORT"
        raise ConfigError(msg)
    tls, digest = _tls(settings, source, known) if url.scheme == "https" else (None, b"")
    return ConnectionSettings(
        host=host,
        tls=tls,
        server_hostname=settings.server_name,
        proxy=_proxy(settings.proxy or _proxy_of_environment(url), source),
        authorization=_header(settings.authorization, source),
        namespace=namespace,
        renew_at=renew_at,
        tls_digest=digest,
    )


def _tls(settings: ClientConfig, source: str, known: ConnectionSettings | None) -> tuple[ssl.SSLContext, bytes]:
    """Return the TLS context and the digest of its certificates; the known context if they are the same."""
    part, wrong = "certificate-authority", "it is not PEM"
    try:
        digest = settings.digest()
        if known is not None and known.tls is not None and known.tls_digest == digest:
            return known.tls, digest
        context = settings.authorities()
        part, wrong = "client certificate and key", "not PEM, or they do not belong together"
        settings.identify(context)
    except OSError as error:
        file = f": {error.filename}" if error.filename else ""
        why = wrong if isinstance(error, ssl.SSLError) else f"{error.strerror}{file}"
        msg = f"the {part} of {source} cannot be used: {why}"
        raise ConfigError(msg) from error
    return context, digest


def _header(value: str | None, source: str) -> str | None:
    """Strip the newline at the end of a token file, which no header may contain."""
    text = (value or "").strip()
    if not text.isprintable():
        msg = f"the token of {source} cannot be used: it holds a line break or another control character"
        raise ConfigError(msg)
    return text or None


def _proxy(proxy: str | None, source: str) -> str | None:
    if proxy is None:
        return None
    url = proxy if "://" in proxy else f"http://{proxy}"
    if (scheme := urlsplit(url).scheme) not in ("http", "https"):
        msg = f"the proxy for {source} is a {scheme} proxy: only http and https proxies are supported"
        raise ConfigError(msg)
    return url


def _proxy_of_environment(url: SplitResult) -> str | None:
    """Return the proxy of HTTPS_PROXY and NO_PROXY, read once: aiohttp reads them and ~/.netrc at every request.

    The rules are those of kubectl (golang.org/x/net/http/httpproxy): the standard library's, and two more. Loopback
    addresses never use a proxy, and NO_PROXY may contain networks (often the service network in a pod).
    """
    proxies, name = getproxies(), url.hostname or ""
    proxy = proxies.get(url.scheme)
    if not proxy or name == "localhost" or proxy_bypass(url.netloc):
        return None
    try:
        address = ip_address(name)
    except ValueError:
        return proxy
    if address.is_loopback:
        return None
    return None if any(address in network for network in _networks(proxies.get("no", ""))) else proxy


def _networks(no_proxy: str) -> Iterator[IPv4Network | IPv6Network]:
    for each in no_proxy.split(","):
        with contextlib.suppress(ValueError):
            yield ip_network(each.strip(), strict=False)


@contextlib.contextmanager
def _raised_and_not_logged() -> Iterator[None]:
    """Suppress the loader's log of a plugin's failure: it is also raised, and reported once."""
    logging.getLogger(_LOADERS_LOG).addFilter(_is_not_ours)
    token = _loading.set(True)
    try:
        yield
    finally:
        _loading.reset(token)


def _is_not_ours(_record: logging.LogRecord) -> bool:
    return not _loading.get()


def _first_line(error: Exception) -> str:
    text = str(error).strip().splitlines()
    return text[0][:300] if text else type(error).__name__


_log = logging.getLogger(__name__)

_PAUSE_WHILE_VALID = timedelta(seconds=10)  # from a failed attempt to the next one, while requests succeed
_PAUSE = timedelta(seconds=1)  # and when they do not: sixteen writers must not run a plugin one after the other
_TIMEOUT_WHILE_VALID = 10.0  # seconds for a plugin that hangs, before requests go on without waiting for it
_TIMEOUT = 60.0


class Credentials:
    """The current connection settings, shared by all tasks and sessions of one ``connect``."""

    def __init__(
        self,
        connection: ConnectionSettings,
        reload: Callable[[], Awaitable[ConnectionSettings]],
        now: Callable[[], datetime],
    ) -> None:
        self._held = connection
        self._reload = reload
        self._now = now
        self._attempt: asyncio.Task[None] | None = None
        self._begun = 0.0
        self._failure: ConfigError | None = None
        self._failed_at = now()
        self._warned = False

    @property
    def held(self) -> ConnectionSettings:
        """The last loaded settings, due for renewal or not."""
        return self._held

    async def current(self) -> ConnectionSettings:
        """Return the settings for the next request, renewed if that is due.

        Raises:
            CredentialsExpired: the credentials have expired and could not be renewed.
        """
        held = self._held
        if held.renew_at is not None and self._now() >= held.renew_at:
            await self._renew(held, good=held.valid_until is None or self._now() < held.valid_until)
        return self._held

    async def refused(self, used: ConnectionSettings) -> None:
        """Renew credentials that the API server refused, unless another task just has.

        Raises:
            CredentialsExpired: they could not be renewed.
        """
        if self._held is used:
            await self._renew(used, good=False)

    async def close(self) -> None:
        """Cancel a running renewal."""
        if self._attempt is not None and not self._attempt.done():
            self._attempt.cancel()
            await asyncio.wait({self._attempt})

    async def _renew(self, held: ConnectionSettings, *, good: bool) -> None:
        """Wait for the running renewal, or start one unless the last one has just failed."""
        moment = asyncio.get_running_loop().time
        if (self._attempt is None or self._attempt.done()) and not self._failed_just_now(good=good):
            self._begun = moment()
            self._attempt = asyncio.create_task(self._load())
        attempt = self._attempt
        if attempt is not None and not attempt.done():
            until = self._begun + (_TIMEOUT_WHILE_VALID if good else _TIMEOUT)
            await asyncio.wait({attempt}, timeout=max(0.0, until - moment()))
        if attempt is not None and attempt.done() and not attempt.cancelled() and (error := attempt.exception()):
            raise error  # not a failure of the configuration, but a defect of this program
        if self._held is not held:
            return
        why: object = self._failure
        if attempt is not None and not attempt.done():
            why = f"an attempt that was begun {moment() - self._begun:.0f} s ago did not end yet"
        if not good:
            msg = f"the credentials for {held.host} are no longer good, and could not be renewed: {why}"
            raise CredentialsExpired(msg) from self._failure
        if not self._warned:
            self._warned = True
            _log.warning("the credentials for %s could not be renewed, and are used until they end: %s", held.host, why)

    def _failed_just_now(self, *, good: bool) -> bool:
        if self._failure is None:
            return False
        # A clock that was set back must not postpone the next attempt for hours.
        return abs(self._now() - self._failed_at) < (_PAUSE_WHILE_VALID if good else _PAUSE)

    async def _load(self) -> None:
        try:
            self._held = await self._reload()
        except ConfigError as error:
            self._failure, self._failed_at = error, self._now()
        else:
            self._failure, self._warned = None, False
