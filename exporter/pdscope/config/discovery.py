"""Where instances are found rather than listed, and a Prometheus server that has their series already."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import StrEnum
from typing import Annotated, Any

from pydantic import Field

from pdscope.config.access import AuthConfig, TlsConfig, tls_without_https
from pdscope.config.base import Model
from pdscope.config.fields import LISTED, KubernetesLabel, LabelName, Pattern, Port, Selector, Text, choice, shorthand
from pdscope.config.places import BaseUrl, FilePattern, HeaderName, HeaderValue, Url
from pdscope.config.targets import AnyRole


class HttpSdConfig(Model):
    """An endpoint of Prometheus' HTTP service discovery."""

    url: Url = Field(description="the endpoint; a text alone is this")
    auth: AuthConfig | None = Field(default=None, description="who asks")
    tls: TlsConfig | None = Field(default=None, description="certificates")

    @classmethod
    def contradictions(cls, given: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """Certificates need an address that uses them."""
        yield from tls_without_https(given)


class DnsType(StrEnum):
    """DNS records that hold targets."""

    A = "A"
    AAAA = "AAAA"
    SRV = "SRV"


class DnsConfig(Model):
    """Instances behind one DNS name."""

    name: Text = Field(description="the name to look up")
    type: Annotated[DnsType, choice(DnsType)] = Field(default=DnsType.A, description="A, AAAA or SRV")
    port: Port | None = Field(default=None, description="port of the targets; an SRV record holds it itself")

    @classmethod
    def contradictions(cls, given: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """Only SRV records hold a port."""
        if given.get("type") == DnsType.SRV:
            if "port" in given:
                yield "port", "an SRV record holds the port"
        elif "port" not in given:
            yield "port", "is required unless type is SRV"


def _dns(text: str) -> dict[str, Any]:
    """`NAME:PORT` is an A record, a name without a port an SRV record."""
    name, _, port = text.rpartition(":")
    if name and port.isascii() and port.isdigit():
        return {"name": name, "port": int(port[:6])}
    return {"name": text, "type": "SRV"}


class KubernetesConfig(Model):
    """Instances that are pods."""

    namespace: Text | None = Field(default=None, description="where the pods are; left out: pdscope's own namespace")
    selector: Text | None = Field(default=None, description="label selector of the pods; left out: all")
    role_label: KubernetesLabel = Field(default="llm-d.ai/role", description="label of a pod that holds its role")
    port: Port | None = Field(default=None, description="port of the engine; left out: as the pod declares it")


class DiscoveryConfig(Model):
    """Instances that are found. Any number of ways together."""

    file_sd: Annotated[tuple[FilePattern, ...], LISTED] = Field(
        default=(), description="files in Prometheus' file_sd format; a pattern may stand for several"
    )
    http_sd: Annotated[tuple[Annotated[HttpSdConfig, shorthand(lambda text: {"url": text})], ...], LISTED] = Field(
        default=(),
        description="endpoints of HTTP service discovery: an address, a mapping, or a list of them",
    )
    dns: Annotated[tuple[Annotated[DnsConfig, shorthand(_dns)], ...], LISTED] = Field(
        default=(),
        description="DNS names: NAME:PORT, the name of an SRV record, a mapping, or a list of them",
    )
    router: BaseUrl | None = Field(default=None, description="a router that knows its workers")
    kubernetes: KubernetesConfig | None = Field(default=None, description="pods")

    @classmethod
    def contradictions(cls, given: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """At least one way."""
        if not any(value != [] for value in given.values()):
            yield "", f"needs at least one of {', '.join(cls.fields_by_key())}"


class PrometheusConfig(Model):
    """A server of Prometheus' query interface, asked instead of scraping."""

    url: BaseUrl = Field(description="the server, without /api/v1")
    auth: AuthConfig | None = Field(default=None, description="who asks")
    tls: TlsConfig | None = Field(default=None, description="certificates")
    headers: Mapping[HeaderName, HeaderValue] = Field(
        default={}, description="sent with each query, such as a tenant's"
    )
    selector: Selector | None = Field(default=None, description="label matchers that pick this deployment's series")
    worker_label: LabelName = Field(default="pod", description="label that tells the instances apart")
    roles: Mapping[AnyRole, Pattern] = Field(
        default={},
        description="role -> pattern that the whole value of worker_label matches; left out: read from the engines",
    )

    @classmethod
    def contradictions(cls, given: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """Certificates need an address that uses them."""
        yield from tls_without_https(given)
