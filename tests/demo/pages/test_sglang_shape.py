"""SGLang's pages are as recorded but for the values."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from .conftest import Rig, Text
from .sglang_draws import HEALTHY

_HIDDEN = frozenset({"model_name", "pid"})
_MORE = frozenset({"sglang:http_requests_active"})
"""What was recorded had no request of users under way."""
_EVICTIONS = frozenset({"sglang:evicted_tokens_total", "sglang:eviction_duration_seconds"})


def asked(rig: Rig, name: str) -> bytes:
    """The page of a server that has been asked for what the recorded ones had been asked for."""
    for path in ("/health", "/model_info", "/metrics"):
        rig.body(name, path)
    return rig.body(name)


def test_prefill_page_is_as_recorded(
    rig: type[Rig], recorded: Callable[[str], str], assert_same_shape: Callable[..., None]
) -> None:
    """Without failures and evictions, which there were none of; and asked for nothing by other tests."""
    assert_same_shape(
        asked(rig(HEALTHY).run(120.0), "p0"),
        recorded("sglang-0.5.23-prefill.prom"),
        hidden=_HIDDEN,
        more=_MORE,
        absent=_EVICTIONS | {"sglang:num_transfer_failed_reqs_total"},
    )


def test_decode_page_is_as_recorded(
    troubled: Rig, recorded: Callable[[str], str], assert_same_shape: Callable[..., None]
) -> None:
    """With failures, retractions and users who have gone; answers with an error are counted by their status."""
    page = asked(troubled, "d0").replace(b'status_code="500"', b'status_code="200"')
    lines = list(dict.fromkeys(page.decode().splitlines()))
    real = recorded("sglang-0.5.23-decode.prom")
    assert_same_shape("\n".join(lines).encode(), real, hidden=_HIDDEN, more=_MORE)


def test_unified_page_is_as_recorded(
    unified: Rig, recorded: Callable[[str], str], assert_same_shape: Callable[..., None]
) -> None:
    """Steps with parts of prompts count as prefill passes, on the first rank."""
    assert_same_shape(
        asked(unified, "u0"), recorded("sglang-0.5.23-unified.prom"), hidden=_HIDDEN, more=_MORE, absent=_EVICTIONS
    )


@pytest.mark.parametrize(("name", "role"), [("p0", "prefill"), ("d0", "decode")])
def test_fresh_page_is_as_recorded(
    rig: type[Rig],
    recorded: Callable[[str], str],
    assert_same_shape: Callable[..., None],
    name: str,
    role: str,
) -> None:
    """Before the first request there is what the warm-up has left, and no counter of what has never happened."""
    fresh = rig(HEALTHY)
    assert_same_shape(asked(fresh, name), recorded(f"sglang-0.5.23-{role}-fresh.prom"), hidden=_HIDDEN, more=_MORE)


@pytest.mark.parametrize("name", ["p0", "d0"])
def test_fresh_values_are_as_recorded(rig: type[Rig], recorded: Callable[[str], str], name: str) -> None:
    """The warm-up request counts: one request that is not streamed, of four tokens."""
    role = "prefill" if name == "p0" else "decode"
    ours, real = rig(HEALTHY).text(name), Text(recorded(f"sglang-0.5.23-{role}-fresh.prom"))
    for family in ("num_requests_total", "prompt_tokens_total", "generation_tokens_total"):
        labels = {"is_streaming": "false"}
        assert ours.value(f"sglang:{family}", **labels) == real.value(f"sglang:{family}", **labels)
    for family in ("prompt_tokens_histogram", "generation_tokens_histogram"):
        assert ours.value(f"sglang:{family}", "_sum") == real.value(f"sglang:{family}", "_sum")


@pytest.mark.parametrize("name", ["p0", "d0"])
def test_official_parser_reads_the_page(healthy: Rig, name: str) -> None:
    """Every line of it, and as many samples as there are lines."""
    body = healthy.body(name).decode()
    samples = [sample for family in text_string_to_metric_families(body) for sample in family.samples]
    assert len(samples) == sum(not line.startswith("#") for line in body.splitlines())


def shape(value: Any) -> Any:
    """Keys and types of a JSON value, numbers alike."""
    if isinstance(value, dict):
        return {key: shape(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [shape(inner) for inner in value]
    if isinstance(value, int | float) and not isinstance(value, bool):
        return "number"
    return type(value).__name__


@pytest.mark.parametrize(("name", "role"), [("p0", "prefill"), ("d0", "decode")])
@pytest.mark.parametrize("path", ["v1_loads", "model_info", "server_info"])
def test_json_pages_are_as_recorded(
    healthy: Rig, recorded: Callable[[str], str], name: str, role: str, path: str
) -> None:
    """Key for key, in order; a server without keys has none."""
    ours = json.loads(healthy.body(name, "/" + path.replace("v1_", "v1/")))
    real = json.loads(recorded(f"sglang-0.5.23-{path}-{role}.json").replace('"REDACT-ME-canary"', "null"))
    assert json.dumps(shape(ours)) == json.dumps(shape(real))
    if path == "model_info":
        assert ours == real
    if path == "server_info":
        assert (ours["disaggregation_mode"], ours["tp_size"], ours["version"]) == (role, 4, "0.5.23")
