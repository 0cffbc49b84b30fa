"""dcgm-exporter: real pages, both generations of names, sentinels, MIG, and what is never taken for utilisation."""

from __future__ import annotations

import math
import re
from pathlib import Path

import pytest

from pdscope.model.metric import Fact, Metric
from pdscope.model.scrape import FailureReason
from pdscope.sources.reader import PageReader, TargetReader
from pdscope.sources.selection import Selection
from support.pages import AT, DEVICES, Reading, page, printed, read_devices, read_engine

T4 = "dcgm_t4_2gpu_fake-gpu-operator.txt"
MIG = "dcgm_a100_mig_fake-gpu-operator.txt"
FIRST, SECOND = "GPU-7a2e92f2-be71-d37e-a744-541600ffc722", "GPU-5f587dd4-6505-0873-c6db-8324dbfe5ba9"
A100 = "GPU-473571f2-fb37-ef7e-50fe-9885b74a23cd"
RENAMED = {
    "PROF_SM_ACTIVE": "PROF_SM_UTIL_RATIO",
    "PROF_PIPE_TENSOR_ACTIVE": "PROF_TENSOR_UTIL_RATIO",
    "PROF_GR_ENGINE_ACTIVE": "PROF_GR_ENGINE_UTIL_RATIO",
    "PROF_DRAM_ACTIVE": "PROF_DRAM_UTIL_RATIO",
    "DEV_GPU_UTIL": "DEV_GPU_UTIL_RATIO",
    "DEV_POWER_USAGE": "DEV_BOARD_POWER_WATTS",
    "DEV_XID_ERRORS": "DEV_XID_ERROR",
    "DEV_NVLINK_BANDWIDTH_TOTAL": "DEV_NVLINK_THROUGHPUT_TOTAL",
}
# Eight devices as an exporter with all profiling fields prints them; values count up by device.
HOST = "".join(
    f'DCGM_FI_PROF_{field}{{gpu="{gpu}",UUID="GPU-{gpu}",device="nvidia{gpu}",hostname="node-a",pod="{pod}"}} {value}\n'
    for field, base in (("SM_ACTIVE", 0.1), ("PIPE_TENSOR_ACTIVE", 0.0), ("DRAM_ACTIVE", 0.2))
    for gpu in range(8)
    for pod in (f"decode-{gpu // 4}",)
    for value in (round(base + gpu / 100, 6),)
).encode()


def newer(body: bytes) -> bytes:
    """The page under the names of DCGM 4.6."""
    for old, new in RENAMED.items():
        body = body.replace(f"DCGM_FI_{old}{{".encode(), f"DCGM_FI_{new}{{".encode())
    return body.replace(b"Hostname=", b"hostname=")


def test_two_devices() -> None:
    """Each device has its own figures; the instance has their means. SM_ACTIVE is off by default, so unknown."""
    reading = read_devices(page(T4))
    assert reading.scrape.source == "dcgm"
    assert reading.scrape.facts == {Fact.DEVICE_MODEL: "Tesla T4"}
    assert reading.known() == {
        *(Metric.ENGINE_ACTIVE, Metric.TENSOR_ACTIVE, Metric.DRAM_ACTIVE, Metric.DEVICE_BUSY),
        *(Metric.DEVICE_MEMORY_USED, Metric.DEVICE_MEMORY_TOTAL, Metric.DEVICE_CLOCK, Metric.DEVICE_POWER),
        *(Metric.DEVICE_FAULT, Metric.PCIE_TX_RATE, Metric.PCIE_RX_RATE, Metric.FABRIC_RATE),
    }
    assert reading.ranks(Metric.DRAM_ACTIVE) == {FIRST, SECOND}
    assert reading.value(Metric.DRAM_ACTIVE, FIRST) == 0.000002
    assert reading.value(Metric.DRAM_ACTIVE, SECOND) == 0.000001
    assert reading.value(Metric.DRAM_ACTIVE) == pytest.approx(0.0000015)
    assert reading.value(Metric.ENGINE_ACTIVE, FIRST) == 0.000039
    assert reading.value(Metric.ENGINE_ACTIVE) == pytest.approx(0.000039 / 2)
    assert reading.value(Metric.TENSOR_ACTIVE) == 0
    assert reading.value(Metric.DEVICE_CLOCK, FIRST) == 585e6
    assert reading.value(Metric.DEVICE_POWER) == pytest.approx((28.722 + 17.035) / 2)
    assert reading.value(Metric.DEVICE_MEMORY_USED) == (128 + 5) * 2**20
    assert reading.value(Metric.DEVICE_MEMORY_TOTAL, SECOND) == (14955 + 5) * 2**20
    assert reading.value(Metric.PCIE_TX_RATE) == 79221 + 10888
    assert reading.value(Metric.PCIE_RX_RATE, FIRST) == 420785


