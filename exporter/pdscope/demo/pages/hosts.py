"""Where the devices of the instances are: hosts of eight, filled in order."""

from __future__ import annotations

from dataclasses import dataclass

from pdscope.demo.physics.devices import DeviceCounters
from pdscope.demo.physics.machine import Machine
from pdscope.demo.physics.simulation import Simulation

DEVICES_PER_HOST = 8
_DRIVER_NAMES = {
    "A100-40 SXM": "NVIDIA A100-SXM4-40GB",
    "A100-80 SXM": "NVIDIA A100-SXM4-80GB",
    "H100 SXM": "NVIDIA H100 80GB HBM3",
    "H100 PCIe": "NVIDIA H100 PCIe",
    "H100 NVL": "NVIDIA H100 NVL",
}


@dataclass(frozen=True, slots=True)
class Instance:
    """One instance of a simulation.

    Attributes:
        name: short: `p0`, `d1`, `u0`.
        role: `prefill`, `decode` or `unified`.
        number: in `Simulation.prefills` for prefill, else in `Simulation.decodes`.
        machine: its devices.
        pool_tokens: its KV pool.
    """

    name: str
    role: str
    number: int
    machine: Machine
    pool_tokens: int

    def counters(self, simulation: Simulation) -> tuple[DeviceCounters, ...]:
        """Of its devices, one a rank, up to now."""
        read = simulation.prefill_devices if self.role == "prefill" else simulation.decode_devices
        return read(self.number)


@dataclass(frozen=True, slots=True)
class Host:
    """One machine: `places` holds an instance and its rank for every device in use, from index 0 on."""

    number: int
    places: tuple[tuple[Instance, int], ...]

    @property
    def name(self) -> str:
        """Of its device exporter."""
        return f"gpu-node{self.number}"

    def indices(self) -> dict[str, tuple[int, int]]:
        """First and last device index by the name of the instance."""
        found: dict[str, tuple[int, int]] = {}
        for index, (instance, _) in enumerate(self.places):
            found[instance.name] = (found.get(instance.name, (index, index))[0], index)
        return found


def instances(simulation: Simulation) -> tuple[Instance, ...]:
    """All of them, prefill first."""
    role = "unified" if simulation.draw.deployment.unified_instances else "decode"
    prefills = [
        Instance(f"p{one.number}", "prefill", one.number, one.machine, one.pool_tokens) for one in simulation.prefills
    ]
    decodes = [
        Instance(f"{role[0]}{one.number}", role, one.number, one.stepper.machine, one.pool.tokens)
        for one in simulation.decodes
    ]
    return (*prefills, *decodes)


def hosts(simulation: Simulation) -> tuple[Host, ...]:
    """An instance that does not fit beside the one before begins a host; one of more than eight devices fills some."""
    filled: list[list[tuple[Instance, int]]] = []
    for instance in instances(simulation):
        devices = instance.machine.devices
        if not filled or len(filled[-1]) + devices > DEVICES_PER_HOST:
            filled.append([])
        for rank in range(devices):
            if len(filled[-1]) == DEVICES_PER_HOST:
                filled.append([])
            filled[-1].append((instance, rank))
    return tuple(Host(number, tuple(places)) for number, places in enumerate(filled))


def driver_name(hardware: str) -> str:
    """A device as its driver prints it."""
    return _DRIVER_NAMES.get(hardware, f"NVIDIA {hardware}")
