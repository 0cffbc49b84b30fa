"""The defaults as YAML."""

from __future__ import annotations

from pathlib import Path

import yaml

from pdscope.config import Config, dump_defaults, parse_config
from pdscope.config.dumping import ThresholdSpec

SPECS: list[ThresholdSpec] = [
    ("kv_transfer_bandwidth", "utilization", 0.9, "ratio", "measured on\nreal links"),
    ("kv_transfer_fragmented", "descriptor", 65536.0, "bytes", "field reports"),
    ("kv_transfer_bandwidth", "tiny", 1e-9, "seconds", "none"),
    ("kv_transfer_bandwidth", "huge", 3e20, "bytes", "none"),
    ("kv_transfer_bandwidth", "zero", 0.0, "count", "none"),
]
DEPLOYMENTS = (
    'deployments:\n- name: d\n  interconnect: {bandwidth: 1GB/s}\n  instances: [{name: p0, url: "http://h:1"}]\n'
)


def parse(text: str) -> Config:
    return parse_config(text + DEPLOYMENTS, Path("/base"))


def test_defaults_change_nothing() -> None:
    config, plain = parse(dump_defaults([])), parse("")
    assert config.window_seconds == plain.window_seconds
    assert config.scrape.interval_seconds == plain.scrape.interval_seconds
    assert config.scrape.timeout_seconds == plain.scrape.timeout_seconds
    assert config.deployments[0].interconnect == plain.deployments[0].interconnect
    assert config.deployments[0].slo == plain.deployments[0].slo
    assert config.thresholds == {}


def test_thresholds_read_back() -> None:
    text = dump_defaults(SPECS)
    expected = {
        "kv_transfer_bandwidth": {"utilization": 0.9, "tiny": 1e-9, "huge": 3e20, "zero": 0.0},
        "kv_transfer_fragmented": {"descriptor": 65536.0},
    }
    assert yaml.safe_load(text)["thresholds"] == expected, "also for a reader of YAML 1.1"
    assert "    utilization: 0.9  # ratio; measured on real links\n" in text
    assert "    descriptor: 65536  # bytes; field reports\n" in text
    del expected["kv_transfer_bandwidth"]["huge"]  # more than a threshold may be
    assert parse(dump_defaults([spec for spec in SPECS if spec[1] != "huge"])).thresholds == expected


def test_every_line_says_what_it_is() -> None:
    for line in dump_defaults(SPECS).splitlines():
        assert line.startswith("#") or line.endswith(":") or "  # " in line, line


def test_keys_of_deployments_are_listed_with_their_defaults() -> None:
    lines = [line for line in dump_defaults([]).splitlines() if line.startswith("# deployments[]")]
    defaults = {line.split(":")[0][2:]: line.split(": ", 1)[1].split("  # ")[0] for line in lines}
    assert defaults == {
        "deployments[].routing": "auto",
        "deployments[].model.kv.scale_bytes": "0",
        "deployments[].prometheus.tls.insecure_skip_verify": "false",
        "deployments[].prometheus.worker_label": "pod",
        "deployments[].instances[].tls.insecure_skip_verify": "false",
        "deployments[].devices[].tls.insecure_skip_verify": "false",
        "deployments[].discovery.http_sd[].tls.insecure_skip_verify": "false",
        "deployments[].discovery.dns[].type": "A",
        "deployments[].discovery.kubernetes.role_label": "llm-d.ai/role",
    }