def test_instances_of_a_device() -> None:
    """Field lesson E07: four MIG instances share gpu and UUID; each is a device, so their mean is that of four."""
    reading = read_devices(page(MIG))
    assert reading.ranks(Metric.DRAM_ACTIVE) == {f"{A100}/{instance}" for instance in (5, 7, 8, 9)}
    assert reading.value(Metric.DRAM_ACTIVE, f"{A100}/8") == 0.250816
    assert reading.value(Metric.DRAM_ACTIVE, f"{A100}/7") == 0
    assert reading.value(Metric.ENGINE_ACTIVE, f"{A100}/8") == 0.408493
    for metric, field in ((Metric.DRAM_ACTIVE, "DRAM_ACTIVE"), (Metric.ENGINE_ACTIVE, "GR_ENGINE_ACTIVE")):
        own = printed(MIG, f"DCGM_FI_PROF_{field}")
        assert reading.value(metric) == pytest.approx(own.value(f"DCGM_FI_PROF_{field}", UUID=A100) / 4)
    used = printed(MIG, "DCGM_FI_DEV_FB_USED")
    assert reading.value(Metric.DEVICE_MEMORY_USED) == used.value("DCGM_FI_DEV_FB_USED", UUID=A100) * 2**20
    assert b"DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL{" in page(MIG)  # of the whole device, at each of its instances
    assert Metric.FABRIC_RATE not in reading.known()
    assert Metric.DEVICE_BUSY not in reading.known()


def test_one_instance_of_a_device() -> None:
    """An instance that runs on a slice is judged by the slice alone."""
    reading = read_devices(page(MIG), select={"GPU_I_ID": "8"})
    assert reading.ranks(Metric.DRAM_ACTIVE) == {f"{A100}/8"}
    assert reading.value(Metric.DRAM_ACTIVE) == 0.250816
    assert reading.value(Metric.ENGINE_ACTIVE) == 0.408493
    assert reading.value(Metric.TENSOR_ACTIVE) == 0.000048


def test_an_idle_instance_is_zero() -> None:
    """Field lesson E07: idle slices print 0.000000, which is a measurement."""
    reading = read_devices(page("dcgm_a100_mig_idle_fake-gpu-operator.txt"))
    for metric in (Metric.ENGINE_ACTIVE, Metric.TENSOR_ACTIVE, Metric.DRAM_ACTIVE):
        assert reading.scalars()[metric] == 0


@pytest.mark.parametrize("body", [page(T4), page(MIG), HOST], ids=["t4", "mig", "host"])
def test_both_generations_of_names(body: bytes) -> None:
    """DCGM 4.6 renamed the fields and the label of the host; the page gives the same."""
    old, new = read_devices(body), read_devices(newer(body))
    assert newer(body) != body
    assert new.scalars() == old.scalars()
    for metric in old.known():
        assert new.ranks(metric) == old.ranks(metric)


def test_a_page_with_both_names_counts_once() -> None:
    """An exporter that prints both says nothing twice."""
    assert read_devices(HOST + newer(HOST)).scalars() == read_devices(HOST).scalars()


