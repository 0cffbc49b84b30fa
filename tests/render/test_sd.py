"""The targets as Prometheus reads them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from pdscope.config import Config, parse_config
from pdscope.render.sd import sd_json
from pdscope.runtime.plugins import Plugins
from pdscope.runtime.watch import Watch
from pdscope.sources.bundle import PageKind


def config_of(*instances: dict[str, Any], **keys: Any) -> Config:
    document = {"deployments": [{"name": "pd", "instances": list(instances), **keys}]}
    return parse_config(json.dumps(document), Path("/"), file="test")


def test_one_entry_a_target() -> None:
    """Instances with their role, device exporters with their source; what is read on this host has no address."""
    config = config_of(
        {"name": "p0", "role": "prefill", "url": "http://10.0.0.1:30000"},
        {"name": "d0", "role": "decode", "url": "https://d0.example/llm/"},
        devices=[
            {"name": "gpus", "source": "dcgm", "url": "http://10.0.0.1:9400/gpu/metrics", "instance": "p0"},
            {"name": "here", "source": "nvml", "instance": "d0"},
        ],
    )
    assert json.loads(sd_json(config)) == [
        {
            "targets": ["10.0.0.1:30000"],
            "labels": {
                "deployment": "pd",
                "worker": "p0",
                "role": "prefill",
                "__metrics_path__": "/metrics",
                "__scheme__": "http",
            },
        },
        {
            "targets": ["d0.example:443"],
            "labels": {
                "deployment": "pd",
                "worker": "d0",
                "role": "decode",
                "__metrics_path__": "/llm/metrics",
                "__scheme__": "https",
            },
        },
        {
            "targets": ["10.0.0.1:9400"],
            "labels": {
                "deployment": "pd",
                "worker": "gpus",
                "source": "dcgm",
                "__metrics_path__": "/gpu/metrics",
                "__scheme__": "http",
            },
        },
    ]


@pytest.mark.parametrize(
    ("url", "target"),
    [
        ("http://h", "h:80"),
        ("https://h", "h:443"),
        ("http://[fd00::1]:8000", "[fd00::1]:8000"),
        ("http://[fd00::1]", "[fd00::1]:80"),
    ],
)
def test_a_target_has_its_port(url: str, target: str) -> None:
    """Prometheus 3 adds none."""
    [entry] = json.loads(sd_json(config_of({"name": "a", "url": url})))
    assert entry["targets"] == [target]


def test_no_credentials_are_told(tmp_path: Path) -> None:
    """Neither those of a file nor what a query may hold."""
    (tmp_path / "t").write_text("s3cr3t")
    config = config_of(
        {"name": "a", "url": "http://h:1", "auth": {"bearer_token_file": str(tmp_path / "t")}},
        devices=[{"name": "g", "source": "dcgm", "url": "http://h:2/metrics?key=s3cr3t", "instance": "a"}],
    )
    text = sd_json(config).decode()
    assert "s3cr3t" not in text
    assert str(tmp_path) not in text
    assert json.loads(text)[1]["labels"]["__metrics_path__"] == "/metrics"


def test_a_role_that_the_engine_tells_is_told_on(fixtures_dir: Path, plugins: Plugins) -> None:
    """Once the engine has been read; before, there is no label rather than a guess."""
    config = config_of({"name": "a", "url": "http://h:1"}, {"name": "b", "url": "http://h:2"})
    watch = Watch(config, plugins)
    page = (fixtures_dir / "expositions" / "sglang-0.5.23-prefill.prom").read_bytes()
    watch.feed("a", PageKind.METRICS, page, 1_700_000_000.0)
    unread, read = json.loads(sd_json(config)), json.loads(sd_json(config, watch.report(1_700_000_001.0)))
    assert [entry["labels"].get("role") for entry in unread] == [None, None]
    assert [entry["labels"].get("role") for entry in read] == ["prefill", None]
