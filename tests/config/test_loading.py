"""What a good configuration means."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_origin

import pytest
import yaml
from pydantic import SecretStr, ValidationError

from pdscope.config import (
    Config,
    HardwareConfig,
    InterconnectConfig,
    Names,
    ServesConfig,
    check_names,
    load_config,
    parse_config,
    threshold_items,
)
from pdscope.config.base import Model, model_in
from pdscope.errors import ConfigError
from pdscope.model.topology import (
    Attention,
    Interconnect,
    KvShape,
    LinkDirection,
    LinkScope,
    LinkTopology,
    ModelFacts,
    Role,
    Routing,
    Slo,
)

CONFIGS = Path(__file__).parents[1] / "fixtures" / "configs"
GOOD = 'deployments:\n- name: d\n  instances:\n  - {name: p0, url: "http://h:1"}\n'


@pytest.fixture(scope="module")
def complete() -> Config:
    return load_config(CONFIGS / "complete.yml")


def parse(text: str, base_dir: Path = Path("/base")) -> Config:
    return parse_config(text, base_dir)


def key_paths(model: type[Model], path: str = "") -> Iterator[tuple[str, str]]:
    """(model and key, path) of each key of the models."""
    for key, field in model.fields_by_key().items():
        yield f"{model.__name__}.{key}", f"{path}{key}"
        if below := model_in(field.annotation):
            many = "[]" if get_origin(field.annotation) is tuple else ""
            yield from key_paths(below, f"{path}{key}{many}.")


def written(model: type[Model], data: Any) -> Iterator[str]:
    for item in data if isinstance(data, list) else [data]:
        for key, value in item.items() if isinstance(item, dict) else ():
            yield f"{model.__name__}.{key}"
            if below := model_in(model.fields_by_key()[key].annotation):
                yield from written(below, value)


def test_the_complete_file_uses_every_key() -> None:
    data = yaml.safe_load((CONFIGS / "complete.yml").read_text(encoding="utf-8"))
    assert set(written(Config, data)) == {key for key, _ in key_paths(Config)}


@pytest.mark.parametrize(
    ("file", "instances", "devices"),
    [("vllm-transfer-bound.yml", 2, 0), ("sglang-device-figures.yml", 3, 3), ("npu-mesh.yml", 3, 2)],
)
def test_recorded_configurations_load(file: str, instances: int, devices: int) -> None:
    (deployment,) = load_config(CONFIGS / file).deployments
    assert len(deployment.instances) == instances
    assert len(deployment.devices) == devices
    assert deployment.interconnect is not None
    assert deployment.interconnect.to_model().bandwidth_bytes_per_second > 0


def test_the_smallest_file() -> None:
    config = parse(GOOD)
    assert config.window_seconds == 60.0
    assert (config.scrape.interval_seconds, config.scrape.timeout_seconds) == (5.0, 4.0)
    (deployment,) = config.deployments
    (instance,) = deployment.instances
    assert (instance.role, instance.engine, instance.tp, instance.hardware) == (None, None, None, None)
    assert deployment.routing is None
    assert deployment.interconnect is None
    assert deployment.slo.to_model() == Slo()
    assert deployment.model.to_model() == ModelFacts(name="")


def test_values_reach_the_model_in_base_units(complete: Config) -> None:
    llama, deepseek, _ = complete.deployments
    assert llama.model.to_model() == ModelFacts(
        name="meta-llama/Llama-3.1-70B-Instruct",
        kv=KvShape(Attention.GQA, layers=80, bytes_per_element=2.0, kv_heads=8, head_dim=128),
        weight_bytes=141e9,
    )
    assert deepseek.model.kv is not None
    assert deepseek.model.kv.to_model() == KvShape(
        Attention.MLA,
        layers=61,
        bytes_per_element=1.0,
        latent_dim=576,
        full_attention_layers=10,
        sliding_window=4096,
        scale_bytes=4.5,
    )
    assert deepseek.model.active_parameters == 37e9
    assert llama.interconnect is not None
    assert llama.interconnect.to_model() == Interconnect(
        392e9,
        LinkDirection.BIDIRECTIONAL,
        LinkScope.DEVICE,
        LinkTopology.MESH,
        peers=7,
        efficiency=0.8,
        transfer_engine="mooncake",
        ib_device="mlx5_0",
        measured=True,
    )
    assert (llama.routing, deepseek.routing) == (None, Routing.CONCURRENT)
    assert llama.labels == {"team": "search", "shard": "1"}


def test_defaults_are_inherited_key_by_key(complete: Config) -> None:
    llama, deepseek, _ = complete.deployments
    assert llama.slo.to_model() == Slo(
        ttft_p50_seconds=1.5,
        ttft_p95_seconds=4.0,
        ttft_p99_seconds=8.0,
        itl_p50_seconds=0.05,
        itl_p95_seconds=0.08,
        itl_p99_seconds=0.2,
    )
    assert deepseek.interconnect is not None
    assert deepseek.interconnect.to_model() == Interconnect(50e9, efficiency=0.9, transfer_engine="nixl")
    assert llama.thresholds == {
        "kv_transfer_bandwidth": {"utilization": 0.95},
        "decode_hbm_bandwidth": {"utilization": 0.8, "roofline_share": 0.6},
    }


def test_a_key_given_with_its_default_value_is_not_inherited_over() -> None:
    config = parse(
        "defaults: {interconnect: {bandwidth: 1GB/s, direction: bidirectional}}\n"
        + GOOD
        + "  interconnect: {direction: unidirectional}\n"
    )
    link = config.deployments[0].interconnect
    assert link is not None
    assert link.to_model() == Interconnect(1e9, LinkDirection.UNIDIRECTIONAL)


def test_defaults_without_a_bandwidth_make_no_link() -> None:
    config = parse("defaults: {interconnect: {efficiency: 0.7}}\n" + GOOD)
    assert config.deployments[0].interconnect is None
    with pytest.raises(ConfigError, match=r"^interconnect\.bandwidth: is required$"):
        InterconnectConfig().to_model()


def test_instances_inherit_hardware_and_scrape(complete: Config) -> None:
    p0, d0, _ = complete.deployments[0].instances
    assert p0.hardware == HardwareConfig(name="H200")
    assert d0.hardware is not None
    assert (d0.hardware.name, d0.hardware.nic_bytes_per_second) == ("H100 SXM", 50e9)
    assert d0.hardware.bf16_flop_per_second == 989e12
    assert (p0.scrape.interval_seconds, p0.scrape.timeout_seconds) == (5.0, 4.0)
    assert (d0.scrape.interval_seconds, d0.scrape.timeout_seconds) == (2.0, 1.0)
    gpu = complete.deployments[0].devices[1]
    assert (gpu.scrape.interval_seconds, gpu.scrape.timeout_seconds) == (30.0, 4.0)


@pytest.mark.parametrize(
    ("top", "own", "expected"),
    [
        ("", "", (5.0, 4.0)),
        ("interval: 3s", "", (3.0, 2.4)),
        ("interval: 10s", "", (10.0, 4.0)),
        ("interval: 10s, timeout: 9s", "", (10.0, 9.0)),
        ("interval: 10s, timeout: 9s", "interval: 1s", (1.0, 1.0)),
        ("interval: 10s", "timeout: 8s", (10.0, 8.0)),
        ("interval: 10s", "interval: 1s", (1.0, 0.8)),
    ],
)
def test_a_scrape_ends_before_the_next_begins(top: str, own: str, expected: tuple[float, float]) -> None:
    text = f"scrape: {{{top}}}\n" + GOOD.replace('"}', f'", scrape: {{{own}}}}}')
    scrape = parse(text).deployments[0].instances[0].scrape
    assert (scrape.interval_seconds, scrape.timeout_seconds) == pytest.approx(expected)


def test_a_window_may_be_shorter_than_an_interval() -> None:
    """The window then reaches back to the scrape before the last one."""
    assert parse("window: 5s\nscrape: {interval: 30s}\n" + GOOD).window_seconds == 5.0


def test_addresses_are_the_roots_of_engines(complete: Config) -> None:
    assert [i.url for i in complete.deployments[0].instances] == [
        "http://10.0.0.1:30000",
        "https://10.0.0.2:8000",
        "http://[fd00::3]:8000",
    ]
    assert complete.deployments[0].devices[0].url == "http://10.0.0.1:9400/metrics"


def test_paths_are_relative_to_the_configuration(complete: Config) -> None:
    llama, deepseek, _ = complete.deployments
    assert llama.model.hf_config == CONFIGS / "config.json"
    tls, auth = llama.instances[1].tls, llama.instances[1].auth
    assert tls is not None
    assert tls.ca_file == CONFIGS / "ca.pem"
    assert auth is not None
    assert auth.bearer_token_file == Path("/run/secrets/t")
    assert llama.devices[3].mapping_file == CONFIGS / "mapping.yml"
    assert llama.devices[0].mapping_file is None
    assert deepseek.discovery is not None
    assert deepseek.discovery.file_sd == (f"{CONFIGS}/targets/*.yml", "/etc/pdscope/more.json")


def test_a_folder_that_looks_like_a_pattern_is_none() -> None:
    text = GOOD + "  discovery: {file_sd: '*.yml'}\n"
    discovery = parse(text, Path("/a[1]")).deployments[0].discovery
    assert discovery is not None
    assert discovery.file_sd == ("/a[[]1]/*.yml",)


def test_devices_serve_one_or_several(complete: Config) -> None:
    one, several, *_ = complete.deployments[0].devices
    assert one.served == (ServesConfig(instance="p0", select={"gpu": "0-3"}),)
    assert several.served == (
        ServesConfig(instance="d0", select={"gpu": "0-3,6"}),
        ServesConfig(instance="d1", select={"pod": "d1-.*"}),
    )


def test_devices_may_serve_instances_that_are_found_later() -> None:
    text = "deployments:\n- name: d\n  discovery: {router: 'http://r:1'}\n  devices:\n"
    config = parse(text + "  - {name: g, source: dcgm, url: 'http://h:2', instance: anything}\n")
    assert config.deployments[0].devices[0].instance == "anything"


@pytest.mark.parametrize(
    ("dns", "expected"),
    [
        ("decode.llm:8000", [("decode.llm", "A", 8000)]),
        ("_http._tcp.decode.llm", [("_http._tcp.decode.llm", "SRV", None)]),
        ("[a:1, {name: b, type: AAAA, port: 2}]", [("a", "A", 1), ("b", "AAAA", 2)]),
        ("{name: c, type: SRV}", [("c", "SRV", None)]),
    ],
)
def test_dns_may_be_short(dns: str, expected: list[tuple[str, str, int | None]]) -> None:
    discovery = parse(GOOD + f"  discovery: {{dns: {dns}}}\n").deployments[0].discovery
    assert discovery is not None
    assert [(entry.name, entry.type.value, entry.port) for entry in discovery.dns] == expected


def test_http_sd_may_be_an_address() -> None:
    discovery = parse(GOOD + "  discovery: {http_sd: 'http://sd/x?y=1'}\n").deployments[0].discovery
    assert discovery is not None
    assert [entry.url for entry in discovery.http_sd] == ["http://sd/x?y=1"]


def test_prometheus(complete: Config) -> None:
    server = complete.deployments[2].prometheus
    assert server is not None
    assert server.url == "https://prometheus.example:9090"
    assert server.headers == {"X-Scope-OrgID": SecretStr("12")}
    assert server.roles == {Role.PREFILL: "p-.*", Role.DECODE: "d-.*"}


def test_secrets_are_not_shown(complete: Config) -> None:
    text = (CONFIGS / "complete.yml").read_text(encoding="utf-8").replace("X-Scope-OrgID: 12", "X-Key: hunter2")
    config = parse(text)
    assert "hunter2" not in repr(config)
    assert "hunter2" not in config.model_dump_json(by_alias=True)
    server = config.deployments[2].prometheus
    assert server is not None
    assert server.headers["X-Key"].get_secret_value() == "hunter2"


def test_a_key_without_a_value_is_left_out() -> None:
    text = "window:\nscrape:\ndefaults: {slo: }\n" + GOOD + "  model:\n  slo: {ttft_p50: }\n  interconnect:\n"
    assert parse(text) == parse(GOOD)


def test_environment_variables_are_not_expanded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TEAM", "search")
    assert parse(GOOD + "  labels: {team: $TEAM}\n").deployments[0].labels == {"team": "$TEAM"}


def test_windows_line_ends_and_a_byte_order_mark(tmp_path: Path) -> None:
    file = tmp_path / "pdscope.yml"
    file.write_bytes(b"\xef\xbb\xbf" + GOOD.replace("\n", "\r\n").encode())
    assert load_config(file) == parse(GOOD, tmp_path)


def test_where_it_was_read_makes_no_difference(complete: Config) -> None:
    text = (CONFIGS / "complete.yml").read_text(encoding="utf-8")
    assert parse("# moved\n\n" + text, CONFIGS) == complete
    assert parse(text.replace("window: 1m", "window: 2m"), CONFIGS) != complete


def test_a_configuration_cannot_be_changed(complete: Config) -> None:
    with pytest.raises(ValidationError, match="frozen"):
        complete.window_seconds = 5.0  # type: ignore[misc]


def test_thresholds_stand_where_they_were_written(complete: Config) -> None:
    assert list(threshold_items(complete)) == [
        ("thresholds.kv_transfer_bandwidth.utilization", "kv_transfer_bandwidth", "utilization", 0.9),
        ("thresholds.decode_hbm_bandwidth.utilization", "decode_hbm_bandwidth", "utilization", 0.85),
        ("thresholds.decode_hbm_bandwidth.roofline_share", "decode_hbm_bandwidth", "roofline_share", 0.6),
        ("defaults.thresholds.decode_hbm_bandwidth.utilization", "decode_hbm_bandwidth", "utilization", 0.8),
        ("deployments[0].thresholds.kv_transfer_bandwidth.utilization", "kv_transfer_bandwidth", "utilization", 0.95),
    ]


def hardware_problem(name: str, described: bool) -> str | None:
    """A table of two devices."""
    return None if described or name in ("H200", "H100 SXM") else "is no device"


KNOWN = Names(
    engines=["sglang", "vllm"],
    device_sources=["dcgm", "nvml"],
    hardware=hardware_problem,
    thresholds={"kv_transfer_bandwidth": ["utilization"], "decode_hbm_bandwidth": ["utilization", "roofline_share"]},
)


def test_known_names_pass(complete: Config) -> None:
    check_names(complete, KNOWN)


def test_unknown_names_are_reported_together_with_the_nearest() -> None:
    config = parse(
        "thresholds: {kv_transfer_bandwith: {utilization: 1}, idle: {}}\n"
        + GOOD.replace('"}', '", engine: sglan}')
        + "  thresholds: {kv_transfer_bandwidth: {utilisation: 1}, other: {x: 1}}\n"
        "  devices:\n"
        "  - {name: g, source: dgcm, url: 'http://h:2', instance: p0}\n"
        "  - {name: h, source: zzz, url: 'http://h:2', instance: p0}\n"
    )
    with pytest.raises(ConfigError) as caught:
        check_names(config, KNOWN)
    assert [line.split(": ", 1) for line in str(caught.value).split("\n")] == [
        [
            "thresholds.kv_transfer_bandwith",
            "'kv_transfer_bandwith' is no known rule; did you mean kv_transfer_bandwidth? (line 1)",
        ],
        ["thresholds.idle", "'idle' is no known rule (line 1)"],
        ["deployments[0].instances[0].engine", "'sglan' is no known engine; did you mean sglang? (line 5)"],
        [
            "deployments[0].thresholds.kv_transfer_bandwidth.utilisation",
            "'utilisation' is no threshold of kv_transfer_bandwidth; did you mean utilization? (line 6)",
        ],
        ["deployments[0].thresholds.other", "'other' is no known rule (line 6)"],
        ["deployments[0].devices[0].source", "'dgcm' is no known source; did you mean dcgm? (line 8)"],
        ["deployments[0].devices[1].source", "'zzz' is no known source; known: dcgm, nvml (line 9)"],
    ]


@pytest.mark.parametrize(
    ("written", "measured"), [("", False), (", measured: true", True), (", measured: false", False)]
)
def test_a_bandwidth_may_be_measured(written: str, measured: bool) -> None:
    link = parse(GOOD + f"  interconnect: {{bandwidth: 1GB/s{written}}}\n").deployments[0].interconnect
    assert link is not None
    assert link.to_model().measured is measured
