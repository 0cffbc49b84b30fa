"""Adapters as data: what they may say, how they are found, and that each of their names stands on a real page."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

from pdscope.model.metric import Kind, Metric
from pdscope.model.topology import Role
from pdscope.sources import devices, engines
from pdscope.sources.adapter import Adapter, InfoLabel, Series, discover, spellings
from support.pages import DEVICES, ENGINES, EXPOSITIONS

EVERY = (*ENGINES, *DEVICES)
MADE = EXPOSITIONS.parent / "expositions-made"
OWN = EXPOSITIONS.parents[1] / "golden" / "nvml" / "page.prom"
RECORDED_AS = {"node": "node_exporter_infiniband"}  # adapters whose pages have another name
NEVER_RECORDED = {
    "llm_d",
    "amd",
    "intel",
    "npu",
}  # programs that nobody could run: pages made from the documented names stand in

PRINTED_BY_US = {"pdscope", "nvml"}

# Names that no recorded page holds, each with the reason: the version that has or had it, or when it is printed.
NOT_RECORDED = {
    "sglang:cache_config_info": "0.5.9 and 0.5.10",
    "sglang:gpu_execution_seconds_total": "0.5.7 to 0.5.10",
    "sglang:num_bootstrap_failed_reqs": "up to 0.5.1",
    "sglang:num_bootstrap_failed_reqs_total": "printed after the first failure, as num_transfer_failed_reqs_total is",
    "sglang:num_prefill_infight_queue_reqs": "up to 0.4.10.post2",
    "sglang:num_prefill_prealloc_queue_reqs": "up to 0.5.11",
    "sglang:num_transfer_failed_reqs": "up to 0.5.1",
    "sglang:queue_time_s_bucket": "0.5.2",
    "sglang_loads:disaggregation_prefill_prealloc_queue_reqs": "up to 0.5.11",
    "vllm:gpu_cache_usage_perc": "up to 0.11",
    "vllm:gpu_prefix_cache_hits_total": "up to 0.11",
    "vllm:mooncake_bytes_transferred_bucket": "from 0.33",
    "vllm:mooncake_num_descriptors_bucket": "from 0.33",
    "vllm:mooncake_num_failed_transfers_total": "from 0.33",
    "vllm:mooncake_num_kv_expired_reqs_total": "from 0.33",
    "vllm:mooncake_xfer_time_seconds_bucket": "from 0.33",
    "vllm:time_per_output_token_seconds_bucket": "up to 0.11",
    "DCGM_FI_DEV_BOARD_POWER_WATTS": "DCGM 4.6",
    "DCGM_FI_DEV_CLOCKS_EVENT_REASONS": "DCGM 3.3 and newer, not in the exporter's default list of fields",
    "DCGM_FI_DEV_CLOCK_THROTTLE_REASONS": "not in the exporter's default list of fields",
    "DCGM_FI_DEV_ENFORCED_POWER_LIMIT": "not in the exporter's default list of fields",
    "DCGM_FI_DEV_FB_RESERVED": "not in the exporter's default list of fields at the time",
    "DCGM_FI_DEV_FB_TOTAL": "not in the exporter's default list of fields",
    "DCGM_FI_DEV_GPU_UTIL_RATIO": "DCGM 4.6",
    "DCGM_FI_DEV_MAX_SM_CLOCK": "not in the exporter's default list of fields",
    "DCGM_FI_DEV_NVLINK_THROUGHPUT_TOTAL": "DCGM 4.6",
    "DCGM_FI_DEV_POWER_MGMT_LIMIT": "not in the exporter's default list of fields",
    "DCGM_FI_DEV_XID_ERROR": "DCGM 4.6",
    "DCGM_FI_PROF_DRAM_UTIL_RATIO": "DCGM 4.6",
    "DCGM_FI_PROF_GR_ENGINE_UTIL_RATIO": "DCGM 4.6",
    "DCGM_FI_PROF_NVLINK_RX_BYTES": "not in the exporter's default list of fields",
    "DCGM_FI_PROF_NVLINK_TX_BYTES": "not in the exporter's default list of fields",
    "DCGM_FI_PROF_SM_ACTIVE": "commented out in the exporter's default list of fields",
    "DCGM_FI_PROF_SM_UTIL_RATIO": "DCGM 4.6",
    "DCGM_FI_PROF_TENSOR_UTIL_RATIO": "DCGM 4.6",
    "node_infiniband_np_cnp_packets_sent_total": "a counter of RoCE ports",
    "node_infiniband_out_of_sequence_packets_received_total": "a counter of RoCE ports",
    "node_infiniband_packet_sequence_errors_total": "a counter of RoCE ports",
    "node_infiniband_rp_cnp_packets_handled_total": "a counter of RoCE ports",
}


def program(name: str) -> str:
    """The program that printed a recorded page: file names begin with it, then comes a version or a device."""
    return re.split(r"[-_][a-z]?\d", name)[0]


def printed_names(adapter: Adapter) -> set[str]:
    """Sample names on the recorded pages of the adapter's program."""
    name = adapter.profile.name if adapter.profile is not None else adapter.name
    name = RECORDED_AS.get(name, name)
    pages = [path for path in EXPOSITIONS.iterdir() if program(path.name) == name]
    assert bool(pages) is (name not in NEVER_RECORDED | PRINTED_BY_US)
    pages += [MADE / f"{name}.prom"] * (name in NEVER_RECORDED) + [OWN] * (name in PRINTED_BY_US)
    if adapter.flatten is None:
        bodies = [path.read_bytes() for path in pages if path.suffix != ".json"]
    else:
        bodies = [adapter.flatten(path.read_bytes()) for path in pages if path.match("*-v1_loads-*.json")]
    assert bodies, f"no recorded page of {name}"
    return {found.decode() for body in bodies for found in re.findall(rb"(?m)^[a-zA-Z_:][a-zA-Z0-9_:]*", body)}


