"""Where the configuration does not fit what targets answer: told by every diagnosis, from real pages."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from pdscope.config import Config, parse_config
from pdscope.model.finding import Truth, Verdict
from pdscope.model.report import DeploymentReport
from pdscope.model.scrape import FailureReason
from pdscope.model.signal import SignalId, instance_scope
from pdscope.model.topology import Role
from pdscope.runtime.offline import diagnose_bundle
from pdscope.runtime.plugins import load_plugins
from pdscope.runtime.watch import Watch
from pdscope.sources.bundle import PageKind

PLUGINS = load_plugins()
Change = Callable[[str], str]


@pytest.fixture
def judged(fixtures_dir: Path, tmp_path: Path) -> Callable[..., DeploymentReport]:
    """A recorded run under another configuration, and with other pages."""

    def judge(run: str, change: Change, page: Callable[[str], str] | None = None) -> DeploymentReport:
        bundle = tmp_path / run
        shutil.copytree(fixtures_dir / "runs" / run, bundle)
        config = bundle / "pdscope.yml"
        before = config.read_text()
        config.write_text(change(before))
        for file in bundle.rglob("*.prom") if page is not None else ():
            file.write_text(page(file.read_text()))
        return diagnose_bundle(bundle, PLUGINS)[0].deployments[0]

    return judge


def unchanged(text: str) -> str:
    return text


def swapped(text: str) -> str:
    return re.sub("role: (prefill|decode)", lambda m: f"role: {'decode' if m[1] == 'prefill' else 'prefill'}", text)


def without_roles(text: str) -> str:
    return re.sub(r"\n *role: \w+", "", text)


def told(report: DeploymentReport) -> dict[str, str]:
    """By instance, what the true findings of a contradiction show as their evidence."""
    return {
        f.scope.name: f.evidence[0].source
        for f in report.diagnosis.findings
        if f.rule == "engine_setting" and f.truth is Truth.TRUE
    }


@pytest.mark.parametrize("run", ["vllm-transferbound", "vllm-baseline", "dynamo-pd1p2d-bw05", "dynamo-decodebound"])
def test_a_right_configuration_contradicts_nothing(judged: Callable[..., DeploymentReport], run: str) -> None:
    """No finding, and no signal either."""
    report = judged(run, unchanged)
    assert told(report) == {}
    assert not [s for s in report.signals if s.id is SignalId.CONTRADICTIONS]


def test_swapped_roles_of_an_engine_that_states_none(judged: Callable[..., DeploymentReport]) -> None:
    """What vLLM's counters show since its start."""
    report = judged("vllm-transferbound", swapped)
    assert told(report) == {
        "p0": "role: configured is decode, but its counters since its start are of prefill",
        "d0": "role: configured is prefill, but its counters since its start are of decode",
    }
    assert "p0 is not what is configured (role: configured is decode" in report.diagnosis.summary
    assert {r.id for f in report.diagnosis.findings if f.rule == "engine_setting" for r in f.remedies} == {
        "correct_configuration"
    }


def test_swapped_roles_of_an_engine_that_states_them(judged: Callable[..., DeploymentReport]) -> None:
    """Dynamo's pages say them."""
    texts = told(judged("dynamo-decodebound", swapped))
    assert set(texts.values()) == {
        "role: configured is prefill, the page says decode",
        "role: configured is decode, the page says prefill",
    }


def test_swapped_roles_of_sglang_begin_the_summary(fixtures_dir: Path) -> None:
    """Prefill prints no latency, so with the roles swapped nothing can be told, and this is why."""
    watch = fed(
        fixtures_dir,
        "[{name: a, role: decode, engine: sglang, url: 'http://h:1'}, "
        "{name: b, role: prefill, engine: sglang, url: 'http://h:2'}], slo: {ttft_p50: 2s, itl_p50: 50ms}",
        {"a": ["sglang-0.5.23-prefill-t0.prom", "sglang-0.5.23-prefill.prom"], "b": ["sglang-0.5.23-decode.prom"] * 2},
    )
    diagnosis = watch.report(15.0).deployments[0].diagnosis
    assert diagnosis.verdict is Verdict.INSUFFICIENT_DATA
    assert diagnosis.summary.startswith(
        "a is not what is configured (role: configured is decode, the page says prefill)"
    )


def test_a_wrong_engine(judged: Callable[..., DeploymentReport]) -> None:
    """It is told of each instance; TTFT adds up as the configured engine does it."""
    report = judged("vllm-transferbound", lambda text: text.replace("engine: vllm", "engine: sglang"))
    assert set(told(report).values()) == {"engine: configured is sglang, the page is of vllm"}


def test_roles_that_are_left_out_are_those_of_the_counters(judged: Callable[..., DeploymentReport]) -> None:
    """The answer is that of the run with its roles written."""
    report = judged("vllm-transferbound", without_roles)
    assert [(i.name, i.role) for i in report.deployment.instances] == [("p0", Role.PREFILL), ("d0", Role.DECODE)]
    assert report.diagnosis.verdict is Verdict.KV_TRANSFER_BANDWIDTH
    assert told(report) == {}


@pytest.mark.parametrize("name", ["p", "d"])
def test_a_role_is_not_concluded_of_one_side_alone(fixtures_dir: Path, name: str) -> None:
    """An engine alone that gets its prompts from a cache, or is asked for one token, is no half of a hand-over."""
    recorded = f"vllm-0.32.0-nixl-{name}-overload.prom"
    watch = fed(fixtures_dir, "[{name: a, url: 'http://h:1'}]", {"a": [recorded, recorded]})
    assert watch.report(15.0).deployments[0].deployment.instances[0].role is Role.UNIFIED