def test_the_label_of_older_exporters() -> None:
    """With -o the exporter spells it `uuid`; devices stay apart."""
    reading = read_devices(HOST.replace(b"UUID=", b"uuid="))
    assert len(reading.ranks(Metric.SM_ACTIVE)) == 8
    assert reading.value(Metric.SM_ACTIVE) == pytest.approx(0.135)


def test_a_shared_device_counts_once() -> None:
    """Virtual devices of several pods repeat the numbers of the one that they share."""
    line = 'DCGM_FI_PROF_DRAM_ACTIVE{gpu="0",UUID="GPU-0",vgpu="%d",pod="p-%d"} 0.6\n'
    body = "".join(line % (number, number) for number in range(3)).encode()
    assert read_devices(body).value(Metric.DRAM_ACTIVE) == 0.6
    assert read_devices(body, select={"pod": "p-2"}).value(Metric.DRAM_ACTIVE) == 0.6


@pytest.mark.parametrize(
    ("select", "devices"),
    [
        ({}, range(8)),
        ({"gpu": "0-3"}, range(4)),
        ({"gpu": "4-7"}, range(4, 8)),
        ({"gpu": "0,2,5-6"}, (0, 2, 5, 6)),
        ({"gpu": "3"}, (3,)),
        ({"device": "nvidia[01]"}, (0, 1)),
        ({"UUID": "GPU-7"}, (7,)),
        ({"UUID": "GPU"}, ()),
        ({"pod": "decode-1"}, range(4, 8)),
        ({"pod": "decode-.*", "gpu": "3-4"}, (3, 4)),
        ({"gpu": "8-15"}, ()),
        ({"container": "sglang"}, ()),
        ({"uuid": "GPU-7"}, (7,)),
        ({"exported_pod": "decode-0"}, range(4)),
        ({"Hostname": "node-a", "gpu": "2"}, (2,)),
    ],
)
def test_select(select: dict[str, str], devices: range | tuple[int, ...]) -> None:
    """By ranges of numbers, or by a pattern for the whole value; several labels have to fit together."""
    reading = read_devices(HOST, select=select)
    assert reading.scrape.ok
    if not devices:
        assert reading.known() == set()
        return
    expected = sum(0.1 + gpu / 100 for gpu in devices) / len(devices)
    assert reading.value(Metric.SM_ACTIVE) == pytest.approx(expected)
    assert reading.ranks(Metric.SM_ACTIVE) == {f"GPU-{gpu}" for gpu in devices}


@pytest.mark.parametrize("gpu", ["", "x", "-1", "1.0", "1e0", "²", "9" * 5000])
def test_a_number_of_a_device_that_is_none(gpu: str) -> None:
    """A label that is no plain number lies in no range."""
    body = HOST + f'DCGM_FI_PROF_SM_ACTIVE{{gpu="{gpu}",UUID="GPU-x"}} 0.9\n'.encode()
    assert read_devices(body, select={"gpu": "0-9"}).value(Metric.SM_ACTIVE) == pytest.approx(0.135)


@pytest.mark.parametrize(
    "sentinel",
    [
        *(f"14073748835532{last}.000000" for last in ("8", "9")),
        *("140737488355330.000000", "140737488355331.000000"),
        *("9223372036854775792", "9223372036854775793", "9223372036854775794", "9223372036854775795"),
        *("-1", "1.06", "NaN", "+Inf", "-Inf", "100"),
    ],
)
def test_sentinels(sentinel: str) -> None:
    """Field lesson E03: a blank is missing, not 1.4e14; so is the mean over a device that has no figure."""
    body, changed = re.subn(rb'(?m)^(DCGM_FI_PROF_DRAM_ACTIVE\{gpu="3".*\}) .*$', rb"\1 " + sentinel.encode(), HOST)
    assert changed == 1
    reading = read_devices(body)
    own, mean = reading.value(Metric.DRAM_ACTIVE, "GPU-3"), reading.value(Metric.DRAM_ACTIVE)
    assert own is not None
    assert mean is not None
    assert math.isnan(own)
    assert math.isnan(mean)
    assert reading.value(Metric.DRAM_ACTIVE, "GPU-2") == 0.22
    assert reading.value(Metric.SM_ACTIVE) == pytest.approx(0.135)