def wanted_names(adapter: Adapter) -> set[str]:
    """Names that a page of the adapter's program should hold, of a histogram that of its buckets."""
    series = {
        f"{name}_bucket" if metric.spec.kind is Kind.HISTOGRAM else name
        for metric, alternatives in adapter.series.items()
        for one in alternatives
        for name in (one.name, *one.plus)
    }
    infos = {info.name for alternatives in adapter.infos.values() for info in alternatives}
    return series | infos | set(adapter.labelled)


@pytest.mark.parametrize("adapter", EVERY, ids=lambda adapter: adapter.name)
def test_names_stand_on_recorded_pages(adapter: Adapter) -> None:
    """A name known from documentation alone is listed with its reason."""
    missing = wanted_names(adapter) - printed_names(adapter)
    assert missing <= NOT_RECORDED.keys()


@pytest.mark.parametrize("package", [engines, devices])
def test_documentation_names_everything(package: ModuleType) -> None:
    """The page of a module has each of its metrics and series."""
    folder = Path(__file__).parents[2] / "docs" / package.__name__.rpartition(".")[2]
    missing = []
    for name, module in sys.modules.items():
        if name.startswith(f"{package.__name__}."):
            text = (folder / f"{name.rpartition('.')[2]}.md").read_text(encoding="utf-8")
            for adapter in module.ADAPTERS:
                metrics = {metric.name.lower() for metric in (*adapter.series, *adapter.infos)}
                names = {wanted.removesuffix("_bucket") for wanted in wanted_names(adapter)}
                missing += [f"{name}: {word}" for word in metrics | names if not re.search(rf"\b{word}\b", text)]
    assert not missing


def test_reasons_are_not_stale() -> None:
    """A name that is recorded by now, or that nobody reads any more, needs no reason."""
    missing = {name for adapter in EVERY for name in wanted_names(adapter) - printed_names(adapter)}
    assert NOT_RECORDED.keys() == missing


@pytest.mark.parametrize("adapter", EVERY, ids=lambda adapter: adapter.name)
def test_names_belong_to_the_probe(adapter: Adapter) -> None:
    """What an adapter reads is what its probe recognises, but for a router's own part of its workers' families."""
    foreign = {name for name in wanted_names(adapter) if not name.startswith(adapter.probe)}
    assert foreign <= {"dynamo_component_router_time_to_first_token_seconds_bucket"}


