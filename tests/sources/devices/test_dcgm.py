"""dcgm-exporter: real pages, both generations of names, sentinels, MIG, and what is never taken for utilisation."""

from __future__ import annotations

import math
import re

import pytest

from pdscope.model.metric import Metric
from pdscope.model.scrape import FailureReason
from support.pages import AT, DEVICES, page, printed, read_devices, read_engine

T4 = "dcgm_t4_2gpu_fake-gpu-operator.txt"
MIG = "dcgm_a100_mig_fake-gpu-operator.txt"
FIRST, SECOND = "GPU-7a2e92f2-be71-d37e-a744-541600ffc722", "GPU-5f587dd4-6505-0873-c6db-8324dbfe5ba9"
A100 = "GPU-473571f2-fb37-ef7e-50fe-9885b74a23cd"
RENAMED = {
    "SM_ACTIVE": "SM_UTIL_RATIO",
    "PIPE_TENSOR_ACTIVE": "TENSOR_UTIL_RATIO",
    "GR_ENGINE_ACTIVE": "GR_ENGINE_UTIL_RATIO",
    "DRAM_ACTIVE": "DRAM_UTIL_RATIO",
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
        body = body.replace(f"DCGM_FI_PROF_{old}".encode(), f"DCGM_FI_PROF_{new}".encode())
    return body.replace(b"Hostname=", b"hostname=")


def test_two_devices() -> None:
    """Each device has its own figures; the instance has their means. SM_ACTIVE is off by default, so unknown."""
    reading = read_devices(page(T4))
    assert reading.scrape.source == "dcgm"
    assert reading.known() == {Metric.ENGINE_ACTIVE, Metric.TENSOR_ACTIVE, Metric.DRAM_ACTIVE}
    assert reading.ranks(Metric.DRAM_ACTIVE) == {FIRST, SECOND}
    assert reading.value(Metric.DRAM_ACTIVE, FIRST) == 0.000002
    assert reading.value(Metric.DRAM_ACTIVE, SECOND) == 0.000001
    assert reading.value(Metric.DRAM_ACTIVE) == pytest.approx(0.0000015)
    assert reading.value(Metric.ENGINE_ACTIVE, FIRST) == 0.000039
    assert reading.value(Metric.ENGINE_ACTIVE) == pytest.approx(0.000039 / 2)
    assert reading.value(Metric.TENSOR_ACTIVE) == 0


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
    assert reading.scalars() == {Metric.ENGINE_ACTIVE: 0, Metric.TENSOR_ACTIVE: 0, Metric.DRAM_ACTIVE: 0}


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


@pytest.mark.parametrize(
    "field",
    [
        *("DCGM_FI_DEV_GPU_UTIL", "DCGM_FI_DEV_GPU_UTIL_RATIO", "DCGM_FI_DEV_MEM_COPY_UTIL"),
        *("DCGM_FI_DEV_MEM_COPY_UTIL_RATIO", "DCGM_FI_DEV_NVLINK_BANDWIDTH_TOTAL", "DCGM_FI_DEV_FB_USED"),
    ],
)
def test_busy_is_not_utilised(field: str) -> None:
    """That a kernel ran or memory was touched says nothing of compute or bandwidth: these fields are never read."""
    (adapter,) = (a for a in DEVICES if a.name == "dcgm")
    assert field not in adapter.sample_names()
    body = f'# TYPE {field} gauge\n{field}{{gpu="0",UUID="GPU-0"}} 100\n'.encode()
    reading = read_devices(body)
    assert reading.scrape.ok
    assert reading.known() == set()


def test_profiling_fields_are_not_there() -> None:
    """Field lesson E05: while a profiler runs only DEV fields are left; nothing stands in for the others."""
    body = re.sub(rb"(?m)^.*DCGM_FI_PROF_.*\n", b"", page(T4))
    assert b"DCGM_FI_DEV_GPU_UTIL{" in body
    assert b"DCGM_FI_DEV_MEM_COPY_UTIL{" in body
    reading = read_devices(body)
    assert reading.scrape.ok
    assert reading.known() == set()


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