@pytest.mark.parametrize("value", [0.0, 1.0, 1.03, 1.05])
def test_slightly_above_one(value: float) -> None:
    """Under MIG a ratio may exceed 1 a little."""
    body = f'DCGM_FI_PROF_SM_ACTIVE{{gpu="0",UUID="GPU-0"}} {value}\n'.encode()
    assert read_devices(body).value(Metric.SM_ACTIVE) == value


def one(field: str, value: float | str, labels: str = "") -> Reading:
    """A page with one sample."""
    return read_devices(f'# TYPE {field} gauge\n{field}{{gpu="0",UUID="GPU-0"{labels}}} {value}\n'.encode())


@pytest.mark.parametrize("field", ["DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_GPU_UTIL_RATIO"])
def test_busy_is_not_utilised(field: str) -> None:
    """That a kernel ran is told as that and as nothing else; both names count to 100."""
    reading = one(field, 97)
    assert reading.known() == {Metric.DEVICE_BUSY}
    assert reading.value(Metric.DEVICE_BUSY) == pytest.approx(0.97)


@pytest.mark.parametrize(
    "field", ["DCGM_FI_DEV_MEM_COPY_UTIL", "DCGM_FI_DEV_MEM_COPY_UTIL_RATIO", "DCGM_FI_DEV_FB_USED_RATIO"]
)
def test_touched_is_not_bandwidth(field: str) -> None:
    """That memory was touched, or is full, says nothing of its bandwidth: these fields are never read."""
    (adapter,) = (a for a in DEVICES if a.name == "dcgm")
    assert field not in adapter.sample_names()
    reading = one(field, 100)
    assert reading.scrape.ok
    assert reading.known() == set()


@pytest.mark.parametrize(
    ("field", "printed_value", "metric", "value"),
    [
        ("DEV_NVLINK_BANDWIDTH_TOTAL", 197_265, Metric.FABRIC_RATE, 197_265 * 1000 * 1024),
        ("DEV_NVLINK_THROUGHPUT_TOTAL", 1, Metric.FABRIC_RATE, 1_024_000),
        ("PROF_NVLINK_TX_BYTES", 21_000_000_000, Metric.FABRIC_TX_RATE, 21e9),
        ("PROF_NVLINK_RX_BYTES", 3, Metric.FABRIC_RX_RATE, 3),
        ("DEV_SM_CLOCK", 1980, Metric.DEVICE_CLOCK, 1.98e9),
        ("DEV_MAX_SM_CLOCK", 1980, Metric.DEVICE_CLOCK_MAX, 1.98e9),
        ("DEV_POWER_USAGE", 701.5, Metric.DEVICE_POWER, 701.5),
        ("DEV_ENFORCED_POWER_LIMIT", 700, Metric.DEVICE_POWER_LIMIT, 700),
        ("DEV_POWER_MGMT_LIMIT", 700, Metric.DEVICE_POWER_LIMIT, 700),
        ("DEV_XID_ERRORS", 79, Metric.DEVICE_FAULT, 79),
        ("DEV_FB_TOTAL", 143771, Metric.DEVICE_MEMORY_TOTAL, 143771 * 2**20),
    ],
)
def test_units(field: str, printed_value: float, metric: Metric, value: float) -> None:
    """Everything in base units; NVLink's bandwidth is a rate, whatever its type says."""
    assert one(f"DCGM_FI_{field}", printed_value).scalars() == {metric: value}
    for sentinel in ("140737488355328.000000", "9223372036854775794", "-1"):
        missing = one(f"DCGM_FI_{field}", sentinel).value(metric)
        assert missing is not None
        assert math.isnan(missing)


