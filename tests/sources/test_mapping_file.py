"""Mapping files: the documented example, every key, and all mistakes at once with their lines."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from pdscope.config import InvalidConfigError
from pdscope.errors import ConfigError
from pdscope.model.metric import Kind, Metric
from pdscope.sources.adapter import Owner, Ownership, Series
from pdscope.sources.mapping_file import METRICS, UNITS, read_mapping
from pdscope.sources.reader import PageReader, TargetReader
from pdscope.sources.selection import Selection
from support.pages import AT, DEVICES, Reading, read_with

DOCUMENT = Path(__file__).parents[2] / "docs" / "devices" / "mapping-files.md"
SMALL = "source: x\nprobe: [x_]\nmetrics:\n  device_power:\n  - {series: x_power}\n"


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Where a test writes its mapping."""
    return tmp_path / "mapping.yml"


def problems(file: Path, text: str) -> list[str]:
    """The lines of the error, without the name of the file in front."""
    file.write_text(text, encoding="utf-8")
    with pytest.raises(InvalidConfigError) as caught:
        read_mapping(file)
    lines = str(caught.value).splitlines()
    assert all(line.startswith(f"{file}: ") for line in lines)
    return [line.removeprefix(f"{file}: ") for line in lines]


def test_the_documented_example(file: Path) -> None:
    """It reads a page as its comments say."""
    (example,) = (b for b in re.findall(r"```yaml\n(.*?)```", DOCUMENT.read_text("utf-8"), re.DOTALL) if "probe:" in b)
    file.write_text(example, encoding="utf-8")
    adapter = read_mapping(file)
    assert adapter.name == "gaudi"
    assert adapter.refresh_seconds == 15
    body = "".join(
        f'habanalabs_{name}{{UUID="HL-{device}"{more},pod_name="p{device}"}} {value}\n'
        for device in range(2)
        for name, more, value in (
            ("utilization", "", 50 + 20 * device),
            ("memory_total_mb", "", 131072),
            ("power_mW", "", 2000001 if device else 450000),
            ("clock_soc_mhz", "", 1600),
            ("nic_bytes", ',direction="tx"', 7),
            ("nic_bytes", ',direction="rx"', 9),
        )
    ).encode()
    reading = read_with((adapter,), body)
    assert reading.scrape.source == "gaudi"
    assert reading.scrape.schema is not None
    assert reading.scrape.schema.refresh_seconds == 15
    assert reading.value(Metric.DEVICE_BUSY) == pytest.approx(0.6)
    assert reading.ranks(Metric.DEVICE_BUSY) == {"HL-0", "HL-1"}
    assert reading.value(Metric.DEVICE_MEMORY_TOTAL) == 2 * 128 * 2**30
    assert reading.value(Metric.DEVICE_MEMORY_USED) is None
    assert reading.value(Metric.DEVICE_POWER, "HL-0") == 450
    assert reading.value(Metric.DEVICE_POWER, "HL-1") != reading.value(Metric.DEVICE_POWER, "HL-1")
    assert reading.value(Metric.DEVICE_CLOCK) == 1.6e9
    assert reading.value(Metric.NIC_TX_BYTES) == 14
    assert reading.value(Metric.NIC_RX_BYTES) == 18
    own = TargetReader("t", PageReader((adapter,)), (adapter,), Selection(name="p1")).read(body, AT)
    assert Reading(own).ranks(Metric.DEVICE_BUSY) == {"HL-1"}


def test_the_least_that_is_needed(file: Path) -> None:
    """A page without labels is one device."""
    file.write_text(SMALL, encoding="utf-8")
    adapter = read_mapping(file)
    assert adapter.series == {Metric.DEVICE_POWER: (Series("x_power"),)}
    assert adapter.owners == (Owner("pod", Ownership.NAME),)
    assert (adapter.rank_labels, dict(adapter.aliases), adapter.refresh_seconds) == ((), {}, 0)
    assert adapter.devices
    assert read_with((adapter,), b"x_power 3\n").scalars() == {Metric.DEVICE_POWER: 3}


def test_a_byte_order_mark_is_no_mistake(file: Path) -> None:
    """Editors of Windows write one."""
    file.write_bytes(b"\xef\xbb\xbf" + SMALL.encode())
    assert read_mapping(file).name == "x"


def test_every_metric_has_units() -> None:
    """Whatever a mapping may name can be given in words; no histogram is among them, and no engine's metric."""
    assert {metric.spec.unit for metric in METRICS.values()} <= UNITS.keys()
    assert Kind.HISTOGRAM not in {metric.spec.kind for metric in METRICS.values()}
    assert Metric.RUNNING not in METRICS.values()
    assert {m for adapter in DEVICES for m in adapter.series} <= set(METRICS.values())


