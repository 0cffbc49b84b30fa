"""The configuration that a user of a simulated deployment would write: what is known from data sheets and flags.

It says nothing of what ails the deployment: the link is that of the NICs, whatever the path through them carries.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pdscope.demo.pages.hosts import Host, Instance, hosts, instances
from pdscope.demo.physics.models import ModelShape
from pdscope.demo.physics.simulation import Simulation
from pdscope.hardware import find_hardware

_HEAD_DIM = 128
_BYTES_PER_ELEMENT = 2
_EFFICIENCY = 0.85
"""What NICs are known to reach of the printed figure."""
ROUTER = "router"


def configuration(
    simulation: Simulation, urls: Mapping[str, str], *, name: str = "demo", prefix: str = ""
) -> dict[str, Any]:
    """A whole configuration with one deployment.

    Args:
        simulation: what is deployed.
        urls: by the name of a server, root of its HTTP interface; a server without one is left out.
        name: of the deployment.
        prefix: before every name, as it was given to `servers`.
    """
    return {
        "scrape": {"interval": "2s", "timeout": "2s"},
        "window": "30s",
        "deployments": [deployment(simulation, urls, name=name, prefix=prefix)],
    }


def deployment(simulation: Simulation, urls: Mapping[str, str], *, name: str, prefix: str = "") -> dict[str, Any]:
    """One entry of the configuration's `deployments`; arguments as for `configuration`."""
    draw = simulation.draw
    known = instances(simulation)
    listed = [_instance(simulation, one, prefix, urls) for one in known if prefix + one.name in urls]
    if prefix + ROUTER in urls:
        listed.append({"name": prefix + ROUTER, "role": "router", "engine": "smg", "url": urls[prefix + ROUTER]})
    written: dict[str, Any] = {
        "name": name,
        "model": {"name": draw.model, "kv": kv_shape(known[0].machine.model)},
        "slo": _slo(simulation),
        "interconnect": _interconnect(simulation),
        "hardware": draw.hardware,
        "instances": listed,
    }
    devices = [_devices(host, prefix, urls) for host in hosts(simulation) if prefix + host.name in urls]
    if devices:
        written["devices"] = devices
    return written


def kv_shape(model: ModelShape) -> dict[str, Any]:
    """The KV of one token of `model`, as the configuration describes it."""
    elements = model.kv_bytes_per_token // (model.layers * _BYTES_PER_ELEMENT)
    if model.kv_tensors == 1:
        shape: dict[str, Any] = {"attention": "mla", "layers": model.layers, "latent_dim": elements}
    else:
        heads = elements // (model.kv_tensors * _HEAD_DIM)
        shape = {"attention": "gqa", "layers": model.layers, "kv_heads": heads, "head_dim": _HEAD_DIM}
    return {**shape, "bytes_per_element": _BYTES_PER_ELEMENT}


def _instance(simulation: Simulation, instance: Instance, prefix: str, urls: Mapping[str, str]) -> dict[str, Any]:
    draw = simulation.draw
    entry: dict[str, Any] = {
        "name": prefix + instance.name,
        "role": instance.role,
        "engine": draw.engine,
        "url": urls[prefix + instance.name],
        "tp": instance.machine.devices,
    }
    if draw.engine == "vllm":  # which exports neither
        if instance.role != "prefill":
            entry["max_running"] = draw.decode.slots
        entry["max_batched_tokens"] = draw.prefill.batch_tokens
    return entry


def _slo(simulation: Simulation) -> dict[str, str]:
    slo = simulation.draw.slo
    limits = {
        "ttft_p50": slo.ttft_p50_seconds,
        "ttft_p95": slo.ttft_p95_seconds,
        "itl_p50": slo.itl_p50_seconds,
        "itl_p95": slo.itl_p95_seconds,
    }
    return {name: f"{seconds * 1e3:g}ms" for name, seconds in limits.items() if seconds is not None}


def _interconnect(simulation: Simulation) -> dict[str, Any]:
    """The NICs, or the fabric that all transfers share where it is less than they are together."""
    draw = simulation.draw
    engine = "mooncake" if draw.engine == "sglang" else "nixl"
    if draw.link.shared_bytes_per_second is not None:
        bandwidth, scope, efficiency = draw.link.shared_bytes_per_second, "total", 1.0
    elif draw.link.nic_bytes_per_second is not None:
        bandwidth, scope, efficiency = draw.link.nic_bytes_per_second, "device", 1.0
    else:
        hardware = find_hardware(draw.hardware)
        bandwidth, scope, efficiency = (hardware and hardware.nic_bytes_per_second) or 0.0, "device", _EFFICIENCY
    return {
        "bandwidth": f"{bandwidth / 1e9:g}GB/s",
        "direction": "unidirectional",
        "scope": scope,
        "efficiency": efficiency,
        "transfer_engine": engine,
    }


def _devices(host: Host, prefix: str, urls: Mapping[str, str]) -> dict[str, Any]:
    return {
        "name": prefix + host.name,
        "source": "dcgm",
        "url": urls[prefix + host.name] + "/metrics",
        "serves": [
            {"instance": prefix + name, "select": {"gpu": str(first) if first == last else f"{first}-{last}"}}
            for name, (first, last) in host.indices().items()
            if prefix + name in urls
        ],
    }
