"""What the devices of one instance need for a pass: operations and bytes against the peaks of the hardware table."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from pdscope.demo.physics.draw import Draw
from pdscope.demo.physics.models import MODELS, ModelShape
from pdscope.errors import UsageError
from pdscope.hardware import find_hardware

Floats = npt.NDArray[np.float64]

_HBM_FRACTION = 0.8
_KV_GAIN = 1.09
"""Attention kernels stream long contiguous KV a little better than matrix products stream weights: on H100 they were
seen at 83 to 90 % of the peak, where the table gives 80 % for a pass."""
_BF16_FRACTION = 0.8
_LINK_FRACTION = 0.85
_COLLECTIVE_SECONDS = 7e-6
"""One all-reduce of a few tokens inside an NVLink domain; two a layer."""
_COLLECTIVE_BYTES_FRACTION = 0.8
_ACTIVATION_BYTES = 2
_DISPATCH_BYTES = 3
"""Of an element that goes to an expert in fp8 and comes back in bf16."""
_MEMORY_FRACTION = 0.88
"""Share of the devices' memory that an engine takes: what the weights leave of it is the KV pool."""


@dataclass(frozen=True, slots=True)
class Pass:
    """One pass over the devices of an instance.

    Attributes:
        seconds: how long the kernels run, host work not included.
        flop: over all devices.
        bytes: read from memory, over all devices.
    """

    seconds: float
    flop: float
    bytes: float


@dataclass(frozen=True, slots=True)
class Machine:
    """The devices of one instance.

    Attributes:
        model: what they serve.
        devices: how many, as one tensor-parallel group.
        peak_flop_per_second: peak of one device for the model's element size.
        hbm_bytes_per_second: peak of one device.
        flop_fraction: of that peak that one large matrix product reaches; `hbm_fraction` likewise, of a pass.
        link_bytes_per_second: to the other devices of the group, one way.
        nic_bytes_per_second: of the whole instance, one way, at its achievable share.
        pool_tokens: KV pool of the instance.
        clocks: of each rank, against the peak; the group goes at the pace of the slowest.
        hbm_factor: memory bandwidth against the peak.
    """

    model: ModelShape
    devices: int
    peak_flop_per_second: float
    flop_fraction: float
    hbm_bytes_per_second: float
    hbm_fraction: float
    link_bytes_per_second: float
    nic_bytes_per_second: float
    pool_tokens: int
    clocks: tuple[float, ...]
    hbm_factor: float = 1.0

    @property
    def pace(self) -> float:
        """Clock of the slowest rank."""
        return min(self.clocks)

    def _weights_per_second(self) -> float:
        return self.devices * self.hbm_bytes_per_second * self.hbm_fraction * self.hbm_factor * self.pace

    def _kv_per_second(self) -> float:
        achieved = min(0.95, self.hbm_fraction * _KV_GAIN)
        return self.devices * self.hbm_bytes_per_second * achieved * self.hbm_factor * self.pace

    def _flop_per_second(self) -> float:
        return self.devices * self.peak_flop_per_second * self.flop_fraction * self.pace

    def collective_seconds(self, tokens: float) -> float:
        """What a pass over `tokens` tokens exchanges: two all-reduces a layer, or the way to the experts and back."""
        if self.devices == 1:
            return 0.0
        model, bandwidth = self.model, self.link_bytes_per_second * _COLLECTIVE_BYTES_FRACTION
        if model.expert_parallel:
            moved = tokens / self.devices * model.experts_per_token * model.hidden * _DISPATCH_BYTES
        else:
            moved = 2 * 2.0 * (self.devices - 1) / self.devices * tokens * model.hidden * _ACTIVATION_BYTES
        return model.layers * (2 * _COLLECTIVE_SECONDS + moved / bandwidth)

    def prefill(self, tokens: int, pairs: float, context_tokens: int) -> Pass:
        """A pass over `tokens` prompt tokens.

        Args:
            tokens: computed in this pass.
            pairs: (query token, context token) pairs that attention visits.
            context_tokens: KV that is read again: what earlier chunks or the cache have left, and this chunk.
        """
        model = self.model
        flop = 2.0 * model.active_parameters * tokens + model.prefill_flop_per_pair * pairs
        kv_bytes = float(context_tokens * model.kv_bytes_per_token)
        read = model.read_weight_bytes(tokens) + kv_bytes
        compute = flop / (self._flop_per_second() * model.kernel_efficiency)
        memory = read / self._weights_per_second()
        return Pass(max(compute, memory) + self.collective_seconds(tokens), flop, read)

    def decode(self, batch: int, context_tokens: Floats) -> tuple[Floats, Floats, Floats]:
        """Steps of one batch whose context grows: kernel seconds, FLOP and bytes of each."""
        model = self.model
        weights = model.read_weight_bytes(batch)
        kv_bytes = context_tokens * float(model.kv_bytes_per_token)
        flop = 2.0 * model.active_parameters * batch + model.decode_flop_per_pair * context_tokens
        memory = weights / self._weights_per_second() + kv_bytes / self._kv_per_second()
        compute = flop / self._flop_per_second()
        busy = np.maximum(np.maximum(memory, compute), model.layers * model.layer_floor_seconds)
        return busy + self.collective_seconds(batch), flop, weights + kv_bytes


def machine(draw: Draw, devices: int, clocks: tuple[float, ...], pool_tokens: int | None) -> Machine:
    """The devices of one instance of `draw`.

    Args:
        draw: hardware, model, link and memory bandwidth.
        devices: of the instance.
        clocks: one a device.
        pool_tokens: set by the draw, or None for what memory leaves.

    Raises:
        UsageError: hardware or model are not known, a figure is missing, or the weights do not fit.
    """
    model = MODELS.get(draw.model)
    hardware = find_hardware(draw.hardware)
    if model is None:
        raise UsageError(f"draw.model: there is no {draw.model!r}; there are {', '.join(MODELS)}")
    if hardware is None:
        raise UsageError(f"draw.hardware: {draw.hardware!r} is not in the hardware table")
    peak = hardware.bf16_flop_per_second if model.weight_element_bytes == 2 else hardware.fp8_flop_per_second
    hbm = hardware.hbm_bandwidth_bytes_per_second
    capacity = hardware.hbm_capacity_bytes
    if peak is None or hbm is None or capacity is None:
        raise UsageError(f"draw.hardware: the table lacks a peak of {draw.hardware!r} that {draw.model!r} needs")
    nic = draw.link.nic_bytes_per_second
    if nic is None:
        if hardware.nic_bytes_per_second is None:
            raise UsageError(f"draw.link: the table has no NIC for {draw.hardware!r}; set nic_bytes_per_second")
        nic = hardware.nic_bytes_per_second * _LINK_FRACTION
    if pool_tokens is None:
        left = devices * capacity * _MEMORY_FRACTION - model.weight_bytes
        pool_tokens = int(left / model.kv_bytes_per_token)
        if pool_tokens < 1:
            raise UsageError(f"draw.model: the weights of {draw.model!r} do not fit on {devices} x {draw.hardware!r}")
    return Machine(
        model=model,
        devices=devices,
        peak_flop_per_second=peak,
        flop_fraction=hardware.achievable_bf16_fraction or _BF16_FRACTION,
        hbm_bytes_per_second=hbm,
        hbm_fraction=hardware.achievable_hbm_fraction or _HBM_FRACTION,
        link_bytes_per_second=hardware.link_bytes_per_second or nic,
        nic_bytes_per_second=nic * devices,
        pool_tokens=pool_tokens,
        clocks=clocks,
        hbm_factor=draw.decode.hbm_factor,
    )