@pytest.mark.parametrize("adapter", EVERY, ids=lambda adapter: adapter.name)
def test_adapters_are_sound(adapter: Adapter) -> None:
    """Facts that no page can show to be wrong."""
    assert adapter.probe
    assert all(adapter.series.values())
    for metric, alternatives in adapter.series.items():
        names = [(one.name, one.plus, tuple(one.where.items())) for one in alternatives]
        assert len(set(names)) == len(names), metric
        assert all(one.scale > 0 for one in alternatives)
        assert not any(one.lazy and metric.spec.kind is Kind.GAUGE for one in alternatives), metric
        if metric.spec.kind is Kind.HISTOGRAM:
            assert not any(one.valid or one.bits or one.plus for one in alternatives), metric
        assert not any(one.bits and (one.valid or one.plus or one.scale != 1) for one in alternatives), metric
    assert adapter.summed <= adapter.series.keys()
    assert all(metric.spec.kind is Kind.GAUGE for metric in adapter.infos)
    assert not set(adapter.rank_labels) & set(adapter.repeated)
    assert Role.ROUTER not in adapter.roles.values()


def test_names_of_adapters_are_unique() -> None:
    """The name tells the source of a figure."""
    names = [adapter.name for adapter in EVERY]
    assert len(set(names)) == len(names)


def test_engines_have_profiles_and_devices_have_none() -> None:
    """Diagnosis asks the profile, never the name."""
    assert all(adapter.profile is not None for adapter in ENGINES)
    assert all(adapter.profile is None for adapter in DEVICES)
    assert all(adapter.profile is not None and adapter.profile.enable.get("metrics") for adapter in ENGINES)


def test_sample_names() -> None:
    """A histogram has three, a colon has two spellings, labels are asked for by name."""
    adapter = Adapter(
        name="x",
        probe=("x:",),
        series={
            Metric.RUNNING: (Series("x:running"), Series("y_running", plus=("z_running",))),
            Metric.TTFT: (Series("x:ttft"),),
        },
        infos={Metric.PAGE_TOKENS: (InfoLabel("x:info", "page"),)},
        labelled=("x:build",),
    )
    printed = ["x:running", "x:ttft_bucket", "x:ttft_sum", "x:ttft_count", "x:info", "x:build"]
    assert adapter.sample_names() == {*printed, *(name.replace(":", "_") for name in printed), "y_running", "z_running"}


@pytest.mark.parametrize(
    ("name", "both"),
    [("a:b", ("a:b", "a_b")), ("a_b", ("a_b",)), ("a:b:c", ("a:b:c", "a_b:c")), ("sglang:", ("sglang:", "sglang_"))],
)
def test_spellings(name: str, both: tuple[str, ...]) -> None:
    """The first colon only: it is the engine's prefix."""
    assert spellings(name) == both


# --------------------------------------------------------------------------------------------- discovery


@pytest.mark.parametrize("package", [engines, devices])
def test_every_module_is_found(package: ModuleType) -> None:
    """In the order of their names, each with all its adapters."""
    modules = sorted(path.stem for folder in package.__path__ for path in Path(folder).glob("*.py"))
    modules.remove("__init__")
    expected = [a.name for name in modules for a in sys.modules[f"{package.__name__}.{name}"].ADAPTERS]
    assert [a.name for a in discover(package)] == expected
    assert len(expected) >= len(modules)


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty package `plugged`, importable as long as the test runs."""
    folder = tmp_path / "plugged"
    folder.mkdir()
    (folder / "__init__.py").touch()
    monkeypatch.syspath_prepend(tmp_path)
    yield folder
    for name in [name for name in sys.modules if name.partition(".")[0] == "plugged"]:
        del sys.modules[name]


def found_in(folder: Path) -> tuple[Adapter, ...]:
    module = ModuleType(folder.name)
    module.__path__ = [str(folder)]
    sys.modules[folder.name] = module
    return discover(module)


def test_a_new_file_is_enough(package: Path) -> None:
    """Two modules, the second with two adapters."""
    head = "from pdscope.sources.adapter import Adapter\n"
    (package / "b.py").write_text(head + "ADAPTERS = (Adapter('b1', ('b_',), {}), Adapter('b2', ('b_',), {}))\n")
    (package / "a.py").write_text(head + "ADAPTERS = (Adapter('a', ('a_',), {}),)\n")
    assert [adapter.name for adapter in found_in(package)] == ["a", "b1", "b2"]


def test_an_empty_package(package: Path) -> None:
    """There may be no module yet."""
    assert found_in(package) == ()


@pytest.mark.parametrize("text", ["", "ADAPTER = ()\n", "ADAPTERS = []\n", "ADAPTERS = None\n"])
def test_a_module_without_adapters(package: Path, text: str) -> None:
    """It is a mistake of ours, and named."""
    (package / "wrong.py").write_text(text)
    with pytest.raises(TypeError, match=r"plugged\.wrong defines no ADAPTERS"):
        found_in(package)
