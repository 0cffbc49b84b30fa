"""How a target or a server is reached: secrets by file, certificates, how often."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, ClassVar

from pydantic import Field

from pdscope.config.base import Model
from pdscope.config.fields import Seconds, Switch, Text
from pdscope.config.places import FilePath

_NO_TLS = "means nothing here: the address begins with http://, so nothing is encrypted; write https://"
_BY_FILE = "a secret does not belong in this file: put it into one of its own and name that with {}"


class BasicAuthConfig(Model):
    """HTTP basic authentication."""

    hints: ClassVar[Mapping[str, str]] = {"password": _BY_FILE.format("password_file")}

    username: Text = Field(description="user name")
    password_file: FilePath = Field(description="file that holds the password; read again when it changes")


class AuthConfig(Model):
    """Who asks. One of the two ways; a secret is always in a file of its own."""

    hints: ClassVar[Mapping[str, str]] = {
        **dict.fromkeys(("bearer_token", "token", "credentials"), _BY_FILE.format("bearer_token_file")),
        "password": _BY_FILE.format("basic.password_file"),
        "username": "belongs under basic: basic: {username: ..., password_file: ...}",
        "password_file": "belongs under basic: basic: {username: ..., password_file: ...}",
    }

    bearer_token_file: FilePath | None = Field(default=None, description="file that holds the bearer token")
    basic: BasicAuthConfig | None = Field(default=None, description="user name and password instead of a token")

    @classmethod
    def contradictions(cls, given: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """Exactly one way."""
        if "bearer_token_file" in given and "basic" in given:
            yield "", "has both bearer_token_file and basic: choose one"
        elif not given:
            yield "", "needs bearer_token_file or basic"


class TlsConfig(Model):
    """Certificates for https."""

    hints: ClassVar[Mapping[str, str]] = {"verify": "write insecure_skip_verify: true to trust any certificate"}

    ca_file: FilePath | None = Field(default=None, description="authorities to trust, instead of the system's")
    cert_file: FilePath | None = Field(default=None, description="client certificate")
    key_file: FilePath | None = Field(default=None, description="key of the client certificate; left out: in cert_file")
    insecure_skip_verify: Switch = Field(default=False, description="trust any certificate")
    server_name: Text | None = Field(default=None, description="name to expect in the certificate, if not the host's")

    @classmethod
    def contradictions(cls, given: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """A key alone proves nothing."""
        if "key_file" in given and "cert_file" not in given:
            yield "cert_file", "is required with key_file"


def tls_without_https(given: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The contradiction of `tls` beside a `url` that goes without; for models that have both keys."""
    url = given.get("url")
    if "tls" in given and isinstance(url, str) and url.lower().startswith("http://"):
        yield "tls", _NO_TLS


class ScrapeConfig(Model):
    """How often a target is read. A target's own keys win over those at the top."""

    default_texts: ClassVar[Mapping[str, str]] = {"timeout": "4s"}

    interval_seconds: Seconds = Field(default=5.0, alias="interval", description="time between two scrapes of a target")
    given_timeout_seconds: Seconds | None = Field(
        default=None,
        alias="timeout",
        description="longest wait for a page; left out: 4s, or 80 % of a shorter interval",
    )

    @property
    def timeout_seconds(self) -> float:
        """Longest wait for a page: as given, and never longer than the interval."""
        if self.given_timeout_seconds is None:
            return min(4.0, 0.8 * self.interval_seconds)
        return min(self.given_timeout_seconds, self.interval_seconds)
