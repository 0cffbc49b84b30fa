"""Recorded runs and field cases, replayed in Prometheus' own engine: the standalone rules agree with the daemon.

They may be silent where the daemon knows more (device telemetry, `/v1/loads`, pool sizes); they never contradict it.
"""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import pytest
import yaml

from pdscope.config import parse_config
from pdscope.model.finding import Phase, Verdict
from pdscope.model.report import DeploymentReport
from pdscope.model.signal import SignalId
from pdscope.render.standalone.pack import Standalone, standalone_file
from pdscope.render.standalone.parameters import Parameters
from pdscope.render.standalone.verdicts import VERDICTS
from pdscope.runtime.offline import diagnose_bundle
from pdscope.runtime.plugins import load_plugins
from pdscope.sources.bundle import Bundle
from support.recorded_series import Recording, ask, raw_names, recording

pytestmark = pytest.mark.promtool
FIXTURES = Path(__file__).parents[1] / "fixtures"
PLUGINS = load_plugins()
READ = {"sglang", "vllm", "smg", "vllm_router"}

SAYS = {
    "vllm-transferbound": Verdict.KV_TRANSFER_BANDWIDTH,
    "c06-replicated-kv-hits-a-wall": Verdict.DECODE_KV_CAPACITY,
    "c08-both-limits-broken": Verdict.PREFILL_QUEUE,
    "c10-reserved-decode-tokens": Verdict.DECODE_ADMISSION,
    "c11-longer-outputs-wreck-ttft": Verdict.DECODE_ADMISSION,
    "c13-no-headroom-for-incoming-kv": Verdict.DECODE_ADMISSION,
    "c16-slots-not-memory": Verdict.DECODE_ADMISSION,
    "c21-prefill-only-load-low-kv-usage": Verdict.PREFILL_QUEUE,
    "c22-token-budget-caps-the-batch": Verdict.PREFILL_QUEUE,
    "c49-unequal-tp-refused": Verdict.KV_TRANSFER_FAILING,
    "c52-deadline-measures-the-queue": Verdict.DECODE_ADMISSION,
    "c55-one-blacklisted-pair": Verdict.KV_TRANSFER_FAILING,
    "c57-lease-shorter-than-the-queue": Verdict.DECODE_ADMISSION,
    "c68-prefix-affinity-switched-off": Verdict.PREFILL_QUEUE,
    "s01-mesh-pair-limit": Verdict.KV_TRANSFER_BANDWIDTH,
    "s03-prefill-compute-bound": Verdict.PREFILL_QUEUE,
}
"""What the rules say; of all others they say nothing."""

FAMILY = {Verdict.PREFILL_QUEUE: {Verdict.PREFILL_QUEUE, Verdict.PREFILL_COMPUTE}}
"""Verdicts of the daemon that one of these rules stands for: without telemetry nobody can tell those two apart."""

NUMBERS = {
    SignalId.ITL_P50: "itl_p50_seconds",
    SignalId.TTFT_MEAN: "ttft_mean_seconds",
    SignalId.KV_DEMAND: "kv_transfer_demand_bytes_per_second",
    SignalId.KV_ACHIEVED: "kv_transfer_achieved_bytes_per_second",
    SignalId.LINK_CAPACITY: "interconnect_capacity_bytes_per_second",
    SignalId.LINK_UTILIZATION: "kv_transfer_utilization_ratio",
    SignalId.TRANSFER_TTFT_SHARE: "kv_transfer_ttft_share",
}
WITHIN = 0.05
"""Prometheus extrapolates a rate to the ends of its window; scrapes of one window are seconds apart."""


@functools.cache
def diagnosed(path: Path) -> tuple[DeploymentReport, Bundle]:
    report, bundle = diagnose_bundle(path, PLUGINS)
    (only,) = report.deployments
    return only, bundle


def bundles() -> list[Path]:
    """All whose engines the rules read; a Dynamo worker has other series."""
    runs = [path for path in sorted((FIXTURES / "runs").iterdir()) if path.is_dir()]
    cases = sorted((FIXTURES / "cases").glob("*.tar.gz"))
    return [p for p in [*runs, *cases] if {i.engine for i in diagnosed(p)[0].deployment.instances} <= READ]


def name_of(path: Path) -> str:
    return path.name.removesuffix(".tar.gz")


def replayed(path: Path) -> tuple[DeploymentReport, str, Recording]:
    """The daemon's answer, the rules with the numbers of the bundle's own pdscope.yml, and the pages as series."""
    report, bundle = diagnosed(path)
    window = parse_config(bundle.config_text, path.parent).window_seconds
    span = recording(bundle, report, window, set()).span_seconds
    # a second more than the recording: later versions of Prometheus leave the first moment of a range out
    rules = standalone_file(Standalone(deployments=(Parameters.of(report.deployment),), window_seconds=span + 1))
    return report, rules, recording(bundle, report, window, raw_names(rules))