@pytest.mark.parametrize(
    ("unit", "metric", "factor"),
    [
        ("percent", "dram_active", 0.01),
        ("MiB", "device_memory_used", 2**20),
        ("GB/s", "fabric_tx_rate", 1e9),
        ("Gb/s", "nic_line_rate", 1.25e8),
        ("MHz", "device_clock", 1e6),
        ("us", "kv_agent_time", 1e-6),
        ("count", "device_fault", 1),
    ],
)
def test_units(file: Path, unit: str, metric: str, factor: float) -> None:
    """A word stands for its factor."""
    text = f"source: x\nprobe: [x_]\nmetrics: {{{metric}: [{{series: x_a, unit: {unit}}}]}}\n"
    file.write_text(text, encoding="utf-8")
    assert read_mapping(file).series[METRICS[metric]][0].scale == factor


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ["must be a mapping, not nothing"]),
        ("[]", ["must be a mapping, not a list"]),
        ("a: [", ["line 1, column 5: expected the node content, but found '<stream end>'"]),
        (SMALL + "spurce: y\n", ["spurce: is not a known key; did you mean source? (line 6)"]),
        (SMALL + "source: y\n", ["source: the key stands twice, in lines 1 and 6 (line 1)"]),
        (SMALL.replace("source: x\n", ""), ["source: is required"]),
        (SMALL.replace("source: x", "source: DCGM"), ["source: 'DCGM' is not a short name in lower case (line 1)"]),
        (
            SMALL.replace("source: x", "source: dcgm"),
            ["source: dcgm is a source that pdscope brings along: choose another name (line 1)"],
        ),
        (
            SMALL.replace("[x_]", "[y_]"),
            ["probe: no series of this file begins so: its page would never be recognised (line 2)"],
        ),
        (SMALL.replace("[x_]", "[]"), ["probe: must not be empty (line 2)"]),
        (SMALL.replace("[x_]", "x_"), ["probe: must be a list, not text (line 2)"]),
        (SMALL.replace("[x_]", "[~]"), ["probe[0]: must be text, not nothing (line 2)"]),
        (SMALL.replace("[x_]", "['']"), ["probe[0]: '' is not the beginning of a series name (line 2)"]),
        (SMALL + "refresh: soon\n", ["refresh: 'soon' is not a duration such as 5s, 500ms or 1h30m (line 6)"]),
        (SMALL + "aliases: {pod: pod_name}\n", ["aliases.pod: must be a list, not text (line 6)"]),
        (SMALL + "aliases: {pod: ~}\n", ["aliases.pod: must be a list, not nothing (line 6)"]),
        (SMALL + "aliases: {a-b: [c]}\n", ["aliases.a-b: 'a-b' is not a label (line 6)"]),
        (SMALL + "rank_labels: [1]\n", ["rank_labels[0]: must be text, not a number: put it in quotes (line 6)"]),
        (
            SMALL.replace("device_power", "device_pwoer"),
            ["metrics.device_pwoer: is no metric of devices; did you mean device_power? (line 4)"],
        ),
        (SMALL.replace("- {series: x_power}", ""), ["metrics.device_power: must be a list, not nothing (line 4)"]),
        (
            SMALL.replace("{series: x_power}", "x_power"),
            [
                "metrics.device_power[0]: must be a mapping, not text (line 5)",
                "metrics.device_power[0].series: is required (line 5)",
            ],
        ),
        (
            SMALL.replace("x_power}", "x_power, untis: W}"),
            ["metrics.device_power[0].untis: is not a known key; did you mean unit? (line 5)"],
        ),
        (
            SMALL.replace("x_power}", "x_power, unit: GB/s}"),
            ["metrics.device_power[0].unit: must be one of W, mW, uW (line 5)"],
        ),
        (
            SMALL.replace("x_power}", "x_power, unit: [W]}"),
            ["metrics.device_power[0].unit: must be one of W, mW, uW (line 5)"],
        ),
        (
            SMALL.replace("x_power}", "x_power, unit: W, scale: 2}"),
            ["metrics.device_power[0]: has both unit and scale: choose one (line 5)"],
        ),
        (
            SMALL.replace("x_power}", "x_power, scale: 0}"),
            ["metrics.device_power[0].scale: must be greater than 0 (line 5)"],
        ),
        (
            SMALL.replace("x_power}", f"x_power, scale: 1{'0' * 350}}}"),
            ["metrics.device_power[0].scale: must be a finite number (line 5)"],
        ),
        (
            SMALL.replace("x_power}", "x_power, valid: [0, .nan]}"),
            ["metrics.device_power[0].valid[1]: must be a finite number (line 5)"],
        ),
        (
            SMALL.replace("x_power}", "x_power, valid: [5, 0]}"),
            ["metrics.device_power[0].valid: begins with the greater number (line 5)"],
        ),
        (
            SMALL.replace("x_power}", "x_power, valid: [5]}"),
            [
                "metrics.device_power[0].valid: must be two numbers as printed: the least and the greatest (line 5)",
            ],
        ),
        (
            SMALL.replace("x_power}", "x_power, where: {a: 1}}"),
            ["metrics.device_power[0].where.a: must be text, not a number: put it in quotes (line 5)"],
        ),
    ],
)
def test_mistakes(file: Path, text: str, expected: list[str]) -> None:
    """Each is told with its place."""
    assert problems(file, text) == expected


def test_an_engines_metric_is_none_of_a_device(file: Path) -> None:
    """Nobody tells a queue by a device's exporter."""
    (line,) = problems(file, SMALL.replace("device_power", "running"))
    assert line.startswith("metrics.running: is no metric of devices; known: ")


def test_all_mistakes_at_once(file: Path) -> None:
    """In the order of the file."""
    found = problems(
        file, "source: X\nprobe: {}\nrefresh: soon\nmetrics: {device_busy: [], sm_active: [{series: '1'}]}\n"
    )
    places = [line.partition(":")[0] for line in found]
    assert places == ["source", "probe", "refresh", "metrics.device_busy", "metrics.sm_active[0].series"]


def test_a_file_that_cannot_be_read(file: Path) -> None:
    """The error names the file, and none is read without a bound."""
    with pytest.raises(ConfigError, match=rf"{re.escape(str(file))}: cannot be read: No such file"):
        read_mapping(file)
    file.write_bytes(b"\xff")
    with pytest.raises(ConfigError, match=r"is not UTF-8 text \(byte 0\)"):
        read_mapping(file)
    file.write_bytes(SMALL.encode() + b"#" * 2**18)
    with pytest.raises(ConfigError, match="is larger than 256 KiB"):
        read_mapping(file)
    with pytest.raises(ConfigError, match="is larger than 256 KiB"):
        read_mapping(Path("/dev/zero"))
