"""dcgm-exporter: one page a host, with all of its devices in use.

The profiling ratios are means over the exporter's own interval, so they stand still between two of its samples. The
counters are those that NVIDIA's example list has for a data-centre GPU, and the four that a diagnosis asks for beyond
it: SM activity, the highest clock, the power limit, and the reasons for low clocks.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from pdscope.demo.pages.dialect import GO
from pdscope.demo.pages.exposition import Exposition
from pdscope.demo.pages.families import families
from pdscope.demo.pages.hosts import Host, Instance, driver_name
from pdscope.demo.physics.devices import DeviceCounters
from pdscope.demo.physics.simulation import Simulation
from pdscope.hardware import find_hardware

_INTERVAL_SECONDS = 1.0
_DRIVER = "570.124.06"
_MIB = 2**20
_ACTIVATION_BYTES = 2
_USED_SHARE = 0.93
"""Of the memory: what the engine has reserved, and its contexts."""
_THERMAL_SLOWDOWN = 0x20


@dataclass(frozen=True, slots=True)
class _Card:
    """Figures of one kind of device that the hardware table does not have."""

    sm_megahertz: float = 1980.0
    memory_megahertz: float = 2619.0
    idle_watts: float = 110.0
    limit_watts: float = 700.0


_CARDS = {
    "A100-40 SXM": _Card(1410.0, 1215.0, 55.0, 400.0),
    "A100-80 SXM": _Card(1410.0, 1593.0, 60.0, 400.0),
    "H100 PCIe": _Card(1755.0, 1593.0, 60.0, 350.0),
    "H200": _Card(1980.0, 3201.0, 115.0, 700.0),
}


@dataclass(frozen=True, slots=True)
class _Sample:
    at_seconds: float
    counters: DeviceCounters
    fabric_bytes: float


class Dcgm:
    """The exporter of one host. It samples on its own clock, whether it is asked or not.

    Args:
        simulation: as it was made.
        host: whose devices.
    """

    def __init__(self, simulation: Simulation, host: Host) -> None:
        self._simulation = simulation
        self._host = host
        self._card = _CARDS.get(simulation.draw.hardware, _Card())
        hardware = find_hardware(simulation.draw.hardware)
        self._memory_mib = (hardware.hbm_capacity_bytes or 0.0) / _MIB if hardware else 0.0
        self._joules = [0.0] * len(host.places)
        self._page = Exposition(families("dcgm"), GO, common={})
        self._labels = [self._label_values(index, instance) for index, (instance, _) in enumerate(host.places)]
        self._last = self._samples()
        self._write(self._last)
        simulation.clock.after(_INTERVAL_SECONDS, self._tick)

    def metrics(self) -> bytes:
        """The body of `GET /metrics`."""
        return self._page.render()

    def _label_values(self, index: int, instance: Instance) -> tuple[str, ...]:
        host = self._host.number
        uuid = f"GPU-{0x7A2E92F2 + host:08x}-be71-d37e-a744-5416{index:08x}"
        model = driver_name(self._simulation.draw.hardware)
        return (str(index), uuid, f"nvidia{index}", model, f"node{host}", _DRIVER, instance.role, "llm", instance.name)

    def _samples(self) -> list[_Sample]:
        now = self._simulation.now_seconds
        read: dict[str, tuple[tuple[DeviceCounters, ...], float]] = {}
        samples: list[_Sample] = []
        for instance, rank in self._host.places:
            if instance.name not in read:
                read[instance.name] = (instance.counters(self._simulation), self._fabric_bytes(instance))
            ranks, fabric = read[instance.name]
            samples.append(_Sample(now, ranks[rank], fabric))
        return samples

    def _fabric_bytes(self, instance: Instance) -> float:
        """Sent and received by one device so far: two all-reduces a layer for every token."""
        devices, model = instance.machine.devices, instance.machine.model
        if instance.role == "prefill":
            tokens = self._simulation.prefills[instance.number].computed_tokens
        else:
            decode = self._simulation.decodes[instance.number]
            tokens = decode.stepper.tokens + decode.local_prefill.tokens
        return 2.0 * 2.0 * 2.0 * (devices - 1) / devices * tokens * model.hidden * _ACTIVATION_BYTES * model.layers

    def _tick(self) -> None:
        samples = self._samples()
        self._write(samples)
        self._last = samples
        self._simulation.clock.after(_INTERVAL_SECONDS, self._tick)

    def _write(self, samples: list[_Sample]) -> None:
        for index, (before, now) in enumerate(zip(self._last, samples, strict=True)):
            seconds = now.at_seconds - before.at_seconds
            for name, value in self._values(index, before, now, seconds).items():
                self._page.put(f"DCGM_FI_{name}", value, *self._labels[index])

    def _values(self, index: int, before: _Sample, now: _Sample, seconds: float) -> dict[str, float]:
        card, clock = self._card, now.counters.clock

        def rate(read: Callable[[DeviceCounters], float]) -> float:
            return (read(now.counters) - read(before.counters)) / seconds if seconds > 0.0 else 0.0

        engine = min(1.0, rate(lambda one: one.graphics_seconds))
        sms = min(1.0, rate(lambda one: one.sm_seconds))
        tensor = min(1.0, rate(lambda one: one.tensor_seconds))
        dram = min(1.0, rate(lambda one: one.dram_seconds))
        load = 0.25 * engine + 0.4 * dram + 0.6 * tensor * clock
        watts = card.idle_watts + (card.limit_watts - card.idle_watts) * min(1.0, load)
        self._joules[index] += watts * seconds
        used = round(self._memory_mib * _USED_SHARE)
        fabric = (now.fabric_bytes - before.fabric_bytes) / seconds if seconds > 0.0 else 0.0
        return {
            "DEV_SM_CLOCK": round(card.sm_megahertz * clock),
            "DEV_MEM_CLOCK": card.memory_megahertz,
            "DEV_GPU_TEMP": round(32.0 + 38.0 * watts / card.limit_watts + (12.0 if clock < 1.0 else 0.0)),
            "DEV_POWER_USAGE": round(watts, 3),
            "DEV_TOTAL_ENERGY_CONSUMPTION": round(self._joules[index] * 1e3),
            "DEV_PCIE_REPLAY_COUNTER": 0,
            "DEV_GPU_UTIL": round(100.0 * engine),
            "DEV_MEM_COPY_UTIL": round(100.0 * dram),
            "DEV_ENC_UTIL": 0,
            "DEV_DEC_UTIL": 0,
            "DEV_XID_ERRORS": 0,
            "DEV_FB_FREE": round(self._memory_mib) - used,
            "DEV_FB_USED": used,
            "DEV_NVLINK_BANDWIDTH_TOTAL": round(fabric / 1_024_000.0),
            "PROF_GR_ENGINE_ACTIVE": round(engine, 6),
            "PROF_SM_ACTIVE": round(sms, 6),
            "PROF_PIPE_TENSOR_ACTIVE": round(tensor, 6),
            "PROF_DRAM_ACTIVE": round(dram, 6),
            "PROF_PCIE_TX_BYTES": round(rate(lambda one: one.nic_sent_bytes)),
            "PROF_PCIE_RX_BYTES": round(rate(lambda one: one.nic_received_bytes)),
            "DEV_MAX_SM_CLOCK": card.sm_megahertz,
            "DEV_ENFORCED_POWER_LIMIT": card.limit_watts,
            "DEV_CLOCKS_EVENT_REASONS": _THERMAL_SLOWDOWN if clock < 1.0 else 0,
        }
