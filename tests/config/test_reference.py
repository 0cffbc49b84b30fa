"""docs/configuration.md is complete and right."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic.fields import FieldInfo

from pdscope.config import Config, parse_config
from pdscope.config.base import Model, model_in
from pdscope.config.dumping import default_text

DOCS = Path(__file__).parents[2] / "docs" / "configuration.md"
TEXT = DOCS.read_text(encoding="utf-8")
SECTIONS = {part.split("\n", 1)[0]: part for part in TEXT.split("\n## ")[1:]}
COLUMNS = ("`(?P<key>[a-z0-9_]+)`", "[^|]+", "(?P<default>[^|]*?)", "[^|]+", "(?P<example>[^|]*?)")
ROW = re.compile(rf"^\| {' ?[|] '.join(COLUMNS)} ?\|$", re.MULTILINE)
INHERITED = {("deployments", "slo"), ("deployments", "interconnect"), ("deployments", "thresholds")} | {
    (section, key) for section in ("instances", "devices") for key in ("hardware", "scrape")
}


def models(model: type[Model], section: str = "Top") -> Iterator[tuple[str, type[Model]]]:
    """(section, model): each model is described under the key that holds it."""
    yield section, model
    for key, field in model.fields_by_key().items():
        if below := model_in(field.annotation):
            yield from models(below, key)


ALL = dict(models(Config))


def test_a_key_that_holds_a_mapping_always_holds_the_same_kind() -> None:
    assert set(models(Config)) == set(ALL.items())


@pytest.mark.parametrize("section", ALL)
def test_every_key_is_described_and_no_other(section: str) -> None:
    rows = [row["key"] for row in ROW.finditer(SECTIONS[section])]
    assert rows == list(ALL[section].fields_by_key())
    assert SECTIONS[section].count("\n| `") == len(rows), "every row has the form of the table"


def shown_default(section: str, key: str, name: str, field: FieldInfo) -> str:
    if field.is_required():
        return "required"
    if (section, key) in INHERITED:
        return "inherited"
    text = ALL[section].default_texts.get(key) or default_text(field.default, seconds=name.endswith("_seconds"))
    return f"`{text}`" if text else ""


@pytest.mark.parametrize("section", ALL)
def test_defaults_are_those_of_the_code(section: str) -> None:
    described = {row["key"]: row["default"].strip() for row in ROW.finditer(SECTIONS[section])}
    fields = ALL[section].model_fields.items()
    assert described == {
        field.alias or name: shown_default(section, field.alias or name, name, field) for name, field in fields
    }


def examples() -> list[tuple[str, str, str]]:
    return [
        (section, row["key"], row["example"].strip().strip("`"))
        for section in ALL
        for row in ROW.finditer(SECTIONS[section])
        if row["example"].strip()
    ]


# Where a section's mapping stands in a file, and what it needs beside the key that is tried.
INSTANCES = [{"name": "p0", "url": "http://h:1"}, {"name": "d0", "url": "http://h:2"}]
FILE_KEYS = {"scrape", "defaults"}
PATHS = {
    "kv": ("model", "kv"),
    "serves": ("devices", "serves"),
    "auth": ("devices", "auth"),
    "basic": ("devices", "auth", "basic"),
    "tls": ("devices", "tls"),
    "http_sd": ("discovery", "http_sd"),
    "dns": ("discovery", "dns"),
    "kubernetes": ("discovery", "kubernetes"),
}
DEVICE = {"name": "g", "source": "dcgm", "url": "https://h:3"}
COMPANIONS: dict[str, dict[str, Any]] = {
    "scrape": {"interval": "5s"},
    "deployments": {"name": "d", "instances": INSTANCES},
    "instances": {"name": "p0", "url": "http://h:1"},
    "devices": {**DEVICE, "instance": "p0"},
    "serves": {"instance": "p0"},
    "basic": {"username": "u", "password_file": "p"},
    "tls": {"cert_file": "c"},
    "interconnect": {"bandwidth": "1GB/s", "peers": 7},
    "kv": {"attention": "gqa", "layers": 80, "bytes_per_element": 2, "kv_heads": 8, "head_dim": 128},
    "prometheus": {"url": "http://h:9"},
}


def document(section: str, key: str, value: Any) -> dict[str, Any]:
    """A file that is right but for what `value` may do."""
    inner = {**COMPANIONS.get(section, {}), key: value}
    base: dict[str, Any] = {"deployments": [{"name": "d", "instances": INSTANCES}]}
    if section == "Top":
        return base | inner
    if section in FILE_KEYS:
        return base | {section: inner}
    if section == "deployments":
        return base | {section: [inner]}
    if section == "dns" and value != "SRV":
        inner = {"name": "n", "port": 1, **inner}
    elif section == "dns":
        inner = {"name": "n", **inner}
    if section == "kv" and key == "latent_dim":
        inner = {"attention": "mla", "layers": 80, "bytes_per_element": 2, key: value}
    if section == "kv" and key == "sliding_window":
        inner["full_attention_layers"] = 10
    for holder in reversed(PATHS.get(section, (section,))):
        inner = {holder: [inner] if holder in {"devices", "instances", "serves"} else inner}
        if holder in {"serves", "auth", "tls"}:
            inner |= DEVICE if holder == "serves" else {**DEVICE, "instance": "p0"}
    base["deployments"][0] |= inner
    return base


@pytest.mark.parametrize(("section", "key", "example"), examples())
def test_examples_are_right(section: str, key: str, example: str) -> None:
    text = yaml.safe_dump(document(section, key, yaml.safe_load(example)))
    assert parse_config(text, Path("/base")).deployments


@pytest.mark.parametrize("block", re.findall(r"^```yaml\n(.*?)^```$", TEXT, re.MULTILINE | re.DOTALL))
def test_yaml_blocks_load(block: str) -> None:
    parse_config(
        block if "deployments:" in block else block + yaml.safe_dump(document("Top", "window", "60s")), DOCS.parent
    )


def test_links_lead_to_sections() -> None:
    assert {link.lower() for link in re.findall(r"\]\(#([^)]+)\)", TEXT)} <= {name.lower() for name in SECTIONS}