def test_a_role_that_was_shown_is_kept_through_a_restart(fixtures_dir: Path) -> None:
    """An instance that has done nothing yet is what it was."""
    watch = fed(
        fixtures_dir,
        "[{name: a, url: 'http://h:1'}, {name: b, url: 'http://h:2'}]",
        {"a": ["vllm-0.32.0-nixl-p-overload.prom"] * 2, "b": ["vllm-0.32.0-nixl-d-overload.prom"] * 2},
    )
    roles = [i.role for i in watch.report(15.0).deployments[0].deployment.instances]
    idle = (fixtures_dir / "expositions" / "vllm-0.32.0-nixl-d-idle.prom").read_bytes()
    for at in (30.0, 45.0, 60.0):
        watch.feed("b", PageKind.METRICS, idle, at)
    after = [i.role for i in watch.report(60.0).deployments[0].deployment.instances]
    assert roles == after == [Role.PREFILL, Role.DECODE]


def test_a_few_requests_contradict_no_role(fixtures_dir: Path) -> None:
    """A decode instance that has computed its own warm-up is still one."""
    page = (fixtures_dir / "expositions" / "vllm-0.32.0-light.prom").read_text()
    finished = 'vllm:request_success_total{engine="0",finished_reason="length",model_name="tiny"} '
    assert f"{finished}51.0" in page
    found = {}
    for count in (19, 20):
        watch = Watch(config("[{name: a, role: decode, url: 'http://h:1'}]"), PLUGINS)
        for at in (0.0, 15.0):
            watch.feed("a", PageKind.METRICS, page.replace(f"{finished}51.0", f"{finished}{count}.0").encode(), at)
        found[count] = told(watch.report(15.0).deployments[0])
    assert found == {
        19: {},
        20: {"a": "role: configured is decode, but its counters since its start are of unified"},
    }


def test_dynamo_under_another_prefix(judged: Callable[..., DeploymentReport]) -> None:
    """The summary begins with the variable, not with scrapes that are too few."""
    report = judged("dynamo-decodebound", unchanged, lambda page: page.replace("dynamo_", "acme_"))
    assert report.diagnosis.verdict is Verdict.INSUFFICIENT_DATA
    first = report.diagnosis.summary.partition(";")[0]
    assert "start the program without DYN_METRICS_PREFIX" in first


def test_one_failed_scrape_changes_nothing(fixtures_dir: Path) -> None:
    """What a program is it was before, and three failures are somebody else's to tell."""
    swapped_role = "[{name: a, role: prefill, url: 'http://h:1'}]"
    watch = fed(fixtures_dir, swapped_role, {"a": ["sglang-0.5.23-decode-t0.prom", "sglang-0.5.23-decode.prom"]})
    expected = {"a": "role: configured is prefill, the page says decode"}
    assert told(watch.report(15.0).deployments[0]) == expected
    for at, there in ((30.0, True), (45.0, True), (60.0, False)):
        watch.fail("a", PageKind.METRICS, at, FailureReason.CONNECT, "refused")
        assert (told(watch.report(at).deployments[0]) == expected) is there


# devices


DEVICES = (
    "[{{name: a, role: decode, url: 'http://h:1'}}], "
    "devices: [{{name: g, source: dcgm, url: 'http://h:9/metrics', instance: a, select: {select}}}]"
)


@pytest.mark.parametrize(
    ("select", "page", "text"),
    [
        ("{pod: 'zzz-.*'}", "dcgm_t4_2gpu_fake-gpu-operator.txt", "device g: its select (pod: zzz-.*) fits nothing"),
        ("{gpu: '0'}", "dcgm_t4_2gpu_fake-gpu-operator.txt", None),
        ("{}", "dcgm_t4_2gpu_fake-gpu-operator.txt", None),
        ("{}", "sglang-0.5.23-decode.prom", "device g: configured is source dcgm, its page holds no series of that"),
    ],
)
def test_devices_that_are_not_there(fixtures_dir: Path, select: str, page: str, text: str | None) -> None:
    """Told of the instance that they serve: its device signals are missing because of it."""
    watch = fed(
        fixtures_dir,
        DEVICES.format(select=select),
        {"a": ["sglang-0.5.23-decode-t0.prom", "sglang-0.5.23-decode.prom"], "g": [page, page]},
    )
    report = watch.report(15.0).deployments[0]
    found = report.signals.get(SignalId.CONTRADICTIONS, instance_scope("a"))
    assert (found is None) is (text is None)
    if text is not None:
        assert found is not None
        assert found.source.startswith(text)
        assert told(report) == {"a": found.source}


def config(instances: str) -> Config:
    text = f"window: 15s\nscrape: {{interval: 5s, timeout: 4s}}\ndeployments: [{{name: pd, instances: {instances}}}]\n"
    return parse_config(text, Path())


def fed(fixtures_dir: Path, instances: str, pages: dict[str, list[str]]) -> Watch:
    """A watch that was given these recorded pages, 15 s apart."""
    watch = Watch(config(instances), PLUGINS)
    for target, names in pages.items():
        for turn, name in enumerate(names):
            watch.feed(target, PageKind.METRICS, (fixtures_dir / "expositions" / name).read_bytes(), 15.0 * turn)
    return watch
