"""Bundles end to end through the composition root: what is read, what is completed from pages, what goes wrong."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from pdscope.config import parse_config
from pdscope.errors import BundleError, ConfigError
from pdscope.model.finding import Confidence, Verdict
from pdscope.model.report import Report
from pdscope.model.scrape import FailureReason
from pdscope.model.signal import SignalId, instance_scope
from pdscope.model.topology import Role
from pdscope.render.silent import silent_sources
from pdscope.runtime.offline import diagnose_bundle
from pdscope.runtime.plugins import DEVICE_SOURCES, ENGINES, check, load_plugins
from pdscope.runtime.watch import Watch
from pdscope.sources.bundle import PageKind, read_bundle

PLUGINS = load_plugins()


@pytest.fixture
def bundle(fixtures_dir: Path, tmp_path: Path) -> Path:
    """A writable copy of a real run."""
    target = tmp_path / "bundle"
    shutil.copytree(fixtures_dir / "runs" / "vllm-baseline", target)
    return target


def diagnosed(path: Path) -> Report:
    return diagnose_bundle(path, PLUGINS)[0]


def edit(bundle: Path, old: str, new: str) -> None:
    file = bundle / "pdscope.yml"
    text = file.read_text()
    assert old in text
    file.write_text(text.replace(old, new))


def test_time_is_that_of_the_newest_scrape(bundle: Path) -> None:
    """A bundle is judged in its own time, not in ours."""
    report = diagnosed(bundle)
    assert report.generated_at == read_bundle(bundle).newest
    assert report.window_seconds == 12


def test_engine_and_model_are_read_from_the_pages(bundle: Path) -> None:
    """What the configuration leaves out is completed."""
    edit(bundle, "engine: vllm", "tp: 1")
    edit(bundle, "    name: tiny\n", "")
    only = diagnosed(bundle).deployments[0]
    assert {i.engine for i in only.deployment.instances} == {"vllm"}
    assert only.deployment.model.name == "tiny"
    assert only.diagnosis.verdict is Verdict.HEALTHY


def test_role_is_read_from_sglang_pages(fixtures_dir: Path, tmp_path: Path) -> None:
    """SGLang says its role in a label."""
    pages = fixtures_dir / "expositions"
    (tmp_path / "pdscope.yml").write_text(
        "window: 15s\ndeployments: [{name: a, instances: [{name: x, url: 'http://h:1'}, {name: y, url: 'http://h:2'}]}]\n"
    )
    for name, role in (("x", "prefill"), ("y", "decode")):
        folder = tmp_path / "samples" / name
        folder.mkdir(parents=True)
        shutil.copy(pages / f"sglang-0.5.23-{role}-t0.prom", folder / "1000.prom")
        shutil.copy(pages / f"sglang-0.5.23-{role}.prom", folder / "1015.prom")
        shutil.copy(pages / f"sglang-0.5.23-v1_loads-{role}.json", folder / "1015.loads.json")
    only = diagnosed(tmp_path).deployments[0]
    assert [(i.name, i.role, i.engine) for i in only.deployment.instances] == [
        ("x", Role.PREFILL, "sglang"),
        ("y", Role.DECODE, "sglang"),
    ]
    assert {s.engine_version for s in only.instances.values()} == {"0.5.23"}
    # 15 s apart, four tensor-parallel ranks: each request counts once
    rate = only.signals.value(SignalId.REQUESTS_PER_SECOND)
    assert rate == pytest.approx(28 / 15, rel=0.35)


def test_a_broken_page_costs_its_target_only(bundle: Path) -> None:
    """HTML in place of a page is a failed scrape with its reason; the others are judged."""
    newest = max((bundle / "samples" / "p0").iterdir())
    newest.write_text("<html>502 Bad Gateway</html>")
    report = diagnosed(bundle)
    states = {t.target: t for t in report.targets}
    assert states["p0"].failures == {FailureReason.NOT_EXPOSITION: 1}
    assert not states["p0"].up
    assert states["d0"].up
    assert report.deployments[0].diagnosis.verdict is Verdict.HEALTHY


def test_a_role_that_is_gone_is_insufficient_data(bundle: Path) -> None:
    """Without decode nothing can be said, and the answer names it."""
    shutil.rmtree(bundle / "samples" / "d0")
    diagnosis = diagnosed(bundle).deployments[0].diagnosis
    assert diagnosis.verdict is Verdict.INSUFFICIENT_DATA
    assert diagnosis.culprits == ("d0",)
    assert "d0" in diagnosis.summary


def test_an_instance_without_data_is_named_and_doubted(bundle: Path) -> None:
    """Half of decode may be dead while the other half looks well: the answer says that it is about the rest."""
    edit(bundle, "  - name: d0", "  - {name: d1, role: decode, engine: vllm, url: 'http://d1.invalid:1'}\n  - name: d0")
    only = diagnosed(bundle).deployments[0]
    assert only.diagnosis.verdict is Verdict.HEALTHY
    assert only.diagnosis.confidence is not Confidence.HIGH
    assert "NO DATA from d1" in only.diagnosis.summary
    assert any("pdscope doctor" in step for step in only.diagnosis.next_steps)
    assert [only.instances[name].up for name in ("p0", "d0", "d1")] == [True, True, False]


def test_a_target_that_keeps_failing_is_gone_before_its_window_is_old(fixtures_dir: Path) -> None:
    """The last decode instance dies: after two failures nothing is concluded from what it said before."""
    config = parse_config(
        "scrape: {interval: 5s, timeout: 4s}\nwindow: 60s\ndeployments: [{name: a, instances: "
        "[{name: p, role: prefill, engine: vllm, url: 'http://h:1'}, {name: d, role: decode, engine: vllm, url: 'http://h:2'}]}]",
        Path(),
    )
    watch = Watch(config, PLUGINS)
    pages = {name: (fixtures_dir / "expositions" / f"vllm-0.32.0-nixl-{name}-light.prom").read_bytes() for name in "pd"}
    for at in range(0, 65, 5):
        for name in "pd":
            watch.feed(name, PageKind.METRICS, pages[name], float(at))
    verdicts = {}
    for at in range(65, 85, 5):
        watch.feed("p", PageKind.METRICS, pages["p"], float(at))
        watch.fail("d", PageKind.METRICS, float(at), FailureReason.CONNECT, "refused")
        report = watch.report(float(at))
        verdicts[at] = report.deployments[0].diagnosis.verdict
    assert verdicts[65] is not Verdict.INSUFFICIENT_DATA  # one failure is a gap
    assert verdicts[75] is verdicts[80] is Verdict.INSUFFICIENT_DATA
    assert report.deployments[0].instances["d"].reason is FailureReason.CONNECT
    state = next(t for t in report.targets if t.target == "d")
    assert (state.source, state.up) == ("vllm", False)  # the label does not move with the state


def test_old_data_count_as_absent(bundle: Path) -> None:
    """A decode instance that went silent a window ago is not judged by its last words."""
    folder = bundle / "samples" / "d0"
    for page in folder.iterdir():
        page.rename(folder / f"{float(page.stem) - 3600:.3f}.prom")
    assert diagnosed(bundle).deployments[0].diagnosis.verdict is Verdict.INSUFFICIENT_DATA


def test_a_router_page_under_an_engine_s_name_is_refused(fixtures_dir: Path, bundle: Path) -> None:
    """A router repeats its workers' series; it is never read as an engine."""
    page = (fixtures_dir / "expositions" / "smg-1.13.0-sglang-loaded.prom").read_bytes()
    for file in (bundle / "samples" / "d0").iterdir():
        file.write_bytes(page)
    report = diagnosed(bundle)
    assert {t.target: dict(t.failures) for t in report.targets}["d0"] == {FailureReason.METRICS_OFF: 5}
    assert report.deployments[0].diagnosis.verdict is Verdict.INSUFFICIENT_DATA