def question(expr: str, value: float | None, **labels: str) -> dict[str, Any]:
    text = ",".join(f'{name}="{value}"' for name, value in labels.items())
    return {"expr": expr, "exp_samples": [] if value is None else [{"labels": f"{{{text}}}", "value": value}]}


EVERY = pytest.mark.parametrize("path", bundles(), ids=name_of)


@EVERY
def test_agrees_with_the_daemon(promtool: str, tmp_path: Path, path: Path) -> None:
    """Phase and numbers are the same, the verdict is of the daemon's family or there is none."""
    report, rules, recorded = replayed(path)
    name, phase = report.deployment.name, report.diagnosis.phase
    said = SAYS.get(name_of(path))
    questions = [
        question("sum by (deployment, phase) (pdscope_standalone:phase) == 1", 1.0, deployment=name, phase=str(phase))
        if phase is not Phase.UNKNOWN
        else question("pdscope_standalone:phase", None),
        question("sum by (deployment, verdict) (pdscope_standalone:verdict) == 1", 1.0, deployment=name, verdict=said)
        if said is not None
        else question("pdscope_standalone:verdict == 1", None),
    ]
    for signal, series in NUMBERS.items():
        value = report.signals.value(signal)
        if value:
            near = f"abs(pdscope_standalone:{series} / {value!r} - 1) < bool {WITHIN}"
            questions.append(question(near, 1.0, deployment=name))
    median = report.signals.value(SignalId.TTFT_P50)
    if median is not None:
        for bound, operator, slack in (("low", "<=", 1 + WITHIN), ("high", ">=", 1 - WITHIN)):
            between = f"(pdscope_standalone:ttft_p50_{bound}_seconds {operator} bool {median * slack!r}) == 0"
            questions.append(question(between, None))
    done = ask(promtool, tmp_path, rules, recorded, questions)
    assert done.returncode == 0, done.stdout + done.stderr
    assert said is None or report.diagnosis.verdict in FAMILY.get(said, {said})


def test_a_contradiction_is_noticed(promtool: str, tmp_path: Path) -> None:
    """The comparison above can fail."""
    _, rules, recorded = replayed(FIXTURES / "runs" / "vllm-baseline")
    for wrong in (
        question("sum by (phase) (pdscope_standalone:phase) == 1", 1.0, phase="prefill"),
        question("pdscope_standalone:itl_p50_seconds > 0", None),
    ):
        done = ask(promtool, tmp_path, rules, recorded, [wrong])
        assert done.returncode == 1
        assert "FAILED" in done.stdout + done.stderr


def test_ranks_and_priorities_count_once(promtool: str, tmp_path: Path) -> None:
    """Tensor-parallel ranks repeat each other, data-parallel ranks add up, and the empty priority is the total."""
    target = 'deployment="chat",worker="p0",role="prefill"'
    queue = {
        f'sglang:num_queue_reqs{{{target},dp_rank="{dp}",tp_rank="{tp}",priority="{priority}"}}': waiting
        for dp, tp, priority, waiting in (
            *((0, tp, "", 5) for tp in range(4)),
            *((0, tp, "1", 2) for tp in range(4)),
            *((1, tp, "", 7) for tp in range(4, 8)),
        )
    }
    finished = {
        f'sglang:num_requests_total{{{target},priority="{priority}",is_streaming="{streaming}"}}': step
        for priority, streaming, step in (("1", "true", 30), ("2", "true", 60), ("1", "false", 90))
    }
    series = [{"series": name, "values": f"{value}x600"} for name, value in queue.items()]
    series += [
        {"series": name, "values": " ".join(f"{1000 + n * step}{' _x49' if n < 12 else ''}" for n in range(13))}
        for name, step in finished.items()
    ]
    wanted = {"deployment": "chat"}
    questions = [
        question("pdscope_standalone:prefill_queue + 0", 12.0, worker="p0", **wanted),
        question("round(pdscope_standalone:arrivals_per_second, 0.001) + 0", 36.0, **wanted),
    ]
    rules = standalone_file(Standalone(deployments=(Parameters("chat"),), window_seconds=61))
    done = ask(promtool, tmp_path, rules, Recording(series, 60), questions)
    assert done.returncode == 0, done.stdout + done.stderr


def test_something_is_said_of_every_kind() -> None:
    """Each verdict of the rules has a story of its own, and none names one that would do harm."""
    assert set(SAYS.values()) == set(VERDICTS)
    assert set(SAYS) <= {name_of(path) for path in bundles()}
    stories = yaml.safe_load((FIXTURES / "cases" / "expect.yaml").read_text(encoding="utf-8"))
    harmful = {name: set(story.get("not", ())) for name, story in stories.items()}
    assert [name for name, verdict in SAYS.items() if verdict in harmful.get(name, set())] == []
