"""Secrets and certificates out of files, read again when they change. No message and no repr shows any of it."""

from __future__ import annotations

import base64
import ssl
from pathlib import Path

from pdscope.config import AuthConfig, TlsConfig
from pdscope.errors import ConfigError

_Stamp = tuple[int, int, int]
"""When a file last changed, its size and its inode: a secret that Kubernetes renews is a new inode behind a link."""


class Secrets:
    """The `Authorization` header of a target. Files are small and local, so they are read without a thread."""

    def __init__(self) -> None:
        self._headers: dict[AuthConfig, tuple[_Stamp, str]] = {}

    def authorization(self, auth: AuthConfig) -> str:
        """The value of the header.

        Raises:
            ConfigError: the file cannot be read, or holds what no secret can hold.
        """
        key, path = _secret_file(auth)
        stamp = _stamp(key, path)
        kept = self._headers.get(auth)
        if kept is None or kept[0] != stamp:
            kept = self._headers[auth] = (stamp, _header(auth, _secret(key, path)))
        return kept[1]


class TlsContexts:
    """TLS contexts. Targets that ask for nothing special share one: each takes 40 ms to make."""

    def __init__(self) -> None:
        self._contexts: dict[TlsConfig | None, tuple[tuple[_Stamp, ...], ssl.SSLContext]] = {}

    def context(self, tls: TlsConfig | None) -> ssl.SSLContext:
        """The context for a target; the same object until one of its files changes.

        Raises:
            ConfigError: a file cannot be read, or is no certificate or key.
        """
        files = _tls_files(tls)
        stamps = tuple(_stamp(key, path) for key, path in files.items())
        kept = self._contexts.get(tls)
        if kept is None or kept[0] != stamps:
            kept = self._contexts[tls] = (stamps, _make_context(tls or TlsConfig()))
        return kept[1]


def _secret_file(auth: AuthConfig) -> tuple[str, Path]:
    if auth.basic is not None:
        return "auth.basic.password_file", auth.basic.password_file
    if auth.bearer_token_file is None:  # loading a configuration rules it out
        raise ConfigError("auth", "needs bearer_token_file or basic")
    return "auth.bearer_token_file", auth.bearer_token_file


def _stamp(key: str, path: Path) -> _Stamp:
    try:
        status = path.stat()
    except OSError as error:
        raise ConfigError(key, error.strerror or "cannot be read") from None
    return status.st_mtime_ns, status.st_size, status.st_ino


def _secret(key: str, path: Path) -> str:
    try:
        text = path.read_text(encoding="utf-8").strip()
    except OSError as error:
        raise ConfigError(key, error.strerror or "cannot be read") from None
    except UnicodeDecodeError:
        raise ConfigError(key, "is no text in UTF-8") from None
    if not text:
        raise ConfigError(key, "is empty")
    if not text.isprintable():
        raise ConfigError(key, "must hold the secret alone, on one line")
    return text


def _header(auth: AuthConfig, secret: str) -> str:
    if auth.basic is not None:
        return "Basic " + base64.b64encode(f"{auth.basic.username}:{secret}".encode()).decode("ascii")
    if not secret.isascii() or " " in secret:
        raise ConfigError("auth.bearer_token_file", "holds characters that a token cannot have")
    return f"Bearer {secret}"


def _tls_files(tls: TlsConfig | None) -> dict[str, Path]:
    if tls is None:
        return {}
    named = {"tls.ca_file": tls.ca_file, "tls.cert_file": tls.cert_file, "tls.key_file": tls.key_file}
    return {key: path for key, path in named.items() if path is not None}


def _make_context(tls: TlsConfig) -> ssl.SSLContext:
    try:
        context = ssl.create_default_context(cafile=tls.ca_file)
    except OSError as error:
        raise ConfigError("tls.ca_file", _complaint(error)) from None
    if tls.cert_file is not None:
        try:
            # Without a password OpenSSL asks the terminal for that of an encrypted key, and the daemon stands still.
            context.load_cert_chain(tls.cert_file, tls.key_file, password=lambda: "")
        except OSError as error:
            raise ConfigError("tls.cert_file", _complaint(error)) from None
    if tls.insecure_skip_verify:
        context.check_hostname = False
        context.verify_mode = ssl.CERT_NONE
    return context


def _complaint(error: OSError) -> str:
    """What is wrong with a file of certificates; OpenSSL's own words name our source lines rather than the fault."""
    if isinstance(error, ssl.SSLError):
        reason = (error.reason or "").replace("_", " ").lower()
        return f"cannot be used: {reason or 'no PEM file, or an encrypted key'}"
    return error.strerror or "cannot be read"