def test_wrong_configuration_names_bundle_and_path(bundle: Path) -> None:
    """The user finds the line."""
    edit(bundle, "engine: vllm", "engine: vllmm")
    with pytest.raises(ConfigError, match=r"deployments\[0\]\.instances\[0\]\.engine.*vllm"):
        diagnosed(bundle)


def test_no_sample_at_all(bundle: Path) -> None:
    """A bundle without pages is unreadable input, not an idle service."""
    shutil.rmtree(bundle / "samples")
    with pytest.raises(BundleError, match="bundle"):
        diagnosed(bundle)


def test_every_name_of_the_contract_is_accepted() -> None:
    """A configuration for a later version loads today."""
    instances = ", ".join(
        f"{{name: i{n}, engine: {engine}, url: 'http://h:{n + 1}'}}" for n, engine in enumerate(ENGINES)
    )
    devices = ", ".join(
        f"{{name: g{n}, source: {source}, url: 'http://g:{n + 1}/metrics', instance: i0}}"
        for n, source in enumerate(DEVICE_SOURCES)
    )
    config = parse_config(f"deployments: [{{name: a, instances: [{instances}], devices: [{devices}]}}]", Path())
    check(config, PLUGINS)
    assert {PLUGINS.profile(engine).name for engine in ENGINES} >= {"sglang", "vllm", "dynamo", "smg", "vllm_router"}
    assert PLUGINS.profile("sglang_router").name == "smg"


