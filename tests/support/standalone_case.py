"""A small vLLM deployment over time, as promtool's series, and the standalone rules that watch it."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from pdscope.model.topology import Routing
from pdscope.render.standalone.pack import Standalone, standalone_file
from pdscope.render.standalone.parameters import Parameters

STEP_SECONDS = 60
CHAT = Parameters(
    deployment="chat",
    slo_ttft_p50_seconds=2.0,
    slo_itl_p50_seconds=0.05,
    interconnect_bytes_per_second=10e9,
    routing=Routing.CONCURRENT,
)

State = Mapping[str, float]
"""`worker|series` -> level of a gauge, or increase a second of a counter."""


def histogram(worker: str, name: str, per_second: float, mean: float, labels: str = "", **buckets: float) -> State:
    """Observations a second; `buckets`: bound with `_` for the point -> share at or below it."""
    comma = f"{labels}," if labels else ""
    shares = {bound.removeprefix("le").replace("_", "."): share for bound, share in buckets.items()} | {"+Inf": 1.0}
    return {
        f"{worker}|{name}_sum{{{labels}}}": per_second * mean,
        f"{worker}|{name}_count{{{labels}}}": per_second,
        **{f'{worker}|{name}_bucket{{{comma}le="{bound}"}}': per_second * s for bound, s in shares.items()},
    }


def ttft(worker: str, *, late: bool) -> State:
    """Ten requests a second: all within half a second, or all after 2.5 s."""
    near = 0.0 if late else 1.0
    bounds = {"le0_5": near, "le1_0": near, "le2_5": near, "le10_0": 1.0}
    return histogram(worker, "vllm:time_to_first_token_seconds", 10, 6.0 if late else 0.3, **bounds)


def quiet() -> dict[str, float]:
    """One prefill and one decode, ten prompts of 1,000 tokens a second, nothing near a limit."""
    p, d = "p0/prefill", "d0/decode"
    return {
        f"{p}|vllm:num_requests_running{{}}": 1,
        f'{p}|vllm:num_requests_waiting_by_reason{{reason="capacity"}}': 0,
        f"{p}|vllm:kv_cache_usage_perc{{}}": 0.1,
        f'{p}|vllm:request_success_total{{finished_reason="length"}}': 10,
        **histogram(p, "vllm:request_queue_time_seconds", 10, 0.05),
        **histogram(p, "vllm:request_prefill_time_seconds", 10, 0.2),
        f"{p}|vllm:nixl_num_failed_transfers_total{{}}": 0,
        f"{d}|vllm:num_requests_running{{}}": 20,
        f"{d}|vllm:kv_cache_usage_perc{{}}": 0.4,
        **{
            f'{d}|vllm:num_requests_kv_fetch_by_stage{{stage="{stage}"}}': 0
            for stage in ("waiting_to_start", "in_progress", "completed_waiting")
        },
        f'{d}|vllm:request_success_total{{finished_reason="stop"}}': 10,
        f"{d}|vllm:prompt_tokens_total{{}}": 10_000,
        f'{d}|vllm:prompt_tokens_by_source_total{{source="external_kv_transfer"}}': 10_000,
        **histogram(d, "vllm:request_prompt_tokens", 10, 1000),
        **ttft(d, late=False),
        **histogram(d, "vllm:inter_token_latency_seconds", 1000, 0.03, le0_025=0.0, le0_05=1.0, le0_1=1.0),
        **histogram(d, "vllm:nixl_bytes_transferred", 10, 1e8),
        **histogram(d, "vllm:nixl_xfer_time_seconds", 10, 0.01),
        f"{d}|vllm:num_preemptions_total{{}}": 0,
        f"{d}|vllm:nixl_num_failed_transfers_total{{}}": 0,
    }


def series(timeline: Sequence[tuple[float, State | None]], restarts: Sequence[float] = ()) -> list[dict[str, str]]:
    """`input_series`: until which minute -> the state; None: nothing is scraped. Counters begin anew at `restarts`."""
    values: dict[str, dict[int, float]] = {}
    totals: dict[str, float] = {}
    step = 0
    for until, state in timeline:
        while step * STEP_SECONDS < until * 60:
            if any(step * STEP_SECONDS == minute * 60 for minute in restarts):
                totals.clear()
            for name, value in (state or {}).items():
                if name.partition("{")[0].endswith(("_total", "_sum", "_count", "_bucket")):
                    totals[name] = totals.get(name, 0.0) + value * STEP_SECONDS
                    values.setdefault(name, {})[step] = totals[name]
                else:
                    values.setdefault(name, {})[step] = value
            step += 1
    return [{"series": _labelled(name), "values": _text(found, step)} for name, found in values.items()]


def _labelled(name: str) -> str:
    target, _, rest = name.partition("|")
    worker, _, role = target.partition("/")
    metric, _, labels = rest.rstrip("}").partition("{")
    added = f'namespace="llm",deployment="chat",worker="{worker}",role="{role}"'
    return f"{metric}{{{added},{labels}}}" if labels else f"{metric}{{{added}}}"


def _text(found: Mapping[int, float], steps: int) -> str:
    return " ".join(repr(found[n]) if n in found else "stale" if n - 1 in found else "_" for n in range(steps))


def run(
    promtool: str,
    folder: Path,
    input_series: Sequence[Mapping[str, str]],
    *,
    alerts: Sequence[Mapping[str, Any]] = (),
    values: Sequence[Mapping[str, Any]] = (),
    made: Standalone | None = None,
) -> None:
    """One group of promtool: the alerts, and the recorded values, that must be there."""
    (folder / "standalone.yml").write_text(standalone_file(made or Standalone(deployments=(CHAT,))), encoding="utf-8")
    document = {
        "rule_files": ["standalone.yml"],
        "evaluation_interval": f"{STEP_SECONDS}s",
        "group_eval_order": [f"pdscope.standalone.{name}" for name in ("parameters", "rules", "alerts")],
        "tests": [
            {
                "interval": f"{STEP_SECONDS}s",
                "input_series": list(input_series),
                "alert_rule_test": list(alerts),
                "promql_expr_test": list(values),
            }
        ],
    }
    (folder / "case.yml").write_text(json.dumps(document), encoding="utf-8")
    done = subprocess.run(
        [promtool, "test", "rules", folder / "case.yml"], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def holds(minute: float, condition: str, *names: str) -> dict[str, Any]:
    """A question: the condition gives exactly these series, each 1."""
    samples = [
        {"labels": f'{{{name}{"," if name else ""}deployment="chat",namespace="llm"}}', "value": 1} for name in names
    ]
    return {"expr": condition, "eval_time": f"{round(minute * 60)}s", "exp_samples": samples}