def test_total_memory() -> None:
    """The field itself, else the sum of its parts as far as they are on the page for every device."""
    used, free, reserved = (f'DCGM_FI_DEV_FB_{part}{{UUID="GPU-%d"}} %d\n' for part in ("USED", "FREE", "RESERVED"))
    parts = "".join(line % (gpu, 10) for line in (used, free) for gpu in range(2))
    assert read_devices(parts.encode()).value(Metric.DEVICE_MEMORY_TOTAL) == 40 * 2**20
    all_parts = parts + "".join(reserved % (gpu, 3) for gpu in range(2))
    assert read_devices(all_parts.encode()).value(Metric.DEVICE_MEMORY_TOTAL, "GPU-1") == 23 * 2**20
    some = parts + reserved % (0, 3)
    assert read_devices(some.encode()).value(Metric.DEVICE_MEMORY_TOTAL) == 40 * 2**20
    whole = all_parts + 'DCGM_FI_DEV_FB_TOTAL{UUID="GPU-0"} 24\n'
    assert read_devices(whole.encode()).value(Metric.DEVICE_MEMORY_TOTAL) == 24 * 2**20
    assert Metric.DEVICE_MEMORY_TOTAL not in read_devices((used % (0, 1)).encode()).known()


@pytest.mark.parametrize("field", ["DCGM_FI_DEV_CLOCKS_EVENT_REASONS", "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS"])
@pytest.mark.parametrize(
    ("mask", "slowdown", "capped"),
    [
        (0, 0, 0),
        (0x1, 0, 0),
        (0x4, 0, 1),
        (0x8, 1, 0),
        (0x20, 1, 0),
        (0x40, 1, 0),
        (0x80, 1, 0),
        (0x84, 1, 1),
        (0x113, 0, 0),
    ],
)
def test_reasons_for_low_clocks(field: str, mask: int, slowdown: int, capped: int) -> None:
    """Bits of a mask: idle and clocks that somebody set are no trouble, the power limit is a thing of its own."""
    expected = {Metric.DEVICE_SLOWDOWN: slowdown, Metric.DEVICE_POWER_CAPPED: capped}
    assert one(field, mask).scalars() == expected
    assert one(field, f"{mask}.000000").scalars() == expected


def test_one_slow_device_of_many() -> None:
    """An instance is held back by its slowest device."""
    line = 'DCGM_FI_DEV_CLOCK_THROTTLE_REASONS{UUID="GPU-%d"} %d\n'
    reading = read_devices("".join(line % (gpu, 0x44 if gpu == 5 else 1) for gpu in range(8)).encode())
    assert reading.value(Metric.DEVICE_SLOWDOWN) == 1
    assert reading.value(Metric.DEVICE_SLOWDOWN, "GPU-5") == 1
    assert reading.value(Metric.DEVICE_SLOWDOWN, "GPU-4") == 0


def test_rows_of_links_are_not_devices() -> None:
    """The same field is printed for each NVLink and switch, under other labels."""
    device = 'DCGM_FI_PROF_NVLINK_TX_BYTES{gpu="0",UUID="GPU-0",modelName="NVIDIA H200"} 18\n'
    rows = "".join(
        f'DCGM_FI_PROF_NVLINK_TX_BYTES{{nvlink="{link}",gpu="0",gpu_uuid="GPU-0",model_name="H200"}} 1\n'
        for link in range(18)
    )
    switch = 'DCGM_FI_PROF_NVLINK_TX_BYTES{nvswitch="nvswitch0"} 99\n'
    reading = read_devices((device + rows + switch).encode())
    assert reading.value(Metric.FABRIC_TX_RATE) == 18
    assert reading.ranks(Metric.FABRIC_TX_RATE) == {"GPU-0"}
    assert reading.scrape.facts == {Fact.DEVICE_MODEL: "NVIDIA H200"}


@pytest.mark.parametrize("label", ["pod", "exported_pod", "pod_name"])
def test_whose_a_device_is(label: str) -> None:
    """Without a selection a page gives an instance the devices of the pod of its name, however that is spelled."""
    (adapter,) = (a for a in DEVICES if a.name == "dcgm")
    body = HOST.replace(b"pod=", f"{label}=".encode())
    if label == "exported_pod":  # Prometheus has put the exporter's own pod beside it
        body = body.replace(b"exported_pod=", b'pod="dcgm-exporter-x",exported_pod=')
    target = TargetReader("t", PageReader((adapter,)), (adapter,), Selection(name="decode-1"))
    assert Reading(target.read(body, AT)).ranks(Metric.SM_ACTIVE) == {f"GPU-{gpu}" for gpu in range(4, 8)}


