"""The configuration as a whole."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Annotated, Any, ClassVar, Self

from pydantic import AfterValidator, Field, PrivateAttr

from pdscope.config.access import ScrapeConfig
from pdscope.config.base import Model
from pdscope.config.discovery import DiscoveryConfig, PrometheusConfig
from pdscope.config.fields import (
    DeploymentName,
    Identifier,
    LabelValue,
    NumberOrZero,
    Seconds,
    UserLabelName,
    choice,
)
from pdscope.config.problems import Location, Origin
from pdscope.config.serving import InterconnectConfig, ModelConfig, SloConfig
from pdscope.config.targets import DeviceConfig, Hardware, InstanceConfig
from pdscope.model.topology import Routing

Thresholds = Mapping[Identifier, Mapping[Identifier, NumberOrZero]]
"""rule -> threshold -> number, in the threshold's base unit"""


class DefaultsConfig(Model):
    """Inherited by every deployment, key by key."""

    slo: SloConfig = Field(default=SloConfig(), description="objectives")
    interconnect: InterconnectConfig = Field(default=InterconnectConfig(), description="the link")
    thresholds: Thresholds = Field(default={}, description="rule -> threshold -> number")


class DeploymentConfig(Model):
    """One model served by instances of one or two roles.

    After loading, `slo`, `interconnect`, `thresholds` and the instances' `hardware` and `scrape` are what applies, with
    everything inherited.
    """

    default_texts: ClassVar[Mapping[str, str]] = {"routing": "auto"}

    name: DeploymentName = Field(description="unique in the file; the label deployment")
    labels: Mapping[UserLabelName, LabelValue] = Field(default={}, description="labels of pdscope_deployment_info")
    routing: Annotated[Routing | None, choice(Routing, also={"auto": None})] = Field(
        default=None, description="sequential, concurrent or auto (by engine and router)"
    )
    model: ModelConfig = Field(default=ModelConfig(), description="the served model")
    slo: SloConfig = Field(default=SloConfig(), description="latency objectives")
    interconnect: InterconnectConfig | None = Field(default=None, description="the link between prefill and decode")
    hardware: Hardware | None = Field(default=None, description="devices of all instances")
    thresholds: Thresholds = Field(default={}, description="rule -> threshold -> number")
    prometheus: PrometheusConfig | None = Field(default=None, description="a server to ask instead of scraping")
    instances: tuple[InstanceConfig, ...] = Field(default=(), description="serving programs")
    devices: tuple[DeviceConfig, ...] = Field(default=(), description="exporters of device signals")
    discovery: DiscoveryConfig | None = Field(default=None, description="instances found rather than listed")

    @classmethod
    def contradictions(cls, given: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
        """A deployment without any way to an instance could never be judged."""
        if not any(given.get(key) for key in ("instances", "discovery", "prometheus")):
            yield "instances", "is required unless there is discovery or prometheus"


def _some(value: tuple[DeploymentConfig, ...]) -> tuple[DeploymentConfig, ...]:
    if not value:
        raise ValueError("must not be empty")
    return value


class Config(Model):
    """A whole configuration file."""

    scrape: ScrapeConfig = Field(default=ScrapeConfig(), description="how often targets are read")
    window_seconds: Seconds = Field(
        default=60.0, alias="window", description="the last scrapes that a diagnosis judges"
    )
    thresholds: Thresholds = Field(default={}, description="rule -> threshold -> number, for all deployments")
    defaults: DefaultsConfig = Field(default=DefaultsConfig(), description="inherited by deployments")
    deployments: Annotated[tuple[DeploymentConfig, ...], AfterValidator(_some)] = Field(description="what is watched")

    _origin: Origin = PrivateAttr(default_factory=Origin)
    _given_thresholds: tuple[tuple[Location, Thresholds], ...] = PrivateAttr(default=())

    def model_post_init(self, context: Any, /) -> None:
        """Keep what stands where: `resolved` deployments show what applies to them instead."""
        self._origin = (context or {}).get("origin", Origin())
        places: list[tuple[Location, Thresholds]] = [
            (("thresholds",), self.thresholds),
            (("defaults", "thresholds"), self.defaults.thresholds),
        ]
        places += [(("deployments", i, "thresholds"), d.thresholds) for i, d in enumerate(self.deployments)]
        self._given_thresholds = tuple(places)

    def resolved(self) -> Self:
        """The same with everything inherited."""
        return self.model_copy(update={"deployments": tuple(self._resolve(d) for d in self.deployments)})

    def _resolve(self, deployment: DeploymentConfig) -> DeploymentConfig:
        defaults = self.defaults
        link = deployment.interconnect
        if link is not None:
            link = link.over(defaults.interconnect)
        elif defaults.interconnect.bandwidth_bytes_per_second is not None:
            link = defaults.interconnect
        return deployment.model_copy(
            update={
                "slo": deployment.slo.over(defaults.slo),
                "interconnect": link,
                "thresholds": _merged(self.thresholds, defaults.thresholds, deployment.thresholds),
                "instances": tuple(
                    instance.model_copy(
                        update={
                            "hardware": instance.hardware or deployment.hardware,
                            "scrape": instance.scrape.over(self.scrape),
                        }
                    )
                    for instance in deployment.instances
                ),
                "devices": tuple(
                    device.model_copy(update={"scrape": device.scrape.over(self.scrape)})
                    for device in deployment.devices
                ),
            }
        )

    @property
    def origin(self) -> Origin:
        """Where the configuration was read, to place problems that are found later."""
        return self._origin

    @property
    def given_thresholds(self) -> tuple[tuple[Location, Thresholds], ...]:
        """(location, thresholds) for each place of the file, the most general first."""
        return self._given_thresholds


def _merged(*layers: Thresholds) -> dict[str, dict[str, float]]:
    rules = dict.fromkeys(rule for layer in layers for rule in layer)
    return {rule: {name: value for layer in layers for name, value in layer.get(rule, {}).items()} for rule in rules}
