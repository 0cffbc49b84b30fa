"""The pages of devices by the instance that they are read for, and whether the devices can all be its own."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from pdscope.config import DeploymentConfig, DeviceConfig
from pdscope.model.metric import Metric
from pdscope.model.scrape import Scrape
from pdscope.model.topology import Instance
from pdscope.runtime.visits import Recorder
from pdscope.sources.bundle import PageKind

_OF_DEVICES = (
    Metric.SM_ACTIVE,
    Metric.TENSOR_ACTIVE,
    Metric.ENGINE_ACTIVE,
    Metric.DRAM_ACTIVE,
    Metric.DEVICE_BUSY,
    Metric.DEVICE_CLOCK,
    Metric.DEVICE_POWER,
    Metric.DEVICE_MEMORY_USED,
)
"""Figures that each device has one of; ports and transfer agents have others."""


def served_by(device: DeviceConfig) -> tuple[str, ...]:
    """Names of the instances that it serves, each once."""
    return tuple(dict.fromkeys(served.instance for served in device.served))


def device_pages(recorder: Recorder, config: DeploymentConfig) -> dict[str, list[Scrape]]:
    """The newest pages by instance; a page of which some devices serve one instance, others another, is in both."""
    found: dict[str, list[Scrape]] = {}
    for device in config.devices:
        last = recorder.pages(device.name, PageKind.METRICS).last
        for served, scrape in zip(served_by(device), last, strict=False):
            found.setdefault(served, []).append(scrape)
    return found


def too_many(instances: Iterable[Instance], pages: Mapping[str, Iterable[Scrape]]) -> dict[str, str]:
    """A remark for each instance for which more devices are read than it has by its parallelism.

    Args:
        instances: with what is configured, or what the engine says of itself.
        pages: of devices, by the instance that they are read for.
    """
    remarks = {}
    for instance in instances:
        names = set().union(*(_names(page) for page in pages.get(instance.name, ())))
        if len(names) > instance.devices:
            remarks[instance.name] = (
                f"{len(names)} devices for {instance.name}, an instance of {instance.devices} (tp x pp x dp): some are "
                "not its own, and their means decide nothing; name its devices with select, or say tp if it has more"
            )
    return remarks


def _names(page: Scrape) -> set[str]:
    """What the page calls its devices, those with a number."""
    if page.schema is None or page.row is None:
        return set()
    row = page.row
    return {
        key.rank
        for key, index in page.schema.scalars.items()
        if key.rank and key.metric in _OF_DEVICES and math.isfinite(row[index])
    }
