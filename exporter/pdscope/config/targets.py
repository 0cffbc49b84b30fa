"""What is scraped: instances and the exporters of their devices."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any, ClassVar

from pydantic import Field

from pdscope.config.access import AuthConfig, ScrapeConfig, TlsConfig, tls_without_https
from pdscope.config.base import Model
from pdscope.config.fields import (
    Count,
    Identifier,
    LabelName,
    Pattern,
    TargetName,
    choice,
    shorthand,
)
from pdscope.config.places import BaseUrl, SourceName, Url, is_mapping_file
from pdscope.config.serving import HardwareConfig
from pdscope.model.topology import Role

_LOCAL_SOURCES = ("nvml",)
"""Sources that are read on this host, without HTTP."""

Hardware = Annotated[HardwareConfig, shorthand(lambda text: {"name": text})]
AnyRole = Annotated[Role, choice(Role)]
Select = Mapping[LabelName, Pattern]
"""label -> device indices or a pattern; a series is taken when all of them match"""


class InstanceConfig(Model):
    """One serving program. What is left out is read from the program where it says so."""

    hints: ClassVar[Mapping[str, str]] = {
        "max_num_seqs": "pdscope's name for the limit of running requests is max_running",
        "max_running_requests": "pdscope's name for the limit of running requests is max_running",
        "max_num_batched_tokens": "pdscope's name is max_batched_tokens",
        "block_size": "pdscope's name is page_size",
    }

    name: TargetName = Field(description="unique in the file; the label worker")
    url: BaseUrl = Field(description="root of its HTTP interface")
    role: AnyRole | None = Field(default=None, description="prefill, decode, unified or router")
    engine: Identifier | None = Field(default=None, description="such as sglang, vllm or dynamo")
    tp: Count | None = Field(default=None, description="tensor-parallel size")
    pp: Count | None = Field(default=None, description="pipeline-parallel size")
    dp: Count | None = Field(default=None, description="data-parallel size; with SGLang's DP attention it splits tp")
    max_running: Count | None = Field(default=None, description="limit of running requests, all ranks together")
    page_size: Count | None = Field(default=None, description="tokens in a KV block")
    max_batched_tokens: Count | None = Field(default=None, description="limit of tokens in one step")
    hardware: Hardware | None = Field(default=None, description="its devices, if not the deployment's")
    auth: AuthConfig | None = Field(default=None, description="who asks")
    tls: TlsConfig | None = Field(default=None, description="certificates")
    scrape: ScrapeConfig = Field(default=ScrapeConfig(), description="its own interval and timeout")

    @classmethod
    def contradictions(cls, given: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """Certificates need an address that uses them."""
        yield from tls_without_https(given)


class ServesConfig(Model):
    """One of several instances that a device exporter covers, and the devices that are its own."""

    instance: TargetName = Field(description="an instance of the same deployment")
    select: Select = Field(default={}, description="its devices: label -> indices or pattern; left out: all")


class DeviceConfig(Model):
    """An exporter of device signals, and whose devices they are."""

    name: TargetName = Field(description="unique in the file, instances included")
    source: SourceName = Field(description="dcgm, nvml, npu, amd, intel, node, nixl, pdscope or a mapping file")
    url: Url | None = Field(default=None, description="the page itself; nvml needs none, it is read on this host")
    instance: TargetName | None = Field(default=None, description="the one instance that it serves")
    select: Select = Field(
        default={}, description="devices of that instance: label -> indices or pattern; left out: all"
    )
    serves: tuple[ServesConfig, ...] = Field(default=(), description="several instances, each with its own select")
    auth: AuthConfig | None = Field(default=None, description="who asks")
    tls: TlsConfig | None = Field(default=None, description="certificates")
    scrape: ScrapeConfig = Field(default=ScrapeConfig(), description="its own interval and timeout")

    @classmethod
    def contradictions(cls, given: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """One instance or a list of them; an address unless the source is this host."""
        if "instance" in given and "serves" in given:
            yield "", "has both instance and serves: choose one"
        elif "instance" not in given and "serves" not in given:
            yield "", "needs instance, or serves when it covers several"
        if "serves" in given and "select" in given:
            yield "select", "belongs to each entry of serves"
        if given.get("serves") == []:
            yield "serves", "must not be empty"
        if "source" in given and given["source"] not in _LOCAL_SOURCES and "url" not in given:
            yield "url", "is required"
        yield from tls_without_https(given)

    @property
    def mapping_file(self) -> Path | None:
        """The file that maps metric names, when `source` is one."""
        return Path(self.source) if is_mapping_file(self.source) else None

    @property
    def served(self) -> tuple[ServesConfig, ...]:
        """All served instances, however they were written. Loading makes sure that there is one."""
        return self.serves or (ServesConfig(instance=self.instance or "", select=self.select),)
