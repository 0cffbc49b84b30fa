"""The configured targets as a Prometheus HTTP service-discovery list, so that their own series join with ours."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlsplit

import orjson

from pdscope.config import Config, DeviceConfig, InstanceConfig
from pdscope.model.report import Report

_PORTS = {"http": 80, "https": 443}


def sd_json(config: Config, report: Report | None = None) -> bytes:
    """One entry for each instance and each device exporter that has an address, in the order of the configuration.

    No credentials are in it: Prometheus has its own. A query of a device's address is left out, since it can hold one.

    Args:
        config: what is watched.
        report: the last cycle, for the roles that the configuration leaves to the engines; None: not known yet.
    """
    entries = []
    for deployment in config.deployments:
        roles = _found_roles(report, deployment.name)
        for instance in deployment.instances:
            role = instance.role or roles.get(instance.name)
            labels = {"role": str(role)} if role is not None else {}
            entries.append(_entry(deployment.name, instance, f"{instance.url}/metrics", labels))
        entries += [
            _entry(deployment.name, device, device.url, {"source": device.source})
            for device in deployment.devices
            if device.url is not None
        ]
    return orjson.dumps(entries, option=orjson.OPT_INDENT_2)


def _found_roles(report: Report | None, deployment: str) -> dict[str, str]:
    found = report.deployment(deployment) if report is not None else None
    return {} if found is None else {i.name: i.role for i in found.deployment.instances if found.instances[i.name].up}


def _entry(deployment: str, target: InstanceConfig | DeviceConfig, url: str, labels: dict[str, str]) -> dict[str, Any]:
    parts = urlsplit(url)
    host = f"[{parts.hostname}]" if ":" in (parts.hostname or "") else parts.hostname
    return {
        "targets": [f"{host}:{parts.port or _PORTS[parts.scheme]}"],
        "labels": {
            "deployment": deployment,
            "worker": target.name,
            **labels,
            "__metrics_path__": parts.path or "/",
            "__scheme__": parts.scheme,
        },
    }