def counters_file() -> dict[str, str]:
    """The lines of the file of counters that pdscope ships, by field."""
    lines = (Path(__file__).parents[3] / "deploy" / "dcgm-counters.csv").read_text(encoding="utf-8").splitlines()
    rows = [line for line in lines if line and not line.startswith("#")]
    found = {row.partition(",")[0]: row for row in rows}
    assert len(found) == len(rows)
    return found


def test_every_field_can_be_switched_on() -> None:
    """What the adapter reads under its old name has the line for it, and the file of counters has that line."""
    (adapter,) = (a for a in DEVICES if a.name == "dcgm")
    shipped = counters_file()
    assert adapter.enable.keys() == adapter.series.keys()
    for metric, line in adapter.enable.items():
        field = line.partition(",")[0]
        names = {name for series in adapter.series[metric] for name in (series.name, *series.plus)}
        assert field in names, metric
        assert shipped[field] == line
    for metric in (Metric.SM_ACTIVE, Metric.TENSOR_ACTIVE, Metric.ENGINE_ACTIVE, Metric.DRAM_ACTIVE):
        assert adapter.enable[metric].startswith(f"{adapter.series[metric][0].name},")
    assert {"DCGM_FI_PROF_SM_OCCUPANCY", "DCGM_FI_DEV_FB_RESERVED"} <= shipped.keys()


def test_the_format_of_the_file_of_counters() -> None:
    """Field, type, help: the exporter refuses its whole file for one bad line."""
    for line in counters_file().values():
        field, kind, text = (part.strip() for part in line.split(","))
        assert re.fullmatch("DCGM_FI_(DEV|PROF)_[A-Z0-9_]+", field)
        assert kind == "gauge"
        assert text.endswith(".")


def test_profiling_fields_are_not_there() -> None:
    """Field lesson E05: while a profiler runs only DEV fields are left; nothing stands in for the others."""
    body = re.sub(rb"(?m)^.*DCGM_FI_PROF_.*\n", b"", page(T4))
    assert b"DCGM_FI_DEV_GPU_UTIL{" in body
    assert b"DCGM_FI_DEV_MEM_COPY_UTIL{" in body
    reading = read_devices(body)
    assert reading.scrape.ok
    utilisation = {Metric.SM_ACTIVE, Metric.TENSOR_ACTIVE, Metric.ENGINE_ACTIVE, Metric.DRAM_ACTIVE}
    assert not reading.known() & utilisation
    assert reading.value(Metric.DEVICE_BUSY) == 0


def test_a_page_with_its_own_times() -> None:
    """Samples are as old as they say, the youngest counts; a clock that runs ahead does not make data of the future."""
    stamped = b"".join(line + b" 1799999970000\n" for line in HOST.splitlines())
    assert read_devices(stamped).scrape.at == AT - 30
    one_later = stamped.replace(b" 1799999970000\n", b" 1799999975500\n", 1)
    assert read_devices(one_later).scrape.at == AT - 24.5
    assert read_devices(stamped.replace(b" 1799999970000", b" 1800000060000")).scrape.at == AT
    assert read_devices(HOST).scrape.at == AT
    assert read_devices(stamped).scalars() == read_devices(HOST).scalars()


def test_another_exporter() -> None:
    """A page without any field of DCGM is refused."""
    scrape = read_devices(page("node_exporter_infiniband_e2e.txt")).scrape
    assert scrape.reason is FailureReason.METRICS_OFF
    assert not scrape.ok


def test_devices_are_no_instance() -> None:
    """The url of the exporter, given as that of an instance, is refused."""
    assert read_engine(page(T4)).scrape.reason is FailureReason.METRICS_OFF
