"""A snapshot as a page of Prometheus' text format: what `pdscope agent` serves and what the daemon itself reads."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Final

from pdscope.sources.nvml.snapshot import DeviceSample, Signal, Snapshot

_PREFIX: Final = "pdscope_device_"
_HELP: Final = {
    Signal.SM_ACTIVE: "Share of the time in which a streaming multiprocessor holds work, mean of all of them.",
    Signal.TENSOR_ACTIVE: "Share of the cycles in which the tensor cores work.",
    Signal.HBM_BANDWIDTH: "Share of the theoretical bandwidth of device memory that is used.",
    Signal.BUSY: "Share of the time in which some kernel ran; says nothing of how much it computed.",
    Signal.MEMORY_USED: "Device memory in use.",
    Signal.MEMORY_TOTAL: "Device memory.",
    Signal.HBM_PEAK: "Theoretical bandwidth of device memory: twice its highest clock times the width of its bus.",
    Signal.CLOCK: "Clock of the streaming multiprocessors.",
    Signal.CLOCK_MAX: "Highest clock of the streaming multiprocessors.",
    Signal.POWER: "Power that the device draws.",
    Signal.POWER_LIMIT: "Power that the device may draw.",
    Signal.SLOWDOWN: "1 while heat, a power brake or the hardware holds the clocks down.",
    Signal.POWER_CAPPED: "1 while the power limit holds the clocks down, which heavy prefill does to a sound device.",
    Signal.XID: "Code of the last Xid error, 0 for none.",
    Signal.NVLINK_TX_RATE: "Bytes a second that leave the device through NVLink.",
    Signal.NVLINK_RX_RATE: "Bytes a second that reach the device through NVLink.",
    Signal.NVLINK_TX_BYTES: "Bytes that left the device through NVLink.",
    Signal.NVLINK_RX_BYTES: "Bytes that reached the device through NVLink.",
    Signal.PCIE_TX_RATE: "Bytes a second that leave the device through PCIe.",
    Signal.PCIE_RX_RATE: "Bytes a second that reach the device through PCIe.",
}
_ESCAPES: Final = str.maketrans({"\\": r"\\", "\n": r"\n", '"': r"\""})


def render_page(snapshot: Snapshot) -> bytes:
    """The page. What is unknown is absent; why stands in `pdscope_device_signal_available`."""
    lines: list[str] = []
    devices = [(device, _device_labels(device, snapshot.host)) for device in snapshot.devices]
    for signal, text in _HELP.items():
        rows = [
            f"{_PREFIX}{signal}{{{labels}}} {_number(value)}"
            for device, labels in devices
            if (value := device.readings.values.get(signal)) is not None
        ]
        lines += _family(signal, text, rows)
    lines += _family("up", "1 while the device answers.", (f"{_PREFIX}up{{{own}}} {int(d.up)}" for d, own in devices))
    lines += _family(
        "signal_available",
        "1 for a signal that the device gives, 0 for one that it does not, with the reason.",
        (row for device, _ in devices for row in _availability(device)),
    )
    lines += _family("process", "Processes that compute on the device.", (r for d, _ in devices for r in _processes(d)))
    lines += _family(
        "invalid_samples_total",
        "Answers of the driver that were no measurements.",
        (f"{_PREFIX}invalid_samples_total{{{_label('reason', why)}}} {n}" for why, n in snapshot.invalid.items()),
    )
    lines += _family(
        "source_up",
        "1 while NVML answers on this host, 0 where there is no data, with the reason.",
        (f"{_PREFIX}source_up{{{_label('reason', snapshot.reason or '')}}} {int(snapshot.reason is None)}",),
    )
    lines += _family(
        "sample_timestamp_seconds",
        "When the devices were last asked, in seconds since the epoch.",
        (f"{_PREFIX}sample_timestamp_seconds {_number(snapshot.at)}",),
    )
    return ("\n".join(lines) + "\n").encode()


def _family(name: str, text: str, rows: Iterable[str]) -> Iterator[str]:
    """A family with its comments, or nothing where it has no sample."""
    found = tuple(rows)
    if found:
        yield f"# HELP {_PREFIX}{name} {text}"
        yield f"# TYPE {_PREFIX}{name} {'counter' if name.endswith('_total') else 'gauge'}"
        yield from found


def _device_labels(device: DeviceSample, host: str) -> str:
    identity = device.identity
    labels = {"device": identity.uuid, "index": str(identity.index), "host": host, "model": identity.model}
    if identity.mig:
        labels["mig"] = identity.mig
    labels["ports"] = _ports(device.ports)
    return ",".join(_label(name, value) for name, value in labels.items())


def _availability(device: DeviceSample) -> Iterator[str]:
    start = f"{_PREFIX}signal_available{{{_label('device', device.identity.uuid)}"
    for signal in Signal:
        missing = device.readings.missing.get(signal)
        yield f'{start},signal="{signal}",reason="{missing or ""}"}} {int(missing is None)}'


def _processes(device: DeviceSample) -> Iterator[str]:
    for process in device.processes:
        labels = {
            "device": device.identity.uuid,
            "pid": str(process.pid),
            "name": process.name,
            "ports": _ports(process.ports),
        }
        yield f"{_PREFIX}process{{{','.join(_label(name, value) for name, value in labels.items())}}} 1"


def _ports(ports: Iterable[int]) -> str:
    return ";".join(map(str, ports))


def _label(name: str, value: str) -> str:
    return f'{name}="{value.translate(_ESCAPES)}"'


def _number(value: float) -> str:
    """Whole numbers without a point; what is not, in as many digits as bring the same number back."""
    return str(int(value)) if value.is_integer() else repr(value)