def test_a_page_is_fed_once_for_each_instance_it_serves(fixtures_dir: Path) -> None:
    """One dcgm-exporter, two instances: each gets the devices that its selection names."""
    config = parse_config(
        """
deployments:
- name: a
  instances: [{name: x, engine: vllm, url: 'http://h:1'}, {name: y, engine: vllm, url: 'http://h:2'}]
  devices:
  - name: g
    source: dcgm
    url: http://h:9400/metrics
    serves: [{instance: x, select: {gpu: "0"}}, {instance: y, select: {gpu: "1-3"}}]
""",
        Path(),
    )
    watch = Watch(config, PLUGINS)
    body = "".join(
        f'DCGM_FI_PROF_SM_ACTIVE{{gpu="{gpu}",UUID="GPU-{gpu}"}} {value}\n'
        for gpu, value in enumerate((0.9, 0.1, 0.2, 0.3))
    )
    scrapes = watch.feed("g", PageKind.METRICS, body.encode(), 1000.0)
    assert [s.ok for s in scrapes] == [True, True]
    signals = watch.report(1000.0).deployments[0].signals
    by_instance = {s.scope.name: s.value for s in signals if s.id is SignalId.COMPUTE_UTILIZATION}
    assert by_instance == {"x": pytest.approx(0.9), "y": pytest.approx(0.2)}


def test_a_dynamo_worker_and_what_its_frontend_knows_of_it_are_joined(fixtures_dir: Path, tmp_path: Path) -> None:
    """Decimal at the frontend, hexadecimal at the worker: 11,206 tokens in front of the one prefill worker."""
    only = diagnosed(fixtures_dir / "runs" / "dynamo-prefillbound").deployments[0]
    queue = only.signals.get(SignalId.PREFILL_QUEUE, instance_scope("prefill1"))
    assert queue is not None
    assert queue.value == pytest.approx(6.0, abs=0.1)
    assert "for this worker" in queue.source
    bundle = tmp_path / "stranger"
    shutil.copytree(fixtures_dir / "runs" / "dynamo-prefillbound", bundle)
    for file in (bundle / "samples" / "prefill1").iterdir():
        file.write_text(file.read_text().replace("b14dac8651b4c5b0", "b14dac8651b4c5b1"))
    stranger = diagnosed(bundle).deployments[0].signals.get(SignalId.PREFILL_QUEUE, instance_scope("prefill1"))
    assert stranger is not None
    assert "for this worker" not in stranger.source  # another worker: only its share of all that is pending is known


def test_an_exporter_of_which_nothing_was_recorded_is_silent(bundle: Path) -> None:
    """A scrape that failed leaves no file: a page that is not there at all never came."""
    file = bundle / "pdscope.yml"
    device = "  - {name: gpu-node0, source: dcgm, url: 'http://127.0.0.1:1/metrics', instance: d0}\n"
    file.write_text(f"{file.read_text().rstrip()}\n  devices:\n{device}")
    report = diagnosed(bundle)
    [silent] = silent_sources(report, report.deployments[0])
    assert (silent.target, silent.source, silent.last_success) == ("gpu-node0", "dcgm", None)
    assert report.deployments[0].diagnosis.verdict is Verdict.HEALTHY


def test_a_target_that_is_asked_and_not_tried_yet_is_not_silent(bundle: Path) -> None:
    """Nobody knows yet whether it answers."""
    config = parse_config((bundle / "pdscope.yml").read_text(), bundle)
    watch = Watch(config, PLUGINS)
    watch.feed("d0", PageKind.METRICS, b"", 1000.0, 0.01)
    assert {t.target for t in watch.report(1000.0).targets} == {"d0"}
